//! `deploy/agent.yaml` on a real API server: its ServiceAccount may do what the agent does, and
//! nothing else.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use serde_json::{Value, json};

use super::executor::{executor, grant};
use super::fixture::{DEADLINE, Fixture};
use super::process::{Program, only_agent, start_as};
use crate::deploy::objects;
use crate::harness::{Cluster, ControlPlane, apply_all, eventually};

pub const NAMESPACE: &str = "open-cluster-management-agent";
const NAME: &str = "gitwork-agent";

/// Applies the objects of the file, and gives a kubeconfig of its ServiceAccount once the
/// aggregated roles count.
pub async fn install(cluster: &Cluster, objects: &[Value]) -> String {
    apply_all(cluster.client(), objects).await.unwrap();
    let client = cluster.client_for(NAMESPACE, NAME).await;
    eventually("the roles for workloads to be aggregated", DEADLINE, || async {
        for (group, resource) in [("", "configmaps"), ("apps", "deployments")] {
            if !is_allowed(&client, "watch", group, resource, "").await {
                return Err(format!("not yet: {resource}"));
            }
        }
        Ok(())
    })
    .await
    .unwrap();
    cluster.kubeconfig_for(NAMESPACE, NAME).await
}

async fn is_allowed(
    client: &Client,
    verb: &str,
    group: &str,
    resource: &str,
    namespace: &str,
) -> bool {
    let attributes = ResourceAttributes {
        verb: Some(verb.into()),
        group: Some(group.into()),
        resource: Some(resource.into()),
        namespace: Some(namespace.into()),
        ..Default::default()
    };
    let resource_attributes = Some(attributes);
    let spec = SelfSubjectAccessReviewSpec { resource_attributes, ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..Default::default() };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed
}

/// Otherwise an upgrade would make the agent report refusals until the cluster has aggregated the
/// roles again.
#[tokio::test]
async fn file_applied_again_takes_no_rights_away() {
    let managed = crate::harness::managed().await;
    let objects = objects("deploy/agent.yaml");
    install(managed, &objects).await;
    let applied = apply_all(managed.client(), &objects).await.unwrap();
    let is_aggregated = |object: &&DynamicObject| object.data["aggregationRule"].is_object();
    let roles: Vec<&DynamicObject> = applied.iter().filter(is_aggregated).collect();
    assert_eq!(roles.len(), 1);
    assert!(!roles[0].data["rules"].as_array().unwrap().is_empty(), "{:?}", roles[0]);
}

fn deployment(fixture: &Fixture<'_>) -> Value {
    let labels = json!({"app": "web"});
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": fixture.namespace},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "app", "image": "registry.example.com/app:1"}]}}}})
}

/// What API servers have refused, by the agent's own count.
pub async fn refused(program: &Program) -> Vec<String> {
    let metrics = program.get("/metrics").await.unwrap();
    assert!(metrics.contains("code=\"200\""), "{metrics}");
    metrics.lines().filter(|line| line.contains("code=\"403\"")).map(str::to_owned).collect()
}

#[tokio::test]
async fn agent_works_with_the_rbac_of_its_manifests() {
    let _alone = only_agent().await;
    let mut fixture = Fixture::start().await;
    fixture.kill().await;
    let cluster = install(fixture.managed, &objects("deploy/agent.yaml")).await;
    let hub = ControlPlane::shared().await.hub().await.accept(&fixture.cluster_name).await;
    // With this gate roles and bindings are watched as well.
    let gate = ["--feature-gates=ExecutorValidatingCaches=true"];
    let program = start_as((hub, cluster), &fixture.cluster_name, NAMESPACE, &gate).await;

    fixture
        .create("web", vec![fixture.config_map("a", "1"), deployment(&fixture)], json!({}))
        .await;
    fixture.condition("web", "Available", "True").await;
    fixture.edit("a", json!({"data": {"key": "drift"}})).await;
    fixture.value("a", "1").await;
    fixture.config_maps().delete("a", &DeleteParams::default()).await.unwrap();
    fixture.value("a", "1").await;
    let changed = json!({"workload": {"manifests": [fixture.config_map("a", "2")]}});
    fixture.patch_spec("web", changed).await;
    fixture.is_gone(&fixture.objects("apps/v1", "Deployment"), "web").await;

    let verbs = ["create", "update", "patch", "get", "delete"];
    let maps = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
    grant(&fixture, "maps", maps).await;
    fixture.create("as", vec![fixture.config_map("b", "1")], executor(&fixture)).await;
    fixture.condition("as", "Available", "True").await;

    for work in ["web", "as"] {
        fixture.delete(work).await;
        fixture.is_gone(&fixture.works(), work).await;
    }
    for name in ["a", "b"] {
        fixture.is_gone(&fixture.config_maps(), name).await;
    }
    assert_eq!(refused(&program).await, Vec::<String>::new());

    // Nothing but what its owner lets it: a Secret it may not even make.
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "secret", "namespace": fixture.namespace},
            "stringData": {"key": "canary"}});
    fixture.create("secret", vec![secret], json!({})).await;
    let condition = fixture.manifest_condition("secret", 0, "Applied", "False").await;
    let message = condition["message"].as_str().unwrap();
    // The first try creates, each later one reads first.
    let who = format!("User \"system:serviceaccount:{NAMESPACE}:{NAME}\" cannot ");
    let (_, denied) = message.split_once(&who).unwrap_or_else(|| panic!("{message}"));
    let is_denied = |verb: &str| denied.starts_with(&format!("{verb} resource \"secrets\""));
    assert!(is_denied("create") || is_denied("get"), "{message}");
    assert!(!message.contains("canary"), "{message}");
    let condition = fixture.manifest_condition("secret", 0, "Available", "Unknown").await;
    assert_eq!(condition["reason"], "FetchingResourceFailed");
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("cannot get resource \"secrets\""), "{message}");
    assert!(!refused(&program).await.is_empty());
    fixture.delete("secret").await;
    fixture.is_gone(&fixture.works(), "secret").await;
    assert_eq!(program.terminate().await, Some(0));
}

/// The dry run of a role's escalation check impersonates the executor.
#[tokio::test]
async fn agent_may_create_subject_access_reviews_for_an_executor() {
    let _alone = only_agent().await;
    let mut fixture = Fixture::start().await;
    fixture.kill().await;
    let cluster = install(fixture.managed, &objects("deploy/agent.yaml")).await;
    let hub = ControlPlane::shared().await.hub().await.accept(&fixture.cluster_name).await;
    let alone = ["--disable-leader-election=true"];
    let program = start_as((hub, cluster), &fixture.cluster_name, NAMESPACE, &alone).await;
    let verbs = ["create", "update", "patch", "get", "delete"];
    let roles = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"],
        "verbs": verbs},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    grant(&fixture, "roles", roles).await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "more", "namespace": fixture.namespace},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]});
    fixture.create("web", vec![role], executor(&fixture)).await;
    // The executor has the right; the API server rejects the agent itself.
    let own = format!(
        "User \"system:serviceaccount:{NAMESPACE}:{NAME}\" cannot create resource \"roles\""
    );
    fixture
        .work("web", "the refusal to be the agent's own", |work| {
            let conditions = &work["status"]["resourceStatus"]["manifests"][0]["conditions"];
            let applied = super::fixture::condition_of(conditions, "Applied")?;
            applied["message"].as_str()?.contains(&own).then_some(())
        })
        .await;
    assert_eq!(program.terminate().await, Some(0));
}
