//! A repository with groups, in memory, and the source of a process, which reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use gitwork_core::model::approval::{RolloutApproval, RolloutStep};
use gitwork_core::model::digest::Digest;
use gitwork_core::model::facts::Facts;
use gitwork_core::model::name::{ClusterName, CommitId, GroupName, RepoPath, SourceId, WorkKey};
use gitwork_core::model::snapshot::ObjectError;
use gitwork_core::plan::LastKnownStates;
use gitwork_core::render::desired::Desired;
use gitwork_core::render::renderer::Renderer;
use gitwork_core::rollout::earlier::EarlierContents;
use gitwork_daemon::reader::SourceReader;
use gitwork_source::{SourceReadError, SourceState, Spent, StateFileError};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{BASE, DEPENDENT, GROUPS, NAMESPACE, PLACEMENT, ROLE, SITE};
use crate::commits::{Branch, Removals, commit_id};
use crate::fleet::bugs::Bug;
use crate::fleet::git::ReadLog;
use crate::git_work::manifest;
use crate::memory_repository::File;
use crate::world::CLUSTERS;

/// The waves of the labelled group, of one cluster each. The last wave has the other clusters.
pub const WAVES: [&str; 2] = ["first", APPROVED_WAVE];
/// The wave that needs an approval.
pub const APPROVED_WAVE: &str = "second";
/// How long the cluster of the first wave has to be healthy.
pub const SOAK: Duration = Duration::from_secs(60);
/// How long a cluster may take in some of the worlds, in minutes.
const DEADLINE_MINUTES: u32 = 20;

/// The text of each work in Git.
pub type Texts = BTreeMap<&'static str, String>;

#[derive(Default)]
struct State {
    branch: Branch,
    /// The works of each commit.
    texts: Vec<Texts>,
    /// The server does not respond.
    away: bool,
    /// The record generation that gitwork's machine stores.
    generation: Arc<AtomicU64>,
    /// Whether changes reach the clusters in waves.
    has_rollouts: bool,
    /// The content of the labelled group at the commit that was rendered last.
    content: Option<Digest>,
    /// The commits that the contents of groups were rendered of.
    contents: BTreeMap<Digest, usize>,
    /// The clusters that were in the labelled group when it was rendered last.
    members: BTreeSet<ClusterName>,
    /// What operators approved.
    approved: BTreeSet<RolloutApproval>,
}

/// The repository. Clones share their state.
#[derive(Clone, Default)]
pub struct GroupRepository(Arc<Mutex<State>>);

/// The text of a work's manifest on one cluster.
pub fn text_on(text: &str, cluster: &str, site: &str) -> String {
    format!("{text} on {cluster} at {site}")
}

/// The name of the second object of a work, which some texts have. It leaves with one of the next
/// texts.
pub fn second_object(work: &str, text: &str) -> Option<String> {
    let number: u32 = text.split(' ').nth(1)?.parse().ok()?;
    (number % 4 < 2).then(|| format!("{work}-{}", number / 8))
}

fn folder(group: &str, work: &str) -> RepoPath {
    RepoPath::parse(&format!("groups/{group}/{work}")).unwrap()
}

/// `rollout` of both groups.
fn rollouts() -> [Value; 2] {
    let deadline = format!("{DEADLINE_MINUTES}m");
    let [first, second] = WAVES;
    let first = json!({"name": first, "clusters": [CLUSTERS[0]], "soak": "60s"});
    let second = json!({"name": second, "clusters": [CLUSTERS[1]], "approval": "required"});
    let progressive = json!({"maxConcurrency": 1, "progressDeadline": "5m"});
    [
        json!({"waves": [first, second], "progressDeadline": deadline, "onFailure": "return"}),
        json!({"type": "Progressive", "progressive": progressive}),
    ]
}

