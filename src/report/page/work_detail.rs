//! The details of one work, for the page's panel.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::{PendingApproval, SourceInfo};
use crate::status::State;
use crate::status::source::SourceStatus;
use crate::status::view::{Condition, ObjectDetails};
use gitwork_core::model::name::{CommitId, WorkKey};
use gitwork_core::text::escape::escape_lines;

/// One work.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkDetail {
    source: String,
    cluster: String,
    work: String,
    state: State,
    since: Timestamp,
    /// The hub cannot reach the cluster: this is its last known state.
    unreachable: bool,
    /// Why, if the agent does not report the reason.
    why: Option<String>,
    /// The agent's message for a failure.
    message: Option<String>,
    path: Option<String>,
    /// The page of the folder, at the commit that last changed the work.
    folder_url: Option<String>,
    /// The commit that last changed the work on the hub.
    commit: Option<CommitId>,
    commit_url: Option<String>,
    manifests: u32,
    manifests_applied: u32,
    conditions: Vec<Condition>,
    objects: Vec<Object>,
    objects_left_out: usize,
    /// The pending approval that this work's change is part of.
    held: Option<PendingApproval>,
}

/// One object: its unhealthy conditions, and its feedback values as text, because numbers of a
/// browser lose precision.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Object {
    object: String,
    conditions: Vec<Condition>,
    feedback: BTreeMap<String, String>,
}

impl WorkDetail {
    /// `None` if the source has no such work.
    pub fn of(info: &SourceInfo, status: &SourceStatus, key: &WorkKey) -> Option<Self> {
        let work = status.works.get(key)?;
        let details = work.details();
        let link = |commit| Some(info.pages.as_ref()?.commit(commit));
        let folder = || {
            let (pages, path) = (info.pages.as_ref()?, work.path.as_ref()?);
            Some(pages.folder(work.commit?, path))
        };
        // The reason contains the hash of the plan.
        let is_in = |hash: &str| work.why.as_ref().is_some_and(|why| why.contains(hash));
        let mut held = status.held.iter().map(|held| PendingApproval::of(held, info));
        Some(Self {
            source: info.id.to_string(),
            cluster: key.cluster.to_string(),
            work: key.work.to_string(),
            state: work.state,
            since: work.since,
            unreachable: status.unreachable.contains(&key.cluster),
            why: work.why.as_deref().map(escape_lines),
            message: details.message.as_deref().map(escape_lines),
            path: work.path.as_ref().map(|path| escape_lines(path.as_str())),
            folder_url: folder(),
            commit: work.commit,
            commit_url: work.commit.and_then(link),
            manifests: work.view.manifests,
            manifests_applied: work.view.manifests_applied,
            conditions: details.conditions.iter().map(condition).collect(),
            objects: details.objects.into_iter().map(Object::of).collect(),
            objects_left_out: details.objects_left_out,
            held: held.find(|held| work.state == State::Held && is_in(&held.hash)),
        })
    }
}

impl Object {
    fn of(details: ObjectDetails) -> Self {
        let text = |value: Value| match value {
            Value::String(text) => escape_lines(&text),
            other => other.to_string(),
        };
        Self {
            object: escape_lines(&details.object),
            conditions: details.conditions.iter().map(condition).collect(),
            feedback: details
                .feedback
                .into_iter()
                .map(|(k, v)| (escape_lines(&k), text(v)))
                .collect(),
        }
    }
}

