//! The daemon's file, for `run` and for the commands that tell what the daemon would do.

use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;

use super::source_args::{Credentials, SourceArgs};
use super::{Failure, output};
use crate::core::config::{DaemonFile, DaemonSource, FileKind};
use crate::core::configfile;
use crate::core::diagnostic::{Diagnostic, Scope};
use crate::core::name::RepoPath;
use crate::core::plan::Policy;
use crate::core::signature::policy::SignerKeys;
use crate::core::window::ChangeWindows;
use crate::daemon::guards::GuardOptions;
use crate::source::SourceConfig;
use crate::verification::Verification;

/// Where a source is read from, and what its folders may do.
pub fn source_config(
    path: &Path,
    index: usize,
    source: &DaemonSource,
    cache: Option<&str>,
) -> Result<SourceConfig, Failure> {
    let mut config = source_args(source, cache)
        .config()
        .map_err(|why| in_file(path, &format!("sources[{index}]"), &why.message))?;
    config.tenancy = source.policy.clone().into();
    Ok(config)
}

/// What keeps changes of a source back.
pub fn guards(path: &Path, index: usize, source: &DaemonSource) -> Result<GuardOptions, Failure> {
    check_windows(path, index, &source.windows)?;
    let policy = Policy {
        allow_delete_all: source.allow_delete_all,
        budgets: source.budgets.clone(),
        adoption: source.adopt,
        ..Policy::default()
    };
    Ok(GuardOptions { policy, rewind: source.rewind, windows: source.windows.clone() })
}

/// Who has to have signed the commits of a source, by these keys.
pub fn verification(
    path: &Path,
    index: usize,
    source: &DaemonSource,
    keys: SignerKeys,
) -> Result<Verification, Failure> {
    Verification::new(&source.signers, keys).map_err(|problems| {
        let first = problems.into_iter().next();
        let (pointer, why) = first.map(|found| (found.pointer, found.message)).unwrap_or_default();
        let field = configfile::dotted(&format!("/signers{pointer}"));
        in_file(path, &format!("sources[{index}].{field}"), &why)
    })
}

/// Says what is wrong with the windows of a source of the file.
fn check_windows(path: &Path, index: usize, windows: &ChangeWindows) -> Result<(), Failure> {
    let field = format!("sources[{index}].windows");
    if let Some(problem) = windows.problems().first() {
        let at = problem.pointer.replace('/', ".");
        return Err(in_file(path, &format!("{field}{at}"), &problem.message));
    }
    match &windows.time_zone {
        Some(zone) if TimeZone::get(zone).is_err() => Err(in_file(
            path,
            &format!("{field}.timeZone"),
            &format!("{zone:?} is no time zone that this system knows, as in Europe/Berlin"),
        )),
        _ => Ok(()),
    }
}

pub fn in_file(path: &Path, field: &str, message: &str) -> Failure {
    Failure::new(format!("{}: {field}: {message}", path.display()))
}

/// Reads the file; what is wrong with it goes to stderr.
pub fn read(path: &Path) -> Result<DaemonFile, Failure> {
    let bytes = std::fs::read(path)
        .map_err(|why| Failure::new(format!("cannot read {}: {why}", path.display())))?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("config");
    let shown = RepoPath::root().join(name);
    let (config, found) =
        configfile::read_one::<DaemonFile>(&shown, &bytes, FileKind::Daemon, &Scope::Source);
    output::diagnostics(&found);
    if found.iter().any(Diagnostic::is_error) {
        return Err(Failure::new(format!("{} cannot be used", path.display())));
    }
    Ok(config.map(|config| config.value).unwrap_or_default())
}

/// A source of the file as flags would say it.
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
