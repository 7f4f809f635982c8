//! What a work folder is rendered from. Threads share it.

use std::sync::Arc;

use gitwork_schemas::KubernetesVersion;

use super::cluster::RenderedCluster;
use super::earlier::Earlier;
use super::inputs::{ClusterInputs, SourceInputs};
use crate::config::file_names::{CLUSTER_FILE, GROUP_FILE};
use crate::config::tenancy::Tenancy;
use crate::model::facts::KnownFacts;
use crate::model::kinds::KindIndex;
use crate::model::name::{ClusterName, ObjectId, RepoPath, SourceId};
use crate::model::snapshot::{ObjectError, Objects};
use crate::render::groups::{GroupConfig, Membership};
use crate::render::layout;
use crate::render::object_checks::{ObjectChecks, SchemaChecks};
use crate::render::parsed_files::ParsedFiles;
use crate::render::values::{ClusterValues, ValueLevel};
use crate::render::work_folder::{self, Inherited, Rendered, SettingsLevel};

/// A work folder of a cluster or of one of its groups.
pub(super) struct WorkPlace<'a> {
    pub(super) path: RepoPath,
    pub(super) tree: ObjectId,
    pub(super) group: Option<&'a Membership>,
}

/// What work folders follow from above them.
#[derive(Clone, Copy)]
pub(super) struct WorkInputs<'a> {
    pub(super) source: &'a SourceId,
    pub(super) tenancy: &'a Tenancy,
    /// How objects are checked.
    pub(super) checks: &'a SchemaChecks,
    /// What all works inherit.
    pub(super) inputs: &'a Arc<SourceInputs>,
    /// Groups as other commits have them.
    pub(super) earlier: &'a Earlier,
    pub(super) parsed: &'a ParsedFiles,
    /// The works are kept, and not only checked.
    pub(super) keeps_works: bool,
}

impl<'a> WorkInputs<'a> {
    /// Renders a folder with what it inherits.
    pub(super) fn render(
        &self,
        place: &WorkPlace<'_>,
        inherited: &Inherited<'_>,
        kinds: &KindIndex,
        objects: &dyn Objects,
    ) -> Result<Rendered, ObjectError> {
        let ignore = &self.source_of(place.group).ignore;
        work_folder::render(&place.path, place.tree, inherited, ignore, kinds, objects)
    }

    /// What a work folder inherits from gitwork.yaml. An earlier content of a group has that of its
    /// commit.
    pub(super) fn source_of(&self, group: Option<&Membership>) -> &'a Arc<SourceInputs> {
        let earlier = group.filter(|member| member.is_earlier);
        earlier.and_then(|member| self.earlier.source(&member.group)).unwrap_or(self.inputs)
    }

    /// What a work folder inherits.
    pub(super) fn inherited<'b>(
        &self,
        name: &'b ClusterName,
        group: Option<&'b Membership>,
        cluster: &'b RenderedCluster,
    ) -> Inherited<'b>
    where
        'a: 'b,
    {
        let (source, config) = (self.source_of(group), &cluster.inherited.config);
        let of_group = group.into_iter().flat_map(|member| {
            let file = layout::group_path(&member.group.name).join(GROUP_FILE);
            member.values().map(move |values| ValueLevel { file: file.clone(), values })
        });
        let group = group.map(|member| &member.group);
        let group_level =
            group.map(|group| &*group.config).map(|GroupConfig { file, rules, .. }| {
                SettingsLevel { settings: &file.defaults, rules }
            });
        let source_level = SettingsLevel { settings: &source.file.defaults, rules: &source.rules };
        let cluster_level = SettingsLevel { settings: &config.file.defaults, rules: &config.rules };
        let file = layout::cluster_path(name).join(CLUSTER_FILE);
        let own = ValueLevel { file, values: &config.values };
        Inherited {
            source: self.source,
            tenancy: self.tenancy,
            cluster: name,
            group: group.map(|group| &group.name),
            levels: [Some(source_level), group_level, Some(cluster_level)]
                .into_iter()
                .flatten()
                .collect(),
            values: ClusterValues {
                cluster: name,
                levels: std::iter::once(own).chain(of_group).collect(),
                labels: &config.file.labels,
                facts: &cluster.facts,
            },
            secrets: source.file.secrets,
            reports_health: group.is_some_and(|group| group.rollout.is_some()),
            delivery: group.and_then(|group| group.delivery()),
            checks: self.checks(name, cluster),
            parsed: group.map(|_| self.parsed),
            keeps_works: self.keeps_works,
        }
    }

    /// How the objects of a cluster's works are checked.
    fn checks(&self, name: &ClusterName, cluster: &RenderedCluster) -> ObjectChecks {
        let ClusterInputs { source, config, .. } = &*cluster.inherited;
        let reported = match &cluster.facts {
            KnownFacts::Known(facts) => facts.version.as_deref(),
            KnownFacts::Unknown | KnownFacts::Absent => None,
        };
        let named = config.file.kubernetes_version.as_deref().or(reported);
        let version = named.and_then(KubernetesVersion::parse);
        let version = version.or(self.checks.kubernetes_version);
        ObjectChecks {
            policy: self.checks.policy(&source.file),
            cluster: gitwork_schemas::Cluster { name: name.to_string(), version },
            crds: self.checks.crds.clone(),
            relations: self.checks.relations,
        }
    }
}
