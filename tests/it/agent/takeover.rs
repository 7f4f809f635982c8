//! OCM's agent and ours take over one cluster from each other, as docs/agent.md has it. The double
//! stands in for OCM's agent.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Api, DynamicObject};
use serde_json::{Value, json};

use super::fixture::{DEADLINE, Fixture};
use crate::harness::eventually;
use crate::ocm_agent_double::{OcmAgent, OrderChooser};

/// A finalizer that keeps an object while it is being deleted.
const HOLD: &str = "example.com/hold";

/// A process of OCM's agent. Nothing happens between the calls.
struct OcmProcess {
    agent: OcmAgent,
    order: OrderChooser,
}

impl OcmProcess {
    /// A new process, which knows only what the API servers have.
    fn start(fixture: &Fixture<'_>) -> Self {
        let (hub, cluster) = (fixture.hub.clone(), fixture.cluster.clone());
        let hash = &fixture.settings.hub_hash;
        let agent = OcmAgent::new(hub, cluster, &fixture.cluster_name, hash);
        Self { agent, order: OrderChooser::explicit([]) }
    }

    async fn settle(&mut self) {
        self.agent.settle(&mut self.order).await;
    }

    /// Applies everything again, as every few minutes.
    async fn resync(&mut self) {
        self.agent.pass_time(Duration::from_mins(6));
        self.settle().await;
    }

    async fn until_gone(&mut self, api: &Api<DynamicObject>, name: &str) {
        let probe = async || api.get_opt(name).await.unwrap().is_none().then_some(());
        self.agent.step_until(&mut self.order, &format!("{name} to go"), probe).await;
    }
}

/// A manifest of each update strategy, and of kinds with different rules for `Update`.
fn manifests(fixture: &Fixture<'_>) -> Vec<Value> {
    let object = |api_version: &str, kind: &str, name: &str, content: Value| {
        let mut object = json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "namespace": fixture.namespace, "labels": {"of": "git"}}});
        object.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
        object
    };
    let role = json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    // The API server fills in defaults.
    let limits = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}});
    let service = json!({"spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    vec![
        fixture.config_map("updated", "1"),
        fixture.config_map("side-applied", "1"),
        fixture.config_map("created-only", "1"),
        object("v1", "Secret", "token", json!({"stringData": {"token": "t"}})),
        object("v1", "Service", "web", service),
        object("v1", "LimitRange", "limits", limits),
        object("rbac.authorization.k8s.io/v1", "Role", "reader", role),
    ]
}

/// The strategies of the ConfigMaps, and feedback of one of them.
fn options(fixture: &Fixture<'_>) -> Value {
    let of = |name: &str, more: Value| {
        let mut config = json!({"resourceIdentifier": {"group": "", "resource": "configmaps",
            "namespace": fixture.namespace, "name": name}});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    let feedback = json!({"feedbackRules": [{"type": "JSONPaths",
        "jsonPaths": [{"name": "key", "path": ".data.key"}]}]});
    let strategy = |strategy: &str| json!({"updateStrategy": {"type": strategy}});
    json!({"manifestConfigs": [of("updated", feedback),
        of("side-applied", strategy("ServerSideApply")),
        of("created-only", strategy("CreateOnly"))]})
}

/// Uid and version of each object of the manifests, of the record of them on the cluster, and of
/// the work with its status.
async fn versions(fixture: &Fixture<'_>, manifests: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    let mut note = |object: DynamicObject| {
        let (uid, version) = (object.uid().unwrap(), object.resource_version().unwrap());
        found.push(format!("{} {uid} {version}", object.name_any()));
    };
    for manifest in manifests {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let api = fixture.objects(&text(&manifest["apiVersion"]), &text(&manifest["kind"]));
        note(api.get(&text(&manifest["metadata"]["name"])).await.unwrap());
    }
    note(fixture.applied().get(&fixture.applied_name("web")).await.unwrap());
    note(fixture.works().get("web").await.unwrap());
    found
}

