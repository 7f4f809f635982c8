//! `gitwork.yaml` and `cluster.yaml`, out of a snapshot.

use crate::config::FileKind;
use crate::config::file;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::name::{ObjectId, RepoPath};
use crate::model::snapshot::{ObjectError, Objects};
use crate::render::snippets::add_snippets;

/// Reads `gitwork.yaml` or `cluster.yaml`, where there is one.
pub(crate) fn read_config<T: serde::de::DeserializeOwned + Default>(
    path: &RepoPath,
    blob: Option<ObjectId>,
    kind: FileKind,
    scope: &Scope,
    objects: &dyn Objects,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Option<file::Config<T>>, ObjectError> {
    let Some(blob) = blob else { return Ok(None) };
    let bytes = match objects.blob(blob, gitwork_yaml::limits::FILE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(ObjectError::TooLarge { size, limit, .. }) => {
            let message = format!("the file has {size} bytes; the limit is {limit}");
            diagnostics.push(Diagnostic::new(
                Code::FileTooLarge,
                Location::file(path),
                scope.clone(),
                message,
            ));
            return Ok(None);
        }
        Err(why) if why.is_of_object() => {
            let (code, at) = (Code::BadObject, Location::file(path));
            diagnostics.push(Diagnostic::new(code, at, scope.clone(), why.to_string()));
            return Ok(None);
        }
        Err(why) => return Err(why),
    };
    let (config, mut found) = file::read_one(path, &bytes, kind, scope);
    add_snippets(&mut found, &[(path.clone(), bytes)].into());
    diagnostics.extend(found);
    Ok(config)
}
