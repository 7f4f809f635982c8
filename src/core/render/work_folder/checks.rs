//! Checks of a work as a whole: its objects, its size, and what the operator allows.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;

use serde_json::Value;

use super::diagnostics::WorkDiagnostics;
use super::folder_config::FolderConfig;
use super::inherited::Inherited;
use crate::config::tenancy;
use crate::config::tenancy::{Breach, Tenancy, Tenant};
use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope, Severity};
use crate::model::manifest::{Identity, Manifest, Origin};
use crate::model::name::RepoPath;
use crate::text::truncate::truncate_chars;

/// Checks that a work has objects, none of them twice, and that the hub takes them.
pub fn check_objects(
    path: &RepoPath,
    manifests: &[Manifest],
    diagnostics: &mut WorkDiagnostics<'_>,
) {
    check_duplicates(manifests, diagnostics);
    if manifests.is_empty() && !diagnostics.freezes_work() {
        let message = "this work folder holds no manifest";
        diagnostics.add(Code::EmptyWork, Location::file(path), message);
    }
    check_size(path, manifests, diagnostics);
}

fn check_duplicates(manifests: &[Manifest], diagnostics: &mut WorkDiagnostics<'_>) {
    let mut first: HashMap<&Identity, &Origin> = HashMap::with_capacity(manifests.len());
    let mut by_origin: Vec<&Manifest> = manifests.iter().collect();
    by_origin.sort_by(|a, b| a.origin.cmp(&b.origin));
    for manifest in by_origin {
        match first.entry(&manifest.identity) {
            Entry::Occupied(first) => {
                let message = format!("{} occurs twice in this work", manifest.identity);
                let diagnostic = diagnostics.of(Code::DuplicateObject, location(manifest), message);
                let there = Location::at(&first.get().file, first.get().span);
                diagnostics.push(diagnostic.with_related(there, "first here"));
            }
            Entry::Vacant(place) => drop(place.insert(&manifest.origin)),
        }
    }
}

/// Where a manifest stands.
pub fn location(manifest: &Manifest) -> Location {
    Location::at(&manifest.origin.file, manifest.origin.span)
}

/// The size that the hub's webhook counts for a manifest, in bytes (OCM work webhook).
pub fn wire_size(manifest: &Value) -> usize {
    let mut bytes = ByteCount(0);
    // Neither the count nor the text of a value fails.
    let _ = serde_json::to_writer(&mut bytes, manifest);
    field_size(bytes.0)
}

/// Counts the bytes of a text.
struct ByteCount(usize);

impl io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A protobuf field: a tag, a length and the bytes.
fn field_size(json_bytes: usize) -> usize {
    let mut varint = 1;
    let mut rest = json_bytes >> 7;
    while rest > 0 {
        varint += 1;
        rest >>= 7;
    }
    1 + varint + json_bytes
}

fn check_size(path: &RepoPath, manifests: &[Manifest], diagnostics: &mut WorkDiagnostics<'_>) {
    let mut sizes: Vec<(usize, &Manifest)> =
        manifests.iter().map(|m| (wire_size(&m.object), m)).collect();
    let total: usize = sizes.iter().map(|(size, _)| size).sum();
    if total <= limits::WORK_BYTES_MAX {
        return;
    }
    sizes.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.identity.cmp(&b.1.identity)));
    let message =
        format!("the work has {total} bytes; the hub takes at most {}", limits::WORK_BYTES_MAX);
    let mut diagnostic = diagnostics.of(Code::WorkTooLarge, Location::file(path), message);
    for (size, manifest) in sizes.iter().take(5) {
        let why = format!("{} has {size} bytes", manifest.identity);
        diagnostic = diagnostic.with_related(location(manifest), why);
    }
    diagnostics.push(diagnostic);
}

/// Whether the operator's policy allows the work. Reports each breach.
pub fn check_tenancy(
    tenancy: &Tenancy,
    tenant: &Tenant<'_>,
    folder: &FolderConfig<'_>,
    diagnostics: &mut WorkDiagnostics<'_>,
) -> bool {
    let breaches = tenancy.breaches(tenant);
    for breach in &breaches {
        if let Some((at, message)) = explain(breach, tenant, folder) {
            diagnostics.add(Code::NotAllowed, at, message);
        }
    }
    breaches.is_empty()
}

/// The error for a folder that may have no work at all.
pub fn folder_refused(
    breach: &Breach,
    path: &RepoPath,
    inherited: &Inherited<'_>,
    scope: &Scope,
) -> Diagnostic {
    let cluster = inherited.cluster;
    let message = match breach {
        Breach::Cluster => format!("this folder may have no works on the cluster {cluster}"),
        _ => "no rule of the operator's policy is for this folder".to_owned(),
    };
    let refused = Diagnostic::new(Code::NotAllowed, Location::file(path), scope.clone(), message);
    // A cluster can set its labels, and with them get into a group: that is no error in Git.
    match (breach, inherited.group) {
        (Breach::Cluster, Some(_)) => Diagnostic { severity: Severity::Warning, ..refused },
        _ => refused,
    }
}

/// Where a breach is, and what is not allowed there. `None` for an object that the work lacks,
/// and for a breach of the whole folder, which [`folder_refused`] explains.
fn explain(
    breach: &Breach,
    tenant: &Tenant<'_>,
    folder: &FolderConfig<'_>,
) -> Option<(Location, String)> {
    Some(match breach {
        Breach::Path | Breach::Cluster => return None,
        Breach::Name => (
            folder.location("/name"),
            format!(
                "this folder may have no work named {}",
                truncate_chars(tenant.work, limits::MESSAGE_TEXT_CHARS_MAX)
            ),
        ),
        Breach::Executor(Some(account)) => (
            folder.location("/executor"),
            format!("this folder may not have its objects applied as {account}"),
        ),
        Breach::Executor(None) => (
            folder.location("/executor"),
            "this folder must name an executor: without one its objects are applied with the \
             agent's own rights"
                .into(),
        ),
        Breach::Object(index) => {
            let manifest = tenant.manifests.get(*index)?;
            let kind = tenancy::kind_name(manifest);
            let reach = match manifest.identity.namespace.as_str() {
                "" => "for a whole cluster".to_owned(),
                namespace => format!("in the namespace {namespace}"),
            };
            (location(manifest), format!("this folder may have no {kind} {reach}"))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_sizes_count_as_the_webhook_does() {
        for (json_bytes, expected) in
            [(0, 2), (127, 129), (128, 131), (16_383, 16_386), (16_384, 16_388)]
        {
            assert_eq!(field_size(json_bytes), expected, "{json_bytes}");
        }
    }
}
