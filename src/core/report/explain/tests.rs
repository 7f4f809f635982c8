use serde_json::json;

use super::conclusion::HubInputs;
use super::*;
use crate::config::AdoptionPolicy;
use crate::model::digest::Digest;
use crate::model::name::{ClusterName, WorkKey, WorkName};
use crate::plan::budget::Excess;
use crate::plan::{Effect, PlanStep, Reason};
use crate::report::status::tree::WorkTree;

fn key() -> WorkKey {
    WorkKey {
        cluster: ClusterName::parse("edge-1").unwrap(),
        work: WorkName::parse("web").unwrap(),
    }
}

fn place(file: &str, line: u32) -> FileLine {
    FileLine { file: RepoPath::parse(file).unwrap(), line: Some(line) }
}

fn git() -> GitSide {
    GitSide {
        source: "fleet".into(),
        commit: Some("ab".repeat(20)),
        folder: RepoPath::parse("clusters/edge-1/web"),
        place: Some(place("clusters/edge-1/web/a.yaml", 3)),
        ..GitSide::default()
    }
}

fn step(effect: Option<Effect>, reason: Reason) -> PlanStep {
    PlanStep { key: key(), path: None, effect, reason }
}

/// A work with these conditions of the work and of its only object.
fn tree(conditions: &Value, of_object: &Value) -> WorkTree {
    let object = json!({
        "metadata": { "namespace": "edge-1", "name": "web", "generation": 2 },
        "spec": { "workload": { "manifests": [
            { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": "shop", "name": "a" } },
        ] } },
        "status": { "conditions": conditions, "resourceStatus": { "manifests": [{
            "resourceMeta": { "ordinal": 0, "kind": "ConfigMap", "namespace": "shop", "name": "a" },
            "conditions": of_object,
        }] } },
    });
    WorkTree::of(&object, |_| false)
}

fn condition(kind: &str, status: &str, message: &str) -> Value {
    json!({ "type": kind, "status": status, "message": message, "observedGeneration": 2 })
}

fn settled() -> PlanStep {
    step(None, Reason::UpToDate)
}

fn answer(git: &GitSide, hub: Option<HubInputs<'_>>) -> Conclusion {
    ExplainInputs { key: &key(), object: None, git, near: None, hub }.answer()
}

#[test]
fn work_missing_in_git_names_removing_commit_or_similar_work() {
    let mut gone = GitSide { folder: None, place: None, ..git() };
    let reported = answer(&gone, None);
    assert_eq!((reported.reason.as_str(), reported.there), ("NotInGit", false));
    let near = WorkKey { work: WorkName::parse("wep").unwrap(), ..key() };
    let reported =
        ExplainInputs { key: &key(), object: None, git: &gone, near: Some(&near), hub: None }
            .answer();
    assert_eq!(reported.advice.as_deref(), Some("did you mean edge-1/wep?"));
    let author = "Ann <ann@example.com>".to_owned();
    gone.removed_by = Some(CommitNote::new("cd".repeat(20), author, 0, "Drop web".into()));
    let reported = answer(&gone, None);
    assert_eq!(reported.reason, "RemovedFromGit");
    assert_eq!(
        reported.message,
        "Ann <ann@example.com> removed it from Git with cdcdcdcd: Drop web"
    );
    // A work that is still on the hub has a step in the plan, which gives the reason.
    let held = step(
        None,
        Reason::HeldByBudget {
            uid: "u".into(),
            hash: Digest::of(b"plan"),
            works: 3,
            excess: Excess::Everything,
        },
    );
    let hub = HubInputs {
        step: Some(&held),
        work: None,
        object: None,
        reach: ClusterReachability::Reachable,
    };
    let reported = answer(&gone, Some(hub));
    assert_eq!(reported.reason, "HeldByBudget");
    assert!(reported.message.contains("gitwork approve"), "{}", reported.message);
}

#[test]
fn error_in_git_takes_precedence_over_hub() {
    let problem = GitProblem {
        code: "GW102",
        error: true,
        place: place("clusters/edge-1/web/a.yaml", 7),
        message: "a key stands twice".into(),
    };
    let broken = GitSide { problems: vec![problem], ..git() };
    let step = settled();
    let hub = HubInputs {
        step: Some(&step),
        work: None,
        object: None,
        reach: ClusterReachability::Reachable,
    };
    let reported = answer(&broken, Some(hub));
    assert_eq!(reported.reason, "Frozen");
    assert!(reported.message.ends_with("clusters/edge-1/web/a.yaml:7: a key stands twice"));
    assert!(reported.advice.unwrap().contains("GW102"));
}

#[test]
fn reason_of_plan_comes_with_advice() {
    let suspended = GitSide {
        settings: vec![Setting {
            name: "suspend".into(),
            value: true.into(),
            set_by: Some(place("clusters/edge-1/cluster.yaml", 2)),
            overrides: Vec::new(),
        }],
        ..git()
    };
    let release = || Some(Effect::Release { resource_version: "1".into() });
    let on_disk = GitSide { commit: None, ..git() };
    let cases = [
        (
            &suspended,
            step(None, Reason::Suspended),
            ClusterReachability::Reachable,
            "Suspended",
            "cluster.yaml:2",
        ),
        (
            &git(),
            step(release(), Reason::NewInGit),
            ClusterReachability::Reachable,
            "NewInGit",
            "gitwork run",
        ),
        (
            &git(),
            step(release(), Reason::NewInGit),
            ClusterReachability::NotRegistered,
            "NoCluster",
            "join",
        ),
        (
            &on_disk,
            step(release(), Reason::ChangedInGit),
            ClusterReachability::Reachable,
            "ChangedInGit",
            "push",
        ),
    ];
    for (git, step, reach, reason, advice) in cases {
        let hub = HubInputs { step: Some(&step), work: None, object: None, reach };
        let reported = answer(git, Some(hub));
        assert_eq!((reported.reason.as_str(), reported.there), (reason, false));
        assert!(reported.advice.as_ref().is_some_and(|text| text.contains(advice)), "{reported:?}");
    }
    let conflict = step(
        None,
        Reason::Conflict { owner: Some("other".into()), adoption: AdoptionPolicy::default() },
    );
    let hub = HubInputs {
        step: Some(&conflict),
        work: None,
        object: None,
        reach: ClusterReachability::Reachable,
    };
    let reported = answer(&git(), Some(hub));
    assert!(
        reported.reason == "Conflict" && reported.message.contains("\"other\""),
        "{reported:?}"
    );
    assert_eq!(answer(&git(), None).reason, "HubUnknown");
}

#[test]
fn status_of_object_takes_precedence_over_status_of_work() {
    let applied = [condition("Applied", "True", "")];
    let failed = [condition("Applied", "False", "work failed")];
    let denied = json!([condition("Applied", "False", "denied by policy")]);
    let fine = json!([condition("Applied", "True", ""), condition("Available", "True", "")]);
    let there =
        json!([condition("Applied", "True", ""), condition("Available", "False", "1 of 2")]);
    let cases = [
        (json!([]), &fine, ClusterReachability::Reachable, "AgentPending", "no agent"),
        (
            json!(applied),
            &fine,
            ClusterReachability::Reachable,
            "Available",
            "it is on the cluster",
        ),
        (json!(applied), &there, ClusterReachability::Reachable, "Progressing", "1 of 2"),
        (json!(failed), &denied, ClusterReachability::Reachable, "ApplyFailed", "denied by policy"),
        // Another object has failed.
        (json!(failed), &fine, ClusterReachability::Reachable, "Available", "it is on the cluster"),
        (
            json!(failed),
            &denied,
            ClusterReachability::Unreachable,
            "ClusterUnreachable",
            "denied by policy",
        ),
        (
            json!(applied),
            &fine,
            ClusterReachability::Unreachable,
            "Available",
            "it is on the cluster",
        ),
    ];
    let step = settled();
    for (conditions, of_object, reach, reason, message) in cases {
        let tree = tree(&conditions, of_object);
        let object = tree.objects.first();
        let hub = HubInputs { step: Some(&step), work: Some(&tree), object, reach };
        let name = object.map(ToString::to_string);
        let key = key();
        let facts = ExplainInputs {
            key: &key,
            object: name.as_deref(),
            git: &git(),
            near: None,
            hub: Some(hub),
        };
        let reported = facts.answer();
        assert_eq!(reported.reason, reason, "{reported:?}");
        assert!(reported.message.contains(message), "{reported:?}");
        assert_eq!(reported.there, reason == "Available");
    }
    // Git no longer has the object in the work.
    let tree = tree(&json!(applied), &fine);
    let dropped = GitSide { place: None, ..git() };
    let hub = HubInputs {
        step: Some(&step),
        work: Some(&tree),
        object: tree.objects.first(),
        reach: ClusterReachability::Reachable,
    };
    let (key, object) = (key(), Some("ConfigMap shop/a"));
    let reported =
        ExplainInputs { key: &key, object, git: &dropped, near: None, hub: Some(hub) }.answer();
    assert_eq!(reported.reason, "ObjectNotInGit");
}

#[test]
fn paths_are_relative_to_root_of_repository() {
    let mut explanation = Explanation {
        cluster: "edge-1".into(),
        work: "web".into(),
        object: None,
        answer: answer(&git(), None),
        git: git(),
        hub: None,
        hub_unknown: None,
    };
    explanation.prefix_paths(&RepoPath::parse("fleet").unwrap());
    assert_eq!(explanation.git.folder.unwrap().as_str(), "fleet/clusters/edge-1/web");
    assert_eq!(explanation.git.place.unwrap().to_string(), "fleet/clusters/edge-1/web/a.yaml:3");
}

#[test]
fn hostile_texts_of_git_and_the_cluster_are_text_in_every_form() {
    use gitwork_yaml::is_dangerous;

    use crate::report::status::print::Layout;
    use crate::text::escape::escape_untrusted_json;
    use crate::text::style::ColorMode;
    for hostile in [
        "\u{1b}[2J\u{9b}31m\u{7}",
        "\u{202e}\u{2066}\u{feff}",
        "a\nIn Git\r\tforged",
        "<b>|*x*|</b>",
    ] {
        let failed =
            json!([condition("Applied", "False", hostile), condition(hostile, hostile, hostile)]);
        let tree = tree(&failed, &failed);
        let note = || Some(CommitNote::new("ab".repeat(20), hostile.into(), 0, hostile.into()));
        let setting = Setting {
            name: hostile.into(),
            value: hostile.into(),
            set_by: Some(FileLine { file: RepoPath::root().join(hostile), line: Some(1) }),
            overrides: vec![FileLine { file: RepoPath::root().join(hostile), line: None }],
        };
        let git = GitSide {
            source: hostile.into(),
            last_change: note(),
            removed_by: note(),
            settings: vec![setting],
            objects: vec![ObjectLocation { object: hostile.into(), place: place("a.yaml", 1) }],
            problems: vec![GitProblem {
                code: "GW102",
                error: false,
                place: place("a.yaml", 1),
                message: hostile.into(),
            }],
            ..git()
        };
        let step = settled();
        let object = tree.objects.first();
        let hub = HubInputs {
            step: Some(&step),
            work: Some(&tree),
            object,
            reach: ClusterReachability::Reachable,
        };
        let explanation = Explanation {
            cluster: "edge-1".into(),
            work: "web".into(),
            object: Some(hostile.into()),
            answer: answer(&git, Some(hub)),
            git,
            hub: Some(HubSide { work: Some(tree.clone()), object: object.cloned() }),
            hub_unknown: Some(hostile.into()),
        };
        let layout = |wide, width| Layout {
            wide,
            width,
            style: ColorMode::Plain,
            now: Timestamp::UNIX_EPOCH,
        };
        let unknown = Explanation { hub: None, ..explanation.clone() };
        let value = json!(explanation);
        for shown in [
            text(&explanation, &layout(false, Some(80))),
            text(&explanation, &layout(true, None)),
            text(&unknown, &layout(false, None)),
            escape_untrusted_json(&format!("{value:#}")),
            gitwork_yaml::write(&value),
        ] {
            let command = shown.chars().find(|c| *c != '\n' && is_dangerous(*c));
            assert_eq!(command, None, "{shown:?}");
            assert!(shown.lines().filter(|line| line.trim() == "In Git").count() <= 1, "{shown}");
        }
    }
}
