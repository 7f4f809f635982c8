//! The controller of unmanaged AppliedManifestWorks: eviction after a grace period.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::context::{Context, Requeue, RunOutcome, active};
use super::finalizers::delete_applied_work;
use super::json::text;

pub async fn sync(context: &Context, key: &str) -> RunOutcome {
    let Some(applied) = active(context.applied(key)) else { return Ok(Requeue::No) };
    let has_work = context.work(text(&applied, "/spec/manifestWorkName")).is_some();
    let is_of_this_hub = key.starts_with(&context.identity.hub_hash);
    let mut wanted = applied.clone();
    if has_work && is_of_this_hub {
        if let Some(Value::Object(status)) = wanted.get_mut("status") {
            status.remove("evictionStartTime");
        }
        context.patch_applied(&applied, &wanted).await?;
        return Ok(Requeue::No);
    }
    let started: Option<Timestamp> = text(&applied, "/status/evictionStartTime").parse().ok();
    let Some(started) = started else {
        let second = Timestamp::from_second(context.now.as_second()).unwrap_or(context.now);
        wanted["status"]["evictionStartTime"] = second.to_string().into();
        context.patch_applied(&applied, &wanted).await?;
        return Ok(Requeue::No);
    };
    let age = Duration::try_from(context.now.duration_since(started)).unwrap_or_default();
    match context.identity.eviction_grace.checked_sub(age) {
        Some(left) if !left.is_zero() => Ok(Requeue::After(left)),
        _ => {
            delete_applied_work(context, key).await?;
            Ok(Requeue::No)
        }
    }
}
