//! Single stories, each told from the commit to what is left on the hub and on the cluster.

use gitwork::core::adoption::Adoption;
use gitwork::core::plan::{Action, Policy};
use gitwork::core::work::DeleteOption;
use serde_json::{Value, json};

use super::agents::identity;
use super::hub::Faults;
use super::world::{GitWork, World, condition, folder, keep_first, manifest};
use super::*;

impl World {
    /// A world with this work and another one that stays, both applied by their agents.
    pub async fn with(key: &WorkKey, work: GitWork) -> Self {
        let mut world = World::new(0);
        world.push(&self::key("edge-3", "stays"), GitWork::default());
        world.push(key, work);
        assert_eq!(world.sync(key).await, "create NewInGit");
        world.agents.settle(&world.hub);
        assert_eq!(world.sync(key).await, "keep UpToDate");
        world
    }

    /// One pass over fresh knowledge; answers what it did with the work and why.
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

fn options() -> [(DeleteOption, &'static [&'static str]); 3] {
    [
        (DeleteOption::Foreground, &[]),
        (DeleteOption::Orphan, &["web-a", "web-b"]),
        (keep_first(&web()), &["web-a"]),
    ]
}

#[tokio::test]
async fn gits_last_word_on_delete_option_decides_what_stays_on_the_cluster() {
    for (before, _) in options() {
        for (last_word, stays) in options() {
            let delete_option = before.clone();
            let mut world =
                World::with(&web(), GitWork { delete_option, ..GitWork::default() }).await;
            world.drop_work(&web(), Some(last_word.clone()));
            if before != last_word {
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
            assert_eq!(world.left(&web()), stays, "{before:?} then {last_word:?}");
            assert_eq!(world.sync(&web()).await, "nothing");
        }
    }
}

#[tokio::test]
async fn a_work_is_not_deleted_while_an_object_that_is_to_stay_cannot_be_let_go_of() {
    let mut world = World::with(&web(), GitWork::default()).await;
    let object = (web().cluster, identity(&manifest(&web(), "a", "")));
    world.agents.failing.insert(object);
    world.drop_work(&web(), Some(DeleteOption::Orphan));
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
async fn a_complete_work_whose_agent_ignores_the_delete_option_is_held() {
    let complete = json!({"status": {"conditions": [
        condition("Applied"), condition("Complete"),
    ]}});
    for (last_word, expected) in [
        (DeleteOption::Orphan, "hold NotYetOrphaned"),
        (DeleteOption::Foreground, "delete RemovedFromGit"),
    ] {
        let mut world = World::with(&web(), GitWork::default()).await;
        world.hub.patch_status(&web(), &complete).unwrap();
        world.drop_work(&web(), Some(last_word.clone()));
        if last_word != DeleteOption::Foreground {
            assert_eq!(world.sync(&web()).await, "set-delete-option DeleteOptionFirst");
        }
        world.agents.settle(&world.hub);
        assert_eq!(world.sync(&web()).await, expected);
    }
}

#[tokio::test]
async fn a_work_that_no_agent_has_seen_is_deleted_at_once() {
    let mut world = World::new(0);
    world.push(&key("edge-3", "stays"), GitWork::default());
    world.push(&web(), GitWork { delete_option: DeleteOption::Orphan, ..GitWork::default() });
    world.sync(&web()).await;
    world.drop_work(&web(), None);
    assert_eq!(world.sync(&web()).await, "delete RemovedFromGit");
    assert!(!world.is_on_hub(&web()));
}

#[tokio::test]
async fn a_work_with_prune_false_is_released_and_stays() {
    let mut world = World::with(&web(), GitWork { prune: false, ..GitWork::default() }).await;
    world.drop_work(&web(), None);
    assert_eq!(world.sync(&web()).await, "release PruneOff");
    assert_eq!(world.hub.objects()[&web()]["metadata"].get("labels"), None);
    assert_eq!(world.sync(&web()).await, "nothing");
    world.agents.settle(&world.hub);
    assert_eq!(world.left(&web()), ["web-a", "web-b"]);

    world.push(&web(), GitWork::default());
    assert_eq!(world.sync(&web()).await, "create NewInGit", "the watch no longer tells of it");
    assert_eq!(world.sync(&web()).await, "hold Conflict", "it is nobody's now");
}

#[tokio::test]
async fn what_cannot_be_read_stays_as_it_is() {
    let freezes: [fn(&mut World); 5] = [
        |world| world.frozen.source = true,
        |world| world.frozen.deletes = true,
        |world| world.frozen.clusters = [web().cluster].into(),
        |world| world.frozen.works = [web()].into(),
        |world| world.frozen.folders = [folder(&web())].into(),
    ];
    for freeze in freezes {
        let mut world = World::with(&web(), GitWork::default()).await;
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
async fn a_source_that_cannot_be_read_whole_still_gets_its_changes_through() {
    let mut world = World::with(&web(), GitWork::default()).await;
    world.frozen.deletes = true;
    world.push(&web(), GitWork { text: "fix".into(), ..GitWork::default() });
    assert_eq!(world.sync(&web()).await, "update ChangedInGit");
}

#[tokio::test]
async fn a_suspended_work_is_left_alone() {
    let mut world = World::with(&web(), GitWork::default()).await;
    let suspended = GitWork { suspend: true, text: "two".into(), ..GitWork::default() };
    world.push(&web(), suspended.clone());
    assert_eq!(world.sync(&web()).await, "hold Suspended");
    world.hub.user_deletes(&web()).unwrap();
    world.agents.settle(&world.hub);
    assert_eq!(world.sync(&web()).await, "hold Suspended", "not even made anew");
    world.push(&web(), GitWork { suspend: false, ..suspended });
    assert_eq!(world.sync(&web()).await, "create NewInGit");
}

#[tokio::test]
async fn an_emptied_source_keeps_its_works_until_it_is_allowed_to_delete_all() {
    let stays = key("edge-3", "stays");
    let mut world = World::with(&web(), GitWork::default()).await;
    world.drop_work(&web(), Some(DeleteOption::Orphan));
    world.drop_work(&stays, None);
    let before = world.hub.objects();
    for key in [web(), stays.clone()] {
        assert_eq!(world.sync(&key).await, "hold HeldByBudget");
    }
    assert_eq!(world.hub.objects(), before, "not even the deleteOption is written");
    world.policy = Policy { allow_delete_all: true, ..Policy::default() };
    assert_eq!(world.sync(&stays).await, "delete RemovedFromGit");
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_not_made_twice() {
    let mut world = World::new(0);
    world.hub.set_faults(Faults { answer_lost: 100, ..Faults::default() });
    world.push(&web(), GitWork::default());
    assert_eq!(world.sync(&web()).await, "create NewInGit");
    assert_eq!(world.sync(&web()).await, "keep UpToDate");
    assert_eq!(world.hub.writes(), 1);
}

#[tokio::test]
async fn what_the_hub_stores_differently_is_not_written_for_ever() {
    let mut world = World::new(0);
    world.hub.forget_fields(&["deleteOption"]);
    world.push(&key("edge-3", "stays"), GitWork::default());
    let work = GitWork { delete_option: DeleteOption::Orphan, ..GitWork::default() };
    world.push(&web(), work.clone());
    assert_eq!(world.sync(&web()).await, "create NewInGit");
    for _ in 0..3 {
        assert_eq!(world.sync(&web()).await, "hold StoredDifferently");
    }
    assert_eq!(world.hub.writes(), 2);
    world.push(&web(), GitWork { text: "two".into(), ..work });
    assert_eq!(world.sync(&web()).await, "update ChangedInGit");
    assert_eq!(world.sync(&web()).await, "hold StoredDifferently");

    let edit = json!({"spec": {"workload": {"manifests": []}}});
    world.hub.user_patches(&web(), &edit).unwrap();
    assert_eq!(world.sync(&web()).await, "update EditedOnHub", "an edit is still seen");
    assert_eq!(world.sync(&web()).await, "hold StoredDifferently");

    let writes = world.hub.writes();
    world.restart();
    assert_eq!(world.sync(&web()).await, "update EditedOnHub", "a new process cannot know");
    assert_eq!(world.sync(&web()).await, "hold StoredDifferently");
    assert_eq!(world.hub.writes(), writes, "and what it wrote changed nothing");

    world.drop_work(&web(), None);
    assert_eq!(world.sync(&web()).await, "set-delete-option DeleteOptionFirst");
    for _ in 0..3 {
        assert_eq!(world.sync(&web()).await, "hold StoredDifferently", "never deleted without it");
    }
    assert_eq!(world.hub.writes(), writes);
    world.hub.forget_fields(&[]);
    world.restart();
    assert_eq!(world.sync(&web()).await, "set-delete-option DeleteOptionFirst");
    assert_eq!(world.sync(&web()).await, "delete RemovedFromGit");
}

#[tokio::test]
async fn a_taken_name_is_a_conflict_until_somebody_consents() {
    let mut world = World::new(0);
    let foreign = json!({
        "metadata": {"namespace": "edge-1", "name": "web", "labels": {"foreign": "1"}},
        "spec": {"workload": {"manifests": []}},
    });
    let foreign = world.hub.user_creates(foreign).unwrap();
    world.push(&web(), GitWork::default());
    assert_eq!(world.sync(&web()).await, "create NewInGit", "the watch does not tell of it");
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
async fn the_operator_says_which_works_of_others_are_taken_over() {
    let (same, other) = (true, false);
    for (adoption, spec, labels, consent, expected) in [
        (Adoption::Annotated, same, json!({}), None, "hold Conflict"),
        (Adoption::Annotated, other, json!({}), Some("fleet"), "adopt AdoptionAllowed"),
        (Adoption::Never, same, json!({}), Some("fleet"), "hold Conflict"),
        (Adoption::Unowned, same, json!({"foreign": "1"}), None, "adopt AdoptedUnowned"),
        (Adoption::Unowned, other, json!({}), None, "hold Conflict"),
        (Adoption::Unowned, other, json!({}), Some("fleet"), "adopt AdoptionAllowed"),
        (Adoption::Unowned, same, json!({"gitwork.dev/source": "another"}), None, "hold Conflict"),
        (
            Adoption::Unowned,
            same,
            json!({"app.kubernetes.io/managed-by": "Helm"}),
            None,
            "hold Conflict",
        ),
    ] {
        let mut world = World::new(0);
        world.policy = Policy { adoption, ..Policy::default() };
        world.push(&web(), GitWork::default());
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
async fn what_users_do_to_our_works_is_put_back() {
    let edits: [(Value, &str); 5] = [
        (json!({"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}}), "update EditedOnHub"),
        (json!({"metadata": {"labels": {"team": "b"}}}), "update EditedOnHub"),
        (json!({"metadata": {"annotations": null}}), "update EditedOnHub"),
        (json!({"metadata": {"labels": {"foreign": "1"}}}), "keep UpToDate"),
        // Without the label it is not ours to write.
        (json!({"metadata": {"labels": {"gitwork.dev/source": null}}}), "hold Conflict"),
    ];
    for (edit, expected) in edits {
        let labels = [("team".to_owned(), "a".to_owned())].into();
        let mut world = World::with(&web(), GitWork { labels, ..GitWork::default() }).await;
        world.hub.user_patches(&web(), &edit).unwrap();
        let mut done = world.sync(&web()).await;
        if expected == "hold Conflict" {
            assert_eq!(done, "create NewInGit", "the watch says that it left");
            done = world.sync(&web()).await;
        }
        assert_eq!(done, expected, "{edit}");
        let after = if expected == "hold Conflict" { expected } else { "keep UpToDate" };
        assert_eq!(world.sync(&web()).await, after, "{edit}");
    }
}

#[tokio::test]
async fn a_work_deleted_by_hand_comes_back_once_it_is_gone() {
    let mut world = World::with(&web(), GitWork::default()).await;
    world.hub.user_deletes(&web()).unwrap();
    assert_eq!(world.sync(&web()).await, "wait BeingDeleted");
    world.agents.settle(&world.hub);
    assert_eq!(world.sync(&web()).await, "create NewInGit");
    world.agents.settle(&world.hub);
    assert_eq!(world.left(&web()), ["web-a", "web-b"]);
}

#[tokio::test]
async fn labels_that_git_drops_disappear_and_others_stay() {
    let labels = [("team".to_owned(), "a".to_owned())].into();
    let mut world = World::with(&web(), GitWork { labels, ..GitWork::default() }).await;
    world.hub.user_patches(&web(), &json!({"metadata": {"labels": {"foreign": "1"}}})).unwrap();
    world.push(&web(), GitWork::default());
    assert_eq!(world.sync(&web()).await, "update ChangedInGit");
    let labels = &world.hub.objects()[&web()]["metadata"]["labels"];
    assert_eq!((labels.get("team"), &labels["foreign"]), (None, &json!("1")));
    assert_eq!(world.sync(&web()).await, "keep UpToDate");
}

#[tokio::test]
async fn a_plan_of_yesterday_does_no_harm() {
    let mut world = World::with(&web(), GitWork::default()).await;
    world.drop_work(&web(), None);
    world.observe();
    // Adopted by somebody else since: the plan is made before the watch tells.
    let taken = json!({"metadata": {"labels": {"gitwork.dev/source": "another"}}});
    let taken = world.hub.user_patches(&web(), &taken).unwrap().unwrap();
    let plan = world.pass().await;
    assert!(plan.steps.iter().any(|s| s.key == web() && s.action() == Action::Delete), "{plan:?}");
    assert_eq!(world.hub.objects()[&web()], *taken);
}
