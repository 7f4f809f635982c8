//! The repository, with pushes as of a team, and the expected state of the hub and the clusters.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gitwork_core::model::name::CommitId;

use crate::git_server::Repo;

/// A cluster and a work.
pub type Key = (String, String);

const BRANCH: &str = "main";
/// The number of states that a rewind may go back to.
const HISTORY: usize = 8;
/// Bytes of a usual work's filler; three works of ten such lines have 2 KiB.
const USUAL: usize = 1_500;
const LARGE: usize = 200 * 1024;
/// Larger than the hub's limit for one work.
const TOO_LARGE: usize = 600 * 1024;

/// The content of Git.
#[derive(Clone, Default)]
pub struct Wanted {
    /// The revision of each work.
    pub works: BTreeMap<Key, String>,
    /// Works that cannot be rendered or applied: their state on the hub is not known.
    pub broken: BTreeSet<Key>,
}

pub struct Git {
    repo: Repo,
    random: fastrand::Rng,
    clusters: Vec<String>,
    /// The number of clusters with an agent, which are the first ones.
    managed: usize,
    works_each: usize,
    pub wanted: Wanted,
    history: VecDeque<(CommitId, Wanted)>,
    /// Works that may be deleted, because Git dropped them.
    pub removed: BTreeSet<Key>,
    /// Works that Git dropped and a guard holds.
    pub held: BTreeSet<Key>,
    next: usize,
    pub pushes: usize,
}

/// New content of files; `None` removes a file.
type Files = Vec<(String, Option<String>)>;

impl Git {
    pub fn new(repo: Repo, seed: u64, clusters: &[String], managed: usize, each: usize) -> Git {
        let mut git = Git {
            repo,
            random: fastrand::Rng::with_seed(seed),
            clusters: clusters.to_vec(),
            managed,
            works_each: each,
            wanted: Wanted::default(),
            history: VecDeque::new(),
            removed: BTreeSet::new(),
            held: BTreeSet::new(),
            next: 0,
            pushes: 0,
        };
        let mut files = Files::new();
        for cluster in git.clusters.clone() {
            for _ in 0..each {
                git.add(&cluster, &mut files);
            }
        }
        git.commit(&files);
        git
    }

