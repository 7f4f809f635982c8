//! The program itself, in the place of a klusterlet's work agent.

use std::process::Stdio;
use std::time::Duration;

use kube::api::{Api, DynamicObject};
use kube::{Client, Config};
use tokio::process::{Child, Command};
use tokio::sync::{Mutex, MutexGuard};

use super::fixture::{DEADLINE, Fixture, kind};
use crate::harness::{ControlPlane, eventually};

/// The default of `terminationGracePeriodSeconds`.
const GRACE: Duration = Duration::from_secs(30);

/// Held by a test while it has programs that name the shared hub by its own URL, which is part of
/// the names of AppliedManifestWorks. For each such agent, those of another one have lost their
/// works, and it deletes them with their objects.
static ONLY_AGENT: Mutex<()> = Mutex::const_new(());

/// Waits until no other test has such an agent. See [`ONLY_AGENT`].
pub async fn only_agent() -> MutexGuard<'static, ()> {
    ONLY_AGENT.lock().await
}

/// A running program, and where it serves its health.
pub struct Program {
    child: Child,
    health: Client,
    files: tempfile::TempDir,
}

async fn start(fixture: &Fixture<'_>, namespace: &str, arguments: &[&str]) -> Program {
    let hub = ControlPlane::shared().await.hub().await;
    let kubeconfigs = (hub.kubeconfig(), fixture.managed.kubeconfig());
    start_as(kubeconfigs, &fixture.cluster_name, namespace, arguments).await
}

/// Starts it with kubeconfigs of the hub and of the cluster.
pub async fn start_as(
    (hub, cluster): (String, String),
    cluster_name: &str,
    namespace: &str,
    arguments: &[&str],
) -> Program {
    let files = tempfile::tempdir().unwrap();
    std::fs::create_dir(files.path().join("hub")).unwrap();
    let hub_file = files.path().join("hub/kubeconfig");
    let cluster_file = files.path().join("cluster");
    std::fs::write(&hub_file, hub).unwrap();
    std::fs::write(&cluster_file, cluster).unwrap();
    let mut all = vec![
        "agent".to_owned(),
        format!("--spoke-cluster-name={cluster_name}"),
        "--workload-source-driver=kube".to_owned(),
        format!("--workload-source-config={}", hub_file.display()),
        format!("--kubeconfig={}", cluster_file.display()),
        format!("--namespace={namespace}"),
        "--listen=127.0.0.1:0".to_owned(),
        "--max-feedback-watch=50".to_owned(),
    ];
    all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    let program = spawn(files, &all).await;
    let text = program.log();
    assert!(text.contains("--max-feedback-watch is without effect"), "{text}");
    program
}

/// Starts it with these arguments. Its log goes into `files`.
pub async fn spawn(files: tempfile::TempDir, arguments: &[String]) -> Program {
    let log = files.path().join("log");
    let child = Command::new(crate::harness::agent_program(env!("CARGO_BIN_EXE_gitwork")))
        .args(arguments)
        .env_remove("RUST_LOG")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let address = eventually("the program to say where it serves", DEADLINE, || async {
        let text = std::fs::read_to_string(&log).unwrap();
        let line = text.lines().find_map(|line| line.split_once("address="));
        line.map(|(_, address)| address.trim().to_owned()).ok_or(text.clone())
    })
    .await
    .unwrap();
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = true;
    Program { child, health: Client::try_from(config).unwrap(), files }
}

impl Program {
    pub async fn get(&self, path: &str) -> Result<String, String> {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        self.health.request_text(request).await.map_err(|error| error.to_string())
    }

