//! `deploy/gitwork.yaml` on a real API server: it installs, its pod is let in and gets ready, and
//! its ServiceAccount may do what gitwork does and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt;
use gitwork_api::cluster::ManagedCluster;
use gitwork_core::model::approval::Approval;
use gitwork_core::model::name::SourceId;
use gitwork_core::plan::directives::{SuspensionTarget, Suspensions};
use gitwork_hub::directives::{DirectiveError, Operator};
use gitwork_hub::{Hub, KubeHub};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
    SelfSubjectRulesReview, SelfSubjectRulesReviewSpec,
};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent,
    WatchParams,
};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::example::documents;
use crate::harness::{self, Cluster, apply, eventually};
use crate::memory_repository::File;

const DEADLINE: Duration = Duration::from_secs(300);

const WORK: &str = "work.open-cluster-management.io";
const CLUSTER: &str = "cluster.open-cluster-management.io";

pub fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The objects of a file.
pub fn objects(path: &str) -> Vec<Value> {
    adapted_objects(path, &[])
}

/// The objects of a file with what differs here, as [`adapted`].
pub fn adapted_objects(path: &str, changes: &[(&str, &str)]) -> Vec<Value> {
    documents(path, &File::from(adapted(&read(path), changes).as_str()))
}

/// A shipped text with what differs here: pairs of what it has, and what it has here.
pub fn adapted(shipped: &str, changes: &[(&str, &str)]) -> String {
    changes.iter().fold(shipped.to_owned(), |text, (before, here)| {
        assert!(text.contains(before), "{before} is not in {text}");
        text.replace(before, here)
    })
}

/// The daemon's file of `deploy/gitwork.yaml` for a repository and this machine, beside its cache.
pub fn daemon_config(id: &str, url: &str, cache: &Path) -> PathBuf {
    let objects = objects("deploy/gitwork.yaml");
    let config = objects.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
    let text = adapted(
        config["data"]["gitwork.yaml"].as_str().unwrap(),
        &[
            ("id: fleet", &format!("id: {id}")),
            ("https://git.example.com/fleet.git", url),
            ("/var/cache/gitwork", &cache.display().to_string()),
            ("0.0.0.0:8080", "127.0.0.1:0"),
        ],
    );
    let file = cache.with_extension("yaml");
    fs::write(&file, text).unwrap();
    file
}

/// gitwork's ServiceAccount on the shared hub, once its rights count there.
pub async fn installed() -> Config {
    let hub = harness::hub().await;
    apply(hub.client(), &read("deploy/gitwork.yaml")).await.unwrap();
    let config = hub.config_for("gitwork", "gitwork").await;
    let client = Client::try_from(config.clone()).unwrap();
    let home = || async {
        let granted = granted(client.clone(), "gitwork").await;
        if granted == granted_at_home() { Ok(()) } else { Err(format!("granted: {granted:?}")) }
    };
    eventually("exactly the rights of the manifests to count", DEADLINE, home).await.unwrap();
    config
}

async fn installed_hub() -> Client {
    Client::try_from(installed().await).unwrap()
}

fn works(client: Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(WORK, "v1", "ManifestWork");
    Api::namespaced_with(client, namespace, &ApiResource::from_gvk(&kind))
}

fn work(name: &str) -> DynamicObject {
    let kind = GroupVersionKind::gvk(WORK, "v1", "ManifestWork");
    let mut work = DynamicObject::new(name, &ApiResource::from_gvk(&kind));
    let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    work.metadata.labels = Some([("gitwork.dev/source".to_owned(), "fleet".to_owned())].into());
    work.data = json!({"spec": {"workload": {"manifests": [manifest]}}});
    work
}

#[track_caller]
fn assert_forbidden<T>(answer: kube::Result<T>) {
    match answer.map(|_| ()) {
        Err(kube::Error::Api(status)) if status.is_forbidden() => {}
        other => panic!("it should be forbidden: {other:?}"),
    }
}

