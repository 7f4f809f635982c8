//! A hub without OCM, installed from `deploy/` as docs/plain-hub.md says, and clusters that are
//! connected to it. No kubelet runs: the programs of the Deployments run here, with the arguments,
//! the ServiceAccounts and the rights of their manifests.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use serde::Deserialize as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::inventory::Inventory;
use crate::admission::fixture::{configuration, until_called};
use crate::agent::{deploy as agent_deploy, process};
use crate::cli::{gitwork, out, write};
use crate::deploy::{adapted, adapted_objects, daemon_config, granted, objects, read, rights_of};
use crate::git_server::{GitServer, Repo};
use crate::harness::{Cluster, ClusterOptions, ControlPlane, apply_all, delete_all, eventually};
use crate::hub_program::{DEADLINE, HubProgram};

const ADMISSION: &str = "deploy/admission.yaml";
const CONTROLLER: &str = "deploy/controller.yaml";
const DAEMON: &str = "deploy/gitwork.yaml";
const AGENT: &str = "deploy/agent.yaml";
const MANAGED_CLUSTER: &str = "deploy/managed-cluster.yaml";
const AGENT_CRD: &str = "deploy/crds/appliedmanifestworks.work.open-cluster-management.io.yaml";
const REPOSITORY: &str = "https://git.example.com/fleet.git";

/// An API server with the controllers of Kubernetes alone, and what it has then.
async fn new_cluster(name: &str) -> (Cluster, Inventory) {
    let options = ClusterOptions { controller_manager: true, ..ClusterOptions::default() };
    let cluster = ControlPlane::shared().await.start(name, options).await;
    let before = Inventory::of_new(&cluster).await;
    (cluster, before)
}

fn crds(text: &str) -> Vec<CustomResourceDefinition> {
    let documents = serde_yaml::Deserializer::from_str(text);
    documents.map(|one| CustomResourceDefinition::deserialize(one).unwrap()).collect()
}

fn deployment(objects: &[Value]) -> Deployment {
    let found = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
    serde_json::from_value(found.clone()).unwrap()
}

/// The arguments of a Deployment's only container, with what differs here.
fn arguments(deployment: &Deployment, changes: &[(&str, &str)]) -> Vec<String> {
    let pod = deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    assert_eq!(pod.containers.len(), 1);
    let shipped = pod.containers[0].args.as_ref().unwrap().join("\n");
    adapted(&shipped, changes).lines().map(str::to_owned).collect()
}

/// Waits until the API server has admitted all pods of a Deployment.
async fn until_admitted(cluster: &Cluster, deployment: &Deployment) {
    let (namespace, name) = (deployment.namespace().unwrap(), deployment.name_any());
    let wanted = deployment.spec.as_ref().unwrap().replicas;
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), &namespace);
    let probe = || async {
        let found = deployments.get(&name).await.map_err(|error| error.to_string())?;
        let status = found.status.unwrap_or_default();
        if status.replicas == wanted { Ok(()) } else { Err(format!("{status:?}")) }
    };
    eventually(&format!("the pods of {name}"), DEADLINE, probe).await.unwrap();
}

/// The rights of the Roles and ClusterRoles of this name in a file.
pub fn rights(objects: &[Value], role: &str) -> BTreeSet<String> {
    let is_role = |object: &&Value| {
        ["Role", "ClusterRole"].iter().any(|kind| object["kind"] == *kind)
            && object["metadata"]["name"] == role
    };
    let rules = objects
        .iter()
        .filter(is_role)
        .flat_map(|role| Vec::<PolicyRule>::deserialize(&role["rules"]).unwrap().into_iter());
    rules.flat_map(|rule| rights_of(&rule)).collect()
}

/// Waits until exactly these rights count in a namespace.
pub async fn until_granted(client: &Client, namespace: &str, expected: &BTreeSet<String>) {
    assert!(!expected.is_empty(), "the roles are read");
    let probe = || async {
        let found = granted(client.clone(), namespace).await;
        if found == *expected { Ok(()) } else { Err(format!("{found:?}, not {expected:?}")) }
    };
    eventually("exactly the rights of the manifests to count", DEADLINE, probe).await.unwrap();
}

/// A client with a kubeconfig.
pub async fn client_of(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap()).unwrap()
}

