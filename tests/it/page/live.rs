//! The page of a real daemon: an engine on a real hub, and the program itself.

use std::fs::File;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use gitwork_daemon::page::{Page, source_info};
use gitwork_daemon::reporters::Reporting;
use gitwork_report::page::SourceInfo;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::cell;
use crate::browser::Browser;
use crate::deploy;
use crate::git_server::Access;
use crate::harness::{self, eventually};
use crate::sync::fixture::{Sync, config_map};

/// Does what an agent does that cannot apply a manifest.
async fn agent_fails(sync: &Sync, name: &str, message: &str) {
    let generation = sync.until_there(0, name).await.metadata.generation;
    let status = json!({ "status": {
        "conditions": [{
            "type": "Applied", "status": "False", "observedGeneration": generation,
            "reason": "AppliedManifestWorkFailed", "message": "Failed to apply manifest work",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
        "resourceStatus": { "manifests": [{
            "resourceMeta": {
                "ordinal": 0, "kind": "ConfigMap", "resource": "configmaps", "version": "v1",
                "group": "", "namespace": "default", "name": "web",
            },
            "conditions": [{
                "type": "Applied", "status": "False", "reason": "AppliedManifestFailed",
                "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        }] },
    } });
    let params = PatchParams::default();
    sync.works(0).patch_status(name, &params, &Patch::Merge(status)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn open_page_shows_pending_then_failed_then_applied() {
    let sync = Sync::new(1).await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    let (_reach, reached) = watch::channel(Arc::default());
    let (running, feed, config) = sync.start_publishing(reached);
    let info: SourceInfo = source_info(&config, &Reporting::default(), None);
    let page = Page::new(vec![info], Vec::new());
    let (_source_error, source_error) = watch::channel(None);
    let (stop, stopped) = watch::channel(false);
    let (_leads, standing) = watch::channel(true);
    tokio::spawn(page.clone().follow(0, (feed, source_error, standing), stopped.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(page.serve(listener, stopped));

    let browser = Browser::start();
    let tab = browser.tab(1280, 760);
    tab.open(&format!("http://{address}/"));
    let state = cell(&sync.clusters[0], "web");
    tab.until(&format!("{state} === 'pending'")).await;
    agent_fails(&sync, "web", "quota exceeded <b>for</b> configmaps").await;
    tab.until(&format!("{state} === 'failed'")).await;
    let line = tab.eval("document.querySelector('#line .text').innerText");
    assert_eq!(line, format!("0/1 cluster applied, 1 failed: {}", sync.clusters[0]));
    tab.click(".cell[data-state=failed]");
    let panel = "document.getElementById('panel').innerText";
    tab.until(&format!("{panel}.includes('quota exceeded <b>for</b> configmaps')")).await;
    // The panel is open and follows as the matrix does.
    sync.agent_applies(0, "web").await;
    tab.until(&format!("{state} === 'applied'")).await;
    tab.until(&format!("{panel}.includes('Apply manifest work complete')")).await;
    // The next commit is on its way at once.
    let commit = sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "two")))]);
    running.hint();
    tab.until(&format!("{state} === 'pending'")).await;
    tab.until(&format!(
        "document.querySelector('#sources .commit').innerText === '{}'",
        commit.short()
    ))
    .await;
    assert_eq!(tab.complaints(), Vec::<String>::new());
    stop.send_replace(true);
    served.await.unwrap().unwrap();
    running.stop().await;
}

/// Ends the program when a test ends early.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn page_works_with_deploy_rbac_and_shows_no_credentials() {
    let sync = Sync::new(1).await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    deploy::installed().await;
    let kubeconfig = harness::hub().await.kubeconfig_path_for("gitwork", "gitwork").await;
    let folder = sync.folder.path();
    let (token, log, file) =
        (folder.join("token"), folder.join("log"), folder.join("gitwork.yaml"));
    std::fs::write(&token, "CANARY\n").unwrap();
    sync.server.set_access(Access::Authorization("Bearer CANARY".into()));
    let url = sync.server.url("fleet.git");
    let config = format!(
        "page: {{bind: '127.0.0.1:0', hosts: [status.acme.io]}}\ncache: {}\nsources:\n\
         - {{id: {}, repo: {url:?}, branch: main, intervalSeconds: 1, \
         credentials: {{tokenFile: {}}}}}\n",
        folder.join("cache").display(),
        sync.id,
        token.display()
    );
    std::fs::write(&file, config).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_gitwork"))
        .args(["run", "--log-format", "json", "--config"])
        .arg(&file)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env_remove("GITWORK_LOG")
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let _program = Program(child);
    let address = eventually("the page's address in the log", Duration::from_secs(300), || async {
        let text = std::fs::read_to_string(&log).unwrap();
        let line = text.lines().find(|line| line.contains("the status page"));
        let line = line.ok_or_else(|| text.clone())?;
        let line: serde_json::Value = serde_json::from_str(line).map_err(|why| why.to_string())?;
        Ok(line["address"].as_str().unwrap().to_owned())
    })
    .await
    .unwrap();

    let browser = Browser::start();
    let tab = browser.tab(1280, 760);
    tab.open(&format!("http://{address}/"));
    tab.until(&format!("{} === 'pending'", cell(&sync.clusters[0], "web"))).await;
    tab.click(".cell[data-state=pending]");
    tab.until("document.getElementById('panel').innerText.includes('clusters/')").await;
    // The page reports a server of another version and keeps its last state.
    sync.server.set_access(Access::Authorization("Bearer other".into()));
    tab.until("document.getElementById('sources').innerText.includes('The source cannot be read')")
        .await;
    assert_eq!(tab.eval(&cell(&sync.clusters[0], "web")), "pending");
    let shown = tab.eval("document.documentElement.outerHTML").to_string();
    assert!(!shown.contains("CANARY"), "{shown}");
    sync.server.set_access(Access::Everybody);
    tab.until(
        "!document.getElementById('sources').innerText.includes('The source cannot be read')",
    )
    .await;
    assert_eq!(tab.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn page_service_selects_the_daemon_pod() {
    deploy::installed().await;
    let client = harness::hub().await.client();
    let text = include_str!("../../../deploy/page.yaml");
    harness::apply(client.clone(), text).await.unwrap();
    let deployment: Deployment =
        Api::namespaced(client.clone(), "gitwork").get("gitwork").await.unwrap();
    let labels = deployment.spec.unwrap().template.metadata.unwrap().labels.unwrap();
    let service: Service =
        Api::namespaced(client.clone(), "gitwork").get("gitwork-page").await.unwrap();
    let spec = service.spec.unwrap();
    assert_eq!(spec.selector.unwrap(), labels);
    assert_eq!(spec.ports.unwrap()[0].target_port, Some(IntOrString::Int(8081)));
    let policy: NetworkPolicy =
        Api::namespaced(client, "gitwork").get("gitwork-page").await.unwrap();
    let policy = policy.spec.unwrap();
    assert_eq!(policy.pod_selector.unwrap().match_labels.unwrap(), labels);
    assert!(policy.ingress.unwrap()[0].from.is_some(), "not everybody is let in");
    assert!(
        text.contains("bind: 0.0.0.0:8081"),
        "the page is bound where the Service looks for it"
    );
}
