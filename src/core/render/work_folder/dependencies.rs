//! `dependsOn` of work.yaml: the works that must be there first.

use std::sync::Arc;

use gitwork_api::names::NameError;

use super::diagnostics::WorkDiagnostics;
use super::folder_config::FolderConfig;
use crate::limits;
use crate::model::diagnostic::{Code, Span};
use crate::model::name::{ClusterName, WorkKey, WorkName};
use crate::text::truncate::truncate_chars;

/// A work that another one depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// The cluster; `None` for the one of the dependent work.
    pub cluster: Option<ClusterName>,
    /// The name of the work.
    pub work: WorkName,
    /// Its place in work.yaml.
    pub span: Option<Span>,
}

impl Dependency {
    /// The work, if the dependent work is one of this cluster.
    pub fn key(&self, cluster: &ClusterName) -> WorkKey {
        let cluster = self.cluster.as_ref().unwrap_or(cluster).clone();
        WorkKey { cluster, work: self.work.clone() }
    }

    /// The works, if the dependent work is one of this cluster; sorted, each once.
    pub(crate) fn keys(all: &[Self], cluster: &ClusterName) -> Arc<[WorkKey]> {
        if all.is_empty() {
            return Arc::default();
        }
        let mut keys: Vec<WorkKey> = all.iter().map(|one| one.key(cluster)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.into()
    }
}

/// The dependencies of a folder's work. Reports names that no work can have.
pub(super) fn read(
    folder: &FolderConfig<'_>,
    diagnostics: &mut WorkDiagnostics<'_>,
) -> Arc<[Dependency]> {
    let entries = folder.work_file.map_or(&[][..], |config| &config.value.depends_on);
    if entries.is_empty() {
        // All folders share this one.
        return Arc::default();
    }
    let mut all = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let at = folder.location(&format!("/dependsOn/{index}"));
        let mut invalid = |what: &str, name: &str, why: NameError| {
            let name = truncate_chars(name, limits::MESSAGE_TEXT_CHARS_MAX);
            let message = format!("{name:?} cannot be the name of a {what}: it {why}");
            let found = diagnostics.of(Code::BadValue, at.clone(), message);
            diagnostics.push(found.with_field(format!("dependsOn[{index}]")));
        };
        let cluster = entry.cluster.as_deref().map(ClusterName::parse).transpose();
        let cluster = cluster.map_err(|why| {
            invalid("cluster", entry.cluster.as_deref().unwrap_or_default(), why);
        });
        let work = WorkName::parse(&entry.work).map_err(|why| invalid("work", &entry.work, why));
        if let (Ok(cluster), Ok(work)) = (cluster, work) {
            all.push(Dependency { cluster, work, span: at.span });
        }
    }
    all.into()
}
