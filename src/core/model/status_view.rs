//! What the daemon keeps of a ManifestWork's status: the state, and short details for the status
//! branch. Bounded, since an agent (or whoever may write the status) decides what stands there, and
//! a hub has many works.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits;
use crate::model::value_path::value_at;
use crate::model::work_state::{
    Conditions, State, condition_message, first_failure, is_secret, judge, object_name, text,
};
use gitwork_api::compressed_json::CompressedJson;
use gitwork_api::truncate::truncate_chars;

/// A work's status, of its present generation.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusView {
    /// The state that the work's own conditions add up to.
    pub state: State,
    /// When it came to be so, as far as the agent says.
    pub since: Option<Timestamp>,
    /// Manifests in the work's spec.
    pub manifests: u32,
    /// Manifests whose condition Applied is True; at most `manifests` if the agent is right.
    pub manifests_applied: u32,
    /// What the agent says of the health of single objects.
    pub health: ObjectHealth,
    /// A [`StatusDetails`]: some hundredth of the memory.
    details: Option<CompressedJson>,
}

/// What an agent says of the health of single objects. The conditions of the work hide one degraded
/// object among several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObjectHealth {
    /// The agent has not read an object yet. Or it does not say of an object with one of the
    /// conditions that follow that it read it after it applied the present generation of the work.
    pub may_be_outdated: bool,
    /// An object has the condition Degraded.
    pub is_degraded: bool,
    /// An object has the condition Progressing.
    pub is_progressing: bool,
    /// When one of these conditions changed last, by the clock of the cluster.
    pub since: Option<Timestamp>,
    /// When the last object was applied, by the clock of the cluster. Some agents only say when
    /// objects were applied for the first time.
    pub applied: Option<Timestamp>,
}

impl ObjectHealth {
    fn of(manifests: &[Value], generation: i64) -> Self {
        let mut health = Self::default();
        for manifest in manifests {
            let conditions = Conditions::of(Some(manifest), None);
            let time = |condition: &Value| text(condition, "/lastTransitionTime")?.parse().ok();
            let applied = conditions.is("Applied", "True").and_then(time);
            health.applied = health.applied.max(applied);
            health.may_be_outdated |= conditions.get("Available").is_none();
            let current = Conditions::of(Some(manifest), Some(generation));
            let is_current = |kind: &str| current.get(kind).is_some();
            for kind in ["Degraded", "Progressing"] {
                let Some(condition) = conditions.get(kind) else { continue };
                let is_true = text(condition, "/status") == Some("True");
                health.add(&Self {
                    may_be_outdated: !is_current(kind) || !is_current("Available"),
                    is_degraded: is_true && kind == "Degraded",
                    is_progressing: is_true && kind == "Progressing",
                    since: time(condition),
                    applied: None,
                });
            }
        }
        health
    }

    /// Adds the health of other objects.
    pub fn add(&mut self, other: &Self) {
        self.may_be_outdated |= other.may_be_outdated;
        self.is_degraded |= other.is_degraded;
        self.is_progressing |= other.is_progressing;
        self.since = self.since.max(other.since);
        self.applied = self.applied.max(other.applied);
    }
}

/// What a status says, as far as people want to read it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusDetails {
    /// What the agent says where something failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The work's conditions, at most `limits::STATUS_CONDITIONS_MAX`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Objects with feedback values, or with a condition that says that something is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectDetails>,
    /// Objects that were left out because there are too many.
    #[serde(skip_serializing_if = "is_zero")]
    pub objects_left_out: usize,
}

/// One condition of a work or an object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// `type`, as in `Applied`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`, as the agent wrote it.
    pub status: String,
    /// A CamelCase word for programs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A text for people, at most `limits::STATUS_TEXT_CHARS_MAX` characters; replaced by a notice
    /// for an object that is a Secret.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The condition's `lastTransitionTime`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub since: String,
    /// It is about an older generation than the work's: nothing that it says is about the present
    /// content.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub outdated: bool,
}

/// One object of a work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectDetails {
    /// As in `Deployment shop/web`.
    pub object: String,
    /// Its conditions that say that something is wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Feedback values by name: text, number or boolean; JSON as text. None of a Secret.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub feedback: BTreeMap<String, Value>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Default for StatusView {
    /// A work without any status.
    fn default() -> Self {
        Self {
            state: State::Pending,
            since: None,
            manifests: 0,
            manifests_applied: 0,
            health: ObjectHealth::default(),
            details: None,
        }
    }
}

