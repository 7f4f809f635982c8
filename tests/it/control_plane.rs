//! The control plane that the other tests stand on does what they take for granted.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, stdin};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use gitwork_api::work::ManifestWork;
use http::HeaderValue;
use http::header::USER_AGENT;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::harness::binaries::{Binaries, Program};
use crate::harness::go_module::{cache_key, cache_root, cached};
use crate::harness::{self, ClusterOptions, ControlPlane, crds, eventually, tally};

/// Far beyond what anything here takes on an idle machine.
const DEADLINE: Duration = Duration::from_secs(300);

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn config_map(name: &str) -> ConfigMap {
    object(json!({"metadata": {"name": name}, "data": {"key": "value"}}))
}

async fn names_of_config_maps(client: Client, namespace: &str) -> Vec<String> {
    let list = Api::<ConfigMap>::namespaced(client, namespace).list(&ListParams::default()).await;
    list.unwrap().items.into_iter().filter_map(|map| map.metadata.name).collect()
}

#[tokio::test]
async fn hub_serves_manifestworks_with_a_status_subresource() {
    let hub = harness::hub().await;
    let namespace = hub.namespace("cluster").await;
    let kind = GroupVersionKind::gvk("work.open-cluster-management.io", "v1", "ManifestWork");
    let resource = ApiResource::from_gvk(&kind);
    let works: Api<DynamicObject> = Api::namespaced_with(hub.client(), &namespace, &resource);
    let mut work = DynamicObject::new("web", &resource);
    work.data = json!({"spec": {"workload": {"manifests": []}}, "status": {"conditions": []}});
    let made = works.create(&PostParams::default(), &work).await.unwrap();
    assert_eq!(made.metadata.generation, Some(1));
    assert_eq!(made.data.get("status"), None, "status is written by its subresource only");
}

#[tokio::test]
async fn service_account_has_only_its_granted_rights() {
    let hub = harness::hub().await;
    let (namespace, other) = (hub.namespace("granted").await, hub.namespace("other").await);
    let reader = hub.client_for(&namespace, "reader").await;
    let secrets: Api<Secret> = Api::namespaced(reader.clone(), &namespace);
    let refused = secrets.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.is_forbidden()), "{refused}");

    let role: Role = object(json!({
        "metadata": {"name": "secrets"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}],
    }));
    let binding: RoleBinding = object(json!({
        "metadata": {"name": "secrets"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "secrets"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}],
    }));
    let params = PostParams::default();
    Api::namespaced(hub.client(), &namespace).create(&params, &role).await.unwrap();
    Api::namespaced(hub.client(), &namespace).create(&params, &binding).await.unwrap();
    let list = || async {
        secrets.list(&ListParams::default()).await.map(|_| ()).map_err(|e| e.to_string())
    };
    eventually("the grant to count", DEADLINE, list).await.unwrap();
    let elsewhere: Api<Secret> = Api::namespaced(reader, &other);
    let refused = elsewhere.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.is_forbidden()), "{refused}");
}

#[tokio::test]
async fn accepted_cluster_gets_a_namespace_and_ocm_agent_rights() {
    let hub = harness::hub().await;
    let mut agents = Vec::new();
    for cluster in ["accepted-1", "accepted-2"] {
        let kubeconfig = Kubeconfig::read_from(hub.accept_as_file(cluster).await).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        agents.push(Client::try_from(config).unwrap());
    }
    let works = |client: &Client, space: &str| -> Api<ManifestWork> {
        Api::namespaced(client.clone(), space)
    };
    let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let work: ManifestWork = object(json!({
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": {"name": "web"},
        "spec": {"workload": {"manifests": [manifest]}},
    }));
    let params = PostParams::default();
    works(&hub.client(), "accepted-1").create(&params, &work).await.unwrap();

    let own = works(&agents[0], "accepted-1");
    own.get("web").await.unwrap();
    let status = Patch::Merge(json!({"status": {"resourceStatus": {}}}));
    own.patch_status("web", &PatchParams::default(), &status).await.unwrap();
    let refused = [
        own.create(&params, &work).await.unwrap_err(),
        own.delete("web", &DeleteParams::default()).await.unwrap_err(),
        works(&agents[1], "accepted-1").get("web").await.unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(&error, kube::Error::Api(status) if status.is_forbidden()), "{error}");
    }
}