    pub fn tip(&self) -> CommitId {
        self.repo.tip(BRANCH).unwrap()
    }

    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    fn commit(&mut self, files: &Files) {
        let files: Vec<(&str, Option<&str>)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_deref())).collect();
        let commit = self.repo.commit(BRANCH, &files);
        self.remember(commit);
    }

    fn remember(&mut self, commit: CommitId) {
        self.pushes += 1;
        self.history.push_back((commit, self.wanted.clone()));
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    /// One push of a random kind. Returns its description.
    pub fn push(&mut self) -> String {
        let usual = self.clusters.len() * self.works_each;
        let total = self.wanted.works.len();
        let mut files = Files::new();
        let what = match self.random.u8(..100) {
            0..12 if total < usual + usual / 20 => self.add_some(&mut files),
            12..24 if total > usual - usual / 20 => self.remove_some(&mut files),
            24..32 => self.break_one(&mut files),
            32..48 if !self.wanted.broken.is_empty() => self.fix(&mut files),
            48..52 => self.change(1, LARGE, &mut files),
            52..55 => self.change(usual / 8, USUAL, &mut files),
            _ => {
                let count = self.random.usize(1..=4);
                self.change(count, USUAL, &mut files)
            }
        };
        self.commit(&files);
        what
    }

    /// A push that fixes everything.
    pub fn fix_all(&mut self) -> String {
        let mut files = Files::new();
        let what = self.fix(&mut files);
        self.change(1, USUAL, &mut files);
        self.commit(&files);
        what
    }

    /// Removes a whole cluster, which the budget holds.
    pub fn drop_cluster(&mut self) -> String {
        // The removal of a single work is within the budget.
        let away = self.clusters[self.managed..].iter().filter(|name| self.of(name).len() > 1);
        let away: Vec<String> = away.cloned().collect();
        let cluster = away[self.random.usize(..away.len())].clone();
        let gone: Vec<Key> = self.of(&cluster);
        let files = gone.iter().map(|key| (folder(key), None)).collect();
        for key in gone {
            self.wanted.works.remove(&key);
            self.wanted.broken.remove(&key);
            self.held.insert(key);
        }
        self.commit(&files);
        cluster
    }

    /// Adds new works to a cluster without works.
    pub fn refill(&mut self, cluster: &str) {
        let mut files = Files::new();
        for _ in self.of(cluster).len()..self.works_each {
            self.add(cluster, &mut files);
        }
        self.commit(&files);
    }

    /// Reverts the last push.
    pub fn revert(&mut self) {
        let Some((base, wanted)) = self.history.iter().rev().nth(1).cloned() else { return };
        let tip = self.tip();
        self.wanted = wanted;
        // A merge without the changes of the last push: its tree is that of its first parent.
        let commit = self.repo.commit_on(BRANCH, &[base, tip], &[]);
        self.held.clear();
        self.remember(commit);
    }

    /// Pushes by force: leaves out the last one to three pushes and makes another change instead.
    pub fn rewind(&mut self) -> String {
        let back = self.random.usize(1..=3).min(self.history.len() - 1);
        for _ in 0..back {
            self.history.pop_back();
        }
        let (base, before) = self.history.back().cloned().unwrap();
        let now = std::mem::replace(&mut self.wanted, before);
        let mut files = Files::new();
        let what = self.change(2, USUAL, &mut files);
        let files: Vec<(&str, Option<&str>)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_deref())).collect();
        let commit = self.repo.commit_on(BRANCH, &[base], &files);
        let gone = now.works.into_keys().filter(|key| !self.wanted.works.contains_key(key));
        self.held.extend(gone);
        self.remember(commit);
        format!("{back} pushes left out, {what}")
    }

    /// Marks the held deletions as allowed.
    pub fn approved(&mut self) {
        self.removed.append(&mut self.held);
    }

    fn of(&self, cluster: &str) -> Vec<Key> {
        let first = (cluster.to_owned(), String::new());
        let works = self.wanted.works.range(first..).map(|(key, _)| key);
        works.take_while(|key| key.0 == cluster).cloned().collect()
    }

    /// A random work, more often of a cluster with an agent.
    pub fn choose(&mut self) -> Key {
        loop {
            let range = if self.random.u8(..3) == 0 { self.managed } else { self.clusters.len() };
            let cluster = self.clusters[self.random.usize(..range)].clone();
            let works = self.of(&cluster);
            if let Some(key) = self.random.choice(works) {
                return key;
            }
        }
    }

    fn set(&mut self, key: &Key, bytes: usize, files: &mut Files) {
        let revision = format!("r{:06}", self.next);
        self.next += 1;
        let text = config_map(&key.1, &revision, &self.filler(bytes));
        files.push((file(key), Some(text)));
        self.wanted.works.insert(key.clone(), revision);
        self.wanted.broken.remove(key);
    }

    fn filler(&mut self, bytes: usize) -> String {
        std::iter::repeat_with(|| format!("{:016x}", self.random.u64(..)))
            .take(bytes / 16)
            .collect()
    }

    fn add(&mut self, cluster: &str, files: &mut Files) {
        let key = (cluster.to_owned(), format!("work-{:05}", self.next));
        if self.next.is_multiple_of(4) {
            files.push((format!("{}/deployment.yaml", folder(&key)), Some(deployment(&key.1))));
            files.push((format!("{}/deployment.config.yaml", folder(&key)), Some(FEEDBACK.into())));
        }
        self.set(&key, USUAL, files);
    }

    fn add_some(&mut self, files: &mut Files) -> String {
        let count = self.random.usize(1..=3);
        for _ in 0..count {
            let range = if self.random.bool() { self.managed } else { self.clusters.len() };
            let cluster = self.clusters[self.random.usize(..range)].clone();
            self.add(&cluster, files);
        }
        format!("{count} new works")
    }

    fn remove_some(&mut self, files: &mut Files) -> String {
        let mut gone = BTreeSet::new();
        for _ in 0..self.random.usize(1..=3) {
            let key = self.choose();
            // The last works of a cluster would be held.
            if self.of(&key.0).len() > 8 && self.wanted.works.remove(&key).is_some() {
                self.wanted.broken.remove(&key);
                gone.insert(key);
            }
        }
        files.extend(gone.iter().map(|key| (folder(key), None)));
        let count = gone.len();
        self.removed.extend(gone);
        format!("{count} works removed")
    }

    fn break_one(&mut self, files: &mut Files) -> String {
        let key = self.choose();
        let (text, how) = match self.random.u8(..3) {
            0 => ("kind: ConfigMap\n  metadata: [".to_owned(), "no YAML"),
            1 => (config_map(&key.1, "broken", &self.filler(TOO_LARGE)), "too large"),
            _ => {
                let text = config_map(&key.1, "broken", "x");
                (format!("{text}  no key: x\n"), "refused by the cluster")
            }
        };
        files.push((file(&key), Some(text)));
        let text = format!("{}/{} broken: {how}", key.0, key.1);
        self.wanted.broken.insert(key);
        text
    }

    fn fix(&mut self, files: &mut Files) -> String {
        let broken: Vec<Key> = self.wanted.broken.iter().cloned().collect();
        broken.iter().for_each(|key| self.set(key, USUAL, files));
        format!("{} works fixed", broken.len())
    }

    fn change(&mut self, count: usize, bytes: usize, files: &mut Files) -> String {
        let keys: BTreeSet<Key> = (0..count).map(|_| self.choose()).collect();
        keys.iter().for_each(|key| self.set(key, bytes, files));
        format!("{} works changed, {bytes} bytes each", keys.len())
    }
}

fn folder((cluster, work): &Key) -> String {
    format!("clusters/{cluster}/{work}")
}

fn file(key: &Key) -> String {
    format!("{}/config.yaml", folder(key))
}

fn config_map(name: &str, revision: &str, filler: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {}}}\ndata:\n  \
         revision: {revision}\n  filler: x{filler}\n",
        super::world::NAMESPACE
    )
}

const FEEDBACK: &str = "feedbackRules:\n  - type: WellKnownStatus\n";

fn deployment(name: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: \
         {}}}\nspec:\n  replicas: 1\n  \
         selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: \
         {name}}}}}\n    spec:\n      \
         containers: [{{name: app, image: \"registry.example.com/app:1\"}}]\n",
        super::world::NAMESPACE
    )
}
