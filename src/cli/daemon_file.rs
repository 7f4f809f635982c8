//! The daemon's file, for `run` and for the commands that predict what the daemon does.

use std::io;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;

use super::error::CommandError;
use super::output;
use super::schema_args::ObjectCheckArgs;
use super::source_args::{Credentials, SourceArgs};
use super::source_id::IdFrom;
use gitwork_core::config::file;
use gitwork_core::config::file::Config;
use gitwork_core::config::signers::{SignerKeys, SignerPolicy};
use gitwork_core::config::window::ChangeWindows;
use gitwork_core::config::{DaemonFile, DaemonSource, FileKind, RewindPolicy};
use gitwork_core::model::diagnostic::{Code, Diagnostic, Scope};
use gitwork_core::model::name::{RepoPath, SourceId};
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::plan::PlanPolicy;
use gitwork_source::SourceConfig;
use gitwork_source::verification::Verification;
use gitwork_sync::guards::GuardOptions;

/// The source configuration of an entry: repository, path and the operator's policy.
pub fn source_config(
    path: &Path,
    index: usize,
    source: &DaemonSource,
    cache: Option<&str>,
) -> Result<SourceConfig, CommandError> {
    let mut config = source_args(source, cache)
        .config()
        .map_err(|error| in_file(path, &format!("sources[{index}]"), &error.message()))?;
    config.tenancy = source.policy.clone().into();
    config.content_bytes_max = content_bytes_max(source);
    config.schema_checks = ObjectCheckArgs::default().checks(Some(source))?;
    Ok(config)
}

/// The bytes that the rendered works of an entry may hold in memory.
pub fn content_bytes_max(source: &DaemonSource) -> usize {
    (source.max_content_mib as usize).saturating_mul(1024 * 1024)
}

/// Checks that an entry has an id if its repository is a folder: its works need a lasting one.
pub fn check_write(path: &Path, index: usize, source: &DaemonSource) -> Result<(), CommandError> {
    let args = source_args(source, None);
    if args.id_from() != IdFrom::Folder {
        return Ok(());
    }
    let message = format!(
        "is missing, and the repository is a folder, so nothing is written to the hub; name an \
         id, the same one each time, such as {}",
        args.id()?
    );
    Err(in_file(path, &format!("sources[{index}].id"), &message))
}

/// Checks that there are sources, each with an id of its own.
pub fn check_ids<'a>(
    path: &Path,
    ids: impl Iterator<Item = &'a SourceId>,
) -> Result<(), CommandError> {
    let mut seen: Vec<&SourceId> = Vec::new();
    for (index, id) in ids.enumerate() {
        if seen.contains(&id) {
            let message = format!("the id {:?} is used twice", id.as_str());
            return Err(in_file(path, &format!("sources[{index}].id"), &message));
        }
        seen.push(id);
    }
    if seen.is_empty() {
        return Err(in_file(path, "sources", "the list is empty; name at least one repository"));
    }
    Ok(())
}

/// The guards of an entry: origin, policy, rewinds and change windows.
pub fn guards(
    path: &Path,
    index: usize,
    source: &DaemonSource,
) -> Result<GuardOptions, CommandError> {
    check_windows(path, index, &source.windows)?;
    let policy = PlanPolicy {
        allow_delete_all: source.allow_delete_all,
        budgets: source.budgets.clone(),
        adoption: source.adopt,
        ..PlanPolicy::default()
    };
    let origin = source_args(source, None).origin();
    let field = format!("sources[{index}]");
    let origin = origin.map_err(|error| in_file(path, &field, &error.message()))?;
    let windows = source.windows.clone();
    Ok(GuardOptions { origin: Some(origin), policy, rewind: source.rewind, windows })
}

/// The verification of an entry's signatures, with these keys.
pub fn verification(
    path: &Path,
    index: usize,
    source: &DaemonSource,
    keys: SignerKeys,
) -> Result<Verification, CommandError> {
    Verification::new(&source.signers, keys).map_err(|problems| {
        let first = problems.into_iter().next();
        let (pointer, why) = first.map(|found| (found.pointer, found.message)).unwrap_or_default();
        let field = file::dotted(&format!("/signers{pointer}"));
        in_file(path, &format!("sources[{index}].{field}"), &why)
    })
}