#[tokio::test]
async fn requests_are_counted_by_client_and_resource() {
    let hub = harness::hub().await;
    let namespace = hub.namespace("counted").await;
    let path = hub.kubeconfig_path_for(&namespace, "counter").await;
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    config.headers.push((USER_AGENT, HeaderValue::from_static("counter/1")));
    let maps: Api<ConfigMap> = Api::namespaced(Client::try_from(config).unwrap(), &namespace);
    let admin: Api<ConfigMap> = Api::namespaced(hub.client(), &namespace);
    admin.create(&PostParams::default(), &config_map("before")).await.unwrap();

    let mut requests = hub.requests();
    admin.create(&PostParams::default(), &config_map("map")).await.unwrap();
    for _ in 0..3 {
        let refused = maps.create(&PostParams::default(), &config_map("map")).await.unwrap_err();
        assert!(matches!(&refused, kube::Error::Api(status) if status.is_forbidden()), "{refused}");
    }
    maps.get_status("map").await.unwrap_err();
    let made = requests.take();
    let mine: Vec<_> = made.iter().filter(|r| r.user_agent == "counter/1").collect();
    let expected = [("create configmaps", 3), ("get configmaps/status", 1)];
    assert_eq!(tally(mine.iter().copied()), expected.map(|(k, n)| (k.to_owned(), n)).into());
    let user = format!("system:serviceaccount:{namespace}:counter");
    assert!(mine.iter().all(|r| r.user == user && r.namespace == namespace), "{mine:?}");
    let writes = made.iter().filter(|r| r.namespace == namespace && r.is_write()).count();
    assert_eq!(writes, 4, "the admin's write counts, the one before does not");

    admin.list(&ListParams::default()).await.unwrap();
    let lists = requests.take().into_iter().filter(|r| r.namespace == namespace);
    assert_eq!(lists.map(|r| r.verb).collect::<Vec<_>>(), ["list"]);
}

#[tokio::test]
async fn clusters_are_separate_and_data_outlives_an_api_server() {
    let plane = ControlPlane::shared().await;
    let hub = plane.hub().await;
    let options = ClusterOptions { crds: crds::managed(), ..ClusterOptions::default() };
    let cluster = plane.start("separate", options).await;
    let namespace = cluster.namespace("separate").await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    maps.create(&PostParams::default(), &config_map("here")).await.unwrap();
    assert_eq!(names_of_config_maps(cluster.client(), &namespace).await, ["here"]);
    assert!(names_of_config_maps(hub.client(), &namespace).await.is_empty());

    // The hub's admin is nobody on this cluster.
    let mut foreign = hub.config();
    foreign.cluster_url = cluster.url().parse().unwrap();
    foreign.root_cert = cluster.config().root_cert;
    let foreign: Api<ConfigMap> = Api::namespaced(Client::try_from(foreign).unwrap(), &namespace);
    let refused = foreign.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 401), "{refused}");

    let pid = cluster.pid();
    cluster.kill();
    let port = cluster.config().cluster_url.port_u16().unwrap();
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err(), "nobody listens");
    cluster.restart().await.unwrap();
    assert_ne!(cluster.pid(), pid);
    assert_eq!(names_of_config_maps(cluster.client(), &namespace).await, ["here"]);
}

