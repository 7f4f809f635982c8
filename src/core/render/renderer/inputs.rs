//! What works inherit from `gitwork.yaml` and `cluster.yaml`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::config::file;
use crate::config::file_names::SOURCE_FILE;
use crate::config::path_patterns::PathPatterns;
use crate::config::{ClusterFile, FileKind, SourceFile};
use crate::model::diagnostic::{Code, Diagnostic, Scope};
use crate::model::digest::Digest;
use crate::model::name::{ObjectId, RepoPath};
use crate::model::snapshot::{ObjectError, Objects};
use crate::render::config_file::read_config;
use crate::render::groups::{GroupDefaults, GroupWaves, defaults_digest, fields_digest};
use crate::render::values::FileValues;
use crate::render::work_folder::ConfigIndex;

/// What a cluster's works inherit.
#[derive(Debug)]
pub(super) struct ClusterInputs {
    pub(super) source: Arc<SourceInputs>,
    /// Of cluster.yaml; `None` where there is none.
    pub(super) cluster_blob: Option<ObjectId>,
    pub(super) config: Arc<ClusterConfig>,
}

/// What a cluster.yaml says. Clusters with equal files share it.
#[derive(Debug)]
pub(super) struct ClusterConfig {
    pub(super) file: ClusterFile,
    /// Of `file.defaults`.
    pub(super) rules: ConfigIndex,
    /// The values of `${NAME}`.
    pub(super) values: FileValues,
    /// Of `file.defaults`, as written.
    pub(super) defaults_digest: Digest,
    /// Whether nothing is wrong with it, so that it need not be read again for another cluster.
    pub(super) is_valid: bool,
}

/// What all works inherit.
#[derive(Debug)]
pub(super) struct SourceInputs {
    /// Of gitwork.yaml; `None` where there is none.
    pub(super) blob: Option<ObjectId>,
    pub(super) file: SourceFile,
    /// Of `file.defaults`.
    pub(super) rules: ConfigIndex,
    /// The paths that are not read.
    pub(super) ignore: PathPatterns,
    /// How changes of groups reach their clusters, if the file says it.
    waves: Option<Arc<GroupWaves>>,
    /// Identifies what works follow from.
    content: Digest,
}

impl SourceInputs {
    /// Reads gitwork.yaml; without it, everything has its default.
    pub(super) fn read(
        blob: Option<ObjectId>,
        objects: &dyn Objects,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Self, ObjectError> {
        let path = RepoPath::root().join(SOURCE_FILE);
        let read =
            read_config(&path, blob, FileKind::Source, &Scope::Source, objects, diagnostics)?;
        let config: file::Config<SourceFile> = match read {
            Some(config) => config,
            None => {
                return Ok(Self {
                    blob,
                    file: SourceFile::default(),
                    rules: ConfigIndex::default(),
                    ignore: PathPatterns::new(&[]).0,
                    waves: None,
                    content: Digest::of_json(&Value::Null),
                });
            }
        };
        let windows = config.value.windows.problems().into_iter();
        let windows =
            windows.map(|problem| (format!("/windows{}", problem.pointer), problem.message));
        let signers = config.value.signers.problems().into_iter();
        let signers =
            signers.map(|problem| (format!("/signers{}", problem.pointer), problem.message));
        let mut rollout = Vec::new();
        if let Some(settings) = &config.value.rollout {
            settings.each_problem(&mut |found| rollout.push((found.pointer, found.message)));
        }
        for (pointer, message) in windows.chain(signers).chain(rollout) {
            let (at, field) = (config.location(&pointer), file::dotted(&pointer));
            let message = format!("{field} {message}");
            diagnostics.push(
                Diagnostic::new(Code::BadValue, at, Scope::Source, message).with_field(field),
            );
        }
        let (ignore, bad) = PathPatterns::new(&config.value.ignore);
        for (index, why) in bad {
            let at = config.location(&format!("/ignore/{index}"));
            diagnostics.push(
                Diagnostic::new(
                    Code::BadValue,
                    at,
                    Scope::Source,
                    format!("this is no ignore pattern: {why}"),
                )
                .with_field(format!("ignore[{index}]")),
            );
        }
        let rules = ConfigIndex::new(&config.value.defaults.manifest_configs);
        // What works follow from.
        let content = fields_digest(&config.document.value, &["defaults", "ignore", "secrets"]);
        let waves = config.value.rollout.as_ref();
        let waves = waves.map(|settings| Arc::new(GroupWaves::new(settings)));
        Ok(Self { blob, file: config.value, rules, ignore, waves, content })
    }

    /// What groups inherit.
    pub(super) fn of_groups(&self) -> GroupDefaults<'_> {
        GroupDefaults {
            blob: self.blob,
            ignore: &self.ignore,
            waves: self.waves.as_ref(),
            content: self.content,
        }
    }
}

impl ClusterConfig {
    /// What the works of a cluster inherit from its cluster.yaml; without one, nothing.
    pub(super) fn new(config: Option<file::Config<ClusterFile>>, is_valid: bool) -> Self {
        let defaults_digest = defaults_digest(config.as_ref());
        let file = config.map(|config| config.value).unwrap_or_default();
        let values = file.values.iter().map(|(name, value)| (name.clone(), value.0.clone()));
        let rules = ConfigIndex::new(&file.defaults.manifest_configs);
        let values = FileValues::from(values.collect::<BTreeMap<_, _>>());
        Self { rules, values, defaults_digest, is_valid, file }
    }
}

impl ClusterInputs {
    /// Whether they come from the same files.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.source.blob == other.source.blob && self.cluster_blob == other.cluster_blob
    }
}
