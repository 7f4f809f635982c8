//! Commit statuses on forges: their content and their schedule. Pure.
//!
//! - [`address`]: derives the address of a forge's API from a repository's URL.
//! - [`request`]: one commit status as an HTTP request.
//! - [`response`]: the meaning of a forge's response.
//! - [`status_queue`]: the statuses of a source and of its parts, in their order of writing.
//! - [`schedule`]: the next status of one context, within the forge's limits.
//! - [`checks`]: check runs of a GitHub App, with annotations.
//! - [`config`]: the configuration of a forge.
//! - [`jwt`]: the login of a GitHub App.
//! - [`web`]: links to the forge's web pages.
//! - [`webhook`]: authentication of webhooks.

pub mod address;
pub mod checks;
pub mod config;
pub mod jwt;
mod repository_url;
pub mod request;
pub mod response;
pub mod schedule;
pub mod status_queue;
pub mod web;
pub mod webhook;

pub use address::{AddressError, ForgeTarget};
pub use request::{HttpRequest, request};
pub use schedule::{Next, Schedule};
pub use status_queue::StatusQueue;
pub use web::WebPages;

use serde::{Deserialize, Serialize};

use crate::config::commit_status::Provider;
use crate::model::name::CommitId;

impl Provider {
    /// The longest description in characters. GitHub and Bitbucket Data Center reject longer ones
    /// (their REST documentation), GitLab stores this many. The other forges get the same limit.
    pub fn description_chars_max(self) -> usize {
        if self == Self::Github { 140 } else { 255 }
    }

    /// The longest context in characters. Bitbucket Cloud limits `key` to 40 (its REST
    /// documentation).
    pub fn context_chars_max(self) -> usize {
        if self == Self::BitbucketCloud { 40 } else { 255 }
    }

    /// The permission that a token needs, in the forge's own terms.
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

/// The state of a commit. Each forge has its own word for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommitState {
    /// The rollout of the commit is not finished.
    Pending,
    /// All reachable clusters have applied the commit.
    Success,
    /// Git has an error, or a reachable cluster needs attention.
    Failure,
    /// A newer commit arrived before this one was applied everywhere. Neither success nor failure.
    Superseded,
}

/// The name of a context for some of the clusters: a cluster, or a group of clusters.
pub type Part = String;

/// A status that a forge shows as pending. gitwork stores these on the hub. So its next process can
/// close those of commits that a newer one has overtaken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OpenStatus {
    /// The commit that the status belongs to.
    pub commit: CommitId,
    /// `None` for the whole source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
}

/// One commit status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitStatus {
    /// `None` for the whole source.
    pub part: Option<Part>,
    /// The commit that the status belongs to.
    pub commit: CommitId,
    /// The result so far.
    pub state: CommitState,
    /// One line for people. Shortened to the forge's limit when it is written.
    pub description: String,
}