impl StatusView {
    /// Reads the `status` of a work with so many manifests, at this generation.
    pub fn of(status: &Value, generation: i64, manifests: usize) -> Self {
        let conditions = Conditions::of(Some(status), Some(generation));
        let (state, condition) = judge(&conditions);
        let all = value_at(status, "/resourceStatus/manifests").and_then(Value::as_array);
        let all = all.map_or(&[][..], Vec::as_slice);
        let applied = all
            .iter()
            .filter(|one| Conditions::of(Some(one), None).is("Applied", "True").is_some())
            .count();
        let failed = matches!(state, State::Failed | State::Degraded);
        let message = failed.then(|| {
            let said = || condition.and_then(|condition| text(condition, "/message"));
            first_failure(all).or_else(|| said().map(str::to_owned))
        });
        let mut details = StatusDetails {
            message: message.flatten().map(|message| short(&message)),
            ..StatusDetails::default()
        };
        details.add_conditions(conditions.all, generation);
        details.add_objects(all);
        Self {
            state,
            since: condition
                .and_then(|condition| text(condition, "/lastTransitionTime")?.parse().ok()),
            manifests: u32::try_from(manifests).unwrap_or(u32::MAX),
            manifests_applied: u32::try_from(applied).unwrap_or(u32::MAX),
            health: ObjectHealth::of(all, generation),
            details: details.packed(),
        }
    }

    /// What the status says. Empty where there is none.
    pub fn details(&self) -> StatusDetails {
        self.details.as_ref().and_then(|details| details.read().ok()).unwrap_or_default()
    }

    /// What the agent says where something failed.
    pub fn message(&self) -> Option<String> {
        self.details().message
    }
}

impl StatusDetails {
    /// Conditions come before objects, but leave room for some of them.
    fn add_conditions(&mut self, conditions: &[Value], generation: i64) {
        let mut left = limits::STATUS_DETAILS_BYTES_MAX / 2;
        for condition in conditions.iter().take(limits::STATUS_CONDITIONS_MAX) {
            let condition = Condition::read(condition, generation, None);
            left = left.saturating_sub(size(&condition));
            if left > 0 {
                self.conditions.push(condition);
            }
        }
    }

    /// Adds the objects that there is something to tell of, as far as they fit.
    fn add_objects(&mut self, manifests: &[Value]) {
        let mut left = limits::STATUS_DETAILS_BYTES_MAX.saturating_sub(size(self));
        for manifest in manifests {
            let Some(object) = ObjectDetails::read(manifest) else { continue };
            let size = size(&object);
            if size < left && self.objects_left_out == 0 {
                left -= size;
                self.objects.push(object);
            } else {
                self.objects_left_out += 1;
            }
        }
    }

    fn packed(self) -> Option<CompressedJson> {
        (self != Self::default()).then(|| CompressedJson::new(&self))
    }
}

fn size<T: Serialize>(value: &T) -> usize {
    serde_json::to_string(value).map_or(usize::MAX, |text| text.len())
}

impl ObjectDetails {
    /// `None` where there is nothing to tell.
    fn read(manifest: &Value) -> Option<Self> {
        let conditions: Vec<Condition> = Conditions::of(Some(manifest), None)
            .all
            .iter()
            // Conditions that are as they should be are left out: there are two for each object.
            .filter(|condition| {
                let field = |name: &str| text(condition, name).unwrap_or_default();
                is_bad(field("/type"), field("/status"), field("/reason"))
            })
            .take(limits::STATUS_CONDITIONS_MAX)
            .map(|condition| Condition::read(condition, 0, Some(manifest)))
            .collect();
        let feedback = if is_secret(manifest) { BTreeMap::new() } else { feedback(manifest) };
        if conditions.is_empty() && feedback.is_empty() {
            return None;
        }
        Some(Self { object: short(&object_name(manifest)), conditions, feedback })
    }
}

/// Whether a condition of this type, status and reason says that something is not as it should be.
fn is_bad(kind: &str, status: &str, reason: &str) -> bool {
    let good = if matches!(kind, "Progressing" | "Degraded") { "False" } else { "True" };
    // What is said of feedback matters where there is some to see or none to get.
    status != good && reason != "NoStatusFeedbackSynced"
}

/// The values of `statusFeedback`, which have one field for each type (OCM: FieldValue).
pub fn feedback(manifest: &Value) -> BTreeMap<String, Value> {
    let values = value_at(manifest, "/statusFeedback/values").and_then(Value::as_array);
    let values = values.into_iter().flatten().take(limits::STATUS_FEEDBACK_MAX);
    let read = |value: &Value| {
        let name = short(value.get("name")?.as_str()?);
        let field = value.get("fieldValue")?;
        let found = ["string", "integer", "boolean", "jsonRaw"]
            .iter()
            .find_map(|kind| field.get(*kind).filter(|value| !value.is_null()))?;
        let found = match found {
            Value::String(text) => Value::String(short(text)),
            Value::Number(_) | Value::Bool(_) => found.clone(),
            other => Value::String(short(&other.to_string())),
        };
        Some((name, found))
    };
    values.filter_map(read).collect()
}

impl Condition {
    /// Whether it says that something is not as it should be.
    pub fn is_bad(&self) -> bool {
        is_bad(&self.kind, &self.status, &self.reason)
    }

