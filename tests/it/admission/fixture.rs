//! A hub whose API server calls the webhooks over TLS, and running programs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::deploy::objects;
use crate::harness::{Cluster, ClusterOptions, ControlPlane, apply_all, crds, eventually};
pub use crate::hub_program::DEADLINE;
use crate::hub_program::HubProgram;

const WORK: &str = "work.open-cluster-management.io";
pub const WORKS_PATH: &str = "/validate-work-open-cluster-management-io-v1-manifestwork";
pub const SETS_PATH: &str =
    "/validate-work-open-cluster-management-io-v1alpha1-manifestworkreplicaset";
pub const WORKS_HOOK: &str = "manifestworks.admission.gitwork.dev";
pub const SETS_HOOK: &str = "manifestworkreplicasets.admission.gitwork.dev";

/// A running `gitwork admission`.
pub struct Program(HubProgram);

impl Deref for Program {
    type Target = HubProgram;

    fn deref(&self) -> &HubProgram {
        &self.0
    }
}

impl Program {
    /// Starts one on ports of its own.
    pub fn start(kubeconfig: &Path, flags: &[&str]) -> Self {
        let arguments = ["admission", "--webhook-listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"];
        Self(HubProgram::start(&arguments, kubeconfig, flags))
    }

    /// Where the webhooks are.
    pub async fn webhooks(&self) -> SocketAddr {
        self.address("listening for webhooks").await
    }
}

/// The configuration of `deploy/admission.yaml`, called by URL: no pod runs here.
pub fn configuration(name: &str, works: SocketAddr, sets: SocketAddr) -> Value {
    let mut all = objects("deploy/admission.yaml");
    all.retain(|object| object["kind"] == "ValidatingWebhookConfiguration");
    let mut object = all.remove(0);
    object["metadata"] = json!({"name": name});
    for (index, address) in [works, sets].into_iter().enumerate() {
        let webhook = &mut object["webhooks"][index];
        let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap().to_owned();
        webhook["clientConfig"] = json!({"url": format!("https://{address}{path}")});
    }
    object
}

/// A hub with the rights of `deploy/admission.yaml`, and the kubeconfig of its account.
pub async fn new_hub() -> (Cluster, PathBuf) {
    static HUBS: AtomicUsize = AtomicUsize::new(0);
    let options = ClusterOptions { crds: crds::hub(), ..ClusterOptions::default() };
    let name = format!("admission-hub-{}", HUBS.fetch_add(1, Ordering::Relaxed));
    let hub = ControlPlane::shared().await.start(&name, options).await;
    let mut objects = objects("deploy/admission.yaml");
    objects.retain(|object| object["kind"] != "ValidatingWebhookConfiguration");
    apply_all(hub.client(), &objects).await.unwrap();
    let kubeconfig = hub.kubeconfig_path_for("gitwork", "gitwork-admission").await;
    (hub, kubeconfig)
}

/// The hub and the program that most tests share. The API server calls it for namespaces without
/// the label `policy`.
pub struct Shared {
    pub hub: Cluster,
    pub kubeconfig: PathBuf,
    pub program: Program,
}

pub async fn shared() -> &'static Shared {
    static SHARED: OnceCell<Shared> = OnceCell::const_new();
    SHARED
        .get_or_init(|| async {
            let (hub, kubeconfig) = new_hub().await;
            let program = Program::start(&kubeconfig, &["--serving-name", "127.0.0.1"]);
            let address = program.webhooks().await;
            let mut object = configuration("gitwork-admission", address, address);
            let unlabelled = json!({"matchExpressions":
                [{"key": "policy", "operator": "DoesNotExist"}]});
            select(&mut object, &unlabelled);
            apply_all(hub.client(), &[object]).await.unwrap();
            let shared = Shared { hub, kubeconfig, program };
            until_called(&shared.hub, &namespace(&shared.hub, None).await).await;
            shared
        })
        .await
}

fn select(configuration: &mut Value, selector: &Value) {
    for webhook in configuration["webhooks"].as_array_mut().unwrap() {
        webhook["namespaceSelector"] = selector.clone();
    }
}

/// A program with other flags on the shared hub, and a namespace for which it is called.
pub async fn with_policy(policy: &str, flags: &[&str]) -> (Program, String) {
    let hub = &shared().await.hub;
    let secret = format!("{policy}-tls");
    let own =
        ["--serving-name", "127.0.0.1", "--webhook-configuration", policy, "--secret", &secret];
    let program = Program::start(&hub.kubeconfig_path(), &[&own, flags].concat());
    let address = program.webhooks().await;
    let mut object = configuration(policy, address, address);
    select(&mut object, &json!({"matchLabels": {"policy": policy}}));
    apply_all(hub.client(), &[object]).await.unwrap();
    let namespace = namespace(hub, Some(policy)).await;
    until_called(hub, &namespace).await;
    (program, namespace)
}

/// A new namespace. The label is there from the start, as the API server caches namespaces.
pub async fn namespace(hub: &Cluster, policy: Option<&str>) -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let name = format!("edge-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let labels = policy.map(|policy| BTreeMap::from([("policy", policy)]));
    let object = json!({"metadata": {"name": name, "labels": labels}});
    let object: Namespace = serde_json::from_value(object).unwrap();
    Api::<Namespace>::all(hub.client()).create(&PostParams::default(), &object).await.unwrap();
    name
}

