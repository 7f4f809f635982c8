//! `(works, event) -> works, transitions`: the state of a view that follows the hub. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::State;
use super::tree::{ObjectStatus, WorkTree};
use crate::status::source_report::{ReportedSource, ReportedWorks};
use gitwork_core::model::name::ClusterName;

/// One change of what a view shows, as the hub's lists and watches give it.
#[derive(Debug, Clone, PartialEq)]
pub enum ViewEvent {
    /// A complete list begins. Works that it does not have are removed at its end.
    ListStarted,
    /// A work is new or changed.
    Updated(Box<WorkTree>),
    /// A work was deleted from the hub.
    Removed {
        /// The cluster's name.
        cluster: String,
        /// The work's name.
        work: String,
    },
    /// The list is complete.
    ListCompleted,
    /// All clusters that the hub cannot reach.
    Unreachable(BTreeSet<ClusterName>),
    /// The daemons' reports on their sources, all of them.
    Reported(Vec<ReportedSource>),
}

/// A change of the state of a work or an object.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ViewTransition {
    /// The managed cluster.
    pub cluster: String,
    /// The name of the ManifestWork.
    pub work: String,
    /// The object, as in `Deployment shop/web`; absent for the work as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The previous state; absent if it is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<State>,
    /// The present state; absent if it was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// The hub cannot reach the cluster: the state may be stale.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unreachable: bool,
    /// The reason for an unhealthy state, from the agent or the daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Details for people: applied manifests, the commit, feedback values.
    pub details: Vec<String>,
}

type Key = (String, String);

/// The works of a view.
#[derive(Debug, Clone)]
pub struct LiveWorks {
    works: BTreeMap<Key, WorkTree>,
    /// The works as the hub has them, without the daemons' reports.
    on_hub: BTreeMap<Key, WorkTree>,
    reports: Vec<ReportedSource>,
    reported: ReportedWorks,
    /// The works of the list in progress; `None` once it is complete.
    listing: Option<BTreeSet<Key>>,
    is_known: bool,
    unreachable: BTreeSet<ClusterName>,
    /// Whether transitions of objects are returned, too.
    with_objects: bool,
}

impl LiveWorks {
    /// A view without any state yet. `with_objects`: also return transitions of single objects.
    pub fn new(with_objects: bool) -> Self {
        Self {
            works: BTreeMap::new(),
            on_hub: BTreeMap::new(),
            reports: Vec::new(),
            reported: ReportedWorks::default(),
            listing: Some(BTreeSet::new()),
            is_known: false,
            unreachable: BTreeSet::new(),
            with_objects,
        }
    }

    /// Whether a list was complete.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// The works, sorted by cluster and name. Before the first list is complete: those that it has
    /// so far.
    pub fn works(&self) -> impl Iterator<Item = &WorkTree> {
        self.works.values()
    }

    /// The daemons' reports on their sources.
    pub fn reports(&self) -> &[ReportedSource] {
        &self.reports
    }

    /// Applies an event, and returns the transitions.
    pub fn apply(&mut self, change: ViewEvent) -> Vec<ViewTransition> {
        match change {
            ViewEvent::ListStarted => {
                self.listing = Some(BTreeSet::new());
                Vec::new()
            }
            ViewEvent::Updated(tree) => self.set(*tree),
            ViewEvent::Removed { cluster, work } => self.remove(&(cluster, work)),
            ViewEvent::ListCompleted => self.listed(),
            ViewEvent::Unreachable(lost) => self.reach(lost),
            ViewEvent::Reported(reports) => self.set_reports(reports),
        }
    }

    fn set(&mut self, tree: WorkTree) -> Vec<ViewTransition> {
        let key = (tree.work.cluster.clone(), tree.work.work.clone());
        if let Some(listing) = &mut self.listing {
            listing.insert(key.clone());
        }
        self.on_hub.insert(key.clone(), tree);
        self.refresh(&key)
    }

    /// Merges hub and report for one work, and returns the transitions.
    fn refresh(&mut self, key: &Key) -> Vec<ViewTransition> {
        let now = match self.on_hub.get(key) {
            Some(tree) => {
                let mut tree = tree.clone();
                self.reported.mark(&mut tree);
                Some(tree)
            }
            // Before the first list is complete, the hub may have it.
            None => self.reported.missing(key).filter(|_| self.is_known),
        };
        let Some(mut now) = now else {
            return self.works.remove(key).map(|was| gone(&was)).into_iter().collect();
        };
        now.work.unreachable = self.is_lost(&now);
        let news = self.news(self.works.get(key), &now);
        self.works.insert(key.clone(), now);
        news
    }

