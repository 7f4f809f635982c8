//! One effect as the request that it asks for. Pure, so that every hub sends the same.
//!
//! Each request carries its precondition: a create fails where the name is taken; the others carry
//! the resourceVersion that the plan was made from, and the API server answers 409 where the work
//! has changed since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gitwork_api::escape::pointer_token;
use serde_json::{Map, Value, json};

use crate::model::defaults::TEMPLATE;
use crate::model::name::{CommitId, WorkKey};
use crate::model::spec_text::SpecText;
use crate::model::work::{
    ANNOTATION_ADOPT, ANNOTATION_COMMIT, ANNOTATION_CREATED_DURING_HOLD, ANNOTATION_GROUP_CONTENT,
    ANNOTATION_HASH, DeletionPolicy, LABEL_SOURCE, OWN_ANNOTATIONS, OWN_LABELS, WorkBody,
    WorkMetadata,
};
use crate::plan::effect::{Effect, MetadataChange};

/// What to send. No `Debug`: manifests may hold secrets.
#[derive(Clone, PartialEq)]
pub enum Request {
    /// POST of this object.
    Create(WithSpec),
    /// PATCH, RFC 6902, `application/json-patch+json`.
    JsonPatch(WithSpec),
    /// PATCH, RFC 7386, `application/merge-patch+json`.
    MergePatch(Value),
    /// DELETE with these as `DeleteOptions.preconditions`.
    Delete {
        /// `preconditions.uid`.
        uid: Arc<str>,
        /// `preconditions.resourceVersion`.
        resource_version: Box<str>,
    },
}

/// An object or a JSON Patch with the spec of a work. To be sent, none of it is parsed.
#[derive(Clone, PartialEq)]
pub struct WithSpec {
    /// The object without its spec, or the other operations, in JSON.
    rest: String,
    spec: SpecText,
}

