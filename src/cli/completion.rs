//! Names that a shell completes: clusters, works, groups and sources of the repository that the
//! command would read, and codes of diagnostics. They come from its folder, its clone of the status
//! branch and the daemon's file, never from a hub or a remote: somebody waits at the prompt.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap_complete::{ArgValueCompleter, CompletionCandidate};
use gitwork_core::config::daemon_file::DaemonFile;
use gitwork_core::config::{FileKind, file};
use gitwork_core::model::diagnostic::{Code, Scope};
use gitwork_core::model::name::RepoPath;

use super::bounded_file;
use super::current_folder::top_of_source;
use super::limits;
use super::published_facts;

/// The variable by which the script of a shell asks for completions.
pub const VARIABLE: &str = "GITWORK_COMPLETE";

/// Completes the names of clusters.
pub fn clusters() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| matching(current, Repository::of_command().clusters()))
}

/// Completes the names of clusters in a list with commas.
pub fn cluster_list() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let Some(text) = current.to_str() else { return Vec::new() };
        let (before, last) = text.split_at(text.rfind(',').map_or(0, |comma| comma + 1));
        let named = matching(OsStr::new(last), Repository::of_command().clusters());
        named.into_iter().map(|candidate| candidate.add_prefix(before)).collect()
    })
}

/// Completes the names of works.
pub fn works() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let repository = Repository::of_command();
        let mut names = repository.works_of_groups();
        names.extend(repository.clusters().iter().flat_map(|name| repository.works_of(name)));
        matching(current, names)
    })
}

/// Completes `CLUSTER/`, and after the slash `CLUSTER/WORK`.
pub fn cluster_works() -> ArgValueCompleter {
    ArgValueCompleter::new(matching_cluster_works)
}

/// Completes what `explain` takes: works, and codes of diagnostics with their titles.
pub fn explained() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let text = current.to_string_lossy().to_ascii_uppercase();
        let is_meant = |code: &&Code| text.len() > 1 && code.id().starts_with(&text);
        let codes = Code::ALL.iter().filter(is_meant).map(|code| {
            CompletionCandidate::new(code.id()).help(Some(code.title().to_owned().into()))
        });
        codes.chain(matching_cluster_works(current)).collect()
    })
}

/// Completes the names of groups.
pub fn groups() -> ArgValueCompleter {
    let names = || folders(&Repository::of_command().top.join("groups"));
    ArgValueCompleter::new(move |current: &OsStr| matching(current, names()))
}

/// Completes the ids of sources: of `--config`, and of the status branch.
pub fn sources() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let mut ids = argument("--config").map_or_else(BTreeSet::new, |path| ids_of_file(&path));
        ids.extend(published_facts::source_in_clone(&Repository::of_command().top));
        matching(current, ids)
    })
}

fn matching_cluster_works(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(text) = current.to_str() else { return Vec::new() };
    let repository = Repository::of_command();
    let names = match text.split_once('/') {
        None => repository.clusters().iter().map(|name| format!("{name}/")).collect(),
        Some((cluster, _)) => {
            let mut works = repository.works_of_groups();
            works.extend(repository.works_of(cluster));
            works.iter().map(|work| format!("{cluster}/{work}")).collect()
        }
    };
    matching(current, names)
}

fn ids_of_file(path: &Path) -> BTreeSet<String> {
    let text = bounded_file::read(path, limits::COMPLETION_FILE_BYTES_MAX).ok().flatten();
    let root = RepoPath::root();
    let (file, _problems) = file::read_one::<DaemonFile>(
        &root,
        &text.unwrap_or_default(),
        FileKind::Daemon,
        &Scope::Source,
    );
    file.into_iter().flat_map(|file| file.value.sources).filter_map(|source| source.id).collect()
}

fn matching(current: &OsStr, names: BTreeSet<String>) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let names = names.into_iter().filter(|name| name.starts_with(current));
    names.map(CompletionCandidate::new).collect()
}

/// The folder of a repository on disk.
struct Repository {
    top: PathBuf,
}

impl Repository {
    /// The one that the command line names, or the current one.
    fn of_command() -> Self {
        let named = argument("--repo").or_else(|| std::env::var_os("GITWORK_REPO").map(Into::into));
        let top = named.unwrap_or_else(|| top_of_source(Path::new(".")));
        Self { top: top.join(argument("--path").unwrap_or_default()) }
    }

    /// The clusters with a folder, and those that the status branch knows.
    fn clusters(&self) -> BTreeSet<String> {
        let mut names = folders(&self.top.join("clusters"));
        names.extend(published_facts::clusters_in_clone(&self.top));
        names
    }

    fn works_of(&self, cluster: &str) -> BTreeSet<String> {
        folders(&self.top.join("clusters").join(cluster))
    }

    fn works_of_groups(&self) -> BTreeSet<String> {
        let groups = self.top.join("groups");
        folders(&groups).iter().flat_map(|group| folders(&groups.join(group))).collect()
    }
}

/// The names of the folders in a folder. Without it, there are none.
fn folders(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| !name.starts_with('.')).collect()
}

/// The value of a flag in the command line that is completed, which follows `--`.
fn argument(flag: &str) -> Option<PathBuf> {
    let words: Vec<OsString> = std::env::args_os().skip_while(|word| word != "--").collect();
    let joined =
        |word: &OsString| Some(word.to_str()?.strip_prefix(flag)?.strip_prefix('=')?.into());
    let next = words.iter().position(|word| word == flag).and_then(|at| words.get(at + 1));
    next.map(Into::into).or_else(|| words.iter().find_map(joined))
}