/// Every rule that counts for the caller in a namespace, cluster-wide ones included, as
/// `verb group/resource names`, but for the questions that anyone may ask about themselves.
pub async fn granted(client: Client, namespace: &str) -> BTreeSet<String> {
    let spec = SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) };
    let review = SelfSubjectRulesReview { spec, ..Default::default() };
    let reviews: Api<SelfSubjectRulesReview> = Api::all(client);
    let review = reviews.create(&PostParams::default(), &review).await.unwrap();
    let status = review.status.unwrap();
    assert!(!status.incomplete, "{:?}", status.evaluation_error);
    let mut granted = BTreeSet::new();
    for rule in status.resource_rules {
        let rule = PolicyRule {
            api_groups: rule.api_groups,
            resource_names: rule.resource_names,
            resources: rule.resources,
            verbs: rule.verbs,
            non_resource_urls: None,
        };
        granted.extend(rights_of(&rule));
    }
    granted.retain(|right| {
        !right.contains("authentication.k8s.io/self")
            && !right.contains("authorization.k8s.io/self")
    });
    granted
}

/// `verb group/resource names` of a rule. The names are those of the only objects that it is for.
pub fn rights_of(rule: &PolicyRule) -> BTreeSet<String> {
    let names = rule.resource_names.iter().flatten().map(|name| format!(" {name}"));
    let names: String = names.collect();
    let mut rights = BTreeSet::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            let of = |verb: &String| format!("{verb} {group}/{resource}{names}");
            rights.extend(rule.verbs.iter().map(of));
        }
    }
    rights
}

fn rules(group: &str, resource: &str, verbs: &[&str]) -> Vec<String> {
    verbs.iter().map(|verb| format!("{verb} {group}/{resource}")).collect()
}

/// What groups need.
fn clusters_and_placements() -> Vec<String> {
    let kinds = ["managedclusters", "placements", "placementdecisions"];
    kinds.map(|kind| rules(CLUSTER, kind, &["get", "list", "watch"])).concat()
}

fn granted_everywhere() -> BTreeSet<String> {
    let everywhere = [
        rules(WORK, "manifestworks", &["get", "list", "watch", "create", "patch", "delete"]),
        clusters_and_placements(),
        rules("events.k8s.io", "events", &["create"]),
    ];
    everywhere.concat().into_iter().collect()
}

fn granted_at_home() -> BTreeSet<String> {
    let leases = rules("coordination.k8s.io", "leases", &["get", "create", "patch"]);
    let approvals = rules("", "configmaps", &["get"]);
    granted_everywhere().into_iter().chain(leases).chain(approvals).collect()
}

/// `installed` sees to what is granted in its own namespace.
#[tokio::test]
async fn daemon_service_account_has_exactly_the_needed_rights() {
    let gitwork = installed_hub().await;
    let cluster_namespace = harness::hub().await.namespace("granted-edge").await;
    assert_eq!(granted(gitwork, &cluster_namespace).await, granted_everywhere());
}

/// No Secret can be read, neither by the account itself nor as another one.
async fn assert_secrets_are_forbidden(gitwork: &Client, namespace: &str) {
    let (hub, params) = (harness::hub().await, PostParams::default());
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "git-credentials"}, "stringData": {"token": "hidden"},
    }))
    .unwrap();
    for place in ["gitwork", namespace] {
        let admin: Api<Secret> = Api::namespaced(hub.client(), place);
        let apply = PatchParams::apply("test");
        admin.patch("git-credentials", &apply, &Patch::Apply(&secret)).await.unwrap();
        let secrets: Api<Secret> = Api::namespaced(gitwork.clone(), place);
        assert_forbidden(secrets.get("git-credentials").await);
        assert_forbidden(secrets.list(&ListParams::default()).await);
        // Nor may it become another who can.
        let accounts: Api<ServiceAccount> = Api::namespaced(gitwork.clone(), place);
        let request = Default::default();
        assert_forbidden(accounts.create_token_request("default", &params, &request).await);
    }
}

/// What would let the account do more than it is meant to.
async fn assert_verbs_are_forbidden(gitwork: &Client, namespace: &str) {
    let params = PostParams::default();
    for (group, resource, subresource, verb) in [
        ("", "secrets", "", "get"),
        ("", "secrets", "", "watch"),
        ("", "users", "", "impersonate"),
        (WORK, "manifestworks", "", "deletecollection"),
        (WORK, "manifestworks", "", "execute-as"),
        (WORK, "manifestworks", "status", "patch"),
        ("coordination.k8s.io", "leases", "", "update"),
        ("rbac.authorization.k8s.io", "clusterroles", "", "escalate"),
    ] {
        let attributes = ResourceAttributes {
            namespace: Some(namespace.to_owned()),
            group: Some(group.to_owned()),
            resource: Some(resource.to_owned()),
            subresource: Some(subresource.to_owned()),
            verb: Some(verb.to_owned()),
            ..Default::default()
        };
        let resource_attributes = Some(attributes);
        let spec = SelfSubjectAccessReviewSpec { resource_attributes, ..Default::default() };
        let review = SelfSubjectAccessReview { spec, ..Default::default() };
        let reviews: Api<SelfSubjectAccessReview> = Api::all(gitwork.clone());
        let status = reviews.create(&params, &review).await.unwrap().status.unwrap();
        assert!(!status.allowed, "{verb} {group}/{resource} {subresource} is allowed");
    }
}

