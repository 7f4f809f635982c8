//! When a work that is complete is deleted: `deleteOption.ttlSecondsAfterFinished`.

use gitwork_core::model::name::ClusterName;
use gitwork_core::model::work::LABEL_SOURCE;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::names::LABEL_OWNER;
use crate::set_work::condition;

/// A ManifestWork that is deleted at some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedWork {
    /// The cluster, which is its namespace.
    pub cluster: ClusterName,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// When.
    pub delete_at: Timestamp,
}

impl CompletedWork {
    /// Reads a ManifestWork; `None` if it is not deleted when it is complete, or is not complete.
    /// Works of a replica set stay, as the set would create them again; so do works of a gitwork
    /// source, as Git would.
    pub fn read(object: &Value) -> Option<Self> {
        let metadata = object.get("metadata")?;
        let text = |name: &str| metadata.get(name).and_then(Value::as_str);
        let has_label = |key| metadata.get("labels").and_then(|all| all.get(key)).is_some();
        if has_label(LABEL_OWNER) || has_label(LABEL_SOURCE) || text("deletionTimestamp").is_some()
        {
            return None;
        }
        let ttl = object.pointer("/spec/deleteOption/ttlSecondsAfterFinished")?.as_i64()?;
        let complete = condition(object.get("status"), "Complete")?;
        let generation = metadata.get("generation").and_then(Value::as_i64);
        let is_current = generation == Some(complete.observed_generation);
        if complete.is_true != Some(true) || !is_current {
            return None;
        }
        let after = SignedDuration::from_secs(ttl.max(0));
        Some(Self {
            cluster: ClusterName::parse(text("namespace")?).ok()?,
            name: text("name")?.to_owned(),
            uid: text("uid")?.to_owned(),
            resource_version: text("resourceVersion")?.to_owned(),
            // A time past the end of the calendar never comes.
            delete_at: complete.since?.checked_add(after).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn work(ttl: &Value, status: &str, observed: i64, labels: &Value) -> Value {
        json!({
            "metadata": {"namespace": "c1", "name": "job", "uid": "u", "resourceVersion": "5",
                "generation": 2, "labels": labels},
            "spec": {"deleteOption": {"ttlSecondsAfterFinished": ttl}},
            "status": {"conditions": [{"type": "Complete", "status": status,
                "observedGeneration": observed, "lastTransitionTime": "2026-11-20T10:00:00Z"}]},
        })
    }

    #[test]
    fn only_complete_works_without_an_owner_expire() {
        let expiry = |work: &Value| CompletedWork::read(work).map(|one| one.delete_at.to_string());
        let none = &json!({});
        let minute = expiry(&work(&json!(60), "True", 2, none));
        assert_eq!(minute.as_deref(), Some("2026-11-20T10:01:00Z"));
        for ttl in [json!(0), json!(-5)] {
            let at_once = expiry(&work(&ttl, "True", 2, none));
            assert_eq!(at_once.as_deref(), Some("2026-11-20T10:00:00Z"), "{ttl}");
        }
        for kept in [
            work(&json!(60), "False", 2, none),
            work(&json!(60), "True", 1, none),
            work(&json!(null), "True", 2, none),
            work(&json!("60"), "True", 2, none),
            work(&json!(i64::MAX), "True", 2, none),
            work(&json!(60), "True", 2, &json!({LABEL_OWNER: "fleet.web"})),
            work(&json!(60), "True", 2, &json!({LABEL_SOURCE: "fleet"})),
        ] {
            assert_eq!(expiry(&kept), None, "{kept}");
        }
    }
}
