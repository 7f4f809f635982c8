//! Single scenarios, from the commit to the result on the hub and on the cluster.

use gitwork_core::config::AdoptionPolicy;
use gitwork_core::model::work::DeletionPolicy;
use gitwork_core::plan::{Action, PlanPolicy};
use serde_json::{Value, json};

use super::git_work::{GitWork, config_map, folder, keep_first};
use super::hub::Faults;
use super::world::{World, condition};
use super::*;

impl World {
    /// A world with this work and another one that stays, both applied by their agents.
    pub async fn with(key: &WorkKey, work: GitWork) -> Self {
        let mut world = World::new(0);
        let stays = self::key("edge-3", "stays");
        world.push(&stays, GitWork::of(&stays));
        world.push(key, work);
        assert_eq!(world.sync(key).await, "create NewInGit");
        world.agents.settle(&world.hub);
        assert_eq!(world.sync(key).await, "keep UpToDate");
        world
    }

    /// Runs one pass over fresh state. Returns the work's action and reason.
    pub async fn sync(&mut self, key: &WorkKey) -> String {
        self.observe();
        let plan = self.pass().await;
        let step = plan.steps.iter().find(|step| step.key == *key);
        step.map_or("nothing".into(), |step| format!("{} {}", step.action(), step.reason.code()))
    }

    pub fn is_on_hub(&self, key: &WorkKey) -> bool {
        self.hub.objects().contains_key(key)
    }

    /// The names of the work's objects on its cluster.
    fn left(&self, key: &WorkKey) -> Vec<String> {
        let of_work = |name: &str| name.starts_with(&format!("{}-", key.work));
        let objects = self.agents.objects().map(|(object, _)| object);
        let objects = objects.filter(|(c, object)| *c == key.cluster && of_work(&object.name));
        objects.map(|(_, object)| object.name).collect()
    }
}

fn web() -> WorkKey {
    key("edge-1", "web")
}

fn options() -> [(DeletionPolicy, &'static [&'static str]); 3] {
    [
        (DeletionPolicy::Foreground, &[]),
        (DeletionPolicy::Orphan, &["web-a", "web-b"]),
        (keep_first(&web()), &["web-a"]),
    ]
}

#[tokio::test]
async fn final_delete_option_in_git_decides_which_objects_stay() {
    for (before, _) in options() {
        for (final_option, stays) in options() {
            let delete_option = before.clone();
            let mut world =
                World::with(&web(), GitWork { delete_option, ..GitWork::of(&web()) }).await;
            world.drop_work(&web(), Some(final_option.clone()));
            if before != final_option {
                assert_eq!(world.sync(&web()).await, "set-delete-option DeleteOptionFirst");
                for _ in 0..3 {
                    assert_eq!(world.sync(&web()).await, "wait WaitingForAgent", "no agent yet");
                }
                assert_eq!(world.left(&web()), ["web-a", "web-b"]);
                world.agents.settle(&world.hub);
            }
            assert_eq!(world.sync(&web()).await, "delete RemovedFromGit");
            assert!(world.is_on_hub(&web()), "the agent has yet to clean up");
            assert_eq!(world.sync(&web()).await, "wait BeingDeleted");
            world.agents.settle(&world.hub);
            assert!(!world.is_on_hub(&web()));
            assert_eq!(world.left(&web()), stays, "{before:?} then {final_option:?}");
            assert_eq!(world.sync(&web()).await, "nothing");
        }
    }
}

#[tokio::test]
async fn work_is_not_deleted_until_objects_that_stay_are_released() {
    let mut world = World::with(&web(), GitWork::of(&web())).await;
    let object = (web().cluster, config_map("web-a"));
    world.agents.failing.insert(object);
    world.drop_work(&web(), Some(DeletionPolicy::Orphan));
    assert_eq!(world.sync(&web()).await, "set-delete-option DeleteOptionFirst");
    world.agents.settle(&world.hub);
    assert_eq!(world.sync(&web()).await, "hold NotYetOrphaned");
    assert_eq!(world.sync(&web()).await, "hold NotYetOrphaned");
    world.agents.failing.clear();
    world.agents.settle(&world.hub);
    assert_eq!(world.sync(&web()).await, "delete RemovedFromGit");
    world.agents.settle(&world.hub);
    assert_eq!(world.left(&web()), ["web-a", "web-b"]);
}

