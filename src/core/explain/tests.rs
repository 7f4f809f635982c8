use serde_json::json;

use super::answer::HubFacts;
use super::*;
use crate::core::adoption::Adoption;
use crate::core::budget::Excess;
use crate::core::digest::Digest;
use crate::core::name::{ClusterName, WorkKey, WorkName};
use crate::core::plan::{Effect, Reason, Step};
use crate::core::status::tree::WorkTree;

fn key() -> WorkKey {
    WorkKey {
        cluster: ClusterName::parse("edge-1").unwrap(),
        work: WorkName::parse("web").unwrap(),
    }
}

fn place(file: &str, line: u32) -> Place {
    Place { file: RepoPath::parse(file).unwrap(), line: Some(line) }
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

fn step(effect: Option<Effect>, reason: Reason) -> Step {
    Step { key: key(), path: None, effect, reason }
}

/// A work whose agent says this of the work and of its only object.
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

fn settled() -> Step {
    step(None, Reason::UpToDate)
}

fn answer(git: &GitSide, hub: Option<HubFacts<'_>>) -> Answer {
    Facts { key: &key(), object: None, git, near: None, hub }.answer()
}

#[test]
fn what_git_does_not_have_is_told_with_who_removed_it_or_what_it_may_be_called() {
    let mut gone = GitSide { folder: None, place: None, ..git() };
    let told = answer(&gone, None);
    assert_eq!((told.reason.as_str(), told.there), ("NotInGit", false));
    let near = WorkKey { work: WorkName::parse("wep").unwrap(), ..key() };
    let told =
        Facts { key: &key(), object: None, git: &gone, near: Some(&near), hub: None }.answer();
    assert_eq!(told.advice.as_deref(), Some("did you mean edge-1/wep?"));
    let author = "Ann <ann@example.com>".to_owned();
    gone.removed_by = Some(CommitNote::new("cd".repeat(20), author, 0, "Drop web".into()));
    let told = answer(&gone, None);
    assert_eq!(told.reason, "RemovedFromGit");
    assert_eq!(told.message, "Ann <ann@example.com> removed it from Git with cdcdcdcd: Drop web");
    // What the hub still has has a plan, which says more.
    let held = step(
        None,
        Reason::HeldByBudget {
            uid: "u".into(),
            hash: Digest::of(b"plan"),
            works: 3,
            excess: Excess::Everything,
        },
    );
    let hub = HubFacts { step: Some(&held), work: None, object: None, reach: Reach::Reached };
    let told = answer(&gone, Some(hub));
    assert_eq!(told.reason, "HeldByBudget");
    assert!(told.message.contains("gitwork approve"), "{}", told.message);
}

#[test]
fn an_error_in_git_comes_before_all_that_the_hub_says() {
    let problem = Problem {
        code: "GW102",
        error: true,
        place: place("clusters/edge-1/web/a.yaml", 7),
        message: "a key stands twice".into(),
    };
    let broken = GitSide { problems: vec![problem], ..git() };
    let step = settled();
    let hub = HubFacts { step: Some(&step), work: None, object: None, reach: Reach::Reached };
    let told = answer(&broken, Some(hub));
    assert_eq!(told.reason, "Frozen");
    assert!(told.message.ends_with("clusters/edge-1/web/a.yaml:7: a key stands twice"));
    assert!(told.advice.unwrap().contains("GW102"));
}

#[test]
fn what_the_plan_says_is_told_with_what_to_do() {
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
        (&suspended, step(None, Reason::Suspended), Reach::Reached, "Suspended", "cluster.yaml:2"),
        (&git(), step(release(), Reason::NewInGit), Reach::Reached, "NewInGit", "gitwork run"),
        (&git(), step(release(), Reason::NewInGit), Reach::NoCluster, "NoCluster", "join"),
        (&on_disk, step(release(), Reason::ChangedInGit), Reach::Reached, "ChangedInGit", "push"),
    ];
    for (git, step, reach, reason, advice) in cases {
        let hub = HubFacts { step: Some(&step), work: None, object: None, reach };
        let told = answer(git, Some(hub));
        assert_eq!((told.reason.as_str(), told.there), (reason, false));
        assert!(told.advice.as_ref().is_some_and(|text| text.contains(advice)), "{told:?}");
    }
    let conflict =
        step(None, Reason::Conflict { owner: Some("other".into()), adoption: Adoption::default() });
    let hub = HubFacts { step: Some(&conflict), work: None, object: None, reach: Reach::Reached };
    let told = answer(&git(), Some(hub));
    assert!(told.reason == "Conflict" && told.message.contains("\"other\""), "{told:?}");
    assert_eq!(answer(&git(), None).reason, "HubUnknown");
}

