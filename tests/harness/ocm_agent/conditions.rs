//! Conditions of works and manifests, as `meta.SetStatusCondition` sets them, and the list of
//! manifests in a work's status.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::json::{list, text};

/// A condition to set.
pub struct Condition<'a> {
    pub kind: &'a str,
    pub status: &'a str,
    pub reason: &'a str,
    pub message: String,
    pub generation: Option<i64>,
}

/// Sets a condition in its place. Its transition time changes with its status only.
pub fn set(conditions: &mut Vec<Value>, new: &Condition<'_>, now: Timestamp) {
    let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let mut condition = json!({"type": new.kind, "status": new.status, "reason": new.reason,
        "message": new.message, "lastTransitionTime": second.to_string()});
    if let Some(generation) = new.generation {
        condition["observedGeneration"] = generation.into();
    }
    match conditions.iter_mut().find(|one| one["type"] == new.kind) {
        Some(old) => {
            if old["status"] == condition["status"] {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
}

/// Sets a condition of the work itself.
pub fn set_of_work(work: &mut Value, new: &Condition<'_>, now: Timestamp) {
    let mut conditions = list(work, "/status/conditions").to_vec();
    set(&mut conditions, new, now);
    work["status"]["conditions"] = conditions.into();
}

pub fn find<'a>(conditions: &'a [Value], kind: &str) -> Option<&'a Value> {
    conditions.iter().find(|condition| condition["type"] == kind)
}

pub fn is_true(conditions: &[Value], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition["status"] == "True")
}

pub fn generation(work: &Value) -> i64 {
    work["metadata"]["generation"].as_i64().unwrap_or_default()
}

/// The entries of `status.resourceStatus.manifests`.
pub fn manifests(work: &Value) -> &[Value] {
    list(work, "/status/resourceStatus/manifests")
}

const IDENTITY: [&str; 6] = ["group", "version", "kind", "resource", "name", "namespace"];

/// Whether two `resourceMeta` are of one resource. The ordinal does not count.
pub fn is_same_resource(one: &Value, other: &Value) -> bool {
    IDENTITY
        .iter()
        .all(|field| text(one, &format!("/{field}")) == text(other, &format!("/{field}")))
}

/// Whether the manifest of a resource is complete: it is not applied any more.
pub fn is_complete(work: &Value, meta: &Value) -> bool {
    let entry = manifests(work).iter().find(|old| is_same_resource(&old["resourceMeta"], meta));
    entry.is_some_and(|entry| is_true(list(entry, "/conditions"), "Complete"))
}

/// The entry of one manifest after it was applied: an earlier entry keeps its feedback and its
/// other conditions. `Applied` of another generation is removed and appended again. Go writes the
/// struct of the feedback also if it is empty.
pub fn merged_entry(old: &[Value], meta: &Value, new: &Condition<'_>, now: Timestamp) -> Value {
    let equal = old.iter().find(|entry| entry["resourceMeta"] == *meta);
    let mut same = old.iter().filter(|entry| is_same_resource(&entry["resourceMeta"], meta));
    let unique = match (same.next(), same.next()) {
        (Some(entry), None) => Some(entry),
        _ => None,
    };
    let earlier = equal.or(unique);
    let mut entry = earlier.cloned().unwrap_or_else(|| json!({"statusFeedback": {}}));
    let mut conditions = list(&entry, "/conditions").to_vec();
    let is_outdated = |one: &Value| {
        one["type"] == new.kind && one["observedGeneration"].as_i64() != new.generation
    };
    conditions.retain(|one| !is_outdated(one));
    set(&mut conditions, new, now);
    entry["resourceMeta"] = meta.clone();
    entry["conditions"] = conditions.into();
    entry
}