fn files(texts: &Texts, has_rollouts: bool) -> BTreeMap<String, File> {
    let mut selector = json!({"selector": {"labelSelector": {"matchLabels": {ROLE: ROLE}}}});
    let mut placement = json!({"placement": {"name": PLACEMENT, "namespace": NAMESPACE}});
    if has_rollouts {
        [selector["rollout"], placement["rollout"]] = rollouts();
    }
    let mut files = BTreeMap::from([("README.md".to_owned(), File::from("The fleet."))]);
    let mut add = |path: String, text: String| files.insert(path, File::from(text.as_str()));
    for ((group, works), file) in GROUPS.into_iter().zip([selector, placement]) {
        add(format!("groups/{group}/group.yaml"), file.to_string());
        for work in works.iter().filter(|work| texts.contains_key(*work)) {
            let folder = folder(group, work);
            let site = format!("${{cluster.labels[\"{SITE}\"]}}");
            let text = text_on(&texts[work], "${cluster.name}", &site);
            add(format!("{folder}/config.yaml"), manifest(work, &text).to_string());
            if let Some(second) = second_object(work, &texts[work]).filter(|_| has_rollouts) {
                add(format!("{folder}/second.yaml"), manifest(&second, &text).to_string());
            }
            let mut settings = json!({"substitute": true});
            if *work == DEPENDENT && texts.contains_key(BASE) {
                settings["dependsOn"] = json!([BASE]);
            }
            add(format!("{folder}/work.yaml"), settings.to_string());
        }
    }
    files
}

impl GroupRepository {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Adds a commit to the branch.
    pub fn push(&self, texts: Texts) {
        let mut state = self.lock();
        let files = files(&texts, state.has_rollouts);
        state.branch.push(&files);
        state.texts.push(texts);
    }

    /// The works of a commit; nothing before the first one.
    pub fn texts(&self, commit: usize) -> Texts {
        self.lock().texts.get(commit).cloned().unwrap_or_default()
    }

    /// The works of the first commit that had a content of a group.
    pub fn texts_with(&self, content: Digest) -> Option<Texts> {
        let state = self.lock();
        Some(state.texts[*state.contents.get(&content)?].clone())
    }

    /// The works of all commits.
    pub fn all_texts(&self) -> Vec<Texts> {
        self.lock().texts.clone()
    }

    /// The works of the branch.
    pub fn head(&self) -> Texts {
        self.lock().texts.last().cloned().unwrap_or_default()
    }

    /// Changes reach the clusters in waves from now on.
    pub fn use_rollouts(&self) {
        self.lock().has_rollouts = true;
    }

    pub fn has_rollouts(&self) -> bool {
        self.lock().has_rollouts
    }

    /// An operator approves [`APPROVED_WAVE`] for what was rendered last.
    pub fn approve(&self) -> Option<RolloutApproval> {
        let mut state = self.lock();
        let (group, step) = (GroupName::parse(GROUPS[0].0).unwrap(), APPROVED_WAVE.to_owned());
        let step = RolloutStep::Wave(step);
        let approval = RolloutApproval { group, content: state.content?, step };
        state.approved.insert(approval.clone());
        Some(approval)
    }

    pub fn set_away(&self, away: bool) {
        self.lock().away = away;
    }

    /// A source that reads this repository.
    pub fn source(&self, id: &SourceId, seed: u64, bug: Option<Bug>) -> GroupSource {
        GroupSource {
            id: id.clone(),
            repository: self.clone(),
            renderer: Renderer::new(id.clone()),
            facts: None,
            random: fastrand::Rng::with_seed(seed),
            reads: Arc::default(),
            generation: self.lock().generation.clone(),
            bug,
        }
    }
}

pub struct GroupSource {
    id: SourceId,
    repository: GroupRepository,
    renderer: Renderer,
    facts: Option<Arc<Facts>>,
    random: fastrand::Rng,
    pub reads: ReadLog,
    generation: Arc<AtomicU64>,
    bug: Option<Bug>,
}

fn missing(id: CommitId) -> SourceReadError {
    SourceReadError::Objects(ObjectError::Missing(id))
}

