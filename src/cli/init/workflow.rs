//! The workflow file that checks pull requests on a forge.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use gitwork_core::model::name::RepoPath;
use gitwork_git::LocalRepository;

/// A forge that can check pull requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorkflowForge {
    Github,
    Gitlab,
    /// Gitea and Forgejo
    Gitea,
    /// Make no workflow
    None,
}

/// GitHub's workflow, which Gitea and Forgejo can run, too.
const GITHUB: &str = include_str!("github.yaml");
const GITLAB: &str = include_str!("gitlab.yaml");

/// A workflow file.
#[derive(Debug, PartialEq, Eq)]
pub struct Workflow {
    /// The top of the working tree, or the folder if it is in none.
    pub working_tree: PathBuf,
    /// Its path from there.
    pub file: RepoPath,
    pub text: String,
}

/// Why there is no workflow.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoWorkflow {
    /// `--forge none`.
    #[error("--forge none was given")]
    NotWanted,
    /// The folder is in no Git repository with a remote.
    #[error("there is no Git remote; name the forge with --forge")]
    NoRemote,
    /// The remote is on an unknown host.
    #[error("the Git remote {0} names no known forge; name it with --forge")]
    UnknownForge(String),
    /// The folder's path cannot be part of a script.
    #[error("the path {0:?} has characters other than letters, digits and `._/-`")]
    Path(String),
}

/// The workflow for a folder. `forge`: the one that the user names.
pub fn workflow(folder: &Path, forge: Option<WorkflowForge>) -> Result<Workflow, NoWorkflow> {
    let repository = LocalRepository::discover(folder).ok();
    let forge = match forge {
        Some(forge) => forge,
        None => {
            let remote = repository.as_ref().and_then(LocalRepository::upstream);
            let remote = remote.ok_or(NoWorkflow::NoRemote)?;
            forge_of_remote(&remote).ok_or(NoWorkflow::UnknownForge(remote))?
        }
    };
    let (template, file) = match forge {
        WorkflowForge::Github => (GITHUB, ".github/workflows/gitwork.yaml"),
        WorkflowForge::Gitea => (GITHUB, ".gitea/workflows/gitwork.yaml"),
        WorkflowForge::Gitlab => (GITLAB, ".gitlab-ci.yml"),
        WorkflowForge::None => return Err(NoWorkflow::NotWanted),
    };
    let tree = repository.as_ref().and_then(|found| Some((found.working_tree()?, found.path())));
    let (working_tree, path) =
        tree.map_or((folder, RepoPath::root()), |(top, path)| (top, path.clone()));
    let file = file.split('/').fold(RepoPath::root(), |path, part| path.join(part));
    let text = template.replace("{path}", &path_flag(&path)?);
    Ok(Workflow { working_tree: working_tree.to_owned(), file, text })
}

/// The flag for the folder of the source; empty for the top of the repository.
fn path_flag(path: &RepoPath) -> Result<String, NoWorkflow> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | '-');
    match path.as_str() {
        "" => Ok(String::new()),
        path if path.chars().all(is_plain) => Ok(format!(" --path {path}")),
        path => Err(NoWorkflow::Path(path.to_owned())),
    }
}

/// The forge of a repository, named as `host/path`.
fn forge_of_remote(remote: &str) -> Option<WorkflowForge> {
    let host = remote.split('/').next().filter(|host| !host.is_empty())?;
    let host = host.split(':').next().unwrap_or_default();
    let known = [
        ("github", WorkflowForge::Github),
        ("gitlab", WorkflowForge::Gitlab),
        ("gitea", WorkflowForge::Gitea),
        ("forgejo", WorkflowForge::Gitea),
        ("codeberg", WorkflowForge::Gitea),
    ];
    let named = |name: &str| host.split('.').any(|label| label.split('-').any(|it| it == name));
    known.into_iter().find(|(name, _)| named(name)).map(|(_, forge)| forge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forge_is_that_of_the_host_and_not_of_the_path() {
        for (remote, expected) in [
            ("github.com/acme/fleet", Some(WorkflowForge::Github)),
            ("github.example.com/acme/fleet", Some(WorkflowForge::Github)),
            ("gitlab.com/acme/fleet", Some(WorkflowForge::Gitlab)),
            ("my-gitlab.example.com:8443/acme/fleet", Some(WorkflowForge::Gitlab)),
            ("codeberg.org/acme/fleet", Some(WorkflowForge::Gitea)),
            ("forgejo.example.com/acme/fleet", Some(WorkflowForge::Gitea)),
            ("git.example.com/github/fleet", None),
            ("notgithub.com/acme/fleet", None),
            ("/home/ann/github", None),
        ] {
            assert_eq!(forge_of_remote(remote), expected, "{remote}");
        }
    }

    #[test]
    fn paths_that_a_shell_could_misread_are_refused() {
        let flag = |path: &str| path_flag(&RepoPath::parse(path).unwrap());
        assert_eq!(flag(""), Ok(String::new()));
        assert_eq!(flag("fleet/eu-1"), Ok(" --path fleet/eu-1".into()));
        for path in ["a b", "$(touch x)", "a;b", "ü"] {
            assert_eq!(flag(path), Err(NoWorkflow::Path(path.into())));
        }
    }
}
