//! The pure part of the agent: `(work, applied work, live objects, now) -> steps and status`.
//!
//! The rules of [`crate::core`] hold here too: no IO, no clock, no randomness.

pub mod apply;
pub mod cel;
pub mod condition;
pub mod eviction;
pub mod feedback;
pub mod identity;
pub mod ignore;
pub mod jq;
pub mod manifest;
pub mod object;
pub mod owner;
pub mod patience;
pub mod rules;
pub mod status;
pub mod tracked;
pub mod update;
pub mod work;

use serde_json::Value;

use self::feedback::RawJson;
use self::object::Object;
use self::status::Seen;
use self::work::ManifestOptions;

/// Reads off one live object all that its work's status needs.
pub fn look(live: &Object, options: &ManifestOptions, raw: RawJson) -> Seen {
    let value = Value::Object(live.clone());
    Seen::Available {
        feedback: feedback::feedback(live, &value, &options.feedback_rules, raw),
        rules: rules::conditions(live, &value, &options.condition_rules),
    }
}
