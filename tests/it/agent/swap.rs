//! The commands of docs/agent.md, executed: they put the agent into a Deployment like the
//! klusterlet's, and back.

use std::path::Path;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::fixture::{Fixture, kind};
use super::process::{only_agent, spawn};
use crate::harness::{ControlPlane, apply_all};

/// The parts of a klusterlet that the page names. The operator's Deployment needs no more than its
/// name; the work agent's is as OCM 1.3's klusterlet operator makes it, with all arguments that
/// it can have.
fn klusterlet(cluster_name: &str) -> Vec<Value> {
    let deployment = |namespace: &str, name: &str, container: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {
                "metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}}})
    };
    let operator =
        json!({"name": "klusterlet", "image": "quay.io/ocm/registration-operator:v1.3.1"});
    let arguments = json!([
        "/work",
        "agent",
        format!("--spoke-cluster-name={cluster_name}"),
        "--workload-source-driver=kube",
        "--workload-source-config=/spoke/hub-kubeconfig/kubeconfig",
        "--agent-id=0b1c",
        "--feature-gates=RawFeedbackJsonString=true",
        "--feature-gates=ExecutorValidatingCaches=true",
        "--terminate-on-files=/spoke/hub-kubeconfig/kubeconfig",
        "--status-sync-interval=60s",
        "--kube-api-qps=60",
        "--kube-api-burst=120",
        "--hub-kube-api-qps=60",
        "--hub-kube-api-burst=120",
        "--appliedmanifestwork-eviction-grace-period=10m",
        "--tls-min-version=VersionTLS12",
        "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "--health-port=8444",
    ]);
    let work = json!({"name": "klusterlet-manifestwork-agent", "image": "quay.io/ocm/work:v1.3.1",
        "args": arguments});
    vec![
        deployment("open-cluster-management", "klusterlet", operator),
        deployment("open-cluster-management-agent", "klusterlet-work-agent", work),
    ]
}

/// The words of the commands in the shell blocks of a section of the page.
fn commands(section: &str) -> Vec<Vec<String>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/agent.md");
    let page = std::fs::read_to_string(file).unwrap();
    let (_, rest) = page.split_once(&format!("\n## {section}\n")).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let blocks = section.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.flat_map(words).collect()
}

/// Splits a script into commands and words, with single quotes and continued lines.
fn words(script: &str) -> Vec<Vec<String>> {
    let (mut commands, mut quoted) = (vec![vec![String::new()]], false);
    for character in script.replace("\\\n", " ").chars() {
        let command = commands.last_mut().unwrap();
        match character {
            '\'' => quoted = !quoted,
            '\n' if !quoted => commands.push(vec![String::new()]),
            ' ' if !quoted => command.push(String::new()),
            other => command.last_mut().unwrap().push(other),
        }
    }
    for command in &mut commands {
        command.retain(|word| !word.is_empty());
    }
    commands.retain(|command| !command.is_empty());
    commands
}

/// Does what `kubectl` does with one command of the page.
async fn execute(fixture: &Fixture<'_>, command: &[String]) {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let ["kubectl", "-n", namespace, verb, "deployment", name, rest @ ..] = words.as_slice() else {
        panic!("{words:?}");
    };
    let api: Api<DynamicObject> =
        Api::namespaced_with(fixture.cluster.clone(), namespace, &kind("apps/v1", "Deployment"));
    let parameters = PatchParams::default();
    match (*verb, rest) {
        ("scale", [replicas]) => {
            let replicas: u32 = replicas.strip_prefix("--replicas=").unwrap().parse().unwrap();
            let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
            api.patch(name, &parameters, &patch).await.unwrap();
        }
        ("get", ["-o", "yaml", ">", _file]) => {
            api.get(name).await.unwrap();
        }
        ("patch", ["--type=json", patch]) => {
            let patch: Value = serde_json::from_str(patch.strip_prefix("-p=").unwrap()).unwrap();
            let patch = Patch::Json::<()>(serde_json::from_value(patch).unwrap());
            api.patch(name, &parameters, &patch).await.unwrap();
        }
        _ => panic!("{words:?}"),
    }
}

async fn deployment(fixture: &Fixture<'_>, namespace: &str, name: &str) -> Value {
    let api: Api<DynamicObject> =
        Api::namespaced_with(fixture.cluster.clone(), namespace, &kind("apps/v1", "Deployment"));
    api.get(name).await.unwrap().data
}

/// What our image runs in front of the container's arguments, from the Dockerfile.
fn entrypoint() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/Dockerfile");
    let text = std::fs::read_to_string(file).unwrap();
    let (_, stage) = text.split_once("AS gitwork-agent\n").unwrap();
    let line = stage.lines().find_map(|line| line.strip_prefix("ENTRYPOINT ")).unwrap();
    serde_json::from_str(line).unwrap()
}

#[tokio::test]
async fn commands_of_the_page_put_the_agent_into_a_klusterlet() {
    let _alone = only_agent().await;
    let mut fixture = Fixture::start().await;
    fixture.kill().await;
    let namespaces: Api<Namespace> = Api::all(fixture.cluster.clone());
    for name in ["open-cluster-management", "open-cluster-management-agent"] {
        if namespaces.get_opt(name).await.unwrap().is_none() {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            apply_all(fixture.cluster.clone(), &[namespace]).await.unwrap();
        }
    }
    apply_all(fixture.cluster.clone(), &klusterlet(&fixture.cluster_name)).await.unwrap();

    let put_in = commands("Put it into a klusterlet");
    assert_eq!(put_in.len(), 3, "{put_in:?}");
    for command in &put_in {
        execute(&fixture, command).await;
    }
    let operator = deployment(&fixture, "open-cluster-management", "klusterlet").await;
    assert_eq!(operator["spec"]["replicas"], 0);
    let agent = "klusterlet-work-agent";
    let work = deployment(&fixture, "open-cluster-management-agent", agent).await;
    let container = &work["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "<image with gitwork-agent>");
    assert_eq!(container["command"], Value::Null, "the image's entrypoint runs");

    // What the kubelet would run, with the volumes in a folder of the test.
    let entrypoint = entrypoint();
    assert_eq!(entrypoint, ["/usr/local/bin/gitwork-agent"]);
    let files = tempfile::tempdir().unwrap();
    let hub = ControlPlane::shared().await.hub().await;
    let volume = files.path().join("hub-kubeconfig");
    std::fs::create_dir(&volume).unwrap();
    std::fs::write(volume.join("kubeconfig"), hub.kubeconfig()).unwrap();
    let cluster = files.path().join("cluster");
    std::fs::write(&cluster, fixture.managed.kubeconfig()).unwrap();
    let spoke = format!("{}/", files.path().display());
    let arguments = container["args"].as_array().unwrap().iter();
    let mut arguments: Vec<String> =
        arguments.map(|one| one.as_str().unwrap().replace("/spoke/", &spoke)).collect();
    let namespace = fixture.managed.namespace("agent").await;
    arguments.extend([
        format!("--kubeconfig={}", cluster.display()),
        format!("--namespace={namespace}"),
        "--listen=127.0.0.1:0".to_owned(),
    ]);
    let program = spawn(files, &arguments).await;
    fixture.create("web", vec![fixture.config_map("a", "1")], json!({})).await;
    fixture.condition("web", "Available", "True").await;
    assert_eq!(program.terminate().await, Some(0));

    for command in commands("Go back") {
        execute(&fixture, &command).await;
    }
    let operator = deployment(&fixture, "open-cluster-management", "klusterlet").await;
    assert_eq!(operator["spec"]["replicas"], 1);
}