/// Starts our agent, and waits for a pass over the only work.
async fn run_ours(fixture: &mut Fixture<'_>) -> String {
    fixture.run();
    let metrics = fixture.metrics.clone();
    eventually("a pass", DEADLINE, || async {
        let text = metrics.text();
        if text.contains("gitwork_agent_passes_total") { Ok(text) } else { Err(text) }
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn agents_take_over_from_each_other_and_change_nothing() {
    let mut fixture = Fixture::start().await;
    fixture.kill().await;
    let mut applied = manifests(&fixture);
    fixture.create("web", applied.clone(), options(&fixture)).await;
    let mut ocm = OcmProcess::start(&fixture);
    ocm.settle().await;
    fixture.condition("web", "Available", "True").await;
    let before = versions(&fixture, &applied).await;
    ocm.resync().await;
    assert_eq!(versions(&fixture, &applied).await, before);

    // Ours takes over. From then on it corrects, creates and deletes.
    let passes = run_ours(&mut fixture).await;
    assert!(passes.contains("gitwork_agent_passes_total{outcome=\"settled\"}"), "{passes}");
    assert!(!passes.contains("outcome=\"changed\""), "{passes}");
    assert_eq!(versions(&fixture, &applied).await, before);
    fixture.edit("updated", json!({"data": {"key": "theirs"}})).await;
    fixture.value("updated", "1").await;
    applied.remove(2);
    applied.push(fixture.config_map("added", "1"));
    fixture.patch_spec("web", json!({"workload": {"manifests": applied}})).await;
    fixture.condition("web", "Applied", "True").await;
    fixture.condition("web", "Available", "True").await;
    fixture.is_gone(&fixture.config_maps(), "created-only").await;
    let expected = [
        "configmaps/added",
        "configmaps/side-applied",
        "configmaps/updated",
        "limitranges/limits",
        "secrets/token",
        "services/web",
        "roles/reader",
    ];
    fixture.wait_recorded("web", &expected).await;
    fixture.kill().await;

    // OCM's agent takes over again, and goes on as before.
    let before = versions(&fixture, &applied).await;
    let mut ocm = OcmProcess::start(&fixture);
    ocm.settle().await;
    ocm.resync().await;
    assert_eq!(versions(&fixture, &applied).await, before);
    fixture.edit("added", json!({"data": {"key": "theirs"}})).await;
    applied.remove(0);
    fixture.patch_spec("web", json!({"workload": {"manifests": applied}})).await;
    ocm.until_gone(&fixture.config_maps(), "updated").await;
    ocm.settle().await;
    fixture.value("added", "1").await;
    fixture.condition("web", "Available", "True").await;

    // And ours once more, to the end.
    let before = versions(&fixture, &applied).await;
    run_ours(&mut fixture).await;
    assert_eq!(versions(&fixture, &applied).await, before);
    fixture.delete("web").await;
    fixture.is_gone(&fixture.works(), "web").await;
    fixture.is_gone(&fixture.config_maps(), "added").await;
}

/// Lets the object go, which is being deleted. Without an agent, its work stays.
async fn release(fixture: &Fixture<'_>) {
    let maps = fixture.config_maps();
    let held = maps.get("held").await.unwrap();
    assert!(held.metadata.deletion_timestamp.is_some(), "{held:?}");
    fixture.edit("held", json!({"metadata": {"finalizers": null}})).await;
    fixture.is_gone(&maps, "held").await;
    let work = fixture.works().get("web").await.unwrap();
    assert!(work.metadata.deletion_timestamp.is_some(), "{work:?}");
}

#[tokio::test]
async fn deletion_that_one_agent_began_is_finished_by_the_other_one() {
    let hold = json!({"metadata": {"finalizers": [HOLD]}});
    let mut fixture = Fixture::start().await;
    let (maps, applied_name) = (fixture.config_maps(), fixture.applied_name("web"));
    let is_going = |held: DynamicObject| held.metadata.deletion_timestamp.map(|_| ());

    // Ours begins.
    fixture.create("web", vec![fixture.config_map("held", "1")], json!({})).await;
    fixture.condition("web", "Available", "True").await;
    fixture.edit("held", hold.clone()).await;
    fixture.delete("web").await;
    eventually("the deletion", DEADLINE, || async {
        let held = maps.get("held").await.map_err(|error| error.to_string())?;
        is_going(held).ok_or_else(|| "it is not being deleted".to_owned())
    })
    .await
    .unwrap();
    fixture.kill().await;
    release(&fixture).await;
    let mut ocm = OcmProcess::start(&fixture);
    ocm.until_gone(&fixture.works(), "web").await;
    ocm.settle().await;
    assert!(fixture.applied().get_opt(&applied_name).await.unwrap().is_none());

    // OCM's agent begins.
    fixture.create("web", vec![fixture.config_map("held", "1")], json!({})).await;
    ocm.settle().await;
    fixture.condition("web", "Available", "True").await;
    fixture.edit("held", hold).await;
    fixture.delete("web").await;
    let OcmProcess { agent, order } = &mut ocm;
    let probe = async || is_going(maps.get("held").await.unwrap());
    agent.step_until(order, "the deletion", probe).await;
    drop(ocm);
    release(&fixture).await;
    fixture.run();
    fixture.is_gone(&fixture.works(), "web").await;
    fixture.is_gone(&fixture.applied(), &applied_name).await;
}