#[tokio::test]
async fn complete_work_is_held_if_agent_ignores_delete_option() {
    let complete = json!({"status": {"conditions": [
        condition("Applied"), condition("Complete"),
    ]}});
    for (final_option, expected) in [
        (DeletionPolicy::Orphan, "hold NotYetOrphaned"),
        (DeletionPolicy::Foreground, "delete RemovedFromGit"),
    ] {
        let mut world = World::with(&web(), GitWork::of(&web())).await;
        world.hub.patch_status(&web(), &complete).unwrap();
        world.drop_work(&web(), Some(final_option.clone()));
        if final_option != DeletionPolicy::Foreground {
            assert_eq!(world.sync(&web()).await, "set-delete-option DeleteOptionFirst");
        }
        world.agents.settle(&world.hub);
        assert_eq!(world.sync(&web()).await, expected);
    }
}

#[tokio::test]
async fn work_without_agent_status_is_deleted_at_once() {
    let mut world = World::new(0);
    let stays = key("edge-3", "stays");
    world.push(&stays, GitWork::of(&stays));
    world.push(&web(), GitWork { delete_option: DeletionPolicy::Orphan, ..GitWork::of(&web()) });
    world.sync(&web()).await;
    world.drop_work(&web(), None);
    assert_eq!(world.sync(&web()).await, "delete RemovedFromGit");
    assert!(!world.is_on_hub(&web()));
}

#[tokio::test]
async fn work_with_prune_false_is_released_and_stays() {
    let mut world = World::with(&web(), GitWork { prune: false, ..GitWork::of(&web()) }).await;
    world.drop_work(&web(), None);
    assert_eq!(world.sync(&web()).await, "release PruneOff");
    assert_eq!(world.hub.objects()[&web()]["metadata"].get("labels"), None);
    assert_eq!(world.sync(&web()).await, "nothing");
    world.agents.settle(&world.hub);
    assert_eq!(world.left(&web()), ["web-a", "web-b"]);

    world.push(&web(), GitWork::of(&web()));
    assert_eq!(world.sync(&web()).await, "create NewInGit", "the watch no longer reports it");
    assert_eq!(world.sync(&web()).await, "hold Conflict", "no source owns it now");
}

#[tokio::test]
async fn unreadable_works_stay_unchanged() {
    let freezes: [fn(&mut World); 5] = [
        |world| world.frozen.source = true,
        |world| world.frozen.deletes = true,
        |world| world.frozen.clusters = [web().cluster].into(),
        |world| world.frozen.works = [web()].into(),
        |world| world.frozen.folders = [(web().cluster, folder(&web()))].into(),
    ];
    for freeze in freezes {
        let mut world = World::with(&web(), GitWork::of(&web())).await;
        let before = world.hub.objects();
        world.drop_work(&web(), None);
        freeze(&mut world);
        assert_eq!(world.sync(&web()).await, "hold Frozen");
        assert_eq!(world.hub.objects(), before);
        world.frozen = Default::default();
        assert_eq!(world.sync(&web()).await, "delete RemovedFromGit", "now Git is clear");
    }
}

#[tokio::test]
async fn partly_readable_source_still_applies_changes() {
    let mut world = World::with(&web(), GitWork::of(&web())).await;
    world.frozen.deletes = true;
    world.push(&web(), GitWork { text: "fix".into(), ..GitWork::of(&web()) });
    assert_eq!(world.sync(&web()).await, "update ChangedInGit");
}

#[tokio::test]
async fn suspended_work_is_not_changed() {
    let mut world = World::with(&web(), GitWork::of(&web())).await;
    let suspended = GitWork { suspend: true, text: "two".into(), ..GitWork::of(&web()) };
    world.push(&web(), suspended.clone());
    assert_eq!(world.sync(&web()).await, "hold Suspended");
    world.hub.user_deletes(&web()).unwrap();
    world.agents.settle(&world.hub);
    assert_eq!(world.sync(&web()).await, "hold Suspended", "not even created again");
    world.push(&web(), GitWork { suspend: false, ..suspended });
    assert_eq!(world.sync(&web()).await, "create NewInGit");
}

#[tokio::test]
async fn emptied_source_keeps_works_until_deleting_all_is_allowed() {
    let stays = key("edge-3", "stays");
    let mut world = World::with(&web(), GitWork::of(&web())).await;
    world.drop_work(&web(), Some(DeletionPolicy::Orphan));
    world.drop_work(&stays, None);
    let before = world.hub.objects();
    for key in [web(), stays.clone()] {
        assert_eq!(world.sync(&key).await, "hold HeldByBudget");
    }
    assert_eq!(world.hub.objects(), before, "not even the deleteOption is written");
    world.policy = PlanPolicy { allow_delete_all: true, ..PlanPolicy::default() };
    assert_eq!(world.sync(&stays).await, "delete RemovedFromGit");
}

