//! The programs that run the workloads of a cluster: controllers, a scheduler, and kwok, which
//! simulates the kubelet of one node.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, PostParams};

use super::binaries::{Binaries, Program};
use super::cluster::{ADMIN_KUBECONFIG, named};
use super::process::Process;
use super::wait::eventually;

/// kwok takes a second on an idle machine.
const NODE_START: Duration = Duration::from_secs(300);

/// The controllers with visible effects on objects that a user applies. Controllers for clouds,
/// volumes, certificates and failing nodes are left out.
const CONTROLLERS: &[&str] = &[
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "ttl-after-finished-controller",
];

#[derive(Clone, Copy)]
pub struct Wanted {
    pub controller_manager: bool,
    pub scheduler_and_kwok: bool,
}

/// The programs next to the API server. They wait for it, and outlive its restart.
pub struct Workloads {
    programs: Vec<Process>,
}

impl Workloads {
    pub fn start(binaries: &Binaries, folder: &Path, wanted: Wanted) -> Result<Workloads> {
        let mut programs = Vec::new();
        let mut start = |program: Program, flags: &[&str]| {
            let mut command = binaries.command(program)?;
            let kubeconfig = folder.join(ADMIN_KUBECONFIG);
            command.arg(format!("--kubeconfig={}", kubeconfig.display())).args(flags);
            programs.push(Process::start(command, program.name(), folder)?);
            anyhow::Ok(())
        };
        if wanted.controller_manager {
            let controllers = format!("--controllers={}", CONTROLLERS.join(","));
            let authority = format!("--root-ca-file={}", folder.join("ca.crt").display());
            let flags = [
                "--leader-elect=false",
                "--secure-port=0",
                "--profiling=false",
                // The defaults, 20 and 30 a second, are for a shared server.
                "--kube-api-qps=500",
                "--kube-api-burst=500",
                &controllers,
                &authority,
            ];
            start(Program::ControllerManager, &flags)?;
        }
        if wanted.scheduler_and_kwok {
            let flags = ["--leader-elect=false", "--secure-port=0", "--profiling=false"];
            start(Program::Scheduler, &flags)?;
            // It has its own rules for ready nodes and pods. No test uses the ports for logs and
            // exec.
            start(Program::Kwok, &["--manage-all-nodes", "--node-port=0"])?;
        }
        Ok(Workloads { programs })
    }

    pub fn ids(&self) -> Vec<u32> {
        self.programs.iter().map(Process::id).collect()
    }
}

/// Creates a node and waits until kwok has given it capacity for pods.
pub async fn add_node(client: Client) -> Result<()> {
    let nodes: Api<Node> = Api::all(client);
    let node = Node { metadata: named("node"), ..Node::default() };
    nodes.create(&PostParams::default(), &node).await?;
    eventually("the node to be ready", NODE_START, || async {
        let node = nodes.get("node").await.map_err(|e| e.to_string())?;
        let status = node.status.unwrap_or_default();
        let ready = status.conditions.unwrap_or_default();
        let ready = ready.iter().any(|c| c.type_ == "Ready" && c.status == "True");
        let room = status.allocatable.is_some_and(|room| room.contains_key("pods"));
        if ready && room { Ok(()) } else { Err("kwok has not updated its status".to_owned()) }
    })
    .await
}