/// Waits until the API server calls the webhooks and trusts them.
pub async fn until_called(hub: &Cluster, namespace: &str) {
    for kind in Kind::ALL {
        let objects = Objects::new(hub.client(), kind, namespace);
        let probe = || async {
            let nothing = json!({"workload": {"manifests": []}});
            match objects.create_dry("probe", &nothing).await {
                Err(found) if found.contains("should not be empty") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        };
        eventually("the API server to call the webhooks", DEADLINE, probe).await.unwrap();
    }
}

/// Both kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Work,
    Set,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::Work, Self::Set];

    /// The object with this spec of its works.
    pub fn object(self, name: &str, spec: &Value) -> Value {
        match self {
            Self::Work => json!({"apiVersion": format!("{WORK}/v1"), "kind": "ManifestWork",
                "metadata": {"name": name}, "spec": spec}),
            Self::Set => json!({"apiVersion": format!("{WORK}/v1alpha1"),
                "kind": "ManifestWorkReplicaSet", "metadata": {"name": name},
                "spec": {"placementRefs": [{"name": "all"}], "manifestWorkTemplate": spec}}),
        }
    }

    /// The field of the spec of its works.
    pub fn field(self) -> &'static str {
        match self {
            Self::Work => "spec",
            Self::Set => "spec.manifestWorkTemplate",
        }
    }
}

/// Objects of one kind in one namespace, as one user.
pub struct Objects {
    pub api: Api<DynamicObject>,
    kind: Kind,
}

impl Objects {
    pub fn new(client: Client, kind: Kind, namespace: &str) -> Self {
        let (version, name) = match kind {
            Kind::Work => ("v1", "ManifestWork"),
            Kind::Set => ("v1alpha1", "ManifestWorkReplicaSet"),
        };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(WORK, version, name));
        Self { api: Api::namespaced_with(client, namespace, &resource), kind }
    }

    /// Creates an object. The error is `code: message`.
    pub async fn create(&self, name: &str, spec: &Value) -> Result<(), String> {
        self.post(name, spec, &PostParams::default()).await
    }

    /// Has the API server check an object.
    pub async fn create_dry(&self, name: &str, spec: &Value) -> Result<(), String> {
        self.post(name, spec, &PostParams { dry_run: true, ..PostParams::default() }).await
    }

    async fn post(&self, name: &str, spec: &Value, params: &PostParams) -> Result<(), String> {
        let object = serde_json::from_value(self.kind.object(name, spec)).unwrap();
        self.api.create(params, &object).await.map(|_| ()).map_err(text)
    }

    /// Replaces the spec of the works.
    pub async fn update(&self, name: &str, spec: &Value) -> Result<(), String> {
        let mut object = self.api.get(name).await.unwrap();
        object.data["spec"] = self.kind.object(name, spec)["spec"].clone();
        self.api.replace(name, &PostParams::default(), &object).await.map(|_| ()).map_err(text)
    }

    pub async fn patch(&self, name: &str, patch: Value) -> Result<(), String> {
        let params = PatchParams::default();
        self.api.patch(name, &params, &Patch::Merge(patch)).await.map(|_| ()).map_err(text)
    }
}

fn text(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{}: {}", status.code, status.message),
        other => panic!("{other}"),
    }
}

pub fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": name}})
}

pub fn with(manifests: &[Value]) -> Value {
    json!({"workload": {"manifests": manifests}})
}

/// A spec whose manifest counts as so many bytes.
pub fn sized(bytes: usize) -> Value {
    let mut manifest = config_map("large");
    manifest["data"] = json!({"x": ""});
    // A tag and three bytes of length.
    let room = bytes - 4 - manifest.to_string().len();
    manifest["data"]["x"] = json!("x".repeat(room));
    with(&[manifest])
}

pub fn executed(account: &str) -> Value {
    let (namespace, name) = account.split_once('/').unwrap();
    let mut spec = with(&[config_map("one")]);
    spec["executor"] = json!({"subject": {"type": "ServiceAccount",
        "serviceAccount": {"namespace": namespace, "name": name}}});
    spec
}

/// The certificates that each webhook of a configuration trusts, by its name.
pub async fn bundles(hub: &Cluster, configuration: &str) -> BTreeMap<String, String> {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(hub.client());
    let found = api.get(configuration).await.unwrap().webhooks.unwrap();
    let bundles = found.into_iter().map(|entry| {
        let bundle = entry.client_config.ca_bundle.map(|bytes| bytes.0).unwrap_or_default();
        (entry.name, String::from_utf8(bundle).unwrap())
    });
    bundles.collect()
}

/// The certificates that one webhook trusts.
pub async fn bundle(hub: &Cluster, configuration: &str, webhook: &str) -> String {
    bundles(hub, configuration).await.remove(webhook).unwrap()
}

/// A key of a Secret in the namespace `gitwork`.
pub async fn secret_text(hub: &Cluster, name: &str, key: &str) -> Option<String> {
    let api: Api<Secret> = Api::namespaced(hub.client(), "gitwork");
    let data = api.get_opt(name).await.unwrap()?.data?;
    Some(String::from_utf8(data.get(key)?.0.clone()).unwrap())
}

/// Text as `data` of a Secret has it.
pub fn encoded(text: &str) -> Value {
    json!(BASE64_STANDARD.encode(text))
}

/// The AdmissionReview of a create by the user `ann`.
pub fn raw_review(kind: Kind, spec: &Value) -> String {
    let object = kind.object("one", spec);
    let (version, resource) = match kind {
        Kind::Work => ("v1", "manifestworks"),
        Kind::Set => ("v1alpha1", "manifestworkreplicasets"),
    };
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "0b7c", "operation": "CREATE", "namespace": "edge", "name": "one",
            "resource": {"group": WORK, "version": version, "resource": resource},
            "userInfo": {"username": "ann", "groups": ["system:authenticated"]},
            "object": object, "oldObject": null,
        },
    })
    .to_string()
}