#[tokio::test]
async fn daemon_service_account_writes_works_and_cannot_read_secrets() {
    let gitwork = installed_hub().await;
    let hub = harness::hub().await;
    let namespace = hub.namespace("deploy-edge").await;
    let mine = works(gitwork.clone(), &namespace);
    let params = PostParams::default();
    mine.create(&params, &work("created")).await.unwrap();
    let field_manager = PatchParams::apply("gitwork");
    let applied = work("applied");
    mine.patch("applied", &field_manager, &Patch::Apply(&applied)).await.unwrap();
    let everywhere = WatchParams::default().labels("gitwork.dev/source=fleet");
    let all: Api<DynamicObject> = Api::all_with(
        gitwork.clone(),
        &ApiResource::from_gvk(&GroupVersionKind::gvk(WORK, "v1", "ManifestWork")),
    );
    let mut events = all.watch(&everywhere, "0").await.unwrap().boxed();
    let first = events.next().await.unwrap().unwrap();
    assert!(matches!(first, WatchEvent::Added(_)), "{first:?}");
    hub.accept("deploy-accepted").await;
    Api::<ManagedCluster>::all(gitwork.clone()).get("deploy-accepted").await.unwrap();
    mine.delete("created", &DeleteParams::default()).await.unwrap();
    let names = mine.list(&ListParams::default()).await.unwrap().items;
    let names: Vec<_> = names.into_iter().filter_map(|work| work.metadata.name).collect();
    assert_eq!(names, ["applied"]);

    assert_secrets_are_forbidden(&gitwork, &namespace).await;
    assert_forbidden(Api::<Secret>::all(gitwork.clone()).list(&ListParams::default()).await);
    let every = ListParams::default();
    assert_forbidden(mine.delete_collection(&DeleteParams::default(), &every).await);
    assert_verbs_are_forbidden(&gitwork, &namespace).await;
}

/// The account of an operator.
const OPERATOR: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: ann, namespace: gitwork}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ann, namespace: gitwork}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: gitwork-operator}
subjects: [{kind: ServiceAccount, name: ann, namespace: gitwork}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ann}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gitwork-operator}
subjects: [{kind: ServiceAccount, name: ann, namespace: gitwork}]
"#;

/// What the commands of operators need is in the roles for them, and nothing more.
#[tokio::test]
async fn operator_roles_allow_every_operator_command() {
    installed().await;
    let hub = harness::hub().await;
    apply(hub.client(), OPERATOR).await.unwrap();
    let ann = Client::try_from(hub.config_for("gitwork", "ann").await).unwrap();
    let expected: BTreeSet<String> = [
        rules(WORK, "manifestworks", &["get", "list", "watch", "patch"]),
        clusters_and_placements(),
        rules("", "configmaps", &["get", "create", "patch"]),
        rules("coordination.k8s.io", "leases", &["get", "list", "watch"]),
    ]
    .concat()
    .into_iter()
    .collect();
    let counted = || async {
        let granted = granted(ann.clone(), "gitwork").await;
        if granted == expected { Ok(()) } else { Err(format!("granted: {granted:?}")) }
    };
    eventually("exactly the rights of an operator to count", DEADLINE, counted).await.unwrap();

    let source = SourceId::parse("operated").unwrap();
    let at = "2026-11-20T12:00:00Z".to_owned();
    let operator = Operator { client: &ann, namespace: "gitwork", source: &source, at };
    let who = operator.suspend(&SuspensionTarget::Source, Some("a try".into())).await.unwrap();
    assert_eq!(who, "system:serviceaccount:gitwork:ann");
    operator.reconcile().await.unwrap();
    let approval = Approval::Restored { source: source.clone(), record_generation: 3 };
    operator.approve(&approval, |_| true).await.unwrap();
    let daemon = KubeHub::new(installed_hub().await);
    let said = daemon.directives(&source).await.unwrap();
    let suspension = said.suspensions.source.unwrap();
    assert_eq!((&suspension.by, suspension.reason.as_deref()), (&who, Some("a try")));
    assert_eq!((said.approvals.restored, said.reconcile.is_some()), ([3].into(), true));
    assert_eq!(operator.resume(&SuspensionTarget::Source).await.unwrap(), None);
    let none = Some(Suspensions::default());
    assert_eq!(operator.resume(&SuspensionTarget::Source).await.unwrap(), none);
    let said = daemon.directives(&source).await.unwrap();
    assert!(said.suspensions.source.is_none() && !said.approvals.restored.is_empty());

    // The daemon cannot say anything: it does not approve of what it does.
    let deaf = installed_hub().await;
    let itself =
        Operator { client: &deaf, namespace: "gitwork", source: &source, at: "now".into() };
    let refused = itself.approve(&approval, |_| true).await.unwrap_err();
    assert!(matches!(refused, DirectiveError::WriteRejected { .. }), "{refused}");
    let nowhere =
        Operator { client: &ann, namespace: "elsewhere", source: &source, at: "now".into() };
    assert!(nowhere.reconcile().await.is_err());
}

