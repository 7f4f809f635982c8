//! The finalizer controllers: they add the finalizer of a ManifestWork, delete its
//! AppliedManifestWork with it, and delete the objects of that.

use serde_json::{Value, json};

use super::conditions::{self, Condition};
use super::context::{
    APPLIED_FINALIZER, Context, Requeue, RunError, RunOutcome, WORK_FINALIZER, active,
};
use super::json::{has_finalizer, is_deleting, list, set_metadata};
use super::owners;
use super::requests::RequestError;

pub async fn add_finalizer(context: &Context, key: &str) -> RunOutcome {
    let Some(work) = active(context.work(key)) else { return Ok(Requeue::No) };
    if !has_finalizer(&work, WORK_FINALIZER) {
        let mut finalizers = list(&work, "/metadata/finalizers").to_vec();
        finalizers.push(WORK_FINALIZER.into());
        let mut wanted = work.clone();
        set_metadata(&mut wanted, "finalizers", finalizers.into());
        context.patch_work(&work, &wanted).await?;
    }
    Ok(Requeue::No)
}

fn without_finalizer(object: &Value, finalizer: &str) -> Value {
    let mut finalizers = list(object, "/metadata/finalizers").to_vec();
    finalizers.retain(|one| one != finalizer);
    let mut wanted = object.clone();
    set_metadata(&mut wanted, "finalizers", finalizers.into());
    wanted
}

/// Deletes the AppliedManifestWork of a ManifestWork that is being deleted, and then lets the
/// ManifestWork go.
pub async fn finalize_work(context: &Context, key: &str) -> RunOutcome {
    let work = context.work(key).filter(is_deleting);
    let Some(work) = work.filter(|work| has_finalizer(work, WORK_FINALIZER)) else {
        return Ok(Requeue::No);
    };
    let applied_name = context.identity.applied_name(key);
    let Some(applied) = context.applied(&applied_name) else {
        context.patch_work(&work, &without_finalizer(&work, WORK_FINALIZER)).await?;
        return Ok(Requeue::No);
    };
    if !is_deleting(&applied) {
        let condition = Condition {
            kind: "Deleting",
            status: "True",
            reason: "WorkDeleting",
            message: "ManifestWork is being deleted".to_owned(),
            generation: Some(conditions::generation(&work)),
        };
        let mut wanted = work.clone();
        conditions::set_of_work(&mut wanted, &condition, context.now);
        context.patch_work(&work, &wanted).await?;
        delete_applied_work(context, &applied_name).await?;
    }
    Ok(Requeue::Waiting)
}

/// Deletes an AppliedManifestWork, of any uid.
pub async fn delete_applied_work(context: &Context, name: &str) -> Result<(), RequestError> {
    let at = context.identity.applied_address(name);
    match context.cluster.delete(&at, &json!({})).await {
        Err(RequestError::NotFound(_)) => Ok(()),
        outcome => outcome,
    }
}

/// Deletes the objects of an AppliedManifestWork that is being deleted, and then lets it go.
pub async fn finalize_applied(context: &Context, key: &str) -> RunOutcome {
    let applied = context.applied(key).filter(is_deleting);
    let Some(applied) = applied.filter(|applied| has_finalizer(applied, APPLIED_FINALIZER)) else {
        return Ok(Requeue::No);
    };
    let resources = list(&applied, "/status/appliedResources");
    let owner = owners::reference(&applied);
    let (pending, errors) = owners::delete_applied(&context.cluster, resources, &owner).await;
    let is_changed = pending != resources;
    if is_changed {
        let mut wanted = applied.clone();
        wanted["status"]["appliedResources"] = pending.into();
        context.patch_applied(&applied, &wanted).await?;
    }
    if !errors.is_empty() {
        return Err(RunError::Manifests(errors.iter().map(ToString::to_string).collect()));
    }
    if is_changed {
        return Ok(Requeue::No);
    }
    if !resources.is_empty() {
        return Ok(Requeue::Waiting);
    }
    context.patch_applied(&applied, &without_finalizer(&applied, APPLIED_FINALIZER)).await?;
    Ok(Requeue::No)
}