#[tokio::test]
async fn deployment_rolls_out_and_is_garbage_collected() {
    let cluster = harness::managed().await;
    let namespace = cluster.namespace("rollout").await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), &namespace);
    let owner = maps.create(&PostParams::default(), &config_map("owner")).await.unwrap();
    let owner = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.metadata.uid,
    });
    let labels = json!({"app": "web"});
    let container = json!({"name": "web", "image": "registry.example/web:1"});
    let deployment: Deployment = object(json!({
        "metadata": {"name": "web", "ownerReferences": [owner]},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }));
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), &namespace);
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
    let available = || async {
        let status = deployments.get("web").await.map_err(|e| e.to_string())?.status;
        let status = status.unwrap_or_default();
        let conditions = status.conditions.iter().flatten();
        let available = conditions.filter(|c| c.type_ == "Available" && c.status == "True").count();
        if available == 1 && status.ready_replicas == Some(2) {
            return Ok(());
        }
        Err(format!("its status is {status:?}"))
    };
    eventually("the Deployment to be available", DEADLINE, available).await.unwrap();

    maps.delete("owner", &DeleteParams::default()).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.client(), &namespace);
    let gone = || async {
        let left = pods.list(&ListParams::default()).await.map_err(|e| e.to_string())?.items.len();
        match deployments.get_opt("web").await.map_err(|e| e.to_string())? {
            None if left == 0 => Ok(()),
            deployment => {
                Err(format!("{left} pods are left, Deployment: {}", deployment.is_some()))
            }
        }
    };
    eventually("what the owner owned to go", DEADLINE, gone).await.unwrap();
}

/// Set in the process that the test below starts from its own program.
const DOOMED: &str = "GITWORK_TEST_DOOMED_PROCESS";

#[tokio::test]
async fn no_process_outlives_a_killed_parent() {
    if env::var_os(DOOMED).is_some() {
        return run_until_killed().await;
    }
    let mut parent = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("control_plane::no_process_outlives_a_killed_parent")
        .env(DOOMED, "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let line = lines.find_map(|line| line.unwrap().strip_prefix("running: ").map(str::to_owned));
    let line = line.expect("it says what runs before it ends");
    let (folder, numbers) = line.split_once(' ').unwrap();
    let mut numbers = numbers.split(' ').map(|number| number.parse::<u32>().unwrap());
    let port = u16::try_from(numbers.next().unwrap()).unwrap();
    let pids: Vec<u32> = numbers.collect();
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
    assert!(Path::new(folder).join("etcd").is_dir());
    assert_eq!(pids.len(), 5, "etcd, API server, controllers, scheduler, kwok");

    parent.kill().unwrap();
    parent.wait().unwrap();
    eventually("the programs and the folder to go", DEADLINE, || async {
        let listens = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        let there = Path::new(folder).exists();
        let running: Vec<_> = pids.iter().copied().filter(|&pid| runs(pid)).collect();
        if listens || there || !running.is_empty() {
            Err(format!("listens: {listens}, {folder}: {there}, running: {running:?}"))
        } else {
            Ok(())
        }
    })
    .await
    .unwrap();
}

/// Without `/proc` the port is the only indication.
fn runs(pid: u32) -> bool {
    // Empty for one that ended and that nobody has asked about.
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

#[allow(clippy::print_stdout, reason = "that is how the parent learns what to look at")]
async fn run_until_killed() {
    let plane = ControlPlane::shared().await;
    let cluster = plane.managed().await;
    let port = cluster.config().cluster_url.port_u16().unwrap();
    let mut numbers = vec![u32::from(port), plane.pid(), cluster.pid()];
    numbers.extend(cluster.pids_of_workloads());
    let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
    println!("\nrunning: {} {}", plane.folder().display(), numbers.join(" "));
    // Ends with the parent, should that die first.
    let _ = stdin().read_line(&mut String::new());
}

#[test]
fn missing_go_and_assets_fail_with_install_instructions() {
    let cache = tempfile::tempdir().unwrap();
    let test = "control_plane::hub_serves_manifestworks_with_a_status_subresource";
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", test])
        .env_clear()
        .env("GITWORK_TEST_CACHE", cache.path())
        .env("PATH", cache.path())
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    for part in ["there is no `go`", "install Go", "KUBEBUILDER_ASSETS"] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

#[test]
fn concurrent_builders_build_once_and_a_failed_build_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let half = |folder: &Path| {
        fs::write(folder.join("program"), "half")?;
        anyhow::bail!("out of disk")
    };
    let broken = cached(root.path(), "key", half, |_| {});
    assert_eq!(broken.unwrap_err().to_string(), "out of disk");
    assert!(!root.path().join("key").exists());
    // As a builder leaves it that is killed.
    fs::create_dir(root.path().join(".building-killed")).unwrap();

    let builds = AtomicU32::new(0);
    let building = AtomicU32::new(0);
    let build = |folder: &Path| {
        assert_eq!(building.fetch_add(1, Ordering::SeqCst), 0, "one builder at a time");
        builds.fetch_add(1, Ordering::SeqCst);
        fs::write(folder.join("program"), "whole")?;
        building.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    };
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let folder = cached(root.path(), "key", build, |_| {}).unwrap();
                assert_eq!(fs::read_to_string(folder.join("program")).unwrap(), "whole");
            });
        }
    });
    assert_eq!(builds.load(Ordering::SeqCst), 1);
    let mut left: Vec<OsString> =
        fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["key", "lock"]);
}

