//! The changes that the adoption of a ManifestWork makes.

use std::collections::BTreeMap;

use kube::api::{Api, DynamicObject};

use super::error::CommandError;
use super::output;
use super::source_args::HubArgs;
use crate::limits;
use gitwork_core::model::name::WorkKey;
use gitwork_core::model::work::DesiredWork;
use gitwork_core::plan::adoption;
use gitwork_core::plan::{Effect, Plan, Reason};
use gitwork_core::render::desired::Desired;
use gitwork_core::text::style::ColorMode;

/// The ManifestWork as the hub has it, with its spec.
pub(super) async fn live(
    client: kube::Client,
    key: &WorkKey,
) -> Result<(Api<DynamicObject>, DynamicObject), kube::Error> {
    let api = super::hub::works(client, &key.cluster);
    let live_work = api.get(key.work.as_str()).await?;
    Ok((api, live_work))
}

/// The changes of the adoption of a work.
pub(super) fn changes(live_work: &DynamicObject, wanted: &DesiredWork, style: ColorMode) -> String {
    let spec = live_work.data.get("spec").cloned().unwrap_or_default();
    adoption::changes(spec, wanted.body.spec.value(), style)
}

/// The changes of each adoption in a plan, including those that wait for the owner's consent, by
/// work; at most [`limits::ADOPTIONS_SHOWN_MAX`].
pub(super) async fn adoptions(
    hub: &HubArgs,
    plan: &Plan,
    desired: &Desired,
    style: ColorMode,
) -> Result<BTreeMap<WorkKey, String>, CommandError> {
    let others = plan.steps.iter().filter(|step| {
        matches!(step.effect, Some(Effect::Adopt { .. }))
            || matches!(step.reason, Reason::Conflict { holder, .. } if holder.is_adoptable())
    });
    let others: Vec<&WorkKey> =
        others.map(|step| &step.key).take(limits::ADOPTIONS_SHOWN_MAX).collect();
    let mut found = BTreeMap::new();
    if others.is_empty() {
        return Ok(found);
    }
    let client = super::hub::connect(hub).await?;
    for key in others {
        let Some(wanted) = desired.works.get(key) else { continue };
        match live(client.clone(), key).await {
            Ok((_, live_work)) => {
                found.insert(key.clone(), changes(&live_work, wanted, style));
            }
            // The plan is valid without it: listing may be allowed where reading one work is not.
            Err(why) => {
                output::note(&format!("cannot read the changes of adopting {key}: {why}"));
            }
        }
    }
    Ok(found)
}