    /// All that it has written so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.files.path().join("log")).unwrap()
    }

    /// Replaces the hub's kubeconfig, as a kubelet does after a rotation.
    pub fn write_hub_kubeconfig(&self, text: &str) {
        let file = self.files.path().join("hub/kubeconfig");
        let new = file.with_file_name("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    /// Kills it (SIGKILL) and waits for its end.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Asks it to end, as a kubelet does.
    pub async fn terminate(mut self) -> Option<i32> {
        let pid = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
        let ended = tokio::time::timeout(GRACE, self.child.wait()).await;
        ended.expect("it ends before it would be killed").unwrap().code()
    }
}

#[tokio::test]
async fn agent_program_leads_applies_and_shuts_down_in_time() {
    let _alone = only_agent().await;
    let mut fixture = Fixture::start().await;
    fixture.kill().await;
    let namespace = fixture.managed.namespace("agent").await;
    let program = start(&fixture, &namespace, &["--leader-election-retry-period=1s"]).await;
    fixture.create("web", vec![fixture.config_map("a", "1")], serde_json::json!({})).await;
    fixture.condition("web", "Available", "True").await;
    assert_eq!(program.get("/healthz").await.unwrap(), "ok");
    assert_eq!(program.get("/readyz").await.unwrap(), "ok");
    let metrics = program.get("/metrics").await.unwrap();
    assert!(metrics.contains("gitwork_agent_works 1\n"), "{metrics}");
    assert!(metrics.contains("gitwork_agent_watched_kinds 1\n"), "{metrics}");

    let leases: Api<DynamicObject> = Api::namespaced_with(
        fixture.cluster.clone(),
        &namespace,
        &kind("coordination.k8s.io/v1", "Lease"),
    );
    let lease = leases.get("work-agent-lock").await.unwrap();
    assert_ne!(lease.data["spec"]["holderIdentity"], "");

    // A second one is standby, and becomes leader when the first releases the Lease.
    let standby = start(&fixture, &namespace, &["--leader-election-retry-period=1s"]).await;
    assert_eq!(standby.get("/readyz").await.unwrap(), "ok");
    assert_eq!(program.terminate().await, Some(0));
    fixture.create("more", vec![fixture.config_map("b", "1")], serde_json::json!({})).await;
    fixture.condition("more", "Available", "True").await;
    eventually("the standby to lead", DEADLINE, || async {
        let metrics = standby.get("/metrics").await?;
        if metrics.contains("gitwork_agent_works 2\n") { Ok(()) } else { Err(metrics) }
    })
    .await
    .unwrap();
    assert_eq!(standby.terminate().await, Some(0));
    let lease = leases.get("work-agent-lock").await.unwrap();
    assert_eq!(lease.data["spec"]["holderIdentity"], "");
}

#[tokio::test]
async fn config_file_sets_the_address_and_the_lease() {
    let _alone = only_agent().await;
    let mut fixture = Fixture::start().await;
    fixture.kill().await;
    let namespace = fixture.managed.namespace("agent").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(path("tls.key"), made.signing_key.serialize_pem()).unwrap();
    let config = serde_json::json!({
        "apiVersion": "operator.openshift.io/v1alpha1", "kind": "GenericOperatorConfig",
        "servingInfo": {"certFile": path("tls.crt"), "keyFile": path("tls.key")},
        "leaderElection": {"name": "other-lock", "namespace": namespace},
        "authorization": {"disabled": true},
    });
    std::fs::write(&file, config.to_string()).unwrap();
    let given = format!("--config={}", file.display());
    let program =
        start(&fixture, "elsewhere", &[&given, "--leader-election-retry-period=1s"]).await;
    fixture.create("web", vec![fixture.config_map("a", "1")], serde_json::json!({})).await;
    fixture.condition("web", "Available", "True").await;
    assert_eq!(program.get("/healthz").await.unwrap(), "ok");
    let leases: Api<DynamicObject> = Api::namespaced_with(
        fixture.cluster.clone(),
        &namespace,
        &kind("coordination.k8s.io/v1", "Lease"),
    );
    assert_ne!(leases.get("other-lock").await.unwrap().data["spec"]["holderIdentity"], "");
    let log = program.log();
    for note in [
        "--max-feedback-watch is without effect",
        "authorization in the file of --config is without effect",
    ] {
        assert_eq!(log.matches(note).count(), 1, "{log}");
    }
    assert_eq!(program.terminate().await, Some(0));
}
