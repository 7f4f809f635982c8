//! What a work folder inherits from above it.

use super::rule_index::ConfigIndex;
use super::settings::Settings;
use crate::config::file::Config;
use crate::config::tenancy::Tenancy;
use crate::config::{Delivery, SecretPolicy, WorkFile, WorkSettings};
use crate::model::diagnostic::Scope;
use crate::model::kinds::KindIndex;
use crate::model::name::{ClusterName, GroupName, SourceId};
use crate::render::manifests;
use crate::render::object_checks::ObjectChecks;
use crate::render::parsed_files::ParsedFiles;
use crate::render::values::ClusterValues;

/// What a work folder inherits from above it.
#[derive(Debug)]
pub struct Inherited<'a> {
    /// The source that the work belongs to.
    pub source: &'a SourceId,
    /// What the operator lets the folder do.
    pub tenancy: &'a Tenancy,
    /// The cluster that the work is for.
    pub cluster: &'a ClusterName,
    /// The group whose folder it is in; `None` for a cluster's own folder.
    pub group: Option<&'a GroupName>,
    /// Lowest precedence first: the defaults of `gitwork.yaml`, `group.yaml`, `cluster.yaml`.
    pub levels: Vec<SettingsLevel<'a>>,
    /// The values of variables.
    pub values: ClusterValues<'a>,
    /// What becomes of Secrets with data.
    pub secrets: SecretPolicy,
    /// Its group has `rollout`, which needs to know when workloads are ready.
    pub reports_health: bool,
    /// How the work becomes a ManifestWorkReplicaSet; `None` for a ManifestWork.
    pub delivery: Option<&'a Delivery>,
    /// How objects are checked.
    pub checks: ObjectChecks,
    /// The parsed files of groups' folders; `None` for a cluster's own folder.
    pub parsed: Option<&'a ParsedFiles>,
    /// The works are kept, and not only checked.
    pub keeps_works: bool,
}

impl Inherited<'_> {
    /// The settings of all levels, with those of work.yaml above them.
    pub(super) fn settings(&self, work_file: Option<&Config<WorkFile>>) -> Settings {
        Settings::merge(self.levels.iter().map(|level| level.settings), work_file)
    }

    /// What the objects of the folder's files are checked against. `namespace`: that of objects
    /// which have none, and whether the settings name a wrong one.
    pub(super) fn manifest_rules<'a>(
        &'a self,
        kinds: &'a KindIndex,
        scope: &'a Scope,
        (namespace, has_bad_namespace): (Option<&'a str>, bool),
    ) -> manifests::Rules<'a> {
        let (secrets, checks) = (self.secrets, &self.checks);
        manifests::Rules { kinds, secrets, scope, checks, namespace, has_bad_namespace }
    }
}

/// The settings that works inherit from one file.
#[derive(Debug, Clone, Copy)]
pub struct SettingsLevel<'a> {
    /// The file's `defaults`.
    pub settings: &'a WorkSettings,
    /// Of their `manifestConfigs`.
    pub rules: &'a ConfigIndex,
}
