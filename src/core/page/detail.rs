//! All that is known of one work, for the page's panel.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::{Held, SourceInfo, shown};
use crate::core::name::{CommitId, WorkKey};
use crate::core::status::State;
use crate::core::status::source::SourceStatus;
use crate::core::status::view::{Condition, ObjectAccount};

/// One work.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Detail {
    source: String,
    cluster: String,
    work: String,
    state: State,
    since: Timestamp,
    /// The hub has lost touch with the cluster: what is told is what it said last.
    unreachable: bool,
    /// Why it is so, where that is not what the agent reports.
    why: Option<String>,
    /// What the agent says where something failed.
    message: Option<String>,
    path: Option<String>,
    /// The page of the folder in Git, at the commit that last changed the work.
    folder_url: Option<String>,
    /// The commit that last changed the work on the hub.
    commit: Option<CommitId>,
    commit_url: Option<String>,
    manifests: u32,
    manifests_applied: u32,
    conditions: Vec<Condition>,
    objects: Vec<Object>,
    objects_left_out: usize,
    /// What waits for approval, where this work's change is part of it.
    held: Option<Held>,
}

/// One object: what is wrong with it, and its feedback values as text, since a browser's numbers are not as exact.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Object {
    object: String,
    conditions: Vec<Condition>,
    feedback: BTreeMap<String, String>,
}

impl Detail {
    /// `None` where the source has no such work.
    pub fn of(info: &SourceInfo, status: &SourceStatus, key: &WorkKey) -> Option<Self> {
        let work = status.works.get(key)?;
        let account = work.account();
        let link = |commit| Some(info.pages.as_ref()?.commit(commit));
        let folder = || {
            let (pages, path) = (info.pages.as_ref()?, work.path.as_ref()?);
            Some(pages.folder(work.commit?, path))
        };
        // The reason names the hash of the plan that it is part of.
        let is_in = |hash: &str| work.why.as_ref().is_some_and(|why| why.contains(hash));
        let mut held = status.held.iter().map(|held| Held::of(held, info));
        Some(Self {
            source: info.id.to_string(),
            cluster: key.cluster.to_string(),
            work: key.work.to_string(),
            state: work.state,
            since: work.since,
            unreachable: status.unreachable.contains(&key.cluster),
            why: work.why.as_deref().map(shown),
            message: account.message.as_deref().map(shown),
            path: work.path.as_ref().map(|path| shown(path.as_str())),
            folder_url: folder(),
            commit: work.commit,
            commit_url: work.commit.and_then(link),
            manifests: work.view.manifests,
            manifests_applied: work.view.manifests_applied,
            conditions: account.conditions.iter().map(condition).collect(),
            objects: account.objects.into_iter().map(Object::of).collect(),
            objects_left_out: account.objects_left_out,
            held: held.find(|held| work.state == State::Held && is_in(&held.hash)),
        })
    }
}

impl Object {
    fn of(account: ObjectAccount) -> Self {
        let text = |value: Value| match value {
            Value::String(text) => shown(&text),
            other => other.to_string(),
        };
        Self {
            object: shown(&account.object),
            conditions: account.conditions.iter().map(condition).collect(),
            feedback: account.feedback.into_iter().map(|(k, v)| (shown(&k), text(v))).collect(),
        }
    }
}

fn condition(told: &Condition) -> Condition {
    Condition {
        kind: shown(&told.kind),
        status: shown(&told.status),
        reason: shown(&told.reason),
        message: shown(&told.message),
        since: shown(&told.since),
        outdated: told.outdated,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::board::tests::{info, key, status, work};
    use super::*;
    use crate::core::digest::Digest;
    use crate::core::name::RepoPath;
    use crate::core::plan::Guard;
    use crate::core::status::source::HeldChanges;
    use crate::core::status::view::StatusView;

    #[test]
    fn everything_is_told_and_text_of_clusters_is_made_harmless() {
        let told = json!({
            "conditions": [
                { "type": "Applied", "status": "False", "observedGeneration": 2, "message": "\u{1b}[2Jno",
                  "lastTransitionTime": "2026-01-02T03:04:05Z" },
            ],
            "resourceStatus": { "manifests": [{
                "resourceMeta": { "kind": "Deployment", "namespace": "shop", "name": "<b>web" },
                "conditions": [{ "type": "Applied", "status": "False", "message": "line\n\u{202e}two" }],
                "statusFeedback": { "values": [
                    { "name": "n\u{7}", "fieldValue": { "integer": 9_007_199_254_740_993_i64 } },
                ] },
            }] },
        });
        let mut failed = work(State::Failed);
        failed.view = StatusView::of(&told, 2, 3);
        failed.path = RepoPath::parse("clusters/edge-1/web");
        failed.commit = CommitId::parse(&"cd".repeat(20));
        let key = key("edge-1", "web");
        let status = status(vec![(key.clone(), failed)]);
        let told = serde_json::to_value(Detail::of(&info(), &status, &key).unwrap()).unwrap();
        assert_eq!(told["message"], "Deployment shop/<b>web: line\n\\u{202e}two");
        assert_eq!(told["conditions"][0]["message"], "\\u{1b}[2Jno");
        assert_eq!(told["objects"][0]["feedback"], json!({ "n\\u{7}": "9007199254740993" }));
        assert_eq!((&told["manifests"], &told["manifestsApplied"]), (&json!(3), &json!(0)));
        let commit = "cd".repeat(20);
        assert_eq!(told["commitUrl"], format!("https://github.com/acme/fleet/commit/{commit}"));
        let folder = format!("https://github.com/acme/fleet/tree/{commit}/clusters/edge-1/web");
        assert_eq!(told["folderUrl"], folder);
        assert_eq!(told["held"], Value::Null);
    }

    #[test]
    fn a_held_work_comes_with_its_plan_and_how_to_approve_of_it() {
        let hash = Digest::of(b"plan");
        let (mut held, mut other) = (work(State::Held), work(State::Held));
        held.why = Some(format!("removed from Git; let through with `gitwork approve {hash}`"));
        other.why = Some("not yet orphaned".into());
        let (a, b) = (key("edge-1", "a"), key("edge-1", "b"));
        let mut status = status(vec![(a.clone(), held), (b.clone(), other)]);
        let reason = "nothing would stay".to_owned();
        status.held = vec![HeldChanges { guard: Guard::Budget, hash, works: 12, reason }];
        let told = serde_json::to_value(Detail::of(&info(), &status, &a).unwrap()).unwrap();
        assert_eq!(
            told["held"],
            json!({
                "guard": "budget", "hash": hash.to_string(), "works": 12, "why": "nothing would stay",
                "command": format!(
                    "gitwork approve {hash} --repo https://github.com/acme/fleet --source-id fleet"
                ),
            })
        );
        let told = serde_json::to_value(Detail::of(&info(), &status, &b).unwrap()).unwrap();
        assert_eq!(told["held"], Value::Null);
        assert!(Detail::of(&info(), &status, &key("edge-2", "a")).is_none());
    }
}