/// Gives all members of a group the content of the first one.
fn mix_values(desired: &mut Desired) {
    let mut first = BTreeMap::new();
    for work in desired.works.values_mut() {
        let body = first.entry(work.path.clone()).or_insert_with(|| work.body.clone());
        Arc::make_mut(work).body = body.clone();
    }
}

impl GroupSource {
    fn render(&mut self) -> Result<SourceState, SourceReadError> {
        let repository = self.repository.clone();
        let mut state = repository.lock();
        let head = state.branch.head();
        if state.away {
            return Err(missing(commit_id(head)));
        }
        let snapshot = state.branch.snapshot(head);
        let (root, mut desired) = (snapshot.root, self.renderer.render(&snapshot)?);
        match self.bug {
            Some(Bug::ValuesOfOtherCluster) => mix_values(&mut desired),
            Some(Bug::DependentBeforeDependency) => {
                let works = desired.works.values_mut().map(Arc::make_mut);
                works.for_each(|work| work.depends_on = Default::default());
            }
            _ => {}
        }
        for rollout in desired.rollouts.values() {
            state.contents.entry(rollout.content).or_insert(head);
        }
        let group = GroupName::parse(GROUPS[0].0).unwrap();
        if let Some(rollout) = desired.rollouts.get(&group) {
            let members: BTreeSet<ClusterName> = rollout.members.keys().cloned().collect();
            let joined: BTreeSet<ClusterName> =
                members.difference(&state.members).cloned().collect();
            (state.content, state.members) = (Some(rollout.content), members);
            if let Some(bug) = self.bug {
                bug.spoil_rollouts(&mut desired, &joined, &state.approved);
            }
        }
        self.reads.lock().unwrap().push((Instant::now(), head));
        Ok(SourceState {
            desired: Arc::new(desired),
            name: "main".into(),
            committed_seconds: None,
            spent: Spent::default(),
            verification_failure: None,
            is_signed: false,
            root,
            change: None,
        })
    }
}

impl SourceReader for GroupSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn read(
        &mut self,
        _age_max: Duration,
        _cancel: &Arc<AtomicBool>,
    ) -> Result<SourceState, SourceReadError> {
        self.render()
    }

    fn set_facts(&mut self, facts: Arc<Facts>) {
        self.renderer.set_facts(Some(facts.clone()));
        self.facts = Some(facts);
    }

    fn set_earlier(&mut self, contents: Arc<EarlierContents>) {
        let roots = self.repository.lock().branch.roots_of(&contents);
        self.renderer.set_earlier(contents, roots);
    }

    fn last_known_states(
        &self,
        desired: &Desired,
        candidates: &[(WorkKey, RepoPath)],
        _applied: &[CommitId],
        _cancel: &AtomicBool,
    ) -> Result<LastKnownStates, SourceReadError> {
        let branch = &self.repository.lock().branch;
        let (found_in, removals) = ((desired, self.facts.as_ref()), &mut Removals::default());
        branch.last_known_states(&self.id, found_in, candidates, removals)
    }

    fn last_changed(
        &self,
        head: CommitId,
        folders: &BTreeSet<RepoPath>,
        _cancel: &AtomicBool,
    ) -> Result<BTreeMap<RepoPath, CommitId>, SourceReadError> {
        Ok(folders.iter().map(|folder| (folder.clone(), head)).collect())
    }

    fn unreached(
        &self,
        head: CommitId,
        commits: &BTreeSet<CommitId>,
        _cancel: &AtomicBool,
    ) -> Result<BTreeSet<CommitId>, SourceReadError> {
        Ok(self.repository.lock().branch.unreached(head, commits))
    }

    fn known_record_generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    fn remember_record_generation(&self, generation: u64) -> Result<(), StateFileError> {
        self.generation.store(generation, Ordering::Relaxed);
        Ok(())
    }

    fn latency(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(self.random.u64(..4_000)))
    }
}
