//! Commands while the hub answers nothing useful for a moment, as right after its CRDs were
//! created.

use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gitwork_api::work::ManifestWork;
use http::Method;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use super::budget::{gitwork, held, text};
use super::fixture::{Sync, config_map, works};
use super::guards::done;
use crate::harness::fault_proxy::{Fault, FaultProxy, Target, Upstream};
use crate::harness::{Cluster, ClusterOptions, ControlPlane, crds};
use crate::{cli, deploy};

/// One name for all requests.
fn request(_: &Method, _: &str, _: &[u8]) -> String {
    "request".to_owned()
}

/// Names a request by its method and the end of its path.
fn method_and_object(method: &Method, path: &str, _: &[u8]) -> String {
    let path = path.split('?').next().unwrap_or_default();
    let mut parts = path.rsplit('/');
    let (name, resource) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{method} {resource}/{name}")
}

type NameOf = fn(&Method, &str, &[u8]) -> String;

/// Runs a command whose first requests of each of these names fail, each in another way.
async fn run(sync: &Sync, arguments: &[&str], name_of: NameOf, names: &[&str]) -> Output {
    let proxy = FaultProxy::new(Arc::new(name_of));
    let address = proxy.serve(Upstream::ApiServer(sync.hub.client())).await;
    let kubeconfig = sync.folder.path().join("proxy-kubeconfig");
    std::fs::write(&kubeconfig, FaultProxy::kubeconfig(&address)).unwrap();
    let faults = [
        Fault::Answer { code: 503, retry_after_seconds: Some(1) },
        Fault::Answer { code: 429, retry_after_seconds: Some(1) },
        Fault::Close,
    ];
    let of_name = |name: &&str| {
        let target = |number: usize| Target { name: (*name).to_owned(), number };
        faults.iter().enumerate().map(|(at, fault)| (target(at + 1), *fault)).collect::<Vec<_>>()
    };
    proxy.set_faults(names.iter().flat_map(of_name).collect());
    let mut command: Command = cli::gitwork(arguments);
    command.args(["--source-id", sync.id.as_str(), "--kubeconfig"]).arg(kubeconfig);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let left = proxy.faults_left();
    assert!(left.is_empty(), "{arguments:?} does not make {left:?}: {output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {text}");
    output
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_retry_transient_answers_of_the_hub() {
    let sync = Sync::new(1).await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    let url = sync.server.url("fleet.git");
    let cache = sync.folder.path().join("cache").display().to_string();
    let git = ["--repo", &url, "--branch", "main", "--cache", &cache];
    let web = format!("{}/web", sync.clusters[0]);
    for arguments in [
        [&["run", "--once"][..], &git].concat(),
        [&["plan"][..], &git].concat(),
        vec!["status"],
        vec!["tree"],
        [&["explain", &web][..], &git].concat(),
        vec!["suspend", &web, "--reason", "a test"],
        vec!["resume", &web],
        vec!["reconcile"],
    ] {
        run(&sync, &arguments, request, &["request"]).await;
    }
    sync.until_value(0, "web", "one").await;
}

/// Their own requests are retried too, not only those of the plan that they begin with.
#[tokio::test(flavor = "multi_thread")]
async fn adopt_and_approve_retry_transient_answers_of_the_hub() {
    deploy::installed().await;
    let sync = Sync::new(2).await;
    let map = |name: &str| config_map(name, "one");
    sync.commit(&[(0, "web/cm.yaml", Some(&map("web"))), (1, "db/cm.yaml", Some(&map("db")))]);
    done(&gitwork(&sync, &["run", "--once"]));
    let foreign: ManifestWork = serde_json::from_value(json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": { "name": "taken" },
        "spec": { "workload": { "manifests": [{
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "taken", "namespace": "default" },
        }] } },
    }))
    .unwrap();
    sync.works(0).create(&PostParams::default(), &foreign).await.unwrap();
    sync.commit(&[(0, "taken/cm.yaml", Some(&map("taken")))]);

    let url = sync.server.url("fleet.git");
    let cache = sync.folder.path().join("cli-cache").display().to_string();
    let git = ["--repo", &url, "--branch", "main", "--cache", &cache];
    let taken = format!("{}/taken", sync.clusters[0]);
    let adopt = [&["adopt", &taken, "--yes"][..], &git].concat();
    let requests = ["GET manifestworks/taken", "PATCH manifestworks/taken"];
    run(&sync, &adopt, method_and_object, &requests).await;
    let work = sync.until_there(0, "taken").await;
    assert_eq!(work.annotations()["gitwork.dev/adopt"], sync.id.as_str());
    // A failed creation finds the work, and would postpone a deletion.
    done(&gitwork(&sync, &["run", "--once"]));

    sync.commit(&[(0, "web", None), (0, "taken", None)]);
    let (hash, _) = held(&sync);
    let approve = [&["approve", &hash][..], &git].concat();
    let read = format!("GET configmaps/gitwork-source-{}", sync.id);
    let requests = [&read, "POST v1/selfsubjectreviews", "POST gitwork/configmaps"];
    let approved = run(&sync, &approve, method_and_object, &requests).await;
    let said = text(&approved.stderr);
    assert!(said.contains(" approved: ") && !said.contains("somebody"), "{said}");
    done(&gitwork(&sync, &["run", "--once"]));
    sync.until_gone(0, "web").await;
}

/// How many lists of works an API server has answered with 429.
async fn refused_lists(hub: &Cluster) -> u64 {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let metrics = hub.client().request_text(request).await.unwrap();
    let labels = ["apiserver_request_total{", "code=\"429\"", "resource=\"manifestworks\""];
    let lines = metrics.lines().filter(|line| labels.iter().all(|label| line.contains(label)));
    lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
}

/// After each change of a CRD, an API server reads the objects of that kind again. Meanwhile it
/// answers some requests with 429 and "storage is (re)initializing".
#[tokio::test(flavor = "multi_thread")]
async fn commands_outlast_an_api_server_that_initializes_its_storage() {
    let options = ClusterOptions { crds: crds::hub(), ..ClusterOptions::default() };
    let hub = ControlPlane::shared().await.start("initializing", options).await;
    hub.create_namespace("edge-1").await;
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("clusters/edge-1/web");
    std::fs::create_dir_all(&work).unwrap();
    std::fs::write(work.join("cm.yaml"), config_map("web", "one")).unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(hub.client());
    let deadline = Instant::now() + Duration::from_secs(300);
    for round in 0.. {
        assert!(Instant::now() < deadline, "the API server never answers with 429");
        let names = json!({ "spec": { "names": { "shortNames": [format!("mw{round}")] } } });
        let (name, params) =
            ("manifestworks.work.open-cluster-management.io", PatchParams::default());
        definitions.patch(name, &params, &Patch::Merge(names)).await.unwrap();
        let mut command = cli::gitwork(&["run", "--once", "--source-id", "fleet", "--repo"]);
        command.arg(folder.path()).arg("--kubeconfig").arg(hub.kubeconfig_path());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        if refused_lists(&hub).await > 0 {
            break;
        }
    }
    works(hub.client(), "edge-1").get("web").await.unwrap();
}