    fn is_lost(&self, tree: &WorkTree) -> bool {
        self.unreachable.contains(tree.work.cluster.as_str())
    }

    fn remove(&mut self, key: &Key) -> Vec<ViewTransition> {
        if let Some(listing) = &mut self.listing {
            listing.remove(key);
        }
        self.on_hub.remove(key);
        self.refresh(key)
    }

    fn listed(&mut self) -> Vec<ViewTransition> {
        let Some(listing) = self.listing.take() else { return Vec::new() };
        let gone: Vec<Key> =
            self.on_hub.keys().filter(|key| !listing.contains(*key)).cloned().collect();
        let mut news: Vec<ViewTransition> = gone.iter().flat_map(|key| self.remove(key)).collect();
        if !std::mem::replace(&mut self.is_known, true) {
            news.extend(self.refresh_all(&self.reported.keys().cloned().collect()));
        }
        news
    }

    fn refresh_all(&mut self, keys: &BTreeSet<Key>) -> Vec<ViewTransition> {
        keys.iter().flat_map(|key| self.refresh(key)).collect()
    }

    fn reach(&mut self, lost: BTreeSet<ClusterName>) -> Vec<ViewTransition> {
        if self.unreachable == lost {
            return Vec::new();
        }
        self.unreachable = lost;
        self.refresh_all(&self.works.keys().cloned().collect())
    }

    fn set_reports(&mut self, reports: Vec<ReportedSource>) -> Vec<ViewTransition> {
        let before = std::mem::replace(&mut self.reported, ReportedWorks::of(&reports));
        self.reports = reports;
        self.refresh_all(&before.keys().chain(self.reported.keys()).cloned().collect())
    }

