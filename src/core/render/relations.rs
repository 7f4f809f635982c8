//! What the objects of a work look for in other objects: by labels, as a Service does, or by name.
//!
//! A spelling mistake there is valid for the API server. It shows only beside the other works of
//! the cluster, so a folder keeps what its objects look for and what they offer.

use std::collections::{BTreeMap, BTreeSet};

use gitwork_api::escape::pointer_token;
use serde_json::Value;

use crate::limits;
use crate::model::diagnostic::Span;
use crate::model::kinds::KindIndex;
use crate::model::manifest::{Identity, Manifest};
use crate::model::name::RepoPath;
use crate::model::value_path::value_at;
use crate::render::values::{Placeholder, Variable};

/// What the objects of a work folder look for, and what they offer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Relations {
    /// The objects that look for others.
    pub seekers: Vec<Seeker>,
    /// The pods of workloads.
    pub pods: Vec<Pods>,
    /// The namespaces with custom objects, which may have pods and Services. Empty for those of
    /// cluster-scoped ones.
    pub opaque: BTreeSet<String>,
    /// The variables in texts of a work without `substitute`.
    pub unreplaced: Vec<Unreplaced>,
    /// Some are left out.
    pub is_cut: bool,
}

/// Where something stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// From the source's path, or from the work folder once the folder is rendered.
    pub file: RepoPath,
    /// In the file.
    pub span: Span,
    /// A JSON pointer from the object.
    pub pointer: String,
}

/// An object that looks for others in its namespace.
#[derive(Debug, PartialEq, Eq)]
pub struct Seeker {
    /// `Service web`.
    pub object: String,
    /// Its namespace.
    pub namespace: String,
    /// What it looks for.
    pub sought: Sought,
    /// Where it says so.
    pub at: Place,
}

/// What an object looks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Sought {
    /// Pods with these labels.
    Pods(BTreeMap<String, String>),
    /// The object with this name, of the given kind.
    Object(Identity, String),
}

/// The pods of a workload.
#[derive(Debug, PartialEq, Eq)]
pub struct Pods {
    /// `Deployment web`.
    pub workload: String,
    /// Its namespace.
    pub namespace: String,
    /// Their labels.
    pub labels: BTreeMap<String, String>,
}

/// A variable that is not replaced.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreplaced {
    /// As it is written between `${` and `}`, without the default.
    pub variable: Variable,
    /// Where it stands.
    pub at: Place,
}

/// An object whose relations are read.
#[derive(Clone, Copy)]
pub struct RelatedObject<'a> {
    /// As it is applied.
    pub manifest: &'a Manifest,
    /// `Deployment web`.
    pub what: &'a str,
    /// Its kind is not built in.
    pub is_custom: bool,
    /// What is known of kinds.
    pub kinds: &'a KindIndex,
    /// The place of a field, by its JSON pointer from the object.
    pub span_of: &'a dyn Fn(&str) -> Span,
}

impl Relations {
    /// Adds what an object looks for and offers.
    pub fn add(&mut self, object: RelatedObject<'_>) {
        let RelatedObject { manifest, what, is_custom, .. } = object;
        let Manifest { identity, kind, object: value, .. } = manifest;
        let group = identity.group.as_str();
        if let Some(labels) = pod_labels(group, kind, value) {
            let (workload, namespace) = (what.to_owned(), identity.namespace.clone());
            let is_full = self.pods.len() >= limits::RELATIONS_MAX;
            self.is_cut |= is_full || labels.len() > limits::RELATED_LABELS_MAX;
            if !self.is_cut {
                self.pods.push(Pods { workload, namespace, labels });
            }
        } else if is_custom && self.opaque.len() < limits::RELATIONS_MAX {
            self.opaque.insert(identity.namespace.clone());
        }
        match (group, kind.as_str()) {
            ("", "Service")
                if value_at(value, "/spec/type").is_none_or(|of| of != "ExternalName") =>
            {
                self.seek_pods(object, "/spec/selector", value_at(value, "/spec/selector"));
            }
            ("policy", "PodDisruptionBudget") => {
                let has_expressions = value_at(value, "/spec/selector/matchExpressions").is_some();
                let labels = value_at(value, "/spec/selector/matchLabels");
                let labels = labels.filter(|_| !has_expressions);
                self.seek_pods(object, "/spec/selector/matchLabels", labels);
            }
            ("autoscaling", "HorizontalPodAutoscaler") => {
                let target = value_at(value, "/spec/scaleTargetRef");
                let text = |name| target.and_then(|one| one.get(name)).and_then(Value::as_str);
                if let [Some(version), Some(kind), Some(name)] =
                    ["apiVersion", "kind", "name"].map(text)
                {
                    let group = version.rsplit_once('/').map_or("", |(group, _)| group);
                    self.seek_object(object, "/spec/scaleTargetRef", (group, kind, name));
                }
            }
            ("networking.k8s.io", "Ingress") => self.seek_backends(object),
            _ => {}
        }
    }