/// Waits until both pods of a Deployment are available, and the Service of the same name finds them
/// by their labels, and the port by its name.
pub async fn until_served(cluster: &Cluster, name: &str, port: i32, deadline: Duration) {
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), "gitwork");
    let ready = || async {
        let status = deployments.get(name).await.map_err(|e| e.to_string())?.status;
        let status = status.unwrap_or_default();
        if status.available_replicas == Some(2) { Ok(()) } else { Err(format!("{status:?}")) }
    };
    eventually("the Deployment to be available", deadline, ready).await.unwrap();
    let slices: Api<EndpointSlice> = Api::namespaced(cluster.client(), "gitwork");
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
    let found = || async {
        let slices = slices.list(&of_service).await.map_err(|e| e.to_string())?.items;
        let endpoints = slices.iter().flat_map(|slice| &slice.endpoints).count();
        let ports: Vec<_> = slices.iter().flat_map(|s| s.ports.iter().flatten()).collect();
        match ports[..] {
            [found] if endpoints == 2 && found.port == Some(port) => Ok(()),
            _ => Err(format!("{endpoints} endpoints, ports {ports:?}")),
        }
    };
    eventually("the Service to find the pods", deadline, found).await.unwrap();
}

/// The namespace takes only pods of the restricted Pod Security Standard, which the API server
/// sees to.
#[tokio::test]
async fn pods_pass_restricted_admission_and_become_ready() {
    let cluster = harness::managed().await;
    apply(cluster.client(), &read("deploy/gitwork.yaml")).await.unwrap();
    until_served(cluster, "gitwork", 8080, DEADLINE).await;
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), "gitwork");
    let pod = deployments.get("gitwork").await.unwrap().spec.unwrap().template.spec.unwrap();
    for container in &pod.containers {
        let context = container.security_context.as_ref().unwrap();
        assert_eq!(context.read_only_root_filesystem, Some(true), "{}", container.name);
    }
}

#[test]
fn image_matches_the_deployment_and_the_toolchain() {
    let dockerfile = read("deploy/Dockerfile");
    let toolchain = read("rust-toolchain.toml");
    let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap();
    let minor = channel.trim_matches('"').rsplit_once('.').unwrap().0;
    assert!(dockerfile.contains(&format!("FROM rust:{minor}-")), "Rust {minor} builds the image");
    let stages: BTreeMap<&str, &str> = dockerfile
        .lines()
        .filter_map(|line| line.strip_prefix("FROM ")?.split_once(" AS "))
        .map(|(from, name)| (name, from))
        .collect();
    assert_eq!(stages["gitwork"], "base");
    assert_eq!(stages["gitwork-agent"], "base");
    assert!(stages["base"].ends_with(":nonroot"));

    let version = env!("CARGO_PKG_VERSION");
    let image = format!("registry.example.com/gitwork:{version}");
    assert!(dockerfile.contains(&image) && read("deploy/gitwork.yaml").contains(&image));
    let image = format!("registry.example.com/gitwork-agent:{version}");
    assert!(dockerfile.contains(&image) && read("deploy/agent.yaml").contains(&image));
}