#[tokio::test]
async fn write_with_lost_response_is_not_repeated() {
    let mut world = World::new(0);
    world.hub.set_faults(Faults { answer_lost: 100, ..Faults::default() });
    world.push(&web(), GitWork::of(&web()));
    assert_eq!(world.sync(&web()).await, "create NewInGit");
    assert_eq!(world.sync(&web()).await, "keep UpToDate");
    assert_eq!(world.hub.writes(), 1);
}

#[tokio::test]
async fn content_changed_by_server_is_not_rewritten_endlessly() {
    let mut world = World::new(0);
    world.hub.forget_fields(&["deleteOption"]);
    let stays = key("edge-3", "stays");
    world.push(&stays, GitWork::of(&stays));
    let work = GitWork { delete_option: DeletionPolicy::Orphan, ..GitWork::of(&web()) };
    world.push(&web(), work.clone());
    assert_eq!(world.sync(&web()).await, "create NewInGit");
    for _ in 0..3 {
        assert_eq!(world.sync(&web()).await, "hold ChangedByServer");
    }
    assert_eq!(world.hub.writes(), 2);
    world.push(&web(), GitWork { text: "two".into(), ..work });
    assert_eq!(world.sync(&web()).await, "update ChangedInGit");
    assert_eq!(world.sync(&web()).await, "hold ChangedByServer");

    let edit = json!({"spec": {"workload": {"manifests": []}}});
    world.hub.user_patches(&web(), &edit).unwrap();
    assert_eq!(world.sync(&web()).await, "update EditedOnHub", "an edit is still seen");
    assert_eq!(world.sync(&web()).await, "hold ChangedByServer");

    let writes = world.hub.writes();
    world.restart();
    assert_eq!(world.sync(&web()).await, "update EditedOnHub", "a new process cannot know");
    assert_eq!(world.sync(&web()).await, "hold ChangedByServer");
    assert_eq!(world.hub.writes(), writes, "and what it wrote changed nothing");

    world.drop_work(&web(), None);
    assert_eq!(world.sync(&web()).await, "set-delete-option DeleteOptionFirst");
    for _ in 0..3 {
        assert_eq!(world.sync(&web()).await, "hold ChangedByServer", "never deleted without it");
    }
    assert_eq!(world.hub.writes(), writes);
    world.hub.forget_fields(&[]);
    world.restart();
    assert_eq!(world.sync(&web()).await, "set-delete-option DeleteOptionFirst");
    assert_eq!(world.sync(&web()).await, "delete RemovedFromGit");
}

#[tokio::test]
async fn name_conflict_holds_until_consent() {
    let mut world = World::new(0);
    let foreign = json!({
        "metadata": {"namespace": "edge-1", "name": "web", "labels": {"foreign": "1"}},
        "spec": {"workload": {"manifests": []}},
    });
    let foreign = world.hub.user_creates(foreign).unwrap();
    world.push(&web(), GitWork::of(&web()));
    assert_eq!(world.sync(&web()).await, "create NewInGit", "the watch does not report it");
    assert_eq!(world.sync(&web()).await, "hold Conflict");
    assert_eq!(world.hub.objects()[&web()], foreign);
    for (consent, expected) in [("another", "hold Conflict"), ("fleet", "adopt AdoptionAllowed")] {
        let consent = json!({"metadata": {"annotations": {"gitwork.dev/adopt": consent}}});
        world.hub.user_patches(&web(), &consent).unwrap();
        assert_eq!(world.sync(&web()).await, expected);
    }
    assert_eq!(world.sync(&web()).await, "keep UpToDate");
    let adopted = &world.hub.objects()[&web()]["metadata"];
    assert_eq!(adopted["uid"], foreign["metadata"]["uid"]);
    assert_eq!(adopted["labels"]["foreign"], "1");
    assert_eq!(adopted["annotations"].get("gitwork.dev/adopt"), None);
}

