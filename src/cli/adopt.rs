//! `adopt`: takes over a ManifestWork that somebody else made, once its changes were shown.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::compare::plan_against_hub;
use super::read_args::ReadArgs;
use super::signer_args::SignerArgs;
use super::source_args::HubArgs;
use super::suspend::work_key;
use super::{Exit, Failure, output, runtime};
use crate::core::diff;
use crate::core::name::WorkKey;
use crate::core::plan::Reason;
use crate::core::report::{Style, harmless};
use crate::core::work::{ANNOTATION_ADOPT, DesiredWork, MANAGER};

#[derive(Debug, Args)]
pub struct AdoptArgs {
    /// The ManifestWork to take over, which Git has under the same name
    #[arg(value_name = "CLUSTER/WORK", value_parser = work_key)]
    work: WorkKey,
    #[command(flatten)]
    source: ReadArgs,
    #[command(flatten)]
    signers: SignerArgs,
    #[command(flatten)]
    hub: HubArgs,
    /// Consent: without it the changes are only shown
    #[arg(long)]
    yes: bool,
}

pub fn adopt(args: &AdoptArgs) -> Result<Exit, Failure> {
    let cancel = Arc::new(AtomicBool::new(false));
    let operated = args.source.signed_by(&args.signers)?;
    let planned = plan_against_hub(operated, &args.hub, Timestamp::now(), &cancel)?;
    let (key, source) = (&args.work, &planned.desired.source);
    let wanted = planned.desired.works.get(key).ok_or_else(|| {
        Failure::new(format!(
            "Git has no work {key}, or none that can be read; `gitwork validate` tells why"
        ))
    })?;
    let step = planned.plan.steps.iter().find(|step| step.key == *key);
    match step.map(|step| &step.reason) {
        Some(Reason::Conflict { .. } | Reason::AdoptionAllowed { .. }) => {}
        Some(Reason::NewInGit) => {
            return Err(Failure::new(format!(
                "the hub has no ManifestWork {key}: there is nothing to adopt"
            )));
        }
        _ => return Err(Failure::new(format!("{key} is the source {source}'s already"))),
    }
    runtime()?.block_on(async {
        let client = super::run::client(&args.hub).await?;
        let kind = GroupVersionKind::gvk("work.open-cluster-management.io", "v1", "ManifestWork");
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> =
            Api::namespaced_with(client, key.cluster.as_str(), &resource);
        let there = api.get(key.work.as_str()).await.map_err(Failure::new)?;
        output::print(&changes(&there, wanted))?;
        if !args.yes {
            output::note(&format!(
                "nothing was done; to take {key} over with these changes: the same command with --yes"
            ));
            return Ok(Exit::Done);
        }
        // Of just what was shown: who writes it meanwhile makes the consent void.
        let consent = json!({ "metadata": {
            "resourceVersion": there.metadata.resource_version,
            "annotations": { ANNOTATION_ADOPT: source.as_str() },
        } });
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        api.patch(key.work.as_str(), &params, &Patch::Merge(consent)).await.map_err(Failure::new)?;
        output::note(&format!("{key} is the source {source}'s to take over, with its next pass"));
        Ok(Exit::Done)
    })
}

/// What the take-over changes: the settings of the work, and each object.
fn changes(there: &DynamicObject, wanted: &DesiredWork) -> String {
    let (before, mut before_objects) = split(there.data.get("spec").cloned().unwrap_or_default());
    let (after, after_objects) = split(wanted.body.spec.value());
    let mut out = String::new();
    tell(&mut out, "settings", &before, &after);
    for object in &after_objects {
        let name = name(object);
        let at = before_objects.iter().position(|other| self::name(other) == name);
        match at.map(|at| before_objects.swap_remove(at)) {
            Some(other) => tell(&mut out, &name, &other, object),
            None => out.push_str(&format!("{name}: new in this work\n")),
        }
    }
    for object in &before_objects {
        let name = name(object);
        out.push_str(&format!("{name}: no more in this work, so that its agent deletes it\n"));
    }
    if out.is_empty() { "no changes but the owner\n".into() } else { out }
}

/// The fields in which two values differ, where they do.
fn tell(out: &mut String, what: &str, before: &Value, after: &Value) {
    let fields = diff::diff(before, after);
    if !fields.is_empty() {
        out.push_str(&format!("{what}\n"));
        fields.write_text(out, "    ", Style::Coloured);
    }
}

fn name(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let all = ["/kind", "/metadata/namespace", "/metadata/name"].map(text);
    harmless(&format!("{} {}/{}", all[0], all[1], all[2]))
}

/// A spec without its objects, and the objects.
fn split(mut spec: Value) -> (Value, Vec<Value>) {
    let objects = spec.pointer_mut("/workload/manifests").map(Value::take);
    (spec, objects.and_then(|all| all.as_array().cloned()).unwrap_or_default())
}