/// The hub with its programs, and the repository of its source `fleet`.
pub struct PlainHub {
    pub cluster: Cluster,
    pub repo: Repo,
    pub folder: TempDir,
    server: GitServer,
    programs: Vec<HubProgram>,
    crds: Vec<CustomResourceDefinition>,
    before: Inventory,
}

impl PlainHub {
    /// Installs the CRDs, the webhooks, the controller and the daemon.
    pub async fn install() -> Self {
        let (cluster, before) = new_cluster("plain-hub").await;
        let folder = tempfile::tempdir().unwrap();
        let repo = Repo::create(&folder.path().join("fleet.git"));
        // Without this folder the source would have an error, and nothing would be deleted.
        repo.commit("main", &[("clusters/.gitkeep", Some(""))]);
        let server = GitServer::http(folder.path()).start();
        let crds = crds(&out(&gitwork(&["crds"]).output().unwrap()));
        cluster.install(&crds).await.unwrap();
        let programs = Vec::new();
        let mut hub = Self { cluster, repo, folder, server, programs, crds, before };
        hub.install_admission().await;
        hub.install_controller().await;
        hub.install_daemon().await;
        hub
    }

    pub fn url(&self) -> String {
        self.server.url("fleet.git")
    }

    /// In two steps: the webhooks' configuration comes when a program answers.
    async fn install_admission(&mut self) {
        let mut all = objects(ADMISSION);
        all.retain(|one| one["metadata"]["labels"]["app.kubernetes.io/component"] != "webhooks");
        apply_all(self.cluster.client(), &all).await.unwrap();
        let changes = [("0.0.0.0:8080", "127.0.0.1:0")];
        let more = ["--webhook-listen=127.0.0.1:0", "--serving-name=127.0.0.1"];
        let program = self.start(&all, &changes, &more).await;
        let address = program.address("listening for webhooks").await;
        let webhooks = configuration("gitwork-admission", address, address);
        apply_all(self.cluster.client(), &[webhooks]).await.unwrap();
        until_called(&self.cluster, "default").await;
    }

    async fn install_controller(&mut self) {
        let all = objects(CONTROLLER);
        apply_all(self.cluster.client(), &all).await.unwrap();
        self.start(&all, &[("0.0.0.0:8080", "127.0.0.1:0")], &[]).await;
    }

    async fn install_daemon(&mut self) {
        let url = self.url();
        let all = adapted_objects(DAEMON, &[(REPOSITORY, &url)]);
        apply_all(self.cluster.client(), &all).await.unwrap();
        let config = daemon_config("fleet", &url, &self.folder.path().join("cache"));
        let config = config.display().to_string();
        self.start(&all, &[("/etc/gitwork/gitwork.yaml", &config)], &[]).await;
    }

    /// Starts the program of the Deployment, and waits until it is ready.
    async fn start(
        &mut self,
        objects: &[Value],
        changes: &[(&str, &str)],
        more: &[&str],
    ) -> &HubProgram {
        let deployment = deployment(objects);
        until_admitted(&self.cluster, &deployment).await;
        let pod = deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
        let account = pod.service_account_name.as_ref().unwrap();
        let client = self.cluster.client_for("gitwork", account).await;
        until_granted(&client, "gitwork", &rights(objects, account)).await;
        let kubeconfig = self.cluster.kubeconfig_path_for("gitwork", account).await;
        let shipped = arguments(&deployment, changes);
        let all: Vec<&str> =
            shipped.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let program = HubProgram::run(&all, &kubeconfig);
        program.until_ready().await;
        self.programs.push(program);
        self.programs.last().unwrap()
    }

    /// No request of a program was forbidden so far.
    pub fn assert_nothing_was_forbidden(&self) {
        for program in &self.programs {
            let log = program.log();
            let forbidden: Vec<&str> =
                log.lines().filter(|line| line.to_lowercase().contains("forbid")).collect();
            assert!(forbidden.is_empty() && !log.is_empty(), "{forbidden:#?}");
        }
    }

    /// Removes the webhooks' configuration, and then everything of the three files. The programs
    /// end as a kubelet ends them.
    pub async fn uninstall(&self) {
        let client = self.cluster.client();
        let mut admission = objects(ADMISSION);
        admission.retain(|object| object["kind"] == "ValidatingWebhookConfiguration");
        assert_eq!(admission.len(), 1);
        delete_all(client.clone(), &admission).await.unwrap();
        for file in [ADMISSION, CONTROLLER, DAEMON] {
            delete_all(client.clone(), &objects(file)).await.unwrap();
        }
        for program in &self.programs {
            program.terminate();
            assert_eq!(program.until_ended().await, 0, "{}", program.log());
        }
    }

