use std::sync::Arc;

use super::budget::Excess;
use super::conflicting_manager::ConflictingManager;
use super::drift_backoff::Contention;
use super::name_holder::NameHolder;
use super::*;
use crate::config::AdoptionPolicy;
use crate::model::digest::Digest;
use crate::model::name::{ClusterName, ObjectId, WorkName};
use crate::model::name::{RepoPath, SourceId, WorkKey};
use crate::model::work::DeletionPolicy;

fn key(cluster: &str, work: &str) -> WorkKey {
    WorkKey { cluster: ClusterName::parse(cluster).unwrap(), work: WorkName::parse(work).unwrap() }
}

fn step(work: &str, effect: Option<Effect>, reason: Reason) -> PlanStep {
    PlanStep {
        key: key("edge-1", work),
        path: RepoPath::parse("clusters/edge-1/x"),
        effect,
        reason,
    }
}

fn contention() -> Arc<Contention> {
    let fields = vec!["spec.workload.manifests".to_owned()];
    Arc::new(Contention {
        manager: Arc::new(ConflictingManager::Manager {
            name: "argocd-controller".into(),
            fields,
            more: 0,
        }),
        times: 9,
        wait: std::time::Duration::from_secs(16),
        content: Digest([1; 32]),
        waits: true,
    })
}

/// One step for each way that a plan can go.
fn every_step() -> Vec<PlanStep> {
    let resource_version = || "7".into();
    let by = Some(ObjectId([0xab; 20]));
    let owner = Some(Arc::from("another"));
    let set = Effect::SetDeleteOption {
        delete_option: DeletionPolicy::Orphan,
        resource_version: resource_version(),
    };
    let delete = Effect::Delete { uid: "u".into(), resource_version: resource_version() };
    let first = Reason::DeleteOptionFirst {
        hub: DeletionPolicy::Foreground,
        git: DeletionPolicy::SelectivelyOrphan([].into()),
    };
    let release = Effect::Release { resource_version: resource_version() };
    vec![
        step("a", Some(set), first),
        step("b", Some(delete), Reason::RemovedFromGit { by }),
        step("c", Some(release), Reason::PruneOff { by: None }),
        step("d", None, Reason::UpToDate),
        step("e", None, Reason::WaitingForAgent { generation: 3 }),
        step("e", None, Reason::WaitingToRelease { generation: 3 }),
        step("f", None, Reason::NotYetOrphaned { generation: 3, complete: false }),
        step("g", None, Reason::NotYetOrphaned { generation: 3, complete: true }),
        step("h", None, Reason::BeingDeleted { wanted: true }),
        step("i", None, Reason::BeingDeleted { wanted: false }),
        step(
            "j",
            None,
            Reason::Conflict {
                owner: owner.clone(),
                holder: NameHolder::Work { adoption: AdoptionPolicy::Annotated },
            },
        ),
        step("j1", None, Reason::Conflict { owner: owner.clone(), holder: NameHolder::ReplicaSet }),
        step("j2", None, Reason::Conflict { owner: None, holder: NameHolder::WorkOfReplicaSet }),
        step(
            "k",
            None,
            Reason::Conflict {
                owner: None,
                holder: NameHolder::Work { adoption: AdoptionPolicy::Never },
            },
        ),
        step("l", None, Reason::ChangedByServer),
        step("m", None, Reason::Frozen),
        step("m2", None, Reason::UnknownMembership),
        step("n", None, Reason::Suspended),
        step(
            "o",
            None,
            Reason::HeldByBudget {
                uid: "u-o".into(),
                hash: Digest([0xcd; 32]),
                works: 1,
                excess: Excess::Everything.into(),
            },
        ),
        step("p", None, Reason::BackedOff { contention: contention() }),
        step("q", None, Reason::NeverInGit),
    ]
}

#[test]
fn steps_read_as_sentences() {
    let found: Vec<String> = every_step().iter().map(ToString::to_string).collect();
    let expected: Vec<&str> = include_str!("step_sentences.txt").lines().collect();
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn a_summary_has_every_step_except_kept_works() {
    let plan = Plan { commit: None, steps: every_step().into() };
    assert!(!plan.is_empty() && !plan.is_settled());
    assert_eq!(plan.effects().count(), 3);
    assert_eq!(
        plan.counts().to_string(),
        "1 set-delete-option, 1 delete, 1 release, 5 wait, 12 hold, 1 keep"
    );
    let summary = plan.summary(&SourceId::parse("fleet").unwrap());
    assert_eq!(summary.steps.len(), plan.steps.len() - 1);
    let first = summary.steps.first().unwrap();
    assert_eq!(
        serde_json::to_value(first).unwrap(),
        serde_json::json!({
            "cluster": "edge-1",
            "work": "a",
            "path": "clusters/edge-1/x",
            "action": "set-delete-option",
            "reason": "DeleteOptionFirst",
            "message": first.message,
        })
    );
}

#[test]
fn an_empty_plan_says_so() {
    let plan = Plan::default();
    assert!(plan.is_empty() && plan.is_settled());
    assert_eq!(plan.counts().to_string(), "nothing");
}
