//! The arguments of commands that predict what the daemon does: a source by flags, or an entry of
//! the daemon's file.

use std::io::{self, Read as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;

use clap::Args;

use super::daemon_file;
use super::error::{CommandError, did_you_mean};
use super::facts::facts_of_hub;
use super::output;
use super::published_facts::published_facts;
use super::schema_args::ObjectCheckArgs;
use super::signer_args::SignerArgs;
use super::source_args::{HubArgs, SourceArgs};
use super::source_id::{IdFrom, source_on_hub};
use gitwork_core::config::commit_status::StatusBranchConfig;
use gitwork_core::config::signers::SignerKeys;
use gitwork_core::config::{DaemonFile, DaemonSource, SchemaPolicy};
use gitwork_core::model::diagnostic::{Code, Diagnostic};
use gitwork_core::model::facts::{Facts, FactsError};
use gitwork_core::model::name::WorkKey;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::plan::observed::ObservedWork;
use gitwork_core::text::closest;
use gitwork_source::SourceConfig;
use gitwork_source::verification::Verification;
use gitwork_sync::guards::GuardOptions;

#[derive(Debug, Clone, Args)]
pub struct ReadArgs {
    /// Read a source with its settings from this file of `gitwork run --config`. --source-id
    /// selects one of several sources (`validate` reads all without it); --repo reads a clone
    /// instead, as of a pull request
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// File with facts of the hub, as JSON: labels and claims of clusters, and decisions of
    /// Placements. Groups find their clusters by them. Default: what the hub says, if the command
    /// reads one, or else facts.json of the status branch, if the clone has it
    #[arg(long, value_name = "FILE")]
    facts: Option<PathBuf>,
    /// Render on this many threads; the output is the same with any number [default: as many as
    /// the machine runs at once]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    schemas: ObjectCheckArgs,
    #[command(flatten)]
    source: SourceArgs,
}

/// Whether unknown facts and lowered problems of objects are errors.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct StrictArgs {
    /// Fail if the members of a group, or facts that a work needs, are unknown, and if the API
    /// server would reject an object, whatever `schemaProblems` says
    #[arg(long)]
    strict: bool,
}

impl StrictArgs {
    /// Whether the command fails with these diagnostics.
    pub fn fails(self, diagnostics: &[Diagnostic]) -> bool {
        diagnostics.iter().any(|one| one.is_error() || (self.strict && is_unknown(one)))
    }
}

/// Whether the facts do not say which works there are, or what is in them.
pub fn is_unknown(found: &Diagnostic) -> bool {
    matches!(found.code, Code::UnknownMembers | Code::UnknownFacts)
}

/// Why there are no facts.
#[derive(Debug, thiserror::Error)]
enum FactsFileError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The file has no facts.
    #[error("{}: {source}", .path.display())]
    Invalid { path: PathBuf, source: FactsError },
}

impl OperationError for FactsFileError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "Facts"
    }
}

/// Reads a file with facts, up to its bound.
fn read_facts(path: &Path) -> Result<Facts, FactsFileError> {
    let failed = |source| FactsFileError::Read { path: path.to_owned(), source };
    let mut text = Vec::new();
    let most = gitwork_core::limits::FACTS_BYTES_MAX as u64 + 1;
    std::fs::File::open(path).map_err(failed)?.take(most).read_to_end(&mut text).map_err(failed)?;
    Facts::read(&text).map_err(|source| FactsFileError::Invalid { path: path.to_owned(), source })
}

/// A source with the operator's settings.
#[derive(Debug)]
pub struct ConfiguredSource {
    pub config: SourceConfig,
    pub id_from: IdFrom,
    pub guards: GuardOptions,
    /// `None` without keys of signers.
    pub verification: Option<Verification>,
    /// The branch with the status of the source, which has the facts of the hub.
    pub status_branch: String,
    /// How many threads render.
    pub threads: usize,
}

