//! A repository in memory: commits with real files, which the real renderer reads, and what they are meant to say.

use std::cell::RefCell;
use std::collections::btree_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use gitwork::core::approval::Approval;
use gitwork::core::config::Budgets;
use gitwork::core::departed::{self, Removal};
use gitwork::core::desired::{Desired, Renderer};
use gitwork::core::name::{ClusterName, CommitId, ObjectId, RepoPath, SourceId, WorkKey};
use gitwork::core::plan::{Departed, LastStood};
use gitwork::core::signature::judge::Refusal;
use gitwork::core::snapshot::{Entry, EntryKind, ObjectError, Objects, Snapshot, Tree};
use gitwork::core::work::DeleteOption;
use gitwork::daemon::reader::SourceReader;
use gitwork::source::{Read, ReadError, Spent};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::bugs::Bug;
use super::wall::Hours;
use crate::memory::MemoryObjects;
use crate::simulation::key;
use crate::simulation::world::{CLUSTERS, GitWork, WORKS, folder, manifest};

/// What one commit is meant to say.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    pub works: BTreeMap<WorkKey, GitWork>,
    /// Works, clusters or the whole source, of which a file cannot be read.
    pub broken: BTreeSet<WorkKey>,
    pub broken_clusters: BTreeSet<ClusterName>,
    pub broken_source: bool,
    /// A work that is larger than the hub takes.
    pub huge: BTreeSet<WorkKey>,
    pub budgets: Budgets,
    /// When changes may be made.
    pub hours: Hours,
    pub approved: Vec<Approval>,
}

pub struct Commit {
    pub id: CommitId,
    pub parent: Option<usize>,
    pub signed: bool,
    pub wanted: Wanted,
    root: ObjectId,
    /// What the real renderer makes of it, once somebody has read it.
    desired: Option<Arc<Desired>>,
}

/// A stored work folder, and what it was made of.
#[derive(Clone)]
struct Folder {
    work: GitWork,
    broken: bool,
    huge: bool,
    tree: ObjectId,
}

/// A state of the branch.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    pub at: Instant,
    pub commit: usize,
}

struct State {
    /// One for all who read: it is pure, and it is what costs most.
    renderer: Renderer,
    objects: MemoryObjects,
    /// The folder of each work as it was stored last: most commits change few of them.
    folders: BTreeMap<WorkKey, Folder>,
    /// Git's last words, by the commit that had the work last and the one that removed it.
    last_words: BTreeMap<(usize, usize, WorkKey), Option<LastStood>>,
    commits: Vec<Commit>,
    heads: Vec<Head>,
    /// The server does not answer.
    away: bool,
    /// What gitwork's machine remembers of its record on the hub, beside its mirror.
    moves: Arc<AtomicU64>,
    /// Objects are missing from the mirrors.
    damaged: bool,
    /// Every commit has to be signed.
    signatures: bool,
    /// The last commit that was verified, as gitwork's machine remembers it beside its mirror.
    verified: usize,
}

/// The repository; cloning it gives another hand on it.
#[derive(Clone)]
pub struct Git(Arc<Mutex<State>>);

fn source_file(Wanted { budgets, hours, .. }: &Wanted) -> String {
    let mut fields = serde_json::Map::new();
    for (name, set) in
        [("works", budgets.works), ("percent", budgets.percent), ("cluster", budgets.cluster)]
    {
        fields.extend(set.map(|number| (name.to_owned(), json!(number))));
    }
    json!({ "budgets": fields, "windows": hours.to_value() }).to_string()
}

fn work_file(work: &GitWork) -> Option<String> {
    let mut fields = serde_json::Map::new();
    if !work.labels.is_empty() {
        fields.insert("labels".into(), json!(work.labels));
    }
    if work.delete_option != DeleteOption::Foreground {
        fields.insert("deleteOption".into(), work.delete_option.to_value(None));
    }
    if !work.prune {
        fields.insert("prune".into(), false.into());
    }
    if work.suspend {
        fields.insert("suspend".into(), true.into());
    }
    (!fields.is_empty()).then(|| Value::Object(fields).to_string())
}

/// The manifests of a work, in the order in which they are rendered.
pub fn manifests(key: &WorkKey, work: &GitWork) -> Vec<Value> {
    work.objects.iter().map(|name| manifest(key, name, &work.text)).collect()
}

