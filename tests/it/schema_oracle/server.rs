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
        if matches!(verdict, Verdict::Accepted) {
            self.delete(object).await;
        }
        verdict
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
                let is_answer = matches!(status.code, 400 | 403 | 404 | 409 | 413 | 415 | 422);
                assert!(is_answer, "{kind}: {status:?}");
                Verdict::Refused(status.message.clone())
            }
            Err(other) => panic!("{kind}: {other}"),
        }
    }
}