impl ConfiguredSource {
    /// Takes the id from the hub, unless the arguments name it. `works`: all works on the hub.
    /// `work`: the work in question, if there is one.
    pub fn take_id_from_hub(&mut self, works: &[ObservedWork], work: Option<&WorkKey>) {
        if self.id_from == IdFrom::Name {
            return;
        }
        if let Some(id) = source_on_hub(works, work, &self.config.id) {
            self.config.id = id;
            self.id_from = IdFrom::Name;
        }
    }

    /// With objects that the API server would reject as errors, unless a policy says otherwise, and
    /// with notes on objects that find no other.
    pub fn with_schema_errors(mut self, strict: StrictArgs) -> Self {
        let checks = &mut self.config.schema_checks;
        checks.default = Some(SchemaPolicy::Error);
        checks.relations = true;
        if strict.strict {
            checks.operator = Some(SchemaPolicy::Error);
        }
        self
    }

    /// The facts of the hub, or if it does not tell them those of the status branch; `None` if the
    /// arguments name others, or there are none.
    pub fn missing_facts(&self, hub: Option<&HubArgs>) -> Option<Arc<Facts>> {
        if self.config.facts.is_some() {
            return None;
        }
        let of_hub = |hub| match facts_of_hub(hub) {
            Ok(facts) => Some(Arc::new(facts)),
            Err(why) => {
                let why = why.message();
                output::note(&format!("the hub does not tell the facts of clusters: {why}"));
                None
            }
        };
        let published = || published_facts(&self.config, &self.status_branch);
        hub.and_then(of_hub).or_else(published)
    }

    /// With the facts of the status branch, unless the arguments name others.
    pub fn with_published_facts(mut self) -> Self {
        self.config.facts = self.missing_facts(None).or(self.config.facts);
        self
    }
}

/// As many threads as the machine has cores for this process.
pub(super) fn threads_of_machine() -> usize {
    available_parallelism().map_or(1, NonZeroUsize::get)
}

impl ReadArgs {
    /// The source that the arguments name, checked without network.
    pub fn configured_source(&self) -> Result<ConfiguredSource, CommandError> {
        let mut configured = self.configured()?;
        configured.config.facts = self.facts()?;
        Ok(configured)
    }

    fn threads(&self) -> usize {
        self.threads.map_or_else(threads_of_machine, NonZeroUsize::get)
    }

    /// What the hub says of clusters, if the arguments name a file.
    fn facts(&self) -> Result<Option<Arc<Facts>>, CommandError> {
        Ok(self.facts.as_deref().map(read_facts).transpose()?.map(Arc::new))
    }

    /// The source that the arguments name, without facts.
    fn configured(&self) -> Result<ConfiguredSource, CommandError> {
        match &self.config {
            Some(file) => self.in_file(file, None),
            None => Ok(ConfiguredSource {
                config: SourceConfig {
                    schema_checks: self.schemas.checks(None)?,
                    ..self.source.config()?
                },
                id_from: self.source.id_from(),
                guards: GuardOptions {
                    origin: Some(self.source.origin()?),
                    ..GuardOptions::default()
                },
                verification: None,
                status_branch: StatusBranchConfig::default().branch,
                threads: self.threads(),
            }),
        }
    }

    /// The sources that the arguments name: all of the file, unless something selects one.
    pub fn configured_sources(&self) -> Result<Vec<ConfiguredSource>, CommandError> {
        let SourceArgs { source_id, repo, path, .. } = &self.source;
        let selects_one =
            [source_id, repo, path].into_iter().any(Option::is_some) || self.source.has_reference();
        let Some(path) = self.config.as_ref().filter(|_| !selects_one) else {
            return Ok(vec![self.configured_source()?.with_published_facts()]);
        };
        let file = daemon_file::read(path)?;
        let facts = self.facts()?;
        let mut sources = Vec::new();
        for entry in file.sources.iter().enumerate() {
            let mut configured = self.entry(path, &file, entry, None)?;
            configured.config.facts.clone_from(&facts);
            sources.push(configured.with_published_facts());
        }
        daemon_file::check_ids(path, sources.iter().map(|source| &source.config.id))?;
        Ok(sources)
    }

