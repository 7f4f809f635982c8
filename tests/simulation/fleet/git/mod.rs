//! A repository in memory. Its commits have real files, which the real renderer reads, and the
//! checkers know the intended content of each commit.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

use gitwork_core::model::name::{CommitId, ObjectId, RepoPath, SourceId, WorkKey};
use gitwork_core::model::snapshot::{Entry, EntryKind, ObjectError, Objects, Snapshot, Tree};
use gitwork_core::plan::folder_removal::FolderRemoval;
use gitwork_core::plan::{LastKnownState, folder_removal};
use gitwork_core::render::desired::Desired;
use gitwork_core::render::renderer::Renderer;
use gitwork_core::signature::verification::VerificationFailure;
use tokio::time::Instant;

use crate::fleet::bugs::Bug;
use crate::git_work::GitWork;
use crate::memory_repository::MemoryObjects;

mod content;
mod history;
mod source;

pub use content::CommitContent;
pub use history::{ancestry, is_trusted, number, removal};
pub use source::{ReadLog, SimulatedSource};

pub struct Commit {
    pub id: CommitId,
    pub parent: Option<usize>,
    pub signed: bool,
    pub content: CommitContent,
    root: ObjectId,
    /// The result of the real renderer, once a process has read the commit.
    desired: Option<Arc<Desired>>,
}

/// A stored work folder, with its input.
#[derive(Clone)]
struct Folder {
    work: GitWork,
    /// Whether it is broken, broken beside its manifests, or huge.
    damage: [bool; 3],
    tree: ObjectId,
}

/// A state of the branch.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    pub at: Instant,
    pub commit: usize,
}

struct State {
    /// Shared by all readers: it is pure and takes most of the time.
    renderer: Renderer,
    objects: MemoryObjects,
    /// The folder of each work as stored last. Most commits change few of them.
    folders: BTreeMap<WorkKey, Folder>,
    /// The final state of each removed work, by the last commit that had it and the commit that
    /// removed it.
    final_states: BTreeMap<(usize, usize, WorkKey), Option<LastKnownState>>,
    commits: Vec<Commit>,
    heads: Vec<Head>,
    /// The server does not respond.
    away: bool,
    /// The record generation that gitwork's machine stores beside its mirror.
    generation: Arc<AtomicU64>,
    /// Objects are missing from the mirrors.
    damaged: bool,
    /// Every commit must be signed.
    signatures: bool,
    /// The last verified commit that gitwork's machine stores beside its mirror.
    verified: usize,
}

/// The repository. Clones share their state.
#[derive(Clone)]
pub struct Git(Arc<Mutex<State>>);

fn commit_id(number: usize) -> CommitId {
    let mut id = ObjectId([0; 20]);
    id.0[..8].copy_from_slice(&(number as u64 + 1).to_be_bytes());
    id
}

thread_local! {
    /// For each source, a repository with the first works, stored and rendered.
    static WARM: RefCell<BTreeMap<SourceId, Git>> = const { RefCell::new(BTreeMap::new()) };
}

