//! How commands check objects against schemas.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::Value;

use gitwork_core::config::{DaemonSource, SchemaPolicy};
use gitwork_core::model::diagnostic::{Diagnostic, Scope};
use gitwork_core::model::name::RepoPath;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::render::object_checks::{ExtraCrds, KubernetesVersion, SchemaChecks};
use gitwork_core::text::yaml;

use super::error::CommandError;
use super::output;

/// Files that are read in a folder of CRDs.
const FILES_MAX: usize = 10_000;

/// Bytes that are read in a folder of CRDs.
const BYTES_MAX: usize = 64 * 1024 * 1024;

#[derive(Debug, Clone, Default, Args)]
pub struct ObjectCheckArgs {
    /// Check objects for this Kubernetes version, as in 1.31, on clusters whose version neither the
    /// hub nor cluster.yaml tells [default: any supported version]
    #[arg(long, value_name = "VERSION", value_parser = version)]
    kubernetes_version: Option<KubernetesVersion>,
    /// Folder with CRDs that are not in the repository, as YAML or JSON. Custom objects are checked
    /// against them [default: from --config]
    #[arg(long, value_name = "DIR")]
    schemas: Option<PathBuf>,
}

fn version(text: &str) -> Result<KubernetesVersion, String> {
    KubernetesVersion::parse(text).ok_or_else(|| "not a version such as 1.31".to_owned())
}

/// Why a folder of CRDs cannot be used.
#[derive(Debug, thiserror::Error)]
enum SchemaFolderError {
    /// It cannot be read.
    #[error("cannot read the CRDs in {}: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    /// It has too many files, or too large ones.
    #[error(
        "{} has more than {} files or {} MiB; name a folder with the CRDs only",
        .path.display(), FILES_MAX, BYTES_MAX / 1024 / 1024
    )]
    TooLarge { path: PathBuf },
}

impl OperationError for SchemaFolderError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "Schemas"
    }
}

impl ObjectCheckArgs {
    /// The checks of a command that does what the daemon does. The arguments come before the entry
    /// of the daemon's file.
    pub fn checks(&self, entry: Option<&DaemonSource>) -> Result<SchemaChecks, CommandError> {
        let of_entry = entry.and_then(|entry| entry.schemas.as_deref()).map(Path::new);
        let crds = match self.schemas.as_deref().or(of_entry) {
            Some(folder) => read_crds(folder)?,
            None => ExtraCrds::default(),
        };
        Ok(SchemaChecks {
            operator: entry.and_then(|entry| entry.schema_problems),
            default: Some(SchemaPolicy::Warn),
            kubernetes_version: self.kubernetes_version,
            crds: Arc::new(crds),
            relations: false,
        })
    }
}

/// Reads the CRDs in a folder and the folders in it.
fn read_crds(folder: &Path) -> Result<ExtraCrds, SchemaFolderError> {
    let failed = |path: &Path, source| SchemaFolderError::Read { path: path.to_owned(), source };
    let too_large = || SchemaFolderError::TooLarge { path: folder.to_owned() };
    let (mut folders, mut files) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(|why| failed(&folder, why))? {
            let path = entry.map_err(|why| failed(&folder, why))?.path();
            let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
            if path.is_dir() {
                folders.push(path);
            } else if matches!(ending, "yaml" | "yml" | "json") {
                files.push(path);
            }
        }
        if files.len() + folders.len() > FILES_MAX {
            return Err(too_large());
        }
    }
    files.sort();
    let (mut bytes, mut objects) = (0, Vec::new());
    for path in files {
        let text = std::fs::read(&path).map_err(|why| failed(&path, why))?;
        bytes += text.len();
        if bytes > BYTES_MAX {
            return Err(too_large());
        }
        let read = yaml::read(&RepoPath::root(), &text, &Scope::Source);
        if read.diagnostics.iter().any(Diagnostic::is_error) {
            output::note(&format!("{} is not valid YAML; its CRDs are not used", path.display()));
        }
        objects.extend(read.documents.into_iter().map(|one| one.value));
    }
    Ok(ExtraCrds::new(objects.iter().flat_map(items)))
}

/// An object, or the items of a list of objects.
fn items(object: &Value) -> impl Iterator<Item = &Value> {
    let items = object.get("items").and_then(Value::as_array);
    std::iter::once(object).chain(items.into_iter().flatten())
}
