//! The arguments of status reporting to a forge and to a status branch.

use clap::Args;

use super::argument_error::ArgumentError;
use gitwork_core::config::commit_status::{CommitStatusConfig, Provider, StatusBranchConfig};
use gitwork_daemon::reporters::Reporting;

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Status (docs/status.md)")]
pub struct ReportArgs {
    /// Report commit statuses to a forge of this kind: github, gitlab, gitea, bitbucket-cloud,
    /// bitbucket-data-center, azure-devops
    #[arg(
        long,
        value_name = "FORGE",
        value_parser = provider,
        requires = "commit_status_token_file",
        conflicts_with = "config"
    )]
    commit_status: Option<Provider>,
    /// File with a token that may write commit statuses; read again for every write
    #[arg(long, value_name = "FILE", requires = "commit_status")]
    commit_status_token_file: Option<String>,
    /// Repository name at the forge, as in owner/name [default: from --repo]
    #[arg(long, value_name = "NAME", requires = "commit_status")]
    commit_status_repository: Option<String>,
    /// Name (context) of the statuses
    #[arg(long, value_name = "NAME", requires = "commit_status", default_value = "gitwork")]
    commit_status_context: String,
    /// Link of each status; {commit} is replaced by the commit's id
    #[arg(long, value_name = "URL", requires = "commit_status")]
    commit_status_target_url: Option<String>,
    /// URL of the forge's API [default: from --repo]
    #[arg(long, value_name = "URL", requires = "commit_status")]
    commit_status_api_url: Option<String>,
    /// File with the certificate authorities to trust, in PEM [default: the system's]
    #[arg(long, value_name = "FILE", requires = "commit_status")]
    commit_status_ca_file: Option<String>,
    /// HTTP proxy for the forge's API
    #[arg(long, value_name = "URL", requires = "commit_status")]
    commit_status_proxy: Option<String>,
    /// Push the clusters' status to this branch of the repository
    #[arg(
        long,
        value_name = "BRANCH",
        num_args = 0..=1,
        default_missing_value = "gitwork-status",
        conflicts_with = "config"
    )]
    status_branch: Option<String>,
}

fn provider(text: &str) -> Result<Provider, ArgumentError> {
    let found = Provider::ALL.iter().find(|(_, word)| *word == text);
    let words = Provider::ALL.iter().map(|(_, word)| *word);
    found.map(|(provider, _)| *provider).ok_or_else(|| ArgumentError::one_of(words))
}

impl ReportArgs {
    /// The status reporting that the arguments configure.
    pub fn reporting(&self) -> Reporting {
        let commit_status = self.commit_status.zip(self.commit_status_token_file.clone());
        Reporting {
            commit_status: commit_status.map(|(provider, token_file)| CommitStatusConfig {
                provider,
                token_file: Some(token_file),
                app: None,
                contexts: Vec::new(),
                repository: self.commit_status_repository.clone(),
                context: self.commit_status_context.clone(),
                target_url: self.commit_status_target_url.clone(),
                api_url: self.commit_status_api_url.clone(),
                ca_file: self.commit_status_ca_file.clone(),
                proxy: self.commit_status_proxy.clone(),
            }),
            status_branch: self
                .status_branch
                .clone()
                .map(|branch| StatusBranchConfig { branch, ..StatusBranchConfig::default() }),
        }
    }
}
