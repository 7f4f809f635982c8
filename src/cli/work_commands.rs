//! `create work`, `get works` and `delete work`: ManifestWorks without Git, as OCM's clusteradm has
//! them.

mod create_work;
mod created_work;
mod delete_work;
mod get_works;
mod work_command_error;

use clap::{Args, Subcommand};

use super::error::CommandError;
use super::exit::Exit;

#[derive(Debug, Args)]
pub struct CreateArgs {
    #[command(subcommand)]
    kind: CreateKind,
}

#[derive(Debug, Subcommand)]
enum CreateKind {
    /// Create a ManifestWork on clusters, or update the one that this command created
    Work(Box<create_work::CreateWorkArgs>),
}

/// Runs `gitwork create`.
pub fn create(args: &CreateArgs) -> Result<Exit, CommandError> {
    let CreateKind::Work(args) = &args.kind;
    create_work::create_work(args)
}

#[derive(Debug, Args)]
pub struct GetArgs {
    #[command(subcommand)]
    kind: GetKind,
}

#[derive(Debug, Subcommand)]
enum GetKind {
    /// List the ManifestWorks on the hub, of all owners
    Works(Box<get_works::GetWorksArgs>),
}

/// Runs `gitwork get`.
pub fn get(args: &GetArgs) -> Result<Exit, CommandError> {
    let GetKind::Works(args) = &args.kind;
    get_works::get_works(args)
}

#[derive(Debug, Args)]
pub struct DeleteArgs {
    #[command(subcommand)]
    kind: DeleteKind,
}

#[derive(Debug, Subcommand)]
enum DeleteKind {
    /// Delete a ManifestWork that `gitwork create work` created
    Work(Box<delete_work::DeleteWorkArgs>),
}

/// Runs `gitwork delete`.
pub fn delete(args: &DeleteArgs) -> Result<Exit, CommandError> {
    let DeleteKind::Work(args) = &args.kind;
    delete_work::delete_work(args)
}
