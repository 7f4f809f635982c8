//! What a command needs that stores an approval on the hub, or prints it.

use clap::Args;
use jiff::Timestamp;

use super::error::CommandError;
use super::hub::runtime;
use super::output;
use super::read_args::{ConfiguredSource, ReadArgs};
use super::signer_args::SignerArgs;
use super::source_args::HubArgs;
use gitwork_core::model::approval::Approval;
use gitwork_core::model::name::SourceId;
use gitwork_hub::directives::{Operator, object_name};
use gitwork_sync::state::SyncState;

#[derive(Debug, Args)]
pub struct ApprovalArgs {
    #[command(flatten)]
    source: ReadArgs,
    #[command(flatten)]
    signers: SignerArgs,
    #[command(flatten)]
    pub hub: HubArgs,
    /// Print the approval instead of storing it on the hub; commit it to Git as approvals/HASH
    #[arg(long)]
    pub print: bool,
}

/// Who has stored an approval, and where.
pub(super) struct StoredApproval {
    pub who: String,
    /// As in `ConfigMap open-cluster-management/gitwork-fleet`.
    pub place: String,
}

impl ApprovalArgs {
    /// The source with the operator's settings.
    pub fn configured(&self) -> Result<ConfiguredSource, CommandError> {
        self.source.with_signers(&self.signers)
    }

    /// Stores the approval of a user on the hub, and prints it. `state`: what the hub has.
    pub fn store(
        &self,
        approval: &Approval,
        (source, state): (&SourceId, &SyncState),
    ) -> Result<StoredApproval, CommandError> {
        let known = state.facts().hub.uids();
        let namespace = self.hub.namespace();
        let who = runtime()?.block_on(async {
            let client = super::hub::connect(&self.hub).await?;
            let at = Timestamp::now().to_string();
            let operator = Operator { client: &client, namespace, source, at };
            let is_there = |uid: &str| known.contains(uid);
            Ok::<_, CommandError>(operator.approve(approval, is_there).await?)
        })?;
        output::print(&approval.text())?;
        let place = format!("ConfigMap {namespace}/{}", object_name(source));
        Ok(StoredApproval { who, place })
    }
}
