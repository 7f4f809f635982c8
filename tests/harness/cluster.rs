//! One cluster: an API server with its own key prefix and, on request, the programs that run
//! workloads.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use http::Request;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use tempfile::NamedTempFile;

use super::binaries::Program;
use super::control_plane::Etcd;
use super::credentials::Credentials;
use super::process::{Port, Process};
use super::requests::{Requests, audit_flags};
use super::wait::eventually;
use super::workloads::{self, Workloads};

/// An API server starts in 3 s on an idle machine, but compilers may run beside the tests.
const START: Duration = Duration::from_secs(300);

/// The file name in the cluster's folder.
pub(super) const ADMIN_KUBECONFIG: &str = "admin.kubeconfig";

/// Longer than any test or demo.
const TOKEN_LIFE_SECONDS: i64 = 24 * 60 * 60;

/// The parts of a cluster beside its API server.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// Garbage collection, namespace deletion, Deployments, Jobs and the like. Costs 150 MiB.
    pub controller_manager: bool,
    /// One node whose pods become ready at once, and a scheduler. Costs 230 MiB.
    pub scheduler_and_kwok: bool,
    /// The custom kinds that it serves from the start.
    pub crds: Vec<CustomResourceDefinition>,
}

/// A running cluster. It ends when this is dropped.
pub struct Cluster {
    name: String,
    workloads: Option<Workloads>,
    server: Mutex<Option<Process>>,
    etcd: Arc<Etcd>,
    port: Port,
    folder: PathBuf,
    /// Without the ServiceAccount admission plugin pods need no ServiceAccount, which only a
    /// controller manager creates.
    service_accounts: bool,
    credentials: Credentials,
    config: Config,
    namespaces: AtomicU32,
}

impl Cluster {
    pub(super) async fn start(
        etcd: Arc<Etcd>,
        name: &str,
        options: ClusterOptions,
    ) -> Result<Cluster> {
        let folder = etcd.folder().join(name);
        fs::create_dir(&folder).with_context(|| format!("create {}", folder.display()))?;
        let credentials = Credentials::create(&folder, name)?;
        let port = Port::reserve()?;
        let kubeconfig = credentials.admin_kubeconfig(&address(&port))?;
        fs::write(folder.join(ADMIN_KUBECONFIG), &kubeconfig)?;
        let mut cluster = Cluster {
            name: name.to_owned(),
            workloads: None,
            server: Mutex::new(None),
            etcd,
            port,
            folder,
            service_accounts: options.controller_manager,
            credentials,
            config: config(&kubeconfig).await?,
            namespaces: AtomicU32::new(0),
        };
        cluster.restart().await?;
        cluster.install(&options.crds).await?;
        let wanted = workloads::Wanted {
            controller_manager: options.controller_manager,
            scheduler_and_kwok: options.scheduler_and_kwok,
        };
        cluster.workloads =
            Some(Workloads::start(&cluster.etcd.binaries, &cluster.folder, wanted)?);
        if options.scheduler_and_kwok {
            workloads::add_node(cluster.client()).await?;
        }
        Ok(cluster)
    }

    /// A client of the cluster admin. Create one in each test: its worker ends with the runtime
    /// that created it, and every `#[tokio::test]` has its own runtime.
    pub fn client(&self) -> Client {
        Client::try_from(self.config()).unwrap()
    }

    /// The configuration of [`Cluster::client`], to change or wrap.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// A kubeconfig of the cluster admin, as YAML.
    pub fn kubeconfig(&self) -> String {
        self.credentials.admin_kubeconfig(&self.url()).unwrap()
    }

    /// A kubeconfig, as YAML, of a user of one group, with a client certificate.
    pub fn kubeconfig_of(&self, user: &str, group: &str) -> String {
        self.credentials.user_kubeconfig(&self.url(), user, group).unwrap()
    }

