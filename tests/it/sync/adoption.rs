//! AdoptionPolicy of works of other owners, as the operator configures it.

use std::process::Output;
use std::sync::Arc;

use gitwork_core::config::AdoptionPolicy;
use gitwork_core::model::name::SourceId;
use gitwork_core::model::work::{ANNOTATION_ADOPT, LABEL_SOURCE};
use gitwork_core::plan::{Plan, Reason};
use gitwork_git::{Auth, Reference};
use gitwork_hub::KubeHub;
use kube::ResourceExt;
use serde_json::json;

use super::budget::gitwork_of;
use super::fixture::{Sync, config_map, value_of};

/// A pass of another source, which reads the branch `heir`.
async fn heirs_pass(sync: &Sync, heir: &SourceId, adoption: AdoptionPolicy) -> Plan {
    let cache = tempfile::tempdir_in(sync.folder.path()).unwrap().keep();
    let source = sync.source_in(cache, heir, Reference::Branch("heir".into()), Auth::None);
    let mut options = sync.options();
    options.guards.policy.adoption = adoption;
    let hub = Arc::new(KubeHub::new(sync.hub.client()));
    sync.engine_with(hub, source, options).once().await.unwrap().0
}

/// `gitwork plan` of that source.
fn heirs_plan(sync: &Sync, heir: &SourceId, more: &[&str]) -> Output {
    gitwork_of(sync, heir, "heir", &[&["plan"], more].concat())
}

#[track_caller]
fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn released_work_is_adopted_without_consent_only_if_configured() {
    let sync = Sync::new(1).await;
    let hub = Arc::new(KubeHub::new(sync.hub.client()));
    let pass = || async { sync.engine(hub.clone(), sync.source()).once().await.unwrap().0 };
    sync.commit(&[
        (0, "web/cm.yaml", Some(&config_map("web", "one"))),
        (0, "web/work.yaml", Some("prune: false\n")),
    ]);
    assert!(pass().await.is_settled());
    let uid = sync.until_there(0, "web").await.uid();
    sync.commit(&[
        (0, "web/cm.yaml", None),
        (0, "web/work.yaml", None),
        (0, "db/cm.yaml", Some(&config_map("db", "one"))),
    ]);
    assert!(pass().await.is_settled());
    let released = sync.until_there(0, "web").await;
    assert_eq!((released.uid(), released.labels().len()), (uid.clone(), 0), "{released:?}");

    // Another source wants it, and has other content.
    let heir = SourceId::parse(&format!("heir-{}", sync.clusters[0])).unwrap();
    let push = |value: &str| {
        sync.repo.commit("heir", &[(&sync.path(0, "web/cm.yaml"), Some(&config_map("web", value)))])
    };
    push("two");
    for adoption in [AdoptionPolicy::Annotated, AdoptionPolicy::Unowned] {
        let plan = heirs_pass(&sync, &heir, adoption).await;
        assert!(matches!(plan.steps.first().unwrap().reason, Reason::Conflict { .. }), "{plan:?}");
    }
    // The changes of an adoption are shown before the owner consents.
    let shown = stdout(&heirs_plan(&sync, &heir, &[]));
    assert!(shown.contains("\n    ConfigMap default/web\n") && shown.contains("two"), "{shown}");
    let shown = stdout(&heirs_plan(&sync, &heir, &["--adopt", "unowned", "-o", "json"]));
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let step = &shown["steps"][0];
    assert_eq!(step["reason"], "Conflict");
    assert!(step["changes"].as_str().is_some_and(|changes| changes.contains("two")), "{step}");

    // The same content: nothing changes but the owner.
    push("one");
    let plan = heirs_pass(&sync, &heir, AdoptionPolicy::Annotated).await;
    assert!(matches!(plan.steps.first().unwrap().reason, Reason::Conflict { .. }), "{plan:?}");
    let shown = stdout(&heirs_plan(&sync, &heir, &["--adopt", "unowned"]));
    assert!(shown.contains("+ adopt") && shown.contains("no changes but the owner"), "{shown}");
    assert!(heirs_pass(&sync, &heir, AdoptionPolicy::Unowned).await.is_settled());
    let adopted = sync.until_value(0, "web", "one").await;
    assert_eq!((adopted.uid(), adopted.metadata.generation), (uid, released.metadata.generation));
    assert_eq!(adopted.labels()[LABEL_SOURCE], heir.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn consent_is_ignored_when_adoption_is_disabled() {
    let sync = Sync::new(1).await;
    let hub = Arc::new(KubeHub::new(sync.hub.client()));
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    assert!(sync.engine(hub, sync.source()).once().await.unwrap().0.is_settled());
    let heir = SourceId::parse(&format!("heir-{}", sync.clusters[0])).unwrap();
    sync.repo.commit("heir", &[(&sync.path(0, "web/cm.yaml"), Some(&config_map("web", "two")))]);
    let consent = json!({ "metadata": { "annotations": { ANNOTATION_ADOPT: heir.as_str() } } });
    sync.edit(0, "web", consent).await;
    let plan = heirs_pass(&sync, &heir, AdoptionPolicy::Never).await;
    let reported = plan.steps.first().unwrap().to_string();
    assert!(plan.is_empty() && reported.contains("`adopt: never`"), "{reported}");
    assert_eq!(value_of(&sync.until_there(0, "web").await).as_deref(), Some("one"));
    assert!(heirs_pass(&sync, &heir, AdoptionPolicy::Annotated).await.is_settled());
    sync.until_value(0, "web", "two").await;
}
