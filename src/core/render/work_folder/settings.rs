//! The settings of a work: those of all levels, merged.

use std::collections::{BTreeMap, BTreeSet};

use gitwork_api::escape::pointer_token;
use gitwork_api::names;
use serde_json::Value;

use super::diagnostics::WorkDiagnostics;
use super::folder_config::FolderConfig;
use crate::config::file::Config;
use crate::config::{WorkFile, WorkSettings};
use crate::model::diagnostic::{Code, Location};
use crate::model::manifest::Identity;
use crate::model::name::RepoPath;
use crate::model::work;
use crate::model::work::DeletionPolicy;

/// The settings of all levels, merged.
#[derive(Debug)]
pub struct Settings {
    /// Labels of the ManifestWork.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the ManifestWork.
    pub annotations: BTreeMap<String, String>,
    /// `spec.deleteOption` as written; sidecars may add to it.
    pub delete_option: Option<Value>,
    /// `spec.executor` as written.
    pub executor: Option<Value>,
    /// Whether the work is deleted once Git drops it.
    pub prune: bool,
    /// Whether nothing is written for the work.
    pub suspend: bool,
    /// Whether `${NAME}` in manifests is replaced.
    pub substitute: bool,
    /// The namespace of objects that have none. It may be invalid.
    pub namespace: Option<String>,
    /// Whether the work has the Namespace itself, too.
    pub create_namespace: bool,
}

impl Settings {
    /// Merges `levels`, lowest precedence first, and work.yaml above them.
    pub fn merge<'a>(
        levels: impl Iterator<Item = &'a WorkSettings>,
        work_file: Option<&Config<WorkFile>>,
    ) -> Self {
        let mut merged = Self {
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            delete_option: None,
            executor: None,
            prune: true,
            suspend: false,
            substitute: false,
            namespace: None,
            create_namespace: false,
        };
        for level in levels {
            merged.labels.extend(level.labels.clone());
            merged.annotations.extend(level.annotations.clone());
            merged.overlay(
                &level.delete_option,
                &level.executor,
                [level.prune, level.suspend, level.substitute],
            );
            merged.overlay_namespace(level.namespace.as_ref(), level.create_namespace);
        }
        if let Some(Config { value: file, .. }) = work_file {
            merged.labels.extend(file.labels.clone());
            merged.annotations.extend(file.annotations.clone());
            merged.overlay(
                &file.delete_option,
                &file.executor,
                [file.prune, file.suspend, file.substitute],
            );
            merged.overlay_namespace(file.namespace.as_ref(), file.create_namespace);
        }
        merged
    }

    /// Takes what a higher level sets.
    fn overlay(
        &mut self,
        delete_option: &Option<Value>,
        executor: &Option<Value>,
        flags: [Option<bool>; 3],
    ) {
        if delete_option.is_some() {
            self.delete_option.clone_from(delete_option);
        }
        if executor.is_some() {
            self.executor.clone_from(executor);
        }
        let [prune, suspend, substitute] = flags;
        self.prune = prune.unwrap_or(self.prune);
        self.suspend = suspend.unwrap_or(self.suspend);
        self.substitute = substitute.unwrap_or(self.substitute);
    }

    /// Takes the namespace that a higher level sets.
    fn overlay_namespace(&mut self, namespace: Option<&String>, create: Option<bool>) {
        if let Some(namespace) = namespace {
            self.namespace = Some(namespace.clone());
        }
        self.create_namespace = create.unwrap_or(self.create_namespace);
    }

    /// Checks that labels and annotations are ones that Kubernetes takes, and not gitwork's own.
    pub fn check_metadata(&self, folder: &FolderConfig<'_>, diagnostics: &mut WorkDiagnostics<'_>) {
        for (field, map, is_label) in
            [("labels", &self.labels, true), ("annotations", &self.annotations, false)]
        {
            for (key, value) in map {
                let Some(problem) = metadata_problem(key, value, is_label) else { continue };
                let pointer = format!("/{field}/{}", pointer_token(key));
                let message = format!("the key {key:?} {problem}");
                let diagnostic = diagnostics.of(Code::BadValue, folder.location(&pointer), message);
                diagnostics.push(diagnostic.with_field(format!("{field}.{key}")));
            }
        }
    }

    /// The work's deleteOption, with the orphaning rules of its sidecars.
    pub fn deletion_policy(
        &self,
        orphans: BTreeSet<Identity>,
        path: &RepoPath,
        diagnostics: &mut WorkDiagnostics<'_>,
    ) -> DeletionPolicy {
        let own = self.delete_option.as_ref().map(DeletionPolicy::from_value).unwrap_or_default();
        if orphans.is_empty() {
            return own;
        }
        match own {
            DeletionPolicy::Foreground => DeletionPolicy::SelectivelyOrphan(orphans),
            DeletionPolicy::SelectivelyOrphan(mut rules) => {
                rules.extend(orphans);
                DeletionPolicy::SelectivelyOrphan(rules)
            }
            DeletionPolicy::Orphan => {
                let message = "`orphan: true` is without effect: the work's deleteOption orphans \
                               every object";
                diagnostics.add(Code::NoEffect, Location::file(path), message);
                DeletionPolicy::Orphan
            }
        }
    }
}

/// What is wrong with a label or an annotation, as a clause.
fn metadata_problem(key: &str, value: &str, is_label: bool) -> Option<String> {
    if key.starts_with(work::PREFIX) || (is_label && key == work::LABEL_MANAGED_BY) {
        return Some("is reserved for gitwork".to_owned());
    }
    let problem = names::check_qualified_name(key);
    problem.or_else(|| is_label.then(|| names::check_label_value(value)).flatten())
}