    /// One of a work at `generation`, or one `of` an entry of `resourceStatus.manifests`.
    pub fn read(condition: &Value, generation: i64, of: Option<&Value>) -> Self {
        let field = |name: &str| text(condition, name).map(short).unwrap_or_default();
        let observed = condition.get("observedGeneration").and_then(Value::as_i64);
        Self {
            kind: field("/type"),
            status: field("/status"),
            reason: field("/reason"),
            message: match of {
                Some(manifest) => short(condition_message(manifest, condition)),
                None => field("/message"),
            },
            since: field("/lastTransitionTime"),
            outdated: of.is_none() && observed != Some(generation),
        }
    }
}

/// A text of the agent's, truncated.
pub fn short(text: &str) -> String {
    truncate_chars(text, limits::STATUS_TEXT_CHARS_MAX).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manifest(kind: &str, name: &str, applied: &str, message: &str, values: &Value) -> Value {
        json!({
            "resourceMeta": { "kind": kind, "namespace": "shop", "name": name },
            "conditions": [
                { "type": "Applied", "status": applied, "reason": "R", "message": message },
                {
                    "type": "StatusFeedbackSynced", "status": "True",
                    "reason": "NoStatusFeedbackSynced",
                },
            ],
            "statusFeedback": { "values": values },
        })
    }

    fn status(manifests: &[Value]) -> Value {
        json!({
            "conditions": [
                {
                    "type": "Applied", "status": "False", "observedGeneration": 2,
                    "reason": "AppliedManifestWorkFailed",
                    "message": "Failed to apply manifest work",
                    "lastTransitionTime": "2026-01-02T03:04:05Z",
                },
                { "type": "Available", "status": "True", "observedGeneration": 1 },
            ],
            "resourceStatus": { "manifests": manifests },
        })
    }

    #[test]
    fn it_keeps_what_people_want_to_read() {
        let replicas = json!([
            { "name": "ReadyReplicas", "fieldValue": { "type": "Integer", "integer": 2 } },
            { "name": "phase", "fieldValue": { "type": "String", "string": "Ready" } },
            { "name": "raw", "fieldValue": { "type": "JsonRaw", "jsonRaw": "{\"a\":1}" } },
        ]);
        let status = status(&[
            manifest("ConfigMap", "a", "True", "fine", &json!([])),
            manifest("Deployment", "web", "True", "fine", &replicas),
            manifest("Deployment", "api", "False", "no such image", &json!([])),
        ]);
        let view = StatusView::of(&status, 2, 3);
        assert_eq!((view.state, view.manifests, view.manifests_applied), (State::Failed, 3, 2));
        assert_eq!(view.since.unwrap().to_string(), "2026-01-02T03:04:05Z");
        let details = view.details();
        assert_eq!(details.message.as_deref(), Some("Deployment shop/api: no such image"));
        let outdated: Vec<bool> = details.conditions.iter().map(|c| c.outdated).collect();
        assert_eq!(outdated, [false, true]);
        let objects: Vec<&str> = details.objects.iter().map(|o| o.object.as_str()).collect();
        assert_eq!(objects, ["Deployment shop/web", "Deployment shop/api"]);
        let feedback = serde_json::to_value(&details.objects[0].feedback).unwrap();
        assert_eq!(feedback, json!({"ReadyReplicas": 2, "phase": "Ready", "raw": "{\"a\":1}"}));
    }

    #[test]
    fn nothing_out_of_a_secret_is_kept() {
        let canary = json!([{ "name": "v", "fieldValue": { "string": "CANARY" } }]);
        let status = status(&[manifest("Secret", "key", "False", "CANARY", &canary)]);
        let view = StatusView::of(&status, 2, 1);
        assert!(!format!("{view:?}").contains("CANARY"), "{view:?}");
        assert_eq!(view.details().objects.len(), 1);
    }

    #[test]
    fn a_flood_is_bounded_and_counted() {
        let long = "x".repeat(1_000);
        let values: Vec<Value> = (0..50)
            .map(|n| json!({ "name": format!("n{n}"), "fieldValue": { "string": long } }))
            .collect();
        let manifests: Vec<Value> =
            (0..50).map(|_| manifest("A", "a", "False", &long, &json!(values))).collect();
        let mut status = status(&manifests);
        status["conditions"] = (0..50)
            .map(|n| json!({ "type": format!("C{n}"), "status": long, "message": long }))
            .collect();
        let view = StatusView::of(&status, 2, 50);
        let details = view.details();
        let size = view.details.as_ref().unwrap().value().to_string().len();
        assert!(size <= limits::STATUS_DETAILS_BYTES_MAX + 100, "{size}");
        assert_eq!(details.objects.len() + details.objects_left_out, 50);
    }

    #[test]
    fn hostile_values_do_no_harm() {
        for status in [
            json!(null),
            json!({
                "conditions": [null, 7, {"type": []}],
                "resourceStatus": {"manifests": [null, {"statusFeedback": 3}]},
            }),
        ] {
            let view = StatusView::of(&status, 1, 0);
            assert_eq!(view.state, State::Pending);
            let _ = view.details();
        }
    }
}
