//! The status of a ManifestWorkReplicaSet, as that of one work for all its clusters.
//!
//! The conditions of its controller become those of a work:
//!
//! - `Applied` is True once all clusters have the template (`PlacementRolledOut`), or none is
//!   selected; False if the controller cannot find the clusters; Unknown until then.
//! - `Available`, `Degraded`: by the counts of `status.summary`.
//!
//! OCM's controller writes no `observedGeneration`. Its conditions count for the present
//! generation (OCM hub, A.8).

use serde_json::{Value, json};

use crate::model::work_state::{Conditions, text};

/// The finalizer of the controller: ManifestWorks may exist.
const FINALIZER: &str = "work.open-cluster-management.io/manifest-work-cleanup";

/// What `status.summary` counts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SetCounts {
    /// ManifestWorks there are.
    pub(super) total: u32,
    /// Those that are applied.
    pub(super) applied: u32,
    available: u32,
    degraded: u32,
}

impl SetCounts {
    /// Reads `status`.
    pub(super) fn of(status: &Value) -> Self {
        let count = |field: &str| {
            let found = status.pointer(&format!("/summary/{field}")).and_then(Value::as_u64);
            found.and_then(|count| u32::try_from(count).ok()).unwrap_or_default()
        };
        Self {
            total: count("total"),
            applied: count("applied"),
            available: count("available"),
            degraded: count("degraded"),
        }
    }
}

/// Whether the controller has seen the set, so that its ManifestWorks may exist.
pub(super) fn is_seen(metadata: &Value) -> bool {
    let finalizers = metadata.get("finalizers").and_then(Value::as_array);
    finalizers.into_iter().flatten().any(|one| one.as_str() == Some(FINALIZER))
}

/// The status of a work, from that of a set at this generation.
pub(super) fn work_status(status: &Value, generation: i64) -> Value {
    let conditions = Conditions::of(Some(status), None);
    let current = |kind: &str| {
        let found = conditions.get(kind)?;
        let observed = found.get("observedGeneration").and_then(Value::as_i64);
        observed.is_none_or(|observed| observed == generation).then_some(found)
    };
    let is = |found: Option<&Value>, field: &str, texts: &[&str]| {
        found.is_some_and(|found| texts.contains(&text(found, field).unwrap_or_default()))
    };
    let condition = |kind: &str, status: &str, from: &Value| {
        let mut made = json!({"type": kind, "status": status, "observedGeneration": generation});
        for field in ["reason", "message", "lastTransitionTime"] {
            made[field] = text(from, &format!("/{field}")).unwrap_or_default().into();
        }
        made
    };
    let [verified, rolled_out, applied] =
        ["PlacementVerified", "PlacementRolledOut", "ManifestworkApplied"].map(current);
    let lost = ["PlacementDecisionNotFound", "NotAsExpected"];
    let failed = [
        verified
            .filter(|one| is(Some(one), "/status", &["False"]) && is(Some(one), "/reason", &lost)),
        applied.filter(|one| is(Some(one), "/reason", &["InvalidManifestWorkName"])),
    ];
    if let Some(failed) = failed.into_iter().flatten().next() {
        return json!({"conditions": [condition("Applied", "False", failed)]});
    }
    let Some(rolled_out) = rolled_out else { return Value::Null };
    let is_empty = is(verified, "/reason", &["PlacementDecisionEmpty"]);
    if !is_empty && !is(Some(rolled_out), "/status", &["True"]) {
        return json!({"conditions": [condition("Applied", "Unknown", rolled_out)]});
    }
    let mut all =
        vec![condition("Applied", "True", verified.filter(|_| is_empty).unwrap_or(rolled_out))];
    let counts = SetCounts::of(status);
    if let Some(applied) = applied.filter(|_| !is_empty) {
        let is_available = counts.available >= counts.total;
        all.push(condition("Available", if is_available { "True" } else { "False" }, applied));
        all.extend((counts.degraded > 0).then(|| condition("Degraded", "True", applied)));
    }
    json!({ "conditions": all })
}