fn condition(reported: &Condition) -> Condition {
    Condition {
        kind: escape_lines(&reported.kind),
        status: escape_lines(&reported.status),
        reason: escape_lines(&reported.reason),
        message: escape_lines(&reported.message),
        since: escape_lines(&reported.since),
        outdated: reported.outdated,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::page_model::tests::{info, key, status, work};
    use super::*;
    use crate::status::source::HeldChanges;
    use crate::status::view::StatusView;
    use gitwork_core::model::digest::Digest;
    use gitwork_core::model::name::RepoPath;
    use gitwork_core::plan::Guard;

    #[test]
    fn detail_is_complete_and_cluster_text_is_escaped() {
        let reported = json!({
            "conditions": [
                { "type": "Applied", "status": "False", "observedGeneration": 2,
                  "message": "\u{1b}[2Jno", "lastTransitionTime": "2026-01-02T03:04:05Z" },
            ],
            "resourceStatus": { "manifests": [{
                "resourceMeta": { "kind": "Deployment", "namespace": "shop", "name": "<b>web" },
                "conditions": [
                    { "type": "Applied", "status": "False", "message": "line\n\u{202e}two" },
                ],
                "statusFeedback": { "values": [
                    { "name": "n\u{7}", "fieldValue": { "integer": 9_007_199_254_740_993_i64 } },
                ] },
            }] },
        });
        let mut failed = work(State::Failed);
        failed.view = StatusView::of(&reported, 2, 3).into();
        failed.path = RepoPath::parse("clusters/edge-1/web");
        failed.commit = CommitId::parse(&"cd".repeat(20));
        let key = key("edge-1", "web");
        let status = status(vec![(key.clone(), failed)]);
        let reported =
            serde_json::to_value(WorkDetail::of(&info(), &status, &key).unwrap()).unwrap();
        assert_eq!(reported["message"], "Deployment shop/<b>web: line\n\\u{202e}two");
        assert_eq!(reported["conditions"][0]["message"], "\\u{1b}[2Jno");
        assert_eq!(reported["objects"][0]["feedback"], json!({ "n\\u{7}": "9007199254740993" }));
        assert_eq!((&reported["manifests"], &reported["manifestsApplied"]), (&json!(3), &json!(0)));
        let commit = "cd".repeat(20);
        assert_eq!(reported["commitUrl"], format!("https://github.com/acme/fleet/commit/{commit}"));
        let folder = format!("https://github.com/acme/fleet/tree/{commit}/clusters/edge-1/web");
        assert_eq!(reported["folderUrl"], folder);
        assert_eq!(reported["held"], Value::Null);
    }

    #[test]
    fn work_with_moving_objects_shows_why_it_waits() {
        let why = "configmaps/data in namespace shop moves from shop to shop2; shop keeps it until \
                   shop2 has applied it";
        let mut moving = work(State::Pending);
        moving.why = Some(why.into());
        let key = key("edge-1", "shop");
        let status = status(vec![(key.clone(), moving)]);
        let shown = serde_json::to_value(WorkDetail::of(&info(), &status, &key).unwrap()).unwrap();
        assert_eq!((&shown["state"], &shown["why"]), (&json!("pending"), &json!(why)));
    }

    #[test]
    fn held_work_shows_its_approval_command() {
        let hash = Digest::of(b"plan");
        let (mut held, mut other) = (work(State::Held), work(State::Held));
        held.why =
            Some(format!("removed from Git; to delete it, run `gitwork approve {hash}`").into());
        other.why = Some("not yet orphaned".into());
        let (a, b) = (key("edge-1", "a"), key("edge-1", "b"));
        let mut status = status(vec![(a.clone(), held), (b.clone(), other)]);
        let reason = "nothing would stay".to_owned();
        status.held = vec![HeldChanges { guard: Guard::Budget, hash, works: 12, reason }];
        let reported = serde_json::to_value(WorkDetail::of(&info(), &status, &a).unwrap()).unwrap();
        assert_eq!(
            reported["held"],
            json!({
                "guard": "budget", "hash": hash.to_string(), "works": 12,
                "why": "nothing would stay",
                "command": format!(
                    "gitwork approve {hash} --repo https://github.com/acme/fleet --source-id fleet"
                ),
            })
        );
        let reported = serde_json::to_value(WorkDetail::of(&info(), &status, &b).unwrap()).unwrap();
        assert_eq!(reported["held"], Value::Null);
        assert!(WorkDetail::of(&info(), &status, &key("edge-2", "a")).is_none());
    }
}
