//! The arguments of the commands that tell what the daemon would do: a source by flags, or one of the daemon's file.

use std::path::{Path, PathBuf};

use clap::Args;

use super::signer_args::SignerArgs;
use super::source_args::SourceArgs;
use super::{Failure, daemon_file};
use crate::core::config::DaemonSource;
use crate::core::schema::closest;
use crate::core::signature::policy::SignerKeys;
use crate::daemon::guards::GuardOptions;
use crate::source::SourceConfig;
use crate::verification::Verification;

#[derive(Debug, Clone, Args)]
pub struct ReadArgs {
    /// File of `gitwork run --config`: its source is read, as the daemon would, with its `policy`. --source-id names
    /// one of several; --repo reads a clone of it instead, as of a pull request
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
}

/// A source, and what an operator has set for it.
#[derive(Debug)]
pub struct Operated {
    pub config: SourceConfig,
    pub guards: GuardOptions,
    /// `None` where nobody says whose signatures count.
    pub verification: Option<Verification>,
}

impl ReadArgs {
    /// What the arguments say, checked as far as that needs no network.
    pub fn operated(&self) -> Result<Operated, Failure> {
        match &self.config {
            Some(file) => self.in_file(file, None),
            None => Ok(Operated {
                config: self.source.config()?,
                guards: GuardOptions::default(),
                verification: None,
            }),
        }
    }

    /// The same, with what other arguments say of signatures.
    pub fn signed_by(&self, signers: &SignerArgs) -> Result<Operated, Failure> {
        match &self.config {
            Some(file) => self.in_file(file, signers.keys_over_file()?),
            None => Ok(Operated { verification: signers.verification()?, ..self.operated()? }),
        }
    }

    /// Whether the arguments say what the source is called on the hub.
    pub fn names_source(&self) -> bool {
        self.config.is_some() || self.source.source_id.is_some()
    }

    /// `keys` are used in place of the file's.
    fn in_file(&self, path: &Path, keys: Option<SignerKeys>) -> Result<Operated, Failure> {
        let file = daemon_file::read(path)?;
        let (index, source) = self.choose(path, &file.sources)?;
        let theirs = daemon_file::source_args(source, file.cache.as_deref());
        let mut config = self.over(&theirs)?.config()?;
        config.tenancy = source.policy.clone().into();
        let keys = keys.unwrap_or_else(|| source.signer_keys.clone());
        let verification = daemon_file::verification(path, index, source, keys)?;
        let guards = daemon_file::guards(path, index, source)?;
        Ok(Operated { config, guards, verification: Some(verification) })
    }

    /// The source of the file that is meant, and its index.
    fn choose<'a>(
        &self,
        path: &Path,
        sources: &'a [DaemonSource],
    ) -> Result<(usize, &'a DaemonSource), Failure> {
        let mut named = Vec::new();
        for (index, source) in sources.iter().enumerate() {
            let id = daemon_file::source_args(source, None).id();
            let field = format!("sources[{index}]");
            let id = id.map_err(|why| daemon_file::in_file(path, &field, &why.message))?;
            named.push((index, source, id.to_string()));
        }
        let ids: Vec<&str> = named.iter().map(|(_, _, id)| id.as_str()).collect();
        let found = match &self.source.source_id {
            Some(wanted) => named.iter().find(|(_, _, id)| id == wanted),
            None if ids.len() > 1 => {
                let all = ids.join(", ");
                let message = format!(
                    "{} has several sources; name one of {all} with --source-id",
                    path.display()
                );
                return Err(Failure::usage(message));
            }
            None => named.first(),
        };
        found.map(|(index, source, _)| (*index, *source)).ok_or_else(|| {
            let wanted = self.source.source_id.as_deref().unwrap_or_default();
            let near = closest(wanted, ids.iter().copied());
            let hint = near.map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
            Failure::usage(format!("{} has no source {wanted:?}{hint}", path.display()))
        })
    }

    /// The file's source, but for what the command line says. What the file has for its repository goes to no other.
    fn over(&self, file: &SourceArgs) -> Result<SourceArgs, Failure> {
        let ours = &self.source;
        let mut all = ours.clone();
        all.source_id = Some(file.id()?.to_string());
        all.path = ours.path.clone().or_else(|| file.path.clone());
        all.cache = ours.cache.clone().or_else(|| file.cache.clone());
        if ours.repo.is_none() {
            all.repo = file.repo.clone();
            all.credentials = file.credentials.clone();
            if !ours.names_a_ref() {
                all.branch = file.branch.clone();
                all.tag = file.tag.clone();
                all.semver = file.semver.clone();
                all.commit = file.commit.clone();
            }
        }
        Ok(all)
    }
}
