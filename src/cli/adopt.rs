//! `adopt`: takes over a ManifestWork that somebody else made, once its changes were shown.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::json;

use super::compare::plan_against_hub;
use super::read_args::ReadArgs;
use super::signer_args::SignerArgs;
use super::source_args::HubArgs;
use super::suspend::work_key;
use super::{Exit, Failure, output, runtime};
use crate::core::adoption;
use crate::core::desired::Desired;
use crate::core::name::WorkKey;
use crate::core::plan::{Effect, Plan, Reason};
use crate::core::report::Style;
use crate::core::work::{ANNOTATION_ADOPT, DesiredWork, MANAGER};
use crate::limits;

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
        Some(Reason::Conflict { .. } | Reason::AdoptionAllowed { .. } | Reason::AdoptedUnowned) => {
        }
        Some(Reason::NewInGit) => {
            return Err(Failure::new(format!(
                "the hub has no ManifestWork {key}: there is nothing to adopt"
            )));
        }
        _ => return Err(Failure::new(format!("{key} is the source {source}'s already"))),
    }
    runtime()?.block_on(async {
        let client = super::run::client(&args.hub).await?;
        let (api, there) = live(client, key).await.map_err(Failure::new)?;
        output::print(&changes(&there, wanted, Style::Coloured))?;
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

/// The ManifestWork as the hub has it, with its spec.
async fn live(
    client: kube::Client,
    key: &WorkKey,
) -> Result<(Api<DynamicObject>, DynamicObject), kube::Error> {
    let kind = GroupVersionKind::gvk("work.open-cluster-management.io", "v1", "ManifestWork");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::namespaced_with(client, key.cluster.as_str(), &resource);
    let there = api.get(key.work.as_str()).await?;
    Ok((api, there))
}

/// What the take-over of a work changes.
fn changes(there: &DynamicObject, wanted: &DesiredWork, style: Style) -> String {
    let spec = there.data.get("spec").cloned().unwrap_or_default();
    adoption::changes(spec, wanted.body.spec.value(), style)
}

/// What each take-over of a plan changes, or would change if its owner consented: the first ones, by work.
pub(super) async fn take_overs(
    hub: &HubArgs,
    plan: &Plan,
    desired: &Desired,
    style: Style,
) -> Result<BTreeMap<WorkKey, String>, Failure> {
    let others = plan.steps.iter().filter(|step| {
        matches!(step.effect, Some(Effect::Adopt { .. }))
            || matches!(step.reason, Reason::Conflict { .. })
    });
    let others: Vec<&WorkKey> =
        others.map(|step| &step.key).take(limits::TAKE_OVERS_SHOWN_MAX).collect();
    let mut told = BTreeMap::new();
    if others.is_empty() {
        return Ok(told);
    }
    let client = super::run::client(hub).await?;
    for key in others {
        let Some(wanted) = desired.works.get(key) else { continue };
        match live(client.clone(), key).await {
            Ok((_, there)) => drop(told.insert(key.clone(), changes(&there, wanted, style))),
            // The plan stands without it; who may not read one work may have been told of all by a list.
            Err(why) => {
                output::note(&format!("what a take-over of {key} changes is not known: {why}"));
            }
        }
    }
    Ok(told)
}
