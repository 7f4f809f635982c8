//! The repository as it would be with imported works, rendered in memory: a work is imported only
//! if its folder renders to the same ManifestWork.

use std::path::{Path, PathBuf};

use super::foreign_work::ForeignWork;
use super::import_error::ImportError;
use super::same_content::difference;
use super::work_files::WorkFiles;
use crate::bounded_file;
use crate::error::CommandError;
use crate::limits;
use crate::output;
use crate::text_objects::{TextObjects, Texts};
use gitwork_core::config::file_names::{CLUSTER_FILE, CLUSTERS, SOURCE_FILE};
use gitwork_core::model::diagnostic::Diagnostic;
use gitwork_core::model::name::{ClusterName, RepoPath, SourceId};
use gitwork_core::model::snapshot::Snapshot;
use gitwork_core::render::desired::Desired;
use gitwork_core::render::renderer::Renderer;
use gitwork_core::text::diagnostics;
use gitwork_core::text::style::ColorMode;

/// The folder of a source, with the settings that its works inherit.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// `None`: there are no settings.
    folder: Option<PathBuf>,
    /// gitwork.yaml, if there is one.
    source_file: Option<Vec<u8>>,
}

impl Draft {
    /// Reads the settings of a source.
    pub fn of_folder(folder: &Path) -> Result<Self, ImportError> {
        let source_file = read(&folder.join(SOURCE_FILE))?;
        Ok(Self { folder: Some(folder.to_owned()), source_file })
    }

    /// Renders the files of a work with the settings that it inherits. Returns the files, and why
    /// they do not render to the same work.
    pub fn check(
        &self,
        work: &ForeignWork,
        files: WorkFiles,
    ) -> Result<(WorkFiles, Option<String>), CommandError> {
        let desired = self.render([&files])?;
        let errors: Vec<Diagnostic> =
            desired.diagnostics.iter().filter(|found| found.is_error()).cloned().collect();
        let problem = match desired.works.get(&work.key) {
            None => Some(format!(
                "gitwork cannot render its folder\n{}",
                diagnostics::text(&errors, ColorMode::Plain).trim_end()
            )),
            Some(rendered) => {
                let rendered = rendered.body.spec.value();
                let changes = difference(&work.spec, &rendered, &work.plurals);
                changes.map(|changes| format!("its folder would not render to the same\n{changes}"))
            }
        };
        Ok((files, problem))
    }

    /// Notes errors between works, such as an object that two of them have. Returns whether there
    /// are any.
    pub fn note_conflicts(&self, works: &[WorkFiles]) -> Result<bool, CommandError> {
        let desired = self.render(works)?;
        let errors: Vec<Diagnostic> =
            desired.diagnostics.into_iter().filter(Diagnostic::is_error).collect();
        if !works.is_empty() && !errors.is_empty() {
            output::note("these works conflict with each other:");
            output::diagnostics(&errors);
        }
        Ok(!works.is_empty() && !errors.is_empty())
    }

    fn render<'a>(
        &self,
        works: impl IntoIterator<Item = &'a WorkFiles>,
    ) -> Result<Desired, CommandError> {
        let mut texts = Texts::new();
        let source_file = self.source_file.clone();
        texts.extend(source_file.map(|text| (RepoPath::root().join(SOURCE_FILE), text)));
        for work in works {
            let file = cluster_file(&work.key.cluster);
            if let Some(folder) = self.folder.as_ref().filter(|_| !texts.contains_key(&file))
                && let Some(text) = read(&folder.join(file.as_str()))?
            {
                texts.insert(file, text);
            }
            let files = work.files.iter();
            texts.extend(files.map(|(path, text)| (path.clone(), text.clone().into_bytes())));
        }
        let mut objects = TextObjects::default();
        let root = objects.add_folder(&texts);
        // Any id will do: the specs are compared, and not the labels.
        let source =
            SourceId::parse("import").map_err(|why| CommandError::usage(why.to_string()))?;
        let snapshot = Snapshot { commit: None, root, objects: &objects };
        Ok(Renderer::new(source).render(&snapshot)?)
    }
}

fn cluster_file(cluster: &ClusterName) -> RepoPath {
    RepoPath::root().join(CLUSTERS).join(cluster.as_str()).join(CLUSTER_FILE)
}

/// Reads a file; `None` if there is none. Of one that is too large, the renderer says so.
fn read(path: &Path) -> Result<Option<Vec<u8>>, ImportError> {
    let failed = |source| ImportError::Read { path: path.to_owned(), source };
    bounded_file::read(path, limits::IMPORT_BYTES_MAX).map_err(failed)
}
