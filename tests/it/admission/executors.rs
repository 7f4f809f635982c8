//! Who may use which executor, by real RBAC.

use kube::Client;
use serde_json::{Value, json};

use super::fixture::{
    DEADLINE, Kind, Objects, Program, config_map, executed, namespace, raw_review, shared, with,
    with_policy,
};
use super::raw;
use crate::harness::{Cluster, apply_all, eventually};

/// A user of the namespace who may write both kinds.
async fn author(hub: &Cluster, namespace: &str) -> Client {
    let client = hub.client_for(namespace, "author").await;
    let rules = json!([{"apiGroups": ["work.open-cluster-management.io"],
        "resources": ["manifestworks", "manifestworkreplicasets"],
        "verbs": ["create", "get", "update", "patch"]}]);
    grant(hub, namespace, "author", &rules).await;
    let works = Objects::new(client.clone(), Kind::Work, namespace);
    let sets = Objects::new(client.clone(), Kind::Set, namespace);
    let probe = || async {
        works.create_dry("probe", &with(&[config_map("one")])).await?;
        sets.create_dry("probe", &with(&[config_map("one")])).await
    };
    eventually("the author's rights to count", DEADLINE, probe).await.unwrap();
    client
}

fn binding(kind: &str, role: &str, namespace: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": {"name": format!("{namespace}-{role}"), "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": format!("{namespace}-{role}")},
        "subjects": [{"kind": "ServiceAccount", "name": "author", "namespace": namespace}]})
}

fn role(role: &str, namespace: &str, rules: &Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("{namespace}-{role}")}, "rules": rules})
}

/// Grants the rules in the namespace only.
async fn grant(hub: &Cluster, namespace: &str, name: &str, rules: &Value) {
    let objects = [role(name, namespace, rules), binding("RoleBinding", name, namespace)];
    apply_all(hub.client(), &objects).await.unwrap();
}

fn execute_as(resource_name: &str) -> Value {
    json!([{"apiGroups": ["work.open-cluster-management.io"], "resources": ["manifestworks"],
        "verbs": ["execute-as"], "resourceNames": [resource_name]}])
}

