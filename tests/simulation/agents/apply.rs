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
use crate::cluster::{Cluster, Live, Refused};

/// A manifest with all that its work asks for it.
pub(super) struct Wanted<'a> {
    pub id: &'a Identity,
    pub manifest: &'a ParsedManifest,
    pub options: &'a ManifestOptions,
    pub owner: &'a Owner,
    /// Whether the work owns the object.
    pub owned: bool,
}

impl Wanted<'_> {
    /// Brings the object to the state in its manifest.
    pub fn take_steps(&self, cluster: &mut Cluster) -> Result<(), String> {
        for _ in 0..STEPS_MAX {
            let live = cluster.get(self.id).map(|live| live.object.clone());
            let step = self.next_step(live.as_ref())?;
            match self.write(cluster, step) {
                Ok(()) => return Ok(()),
                Err(Refused::Exists | Refused::Stale) => {}
            }
        }
        Err("another client changes the object as fast as it is applied".into())
    }

    /// The next request, by the object as it was read.
    pub fn next_step(&self, live: Option<&Fields>) -> Result<ApplyStep, String> {
        let reference = self.owner.reference(self.owned);
        let wanted = DesiredObject {
            manifest: &self.manifest.object,
            strategy: self.options.update_strategy.as_ref(),
            owner: &reference,
            content_unchanged: false,
        };
        match next_step(&wanted, live.map_or(Found::Absent, Found::Found)) {
            Ok(ApplyStep::Read) => Err("asked to read what was just read".into()),
            Ok(step) => Ok(step),
            Err(refusal) => Err(refusal.to_string()),
        }
    }

    /// Sends the request.
    pub fn write(&self, cluster: &mut Cluster, step: ApplyStep) -> Result<(), Refused> {
        let id = self.id;
        let sends = !matches!(step, ApplyStep::Read | ApplyStep::UpToDate);
        match step {
            ApplyStep::Read | ApplyStep::UpToDate => Ok(()),
            ApplyStep::Create(object) => cluster.create(id, object),
            ApplyStep::Replace(object) => cluster.replace(id, object),
            ApplyStep::PatchOwner(patch) => cluster.patch(id, &patch),
            ApplyStep::Recreate(object) => {
                cluster.delete(id);
                cluster.create(id, without_server_fields(object))
            }
            ApplyStep::Apply { object, .. } => {
                side_apply(cluster, id, object, &self.owner.reference(self.owned))
            }
        }?;
        let is_read_only = is_read_only(self.options.update_strategy.as_ref());
        // Nothing was sent for an object that a user has created again since it was read.
        let is_applied = |live: &Live| sends || live.is_owned_by(&self.owner.uid) == self.owned;
        if let Some(live) = cluster.get_mut(id).filter(|live| !is_read_only && is_applied(live)) {
            live.applied_by.insert(self.owner.uid.clone(), self.owned);
            live.stays = !self.owned;
        }
        Ok(())
    }
}

/// A server-side apply of a manifest whose fields have no other manager, and then of the owner.
fn side_apply(
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

fn without_server_fields(mut object: Fields) -> Fields {
    gitwork_agent_core::object::edit_metadata(&mut object, |metadata| {
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.remove(field);
        }
    });
    object
}
