//! The approvals in a repository.

use std::collections::BTreeMap;

use crate::config::file_names::APPROVALS;
use crate::limits;
use crate::model::approval::{Approval, Approvals};
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::name::{ObjectId, RepoPath, SourceId};
use crate::model::operation_error::describe;
use crate::model::snapshot::{ObjectError, Objects};

/// Reads the files of `approvals`. One that cannot be used approves nothing, and stops nothing. If
/// they are too large together, none approves anything.
pub(super) fn read(
    source: &SourceId,
    files: BTreeMap<String, ObjectId>,
    objects: &dyn Objects,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Approvals, ObjectError> {
    let mut approved = Approvals::default();
    let mut bytes_left = limits::APPROVALS_BYTES_MAX;
    let folder = RepoPath::root().join(APPROVALS);
    let useless = |path: &RepoPath, message: String| {
        Diagnostic::new(Code::BadApproval, Location::file(path), Scope::Source, message)
    };
    for (name, id) in files {
        let bytes = objects.blob(id, limits::APPROVAL_BYTES_MAX.min(bytes_left));
        let is_too_much = match &bytes {
            Err(ObjectError::TooLarge { size, .. }) => *size <= limits::APPROVAL_BYTES_MAX as u64,
            _ => false,
        };
        let why = match bytes {
            Err(why) if !why.is_of_object() => return Err(why),
            Err(why) => Some(describe(&why)),
            Ok(bytes) => {
                bytes_left = bytes_left.saturating_sub(bytes.len());
                add(&mut approved, source, &name, &String::from_utf8_lossy(&bytes))
            }
        };
        if is_too_much || approved.works() > limits::WORKS_MAX {
            diagnostics.push(useless(&folder, too_large()));
            return Ok(Approvals::default());
        }
        let message = why.map(|why| format!("this file approves nothing: {why}"));
        diagnostics.extend(message.map(|message| useless(&folder.join(&name), message)));
    }
    Ok(approved)
}

/// Adds an approval, or gives why it counts for nothing.
fn add(approved: &mut Approvals, source: &SourceId, name: &str, text: &str) -> Option<String> {
    match Approval::read(name, text) {
        Ok(Approval::Origin { .. }) => {
            Some("another origin is approved on the hub only, with `gitwork approve`".into())
        }
        Ok(Approval::Trust { .. }) => {
            Some("a commit is trusted on the hub only, with `gitwork trust`".into())
        }
        Ok(approval) => {
            approved.add(source, approval);
            None
        }
        Err(why) => Some(describe(&why)),
    }
}

fn too_large() -> String {
    format!(
        "the approvals have more than {} MiB, or list more than {} works; no approval was read",
        limits::APPROVALS_BYTES_MAX / (1024 * 1024),
        limits::WORKS_MAX
    )
}
