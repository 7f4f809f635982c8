//! A group's folder: its group.yaml, and the work folders beside it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use gitwork_api::escape::pointer_token;
use serde_json::{Value, json};

use super::matcher::{Certainty, ClusterMatcher};
use crate::config::file::{self, Config};
use crate::config::file_names::GROUP_FILE;
use crate::config::path_patterns::PathPatterns;
use crate::config::rollout::RolloutSettings;
use crate::config::values::{SubstitutionValue, bad_names};
use crate::config::{Delivery, FileKind, GroupFile};
use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope, Span};
use crate::model::diagnostic_sink::DiagnosticSink;
use crate::model::digest::Digest;
use crate::model::facts::{Facts, KnownFacts, PlacementFacts, PlacementKey};
use crate::model::name::{ClusterName, GroupName, ObjectId, RepoPath};
use crate::model::snapshot::{ObjectError, Objects};
use crate::render::config_file::read_config;
use crate::render::layout::{self, OwnerFolder};
use crate::render::values::FileValues;
use crate::render::work_folder::ConfigIndex;
use crate::rollout::{DecisionGroupRules, DecisionGroupWaves, RolloutRules};
use crate::text::truncate::truncate_chars;

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
    /// What group.yaml says. Groups with equal files share it.
    pub config: Arc<GroupConfig>,
    /// Whether an error hides what group.yaml says: any cluster may be in the group.
    is_unreadable: bool,
    /// How changes of the group reach its clusters; `None` for all at once.
    pub rollout: Option<RolloutInputs>,
    /// What is wrong with the group's own files.
    pub diagnostics: Vec<Diagnostic>,
}

/// What a group.yaml says, as far as it can be read.
#[derive(Debug)]
pub struct GroupConfig {
    /// The content.
    pub file: GroupFile,
    /// Of `file.defaults`.
    pub rules: ConfigIndex,
    /// Of `file.defaults`, as written.
    pub defaults_digest: Digest,
    /// The values of `${NAME}`.
    pub values: FileValues,
    /// Other values for some members, in the order of group.yaml.
    pub overrides: Vec<GroupOverride>,
    /// The conditions.
    matcher: ClusterMatcher,
    /// Each cluster that `clusters` names without wildcards, with its place in the file.
    names: Vec<(ClusterName, Option<Span>)>,
    /// What is wrong with the file, in the group that it was read for.
    diagnostics: Vec<Diagnostic>,
    /// The size in memory, in bytes.
    pub bytes: usize,
    /// How works become ManifestWorkReplicaSets, if the file says that.
    pub delivery: Option<Delivery>,
    /// How changes of the groups reach their clusters, if the file says it.
    waves: Option<Arc<GroupWaves>>,
    /// Identifies what works follow from in the file.
    content: Digest,
}

/// How changes of a group reach its clusters.
#[derive(Debug)]
pub struct GroupWaves {
    /// The waves.
    pub rules: Arc<RolloutRules>,
    /// The clusters of each wave but the last one.
    pub matchers: Vec<ClusterMatcher>,
    /// How the decision groups of a Placement are waves, if the strategy goes by them.
    decision_groups: Option<DecisionGroupRules>,
}

/// The waves of a group that is selected by a Placement with decision groups.
#[derive(Debug)]
pub struct PlacedWaves {
    /// The waves.
    pub rules: Arc<RolloutRules>,
    /// The wave of each cluster.
    of_clusters: BTreeMap<ClusterName, usize>,
}

impl PlacedWaves {
    /// The position of the wave of a cluster. Of one that no decision group has, nobody knows it.
    pub fn wave_of(&self, cluster: &ClusterName) -> (usize, Certainty) {
        match self.of_clusters.get(cluster) {
            Some(wave) => (*wave, Certainty::Member),
            None => (self.rules.waves.len().saturating_sub(1), Certainty::Possible),
        }
    }
}

/// The rollout of one group's content.
#[derive(Debug)]
pub struct RolloutInputs {
    /// Identifies the content of the group: its works, and all that they inherit from group.yaml
    /// and gitwork.yaml.
    pub content: Digest,
    /// Its waves. Groups with equal files share them.
    pub waves: Arc<GroupWaves>,
}