#[test]
fn what_the_cluster_says_of_the_object_counts_for_the_object() {
    let applied = [condition("Applied", "True", "")];
    let failed = [condition("Applied", "False", "work failed")];
    let denied = json!([condition("Applied", "False", "denied by policy")]);
    let fine = json!([condition("Applied", "True", ""), condition("Available", "True", "")]);
    let there =
        json!([condition("Applied", "True", ""), condition("Available", "False", "1 of 2")]);
    let cases = [
        (json!([]), &fine, Reach::Reached, "AgentPending", "no agent"),
        (json!(applied), &fine, Reach::Reached, "Available", "it is on the cluster"),
        (json!(applied), &there, Reach::Reached, "Progressing", "1 of 2"),
        (json!(failed), &denied, Reach::Reached, "ApplyFailed", "denied by policy"),
        // Another object has failed.
        (json!(failed), &fine, Reach::Reached, "Available", "it is on the cluster"),
        (json!(failed), &denied, Reach::Lost, "ClusterUnreachable", "denied by policy"),
        (json!(applied), &fine, Reach::Lost, "Available", "it is on the cluster"),
    ];
    let step = settled();
    for (conditions, of_object, reach, reason, message) in cases {
        let tree = tree(&conditions, of_object);
        let object = tree.objects.first();
        let hub = HubFacts { step: Some(&step), work: Some(&tree), object, reach };
        let name = object.map(ToString::to_string);
        let key = key();
        let facts =
            Facts { key: &key, object: name.as_deref(), git: &git(), near: None, hub: Some(hub) };
        let told = facts.answer();
        assert_eq!(told.reason, reason, "{told:?}");
        assert!(told.message.contains(message), "{told:?}");
        assert_eq!(told.there, reason == "Available");
    }
    // An object that Git has dropped from the work.
    let tree = tree(&json!(applied), &fine);
    let dropped = GitSide { place: None, ..git() };
    let hub = HubFacts {
        step: Some(&step),
        work: Some(&tree),
        object: tree.objects.first(),
        reach: Reach::Reached,
    };
    let (key, object) = (key(), Some("ConfigMap shop/a"));
    let told = Facts { key: &key, object, git: &dropped, near: None, hub: Some(hub) }.answer();
    assert_eq!(told.reason, "ObjectNotInGit");
}

#[test]
fn places_are_told_from_the_root_of_the_repository() {
    let mut explanation = Explanation {
        cluster: "edge-1".into(),
        work: "web".into(),
        object: None,
        answer: answer(&git(), None),
        git: git(),
        hub: None,
        hub_unknown: None,
    };
    explanation.tell_from_root(&RepoPath::parse("fleet").unwrap());
    assert_eq!(explanation.git.folder.unwrap().as_str(), "fleet/clusters/edge-1/web");
    assert_eq!(explanation.git.place.unwrap().to_string(), "fleet/clusters/edge-1/web/a.yaml:3");
}

#[test]
fn hostile_texts_of_git_and_the_cluster_are_text_in_every_form() {
    use crate::core::report::{Style, harmless_json, is_dangerous};
    use crate::core::status::print::Layout;
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
            set_by: Some(Place { file: RepoPath::root().join(hostile), line: Some(1) }),
            overrides: vec![Place { file: RepoPath::root().join(hostile), line: None }],
        };
        let git = GitSide {
            source: hostile.into(),
            last_change: note(),
            removed_by: note(),
            settings: vec![setting],
            objects: vec![ObjectPlace { object: hostile.into(), place: place("a.yaml", 1) }],
            problems: vec![Problem {
                code: "GW102",
                error: false,
                place: place("a.yaml", 1),
                message: hostile.into(),
            }],
            ..git()
        };
        let step = settled();
        let object = tree.objects.first();
        let hub = HubFacts { step: Some(&step), work: Some(&tree), object, reach: Reach::Reached };
        let explanation = Explanation {
            cluster: "edge-1".into(),
            work: "web".into(),
            object: Some(hostile.into()),
            answer: answer(&git, Some(hub)),
            git,
            hub: Some(HubSide { work: Some(tree.clone()), object: object.cloned() }),
            hub_unknown: Some(hostile.into()),
        };
        let layout =
            |wide, width| Layout { wide, width, style: Style::Plain, now: Timestamp::UNIX_EPOCH };
        let unknown = Explanation { hub: None, ..explanation.clone() };
        let value = json!(explanation);
        for shown in [
            text(&explanation, &layout(false, Some(80))),
            text(&explanation, &layout(true, None)),
            text(&unknown, &layout(false, None)),
            harmless_json(&format!("{value:#}")),
            crate::core::yaml::write(&value),
        ] {
            let command = shown.chars().find(|c| *c != '\n' && is_dangerous(*c));
            assert_eq!(command, None, "{shown:?}");
            assert!(shown.lines().filter(|line| line.trim() == "In Git").count() <= 1, "{shown}");
        }
    }
}
