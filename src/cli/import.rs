//! `import`: turns ManifestWorks and other objects into work folders that render to the same.

mod cleaned_object;
mod draft;
mod file_names;
mod foreign_work;
mod import_error;
mod input;
mod plurals;
mod rules;
mod same_content;
mod work_files;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;

use super::completion;
use super::current_folder::top_of_source;
use super::error::CommandError;
use super::exit::Exit;
use super::new_files;
use super::output;
use super::source_args::{FilterArgs, HubArgs};
use super::suspend::work_key;
pub(crate) use draft::Draft;
pub(crate) use foreign_work::ForeignWork;
use gitwork_core::model::name::WorkKey;
use gitwork_core::text::style::count;
use input::Input;
pub(crate) use input::{is_manifest_work, read_all_objects, work_key as key_of_object};
pub(crate) use work_files::WorkFiles;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// Files with ManifestWorks or other objects, as YAML or JSON; `-` is stdin. Without files, the
    /// ManifestWorks on the hub are imported
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Work for the objects that are not ManifestWorks
    #[arg(
        long,
        value_name = "CLUSTER/WORK",
        value_parser = work_key,
        requires = "files",
        add = completion::cluster_works(),
    )]
    into: Option<WorkKey>,
    /// Folder of the source, which has `clusters/` [default: this folder, or the one above in the
    /// working tree that has `gitwork.yaml`, `clusters/` or `groups/`]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Show what would be written, without the values of Secrets
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    hub: HubArgs,
}

const EXAMPLES: &str = "\
Examples:
  gitwork import --dry-run                            show what the works of the hub become
  gitwork import --cluster 'edge-*' --work shop       import some works of the hub
  gitwork import shop.yaml                            import ManifestWorks from a file
  kubectl get deploy,svc,cm -n shop -o yaml | gitwork import - --into edge-1/shop
                                                      import objects of a cluster

Nothing is overwritten: a work whose folder is there already is not imported. A work is imported
only if its folder renders to the same ManifestWork. Afterwards `gitwork adopt` hands the works on
the hub to the source.";

/// Runs `gitwork import`.
pub fn import(args: &ImportArgs) -> Result<Exit, CommandError> {
    let filter = args.filter.filter()?;
    let folder = args.out.clone().unwrap_or_else(|| top_of_source(Path::new(".")));
    let input = match args.files.is_empty() {
        true => Input::of_hub(&args.hub, &args.filter, &filter)?,
        false => Input::of_files(&args.files, args.into.as_ref(), &filter)?,
    };
    let Input { works, skipped, mut refused } = input;
    for skipped in &skipped {
        output::note(&format!("skipped {skipped}"));
    }
    let draft = Draft::of_folder(&folder)?;
    let (accepted, not_equal) = check_all(works, &folder, &draft)?;
    refused.extend(not_equal);
    for work in &accepted {
        note_remarks(work);
        match args.dry_run {
            true => output::print(&work.shown())?,
            false => write(&folder, work)?,
        }
    }
    let has_conflicts = draft.note_conflicts(&accepted)?;
    for refused in &refused {
        output::error(refused);
    }
    if !accepted.is_empty() && !args.dry_run {
        output::note(
            "next: run `gitwork validate`, commit, and hand each work that is on the hub to the \
             source with `gitwork adopt CLUSTER/WORK`",
        );
    }
    Ok(if refused.is_empty() && !has_conflicts { Exit::Done } else { Exit::Failed })
}

/// The files of the works that can be imported, and why the others cannot.
fn check_all(
    works: Vec<ForeignWork>,
    folder: &Path,
    draft: &Draft,
) -> Result<(Vec<WorkFiles>, Vec<String>), CommandError> {
    let (mut accepted, mut refused) = (Vec::new(), Vec::new());
    let mut keys = BTreeSet::new();
    for work in works {
        let key = work.key.clone();
        if !keys.insert(key.clone()) {
            refused.push(format!("{key} is there twice; the second one is not imported"));
            continue;
        }
        let files = WorkFiles::of(&work);
        let at = folder.join(files.folder.as_str());
        if at.symlink_metadata().is_ok() {
            refused.push(format!(
                "{key} is not imported: {} is there already; move it away to import the work",
                files.folder
            ));
            continue;
        }
        let (files, problem) = draft.check(&work, files)?;
        match problem {
            None => accepted.push(files),
            Some(problem) => refused.push(format!("{key} is not imported: {problem}")),
        }
    }
    Ok((accepted, refused))
}

/// Warns of values of Secrets, which the next commit brings into Git, and names what is left out.
fn note_remarks(work: &WorkFiles) {
    for secret in &work.secrets {
        output::note(&format!(
            "warning: {}: a commit brings the values of {secret} into Git, where every reader of \
             the repository sees them",
            work.key
        ));
    }
    for dropped in &work.dropped {
        output::note(&format!("{}: left out {dropped}", work.key));
    }
}

fn write(folder: &Path, work: &WorkFiles) -> Result<(), CommandError> {
    for (file, text) in &work.files {
        if !new_files::create(folder, file, text)? {
            return Err(import_error::ImportError::Exists { file: file.clone() }.into());
        }
    }
    output::print(&format!("created {} ({})\n", work.folder, count(work.files.len(), "file")))
}