    /// Removes the CRDs, and waits until the hub is as it was before [`PlainHub::install`].
    pub async fn remove_crds(&self) {
        let crds: Vec<Value> =
            self.crds.iter().map(|crd| serde_json::to_value(crd).unwrap()).collect();
        delete_all(self.cluster.client(), &crds).await.unwrap();
        self.before.until_restored(&self.cluster).await;
    }
}

/// A managed cluster with a running agent.
pub struct ConnectedCluster {
    pub name: String,
    pub cluster: Cluster,
    agent: process::Program,
    before: Inventory,
}

impl ConnectedCluster {
    pub async fn connect(hub: &Cluster, name: &str) -> Self {
        let (cluster, before) = new_cluster(name).await;
        let hub_kubeconfig = agent_account(hub, name).await;
        cluster.install(&crds(&read(AGENT_CRD))).await.unwrap();
        let objects = adapted_objects(AGENT, &[("edge-1", name)]);
        let kubeconfig = agent_deploy::install(&cluster, &objects).await;
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"namespace": agent_deploy::NAMESPACE, "name": "hub-kubeconfig-secret"},
            "stringData": {"kubeconfig": hub_kubeconfig}});
        apply_all(cluster.client(), &[secret]).await.unwrap();
        let deployment = deployment(&objects);
        until_admitted(&cluster, &deployment).await;
        let agent = start_agent(&deployment, &hub_kubeconfig, &kubeconfig).await;
        Self { name: name.to_owned(), cluster, agent, before }
    }

    /// No request of the agent was forbidden so far, neither by the hub nor by the cluster.
    pub async fn assert_nothing_was_forbidden(&self) {
        assert_eq!(agent_deploy::refused(&self.agent).await, Vec::<String>::new());
    }

    /// Removes the agent and its kind, and waits until the cluster is as it was before.
    pub async fn uninstall(self) {
        let objects = adapted_objects(AGENT, &[("edge-1", &self.name)]);
        delete_all(self.cluster.client(), &objects).await.unwrap();
        assert_eq!(self.agent.terminate().await, Some(0));
        let crd = crate::deploy::objects(AGENT_CRD);
        delete_all(self.cluster.client(), &crd).await.unwrap();
        self.before.until_restored(&self.cluster).await;
    }
}

/// The account of a cluster's agent on the hub: its kubeconfig, once its rights count.
async fn agent_account(hub: &Cluster, name: &str) -> String {
    let objects = adapted_objects(MANAGED_CLUSTER, &[("edge-1", name)]);
    apply_all(hub.client(), &objects).await.unwrap();
    let account = "gitwork-agent";
    let client = hub.client_for(name, account).await;
    until_granted(&client, name, &rights(&objects, account)).await;
    assert_eq!(granted(client, "default").await, BTreeSet::new(), "nothing elsewhere");
    hub.kubeconfig_for(name, account).await
}

async fn start_agent(
    deployment: &Deployment,
    hub_kubeconfig: &str,
    kubeconfig: &str,
) -> process::Program {
    let files = tempfile::tempdir().unwrap();
    let written = |name: &str, text: &str| {
        write(files.path(), name, text);
        files.path().join(name).display().to_string()
    };
    let hub_file = written("hub", hub_kubeconfig);
    let changes =
        [("/spoke/hub-kubeconfig/kubeconfig", hub_file.as_str()), ("0.0.0.0:8443", "127.0.0.1:0")];
    let mut all = arguments(deployment, &changes);
    // A pod has these two from its ServiceAccount.
    all.push(format!("--kubeconfig={}", written("cluster", kubeconfig)));
    all.push(format!("--namespace={}", agent_deploy::NAMESPACE));
    process::spawn(files, &all).await
}

/// Removes a managed cluster from the hub.
pub async fn disconnect(hub: &Cluster, name: &str) {
    let objects = adapted_objects(MANAGED_CLUSTER, &[("edge-1", name)]);
    delete_all(hub.client(), &objects).await.unwrap();
}