impl Wanted {
    /// Every work that a world may have.
    pub fn all() -> Self {
        let keys = CLUSTERS.into_iter().flat_map(|cluster| WORKS.map(|work| key(cluster, work)));
        Self { works: keys.map(|key| (key, GitWork::default())).collect(), ..Self::default() }
    }

    /// The files of one work.
    fn work_files(&self, key: &WorkKey, work: &GitWork) -> Vec<(String, String)> {
        let mut files = Vec::new();
        for (name, manifest) in work.objects.iter().zip(manifests(key, work)) {
            let mut text = manifest.to_string();
            if self.broken.contains(key) {
                text.pop();
            } else if self.huge.contains(key) {
                let filler = "x".repeat(620 * 1024 / work.objects.len());
                text = text.replace(&work.text, &filler);
            }
            files.push((format!("{name}.json"), text));
        }
        files.extend(work_file(work).map(|text| ("work.yaml".into(), text)));
        files
    }

    fn source_file(&self) -> String {
        if self.broken_source { "budgets: [".into() } else { source_file(self) }
    }

    /// What is there, for whoever reads the trace of a failure.
    pub fn tell(&self) -> String {
        let works = self.works.iter().map(|(key, work)| {
            let how = if self.freezes(key) { " (unreadable)" } else { "" };
            let prune = if work.prune { "" } else { " (not pruned)" };
            format!("{key}{how}{prune}")
        });
        works.collect::<Vec<_>>().join(", ")
    }

    /// Whether it cannot be told what the commit says of a work.
    pub fn freezes(&self, key: &WorkKey) -> bool {
        self.broken_source
            || self.broken_clusters.contains(&key.cluster)
            || (self.works.contains_key(key)
                && (self.broken.contains(key) || self.huge.contains(key)))
    }

    /// The work, where it is there and can be read.
    pub fn readable(&self, key: &WorkKey) -> Option<&GitWork> {
        self.works.get(key).filter(|_| !self.freezes(key))
    }

    pub fn mend(&mut self) {
        self.broken.clear();
        self.broken_clusters.clear();
        self.broken_source = false;
        self.huge.clear();
        self.works.values_mut().for_each(|work| work.suspend = false);
    }
}

fn commit_id(number: usize) -> CommitId {
    let mut id = ObjectId([0; 20]);
    id.0[..8].copy_from_slice(&(number as u64 + 1).to_be_bytes());
    id
}

thread_local! {
    /// For each source, a repository with what every world begins with, stored and rendered.
    static WARM: RefCell<BTreeMap<SourceId, Git>> = const { RefCell::new(BTreeMap::new()) };
}

impl Git {
    /// An empty repository.
    pub fn new(id: &SourceId) -> Self {
        WARM.with_borrow_mut(|warm| {
            let warm = warm.entry(id.clone()).or_insert_with(|| {
                let empty =
                    Self::on(Renderer::new(id.clone()), Default::default(), BTreeMap::new());
                empty.push(Wanted::all());
                empty.source(id, 0, None).look().unwrap();
                empty
            });
            let warm = warm.lock();
            Self::on(warm.renderer.clone(), warm.objects.clone(), warm.folders.clone())
        })
    }

