//! The objects that move.

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

/// The label with which a test sees which content an object has.
pub const CONTENT: &str = "content";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    Volume,
    Namespace,
    Definition,
    Custom,
    Deployment,
    Service,
    ConfigMap,
}

impl Object {
    pub const ALL: [Self; 7] = [
        Self::Volume,
        Self::Namespace,
        Self::Definition,
        Self::Custom,
        Self::Deployment,
        Self::Service,
        Self::ConfigMap,
    ];

    fn kind(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Volume => ("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
            Self::Namespace => ("v1", "Namespace", "namespaces"),
            Self::Definition => {
                ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions")
            }
            Self::Custom => ("", "Toy", "toys"),
            Self::Deployment => ("apps/v1", "Deployment", "deployments"),
            Self::Service => ("v1", "Service", "services"),
            Self::ConfigMap => ("v1", "ConfigMap", "configmaps"),
        }
    }

    fn is_namespaced(self) -> bool {
        !matches!(self, Self::Namespace | Self::Definition)
    }
}

/// Where the objects of one test are.
#[derive(Debug, Clone)]
pub struct ObjectNames {
    pub namespace: String,
}

impl ObjectNames {
    /// The API group of the custom object.
    fn group(&self) -> String {
        format!("{}.example.com", self.namespace)
    }

    /// The namespace that moves.
    pub fn inner(&self) -> String {
        format!("{}-inner", self.namespace)
    }

    pub fn name(&self, object: Object) -> String {
        match object {
            Object::Namespace => self.inner(),
            Object::Definition => format!("toys.{}", self.group()),
            _ => "data".to_owned(),
        }
    }

    fn api_version(&self, object: Object) -> String {
        match object {
            Object::Custom => format!("{}/v1", self.group()),
            _ => object.kind().0.to_owned(),
        }
    }

    /// The object in Git.
    pub fn manifest(&self, object: Object, content: &str) -> Value {
        let mut manifest = match object {
            Object::Volume => json!({"spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            }}),
            Object::Namespace => json!({}),
            Object::Definition => self.definition(),
            Object::Custom => json!({"spec": {"content": content}}),
            Object::Deployment => json!({"spec": {
                "replicas": 0, "selector": {"matchLabels": {"app": "data"}},
                "template": {
                    "metadata": {"labels": {"app": "data"}, "annotations": {"content": content}},
                    "spec": {"containers": [{"name": "web", "image": "registry.example/web"}]},
                },
            }}),
            Object::Service => json!({"spec": {
                "selector": {"app": "data"}, "ports": [{"port": 80, "targetPort": 8080}],
            }}),
            Object::ConfigMap => json!({"data": {"content": content}}),
        };
        manifest["apiVersion"] = self.api_version(object).into();
        manifest["kind"] = object.kind().1.into();
        manifest["metadata"] = json!({"name": self.name(object), "labels": {CONTENT: content}});
        if object.is_namespaced() {
            manifest["metadata"]["namespace"] = self.namespace.clone().into();
        }
        manifest
    }

    fn definition(&self) -> Value {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"content": {"type": "string"}}},
        }});
        json!({"spec": {
            "group": self.group(), "scope": "Namespaced",
            "names": {"plural": "toys", "singular": "toy", "kind": "Toy", "listKind": "ToyList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}],
        }})
    }

    /// The API of the object on the cluster.
    pub fn api(&self, client: &Client, object: Object) -> Api<DynamicObject> {
        let (_, kind, plural) = object.kind();
        let api_version = self.api_version(object);
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let kind = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        if object.is_namespaced() {
            return Api::namespaced_with(client.clone(), &self.namespace, &resource);
        }
        Api::all_with(client.clone(), &resource)
    }
}
