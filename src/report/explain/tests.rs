use jiff::Timestamp;
use serde_json::{Value, json};

use super::conclusion::HubInputs;
use super::*;
use crate::status::tree::WorkTree;
use gitwork_core::config::AdoptionPolicy;
use gitwork_core::model::digest::Digest;
use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::{ClusterName, RepoPath, WorkKey, WorkName};
use gitwork_core::model::object_digest::ObjectDigest;
use gitwork_core::plan::budget::Excess;
use gitwork_core::plan::moves::{MoveProgress, ObjectMove};
use gitwork_core::plan::name_holder::NameHolder;
use gitwork_core::plan::{Effect, PlanStep, Reason};
use gitwork_core::render::setting::{FileLine, ObjectLocation, Setting};

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
            { "apiVersion": "v1", "kind": "ConfigMap",
              "metadata": { "namespace": "shop", "name": "a" } },
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
            excess: Excess::Everything.into(),
        },
    );
    let hub = HubInputs {
        step: Some(&held),
        work: None,
        object: None,
        moving: None,
        reach: ClusterReachability::Reachable,
        source_error: None,
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
        message: "a key occurs twice".into(),
    };
    let broken = GitSide { problems: vec![problem], ..git() };
    let step = settled();
    let hub = HubInputs {
        step: Some(&step),
        work: None,
        object: None,
        moving: None,
        reach: ClusterReachability::Reachable,
        source_error: None,
    };
    let reported = answer(&broken, Some(hub));
    assert_eq!(reported.reason, "Frozen");
    assert!(reported.message.ends_with("clusters/edge-1/web/a.yaml:7: a key occurs twice"));
    assert!(reported.advice.unwrap().contains("GW102"));
}

fn on_hub<'a>(step: &'a PlanStep, tree: Option<&'a WorkTree>) -> HubInputs<'a> {
    let object = tree.and_then(|tree| tree.objects.first());
    let reach = ClusterReachability::Reachable;
    HubInputs { step: Some(step), work: tree, object, moving: None, reach, source_error: None }
}

/// Checks the reason of a work that is not on its cluster, and a part of the advice.
fn check_advice(git: &GitSide, hub: HubInputs<'_>, reason: &str, advice: &str) {
    let reported = answer(git, Some(hub));
    assert_eq!((reported.reason.as_str(), reported.there), (reason, false));
    assert!(reported.advice.as_ref().is_some_and(|text| text.contains(advice)), "{reported:?}");
}

#[test]
fn advice_names_the_setting_that_suspends() {
    let suspended = GitSide {
        settings: vec![Setting {
            name: "suspend".into(),
            value: true.into(),
            set_by: Some(place("clusters/edge-1/cluster.yaml", 2)),
            fact: None,
            overrides: Vec::new(),
        }],
        ..git()
    };
    let step = step(None, Reason::Suspended);
    check_advice(&suspended, on_hub(&step, None), "Suspended", "cluster.yaml:2");
}

#[test]
fn reason_of_plan_comes_with_advice() {
    let write = |reason| step(Some(Effect::Release { resource_version: "1".into() }), reason);
    let (new, changed) = (write(Reason::NewInGit), write(Reason::ChangedInGit));
    check_advice(&git(), on_hub(&new, None), "NewInGit", "gitwork run");
    let reach = ClusterReachability::NotRegistered;
    check_advice(&git(), HubInputs { reach, ..on_hub(&new, None) }, "NoCluster", "join");
    let refused = Some("commit 3c2f is not verified: it has no signature");
    let hub = HubInputs { source_error: refused, ..on_hub(&new, None) };
    check_advice(&git(), hub, "CommitNotApplied", "last commit that was applied");
    assert!(answer(&git(), Some(hub)).message.contains("no signature"));
    let on_disk = GitSide { commit: None, ..git() };
    check_advice(&on_disk, on_hub(&changed, None), "ChangedInGit", "push");
    assert_eq!(answer(&git(), None).reason, "HubUnknown");
}

#[test]
fn conflict_names_the_owner() {
    let owner = Some("other".into());
    let conflict = step(
        None,
        Reason::Conflict {
            owner,
            holder: NameHolder::Work { adoption: AdoptionPolicy::default() },
        },
    );
    let reported = answer(&git(), Some(on_hub(&conflict, None)));
    assert!(
        reported.reason == "Conflict" && reported.message.contains("\"other\""),
        "{reported:?}"
    );
}

/// The conclusion about the first object of a work that is as Git wants it.
fn answer_of_object(git: &GitSide, tree: &WorkTree, reach: ClusterReachability) -> Conclusion {
    let (key, step) = (key(), settled());
    let object = tree.objects.first().map(ToString::to_string);
    let hub = Some(HubInputs { reach, ..on_hub(&step, Some(tree)) });
    ExplainInputs { key: &key, object: object.as_deref(), git, near: None, hub }.answer()
}

#[test]
fn status_of_object_takes_precedence_over_status_of_work() {
    use ClusterReachability::{Reachable, Unreachable};
    let applied = json!([condition("Applied", "True", "")]);
    let failed = json!([condition("Applied", "False", "work failed")]);
    let denied = json!([condition("Applied", "False", "denied by policy")]);
    let fine = json!([condition("Applied", "True", ""), condition("Available", "True", "")]);
    let there =
        json!([condition("Applied", "True", ""), condition("Available", "False", "1 of 2")]);
    for (conditions, of_object, reach, reason, message) in [
        (&json!([]), &fine, Reachable, "AgentPending", "no agent"),
        (&applied, &fine, Reachable, "Available", "it is on the cluster"),
        (&applied, &there, Reachable, "Progressing", "1 of 2"),
        (&failed, &denied, Reachable, "ApplyFailed", "denied by policy"),
        // Another object has failed.
        (&failed, &fine, Reachable, "Available", "it is on the cluster"),
        (&failed, &denied, Unreachable, "ClusterUnreachable", "denied by policy"),
        (&applied, &fine, Unreachable, "Available", "it is on the cluster"),
    ] {
        let reported = answer_of_object(&git(), &tree(conditions, of_object), reach);
        assert_eq!(reported.reason, reason, "{reported:?}");
        assert!(reported.message.contains(message), "{reported:?}");
        assert_eq!(reported.there, reason == "Available");
    }
}

