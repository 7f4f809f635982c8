//! A group's folder: its group.yaml, and the work folders beside it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::matcher::{Certainty, ClusterMatcher, PlacementView};
use crate::config::file::{self, Config};
use crate::config::file_names::GROUP_FILE;
use crate::config::path_patterns::PathPatterns;
use crate::config::rollout::RolloutSettings;
use crate::config::values::{SubstitutionValue, bad_names};
use crate::config::{FileKind, GroupFile};
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::digest::Digest;
use crate::model::facts::KnownFacts;
use crate::model::name::{ClusterName, GroupName, ObjectId};
use crate::model::snapshot::{ObjectError, Objects};
use crate::render::config_file::read_config;
use crate::render::layout::{self, OwnerFolder};
use crate::render::work_folder::ConfigIndex;
use crate::rollout::RolloutRules;

/// What a group's folder says.
#[derive(Debug)]
pub struct GroupInputs {
    /// The name of its folder.
    pub name: GroupName,
    /// Of `groups/<group>`.
    pub tree: ObjectId,
    /// Of gitwork.yaml, which says what is ignored.
    pub source_blob: Option<ObjectId>,
    /// The work folders.
    pub folder: OwnerFolder,
    /// group.yaml, as far as it can be read.
    pub file: GroupFile,
    /// Of `file.defaults`.
    pub rules: ConfigIndex,
    /// Of `file.defaults`, as written.
    pub defaults_digest: Digest,
    /// The values of `${NAME}`.
    pub values: BTreeMap<String, Value>,
    /// Other values for some members, in the order of group.yaml.
    pub overrides: Vec<GroupOverride>,
    /// The conditions. `None` with an error in group.yaml: any cluster may be in the group.
    pub matcher: Option<ClusterMatcher>,
    /// The place of each cluster that `clusters` names without wildcards.
    pub names: Vec<(ClusterName, Location)>,
    /// What is wrong with the group's own files.
    pub diagnostics: Vec<Diagnostic>,
    /// The size of group.yaml in memory, in bytes.
    pub bytes: usize,
    /// How changes of the group reach its clusters; `None` for all at once.
    pub rollout: Option<GroupWaves>,
}

/// How changes of a group reach its clusters.
#[derive(Debug)]
pub struct GroupWaves {
    /// Identifies the content of the group: its works, and all that they inherit from group.yaml
    /// and gitwork.yaml.
    pub content: Digest,
    /// The waves.
    pub rules: RolloutRules,
    /// The clusters of each wave but the last one.
    pub matchers: Vec<ClusterMatcher>,
}

/// What groups inherit from gitwork.yaml.
#[derive(Debug, Clone, Copy)]
pub struct GroupDefaults<'a> {
    /// Of gitwork.yaml.
    pub blob: Option<ObjectId>,
    /// The paths that are not read.
    pub ignore: &'a PathPatterns,
    /// How changes of groups reach their clusters.
    pub rollout: Option<&'a RolloutSettings>,
    /// Identifies what works inherit.
    pub content: Digest,
}

impl<'a> GroupDefaults<'a> {
    /// Those without a gitwork.yaml.
    pub fn without_file(ignore: &'a PathPatterns) -> Self {
        Self { blob: None, ignore, rollout: None, content: Digest::of_json(&Value::Null) }
    }
}

impl GroupWaves {
    /// `settings`: valid ones.
    fn new(settings: &RolloutSettings, content: Digest) -> Self {
        let waves = settings.waves.iter().flatten();
        let matchers = waves.map(ClusterMatcher::of_wave).collect();
        Self { content, rules: RolloutRules::of(settings), matchers }
    }

    /// The position of the wave of a cluster. Where facts do not say whether it is in a wave, it is
    /// not. `labels` are those of its cluster.yaml.
    pub fn wave_of(
        &self,
        cluster: &ClusterName,
        labels: Option<&BTreeMap<String, String>>,
        facts: &KnownFacts,
    ) -> usize {
        let no_placement = PlacementView::default();
        let is_in = |matcher: &ClusterMatcher| {
            matcher.judge(cluster, labels, facts, &no_placement) == Some(Certainty::Member)
        };
        self.matchers.iter().position(is_in).unwrap_or(self.matchers.len())
    }
}

/// Values for some members of a group.
#[derive(Debug)]
pub struct GroupOverride {
    /// Which members.
    pub matcher: ClusterMatcher,
    /// The values of `${NAME}`.
    pub values: BTreeMap<String, Value>,
}

impl GroupOverride {
    /// The overrides of a group.yaml.
    pub fn all(file: &GroupFile) -> Vec<Self> {
        let compiled = file.overrides.iter().map(|one| Self {
            matcher: ClusterMatcher::of_override(one),
            values: json_values(&one.values),
        });
        compiled.collect()
    }

    /// The positions of those that match a cluster; `None` if that depends on unknown facts.
    /// `labels` are those of its cluster.yaml.
    pub fn matching(
        all: &[Self],
        cluster: &ClusterName,
        labels: Option<&BTreeMap<String, String>>,
        facts: &KnownFacts,
    ) -> Option<Vec<usize>> {
        let no_placement = PlacementView::default();
        let mut found = Vec::new();
        for (index, one) in all.iter().enumerate() {
            match one.matcher.judge(cluster, labels, facts, &no_placement) {
                Some(Certainty::Member) => found.push(index),
                Some(Certainty::Possible) => return None,
                None => {}
            }
        }
        Some(found)
    }
}