#[test]
fn cache_key_covers_every_build_input() {
    let module = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = module.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        cache_key("module", &["build"], module.path()).unwrap()
    };
    let first = write("go.mod", "module m");
    let with_main = write("cmd/one/main.go", "package main");
    assert_ne!(first, with_main);
    assert_eq!(with_main, write("README.md", "not read by the build"));
    assert_ne!(with_main, write("cmd/one/main.go", "package main // changed"));
    assert_eq!(with_main, write("cmd/one/main.go", "package main"));
    fs::rename(module.path().join("cmd/one"), module.path().join("cmd/two")).unwrap();
    assert_ne!(with_main, cache_key("module", &["build"], module.path()).unwrap());
}

#[test]
fn cache_directory_follows_the_environment() {
    let root = |pairs: &[(&str, &str)]| {
        let map: BTreeMap<_, _> = pairs.iter().copied().collect();
        cache_root(|name| map.get(name).map(OsString::from))
    };
    let all = [("GITWORK_TEST_CACHE", "/a"), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")];
    for (variables, expected) in
        [(&all[..], "/a"), (&all[1..], "/b/gitwork"), (&all[2..], "/c/.cache/gitwork")]
    {
        assert_eq!(root(variables).unwrap(), Path::new(expected));
    }
    assert!(root(&[]).unwrap_err().to_string().contains("GITWORK_TEST_CACHE"));
}

#[test]
fn missing_program_of_the_assets_is_named() {
    let assets = tempfile::tempdir().unwrap();
    let find = || {
        let folder = assets.path().as_os_str().to_owned();
        Binaries::find(|name| (name == "KUBEBUILDER_ASSETS").then(|| folder.clone()))
    };
    let message = |program: &str| {
        format!(
            "KUBEBUILDER_ASSETS is {}, which has no {program}: put it there, or unset the variable \
             to have the control plane built with Go",
            assets.path().display()
        )
    };
    assert_eq!(find().unwrap_err().to_string(), message("etcd"));
    fs::write(assets.path().join("etcd"), "").unwrap();
    assert_eq!(find().unwrap_err().to_string(), message("kube-apiserver"));
    fs::write(assets.path().join("kube-apiserver"), "").unwrap();
    let error = find().unwrap().command(Program::Kwok).unwrap_err();
    assert_eq!(error.to_string(), message("kwok"));
}

#[test]
fn program_of_the_assets_exits_at_end_of_input() {
    let assets = tempfile::tempdir().unwrap();
    for name in ["etcd", "kube-apiserver"] {
        // Writes its process id, then acts as a server that no input ends.
        let path = assets.path().join(name);
        fs::write(&path, "#!/bin/sh\necho $$\nexec sleep 1000 </dev/null\n").unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, executable).unwrap();
    }
    let folder = assets.path().as_os_str().to_owned();
    let binaries =
        Binaries::find(|name| (name == "KUBEBUILDER_ASSETS").then(|| folder.clone())).unwrap();
    let mut command = binaries.command(Program::Etcd).unwrap();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), child.id().to_string(), "the process id is the program's own");
    assert!(child.try_wait().unwrap().is_none());
    drop(child.stdin.take());
    assert!(!child.wait().unwrap().success());
}