    fn news(&self, before: Option<&WorkTree>, now: &WorkTree) -> Vec<ViewTransition> {
        let mut news = Vec::new();
        let same = before.is_some_and(|before| {
            let facts = |tree: &WorkTree| (tree.work.state, tree.work.unreachable);
            // A deleted work that a daemon still reports has no commit: that is no news.
            let commit = &now.work.commit;
            facts(before) == facts(now) && (commit.is_none() || before.work.commit == *commit)
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

fn gone(was: &WorkTree) -> ViewTransition {
    let mut reported = of_work(Some(was), was);
    (reported.state, reported.message, reported.unreachable) = (None, None, false);
    reported.details.clear();
    reported
}

fn of_work(before: Option<&WorkTree>, now: &WorkTree) -> ViewTransition {
    let work = &now.work;
    let mut details = vec![format!("{}/{} applied", work.manifests_applied, work.manifests)];
    if let Some(commit) = &work.commit {
        details.push(format!("commit {}", commit.chars().take(8).collect::<String>()));
    }
    ViewTransition {
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

fn of_object(before: Option<&ObjectStatus>, now: &ObjectStatus, of: &WorkTree) -> ViewTransition {
    let value = |value: &serde_json::Value| match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    };
    ViewTransition {
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

    fn tree(name: &str, applied: &str, ready: i64) -> ViewEvent {
        let object = json!({
            "metadata": { "namespace": "edge-1", "name": name, "generation": 1 },
            "spec": { "workload": { "manifests": [
                { "apiVersion": "v1", "kind": "ConfigMap",
                  "metadata": { "namespace": "shop", "name": "a" } },
            ] } },
            "status": {
                "conditions": [{ "type": "Applied", "status": applied, "observedGeneration": 1 }],
                "resourceStatus": { "manifests": [{
                    "resourceMeta": {
                        "ordinal": 0, "kind": "ConfigMap", "namespace": "shop", "name": "a",
                    },
                    "conditions": [{ "type": "Applied", "status": applied, "message": "because" }],
                    "statusFeedback": { "values": [
                        { "name": "n", "fieldValue": { "integer": ready } },
                    ] },
                }] },
            },
        });
        ViewEvent::Updated(Box::new(WorkTree::of(&object, |_| false)))
    }

    fn reported(news: &[ViewTransition]) -> Vec<String> {
        let state = |state: Option<State>| state.map_or("-", State::as_str);
        let line = |one: &ViewTransition| {
            let lost = if one.unreachable { " lost" } else { "" };
            let object = one.object.as_deref().unwrap_or_default();
            format!("{} {object} {} {}{lost}", one.work, state(one.before), state(one.state))
        };
        news.iter().map(line).collect()
    }

    #[test]
    fn only_changes_give_transitions() {
        let mut live = LiveWorks::new(false);
        assert_eq!(reported(&live.apply(tree("web", "True", 1))), ["web  - applied"]);
        assert!(!live.is_known() && live.works().count() == 1, "it is shown already");
        live.apply(ViewEvent::ListStarted);
        assert_eq!(live.works().count(), 1, "it is shown while the list begins again");
        assert!(live.apply(tree("web", "True", 1)).is_empty());
        assert!(live.apply(ViewEvent::ListCompleted).is_empty());
        assert!(live.is_known() && live.works().count() == 1);
        assert!(live.apply(tree("web", "True", 2)).is_empty());
        assert_eq!(reported(&live.apply(tree("web", "False", 2))), ["web  applied failed"]);
        let lost = BTreeSet::from([ClusterName::parse("edge-1").unwrap()]);
        let news = live.apply(ViewEvent::Unreachable(lost.clone()));
        assert_eq!(reported(&news), ["web  failed failed lost"]);
        assert!(live.apply(ViewEvent::Unreachable(lost)).is_empty());
        let gone = ViewEvent::Removed { cluster: "edge-1".into(), work: "web".into() };
        assert_eq!(reported(&live.apply(gone.clone())), ["web  failed -"]);
        assert!(live.apply(gone).is_empty());
    }

    #[test]
    fn reports_give_transitions_until_withdrawn() {
        use crate::status::source_report::{ReportedWork, SourceReport};
        let work = |work: &str, state: &str| ReportedWork {
            cluster: "edge-1".into(),
            work: work.into(),
            state: state.into(),
            ..ReportedWork::default()
        };
        let says = |works: Vec<ReportedWork>| {
            let reported = SourceReport { works, ..SourceReport::default() };
            ViewEvent::Reported(vec![ReportedSource { source: "fleet".into(), report: reported }])
        };
        let ours = |name: &str| match tree(name, "True", 1) {
            ViewEvent::Updated(mut tree) => {
                tree.work.source = Some("fleet".into());
                tree.work.commit = Some("abc".into());
                ViewEvent::Updated(tree)
            }
            other => other,
        };
        let mut live = LiveWorks::new(false);
        // Before the first list is complete, a reported work may be on the hub.
        assert!(live.apply(says(vec![work("web", "held"), work("new", "held")])).is_empty());
        assert_eq!(reported(&live.apply(ours("web"))), ["web  - held"]);
        assert_eq!(reported(&live.apply(ViewEvent::ListCompleted)), ["new  - held"]);
        assert!(live.apply(ours("web")).is_empty(), "the same as before");
        let news = reported(&live.apply(says(vec![work("web", "suspended")])));
        assert_eq!(news, ["new  held -", "web  held suspended"]);
        assert_eq!(reported(&live.apply(says(Vec::new()))), ["web  suspended applied"]);
        // The deletion is news once the report has ended, too.
        live.apply(says(vec![work("web", "held")]));
        let gone = ViewEvent::Removed { cluster: "edge-1".into(), work: "web".into() };
        assert!(live.apply(gone).is_empty());
        assert_eq!(reported(&live.apply(says(Vec::new()))), ["web  held -"]);
    }

    #[test]
    fn new_list_gives_transitions_since_previous_list() {
        let mut live = LiveWorks::new(false);
        for name in ["a", "b"] {
            live.apply(tree(name, "True", 1));
        }
        live.apply(ViewEvent::ListCompleted);
        live.apply(ViewEvent::ListStarted);
        let mut news = live.apply(tree("b", "False", 1));
        news.extend(live.apply(tree("c", "True", 1)));
        assert_eq!(reported(&news), ["b  applied failed", "c  - applied"]);
        // A work that the list does not have is shown until it is complete.
        let names =
            |live: &LiveWorks| live.works().map(|one| one.work.work.clone()).collect::<Vec<_>>();
        assert_eq!(names(&live), ["a", "b", "c"]);
        assert_eq!(reported(&live.apply(ViewEvent::ListCompleted)), ["a  applied -"]);
        assert_eq!(names(&live), ["b", "c"]);
    }

    #[test]
    fn transitions_of_objects_are_optional() {
        let mut live = LiveWorks::new(true);
        let news = live.apply(tree("web", "True", 1));
        let object = "ConfigMap shop/a";
        let both = ["web  - applied".to_owned(), format!("web {object} - applied")];
        assert_eq!(reported(&news), both);
        assert!(live.apply(ViewEvent::ListCompleted).is_empty());
        let news = live.apply(tree("web", "True", 2));
        assert_eq!(reported(&news), [format!("web {object} applied applied")]);
        assert_eq!(news[0].details, ["n=2"]);
    }
}
