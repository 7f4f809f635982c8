//! The ManifestWork controller: it creates the AppliedManifestWork, applies the manifests, records
//! the applied resources, and deletes those that have left the work.

use std::time::Duration;

use serde_json::{Value, json};

use super::apply::{self, ApplyError, Wanted};
use super::conditions::{self, Condition};
use super::context::{
    APPLIED_FINALIZER, Context, Requeue, RunError, RunOutcome, WORK_FINALIZER, active,
};
use super::json::{has_finalizer, is_deleting, list, name, text};
use super::requests::{Mapping, RequestError};
use super::{config, owners};

/// The middle of upstream's 4 to 6 minutes.
const RESYNC: Duration = Duration::from_mins(5);

/// How often a pass applies what had a conflict.
const TRIES: usize = 4;

/// What came of one manifest.
struct ManifestResult {
    /// `resourceMeta`. The resource is empty if the kind is unknown.
    meta: Value,
    /// The uid of the object, if the strategy reads it.
    outcome: Result<Option<String>, ApplyError>,
}

pub async fn sync(context: &Context, key: &str) -> RunOutcome {
    let Some(work) = active(context.work(key)) else { return Ok(Requeue::No) };
    let is_complete = conditions::is_true(list(&work, "/status/conditions"), "Complete");
    if !has_finalizer(&work, WORK_FINALIZER) || is_complete {
        return Ok(Requeue::No);
    }
    let applied = ensure_applied(context, &work).await?;
    let results = apply_manifests(context, &work, &owners::reference(&applied)).await;
    let mut new_work = work.clone();
    record(context, &mut new_work, &results);
    let tracked = track(context, &new_work, &applied, &results).await;
    context.patch_work(&work, &new_work).await?;
    let mut problems: Vec<String> = results.iter().filter_map(problem).collect();
    let mut is_pending = false;
    match tracked {
        Ok(Some((resources, pending))) => {
            let mut new_applied = applied.clone();
            new_applied["status"]["appliedResources"] = resources.into();
            context.patch_applied(&applied, &new_applied).await?;
            is_pending = pending;
        }
        Ok(None) => {}
        Err(RunError::Manifests(more)) => problems.extend(more),
        Err(error) => return Err(error),
    }
    match (problems.is_empty(), is_pending) {
        (false, _) => Err(RunError::Manifests(problems)),
        (true, true) => Ok(Requeue::Waiting),
        (true, false) => Ok(Requeue::After(RESYNC)),
    }
}

/// The AppliedManifestWork as it is cached, or a new one.
async fn ensure_applied(context: &Context, work: &Value) -> Result<Value, RequestError> {
    let identity = &context.identity;
    let applied_name = identity.applied_name(name(work));
    let spec = json!({"hubHash": identity.hub_hash, "agentID": identity.agent_id,
        "manifestWorkName": name(work)});
    if let Some(applied) = context.applied(&applied_name) {
        let mut wanted = applied.clone();
        wanted["spec"] = spec;
        context.patch_applied(&applied, &wanted).await?;
        return Ok(applied);
    }
    let mut wanted = json!({"apiVersion": "work.open-cluster-management.io/v1",
        "kind": "AppliedManifestWork",
        "metadata": {"name": applied_name, "finalizers": [APPLIED_FINALIZER]}, "spec": spec});
    if let Some(labels) = work.pointer("/metadata/labels") {
        wanted["metadata"]["labels"] = labels.clone();
    }
    context.cluster.create(&identity.applied_address(&applied_name), &wanted).await
}

/// Applies all manifests, and those with a conflict again. Each try looks all kinds up before it
/// applies anything, so a custom object fails in the pass that creates its CRD.
async fn apply_manifests(context: &Context, work: &Value, owner: &Value) -> Vec<ManifestResult> {
    let manifests = list(work, "/spec/workload/manifests");
    let mut order: Vec<usize> = (0..manifests.len()).collect();
    order.sort_by_key(|index| config::order_of(text(&manifests[*index], "/kind")));
    let mut results: Vec<Option<ManifestResult>> = manifests.iter().map(|_| None).collect();
    for _ in 0..TRIES {
        let mut mappings = Vec::new();
        for manifest in manifests {
            mappings.push(context.cluster.mapping(manifest).await);
        }
        for index in order.iter().copied() {
            if results[index].as_ref().is_some_and(|result| !has_conflict(result)) {
                continue;
            }
            let (manifest, mapping) = (&manifests[index], mappings[index].as_ref());
            let meta = resource_meta(index, manifest, mapping);
            let outcome = apply_one(context, work, (manifest, mapping, &meta), owner).await;
            results[index] = Some(ManifestResult { meta, outcome });
        }
        if !results.iter().flatten().any(has_conflict) {
            break;
        }
    }
    results.into_iter().flatten().collect()
}

fn has_conflict(result: &ManifestResult) -> bool {
    result.outcome.as_ref().is_err_and(ApplyError::is_conflict)
}

fn resource_meta(ordinal: usize, manifest: &Value, mapping: Option<&Mapping>) -> Value {
    let (group, version) = group_version(manifest);
    let is_namespaced = mapping.is_none_or(|mapping| mapping.is_namespaced);
    let namespace = if is_namespaced { text(manifest, "/metadata/namespace") } else { "" };
    json!({"ordinal": ordinal, "group": group, "version": version,
        "kind": text(manifest, "/kind"),
        "resource": mapping.map_or("", |mapping| &mapping.resource),
        "name": name(manifest), "namespace": namespace})
}

fn group_version(manifest: &Value) -> (&str, &str) {
    let version = text(manifest, "/apiVersion");
    version.split_once('/').unwrap_or(("", version))
}

