//! The pure part of the agent: `(work, applied work, live objects, now) -> steps and status`.
//!
//! The rules of [`gitwork_core`] hold here too: no IO, no clock, no randomness.
//!
//! ```
//! use gitwork_agent_core::apply::{ApplyStep, DesiredObject, LiveObject, next_step};
//! use serde_json::json;
//!
//! let manifest = json!({
//!     "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "b" },
//! });
//! let owner = json!({ "kind": "AppliedManifestWork", "name": "hub-web", "uid": "1" });
//! let wanted = DesiredObject {
//!     manifest: manifest.as_object().unwrap(),
//!     strategy: None,
//!     owner: &owner,
//!     content_unchanged: false,
//! };
//! let step = next_step(&wanted, LiveObject::Absent).unwrap();
//! assert!(matches!(step, ApplyStep::Create(_)));
//! ```

pub mod applied_resources;
pub mod apply;
pub mod concurrency;
pub mod condition;
pub mod condition_rules;
pub mod drift_backoff;
pub mod eviction;
pub mod feedback;
pub mod identity;
pub mod ignore;
pub mod manifest;
pub mod object;
pub mod owner;
pub mod spec_hash;
pub mod status;
pub mod update;
mod update_rule;
pub mod work;

use gitwork_api::secret;
use serde_json::Value;

use self::feedback::{FeedbackObject, RawJsonFeedback};
use self::object::Object;
use self::status::Observation;
use self::work::ManifestOptions;

/// What a status on the hub may say about objects of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportSettings {
    /// Raw JSON in feedback values.
    pub raw: RawJsonFeedback,
    /// Whether feedback values and condition rules may use the values of Secrets.
    pub secret_values: bool,
}

/// Reads off one live object all that its work's status needs. Unless the settings allow more,
/// rules see [`secret::HIDDEN`] in place of the values of Secrets: also a condition that compares
/// them would tell them bit by bit.
pub fn observe(live: &Object, options: &ManifestOptions, settings: ReportSettings) -> Observation {
    let redacted = if settings.secret_values { None } else { secret::redacted(live) };
    let is_redacted = redacted.is_some();
    let value = Value::Object(redacted.unwrap_or_else(|| live.clone()));
    let object = FeedbackObject { live, value: &value, is_redacted };
    Observation::Available {
        feedback: feedback::evaluate_feedback(&object, &options.feedback_rules, settings.raw),
        rules: condition_rules::evaluate_conditions(live, &value, &options.condition_rules),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HIDES: ReportSettings = ReportSettings {
        raw: RawJsonFeedback { enabled: true, bytes_max: 1024 },
        secret_values: false,
    };

    /// Feedback values and conditions with all that is written of them.
    fn reported(live: &Value, settings: ReportSettings) -> String {
        let options = ManifestOptions {
            feedback_rules: serde_json::from_value(json!([{"type": "JSONPaths", "jsonPaths": [
                {"name": "password", "path": ".data.password"},
                {"name": "all", "path": ".data"},
                {"name": "copy", "path": ".metadata.annotations.copy"},
                {"name": "type", "path": ".type"},
                {"name": "nested", "path": "..password"},
            ]}]))
            .unwrap(),
            condition_rules: serde_json::from_value(json!([
                {"type": "CEL", "condition": "Guess", "messageExpression": "object.data.password",
                    "celExpressions": ["object.data.password.startsWith('dDB')"]},
                {"type": "CEL", "condition": "Has", "message": "there is a password",
                    "celExpressions": ["has(object.data.password)"]},
            ]))
            .unwrap(),
            ..ManifestOptions::default()
        };
        let live = live.as_object().unwrap();
        format!("{:?}", observe(live, &options, settings))
    }

    #[test]
    fn status_of_a_secret_has_none_of_its_values() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": "db", "annotations": {"copy": "t0p"}},
            "data": {"password": "dDBw"}});
        let found = reported(&secret, HIDES);
        for value in ["dDBw", "t0p"] {
            assert!(!found.contains(value), "{found}");
        }
        let refused = "the value of password is from a Secret";
        assert!(found.contains(refused) && found.contains("--report-secret-values"), "{found}");
        assert!(found.contains("Opaque") && found.contains("there is a password"), "{found}");
        let guess = r#"kind: "Guess", status: "False""#;
        assert!(found.contains(guess), "a condition is no oracle either: {found}");

        let all = reported(&secret, ReportSettings { secret_values: true, ..HIDES });
        let guess = r#"kind: "Guess", status: "True""#;
        assert!(all.contains("dDBw") && all.contains("t0p") && all.contains(guess), "{all}");
    }

    #[test]
    fn a_secret_inside_another_object_is_one_too() {
        let work = json!({"apiVersion": "work.open-cluster-management.io/v1",
            "kind": "ManifestWork", "metadata": {"name": "inner"}, "data": {"password": "x"},
            "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "db"}, "stringData": {"password": "t0p"}}]}}});
        let found = reported(&work, HIDES);
        assert!(!found.contains("t0p"), "{found}");
    }
}
