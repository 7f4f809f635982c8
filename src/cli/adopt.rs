//! `adopt`: shows the changes of an adoption, and with `--yes` allows it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use futures::TryFutureExt as _;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::adoption_changes::{changes, live};
use super::compare::plan_against_hub;
use super::completion;
use super::error::CommandError;
use super::exit::Exit;
use super::hub::runtime;
use super::no_match::no_match;
use super::output;
use super::read_args::ReadArgs;
use super::signer_args::SignerArgs;
use super::source_args::{FilterArgs, HubArgs};
use super::suspend::work_key;
use gitwork_core::model::name::{SourceId, WorkKey};
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::model::work::{ANNOTATION_ADOPT, MANAGER};
use gitwork_core::plan::Reason;
use gitwork_core::text::style::ColorMode;
use gitwork_hub::{class_of_request, retry_transient};

#[derive(Debug, Args)]
pub struct AdoptArgs {
    /// ManifestWork to adopt; Git must have a work of the same name
    #[arg(value_name = "CLUSTER/WORK", value_parser = work_key, add = completion::cluster_works())]
    work: WorkKey,
    #[command(flatten)]
    source: ReadArgs,
    #[command(flatten)]
    signers: SignerArgs,
    #[command(flatten)]
    hub: HubArgs,
    /// Allow the adoption; without this flag the command only shows the changes
    #[arg(long)]
    yes: bool,
}

/// Why a ManifestWork is not adopted.
#[derive(Debug, thiserror::Error)]
enum AdoptionError {
    /// Git does not want the work.
    #[error("Git has no valid work {key}")]
    NotInGit { key: WorkKey },
    /// There is nothing to adopt.
    #[error("the hub has no ManifestWork {key} to adopt; gitwork creates it")]
    NotOnHub { key: WorkKey },
    /// The work is the source's already.
    #[error("{key} already belongs to the source {owner}")]
    AlreadyOwned { key: WorkKey, owner: SourceId },
    /// The source belongs to another repository.
    #[error("{key} is not adopted: {reason}")]
    OtherOrigin { key: WorkKey, reason: Reason },
    /// A ManifestWorkReplicaSet has the name, or one of its works.
    #[error("{key} is not adopted: {reason}")]
    ReplicaSet { key: WorkKey, reason: Reason },
    /// The hub rejects the request, or does not respond.
    #[error(transparent)]
    Hub(kube::Error),
}

impl OperationError for AdoptionError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Hub(error) => class_of_request(error),
            _ => ErrorClass::NeedsAction,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::NotInGit { .. } => "NotInGit",
            Self::NotOnHub { .. } => "NotOnHub",
            Self::AlreadyOwned { .. } => "AlreadyOwned",
            Self::OtherOrigin { .. } => "OtherOrigin",
            Self::ReplicaSet { .. } => "ReplicaSet",
            Self::Hub(_) => "Hub",
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NotInGit { .. } => vec!["`gitwork validate` shows the errors".to_owned()],
            _ => Vec::new(),
        }
    }
}

/// Runs `gitwork adopt`.
pub fn adopt(args: &AdoptArgs) -> Result<Exit, CommandError> {
    let cancel = Arc::new(AtomicBool::new(false));
    let configured = args.source.with_signers(&args.signers)?;
    let planned = plan_against_hub(configured, &args.hub, Timestamp::now(), &cancel)?;
    let (key, source) = (&args.work, &planned.desired.source);
    if args.yes {
        planned.id_from.check_write(source)?;
    }
    let named = FilterArgs::of_work(key);
    if let Some(error) = no_match(&named, &named.filter()?, &[&planned.desired], &[]) {
        return Err(error);
    }
    let wanted = planned.desired.works.get(key);
    let wanted = wanted.ok_or_else(|| AdoptionError::NotInGit { key: key.clone() })?;
    let step = planned.plan.steps.get(key);
    match step.map(|step| &step.reason) {
        Some(reason @ Reason::Conflict { holder, .. }) if !holder.is_adoptable() => {
            let (key, reason) = (key.clone(), reason.clone());
            return Err(AdoptionError::ReplicaSet { key, reason }.into());
        }
        Some(Reason::Conflict { .. } | Reason::AdoptionAllowed { .. } | Reason::AdoptedUnowned) => {
        }
        Some(reason @ Reason::HeldByOrigin { .. }) => {
            let (key, reason) = (key.clone(), reason.clone());
            return Err(AdoptionError::OtherOrigin { key, reason }.into());
        }
        Some(Reason::NewInGit) => {
            return Err(AdoptionError::NotOnHub { key: key.clone() }.into());
        }
        _ => {
            let (key, owner) = (key.clone(), source.clone());
            return Err(AdoptionError::AlreadyOwned { key, owner }.into());
        }
    }
    runtime()?.block_on(async {
        let client = super::hub::connect(&args.hub).await?;
        let read = || live(client.clone(), key).map_err(AdoptionError::Hub);
        let (api, live_work) = retry_transient(read).await?;
        output::print(&changes(&live_work, wanted, ColorMode::Colored))?;
        if !args.yes {
            output::note(&format!(
                "{key} is not adopted; to adopt it with these changes, add --yes"
            ));
            return Ok(Exit::Done);
        }
        // The resourceVersion limits the consent to the shown state: it fails after any other
        // write.
        let consent = json!({ "metadata": {
            "resourceVersion": live_work.metadata.resource_version,
            "annotations": { ANNOTATION_ADOPT: source.as_str() },
        } });
        let params = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let patch = Patch::Merge(consent);
        let write = || api.patch(key.work.as_str(), &params, &patch).map_err(AdoptionError::Hub);
        retry_transient(write).await?;
        output::note(&format!("the source {source} adopts {key} with its next sync"));
        Ok(Exit::Done)
    })
}
