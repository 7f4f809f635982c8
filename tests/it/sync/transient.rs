//! Commands while the hub answers nothing useful for a moment, as right after its CRDs were
//! created.

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::Arc;

use http::Method;

use super::fixture::{Sync, config_map};
use crate::cli;
use crate::harness::fault_proxy::{Fault, FaultProxy, Target, Upstream};

/// Runs a command whose first requests to the hub fail, each in another way.
async fn run(sync: &Sync, arguments: &[&str]) -> Output {
    let namer = |_: &Method, _: &str, _: &[u8]| "request".to_owned();
    let proxy = FaultProxy::new(Arc::new(namer));
    let address = proxy.serve(Upstream::ApiServer(sync.hub.client())).await;
    let kubeconfig = sync.folder.path().join("proxy-kubeconfig");
    std::fs::write(&kubeconfig, FaultProxy::kubeconfig(&address)).unwrap();
    let faults = [
        Fault::Answer { code: 503, retry_after_seconds: Some(1) },
        Fault::Answer { code: 429, retry_after_seconds: Some(1) },
        Fault::Close,
    ];
    let target = |number: usize| Target { name: "request".to_owned(), number };
    let faults: BTreeMap<Target, Fault> =
        faults.into_iter().enumerate().map(|(at, fault)| (target(at + 1), fault)).collect();
    proxy.set_faults(faults);
    let mut command: Command = cli::gitwork(arguments);
    command.args(["--source-id", sync.id.as_str(), "--kubeconfig"]).arg(kubeconfig);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let left = proxy.faults_left();
    assert!(left.is_empty(), "{arguments:?} makes fewer requests: {output:?}");
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
        let output = run(&sync, &arguments).await;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {text}");
    }
    sync.until_value(0, "web", "one").await;
}
