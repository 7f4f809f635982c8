//! The available-status controller: whether the objects exist, their feedback, and the conditions
//! that rules make of them. Feedback and rules are those of this project's agent: they decide
//! nothing about the ownership of objects.

use std::time::Duration;

use gitwork_agent_core::condition::NewCondition;
use gitwork_agent_core::condition_rules::evaluate_conditions;
use gitwork_agent_core::feedback::{FeedbackObject, RawJsonFeedback, evaluate_feedback};
use gitwork_api::work::{ConditionRule, FeedbackRule};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::conditions::{self, Condition};
use super::context::{Context, Requeue, RunOutcome, WORK_FINALIZER};
use super::json::{has_finalizer, list, text};
use super::{config, owners};

/// The middle of upstream's 10 to 19 seconds.
const INTERVAL: Duration = Duration::from_secs(15);

pub async fn sync(context: &Context, key: &str) -> RunOutcome {
    let Some(work) = context.work(key) else { return Ok(Requeue::No) };
    let is_applied = conditions::find(list(&work, "/status/conditions"), "Applied").is_some();
    if !has_finalizer(&work, WORK_FINALIZER) || !is_applied {
        return Ok(Requeue::After(INTERVAL));
    }
    let mut wanted = work.clone();
    let mut entries = conditions::manifests(&work).to_vec();
    for entry in &mut entries {
        observe(context, &work, entry).await;
    }
    wanted["status"]["resourceStatus"]["manifests"] = entries.into();
    aggregate(&mut wanted, context.now);
    context.patch_work(&work, &wanted).await?;
    Ok(Requeue::After(INTERVAL))
}

/// Reads the object of one manifest and sets its conditions. If it cannot be read, feedback and
/// the conditions of rules stay as they were.
async fn observe(context: &Context, work: &Value, entry: &mut Value) {
    let meta = entry["resourceMeta"].clone();
    let found = if text(&meta, "/resource").is_empty() {
        Err(("IncompleteResourceMeta", "Resource meta is incomplete".to_owned()))
    } else {
        let found = context.cluster.get(&owners::address(&meta)).await;
        found.map_err(|error| {
            ("FetchingResourceFailed", format!("Failed to fetch resource: {error}"))
        })
    };
    let mut all = list(entry, "/conditions").to_vec();
    let (status, reason, message) = match &found {
        Ok(Some(_)) => ("True", "ResourceAvailable", "Resource is available".to_owned()),
        Ok(None) => ("False", "ResourceNotAvailable", "Resource is not available".to_owned()),
        Err((reason, message)) => ("Unknown", *reason, message.clone()),
    };
    let available = Condition { kind: "Available", status, reason, message, generation: None };
    conditions::set(&mut all, &available, context.now);
    entry["conditions"] = all.into();
    if let Ok(Some(live)) = found {
        evaluate(work, entry, &live, context.now);
    }
}

fn evaluate(work: &Value, entry: &mut Value, live: &Value, now: Timestamp) {
    let generation = conditions::generation(work);
    let config = config::find(work, &entry["resourceMeta"]);
    let object = live.as_object().cloned().unwrap_or_default();
    let rules: Vec<FeedbackRule> = parsed(config.feedback_rules);
    let raw = RawJsonFeedback { enabled: false, bytes_max: 1024 };
    let source = FeedbackObject { live: &object, value: live, is_redacted: false };
    let feedback = evaluate_feedback(&source, &rules, raw);
    let mut all = list(entry, "/conditions").to_vec();
    let values = serde_json::to_value(&feedback.values).unwrap_or_default();
    if list(&values, "") != list(entry, "/statusFeedback/values") {
        all.retain(|one| one["type"] != "StatusFeedbackSynced");
        entry["statusFeedback"] = json!({"values": values});
    }
    conditions::set(&mut all, &borrowed(&feedback.synced, None), now);
    let rules: Vec<ConditionRule> = parsed(config.condition_rules);
    for condition in evaluate_conditions(&object, live, &rules) {
        conditions::set(&mut all, &borrowed(&condition, Some(generation)), now);
    }
    all.retain(|one| !is_of_rule(one) || one["observedGeneration"] == generation);
    entry["conditions"] = all.into();
}

fn parsed<T: DeserializeOwned>(rules: Vec<Value>) -> Vec<T> {
    serde_json::from_value(rules.into()).unwrap_or_default()
}

fn borrowed(new: &NewCondition, generation: Option<i64>) -> Condition<'_> {
    let NewCondition { kind, status, reason, message, .. } = new;
    Condition { kind, status, reason, message: message.clone(), generation }
}

fn is_of_rule(condition: &Value) -> bool {
    text(condition, "/reason").starts_with("ConditionRule")
}

/// Sets the work's conditions from those of its manifests.
fn aggregate(work: &mut Value, now: Timestamp) {
    let generation = Some(conditions::generation(work));
    let entries = conditions::manifests(work).to_vec();
    let all: Vec<&Value> = entries.iter().flat_map(|entry| list(entry, "/conditions")).collect();
    let of_kind = |kind: &str| -> Vec<&str> {
        let same = all.iter().filter(|one| text(one, "/type") == kind);
        same.map(|one| text(one, "/status")).collect()
    };
    let available = of_kind("Available");
    let count = |status: &str| available.iter().filter(|one| **one == status).count();
    let total = entries.len();
    let (status, reason, message) = if count("False") > 0 {
        let message = format!("{} of {total} resources are not available", count("False"));
        ("False", "ResourcesNotAvailable", message)
    } else if count("Unknown") > 0 {
        let message = format!("{} of {total} resources have unknown status", count("Unknown"));
        ("Unknown", "ResourcesStatusUnknown", message)
    } else if count("True") == 0 {
        ("Unknown", "ResourcesStatusUnknown", "cannot get any available resource ".to_owned())
    } else {
        ("True", "ResourcesAvailable", "All resources are available".to_owned())
    };
    let condition = Condition { kind: "Available", status, reason, message, generation };
    conditions::set_of_work(work, &condition, now);
    let mut kinds: Vec<&str> =
        all.iter().filter(|one| is_of_rule(one)).map(|one| text(one, "/type")).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let found = of_kind(kind);
        let order = match kind {
            "Progressing" => ["True", "Unknown", "False"],
            _ => ["False", "Unknown", "True"],
        };
        let status = order.into_iter().find(|status| found.contains(status)).unwrap_or("Unknown");
        let reason = "ConditionRulesAggregated";
        let message = format!("Aggregated from {} manifest conditions", found.len());
        let condition = Condition { kind, status, reason, message, generation };
        conditions::set_of_work(work, &condition, now);
    }
    let mut of_work = list(work, "/status/conditions").to_vec();
    of_work.retain(|one| !is_of_rule(one) || one["observedGeneration"].as_i64() == generation);
    work["status"]["conditions"] = of_work.into();
}