    /// As [`Self::configured_source`], with the verification that the arguments name.
    pub fn with_signers(&self, signers: &SignerArgs) -> Result<ConfiguredSource, CommandError> {
        let mut configured = match &self.config {
            Some(file) => self.in_file(file, signers.keys_over_file()?)?,
            None => {
                ConfiguredSource { verification: signers.verification()?, ..self.configured()? }
            }
        };
        configured.config.facts = self.facts()?;
        Ok(configured)
    }

    /// Reads the selected entry of the file. `keys` replace the file's keys.
    fn in_file(
        &self,
        path: &Path,
        keys: Option<SignerKeys>,
    ) -> Result<ConfiguredSource, CommandError> {
        let file = daemon_file::read(path)?;
        let entry = self.choose(path, &file.sources)?;
        self.entry(path, &file, entry, keys)
    }

    /// One entry of the file, given with its index.
    fn entry(
        &self,
        path: &Path,
        file: &DaemonFile,
        (index, source): (usize, &DaemonSource),
        keys: Option<SignerKeys>,
    ) -> Result<ConfiguredSource, CommandError> {
        let theirs = daemon_file::source_args(source, file.cache.as_deref());
        let mut config = self.merged_with(&theirs)?.config()?;
        config.tenancy = source.policy.clone().into();
        config.content_bytes_max = daemon_file::content_bytes_max(source);
        config.schema_checks = self.schemas.checks(Some(source))?;
        let keys = keys.unwrap_or_else(|| source.signer_keys.clone());
        let verification = daemon_file::verification(path, index, source, keys)?;
        let guards = daemon_file::guards(path, index, source)?;
        // The daemon uses the default id of a URL, too.
        let id_from = match theirs.id_from() {
            IdFrom::Folder => IdFrom::Folder,
            IdFrom::Name | IdFrom::Url => IdFrom::Name,
        };
        let verification = Some(verification);
        let status_branch = source.status_branch.clone().unwrap_or_default().branch;
        let threads = self.threads();
        Ok(ConfiguredSource { config, id_from, guards, verification, status_branch, threads })
    }

    /// The selected entry of the file, and its index.
    fn choose<'a>(
        &self,
        path: &Path,
        sources: &'a [DaemonSource],
    ) -> Result<(usize, &'a DaemonSource), CommandError> {
        let mut named = Vec::new();
        for (index, source) in sources.iter().enumerate() {
            let id = daemon_file::source_args(source, None).id();
            let field = format!("sources[{index}]");
            let id = id.map_err(|why| daemon_file::in_file(path, &field, &why.message()))?;
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
                return Err(CommandError::usage(message));
            }
            None => named.first(),
        };
        found.map(|(index, source, _)| (*index, *source)).ok_or_else(|| {
            let wanted = self.source.source_id.as_deref().unwrap_or_default();
            let near = closest(wanted, ids.iter().copied());
            let hint = did_you_mean(near.map(|near| format!("{near:?}")));
            CommandError::usage(format!("{} has no source {wanted:?}{hint}", path.display()))
        })
    }

    /// The entry with the command line's values on top. The entry's credentials and reference are
    /// used for its own repository only.
    fn merged_with(&self, file: &SourceArgs) -> Result<SourceArgs, CommandError> {
        let ours = &self.source;
        let mut all = ours.clone();
        all.source_id = Some(file.id()?.to_string());
        all.path = ours.path.clone().or_else(|| file.path.clone());
        all.cache = ours.cache.clone().or_else(|| file.cache.clone());
        if ours.repo.is_none() {
            all.repo = file.repo.clone();
            all.credentials = file.credentials.clone();
            if !ours.has_reference() {
                all.branch = file.branch.clone();
                all.tag = file.tag.clone();
                all.semver = file.semver.clone();
                all.commit = file.commit.clone();
            }
        }
        Ok(all)
    }
}
