//! Where an object is, as far as the deletion of a Namespace or a CustomResourceDefinition concerns
//! it.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::model::defaults::TEMPLATE;
use crate::model::digest::Digest;
use crate::model::kinds;
use crate::model::object_digest::ObjectDigest;
use crate::model::value_path::value_at;
use crate::model::work::DesiredWork;
use crate::plan::cascading_deletion::deletion::{EnclosingKind, EnclosingObject};

/// The place of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enclosed {
    /// Empty for an object of the cluster.
    pub namespace: String,
    /// API group; empty for the core group.
    pub group: String,
    /// The kind, as in `Deployment`.
    pub kind: String,
    /// The plural of the kind.
    pub resource: String,
}

impl Enclosed {
    fn of(manifest: &Value, work: &DesiredWork) -> Self {
        let named = ObjectDigest::of_manifest(manifest).and_then(|digest| work.object(digest));
        let identity = kinds::guessed_identity(manifest);
        let kind = value_at(manifest, "/kind").and_then(Value::as_str).unwrap_or_default();
        Self {
            namespace: identity.namespace,
            group: identity.group,
            kind: kind.to_owned(),
            resource: named.map_or(identity.resource, |named| named.resource.to_string()),
        }
    }

    /// The objects that enclose it.
    pub(super) fn enclosing(&self) -> impl Iterator<Item = EnclosingObject> {
        let namespace = EnclosingObject::of("", "Namespace", &self.namespace);
        let namespace = namespace.filter(|_| !self.namespace.is_empty());
        let custom = (!self.group.is_empty()).then(|| EnclosingObject {
            kind: EnclosingKind::CustomResourceDefinition,
            name: format!("{}.{}", self.resource, self.group),
        });
        namespace.into_iter().chain(custom)
    }
}

/// The objects of works. Equal works, as those of a group, are read once.
#[derive(Debug, Default)]
pub struct EnclosedObjects {
    works: HashMap<Digest, Arc<[Enclosed]>>,
}

impl EnclosedObjects {
    /// The objects of a work.
    pub fn of(&mut self, work: &DesiredWork) -> Arc<[Enclosed]> {
        let read = || {
            let spec = work.body.spec.value();
            let template = spec.get(TEMPLATE).unwrap_or(&spec);
            let manifests = value_at(template, "/workload/manifests").and_then(Value::as_array);
            manifests.into_iter().flatten().map(|one| Enclosed::of(one, work)).collect()
        };
        self.works.entry(work.body.digest).or_insert_with(read).clone()
    }
}
