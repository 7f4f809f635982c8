//! `(works, change) -> works, transitions`: what a view that follows the hub knows, and what of it is news. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::State;
use super::told::{self, ToldSource};
use super::tree::{ObjectStatus, WorkTree};
use crate::core::name::ClusterName;

/// What the hub tells, as it comes.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A complete list begins: what it does not have is gone at its end.
    Restart,
    /// A work is there, new or changed.
    Set(Box<WorkTree>),
    Gone {
        cluster: String,
        work: String,
    },
    /// The list is complete.
    Listed,
    /// The clusters that the hub has lost touch with.
    Unreachable(BTreeSet<ClusterName>),
    /// What the daemon tells of its sources.
    Told(Vec<ToldSource>),
}

/// A work or an object that has come into another state.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Transition {
    pub cluster: String,
    pub work: String,
    /// As in `Deployment shop/web`; none for the work as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Absent where it was not there before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<State>,
    /// Absent where it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unreachable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// For people: how many manifests are applied, the commit, feedback values.
    pub details: Vec<String>,
}

type Key = (String, String);

/// The works that a view shows.
#[derive(Debug, Clone)]
pub struct Live {
    works: BTreeMap<Key, WorkTree>,
    /// The works as the hub shows them, without what the daemon tells.
    shown: BTreeMap<Key, WorkTree>,
    told: Vec<ToldSource>,
    /// The list that is being read; `None` where it is complete.
    listing: Option<BTreeMap<Key, WorkTree>>,
    unreachable: BTreeSet<ClusterName>,
    /// Objects are followed too.
    with_objects: bool,
}

impl Live {
    /// Nothing is known yet. `with_objects`: tell transitions of single objects too.
    pub fn new(with_objects: bool) -> Self {
        Self {
            works: BTreeMap::new(),
            shown: BTreeMap::new(),
            told: Vec::new(),
            listing: Some(BTreeMap::new()),
            unreachable: BTreeSet::new(),
            with_objects,
        }
    }

    /// The first list is complete.
    pub fn is_known(&self) -> bool {
        self.listing.is_none() || !self.works.is_empty()
    }

    /// The works, sorted by cluster and name.
    pub fn works(&self) -> impl Iterator<Item = &WorkTree> {
        self.works.values()
    }

    /// What the daemon tells of its sources.
    pub fn told(&self) -> &[ToldSource] {
        &self.told
    }

    /// Takes in a change, and answers what is news.
    pub fn apply(&mut self, change: Change) -> Vec<Transition> {
        match change {
            Change::Restart => {
                self.listing = Some(BTreeMap::new());
                Vec::new()
            }
            Change::Set(tree) => self.set(*tree),
            Change::Gone { cluster, work } => {
                let key = (cluster, work);
                if let Some(listing) = &mut self.listing {
                    listing.remove(&key);
                }
                self.remove(&key)
            }
            Change::Listed => self.listed(),
            Change::Unreachable(lost) => self.reach(lost),
            Change::Told(told) => self.tell(told),
        }
    }

    fn set(&mut self, tree: WorkTree) -> Vec<Transition> {
        let key = (tree.work.cluster.clone(), tree.work.work.clone());
        if let Some(listing) = &mut self.listing {
            listing.insert(key, tree);
            return Vec::new();
        }
        self.shown.insert(key.clone(), tree);
        self.refresh(&key)
    }

    /// Puts together what is known of a work, and answers what of it is news.
    fn refresh(&mut self, key: &Key) -> Vec<Transition> {
        let Some(mut now) = told::one(&self.told, key, self.shown.get(key)) else {
            return self.works.remove(key).map(|was| gone(&was)).into_iter().collect();
        };
        now.work.unreachable = self.is_lost(&now);
        let news = self.news(self.works.get(key), &now);
        self.works.insert(key.clone(), now);
        news
    }

    fn is_lost(&self, tree: &WorkTree) -> bool {
        self.unreachable.iter().any(|name| name.as_str() == tree.work.cluster)
    }

    fn remove(&mut self, key: &Key) -> Vec<Transition> {
        self.shown.remove(key);
        self.refresh(key)
    }