#[tokio::test]
async fn adoption_policy_decides_which_foreign_works_are_adopted() {
    let (same, other) = (true, false);
    for (adoption, spec, labels, consent, expected) in [
        (AdoptionPolicy::Annotated, same, json!({}), None, "hold Conflict"),
        (AdoptionPolicy::Annotated, other, json!({}), Some("fleet"), "adopt AdoptionAllowed"),
        (AdoptionPolicy::Never, same, json!({}), Some("fleet"), "hold Conflict"),
        (AdoptionPolicy::Unowned, same, json!({"foreign": "1"}), None, "adopt AdoptedUnowned"),
        (AdoptionPolicy::Unowned, other, json!({}), None, "hold Conflict"),
        (AdoptionPolicy::Unowned, other, json!({}), Some("fleet"), "adopt AdoptionAllowed"),
        (
            AdoptionPolicy::Unowned,
            same,
            json!({"gitwork.dev/source": "another"}),
            None,
            "hold Conflict",
        ),
        (
            AdoptionPolicy::Unowned,
            same,
            json!({"app.kubernetes.io/managed-by": "Helm"}),
            None,
            "hold Conflict",
        ),
    ] {
        let mut world = World::new(0);
        world.policy = PlanPolicy { adoption, ..PlanPolicy::default() };
        world.push(&web(), GitWork::of(&web()));
        let wanted = world.desired().works[&web()].body.spec.value();
        let spec = if spec { wanted } else { json!({"workload": {"manifests": []}}) };
        let mut metadata = json!({"namespace": "edge-1", "name": "web", "labels": labels});
        if let Some(consent) = consent {
            metadata["annotations"] = json!({"gitwork.dev/adopt": consent});
        }
        let foreign = world.hub.user_creates(json!({"metadata": metadata, "spec": spec})).unwrap();
        if world.sync(&web()).await == "create NewInGit" {
            assert_eq!(world.sync(&web()).await, expected, "{adoption:?} {foreign}");
        }
        let after = if expected == "hold Conflict" { expected } else { "keep UpToDate" };
        assert_eq!(world.sync(&web()).await, after, "{adoption:?} {foreign}");
        let is = &world.hub.objects()[&web()];
        assert_eq!(is["metadata"]["uid"], foreign["metadata"]["uid"]);
        assert_eq!(*is == foreign, expected == "hold Conflict", "{is}");
    }
}

#[tokio::test]
async fn user_edits_of_own_works_are_corrected() {
    let edits: [(Value, &str); 5] = [
        (json!({"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}}), "update EditedOnHub"),
        (json!({"metadata": {"labels": {"team": "b"}}}), "update EditedOnHub"),
        (json!({"metadata": {"annotations": null}}), "update EditedOnHub"),
        (json!({"metadata": {"labels": {"foreign": "1"}}}), "keep UpToDate"),
        // Without the label gitwork may not write it.
        (json!({"metadata": {"labels": {"gitwork.dev/source": null}}}), "hold Conflict"),
    ];
    for (edit, expected) in edits {
        let labels = [("team".to_owned(), "a".to_owned())].into();
        let mut world = World::with(&web(), GitWork { labels, ..GitWork::of(&web()) }).await;
        world.hub.user_patches(&web(), &edit).unwrap();
        let mut done = world.sync(&web()).await;
        if expected == "hold Conflict" {
            assert_eq!(done, "create NewInGit", "the watch reports that it left");
            done = world.sync(&web()).await;
        }
        assert_eq!(done, expected, "{edit}");
        let after = if expected == "hold Conflict" { expected } else { "keep UpToDate" };
        assert_eq!(world.sync(&web()).await, after, "{edit}");
    }
}

#[tokio::test]
async fn manually_deleted_work_is_created_again() {
    let mut world = World::with(&web(), GitWork::of(&web())).await;
    world.hub.user_deletes(&web()).unwrap();
    assert_eq!(world.sync(&web()).await, "wait BeingDeleted");
    world.agents.settle(&world.hub);
    assert_eq!(world.sync(&web()).await, "create NewInGit");
    world.agents.settle(&world.hub);
    assert_eq!(world.left(&web()), ["web-a", "web-b"]);
}

#[tokio::test]
async fn labels_removed_from_git_disappear_and_foreign_labels_stay() {
    let labels = [("team".to_owned(), "a".to_owned())].into();
    let mut world = World::with(&web(), GitWork { labels, ..GitWork::of(&web()) }).await;
    world.hub.user_patches(&web(), &json!({"metadata": {"labels": {"foreign": "1"}}})).unwrap();
    world.push(&web(), GitWork::of(&web()));
    assert_eq!(world.sync(&web()).await, "update ChangedInGit");
    let labels = &world.hub.objects()[&web()]["metadata"]["labels"];
    assert_eq!((labels.get("team"), &labels["foreign"]), (None, &json!("1")));
    assert_eq!(world.sync(&web()).await, "keep UpToDate");
}

#[tokio::test]
async fn stale_plan_changes_nothing_wrong() {
    let mut world = World::with(&web(), GitWork::of(&web())).await;
    world.drop_work(&web(), None);
    world.observe();
    // Another client adopts it before the watch reports that.
    let taken = json!({"metadata": {"labels": {"gitwork.dev/source": "another"}}});
    let taken = world.hub.user_patches(&web(), &taken).unwrap().unwrap();
    let plan = world.pass().await;
    assert!(plan.steps.iter().any(|s| s.key == web() && s.action() == Action::Delete), "{plan:?}");
    assert_eq!(world.hub.objects()[&web()], *taken);
}