    fn on(renderer: Renderer, objects: MemoryObjects, folders: BTreeMap<WorkKey, Folder>) -> Self {
        let state = State {
            renderer,
            objects,
            folders,
            last_words: BTreeMap::new(),
            commits: Vec::new(),
            heads: Vec::new(),
            away: false,
            moves: Arc::default(),
            damaged: false,
            signatures: false,
            verified: 0,
        };
        let git = Self(Arc::new(Mutex::new(state)));
        git.push(Wanted::default());
        git
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The commit that the branch is at, and what it says.
    pub fn head(&self) -> (usize, Wanted) {
        let state = self.lock();
        let head = state.heads.last().map_or(0, |head| head.commit);
        (head, state.commits[head].wanted.clone())
    }

    /// Commits on top of the branch.
    pub fn push(&self, wanted: Wanted) {
        self.commit(wanted, true);
    }

    /// As `push`, by somebody whose signature counts or not.
    pub fn commit(&self, wanted: Wanted, signed: bool) {
        let mut state = self.lock();
        let parent = state.heads.last().map(|head| head.commit);
        let root = state.add(&wanted);
        let id = commit_id(state.commits.len());
        state.commits.push(Commit { id, parent, signed, wanted, root, desired: None });
        let commit = state.commits.len() - 1;
        state.heads.push(Head { at: Instant::now(), commit });
    }

    /// Moves the branch to a commit, whatever it was at before.
    pub fn set_head(&self, commit: usize) {
        self.lock().heads.push(Head { at: Instant::now(), commit });
    }

    /// From now on every commit has to be signed.
    pub fn ask_for_signatures(&self) {
        self.lock().signatures = true;
    }

    /// Takes commits that are not signed, and all on top of them, off the branch.
    pub fn drop_unsigned(&self) {
        let mut state = self.lock();
        let head = state.heads.last().map_or(0, |head| head.commit);
        let trusted = ancestry(&state.commits, head).find(|it| is_trusted(&state.commits, *it));
        if let Some(commit) = trusted.filter(|commit| *commit != head) {
            state.heads.push(Head { at: Instant::now(), commit });
        }
    }

    pub fn set_away(&self, away: bool) {
        self.lock().away = away;
    }

    pub fn set_damaged(&self, damaged: bool) {
        self.lock().damaged = damaged;
    }

    /// Looks at all commits and at where the branch was.
    pub fn with<T>(&self, look: impl FnOnce(&[Commit], &[Head]) -> T) -> T {
        let state = self.lock();
        look(&state.commits, &state.heads)
    }

    /// A source that reads this repository.
    pub fn source(&self, id: &SourceId, seed: u64, bug: Option<Bug>) -> SimulatedSource {
        SimulatedSource {
            id: id.clone(),
            git: self.clone(),
            last: None,
            random: fastrand::Rng::with_seed(seed),
            reads: Arc::default(),
            patient: true,
            moves: self.lock().moves.clone(),
            bug,
        }
    }
}

fn blob(objects: &mut MemoryObjects, text: impl Into<Vec<u8>>) -> Entry {
    Entry { kind: EntryKind::Blob, id: objects.add_blob(text.into()) }
}

fn tree(objects: &mut MemoryObjects, tree: Tree) -> Entry {
    Entry { kind: EntryKind::Tree, id: objects.add_tree(tree) }
}

impl State {
    /// Stores the files of a commit.
    fn add(&mut self, wanted: &Wanted) -> ObjectId {
        let mut clusters: BTreeMap<&str, Tree> = BTreeMap::new();
        for (key, work) in &wanted.works {
            let entry = Entry { kind: EntryKind::Tree, id: self.folder(wanted, key, work) };
            clusters.entry(key.cluster.as_str()).or_default().insert(key.work.to_string(), entry);
        }
        let objects = &mut self.objects;
        for cluster in &wanted.broken_clusters {
            let file = blob(objects, "labels: [");
            let cluster = clusters.entry(cluster.as_str()).or_default();
            cluster.insert("cluster.yaml".into(), file);
        }
        let mut all: Tree = clusters
            .into_iter()
            .map(|(name, cluster)| (name.to_owned(), tree(objects, cluster)))
            .collect();
        all.insert("README.md".into(), blob(objects, "The fleet."));
        let mut top = Tree::new();
        top.insert("gitwork.yaml".into(), blob(objects, wanted.source_file()));
        top.insert("clusters".into(), tree(objects, all));
        if !wanted.approved.is_empty() {
            let approvals = wanted
                .approved
                .iter()
                .map(|approval| (approval.hash().to_string(), blob(objects, approval.text())));
            let approvals: Tree = approvals.collect();
            top.insert("approvals".into(), tree(objects, approvals));
        }
        objects.add_tree(top)
    }

    fn folder(&mut self, wanted: &Wanted, key: &WorkKey, work: &GitWork) -> ObjectId {
        let (broken, huge) = (wanted.broken.contains(key), wanted.huge.contains(key));
        let same = |folder: &&Folder| {
            folder.work == *work && folder.broken == broken && folder.huge == huge
        };
        if let Some(folder) = self.folders.get(key).filter(same) {
            return folder.tree;
        }
        let mut entries = Tree::new();
        for (name, text) in wanted.work_files(key, work) {
            entries.insert(name, blob(&mut self.objects, text));
        }
        let tree = self.objects.add_tree(entries);
        self.folders.insert(key.clone(), Folder { work: work.clone(), broken, huge, tree });
        tree
    }