impl Git {
    /// An empty repository.
    pub fn new(id: &SourceId) -> Self {
        WARM.with_borrow_mut(|warm| {
            let warm = warm.entry(id.clone()).or_insert_with(|| {
                let empty =
                    Self::on(Renderer::new(id.clone()), Default::default(), BTreeMap::new());
                empty.push(CommitContent::all());
                empty.source(id, 0, None).read_branch().unwrap();
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
            final_states: BTreeMap::new(),
            commits: Vec::new(),
            heads: Vec::new(),
            away: false,
            generation: Arc::default(),
            damaged: false,
            signatures: false,
            verified: 0,
        };
        let git = Self(Arc::new(Mutex::new(state)));
        git.push(CommitContent::default());
        git
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The commit of the branch, and its content.
    pub fn head(&self) -> (usize, CommitContent) {
        let state = self.lock();
        let head = state.heads.last().map_or(0, |head| head.commit);
        (head, state.commits[head].content.clone())
    }

    /// The work as the branch has it or had it last.
    pub fn last_work(&self, key: &WorkKey) -> Option<GitWork> {
        let (head, _) = self.head();
        let state = self.lock();
        let mut commits = ancestry(&state.commits, head);
        commits.find_map(|commit| state.commits[commit].content.works.get(key).cloned())
    }

    /// Adds a commit to the branch.
    pub fn push(&self, content: CommitContent) {
        self.commit(content, true);
    }

    /// Adds a commit to the branch, signed by a trusted key or not.
    pub fn commit(&self, content: CommitContent, signed: bool) {
        let mut state = self.lock();
        let parent = state.heads.last().map(|head| head.commit);
        let root = state.add(&content);
        let id = commit_id(state.commits.len());
        state.commits.push(Commit { id, parent, signed, content, root, desired: None });
        let commit = state.commits.len() - 1;
        state.heads.push(Head { at: Instant::now(), commit });
    }

    /// Moves the branch to a commit.
    pub fn set_head(&self, commit: usize) {
        self.lock().heads.push(Head { at: Instant::now(), commit });
    }

    /// Requires that every commit is signed.
    pub fn ask_for_signatures(&self) {
        self.lock().signatures = true;
    }

    /// Moves the branch back to the last commit without an unsigned ancestor.
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

    /// Passes all commits and branch states to `read`.
    pub fn with<T>(&self, read: impl FnOnce(&[Commit], &[Head]) -> T) -> T {
        let state = self.lock();
        read(&state.commits, &state.heads)
    }

    /// A source that reads this repository.
    pub fn source(&self, id: &SourceId, seed: u64, bug: Option<Bug>) -> SimulatedSource {
        SimulatedSource {
            id: id.clone(),
            git: self.clone(),
            last: None,
            random: fastrand::Rng::with_seed(seed),
            reads: Arc::default(),
            has_latency: true,
            generation: self.lock().generation.clone(),
            bug,
            has_base: false,
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
    fn add(&mut self, content: &CommitContent) -> ObjectId {
        let mut clusters: BTreeMap<&str, Tree> = BTreeMap::new();
        for (key, work) in &content.works {
            let entry = Entry { kind: EntryKind::Tree, id: self.folder(content, key, work) };
            clusters.entry(key.cluster.as_str()).or_default().insert(key.work.to_string(), entry);
        }
        let objects = &mut self.objects;
        for cluster in &content.broken_clusters {
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
        top.insert("gitwork.yaml".into(), blob(objects, content.source_file()));
        top.insert("clusters".into(), tree(objects, all));
        if !content.approved.is_empty() {
            let approvals = content
                .approved
                .iter()
                .map(|approval| (approval.hash().to_string(), blob(objects, approval.text())));
            let approvals: Tree = approvals.collect();
            top.insert("approvals".into(), tree(objects, approvals));
        }
        objects.add_tree(top)
    }

    fn folder(&mut self, content: &CommitContent, key: &WorkKey, work: &GitWork) -> ObjectId {
        let damage =
            [&content.broken, &content.broken_beside, &content.huge].map(|all| all.contains(key));
        let same = |folder: &&Folder| folder.work == *work && folder.damage == damage;
        if let Some(folder) = self.folders.get(key).filter(same) {
            return folder.tree;
        }
        let mut entries = Tree::new();
        for (name, text) in content.work_files(key, work) {
            entries.insert(name, blob(&mut self.objects, text));
        }
        let tree = self.objects.add_tree(entries);
        self.folders.insert(key.clone(), Folder { work: work.clone(), damage, tree });
        tree
    }

    /// The final state of a work that a commit removed, as gitwork reads it.
    fn last_known_state(
        &mut self,
        id: &SourceId,
        key: &WorkKey,
        folder: &RepoPath,
        (last_in, removed_by): (usize, usize),
    ) -> Result<Option<LastKnownState>, ObjectError> {
        let asked = (last_in, removed_by, key.clone());
        if let Some(last_state) = self.final_states.get(&asked) {
            return Ok(last_state.clone());
        }
        let removal = FolderRemoval {
            key,
            folder,
            removed_by: self.commits[removed_by].id,
            before: self.commits[last_in].root,
            after: Some(self.commits[removed_by].root),
            objects: &self.objects as &dyn Objects,
            facts: None,
        };
        let last_state = folder_removal::last_known_state(id, &removal)?;
        self.final_states.insert(asked, last_state.clone());
        Ok(last_state)
    }

    /// The newest verified commit of the branch and, if it is not the head, the verification
    /// failure.
    fn verify(&mut self, head: usize) -> (usize, Option<Arc<VerificationFailure>>) {
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
        let failure = VerificationFailure {
            head: self.commits[head].id,
            commit: self.commits[new[at]].id,
            rule: "signers.verify: commits".into(),
            key: None,
            why: "it is not signed".into(),
            advice: "sign it".into(),
            is_final: true,
        };
        (self.verified, Some(Arc::new(failure)))
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
