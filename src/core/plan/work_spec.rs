//! The spec of a ManifestWork, read once for all questions about its objects.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::limits;
use crate::model::defaults::TEMPLATE;
use crate::model::kinds;
use crate::model::manifest::Identity;
use crate::model::object_digest::ObjectDigest;
use crate::model::work::DeletionPolicy;
use crate::plan::update_strategies::UpdateStrategies;
use crate::render::work_folder::wire_size;

/// The objects of a work, with what decides who owns them.
#[derive(Debug, Clone, Default)]
pub struct WorkSpec {
    manifests: BTreeMap<ObjectDigest, Value>,
    strategies: UpdateStrategies,
    delete_option: DeletionPolicy,
}

/// How the agent writes an object that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentWrite {
    /// With the update strategy `Update`.
    Update,
    /// With `ServerSideApply`.
    Apply,
}

impl WorkSpec {
    /// Reads `spec` of a ManifestWork, or the template of a ManifestWorkReplicaSet.
    pub fn of(mut spec: Value) -> Self {
        if let Some(template) = spec.get_mut(TEMPLATE) {
            spec = template.take();
        }
        let strategies = UpdateStrategies::of(&spec);
        let option = spec.get("deleteOption").unwrap_or(&Value::Null);
        let delete_option = DeletionPolicy::from_value(option);
        let manifests = match spec.pointer_mut("/workload/manifests").map(Value::take) {
            Some(Value::Array(manifests)) => manifests,
            _ => Vec::new(),
        };
        let named = manifests.into_iter().filter_map(|manifest| {
            let digest = ObjectDigest::of_manifest(&manifest)?;
            Some((digest, manifest))
        });
        Self { manifests: named.collect(), strategies, delete_option }
    }

    /// The manifest of an object.
    pub fn manifest(&self, object: ObjectDigest) -> Option<&Value> {
        self.manifests.get(&object)
    }

    /// The name of an object whose kind has this plural.
    pub fn identity(&self, object: ObjectDigest, resource: &str) -> Option<Identity> {
        Some(Identity::of_manifest(self.manifest(object)?, resource))
    }

    /// The type of the object's update strategy.
    pub fn update_strategy(&self, object: &Identity) -> Option<&str> {
        self.strategies.of_object(object)
    }

    /// How the agent writes the object; `None` if it does not change an object that exists.
    pub fn agent_write(&self, object: &Identity) -> Option<AgentWrite> {
        match self.update_strategy(object) {
            None | Some("Update") => Some(AgentWrite::Update),
            Some("ServerSideApply") => Some(AgentWrite::Apply),
            Some(_) => None,
        }
    }

    /// The entries of `ignoreFields` for the object: its agent leaves these fields as they are on
    /// the cluster.
    pub fn ignored_fields(&self, object: &Identity) -> &[Value] {
        self.strategies.ignored_fields(object)
    }

    /// Whether the agent only reads the object.
    pub(crate) fn is_read_only(&self, object: &Identity) -> bool {
        self.strategies.is_read_only(object)
    }

    /// Whether the work does not own the object if it lists it: its agent orphans the object or
    /// only reads it (OCM work agent, owner references).
    pub fn disowns(&self, object: &Identity) -> bool {
        self.delete_option.orphans(object) || self.strategies.is_read_only(object)
    }

    /// Whether the work may not own the object if it lists it. The plural of its kind can be
    /// unknown, so a rule with any plural counts.
    pub(crate) fn may_disown(&self, object: ObjectDigest) -> bool {
        let Some(manifest) = self.manifest(object) else { return false };
        let identity = kinds::guessed_identity(manifest);
        let is_same = |rule: &Identity| {
            (&rule.group, &rule.namespace, &rule.name)
                == (&identity.group, &identity.namespace, &identity.name)
        };
        let has_rule = match &self.delete_option {
            DeletionPolicy::SelectivelyOrphan(rules) => rules.iter().any(is_same),
            DeletionPolicy::Foreground | DeletionPolicy::Orphan => false,
        };
        has_rule || self.disowns(&identity)
    }

    /// Whether the hub would reject the work with these objects of another one, for its size.
    pub fn is_too_large_with<'a>(&self, kept: impl Iterator<Item = &'a Value>) -> bool {
        let own: usize = self.manifests.values().map(wire_size).sum();
        own + kept.map(wire_size).sum::<usize>() > limits::WORK_BYTES_MAX
    }
}
