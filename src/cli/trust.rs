//! `trust`: an operator names the commit from which the next ones are verified.

use clap::Args;
use jiff::Timestamp;

use super::argument_error::ArgumentError;
use super::completion;
use super::error::CommandError;
use super::exit::Exit;
use super::hub::runtime;
use super::output;
use super::source_args::{self, HubArgs};
use gitwork_core::model::approval::Approval;
use gitwork_core::model::name::{CommitId, SourceId};
use gitwork_hub::directives::{Operator, object_name};
use gitwork_hub::{Hub, KubeHub, RetryingHub};

#[derive(Debug, Args)]
pub struct TrustArgs {
    /// The commit, with all 40 digits
    #[arg(value_name = "COMMIT", value_parser = commit)]
    commit: CommitId,
    /// Id of the source, as the log and `gitwork status -o wide` show it
    #[arg(
        long,
        value_name = "ID",
        value_parser = source_args::source_id,
        add = completion::sources(),
    )]
    source_id: SourceId,
    #[command(flatten)]
    hub: HubArgs,
}

fn commit(text: &str) -> Result<CommitId, ArgumentError> {
    CommitId::parse(text).ok_or(ArgumentError::Commit)
}

/// Runs `gitwork trust`.
pub fn trust(args: &TrustArgs) -> Result<Exit, CommandError> {
    let TrustArgs { commit, source_id: source, hub } = args;
    let namespace = hub.namespace();
    let (who, after) = runtime()?.block_on(async {
        let client = super::hub::connect(hub).await?;
        let reads = RetryingHub::new(KubeHub::new(client.clone()).in_namespace(namespace));
        let stored = reads.record(source).await?;
        let after = stored.and_then(|stored| stored.record.verified);
        let approval = Approval::Trust { source: source.clone(), after, commit: *commit };
        let at = Timestamp::now().to_string();
        let operator = Operator { client: &client, namespace, source, at };
        let who = operator.approve(&approval, |_| true).await?;
        operator.reconcile().await?;
        Ok::<_, CommandError>((who, after))
    })?;
    let place = match after {
        Some(after) => format!("in place of {after}, the last verified commit"),
        None => "as the first verified commit".to_owned(),
    };
    output::note(&format!(
        "{who} trusts {commit} {place}; the approval is in the ConfigMap {namespace}/{}; if \
         gitwork holds a rewind to it, approve that with `gitwork approve`",
        object_name(source)
    ));
    Ok(Exit::Done)
}