/// What groups inherit from gitwork.yaml.
#[derive(Debug, Clone, Copy)]
pub struct GroupDefaults<'a> {
    /// Of gitwork.yaml.
    pub blob: Option<ObjectId>,
    /// The paths that are not read.
    pub ignore: &'a PathPatterns,
    /// How changes of groups reach their clusters.
    pub waves: Option<&'a Arc<GroupWaves>>,
    /// Identifies what works inherit.
    pub content: Digest,
}

impl<'a> GroupDefaults<'a> {
    /// Those without a gitwork.yaml.
    pub fn without_file(ignore: &'a PathPatterns) -> Self {
        Self { blob: None, ignore, waves: None, content: Digest::of_json(&Value::Null) }
    }
}

impl GroupWaves {
    /// `settings`: valid ones.
    pub fn new(settings: &RolloutSettings) -> Self {
        let waves = settings.waves.iter().flatten();
        let matchers = waves.map(ClusterMatcher::of_wave).collect();
        let decision_groups = DecisionGroupRules::of(settings);
        Self { rules: Arc::new(RolloutRules::of(settings)), matchers, decision_groups }
    }

    /// The comparisons that one cluster takes.
    pub fn steps(&self) -> usize {
        self.matchers.iter().map(|matcher| 1 + matcher.steps()).sum()
    }

    /// The position of the first wave that a cluster is in or may be in, and whether it is in it
    /// for sure. `labels` are those of its cluster.yaml.
    pub fn wave_of(
        &self,
        cluster: &ClusterName,
        labels: Option<&BTreeMap<String, String>>,
        facts: &KnownFacts,
    ) -> (usize, Certainty) {
        let judge = |(index, matcher): (usize, &ClusterMatcher)| {
            Some((index, matcher.judge(cluster, labels, facts, None)?))
        };
        let found = self.matchers.iter().enumerate().find_map(judge);
        found.unwrap_or((self.matchers.len(), Certainty::Member))
    }
}

/// The group.yaml of the groups that were read, by their blobs: a repository may have one file in
/// many groups.
pub type GroupConfigs = HashMap<ObjectId, Arc<GroupConfig>>;

/// Values for some members of a group.
#[derive(Debug)]
pub struct GroupOverride {
    /// Which members.
    pub matcher: ClusterMatcher,
    /// The values of `${NAME}`.
    pub values: FileValues,
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
        let mut found = Vec::new();
        for (index, one) in all.iter().enumerate() {
            match one.matcher.judge(cluster, labels, facts, None) {
                Some(Certainty::Member) => found.push(index),
                Some(Certainty::Possible) => return None,
                None => {}
            }
        }
        Some(found)
    }
}

fn json_values(values: &BTreeMap<String, SubstitutionValue>) -> FileValues {
    let values = values.iter().map(|(name, value)| (name.clone(), value.0.clone()));
    values.collect::<BTreeMap<_, _>>().into()
}

/// The digest of `defaults` in a configuration file: equal ones give equal works.
pub fn defaults_digest<T>(config: Option<&Config<T>>) -> Digest {
    let defaults = config.and_then(|config| config.document.value.get("defaults"));
    Digest::of_json(defaults.unwrap_or(&Value::Null))
}

impl GroupConfig {
    /// Reads a group.yaml. Without one, it says nothing.
    fn read(
        path: &RepoPath,
        blob: Option<ObjectId>,
        scope: &Scope,
        objects: &dyn Objects,
    ) -> Result<Self, ObjectError> {
        let mut diagnostics = Vec::new();
        let config: Option<Config<GroupFile>> =
            read_config(path, blob, FileKind::Group, scope, objects, &mut diagnostics)?;
        if let Some(config) = &config {
            diagnostics.extend(problems(config, scope));
        }
        let defaults_digest = defaults_digest(config.as_ref());
        let names = config.as_ref().map(names).unwrap_or_default();
        let bytes = config.as_ref().map_or(0, |config| config.document.value.to_string().len());
        let content = content_digest(config.as_ref());
        let file = config.map(|config| config.value).unwrap_or_default();
        let waves = file.rollout.as_ref().map(|settings| Arc::new(GroupWaves::new(settings)));
        Ok(Self {
            delivery: Delivery::of(&file),
            waves,
            content,
            rules: ConfigIndex::new(&file.defaults.manifest_configs),
            defaults_digest,
            values: json_values(&file.values),
            overrides: GroupOverride::all(&file),
            matcher: ClusterMatcher::new(&file),
            file,
            names,
            diagnostics,
            // As text, as a parsed value twice, and in the matcher.
            bytes: 8 * bytes,
        })
    }

