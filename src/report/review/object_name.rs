//! The name of an object, as people know it.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use gitwork_core::config::ocm_rules;
use gitwork_core::model::defaults::TEMPLATE;
use gitwork_core::model::kinds::KindIndex;
use gitwork_core::model::manifest::Identity;
use gitwork_core::model::object_digest::ObjectDigest;
use gitwork_core::model::work::DesiredWork;

/// The name of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct ObjectName {
    /// API group; empty for the core group.
    pub group: String,
    /// The kind, as in `Deployment`.
    pub kind: String,
    /// The namespace; empty for an object of the cluster.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl std::fmt::Display for ObjectName {
    /// Writes the name, as in `Deployment shop/web`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

impl ObjectName {
    /// The name of a manifest.
    pub(super) fn of(object: &Value) -> Self {
        let text = |pointer| {
            object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let api_version = text("/apiVersion");
        Self {
            group: api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned(),
            kind: text("/kind"),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
        }
    }

    /// The names of a work's objects.
    pub(super) fn all_of(work: &DesiredWork) -> Vec<Self> {
        let spec = work.body.spec.value();
        let template = spec.get(TEMPLATE).unwrap_or(&spec);
        let manifests = template.pointer("/workload/manifests").and_then(Value::as_array);
        manifests.into_iter().flatten().map(Self::of).collect()
    }

    /// What identifies the object.
    pub(super) fn digest(&self) -> ObjectDigest {
        let Self { group, kind, namespace, name } = self;
        ObjectDigest::new(group, kind, namespace, name)
    }

    /// Whether a rule matches this object. The plural of a custom kind is unknown here and not
    /// compared.
    pub(super) fn is_meant_by(&self, rule: &Identity) -> bool {
        let plural = KindIndex::built_in(&self.group, &self.kind);
        let plural_fits = plural.is_none_or(|plural| plural == rule.resource);
        plural_fits
            && self.group == rule.group
            && ocm_rules::wildcard(&rule.namespace, &self.namespace)
            && ocm_rules::wildcard(&rule.name, &self.name)
    }
}
