//! One cluster: an API server under its own key prefix, and on request what makes workloads run.

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

use super::binaries::Program;
use super::control_plane::Etcd;
use super::credentials::Credentials;
use super::process::{Port, Process};
use super::requests::{Requests, audit_flags};
use super::wait::eventually;
use super::workloads::{self, Workloads};

/// An API server takes 3 s on an idle machine, but tests share theirs with compilers.
const START: Duration = Duration::from_secs(120);

/// In the cluster's folder.
pub(super) const ADMIN_KUBECONFIG: &str = "admin.kubeconfig";

/// Longer than any test or demo runs.
const TOKEN_LIFE_SECONDS: i64 = 24 * 60 * 60;

/// What a cluster has besides its API server.
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
    /// Without ServiceAccount admission pods need no ServiceAccount, which nobody makes where no
    /// controller manager runs.
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

    /// A client of the user who may do everything. Make one in each test: its worker lives and
    /// dies with the runtime that it was made in, and every `#[tokio::test]` has its own.
    pub fn client(&self) -> Client {
        Client::try_from(self.config()).unwrap()
    }

    /// The configuration of [`Cluster::client`], to be changed or wrapped.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// A kubeconfig, as YAML, of the user who may do everything.
    pub fn kubeconfig(&self) -> String {
        self.credentials.admin_kubeconfig(&self.url()).unwrap()
    }

    /// A kubeconfig, as YAML, of a user of one group, who is known by a client certificate.
    pub fn kubeconfig_of(&self, user: &str, group: &str) -> String {
        self.credentials.user_kubeconfig(&self.url(), user, group).unwrap()
    }

    /// A kubeconfig, as YAML, of a ServiceAccount, which is made if it is not there yet. It may do
    /// what RBAC grants it: at first next to nothing.
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

    /// The configuration of [`Cluster::client_for`], to be changed or wrapped.
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

    /// A file with what [`Cluster::kubeconfig_for`] gives.
    pub async fn kubeconfig_path_for(&self, namespace: &str, service_account: &str) -> PathBuf {
        let text = self.kubeconfig_for(namespace, service_account).await;
        let path = self.folder.join(format!("{namespace}.{service_account}.kubeconfig"));
        fs::write(&path, text).unwrap();
        path
    }

    /// What clients ask of the API server from now on. On a shared cluster other tests ask too:
    /// tell yours by namespace, user or user agent.
    pub fn requests(&self) -> Requests {
        Requests::from_now_on(&self.folder).unwrap()
    }

    /// Where its logs, credentials and kubeconfigs are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn url(&self) -> String {
        address(&self.port)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes a namespace that nobody else uses, and gives its name: `prefix` and a number.
    pub async fn namespace(&self, prefix: &str) -> String {
        let number = self.namespaces.fetch_add(1, Ordering::Relaxed);
        let name = format!("{prefix}-{number}");
        self.create_namespace(&name).await;
        name
    }

    /// Makes a namespace of that very name: for a cluster of one's own.
    ///
    /// # Panics
    /// When there is one.
    pub async fn create_namespace(&self, name: &str) {
        let wanted = Namespace { metadata: named(name), ..Default::default() };
        let namespaces: Api<Namespace> = Api::all(self.client());
        namespaces.create(&PostParams::default(), &wanted).await.unwrap();
    }

    /// Makes the API server serve more kinds, and waits until it does. It holds back the first
    /// object of a new kind for 2 s, in case a second API server has not heard of the kind.
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
    /// When it was killed and not restarted.
    pub fn pid(&self) -> u32 {
        self.server().as_ref().expect("the API server was killed").id()
    }

    /// The process ids of what runs beside the API server.
    pub fn pids_of_workloads(&self) -> Vec<u32> {
        self.workloads.as_ref().map(Workloads::ids).unwrap_or_default()
    }

    /// Ends the API server as a crash would: without a word to those connected. What etcd took
    /// stays.
    pub fn kill(&self) {
        self.server().take();
    }

    /// Starts the API server, on the port that it always had, and waits until it is ready.
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

    /// An error is a reason to go on waiting, an error inside is one to stop.
    async fn ready(&self, client: Client) -> Result<Result<()>, String> {
        if let Some(death) = self.server().as_mut().and_then(Process::death) {
            return Ok(Err(anyhow!(death)));
        }
        let request = Request::get("/readyz").body(Vec::new()).map_err(|e| e.to_string())?;
        client.request_text(request).await.map_err(|e| e.to_string())?;
        // Made by a controller in the API server, which `/readyz` does not wait for.
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
            // Nothing in a cluster reaches the API server by its Service, whose endpoint a
            // loopback address may not be.
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

/// Whether objects of a kind can be listed and discovery tells of it, in each served version.
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