    /// What is wrong with the file at this place.
    fn problems_at<'a>(
        &'a self,
        path: &'a RepoPath,
        scope: &'a Scope,
    ) -> impl Iterator<Item = Diagnostic> + 'a {
        self.diagnostics.iter().map(|found| {
            let at = |known: &Location| Location { file: path.clone(), span: known.span };
            let related = found.related.iter().map(|(known, why)| (at(known), why.clone()));
            Diagnostic {
                location: at(&found.location),
                scope: scope.clone(),
                related: related.collect(),
                ..found.clone()
            }
        })
    }
}

impl GroupInputs {
    /// Reads `groups/<group>` and its group.yaml, but nothing below it. `known` has what was read
    /// already.
    pub fn read(
        name: &GroupName,
        tree: ObjectId,
        defaults: GroupDefaults<'_>,
        objects: &dyn Objects,
        known: &mut GroupConfigs,
    ) -> Result<Self, ObjectError> {
        let mut folder = layout::group(name, tree, objects, defaults.ignore)?;
        let mut diagnostics = std::mem::take(&mut folder.diagnostics);
        let path = layout::group_path(name).join(GROUP_FILE);
        let scope = Scope::Group(name.clone());
        let blob = folder.config_file;
        let config = match blob.and_then(|blob| known.get(&blob)) {
            Some(config) => config.clone(),
            None => Arc::new(GroupConfig::read(&path, blob, &scope, objects)?),
        };
        known.extend(blob.map(|blob| (blob, config.clone())));
        diagnostics.extend(config.problems_at(&path, &scope));
        if blob.is_none() && diagnostics.iter().all(|found| !found.is_error()) {
            let at = Location::file(&layout::group_path(name));
            let message = "the group has no group.yaml, which says what clusters are in it";
            diagnostics.push(Diagnostic::new(Code::BadValue, at, scope.clone(), message));
        }
        if config.delivery.is_some() && config.waves.is_none() && defaults.waves.is_some() {
            let message = "deliver needs a `rollout` of its own: that of gitwork.yaml is for \
                           groups without `deliver: ManifestWorkReplicaSet`";
            let at = Location::file(&path);
            let found = Diagnostic::new(Code::BadValue, at, scope, message);
            diagnostics.push(found.with_field("deliver"));
        }
        let is_unreadable = diagnostics.iter().any(Diagnostic::is_error);
        // The controller of the ManifestWorkReplicaSet has the rollout.
        let waves = config.waves.as_ref().or(defaults.waves);
        let waves = waves.filter(|_| config.delivery.is_none());
        let rollout = waves.map(|waves| RolloutInputs {
            content: group_content(&config, &folder, defaults.content),
            waves: waves.clone(),
        });
        let (name, source_blob) = (name.clone(), defaults.blob);
        Ok(Self { name, tree, source_blob, folder, config, is_unreadable, rollout, diagnostics })
    }

    /// The waves, if they are the decision groups of its Placement. A group without a Placement is
    /// one decision group.
    pub fn placed_waves(&self, facts: Option<&Facts>) -> Option<PlacedWaves> {
        let waves = &self.rollout.as_ref()?.waves;
        let (groups, key) = (waves.decision_groups.as_ref()?, self.placement()?);
        let none = PlacementFacts::default();
        let placement = facts.and_then(|facts| facts.placements.get(key)).unwrap_or(&none);
        let names = placement.decision_groups.iter().map(|group| group.name.as_str());
        let found = groups.waves(&names.collect::<Vec<_>>(), &waves.rules);
        let Some(DecisionGroupWaves { rules, waves: of_groups }) = found else {
            // Without a mandatory group, no cluster is known to come now.
            return Some(PlacedWaves { rules: waves.rules.clone(), of_clusters: BTreeMap::new() });
        };
        let clusters = |(index, wave): (usize, usize)| {
            placement.decision_group(index).map(move |cluster| (cluster.clone(), wave))
        };
        let of_clusters = of_groups.into_iter().enumerate().flat_map(clusters).collect();
        Some(PlacedWaves { rules, of_clusters })
    }