/// Checks the change windows of an entry.
fn check_windows(path: &Path, index: usize, windows: &ChangeWindows) -> Result<(), CommandError> {
    let field = format!("sources[{index}].windows");
    if let Some(problem) = windows.problems().first() {
        let at = problem.pointer.replace('/', ".");
        return Err(in_file(path, &format!("{field}{at}"), &problem.message));
    }
    match &windows.time_zone {
        Some(zone) if TimeZone::get(zone).is_err() => Err(in_file(
            path,
            &format!("{field}.timeZone"),
            &format!("{zone:?} is not a time zone of this system, as in Europe/Berlin"),
        )),
        _ => Ok(()),
    }
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
enum DaemonFileError {
    /// The file cannot be read.
    #[error("cannot read {}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The file has errors, which went to stderr.
    #[error("{} cannot be used", .path.display())]
    Invalid { path: PathBuf },
    /// A field is invalid; `field` is as in `sources[0].windows`.
    #[error("{}: {field}: {message}", .path.display())]
    Field { path: PathBuf, field: String, message: String },
}

impl OperationError for DaemonFileError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "DaemonFile"
    }
}

/// An error at a field of the file.
pub fn in_file(path: &Path, field: &str, message: &str) -> CommandError {
    let (path, field, message) = (path.to_owned(), field.to_owned(), message.to_owned());
    DaemonFileError::Field { path, field, message }.into()
}

/// A signed commit must not be left for an older one without an approval.
fn rewind_problems(config: &Config<DaemonFile>) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (index, source) in config.value.sources.iter().enumerate() {
        let is_signed = source.signers != SignerPolicy::default()
            || source.signer_keys != SignerKeys::default();
        if source.rewind == RewindPolicy::Hold || !is_signed {
            continue;
        }
        let at = config.location(&format!("/sources/{index}/rewind"));
        let message = "a source with signers holds rewinds: anybody who may push could otherwise \
             return to an older signed commit";
        let problem = Diagnostic::new(Code::BadValue, at, Scope::Source, message)
            .with_field(format!("sources[{index}].rewind"))
            .with_hint("set it to hold, or remove the line");
        found.push(problem);
    }
    found
}

/// Reads the file. Its problems go to stderr.
pub fn read(path: &Path) -> Result<DaemonFile, CommandError> {
    let bytes = std::fs::read(path)
        .map_err(|source| DaemonFileError::Read { path: path.to_owned(), source })?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("config");
    let shown = RepoPath::root().join(name);
    let (config, mut found) =
        file::read_one::<DaemonFile>(&shown, &bytes, FileKind::Daemon, &Scope::Source);
    found.extend(config.iter().flat_map(rewind_problems));
    output::diagnostics(&found);
    if found.iter().any(Diagnostic::is_error) {
        return Err(DaemonFileError::Invalid { path: path.to_owned() }.into());
    }
    Ok(config.map(|config| config.value).unwrap_or_default())
}

/// An entry of the file, as the flags that mean the same.
pub fn source_args(source: &DaemonSource, cache: Option<&str>) -> SourceArgs {
    let path = |text: &Option<String>| text.as_ref().map(PathBuf::from);
    let from = &source.credentials;
    SourceArgs {
        repo: Some(source.repo.clone()),
        branch: source.branch.clone(),
        tag: source.tag.clone(),
        semver: source.semver.clone(),
        commit: source.commit.clone(),
        path: Some(source.path.clone()),
        source_id: source.id.clone(),
        credentials: Credentials {
            token_file: path(&from.token_file),
            username: from.username.clone(),
            password_file: path(&from.password_file),
            ssh_key: path(&from.ssh_key),
            ssh_passphrase_file: path(&from.ssh_passphrase_file),
            known_hosts: path(&from.known_hosts),
            ca_file: path(&from.ca_file),
            client_cert: path(&from.client_cert),
            client_key: path(&from.client_key),
            proxy: from.proxy.clone(),
        },
        cache: cache.map(PathBuf::from),
    }
}