#[test]
fn object_that_moves_is_explained_from_both_works() {
    let work = |name: &str| WorkKey { work: WorkName::parse(name).unwrap(), ..key() };
    let moving = |progress| ObjectMove {
        digest: ObjectDigest::new("", "ConfigMap", "shop", "a"),
        object: Identity {
            group: String::new(),
            resource: "configmaps".into(),
            namespace: "shop".into(),
            name: "a".into(),
        },
        from: work("web"),
        to: work("web2"),
        progress,
    };
    let waits = moving(MoveProgress::Applying { failure: None });
    let failed = moving(MoveProgress::Applying { failure: Some("field is immutable".into()) });
    let held = moving(MoveProgress::Suspended { why: "web2: suspended in Git".into() });
    let waits_in_plan = step(None, Reason::MovesObjects { moves: [waits.clone()].into() });
    let not_in_folder = GitSide { place: None, ..git() };
    let removed = GitSide { folder: None, place: None, ..git() };
    let between = "on the hub the work web has it, and in Git the work web2; ";
    for (git, moving, message, advice) in [
        (&not_in_folder, &waits, "web keeps it until web2 has applied it", "the work agent"),
        (&removed, &failed, "has not applied it: field is immutable", "remove the object in one"),
        (&git(), &held, "web2: suspended in Git", "neither work changes"),
    ] {
        let hub = HubInputs { moving: Some(moving), ..on_hub(&waits_in_plan, None) };
        let object = Some("ConfigMap shop/a");
        let inputs = ExplainInputs { key: &key(), object, git, near: None, hub: Some(hub) };
        let reported = inputs.answer();
        assert_eq!(reported.reason, "MovesObjects");
        assert!(
            reported.message.starts_with(between) && reported.message.contains(message),
            "{reported:?}"
        );
        assert!(reported.advice.as_ref().is_some_and(|text| text.contains(advice)), "{reported:?}");
    }
    // The receiving work is not on the hub yet.
    let new = step(Some(Effect::Release { resource_version: "1".into() }), Reason::NewInGit);
    let hub = HubInputs { moving: Some(&waits), ..on_hub(&new, None) };
    let object = Some("ConfigMap shop/a");
    let inputs = ExplainInputs { key: &key(), object, git: &git(), near: None, hub: Some(hub) };
    assert!(inputs.answer().advice.is_some_and(|text| text.contains("next pass")));
}

#[test]
fn object_that_git_no_longer_has_is_reported() {
    let fine = json!([condition("Applied", "True", ""), condition("Available", "True", "")]);
    let dropped = GitSide { place: None, ..git() };
    let tree = tree(&json!([condition("Applied", "True", "")]), &fine);
    let reported = answer_of_object(&dropped, &tree, ClusterReachability::Reachable);
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
        omitted: 0,
    };
    explanation.prefix_paths(&RepoPath::parse("fleet").unwrap());
    assert_eq!(explanation.git.folder.unwrap().as_str(), "fleet/clusters/edge-1/web");
    assert_eq!(explanation.git.place.unwrap().to_string(), "fleet/clusters/edge-1/web/a.yaml:3");
}

/// A state in Git with a text in every field that may have any text.
fn git_with_text(hostile: &str) -> GitSide {
    let note = || Some(CommitNote::new("ab".repeat(20), hostile.into(), 0, hostile.into()));
    let setting = Setting {
        name: hostile.into(),
        value: hostile.into(),
        set_by: Some(FileLine { file: RepoPath::root().join(hostile), line: Some(1) }),
        fact: None,
        overrides: vec![FileLine { file: RepoPath::root().join(hostile), line: None }],
    };
    GitSide {
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
    }
}

/// An explanation with a text in every field that may have any text.
fn explanation_with_text(hostile: &str) -> Explanation {
    let failed =
        json!([condition("Applied", "False", hostile), condition(hostile, hostile, hostile)]);
    let (git, tree, step) = (git_with_text(hostile), tree(&failed, &failed), settled());
    let object = tree.objects.first().cloned();
    Explanation {
        cluster: "edge-1".into(),
        work: "web".into(),
        object: Some(hostile.into()),
        answer: answer(&git, Some(on_hub(&step, Some(&tree)))),
        git,
        hub: Some(HubSide { work: Some(tree), object }),
        hub_unknown: Some(hostile.into()),
        omitted: 0,
    }
}

#[test]
fn hostile_texts_of_git_and_the_cluster_are_text_in_every_form() {
    use gitwork_yaml::is_dangerous;

    use crate::status::print::Layout;
    use gitwork_core::text::escape::escape_untrusted_json;
    use gitwork_core::text::style::ColorMode;
    let (style, now) = (ColorMode::Plain, Timestamp::UNIX_EPOCH);
    let layout = |wide, width| Layout { wide, width, style, now };
    for hostile in [
        "\u{1b}[2J\u{9b}31m\u{7}",
        "\u{202e}\u{2066}\u{feff}",
        "a\nIn Git\r\tforged",
        "<b>|*x*|</b>",
    ] {
        let explanation = explanation_with_text(hostile);
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
