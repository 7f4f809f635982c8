//! The response to the creation of a ManifestWork, read without what its manifests contain.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::model::digest::Digest;
use crate::model::kinds;
use crate::model::manifest::Identity;
use crate::model::name::WorkKey;
use crate::model::object_digest::ObjectDigest;
use crate::model::work::{ANNOTATION_COMMIT, ANNOTATION_HASH, DeletionPolicy, WorkBody};
use crate::plan::observed::object::{ListedObject, Listing, sorted};
use crate::plan::observed::work::{
    MetadataFacts, ObservedKind, ObservedWork, SpecFacts, Texts, last_write,
};
use crate::plan::update_strategies::UpdateStrategies;

/// The response without its spec. One with any other field is read whole, as with a status, an
/// owner or a finalizer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CreatedWork<'a> {
    #[serde(rename = "apiVersion")]
    _api_version: IgnoredAny,
    kind: &'a str,
    #[serde(borrow)]
    metadata: CreatedMetadata<'a>,
}

/// Labels and annotations may have escapes in JSON, so they are not borrowed. One that has them in
/// another field is read whole.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CreatedMetadata<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    resource_version: &'a str,
    generation: i64,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    #[serde(rename = "creationTimestamp", default)]
    _creation_timestamp: IgnoredAny,
    #[serde(borrow, default)]
    managed_fields: Vec<ManagedFields<'a>>,
}

/// Which manager wrote when. Which fields it wrote takes the most bytes, and is not needed.
#[derive(Deserialize)]
struct ManagedFields<'a> {
    #[serde(borrow, default)]
    manager: Option<&'a str>,
    #[serde(default)]
    subresource: Option<IgnoredAny>,
    #[serde(borrow, default)]
    time: Option<&'a str>,
}

impl ObservedWork {
    /// Reads the response to the creation of a ManifestWork with this content. `None` if the API
    /// server stored anything else than what was sent, as where it added a default, or if there is
    /// a status or an owner already: the response has to be parsed then.
    pub fn from_created(text: &[u8], key: &WorkKey, body: &WorkBody) -> Option<Self> {
        let spec = body.spec.text();
        // The API server writes the fields in the order of their names.
        let text = text.trim_ascii_end().strip_suffix(b"}")?.strip_suffix(spec.as_bytes())?;
        let rest = [text.strip_suffix(br#","spec":"#)?, b"}"].concat();
        let created: CreatedWork<'_> = serde_json::from_slice(&rest).ok()?;
        let metadata = created.metadata_of(key, body)?;
        let of_spec = SpecFacts::of_created(&spec)?;
        let (null, kind) = (Value::Null, ObservedKind::ManifestWork);
        Some(Self::with_spec(metadata, &null, kind, of_spec, |_, _, _| body.digest))
    }
}

impl CreatedWork<'_> {
    /// `None` if it is not this work, or does not have the labels and annotations that were sent.
    fn metadata_of(&self, key: &WorkKey, body: &WorkBody) -> Option<MetadataFacts<'_>> {
        let metadata = &self.metadata;
        let is_same = self.kind == "ManifestWork"
            && metadata.name == key.work.as_str()
            && metadata.namespace == key.cluster.namespace()
            && metadata.is_sent(body);
        is_same.then(|| MetadataFacts {
            key: key.clone(),
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            generation: metadata.generation,
            labels: views(&metadata.labels),
            labels_absent: false,
            annotations: views(&metadata.annotations),
            annotations_absent: false,
            written_at: metadata.written_at(),
        })
    }
}

impl CreatedMetadata<'_> {
    fn is_sent(&self, body: &WorkBody) -> bool {
        let sent = body.metadata();
        let is_set = |(key, _): &(&String, &String)| {
            ![ANNOTATION_COMMIT, ANNOTATION_HASH].contains(&key.as_str())
        };
        let hash = self.annotations.get(ANNOTATION_HASH).and_then(|text| Digest::parse(text));
        hash == Some(body.digest)
            && self.labels == sent.labels
            && self.annotations.iter().filter(is_set).eq(&sent.annotations)
    }

    /// When gitwork wrote it, by the clock of the hub.
    fn written_at(&self) -> Option<Timestamp> {
        let entries = self.managed_fields.iter();
        last_write(entries.map(|entry| (entry.manager, entry.subresource.is_none(), entry.time)))
    }
}

fn views(texts: &BTreeMap<String, String>) -> Texts<'_> {
    texts.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// A spec without what its manifests contain: enough to know its objects, and how they are deleted
/// and updated.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecOutline<'a> {
    #[serde(default)]
    delete_option: Value,
    #[serde(default)]
    manifest_configs: Vec<Value>,
    #[serde(borrow)]
    workload: Workload<'a>,
}

#[derive(Deserialize)]
struct Workload<'a> {
    #[serde(borrow)]
    manifests: Vec<Manifest<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'a> {
    api_version: &'a str,
    kind: &'a str,
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    name: &'a str,
    #[serde(default)]
    namespace: &'a str,
}

impl Manifest<'_> {
    fn digest(&self) -> ObjectDigest {
        let Metadata { name, namespace } = self.metadata;
        ObjectDigest::of_names(self.api_version, self.kind, namespace, name)
    }

    fn identity(&self) -> Identity {
        let Metadata { name, namespace } = self.metadata;
        kinds::guessed_identity(&json!({
            "apiVersion": self.api_version, "kind": self.kind,
            "metadata": {"name": name, "namespace": namespace},
        }))
    }
}

impl SpecFacts {
    /// Of a work without status. `spec` is its spec in JSON. `None` if it is not as gitwork writes
    /// specs.
    fn of_created(spec: &str) -> Option<Self> {
        let outline: SpecOutline<'_> = serde_json::from_str(spec).ok()?;
        let delete_option = DeletionPolicy::from_value(&outline.delete_option);
        let strategies = UpdateStrategies::of_configs(&outline.manifest_configs);
        let listing = Listing { strategies: &strategies, delete_option: &delete_option };
        let manifests = &outline.workload.manifests;
        let read = |one: &Manifest<'_>| listing.unreported(one.digest(), || one.identity());
        let objects: Vec<ListedObject> = manifests.iter().map(read).collect();
        Some(Self { manifests: manifests.len(), delete_option, objects: sorted(objects) })
    }
}