async fn apply_one(
    context: &Context,
    work: &Value,
    (manifest, mapping, meta): (&Value, Option<&Mapping>, &Value),
    owner: &Value,
) -> Result<Option<String>, ApplyError> {
    let Some(mapping) = mapping else {
        return Err(ApplyError::UnknownKind(text(manifest, "/kind").to_owned()));
    };
    if conditions::is_complete(work, meta) {
        return Ok(None);
    }
    let is_owned = config::is_owned(work, meta);
    let owner = if is_owned { owner.clone() } else { owners::removal(owner) };
    let mut at = owners::address(meta);
    // The namespace of the manifest, also if the kind has none.
    text(manifest, "/metadata/namespace").clone_into(&mut at.namespace);
    let wanted = Wanted { manifest, mapping, config: config::find(work, meta), owner, at };
    apply::apply(&context.cluster, &wanted).await
}

/// Sets `Applied` of each manifest and of the work. A work without manifests keeps its condition.
fn record(context: &Context, work: &mut Value, results: &[ManifestResult]) {
    let generation = Some(conditions::generation(work));
    let old = conditions::manifests(work).to_vec();
    let entries: Vec<Value> = results
        .iter()
        .map(|result| {
            let (status, reason, message) = match &result.outcome {
                Ok(_) => ("True", "AppliedManifestComplete", "Apply manifest complete".to_owned()),
                Err(ApplyError::IgnoreFields(error)) => (
                    "False",
                    "AppliedManifestSSAIgnoreFieldError",
                    format!("Failed to process ignoreFields: {error}"),
                ),
                Err(error) => {
                    let message = format!("Failed to apply manifest: {error}");
                    ("False", "AppliedManifestFailed", message)
                }
            };
            let condition = Condition { kind: "Applied", status, reason, message, generation };
            conditions::merged_entry(&old, &result.meta, &condition, context.now)
        })
        .collect();
    work["status"]["resourceStatus"]["manifests"] = entries.into();
    if results.is_empty() {
        return;
    }
    let (status, reason, message) = match results.iter().all(|result| result.outcome.is_ok()) {
        true => ("True", "AppliedManifestWorkComplete", "Apply manifest work complete"),
        false => ("False", "AppliedManifestWorkFailed", "Failed to apply manifest work"),
    };
    let message = message.to_owned();
    let condition = Condition { kind: "Applied", status, reason, message, generation };
    conditions::set_of_work(work, &condition, context.now);
}

/// What makes the key come back with backoff. A conflict over fields waits for the next resync.
fn problem(result: &ManifestResult) -> Option<String> {
    match &result.outcome {
        Ok(_) | Err(ApplyError::FieldConflict(_)) => None,
        Err(error) => Some(format!("{}: {error}", text(&result.meta, "/name"))),
    }
}

/// Deletes what has left the work, and returns the new `appliedResources` and whether some of them
/// are still going. One manifest that cannot be looked up stops all of it. None if nothing is to
/// be recorded.
async fn track(
    context: &Context,
    work: &Value,
    applied: &Value,
    results: &[ManifestResult],
) -> Result<Option<(Vec<Value>, bool)>, RunError> {
    let has_applied = conditions::find(list(work, "/status/conditions"), "Applied").is_some();
    if is_deleting(applied) || !has_applied {
        return Ok(None);
    }
    let (mut tracked, mut problems) = (Vec::new(), Vec::new());
    for result in results {
        match tracked_resource(context, result).await {
            Ok(found) => tracked.extend(found),
            Err(error) => problems.push(error.to_string()),
        }
    }
    if !problems.is_empty() {
        return Err(RunError::Manifests(problems));
    }
    let is_tracked = |old: &Value| tracked.iter().any(|new| is_same(new, old));
    let old = list(applied, "/status/appliedResources").iter();
    let untracked: Vec<Value> = old.filter(|old| !is_tracked(old)).cloned().collect();
    let owner = owners::reference(applied);
    let (pending, errors) = owners::delete_applied(&context.cluster, &untracked, &owner).await;
    if !errors.is_empty() {
        return Err(RunError::Manifests(errors.iter().map(ToString::to_string).collect()));
    }
    let is_pending = !pending.is_empty();
    tracked.extend(pending);
    let fields = ["group", "version", "resource", "namespace", "name"];
    tracked.sort_by_key(|one| fields.map(|field| text(one, &format!("/{field}")).to_owned()));
    Ok(Some((tracked, is_pending)))
}

/// The entry of a manifest whose object exists, applied or not. The uid is that of the object.
async fn tracked_resource(
    context: &Context,
    result: &ManifestResult,
) -> Result<Option<Value>, ApplyError> {
    let meta = &result.meta;
    let applied = result.outcome.as_ref().ok().and_then(Clone::clone);
    let uid = match applied.filter(|uid| !uid.is_empty()) {
        Some(uid) => uid,
        None => {
            if text(meta, "/resource").is_empty() {
                return Err(ApplyError::UnknownKind(text(meta, "/kind").to_owned()));
            }
            match context.cluster.get(&owners::address(meta)).await? {
                Some(live) => super::json::uid(&live).to_owned(),
                None => return Ok(None),
            }
        }
    };
    let mut entry = json!({"uid": uid});
    for field in ["group", "version", "resource", "namespace", "name"] {
        entry[field] = meta[field].clone();
    }
    Ok(Some(entry))
}

/// Version and uid do not count.
fn is_same(one: &Value, other: &Value) -> bool {
    ["/group", "/resource", "/namespace", "/name"]
        .iter()
        .all(|field| text(one, field) == text(other, field))
}
