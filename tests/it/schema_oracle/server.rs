//! A real API server that judges documents without storing them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt as _;
use http::Request;
use kube::Client;
use serde_json::{Value, json};

/// Requests at the same time.
const CONCURRENT: usize = 8;

/// What the API server says of a document.
#[derive(Debug)]
pub enum Verdict {
    Accepted,
    Refused(String),
}

/// The path of a kind's objects, as kubectl finds it.
#[derive(Debug, Clone)]
struct Resource {
    plural: String,
    is_namespaced: bool,
}

pub struct Server {
    client: Client,
    /// By `apiVersion` and kind.
    resources: BTreeMap<(String, String), Resource>,
    kinds: BTreeSet<String>,
}

impl Server {
    pub async fn discover(client: Client) -> Self {
        let mut server = Self { client, resources: BTreeMap::new(), kinds: BTreeSet::new() };
        let groups = server.get("/apis").await;
        let mut paths = vec![("v1".to_owned(), "/api/v1".to_owned())];
        for version in groups["groups"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|group| group["versions"].as_array().unwrap().iter())
        {
            let name = version["groupVersion"].as_str().unwrap();
            paths.push((name.to_owned(), format!("/apis/{name}")));
        }
        for (version, path) in paths {
            let list = server.get(&path).await;
            for one in list["resources"].as_array().unwrap() {
                let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
                if text("name").contains('/') {
                    continue;
                }
                let verbs = one["verbs"].as_array().unwrap();
                if verbs.contains(&json!("create")) {
                    server.kinds.insert(text("kind"));
                }
                let is_namespaced = one["namespaced"] == true;
                let resource = Resource { plural: text("name"), is_namespaced };
                server.resources.insert((version.clone(), text("kind")), resource);
            }
        }
        server
    }

    /// The kinds of which clients can create objects.
    pub fn kinds_to_create(&self) -> impl Iterator<Item = &String> {
        self.kinds.iter()
    }

    async fn get(&self, path: &str) -> Value {
        let request = Request::get(path).body(Vec::new()).unwrap();
        self.client.request(request).await.unwrap()
    }

    /// The verdicts, in the order of the objects.
    pub async fn dry_runs(self: Arc<Self>, objects: Vec<Value>) -> Vec<Verdict> {
        let judge = |object: Value| {
            let server = self.clone();
            async move { server.dry_run(&object).await }
        };
        futures::stream::iter(objects).map(judge).buffered(CONCURRENT).collect().await
    }

    async fn dry_run(&self, object: &Value) -> Verdict {
        self.create(object, "&dryRun=All").await
    }

    /// The verdict of a real creation. Dry runs leave out what storage and allocators check.
    pub async fn creation(&self, object: &Value) -> Verdict {
        let verdict = self.create(object, "").await;
        if let Verdict::Refused(_) = verdict {
            return verdict;
        }
        self.delete(object).await;
        for made in made_by_controllers(object) {
            let verdict = self.dry_run(&made).await;
            if let Verdict::Refused(_) = verdict {
                return verdict;
            }
        }
        Verdict::Accepted
    }

    /// The path of the objects of a kind.
    fn path(&self, object: &Value) -> Result<String, Verdict> {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (version, kind) = (text("/apiVersion").to_owned(), text("/kind").to_owned());
        let Some(resource) = self.resources.get(&(version.clone(), kind.clone())) else {
            return Err(Verdict::Refused(format!("no matches for kind {kind:?} in {version:?}")));
        };
        let root = if version == "v1" { "/api/v1".into() } else { format!("/apis/{version}") };
        let namespace = if resource.is_namespaced { "/namespaces/default" } else { "" };
        Ok(format!("{root}{namespace}/{}", resource.plural))
    }

    async fn delete(&self, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        let path = format!("{}/{name}?gracePeriodSeconds=0", self.path(object).unwrap());
        let request = Request::delete(path).body(Vec::new()).unwrap();
        self.client.request::<Value>(request).await.unwrap();
    }

    async fn create(&self, object: &Value, options: &str) -> Verdict {
        let kind = &object["kind"];
        let path = match self.path(object) {
            Ok(path) => format!("{path}?fieldValidation=Strict&fieldManager=oracle{options}"),
            Err(verdict) => return verdict,
        };
        let request = Request::post(path)
            .header("content-type", "application/json")
            .body(object.to_string().into_bytes())
            .unwrap();
        match self.client.request::<Value>(request).await {
            Ok(_) => Verdict::Accepted,
            Err(kube::Error::Api(status)) => {
                // The storage says this with status 500.
                let has_version = status.message.starts_with("resourceVersion should not be set");
                let is_answer =
                    has_version || matches!(status.code, 400 | 403 | 404 | 409 | 413 | 415 | 422);
                assert!(is_answer, "{kind}: {status:?}");
                Verdict::Refused(status.message.clone())
            }
            Err(other) => panic!("{kind}: {other}"),
        }
    }
}

/// The objects that a StatefulSet becomes. The API server stores any template of them, and refuses
/// them when the controller creates them.
fn made_by_controllers(object: &Value) -> Vec<Value> {
    if object["kind"] != "StatefulSet" {
        return Vec::new();
    }
    let named = |template: &Value, kind: &str, name: &str| {
        let mut made = template.clone();
        made["apiVersion"] = json!("v1");
        made["kind"] = json!(kind);
        made["metadata"]["name"] = json!(name);
        made
    };
    let claims = object["spec"]["volumeClaimTemplates"].as_array().cloned().unwrap_or_default();
    let mut pod = named(&object["spec"]["template"], "Pod", "made-0");
    let mut volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    for claim in &claims {
        let source = json!({"claimName": "made-0"});
        let name = &claim["metadata"]["name"];
        volumes.push(json!({"name": name, "persistentVolumeClaim": source}));
    }
    if pod["spec"].is_object() && !volumes.is_empty() {
        pod["spec"]["volumes"] = json!(volumes);
    }
    let mut made: Vec<Value> =
        claims.iter().map(|claim| named(claim, "PersistentVolumeClaim", "made-0")).collect();
    made.push(pod);
    made
}