    /// Git's last word on a work that a commit removed, as gitwork reads it.
    fn last_stood(
        &mut self,
        id: &SourceId,
        key: &WorkKey,
        folder: &RepoPath,
        (last_in, removed_by): (usize, usize),
    ) -> Result<Option<LastStood>, ObjectError> {
        let asked = (last_in, removed_by, key.clone());
        if let Some(word) = self.last_words.get(&asked) {
            return Ok(word.clone());
        }
        let removal = Removal {
            key,
            folder,
            removed_by: self.commits[removed_by].id,
            before: self.commits[last_in].root,
            after: Some(self.commits[removed_by].root),
            objects: &self.objects as &dyn Objects,
        };
        let word = departed::last_stood(id, &removal)?;
        self.last_words.insert(asked, word.clone());
        Ok(word)
    }

    /// The newest commit of the branch that may be applied, and why that is not its head: what verification answers.
    fn verify(&mut self, head: usize) -> (usize, Option<Arc<Refusal>>) {
        if !self.signatures {
            return (head, None);
        }
        let known: BTreeSet<usize> = ancestry(&self.commits, self.verified).collect();
        let mut new: Vec<usize> = ancestry(&self.commits, head).collect();
        new.reverse();
        let builds_on = new.contains(&self.verified);
        new.retain(|commit| !known.contains(commit));
        let Some(at) = new.iter().position(|commit| !self.commits[*commit].signed) else {
            self.verified = head;
            return (head, None);
        };
        if let (true, Some(before)) = (builds_on, at.checked_sub(1)) {
            self.verified = new[before];
        }
        let refusal = Refusal {
            head: self.commits[head].id,
            commit: self.commits[new[at]].id,
            rule: "signers.verify: commits".into(),
            key: None,
            why: "it is not signed".into(),
            advice: "sign it".into(),
            is_final: true,
        };
        (self.verified, Some(Arc::new(refusal)))
    }

    fn render(&mut self, number: usize) -> Result<Arc<Desired>, ObjectError> {
        let commit = &mut self.commits[number];
        if let Some(desired) = &commit.desired {
            return Ok(desired.clone());
        }
        let (id, root, objects) = (commit.id, commit.root, &self.objects);
        let desired = self.renderer.render(&Snapshot { commit: Some(id), root, objects })?;
        Ok(commit.desired.insert(Arc::new(desired)).clone())
    }
}

/// When an engine has read which commit.
pub type Reads = Arc<Mutex<Vec<(Instant, usize)>>>;

pub struct SimulatedSource {
    id: SourceId,
    git: Git,
    last: Option<(usize, Read)>,
    random: fastrand::Rng,
    pub reads: Reads,
    /// What the machine remembers of the record on the hub.
    moves: Arc<AtomicU64>,
    /// Calls take their time.
    pub patient: bool,
    bug: Option<Bug>,
}

fn missing(id: CommitId) -> ReadError {
    ReadError::Objects(ObjectError::Missing(id))
}

impl SimulatedSource {
    /// A look at the branch, with the objects whose history is asked for.
    pub fn look(&mut self) -> Result<Read, ReadError> {
        let git = self.git.clone();
        let mut state = git.lock();
        let branch = state.heads.last().map_or(0, |head| head.commit);
        if state.away {
            return Err(missing(state.commits[branch].id));
        }
        let (head, refused) = match self.bug {
            Some(Bug::UnverifiedFollowed) => (branch, None),
            _ => state.verify(branch),
        };
        let (id, root) = (state.commits[head].id, state.commits[head].root);
        if let Some((last, read)) = &self.last
            && *last == head
        {
            self.reads.lock().unwrap().push((Instant::now(), head));
            return Ok(Read { refused, ..read.clone() });
        }
        if state.damaged {
            return Err(missing(id));
        }
        let mut desired = state.render(head)?;
        if let Some(bug) = self.bug {
            bug.spoil_desired(Arc::make_mut(&mut desired));
        }
        let read = Read {
            desired,
            name: "main".into(),
            committed_seconds: None,
            spent: Spent::default(),
            refused,
            root,
        };
        self.last = Some((head, read.clone()));
        self.reads.lock().unwrap().push((Instant::now(), head));
        Ok(read)
    }
}

fn is_ancestor(commits: &[Commit], ancestor: usize, head: usize) -> bool {
    ancestry(commits, head).any(|commit| commit == ancestor)
}

/// A commit and all before it, the newest first.
pub fn ancestry(commits: &[Commit], head: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(head), |commit| commits[*commit].parent)
}