    fn listed(&mut self) -> Vec<Transition> {
        let Some(listing) = self.listing.take() else { return Vec::new() };
        let gone: Vec<Key> =
            self.shown.keys().filter(|key| !listing.contains_key(*key)).cloned().collect();
        let mut news: Vec<Transition> = gone.iter().flat_map(|key| self.remove(key)).collect();
        for tree in listing.into_values() {
            news.extend(self.set(tree));
        }
        news.extend(self.tell(self.told.clone()));
        news
    }

    fn reach(&mut self, lost: BTreeSet<ClusterName>) -> Vec<Transition> {
        self.unreachable = lost;
        let known: Vec<Key> = self.works.keys().cloned().collect();
        known.iter().flat_map(|key| self.refresh(key)).collect()
    }

    /// Before the first list is complete it is not known which works there are.
    fn tell(&mut self, told: Vec<ToldSource>) -> Vec<Transition> {
        let keys = |all: &[ToldSource]| -> BTreeSet<Key> {
            all.iter().flat_map(ToldSource::keys).collect()
        };
        let touched: BTreeSet<Key> = &keys(&self.told) | &keys(&told);
        self.told = told;
        if self.listing.is_some() && self.shown.is_empty() {
            return Vec::new();
        }
        touched.iter().flat_map(|key| self.refresh(key)).collect()
    }

    fn news(&self, before: Option<&WorkTree>, now: &WorkTree) -> Vec<Transition> {
        let mut news = Vec::new();
        let same = before.is_some_and(|before| {
            let facts = |tree: &WorkTree| (tree.work.state, tree.work.unreachable);
            facts(before) == facts(now) && before.work.commit == now.work.commit
        });
        if !same {
            news.push(of_work(before, now));
        }
        if self.with_objects {
            let was = before.map_or(&[][..], |before| &before.objects);
            let was: BTreeMap<String, &ObjectStatus> =
                was.iter().map(|object| (object.to_string(), object)).collect();
            for object in &now.objects {
                let before = was.get(&object.to_string()).copied();
                let changed = before.is_none_or(|before| {
                    before.state != object.state || before.feedback != object.feedback
                });
                news.extend(changed.then(|| of_object(before, object, now)));
            }
        }
        news
    }
}

fn gone(was: &WorkTree) -> Transition {
    let mut told = of_work(Some(was), was);
    (told.state, told.message, told.unreachable) = (None, None, false);
    told.details.clear();
    told
}

fn of_work(before: Option<&WorkTree>, now: &WorkTree) -> Transition {
    let work = &now.work;
    let mut details = vec![format!("{}/{} applied", work.manifests_applied, work.manifests)];
    if let Some(commit) = &work.commit {
        details.push(format!("commit {}", commit.chars().take(8).collect::<String>()));
    }
    Transition {
        cluster: work.cluster.clone(),
        work: work.work.clone(),
        object: None,
        before: before.map(|before| before.work.state),
        state: Some(work.state),
        unreachable: work.unreachable,
        message: work.message.clone(),
        details,
    }
}