impl WithSpec {
    /// The JSON text.
    pub fn text(&self) -> String {
        // There is always another field or operation.
        let (rest, before, end) = match self.rest.strip_suffix(']') {
            Some(rest) => (rest, r#",{"op":"add","path":"/spec","value":"#, "}]"),
            None => (self.rest.strip_suffix('}').unwrap_or_default(), r#","spec":"#, "}"),
        };
        [rest, before, &self.spec.text(), end].concat()
    }

    /// The parsed JSON.
    pub fn into_value(self) -> Value {
        let spec = self.spec.value();
        match serde_json::from_str(&self.rest).unwrap_or_default() {
            Value::Array(mut operations) => {
                operations.push(json!({"op": "add", "path": "/spec", "value": spec}));
                Value::Array(operations)
            }
            mut object => {
                object["spec"] = spec;
                object
            }
        }
    }
}

/// What to send for an effect. Finalizers, owner references, status, foreign labels and annotations
/// stay as they are. `commit` is kept on the work as the one that last changed it.
pub fn request(key: &WorkKey, effect: &Effect, commit: Option<CommitId>) -> Request {
    match effect {
        Effect::Create { body } => Request::Create(WithSpec {
            rest: serde_json::to_string(&body.without_spec(key, commit)).unwrap_or_default(),
            spec: body.spec.clone(),
        }),
        Effect::Update { body, resource_version, metadata }
        | Effect::Adopt { body, resource_version, metadata } => {
            Request::JsonPatch(rewrite(body, resource_version, metadata, commit))
        }
        Effect::SetDeleteOption { delete_option, resource_version } => {
            let mut patch = set_delete_option(delete_option, resource_version);
            if let (true, Some(spec)) = (key.is_replica_set(), patch.get_mut("spec")) {
                *spec = json!({ TEMPLATE: spec.take() });
            }
            Request::MergePatch(patch)
        }
        Effect::Release { resource_version } => {
            let mut patch = release(resource_version);
            if key.is_replica_set() {
                patch["metadata"]["annotations"][LABEL_SOURCE] = Value::Null;
            }
            Request::MergePatch(patch)
        }
        Effect::Delete { uid, resource_version } => {
            Request::Delete { uid: uid.clone(), resource_version: resource_version.clone() }
        }
    }
}

/// Replaces the spec and our labels and annotations. A JSON Patch, because a merge patch leaves
/// every field of the spec that it does not name.
fn rewrite(
    body: &WorkBody,
    resource_version: &str,
    metadata: &MetadataChange,
    commit: Option<CommitId>,
) -> WithSpec {
    let WorkMetadata { labels, mut annotations } = body.metadata();
    annotations.insert(ANNOTATION_HASH.into(), body.digest.to_string());
    let mut remove_annotations = metadata.remove_annotations.clone();
    match commit {
        Some(commit) => {
            annotations.insert(ANNOTATION_COMMIT.into(), commit.to_string());
        }
        None => {
            remove_annotations.insert(ANNOTATION_COMMIT.into());
        }
    }
    let mut operations = vec![
        json!({"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version}),
    ];
    let labels = Keys {
        pointer: "/metadata/labels",
        absent: metadata.labels_absent,
        set: &labels,
        remove: &metadata.remove_labels,
    };
    let annotations = Keys {
        pointer: "/metadata/annotations",
        absent: metadata.annotations_absent,
        set: &annotations,
        remove: &remove_annotations,
    };
    labels.write(&mut operations);
    annotations.write(&mut operations);
    WithSpec { rest: Value::Array(operations).to_string(), spec: body.spec.clone() }
}

/// A change of single keys in one map of the metadata.
struct Keys<'a> {
    pointer: &'static str,
    absent: bool,
    set: &'a BTreeMap<String, String>,
    remove: &'a BTreeSet<String>,
}

impl Keys<'_> {
    fn write(&self, operations: &mut Vec<Value>) {
        if self.absent {
            operations.push(json!({"op": "add", "path": self.pointer, "value": {}}));
        }
        for (key, value) in self.set {
            let path = self.path(key);
            operations.push(json!({"op": "add", "path": path, "value": value}));
        }
        for key in self.remove.iter().filter(|key| !self.set.contains_key(*key)) {
            let path = self.path(key);
            // `remove` fails on a key that is not there, which would pass for a refusal; after
            // `add` it is there.
            operations.push(json!({"op": "add", "path": path, "value": ""}));
            operations.push(json!({"op": "remove", "path": path}));
        }
    }

    /// The key's JSON Pointer (RFC 6901).
    fn path(&self, key: &str) -> String {
        format!("{}/{}", self.pointer, pointer_token(key))
    }
}

/// Touches nothing but the deleteOption's policy: its TTL and the rest of the spec stay as they
/// are.
fn set_delete_option(delete_option: &DeletionPolicy, resource_version: &str) -> Value {
    let mut fields = delete_option.to_value(None);
    if let Value::Object(fields) = &mut fields {
        // A merge patch drops what it sets to null.
        fields.entry("selectivelyOrphans").or_insert(Value::Null);
    }
    json!({
        "metadata": { "resourceVersion": resource_version },
        "spec": { "deleteOption": fields },
    })
}

/// Takes gitwork's own marks off. Labels and annotations that the user set through Git are content,
/// and stay.
fn release(resource_version: &str) -> Value {
    let none = |keys: &[&str]| -> Map<String, Value> {
        keys.iter().map(|key| ((*key).to_owned(), Value::Null)).collect()
    };
    let mut annotations = none(&OWN_ANNOTATIONS);
    annotations.extend(none(&[
        ANNOTATION_ADOPT,
        ANNOTATION_COMMIT,
        ANNOTATION_HASH,
        ANNOTATION_CREATED_DURING_HOLD,
        ANNOTATION_GROUP_CONTENT,
    ]));
    json!({
        "metadata": {
            "resourceVersion": resource_version,
            "labels": none(&OWN_LABELS),
            "annotations": annotations,
        },
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::name::{ClusterName, ObjectId, RepoPath, SourceId, WorkName};

    fn sent(effect: &Effect, commit: Option<CommitId>) -> Value {
        let key = WorkKey {
            cluster: ClusterName::parse("edge-1").unwrap(),
            work: WorkName::parse("web").unwrap(),
        };
        match request(&key, effect, commit) {
            Request::Create(content) | Request::JsonPatch(content) => {
                let text: Value = serde_json::from_str(&content.text()).unwrap();
                assert_eq!(text, content.clone().into_value());
                text
            }
            Request::MergePatch(value) => value,
            Request::Delete { uid, resource_version } => json!([&*uid, resource_version]),
        }
    }

    fn body() -> Arc<WorkBody> {
        let (source, path) = (SourceId::parse("fleet").unwrap(), RepoPath::parse("p").unwrap());
        let none = BTreeMap::new();
        Arc::new(WorkBody::new(&source, &path, json!({"a": 1}), none.clone(), none, true))
    }

    #[test]
    fn a_rewrite_carries_its_precondition_and_touches_single_keys() {
        let body = body();
        let metadata = MetadataChange {
            remove_labels: ["x.io/a~b".to_owned()].into(),
            annotations_absent: true,
            ..MetadataChange::default()
        };
        let hash = body.digest.to_string();
        let effect =
            Effect::Update { body, resource_version: "7".into(), metadata: metadata.into() };
        let commit = ObjectId([1; 20]);
        let annotation = |key: &str, value: &str| {
            let path = format!("/metadata/annotations/gitwork.dev~1{key}");
            json!({"op": "add", "path": path, "value": value})
        };
        let managed_by = "/metadata/labels/app.kubernetes.io~1managed-by";
        assert_eq!(
            sent(&effect, Some(commit)),
            json!([
                {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "add", "path": managed_by, "value": "gitwork"},
                {"op": "add", "path": "/metadata/labels/gitwork.dev~1source", "value": "fleet"},
                {"op": "add", "path": "/metadata/labels/x.io~1a~0b", "value": ""},
                {"op": "remove", "path": "/metadata/labels/x.io~1a~0b"},
                {"op": "add", "path": "/metadata/annotations", "value": {}},
                annotation("commit", &commit.to_string()),
                annotation("content-hash", &hash),
                annotation("path", "p"),
                {"op": "add", "path": "/spec", "value": {"a": 1}},
            ])
        );
    }

    #[test]
    fn a_work_without_commit_keeps_no_old_one() {
        let metadata = MetadataChange::default();
        let effect = Effect::Update {
            body: body(),
            resource_version: "7".into(),
            metadata: metadata.into(),
        };
        let operations = sent(&effect, None).to_string();
        assert!(
            operations
                .contains(r#"{"op":"remove","path":"/metadata/annotations/gitwork.dev~1commit"}"#),
            "{operations}"
        );
    }

    #[test]
    fn a_delete_option_is_merged_into_the_one_that_is_there() {
        let resource_version = || "7".into();
        let effect = Effect::SetDeleteOption {
            delete_option: DeletionPolicy::Foreground,
            resource_version: resource_version(),
        };
        assert_eq!(
            sent(&effect, None),
            json!({
                "metadata": {"resourceVersion": "7"},
                "spec": {"deleteOption": {
                    "propagationPolicy": "Foreground", "selectivelyOrphans": null,
                }},
            })
        );
        let effect = Effect::Delete { uid: "u".into(), resource_version: resource_version() };
        assert_eq!(sent(&effect, None), json!(["u", "7"]));
    }
}
