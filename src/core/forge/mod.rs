//! Commit statuses on forges: what is to be sent, and when. Pure.
//!
//! - [`address`]: from a repository's URL to the forge's API.
//! - [`request`]: one commit status as an HTTP request, as each forge documents it.
//! - [`answer`]: what a forge's answer means.
//! - [`board`]: the statuses of the whole and of its parts, and whose turn it is.
//! - [`checks`]: check runs of a GitHub App, with annotations.
//! - [`config`]: what the daemon is told of a forge.
//! - [`jwt`]: how a GitHub App logs in.
//! - [`web`]: the pages that a forge shows people.
//! - [`schedule`]: which status is to be written now, within the forge's limits.
//! - [`webhook`]: how a forge proves that a webhook is its own.

pub mod address;
pub mod answer;
pub mod board;
pub mod checks;
pub mod config;
pub mod jwt;
pub mod request;
pub mod schedule;
pub mod web;
pub mod webhook;

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

pub use address::{AddressError, Target};
pub use board::Board;
pub use config::{CommitStatusConfig, StatusBranchConfig};
pub use request::{HttpRequest, request};
pub use schedule::{Next, Schedule};
pub use web::WebPages;

use super::name::CommitId;

/// The kinds of forges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// github.com and GitHub Enterprise.
    Github,
    /// gitlab.com and self-managed GitLab.
    Gitlab,
    /// Gitea and Forgejo.
    Gitea,
    /// bitbucket.org.
    BitbucketCloud,
    /// Bitbucket Data Center, 7.14 or later.
    BitbucketDataCenter,
    /// Azure DevOps Services and Server.
    AzureDevops,
}

impl Provider {
    /// Every provider with its word in the configuration.
    pub const ALL: [(Provider, &'static str); 6] = [
        (Provider::Github, "github"),
        (Provider::Gitlab, "gitlab"),
        (Provider::Gitea, "gitea"),
        (Provider::BitbucketCloud, "bitbucket-cloud"),
        (Provider::BitbucketDataCenter, "bitbucket-data-center"),
        (Provider::AzureDevops, "azure-devops"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(provider, _)| *provider == self).map_or("", |(_, word)| word)
    }

    /// The longest description in characters. GitHub and Bitbucket Data Center refuse longer ones (their REST
    /// documentation), GitLab has a column of this length; the others are given no more either.
    pub fn description_chars_max(self) -> usize {
        if self == Self::Github { 140 } else { 255 }
    }

    /// The longest context in characters: Bitbucket Cloud's `key` has 40 (its REST documentation).
    pub fn context_chars_max(self) -> usize {
        if self == Self::BitbucketCloud { 40 } else { 255 }
    }

    /// The permission that a token needs, in the forge's own words.
    pub fn permission(self) -> &'static str {
        match self {
            Self::Github => "`repo:status`, or \"Commit statuses: write\" for a fine-grained one",
            Self::Gitlab => "the scope `api` and the role Developer",
            Self::Gitea => "`write:repository`",
            Self::BitbucketCloud => "\"Repositories: write\"",
            Self::BitbucketDataCenter => "\"Repository read\"",
            Self::AzureDevops => "\"Code (status)\"",
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Github => "GitHub",
            Self::Gitlab => "GitLab",
            Self::Gitea => "Gitea",
            Self::BitbucketCloud => "Bitbucket Cloud",
            Self::BitbucketDataCenter => "Bitbucket Data Center",
            Self::AzureDevops => "Azure DevOps",
        })
    }
}

/// What is said of a commit. Each forge has its own words for these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommitState {
    Pending,
    Success,
    Failure,
    /// A newer commit came before this one was everywhere. Neither a success nor a failure.
    Superseded,
}

/// What a context is about that is not about the whole: a cluster, or a group of clusters.
pub type Part = String;

/// One commit status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitStatus {
    /// `None`: the whole.
    pub part: Option<Part>,
    pub commit: CommitId,
    pub state: CommitState,
    pub description: String,
}