fn json_values(values: &BTreeMap<String, SubstitutionValue>) -> BTreeMap<String, Value> {
    values.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect()
}

/// The digest of `defaults` in a configuration file: equal ones give equal works.
pub fn defaults_digest<T>(config: Option<&Config<T>>) -> Digest {
    let defaults = config.and_then(|config| config.document.value.get("defaults"));
    Digest::of_json(defaults.unwrap_or(&Value::Null))
}

impl GroupInputs {
    /// Reads `groups/<group>` and its group.yaml, but nothing below it.
    pub fn read(
        name: &GroupName,
        tree: ObjectId,
        defaults: GroupDefaults<'_>,
        objects: &dyn Objects,
    ) -> Result<Self, ObjectError> {
        let mut folder = layout::group(name, tree, objects, defaults.ignore)?;
        let mut diagnostics = std::mem::take(&mut folder.diagnostics);
        let path = layout::group_path(name).join(GROUP_FILE);
        let scope = Scope::Group(name.clone());
        let blob = folder.config_file;
        let config: Option<Config<GroupFile>> =
            read_config(&path, blob, FileKind::Group, &scope, objects, &mut diagnostics)?;
        if blob.is_none() && diagnostics.iter().all(|found| !found.is_error()) {
            let at = Location::file(&layout::group_path(name));
            let message = "the group has no group.yaml, which says what clusters are in it";
            diagnostics.push(Diagnostic::new(Code::BadValue, at, scope.clone(), message));
        }
        if let Some(config) = &config {
            diagnostics.extend(problems(config, &scope));
        }
        let is_readable = diagnostics.iter().all(|found| !found.is_error());
        let defaults_digest = defaults_digest(config.as_ref());
        let names = config.as_ref().map(names).unwrap_or_default();
        let bytes = config.as_ref().map_or(0, |config| config.document.value.to_string().len());
        let content = content_digest(config.as_ref(), &folder, defaults.content);
        let file = config.map(|config| config.value).unwrap_or_default();
        let rollout = file.rollout.as_ref().or(defaults.rollout);
        let rollout = rollout.map(|settings| GroupWaves::new(settings, content));
        Ok(Self {
            name: name.clone(),
            tree,
            source_blob: defaults.blob,
            rollout,
            folder,
            rules: ConfigIndex::new(&file.defaults.manifest_configs),
            defaults_digest,
            values: json_values(&file.values),
            overrides: GroupOverride::all(&file),
            matcher: is_readable.then(|| ClusterMatcher::new(&file)),
            file,
            names,
            diagnostics,
            // As text, as a parsed value twice, and in the matcher.
            bytes: 8 * bytes,
        })
    }

    /// The place of group.yaml.
    pub fn location(&self) -> Location {
        Location::file(&layout::group_path(&self.name).join(GROUP_FILE))
    }

    /// What an error of the group freezes.
    pub fn scope(&self) -> Scope {
        Scope::Group(self.name.clone())
    }
}

/// Identifies what works of the group follow from, besides facts and cluster.yaml. Members and
/// `rollout` are no part of it: a change of them alone begins no rollout.
fn content_digest(
    config: Option<&Config<GroupFile>>,
    folder: &OwnerFolder,
    of_source: Digest,
) -> Digest {
    let mut file = config.map(|config| config.document.value.clone()).unwrap_or_default();
    if let Some(fields) = file.as_object_mut() {
        fields.retain(|field, _| matches!(field.as_str(), "values" | "overrides" | "defaults"));
    }
    let works = folder.works.iter().map(|(name, tree)| (name.clone(), tree.to_string()));
    let blocked = folder.blocked.iter().map(|(name, (tree, _))| (name.clone(), tree.to_string()));
    let works: BTreeMap<String, String> = works.chain(blocked).collect();
    Digest::of_json(&json!({"file": file, "source": of_source.to_string(), "works": works}))
}

/// What the schema of group.yaml does not find.
fn problems(config: &Config<GroupFile>, scope: &Scope) -> Vec<Diagnostic> {
    let of = |pointer: &str, message: String| {
        let at = config.location(pointer);
        Diagnostic::new(Code::BadValue, at, scope.clone(), message)
    };
    let conditions = config.value.problems().into_iter().map(|problem| {
        let field = file::dotted(&problem.pointer);
        if field.is_empty() {
            return of("", problem.message);
        }
        of(&problem.pointer, format!("{field} {}", problem.message)).with_field(field)
    });
    let overrides = config.value.overrides.iter().enumerate();
    let overrides = overrides.map(|(index, one)| (format!("overrides/{index}/"), &one.values));
    let all = std::iter::once((String::new(), &config.value.values)).chain(overrides);
    let values = all.flat_map(|(place, values)| {
        bad_names(values).map(move |(name, problem)| (place.clone(), name, problem))
    });
    let values = values.map(|(place, name, problem)| {
        let name_in_pointer = name.replace('~', "~0").replace('/', "~1");
        let pointer = format!("/{place}values/{name_in_pointer}");
        let field = file::dotted(&format!("/{place}values"));
        of(&pointer, format!("{name:?} {problem}")).with_field(field)
    });
    conditions.chain(values).collect()
}

fn names(config: &Config<GroupFile>) -> Vec<(ClusterName, Location)> {
    let patterns = config.value.clusters.iter().flatten().enumerate();
    let name = |(index, pattern): (usize, &String)| {
        let name = ClusterName::parse(pattern).ok()?;
        Some((name, config.location(&format!("/clusters/{index}"))))
    };
    patterns.filter_map(name).collect()
}