/// Whether the commit and all before it are signed.
pub fn is_trusted(commits: &[Commit], commit: usize) -> bool {
    ancestry(commits, commit).all(|it| commits[it].signed)
}

/// The last commit before `head` that had the folder, with the one that removed it.
pub fn removal(commits: &[Commit], head: usize, key: &WorkKey) -> Option<(usize, usize)> {
    let mut after = head;
    for commit in ancestry(commits, head) {
        if commits[commit].wanted.works.contains_key(key) {
            return (commit != head).then_some((commit, after));
        }
        after = commit;
    }
    None
}

pub fn number(commits: &[Commit], id: CommitId) -> Option<usize> {
    let number = u64::from_be_bytes(id.0[..8].try_into().ok()?).checked_sub(1)? as usize;
    commits.get(number).filter(|commit| commit.id == id).map(|_| number)
}

impl SourceReader for SimulatedSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn read(&mut self, _cancel: &Arc<AtomicBool>) -> Result<Read, ReadError> {
        self.look()
    }

    fn departed(
        &self,
        desired: &Desired,
        candidates: &[(WorkKey, RepoPath)],
        _cancel: &AtomicBool,
    ) -> Result<Departed, ReadError> {
        let mut state = self.git.lock();
        let Some(head) = desired.commit.and_then(|id| number(&state.commits, id)) else {
            return Ok(Departed::new());
        };
        if self.bug == Some(Bug::HistoryNotAsked) {
            return Ok(Departed::new());
        }
        if state.damaged {
            return Err(missing(state.commits[head].id));
        }
        let mut found = Departed::new();
        let mut brought: BTreeMap<usize, Arc<BTreeSet<WorkKey>>> = BTreeMap::new();
        for (key, path) in candidates {
            if *path != folder(key) {
                continue;
            }
            let Some(removal) = removal(&state.commits, head, key) else { continue };
            if let Some(mut word) = state.last_stood(&self.id, key, path, removal)? {
                word.brought = Some(match brought.entry(removal.0) {
                    Occupied(known) => known.get().clone(),
                    Vacant(place) => {
                        let before = state.commits[removal.0].root;
                        let new = departed::brought(desired, before, &state.objects)?;
                        place.insert(Arc::new(new)).clone()
                    }
                });
                found.insert(key.clone(), word);
            }
        }
        Ok(found)
    }

    fn last_changed(
        &self,
        head: CommitId,
        folders: &BTreeSet<RepoPath>,
        _cancel: &AtomicBool,
    ) -> Result<BTreeMap<RepoPath, CommitId>, ReadError> {
        Ok(folders.iter().map(|folder| (folder.clone(), head)).collect())
    }

    fn unreached(
        &self,
        head: CommitId,
        commits: &BTreeSet<CommitId>,
        _cancel: &AtomicBool,
    ) -> Result<BTreeSet<CommitId>, ReadError> {
        let state = self.git.lock();
        let head = number(&state.commits, head).ok_or_else(|| missing(head))?;
        let reached = |id: &CommitId| {
            number(&state.commits, *id).is_some_and(|it| is_ancestor(&state.commits, it, head))
        };
        Ok(commits.iter().filter(|id| !reached(id)).copied().collect())
    }

    fn known_moves(&self) -> u64 {
        self.moves.load(Ordering::Relaxed)
    }

    fn remember_moves(&self, moves: u64) -> std::io::Result<()> {
        self.moves.store(moves, Ordering::Relaxed);
        Ok(())
    }

    fn latency(&mut self) -> Option<Duration> {
        let most = if self.patient { 4_000 } else { 1 };
        Some(Duration::from_millis(self.random.u64(..most)))
    }
}