fn of_object(before: Option<&ObjectStatus>, now: &ObjectStatus, of: &WorkTree) -> Transition {
    let value = |value: &serde_json::Value| match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    };
    Transition {
        cluster: of.work.cluster.clone(),
        work: of.work.work.clone(),
        object: Some(now.to_string()),
        before: before.map(|before| before.state),
        state: Some(now.state),
        unreachable: of.work.unreachable,
        message: now.message.clone(),
        details: now
            .feedback
            .iter()
            .map(|(name, found)| format!("{name}={}", value(found)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tree(name: &str, applied: &str, ready: i64) -> Change {
        let object = json!({
            "metadata": { "namespace": "edge-1", "name": name, "generation": 1 },
            "spec": { "workload": { "manifests": [
                { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": "shop", "name": "a" } },
            ] } },
            "status": {
                "conditions": [{ "type": "Applied", "status": applied, "observedGeneration": 1 }],
                "resourceStatus": { "manifests": [{
                    "resourceMeta": { "ordinal": 0, "kind": "ConfigMap", "namespace": "shop", "name": "a" },
                    "conditions": [{ "type": "Applied", "status": applied, "message": "because" }],
                    "statusFeedback": { "values": [{ "name": "n", "fieldValue": { "integer": ready } }] },
                }] },
            },
        });
        Change::Set(Box::new(WorkTree::of(&object, |_| false)))
    }

    fn told(news: &[Transition]) -> Vec<String> {
        let state = |state: Option<State>| state.map_or("-", State::as_str);
        let line = |one: &Transition| {
            let lost = if one.unreachable { " lost" } else { "" };
            let object = one.object.as_deref().unwrap_or_default();
            format!("{} {object} {} {}{lost}", one.work, state(one.before), state(one.state))
        };
        news.iter().map(line).collect()
    }

    #[test]
    fn only_what_changes_is_news() {
        let mut live = Live::new(false);
        assert!(live.apply(tree("web", "True", 1)).is_empty() && !live.is_known());
        assert_eq!(told(&live.apply(Change::Listed)), ["web  - applied"]);
        assert!(live.is_known());
        assert!(live.apply(tree("web", "True", 2)).is_empty());
        assert_eq!(told(&live.apply(tree("web", "False", 2))), ["web  applied failed"]);
        let lost = BTreeSet::from([ClusterName::parse("edge-1").unwrap()]);
        let news = live.apply(Change::Unreachable(lost.clone()));
        assert_eq!(told(&news), ["web  failed failed lost"]);
        assert!(live.apply(Change::Unreachable(lost)).is_empty());
        let gone = Change::Gone { cluster: "edge-1".into(), work: "web".into() };
        assert_eq!(told(&live.apply(gone.clone())), ["web  failed -"]);
        assert!(live.apply(gone).is_empty());
    }

    #[test]
    fn what_is_told_of_works_is_news_and_ends_with_what_was_told() {
        use crate::core::status::told::{Told, ToldWork};
        let work = |work: &str, state: &str| ToldWork {
            cluster: "edge-1".into(),
            work: work.into(),
            state: state.into(),
            ..ToldWork::default()
        };
        let says = |works: Vec<ToldWork>| {
            let told = Told { works, ..Told::default() };
            Change::Told(vec![ToldSource { source: "fleet".into(), told }])
        };
        let ours = |name: &str| match tree(name, "True", 1) {
            Change::Set(mut tree) => {
                tree.work.source = Some("fleet".into());
                Change::Set(tree)
            }
            other => other,
        };
        let mut live = Live::new(false);
        // What is told before the first list is complete waits for it.
        assert!(live.apply(says(vec![work("web", "held"), work("new", "held")])).is_empty());
        live.apply(ours("web"));
        let news = told(&live.apply(Change::Listed));
        assert_eq!(news, ["web  - held", "new  - held"]);
        assert!(live.apply(ours("web")).is_empty(), "the same as before");
        let news = told(&live.apply(says(vec![work("web", "suspended")])));
        assert_eq!(news, ["new  held -", "web  held suspended"]);
        assert_eq!(told(&live.apply(says(Vec::new()))), ["web  suspended applied"]);
    }

    #[test]
    fn a_new_list_tells_what_changed_since_the_last() {
        let mut live = Live::new(false);
        for name in ["a", "b"] {
            live.apply(tree(name, "True", 1));
        }
        live.apply(Change::Listed);
        live.apply(Change::Restart);
        live.apply(tree("b", "False", 1));
        live.apply(tree("c", "True", 1));
        // Until it is complete the last one stands.
        let names = |live: &Live| live.works().map(|one| one.work.work.clone()).collect::<Vec<_>>();
        assert_eq!(names(&live), ["a", "b"]);
        let news = live.apply(Change::Listed);
        assert_eq!(told(&news), ["a  applied -", "b  applied failed", "c  - applied"]);
        assert_eq!(names(&live), ["b", "c"]);
    }

    #[test]
    fn objects_are_followed_where_that_is_asked_for() {
        let mut live = Live::new(true);
        live.apply(tree("web", "True", 1));
        let object = "ConfigMap shop/a";
        let both = ["web  - applied".to_owned(), format!("web {object} - applied")];
        assert_eq!(told(&live.apply(Change::Listed)), both);
        let news = live.apply(tree("web", "True", 2));
        assert_eq!(told(&news), [format!("web {object} applied applied")]);
        assert_eq!(news[0].details, ["n=2"]);
    }
}
