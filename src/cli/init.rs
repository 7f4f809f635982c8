//! `init`: makes a first repository.

mod workflow;

use std::path::{Path, PathBuf};

use clap::Args;

use super::current_folder::top_of_source;
use super::error::CommandError;
use super::exit::Exit;
use super::new_files;
use super::output;
use super::source_args::cluster_name;
use gitwork_core::config::file_names::{CLUSTERS, GROUPS, SOURCE_FILE};
use gitwork_core::model::name::{ClusterName, RepoPath};
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use workflow::{WorkflowForge, workflow};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct InitArgs {
    /// Folder for the files; it is made if there is none [default: this folder, or the one above
    /// in the working tree that has `gitwork.yaml`, `clusters/` or `groups/`]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Add a folder for this ManagedCluster, with a first work
    #[arg(long, value_name = "NAME", value_parser = cluster_name)]
    cluster: Option<ClusterName>,
    /// Forge whose workflow checks pull requests [default: the one that the URL of the Git remote
    /// names]
    #[arg(long, value_enum)]
    forge: Option<WorkflowForge>,
}

const EXAMPLES: &str = "\
Examples:
  gitwork init --cluster edge-1          make a first repository in this folder
  gitwork init fleet --cluster edge-1    make it in the folder fleet
  gitwork init --cluster edge-2          add a cluster to it
  gitwork init --forge gitlab            add a pipeline for GitLab

Files that are there already are left as they are.";

/// Why nothing was made.
#[derive(Debug, thiserror::Error)]
enum InitError {
    /// The folder's path is that of a file.
    #[error("{} is not a folder", .path.display())]
    NotAFolder { path: PathBuf },
}

impl OperationError for InitError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "NotAFolder"
    }
}

const SOURCE_TEXT: &str = "\
# Settings for all works. `gitwork schema gitwork` prints all fields.

# A Secret whose data is in Git: allow, warn or refuse.
secrets: warn
";

const CLUSTERS_TEXT: &str = "\
# Clusters

Each folder here has the name of a ManagedCluster. Each folder in it is one ManifestWork for that
cluster. `gitwork init --cluster NAME` adds a cluster with a first work.
";

const NAMESPACE_TEXT: &str = "\
apiVersion: v1
kind: Namespace
metadata:
  name: hello
";

const SETTINGS_TEXT: &str = "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: hello
  namespace: hello
data:
  greeting: Hello from Git
";

/// The folder of the first work.
const FIRST_WORK: &str = "hello";

/// Runs `gitwork init`.
pub fn init(args: &InitArgs) -> Result<Exit, CommandError> {
    let folder = args.folder.clone().unwrap_or_else(|| top_of_source(Path::new(".")));
    if folder.exists() && !folder.is_dir() {
        return Err(InitError::NotAFolder { path: folder }.into());
    }
    std::fs::create_dir_all(&folder)
        .map_err(|source| output::OutputError::File { path: folder.clone(), source })?;
    let made = MadeFiles { folder: &folder };
    made.file(&RepoPath::root().join(SOURCE_FILE), SOURCE_TEXT)?;
    made.clusters(args.cluster.as_ref())?;
    let workflow = workflow(&folder, args.forge);
    match &workflow {
        Ok(workflow) => {
            let made = MadeFiles { folder: &workflow.working_tree };
            match made.file(&workflow.file, &workflow.text)? {
                true => output::note(&format!(
                    "{}: set the variables GITWORK_URL and GITWORK_SHA256 of the repository on \
                     the forge; the file says what they are",
                    workflow.file
                )),
                false => output::note(
                    "pull requests are checked by `gitwork validate` and `gitwork plan --base \
                     REVISION`; add them to that file unless it has them",
                ),
            }
        }
        Err(why) => output::note(&format!("no workflow for pull requests: {why}")),
    }
    output::note(&next_steps(&folder, args.cluster.as_ref()));
    Ok(Exit::Done)
}

/// Makes files, and says which.
struct MadeFiles<'a> {
    folder: &'a Path,
}

impl MadeFiles<'_> {
    /// Makes a file unless it is there. Returns whether it was made.
    fn file(&self, file: &RepoPath, text: &str) -> Result<bool, CommandError> {
        let is_new = new_files::create(self.folder, file, text)?;
        if is_new {
            output::print(&format!("created {file}\n"))?;
        } else {
            output::note(&format!("{file} is there already; left as it is"));
        }
        Ok(is_new)
    }

    /// The folder of clusters, and in it that of the first cluster with a work. The folder of a
    /// cluster that is there gets no work: a commit would bring it to that cluster.
    fn clusters(&self, cluster: Option<&ClusterName>) -> Result<(), CommandError> {
        let clusters = RepoPath::root().join(CLUSTERS);
        let Some(cluster) = cluster else {
            let has_folder = [CLUSTERS, GROUPS].iter().any(|name| self.folder.join(name).is_dir());
            return match has_folder {
                true => Ok(()),
                false => self.file(&clusters.join("README.md"), CLUSTERS_TEXT).map(drop),
            };
        };
        let at = clusters.join(cluster.as_str());
        if self.folder.join(at.as_str()).exists() {
            output::note(&format!("{at} is there already; left as it is"));
            return Ok(());
        }
        let work = at.join(FIRST_WORK);
        self.file(&work.join("namespace.yaml"), NAMESPACE_TEXT)?;
        self.file(&work.join("settings.yaml"), SETTINGS_TEXT)?;
        Ok(())
    }
}

/// What the user may do next.
fn next_steps(folder: &Path, cluster: Option<&ClusterName>) -> String {
    let mut text = String::from("\nnext:\n");
    if folder != Path::new(".") {
        text.push_str(&format!("  cd {}\n", folder.display()));
    }
    if cluster.is_none() {
        text.push_str("  gitwork init --cluster NAME      add a ManagedCluster and a first work\n");
    }
    text.push_str(
        "  gitwork validate                 report every problem\n  \
         gitwork render                   print the ManifestWorks\n  \
         gitwork plan --source-id fleet   show what would change on the hub",
    );
    text
}
