//! The pure part of the agent: `(work, applied work, live objects, now) -> steps and status`.
//!
//! The rules of [`gitwork_core`] hold here too: no IO, no clock, no randomness.

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