    /// The Placement that a cluster must be selected by.
    fn placement(&self) -> Option<&PlacementKey> {
        self.config.matcher.placement.as_ref()
    }

    /// How its works become ManifestWorkReplicaSets; `None` for ManifestWorks.
    pub fn delivery(&self) -> Option<&Delivery> {
        self.config.delivery.as_ref()
    }

    /// The conditions. `None` with an error in group.yaml: any cluster may be in the group.
    pub fn matcher(&self) -> Option<&ClusterMatcher> {
        (!self.is_unreadable).then_some(&self.config.matcher)
    }

    /// The place of each cluster that `clusters` names without wildcards.
    pub fn names(&self) -> impl Iterator<Item = (&ClusterName, Location)> {
        let at = |span: &Option<Span>| Location { span: *span, ..self.location() };
        self.config.names.iter().map(move |(cluster, span)| (cluster, at(span)))
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

/// Identifies what works follow from in a group.yaml. Members and `rollout` are no part of it: a
/// change of them alone begins no rollout.
fn content_digest(config: Option<&Config<GroupFile>>) -> Digest {
    let file = config.map_or(&Value::Null, |config| &config.document.value);
    fields_digest(file, &["values", "overrides", "defaults"])
}

/// The digest of some fields of a configuration file. The others may be large: they are not copied.
pub fn fields_digest(file: &Value, fields: &[&str]) -> Digest {
    let Some(all) = file.as_object() else { return Digest::of_json(file) };
    let of = |name: &&str| all.get(*name).map(|value| ((*name).to_owned(), value.clone()));
    Digest::of_json(&fields.iter().filter_map(of).collect::<Value>())
}

/// Identifies what works of the group follow from, besides facts and cluster.yaml.
fn group_content(config: &GroupConfig, folder: &OwnerFolder, of_source: Digest) -> Digest {
    let works = folder.works.iter().map(|(name, tree)| (name.clone(), tree.to_string()));
    let blocked = folder.blocked.iter().map(|(name, (tree, _))| (name.clone(), tree.to_string()));
    let works: BTreeMap<String, String> = works.chain(blocked).collect();
    let (file, source) = (config.content.to_string(), of_source.to_string());
    Digest::of_json(&json!({"file": file, "source": source, "works": works}))
}

/// What the schema of group.yaml does not find.
fn problems(config: &Config<GroupFile>, scope: &Scope) -> Vec<Diagnostic> {
    let mut found = DiagnosticSink::new(limits::FILE_DIAGNOSTICS_MAX);
    let of = |pointer: &str, message: String| {
        let at = config.location(pointer);
        Diagnostic::new(Code::BadValue, at, scope.clone(), message)
    };
    config.value.each_problem(&mut |problem| {
        let field = file::dotted(&problem.pointer);
        found.push(match field.as_str() {
            "" => of("", problem.message),
            _ => of(&problem.pointer, format!("{field} {}", problem.message)).with_field(field),
        });
    });
    let overrides = config.value.overrides.iter().enumerate();
    let overrides = overrides.map(|(index, one)| (format!("overrides/{index}/"), &one.values));
    let all = std::iter::once((String::new(), &config.value.values)).chain(overrides);
    for (place, values) in all {
        let field = file::dotted(&format!("/{place}values"));
        for (name, problem) in bad_names(values) {
            let name_in_pointer = pointer_token(name);
            let pointer = format!("/{place}values/{name_in_pointer}");
            let name = truncate_chars(name, limits::MESSAGE_TEXT_CHARS_MAX);
            found.push(of(&pointer, format!("{name:?} {problem}")).with_field(field.clone()));
        }
    }
    found.into_all()
}

fn names(config: &Config<GroupFile>) -> Vec<(ClusterName, Option<Span>)> {
    let patterns = config.value.clusters.iter().flatten().enumerate();
    let name = |(index, pattern): (usize, &String)| {
        let name = ClusterName::parse(pattern).ok()?;
        Some((name, config.location(&format!("/clusters/{index}")).span))
    };
    patterns.filter_map(name).collect()
}