async fn until_allowed(objects: &Objects, name: &str, spec: &Value) {
    let probe = || async { objects.create_dry(name, spec).await };
    eventually("the right to execute to count", DEADLINE, probe).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn executor_needs_execute_as_where_its_works_are() {
    let hub = &shared().await.hub;
    let namespace = namespace(hub, None).await;
    let author = author(hub, &namespace).await;
    let user = format!("system:serviceaccount:{namespace}:author");
    let works = Objects::new(author.clone(), Kind::Work, &namespace);
    let sets = Objects::new(author.clone(), Kind::Set, &namespace);
    let (deployer, other) = (executed("apps/deployer"), executed("apps/other"));

    let denied = works.create("one", &deployer).await.unwrap_err();
    let expected = format!(
        "denied the request: spec.executor: user {user} cannot manipulate the Manifestwork with \
         executor apps/deployer in namespace {namespace}; grant the verb execute-as on the \
         manifestworks named system:serviceaccount:apps:deployer there"
    );
    assert!(denied.starts_with("400: ") && denied.contains(&expected), "{denied}");
    let denied = sets.create("one", &deployer).await.unwrap_err();
    let expected = format!(
        "spec.manifestWorkTemplate.executor: user {user} cannot manipulate the \
         ManifestWorkReplicaSet with executor apps/deployer"
    );
    assert!(denied.contains(&expected), "{denied}");

    // A RoleBinding counts for works of its namespace, and not for those of a set.
    let rules = execute_as("system:serviceaccount:apps:deployer");
    grant(hub, &namespace, "deployer", &rules).await;
    until_allowed(&works, "two", &deployer).await;
    works.create("one", &deployer).await.unwrap();
    assert!(works.create("three", &other).await.unwrap_err().contains("executor apps/other"));
    assert!(sets.create("one", &deployer).await.unwrap_err().contains("ClusterRoleBinding"));
    // An update is checked if it changes the executor.
    let mut more = deployer.clone();
    more["workload"]["manifests"] = json!([config_map("one"), config_map("two")]);
    works.update("one", &more).await.unwrap();
    assert!(works.update("one", &other).await.unwrap_err().contains("executor apps/other"));
    works.update("one", &with(&[config_map("one")])).await.unwrap();

    let everywhere = binding("ClusterRoleBinding", "deployer", &namespace);
    apply_all(hub.client(), &[everywhere]).await.unwrap();
    until_allowed(&sets, "two", &deployer).await;
    sets.create("one", &deployer).await.unwrap();
    assert!(sets.update("one", &other).await.unwrap_err().contains("executor apps/other"));
    // Who may everything needs no such role.
    Objects::new(hub.client(), Kind::Work, &namespace).create("four", &other).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_executor_is_checked_only_with_the_flag() {
    let (_program, namespace) = with_policy("strict", &["--nil-executor-validating"]).await;
    let hub = &shared().await.hub;
    let strict = author_of_strict(hub, &namespace).await;
    let spec = with(&[config_map("one")]);
    let works = Objects::new(strict.clone(), Kind::Work, &namespace);
    let sets = Objects::new(strict, Kind::Set, &namespace);
    let denied = works.create("one", &spec).await.unwrap_err();
    let expected = format!("with executor /klusterlet-work-sa in namespace {namespace}");
    assert!(denied.contains(&expected), "{denied}");
    assert!(sets.create("one", &spec).await.unwrap_err().contains("/klusterlet-work-sa"));
    let rules = execute_as("system:serviceaccount::klusterlet-work-sa");
    grant(hub, &namespace, "agent", &rules).await;
    let everywhere = binding("ClusterRoleBinding", "agent", &namespace);
    apply_all(hub.client(), &[everywhere]).await.unwrap();
    until_allowed(&works, "one", &spec).await;
    until_allowed(&sets, "one", &spec).await;
    // Without the flag.
    let lenient = super::fixture::namespace(hub, None).await;
    let author = author(hub, &lenient).await;
    Objects::new(author, Kind::Work, &lenient).create("one", &spec).await.unwrap();
}

/// With the flag, the author can write nothing at first, so the rights are probed as an admin.
async fn author_of_strict(hub: &Cluster, namespace: &str) -> Client {
    let client = hub.client_for(namespace, "author").await;
    let rules = json!([{"apiGroups": ["work.open-cluster-management.io"],
        "resources": ["manifestworks", "manifestworkreplicasets"], "verbs": ["create"]}]);
    grant(hub, namespace, "author", &rules).await;
    let works = Objects::new(client.clone(), Kind::Work, namespace);
    let probe = || async {
        // Past RBAC, the webhook rejects.
        match works.create_dry("probe", &with(&[config_map("one")])).await {
            Err(found) if found.starts_with("400: ") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    eventually("the author's rights to count", DEADLINE, probe).await.unwrap();
    client
}

/// An account without the right to ask: nothing with an executor is allowed.
#[tokio::test(flavor = "multi_thread")]
async fn executor_is_rejected_if_the_api_server_cannot_be_asked() {
    let hub = &shared().await.hub;
    let space = namespace(hub, Some("none")).await;
    let kubeconfig = hub.kubeconfig_path_for(&space, "nobody").await;
    let files = super::certificates::Files::new();
    let flags = files.flags();
    let program = Program::start(&kubeconfig, &flags);
    program.until_ready().await;
    let address = program.webhooks().await;
    let ask = |spec: Value| {
        let body = raw_review(Kind::Work, &spec);
        let authority = files.authority.clone();
        async move {
            let post = raw::post(super::fixture::WORKS_PATH, &body);
            let answer = raw::exchange(address, &authority, post.as_bytes()).await;
            assert_eq!(raw::status(&answer), 200, "{answer}");
            let (_, body) = answer.split_once("\r\n\r\n").unwrap();
            serde_json::from_str::<Value>(body).unwrap()["response"].clone()
        }
    };
    let response = ask(executed("apps/deployer")).await;
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(503)));
    let message = response["status"]["message"].as_str().unwrap();
    assert!(
        message.starts_with(
            "spec.executor: cannot ask the API server whether user ann may use the executor \
             apps/deployer, so the write is rejected: cannot create a SubjectAccessReview"
        ),
        "{message}"
    );
    assert_eq!(ask(with(&[config_map("one")])).await["allowed"], true);
    let log = program.log();
    assert!(log.contains("cannot check an executor; the write is rejected"), "{log}");
    let (_, metrics) = program.probe("/metrics").await;
    assert!(
        metrics.contains("gitwork_admission_access_reviews_total{answer=\"unknown\"} 1"),
        "{metrics}"
    );
}
