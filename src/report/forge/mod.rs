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
mod status;
pub mod status_queue;
pub mod web;
pub mod webhook;

pub use address::{AddressError, ForgeTarget};
pub use request::{HttpRequest, request};
pub use schedule::{Next, Schedule};
pub use status::{CommitState, CommitStatus, OpenStatus, Part};
pub use status_queue::StatusQueue;
pub use web::WebPages;