    /// A kubeconfig, as YAML, of a ServiceAccount, which is created if it does not exist. It has
    /// the rights that RBAC grants it: next to none at first.
    pub async fn kubeconfig_for(&self, namespace: &str, service_account: &str) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let wanted = ServiceAccount { metadata: named(service_account), ..Default::default() };
        if accounts.get_opt(service_account).await.unwrap().is_none() {
            accounts.create(&PostParams::default(), &wanted).await.unwrap();
        }
        let life = Some(TOKEN_LIFE_SECONDS);
        let spec = TokenRequestSpec { expiration_seconds: life, ..Default::default() };
        let request = TokenRequest { spec, ..Default::default() };
        let params = PostParams::default();
        let answer = accounts.create_token_request(service_account, &params, &request).await;
        let token = answer.unwrap().status.unwrap().token;
        self.credentials.token_kubeconfig(&self.url(), namespace, &token).unwrap()
    }

    /// The configuration of [`Cluster::client_for`], to change or wrap.
    pub async fn config_for(&self, namespace: &str, service_account: &str) -> Config {
        config(&self.kubeconfig_for(namespace, service_account).await).await.unwrap()
    }

    /// A client of a ServiceAccount, as [`Cluster::kubeconfig_for`].
    pub async fn client_for(&self, namespace: &str, service_account: &str) -> Client {
        Client::try_from(self.config_for(namespace, service_account).await).unwrap()
    }

    /// The file of [`Cluster::kubeconfig`], for `gitwork --kubeconfig` and the like.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.folder.join(ADMIN_KUBECONFIG)
    }

    /// The file of [`Cluster::kubeconfig_for`].
    pub async fn kubeconfig_path_for(&self, namespace: &str, service_account: &str) -> PathBuf {
        let text = self.kubeconfig_for(namespace, service_account).await;
        self.write_kubeconfig(&format!("{namespace}.{service_account}"), &text)
    }

    /// Writes a kubeconfig. Tests that run side by side may share it, so it is whole at any time.
    pub(super) fn write_kubeconfig(&self, user: &str, text: &str) -> PathBuf {
        let path = self.folder.join(format!("{user}.kubeconfig"));
        let written = NamedTempFile::new_in(&self.folder).unwrap();
        fs::write(&written, text).unwrap();
        written.persist(&path).unwrap();
        path
    }

    /// The requests to the API server from now on. On a shared cluster other tests send requests,
    /// too: select yours by namespace, user or user agent.
    pub fn requests(&self) -> Requests {
        Requests::from_now_on(&self.folder).unwrap()
    }

    /// The folder with its logs, credentials and kubeconfigs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn url(&self) -> String {
        address(&self.port)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates a new namespace, and returns its name: `prefix` and a number.
    pub async fn namespace(&self, prefix: &str) -> String {
        let number = self.namespaces.fetch_add(1, Ordering::Relaxed);
        let name = format!("{prefix}-{number}");
        self.create_namespace(&name).await;
        name
    }

    /// Creates a namespace of this name, on a separate cluster.
    ///
    /// # Panics
    /// If it exists.
    pub async fn create_namespace(&self, name: &str) {
        let wanted = Namespace { metadata: named(name), ..Default::default() };
        let namespaces: Api<Namespace> = Api::all(self.client());
        namespaces.create(&PostParams::default(), &wanted).await.unwrap();
    }

    /// Makes the API server serve more kinds, and waits until it does. The server delays the first
    /// object of a new kind for 2 s, because a second API server may not know the kind.
    pub async fn install(&self, crds: &[CustomResourceDefinition]) -> Result<()> {
        let client = self.client();
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let params = PatchParams::apply("harness").force();
        for crd in crds {
            api.patch(&crd.name_any(), &params, &Patch::Apply(crd))
                .await
                .with_context(|| format!("install {}", crd.name_any()))?;
        }
        for crd in crds {
            let what = format!("{} to be served", crd.name_any());
            eventually(&what, START, || served(client.clone(), crd)).await?;
        }
        Ok(())
    }

    /// The process id of the API server.
    ///
    /// # Panics
    /// If it was killed and not restarted.
    pub fn pid(&self) -> u32 {
        self.server().as_ref().expect("the API server was killed").id()
    }

    /// The process ids of the programs next to the API server.
    pub fn pids_of_workloads(&self) -> Vec<u32> {
        self.workloads.as_ref().map(Workloads::ids).unwrap_or_default()
    }

    /// Ends the API server as a crash does: clients get no notice. etcd keeps its data.
    pub fn kill(&self) {
        self.server().take();
    }

    /// Starts the API server on its port, and waits until it is ready.
    pub async fn restart(&self) -> Result<()> {
        self.kill();
        let mut command = self.etcd.binaries.command(Program::ApiServer)?;
        command.args(self.server_flags()).args(audit_flags(&self.folder)?);
        let process = Process::start(command, "kube-apiserver", &self.folder)?;
        *self.server() = Some(process);
        let mut config = self.config();
        config.default_retry = false;
        let client = Client::try_from(config)?;
        let what = format!("the API server of {} to be ready", self.name);
        eventually(&what, START, || self.ready(client.clone())).await?
    }

    /// The outer error means "wait on", the inner one "stop".
    async fn ready(&self, client: Client) -> Result<Result<()>, String> {
        if let Some(death) = self.server().as_mut().and_then(Process::death) {
            return Ok(Err(anyhow!(death)));
        }
        let request = Request::get("/readyz").body(Vec::new()).map_err(|e| e.to_string())?;
        client.request_text(request).await.map_err(|e| e.to_string())?;
        // A controller in the API server creates it; `/readyz` does not wait for it.
        let namespaces: Api<Namespace> = Api::all(client);
        namespaces.get("default").await.map_err(|e| e.to_string())?;
        Ok(Ok(()))
    }

    fn server(&self) -> MutexGuard<'_, Option<Process>> {
        self.server.lock().unwrap()
    }

    fn server_flags(&self) -> Vec<String> {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let disabled = if self.service_accounts { "" } else { ",ServiceAccount" };
        vec![
            format!("--etcd-servers={}", self.etcd.url()),
            format!("--etcd-prefix=/{}", self.name),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.port.number()),
            "--permit-port-sharing".to_owned(),
            // No program in a cluster uses the Service of the API server, whose endpoint may not be
            // a loopback address.
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            format!("--tls-cert-file={}", file("server.crt")),
            format!("--tls-private-key-file={}", file("server.key")),
            format!("--client-ca-file={}", file("ca.crt")),
            "--authorization-mode=RBAC".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", file("service-accounts.pub")),
            format!("--service-account-signing-key-file={}", file("service-accounts.key")),
            // A node would stay tainted as not ready: no node lifecycle controller runs.
            format!("--disable-admission-plugins=TaintNodesByCondition{disabled}"),
            "--allow-privileged".to_owned(),
            "--profiling=false".to_owned(),
        ]
    }
}

pub(super) async fn config(kubeconfig: &str) -> Result<Config> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// Whether objects of a kind can be listed and discovery has it, in each served version.
async fn served(client: Client, crd: &CustomResourceDefinition) -> Result<(), String> {
    let (group, names) = (&crd.spec.group, &crd.spec.names);
    for version in crd.spec.versions.iter().filter(|version| version.served) {
        let group_version = format!("{group}/{}", version.name);
        let known = client.list_api_group_resources(&group_version).await;
        let known = known.map_err(|e| e.to_string())?;
        if !known.resources.iter().any(|resource| resource.name == names.plural) {
            return Err(format!("discovery of {group_version} does not list {}", names.plural));
        }
        let path = format!("/apis/{group_version}/{}?limit=1", names.plural);
        let request = Request::get(path).body(Vec::new()).map_err(|e| e.to_string())?;
        client.request_text(request).await.map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn address(port: &Port) -> String {
    format!("https://127.0.0.1:{}", port.number())
}

pub(super) fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}