    /// Adds the variables in the texts of an object whose work does not replace them. Left out are
    /// texts that may well be meant for another program: the data of a ConfigMap or Secret,
    /// commands, and texts of several lines.
    pub fn add_variables(&mut self, object: &Value, place_of: &dyn Fn(&str) -> Place) {
        let kind = object.get("kind").and_then(Value::as_str);
        let has_data = matches!(kind, Some("ConfigMap" | "Secret"));
        for (name, field) in object.as_object().into_iter().flatten() {
            if !has_data || !matches!(name.as_str(), "data" | "stringData" | "binaryData") {
                let mut at = format!("/{}", pointer_token(name));
                self.variables_below(field, &mut at, place_of);
            }
        }
    }

    fn variables_below(
        &mut self,
        value: &Value,
        at: &mut String,
        place_of: &dyn Fn(&str) -> Place,
    ) {
        let length = at.len();
        match value {
            Value::String(text) if text.contains("${") && !text.contains('\n') => {
                for inside in text.split("${").skip(1).filter_map(|rest| rest.split_once('}')) {
                    if let Some(found) = Placeholder::parse(inside.0) {
                        self.add_unreplaced(found.variable, || place_of(at));
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    at.push_str(&format!("/{index}"));
                    self.variables_below(item, at, place_of);
                    at.truncate(length);
                }
            }
            Value::Object(fields) => {
                let is_meant = |name: &str| !matches!(name, "command" | "args");
                for (name, field) in fields.iter().filter(|(name, _)| is_meant(name)) {
                    at.push('/');
                    at.push_str(&pointer_token(name));
                    self.variables_below(field, at, place_of);
                    at.truncate(length);
                }
            }
            _ => {}
        }
    }

    /// Keeps the first place of each variable.
    fn add_unreplaced(&mut self, variable: Variable, place: impl FnOnce() -> Place) {
        let is_known = self.unreplaced.iter().any(|one| one.variable == variable);
        if !is_known && self.unreplaced.len() < limits::UNREPLACED_MAX {
            self.unreplaced.push(Unreplaced { variable, at: place() });
        }
    }

    fn seek_pods(&mut self, object: RelatedObject<'_>, pointer: &str, labels: Option<&Value>) {
        let Some(labels) = labels.and_then(labels_of).filter(|labels| !labels.is_empty()) else {
            return;
        };
        if labels.len() <= limits::RELATED_LABELS_MAX {
            self.seek(object, pointer.to_owned(), Sought::Pods(labels));
        }
    }

    fn seek_object(
        &mut self,
        object: RelatedObject<'_>,
        pointer: &str,
        (group, kind, name): (&str, &str, &str),
    ) {
        if [group, kind, name].iter().any(|text| text.len() > limits::RELATED_TEXT_BYTES_MAX) {
            return;
        }
        let resource = object.kinds.lookup(group, kind).resource().to_owned();
        let namespace = object.manifest.identity.namespace.clone();
        let (group, name) = (group.to_owned(), name.to_owned());
        let identity = Identity { group, resource, namespace, name };
        self.seek(object, pointer.to_owned(), Sought::Object(identity, kind.to_owned()));
    }

    /// The Services to which an Ingress sends requests.
    fn seek_backends(&mut self, object: RelatedObject<'_>) {
        let value = &object.manifest.object;
        let mut backends = Vec::new();
        let name = |backend: &Value| {
            backend.pointer("/service/name").and_then(Value::as_str).map(str::to_owned)
        };
        let default = value_at(value, "/spec/defaultBackend");
        backends.extend(default.and_then(name).map(|name| ("/spec/defaultBackend".into(), name)));
        for (rule, item) in items(value_at(value, "/spec/rules")).enumerate() {
            for (path, item) in items(item.pointer("/http/paths")).enumerate() {
                let at = format!("/spec/rules/{rule}/http/paths/{path}/backend");
                backends.extend(item.get("backend").and_then(name).map(|name| (at, name)));
            }
        }
        let mut seen = BTreeSet::new();
        for (at, name) in backends {
            if seen.insert(name.clone()) {
                let at = format!("{at}/service/name");
                self.seek_object(object, &at, ("", "Service", &name));
            }
        }
    }

    fn seek(&mut self, object: RelatedObject<'_>, pointer: String, sought: Sought) {
        if self.seekers.len() >= limits::RELATIONS_MAX {
            self.is_cut = true;
            return;
        }
        let Manifest { identity, origin, .. } = object.manifest;
        let (file, span) = (origin.file.clone(), (object.span_of)(&pointer));
        let at = Place { file, span, pointer };
        let (object, namespace) = (object.what.to_owned(), identity.namespace.clone());
        self.seekers.push(Seeker { object, namespace, sought, at });
    }

    /// Adds those of another file.
    pub fn extend(&mut self, other: Self) {
        self.seekers.extend(other.seekers);
        self.pods.extend(other.pods);
        self.opaque.extend(other.opaque);
        for one in other.unreplaced {
            self.add_unreplaced(one.variable, || one.at);
        }
        let count = self.seekers.len().max(self.pods.len());
        self.is_cut |= other.is_cut || count > limits::RELATIONS_MAX;
        if self.is_cut {
            self.seekers.clear();
            self.pods.clear();
        }
    }

    /// Makes the places relative to the work folder: equal folders have equal relations.
    pub fn locate_from(&mut self, folder: &RepoPath) {
        let seekers = self.seekers.iter_mut().map(|one| &mut one.at);
        let unreplaced = self.unreplaced.iter_mut().map(|one| &mut one.at);
        seekers.chain(unreplaced).for_each(|at| at.file = at.file.relative_to(folder));
    }

    /// Whether there is nothing to compare with other works.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The bytes that they hold in memory.
    pub fn bytes(&self) -> usize {
        const EACH: usize = 160;
        let labels = |all: &BTreeMap<String, String>| -> usize {
            all.iter().map(|(key, value)| EACH + key.len() + value.len()).sum()
        };
        let place = |at: &Place| at.file.as_str().len() + at.pointer.len();
        let seeker = |one: &Seeker| {
            let sought = match &one.sought {
                Sought::Pods(wanted) => labels(wanted),
                Sought::Object(identity, kind) => identity.name.len() + kind.len(),
            };
            EACH + one.object.len() + 2 * one.namespace.len() + place(&one.at) + sought
        };
        let pods =
            |one: &Pods| EACH + one.workload.len() + one.namespace.len() + labels(&one.labels);
        let opaque = |one: &String| EACH + one.len();
        self.seekers.iter().map(seeker).sum::<usize>()
            + self.pods.iter().map(pods).sum::<usize>()
            + self.opaque.iter().map(opaque).sum::<usize>()
            + self.unreplaced.iter().map(|one| EACH + place(&one.at)).sum::<usize>()
    }
}

fn items(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_array).into_iter().flatten()
}

/// Labels that are all text.
fn labels_of(value: &Value) -> Option<BTreeMap<String, String>> {
    let fields = value.as_object()?;
    // Kubernetes allows no longer ones.
    let is_short = |text: &str| text.len() <= limits::RELATED_TEXT_BYTES_MAX;
    let pair = |(key, value): (&String, &Value)| {
        let value = value.as_str().filter(|value| is_short(value) && is_short(key))?;
        Some((key.clone(), value.to_owned()))
    };
    fields.iter().map(pair).collect()
}

/// The labels of the pods that an object makes, or is; `None` if it makes none.
fn pod_labels(group: &str, kind: &str, object: &Value) -> Option<BTreeMap<String, String>> {
    let at = match (group, kind) {
        ("", "Pod") => "/metadata/labels",
        ("", "PodTemplate") => "/template/metadata/labels",
        ("", "ReplicationController")
        | ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("batch", "Job") => "/spec/template/metadata/labels",
        ("batch", "CronJob") => "/spec/jobTemplate/spec/template/metadata/labels",
        _ => return None,
    };
    Some(value_at(object, at).and_then(labels_of).unwrap_or_default())
}
