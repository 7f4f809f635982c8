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
pub mod status;
pub mod update;
mod update_rule;
pub mod work;

use serde_json::Value;

use self::feedback::RawJsonFeedback;
use self::object::Object;
use self::status::Observation;
use self::work::ManifestOptions;

/// Reads off one live object all that its work's status needs.
pub fn observe(live: &Object, options: &ManifestOptions, raw: RawJsonFeedback) -> Observation {
    let value = Value::Object(live.clone());
    Observation::Available {
        feedback: feedback::evaluate_feedback(live, &value, &options.feedback_rules, raw),
        rules: condition_rules::evaluate_conditions(live, &value, &options.condition_rules),
    }
}
