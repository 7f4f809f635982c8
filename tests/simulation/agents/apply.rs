//! Applies one manifest with the steps that the agent decides.

use gitwork_agent_core::apply::{
    ApplyStep, DesiredObject, LiveObject as Found, is_read_only, next_step,
};
use gitwork_agent_core::manifest::ParsedManifest;
use gitwork_agent_core::object::Object as Fields;
use gitwork_agent_core::owner::{Owner, owner_patch};
use gitwork_agent_core::work::ManifestOptions;
use gitwork_core::model::manifest::Identity;
use serde_json::Value;

use super::STEPS_MAX;
use crate::simulation::cluster::{Cluster, Refused};

/// Brings one object to the state in its manifest.
pub(super) fn take_steps(
    cluster: &mut Cluster,
    id: &Identity,
    manifest: &ParsedManifest,
    options: &ManifestOptions,
    owner: &Owner,
    owned: bool,
) -> Result<(), String> {
    let reference = owner.reference(owned);
    let strategy = options.update_strategy.as_ref();
    for _ in 0..STEPS_MAX {
        let wanted = DesiredObject {
            manifest: &manifest.object,
            strategy,
            owner: &reference,
            content_unchanged: false,
        };
        let live = cluster.get(id).map_or(Found::Absent, |live| Found::Found(&live.object));
        let step = next_step(&wanted, live).map_err(|refusal| refusal.to_string())?;
        let done = match step {
            ApplyStep::Read => return Err("asked to read what was just read".into()),
            ApplyStep::UpToDate => Ok(()),
            ApplyStep::Create(object) => cluster.create(id, object),
            ApplyStep::Replace(object) => cluster.replace(id, object),
            ApplyStep::PatchOwner(patch) => cluster.patch(id, &patch),
            ApplyStep::Recreate(object) => {
                cluster.delete(id);
                cluster.create(id, without_server_fields(object))
            }
            ApplyStep::Apply { object, .. } => side_apply(cluster, id, object, &reference),
        };
        match done {
            Ok(()) => {
                if let Some(live) = cluster.get_mut(id).filter(|_| !is_read_only(strategy)) {
                    live.applied_by.insert(owner.uid.clone());
                    live.stays = !owned;
                }
                return Ok(());
            }
            Err(Refused::Exists | Refused::Stale) => {}
        }
    }
    Err("another client changes the object as fast as it is applied".into())
}

/// A server-side apply of a manifest whose fields have no other manager, and then of the owner.
pub(super) fn side_apply(
    cluster: &mut Cluster,
    id: &Identity,
    object: Fields,
    reference: &Value,
) -> Result<(), Refused> {
    if cluster.get(id).is_some() {
        cluster.patch(id, &Value::Object(object))?;
    } else {
        cluster.create(id, object)?;
    }
    let patch = cluster.get(id).and_then(|live| owner_patch(&live.object, reference));
    patch.map_or(Ok(()), |patch| cluster.patch(id, &patch))
}

pub(super) fn without_server_fields(mut object: Fields) -> Fields {
    gitwork_agent_core::object::edit_metadata(&mut object, |metadata| {
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.remove(field);
        }
    });
    object
}
