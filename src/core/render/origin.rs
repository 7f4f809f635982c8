//! Finds the folder, file and line of a work and its objects, and the location that sets each
//! setting. Reads the files of one work again, because rendering does not keep locations.

use gitwork_api::escape::pointer_token;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::setting::{FileLine, ObjectLocation, Setting};
use crate::config::file;
use crate::config::file::Config;
use crate::config::file_names::{CLUSTER_FILE, GROUP_FILE, SOURCE_FILE};
use crate::config::path_patterns::PathPatterns;
use crate::config::values::SubstitutionValue;
use crate::config::{ClusterFile, FileKind, GroupFile, RULE_FIELDS, SourceFile, WorkFile};
use crate::limits;
use crate::model::diagnostic::{Location, Scope};
use crate::model::facts::{Facts, KnownFacts};
use crate::model::kinds::KindIndex;
use crate::model::manifest::{Manifest, Origin};
use crate::model::name::{ClusterName, ObjectId, RepoPath, WorkKey};
use crate::model::snapshot::{ObjectError, Objects, Snapshot};
use crate::render::groups::GroupOverride;
use crate::render::layout::{self, OwnerFolder};
use crate::render::manifests;
use crate::render::object_checks::ObjectChecks;
use crate::render::parsed_files::ParsedManifestFile;
use crate::render::substitute::Substitution;
use crate::render::values::{
    CLUSTER_NAME, ClusterValues, FileValues, Resolved, ValueLevel, Variable,
};
use crate::render::work_folder::{
    Covering, NamedPlurals, RuleSteps, Sidecar, WorkDiagnostics, is_about, name_resources,
    namespace_of, sidecar_fields,
};

/// What stands in place of a value that a Secret uses.
const HIDDEN: &str = "(hidden: a Secret uses it)";
/// The same, of a value that the work does not use.
const UNUSED: &str = "(hidden: the work does not use it)";

/// One work as Git has it.
#[derive(Debug)]
pub struct Origins {
    /// The work folder, from the source's path.
    pub folder: RepoPath,
    /// The Git tree of the folder.
    pub tree: ObjectId,
    /// Settings of the whole work.
    pub settings: Vec<Setting>,
    /// The readable objects, in the order of application.
    pub objects: Vec<Manifest>,
    /// The rules of each object, in the order of `objects`.
    rules: Vec<Vec<Setting>>,
}

impl Origins {
    /// The settings of the work, or of the object with this index.
    pub fn settings_of(&self, object: Option<usize>) -> &[Setting] {
        let of_object = object.and_then(|index| self.rules.get(index));
        of_object.map_or(&self.settings, |rules| rules)
    }

    /// The location of each object, in the order of `objects`.
    pub fn places(&self) -> Vec<ObjectLocation> {
        let place = |manifest: &Manifest| ObjectLocation {
            object: name(manifest),
            place: place_of(manifest),
        };
        self.objects.iter().map(place).collect()
    }
}

/// The name, as in `Deployment shop/web`.
pub fn name(manifest: &Manifest) -> String {
    let slash = if manifest.identity.namespace.is_empty() { "" } else { "/" };
    let identity = &manifest.identity;
    format!("{} {}{slash}{}", manifest.kind, identity.namespace, identity.name)
}

/// The file and line at which a manifest begins.
pub fn place_of(manifest: &Manifest) -> FileLine {
    FileLine::of(&Location::at(&manifest.origin.file, manifest.origin.span))
}

/// One file with settings, and their position in it.
struct Level<'a> {
    document: &'a gitwork_yaml::Document,
    file: &'a RepoPath,
    /// JSON pointer to the settings.
    below: &'static str,
}

impl Level<'_> {
    fn get(&self, pointer: &str) -> Option<(&Value, FileLine)> {
        let pointer = format!("{}{pointer}", self.below);
        let value = self.document.value.pointer(&pointer).filter(|value| !value.is_null())?;
        let span = self.document.span_of(&pointer);
        Some((value, FileLine { file: self.file.clone(), line: Some(span.line) }))
    }
}

fn level<'a, T>(config: Option<&'a Config<T>>, below: &'static str) -> Option<Level<'a>> {
    config.map(|config| Level { document: &config.document, file: &config.file, below })
}

/// The work to find the origin of.
#[derive(Debug, Clone, Copy)]
pub struct OriginQuery<'a> {
    /// The kinds of the whole source.
    pub kinds: &'a KindIndex,
    /// What the hub says of clusters.
    pub facts: Option<&'a Facts>,
    /// The work.
    pub key: &'a WorkKey,
    /// The folder that gives the work, if it is known. It may be one of a group.
    pub folder: Option<&'a RepoPath>,
}

/// The configuration files that a work inherits from.
struct Inheritance {
    source: Option<Config<SourceFile>>,
    group: Option<Config<GroupFile>>,
    /// The positions of the group's overrides for the cluster.
    overrides: Vec<usize>,
    cluster: Option<Config<ClusterFile>>,
}

impl Inheritance {
    /// Finds the overrides of the group that are for the cluster.
    fn find_overrides(&mut self, query: OriginQuery<'_>) {
        let Some(group) = &self.group else { return };
        let all = GroupOverride::all(&group.value);
        let labels = self.cluster.as_ref().map(|config| &config.value.labels);
        let (cluster, facts) = (&query.key.cluster, Facts::of(query.facts, &query.key.cluster));
        let found = GroupOverride::matching(&all, cluster, labels, &facts);
        self.overrides = found.unwrap_or_default();
    }

    /// Lowest precedence first.
    fn levels<'a>(&'a self, work: Option<&'a Config<WorkFile>>) -> Vec<Level<'a>> {
        let levels = [
            level(self.source.as_ref(), "/defaults"),
            level(self.group.as_ref(), "/defaults"),
            level(self.cluster.as_ref(), "/defaults"),
            level(work, ""),
        ];
        levels.into_iter().flatten().collect()
    }
}

/// Finds the origin of a work; `None` if Git has no folder for it. Fails if the repository cannot
/// be read.
pub fn origins(
    snapshot: &Snapshot<'_>,
    query: OriginQuery<'_>,
) -> Result<Option<Origins>, ObjectError> {
    let OriginQuery { kinds, key, .. } = query;
    let top = layout::top(snapshot.root, snapshot.objects)?;
    let scope = Scope::Work(key.clone());
    let reading = Reading { objects: snapshot.objects, scope: &scope };
    let source_path = RepoPath::root().join(SOURCE_FILE);
    let source: Option<Config<SourceFile>> =
        reading.config(&source_path, top.source_file, FileKind::Source)?;
    let ignored = source.as_ref().map_or(&[][..], |config| &config.value.ignore);
    let (ignore, _) = PathPatterns::new(ignored);
    let cluster = match top.clusters.get(&key.cluster) {
        Some(tree) => layout::cluster(&key.cluster, *tree, snapshot.objects, &ignore)?,
        None => OwnerFolder::default(),
    };
    let cluster_path = layout::cluster_path(&key.cluster);
    let cluster_file = cluster_path.join(CLUSTER_FILE);
    let cluster_file = reading.config(&cluster_file, cluster.config_file, FileKind::Cluster)?;
    let mut inherited =
        Inheritance { source, group: None, overrides: Vec::new(), cluster: cluster_file };
    let (owner, works) = match query.folder.and_then(layout::group_of) {
        None => (cluster_path, cluster.works),
        Some(name) => {
            let Some(tree) = top.groups.get(&name) else { return Ok(None) };
            let group = layout::group(&name, *tree, snapshot.objects, &ignore)?;
            let path = layout::group_path(&name);
            let file = path.join(GROUP_FILE);
            inherited.group = reading.config(&file, group.config_file, FileKind::Group)?;
            inherited.find_overrides(query);
            (path, group.works)
        }
    };
    let Some(found) = reading.find(key, &owner, &works, &ignore)? else { return Ok(None) };
    reading.origins(found, &inherited, query, kinds).map(Some)
}

impl Reading<'_> {
    /// The origin of a work in a folder.
    fn origins(
        &self,
        found: Found,
        inherited: &Inheritance,
        query: OriginQuery<'_>,
        kinds: &KindIndex,
    ) -> Result<Origins, ObjectError> {
        let Found { folder, tree, files, work_file } = found;
        let levels = inherited.levels(work_file.as_ref());
        let mut settings = work_settings(&levels);
        let substitutes = settings.iter().any(|one| one.name == "substitute" && one.value == true);
        let values = ShownValues::new(inherited, query);
        let values = values.of_cluster();
        let secrets = inherited.source.as_ref().map(|config| config.value.secrets);
        let secrets = secrets.unwrap_or_default();
        let checks = &ObjectChecks::none();
        let named = setting("namespace", "/namespace", &levels);
        let namespace = named.as_ref().and_then(|one| one.value.as_str());
        let rules = manifests::Rules {
            kinds,
            secrets,
            scope: self.scope,
            checks,
            namespace,
            has_bad_namespace: false,
        };
        let mut substitution = substitutes.then(|| Substitution::new(&values));
        let mut objects = self.manifests(&files.manifests, &rules, substitution.as_mut())?;
        if let Some(substitution) = substitution {
            let unchanged = self.manifests(&files.manifests, &rules, None)?;
            let mut shown = value_settings(&substitution.into_used(), &values, inherited);
            hide_values_of_secrets(&mut shown, &unchanged, &objects);
            settings.extend(shown);
        }
        add_namespace(&mut objects, namespace, &levels);
        let sidecars = self.sidecars(&files.sidecars)?;
        let mut unreported = WorkDiagnostics::new(self.scope, Vec::new());
        let mut steps = RuleSteps::default();
        let covering = Covering::find(&objects, &sidecars, &mut steps, &mut unreported);
        let covering = covering.unwrap_or_default();
        let entries = work_file.as_ref().map_or(&[][..], |config| &config.value.manifest_configs);
        let named =
            NamedPlurals { sidecars: &sidecars, covering: &covering, entries, crds: &checks.crds };
        name_resources(&mut objects, named, kinds, &mut unreported);
        let rules = objects.iter().map(|one| object_settings(one, &sidecars, &levels)).collect();
        Ok(Origins { folder, tree, settings, objects, rules })
    }
}

/// A work folder and its files.
struct Found {
    folder: RepoPath,
    tree: ObjectId,
    files: layout::WorkFolder,
    work_file: Option<Config<WorkFile>>,
}

/// Reads files without collecting diagnostics. Rendering reports these.
struct Reading<'a> {
    objects: &'a dyn Objects,
    scope: &'a Scope,
}

impl Reading<'_> {
    /// `None` for a file that is missing or too large.
    fn blob(&self, id: ObjectId) -> Result<Option<std::sync::Arc<[u8]>>, ObjectError> {
        match self.objects.blob(id, gitwork_yaml::limits::FILE_BYTES_MAX) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(why) if why.is_of_object() => Ok(None),
            Err(why) => Err(why),
        }
    }

    fn config<T: serde::de::DeserializeOwned + Default>(
        &self,
        path: &RepoPath,
        id: Option<ObjectId>,
        kind: FileKind,
    ) -> Result<Option<Config<T>>, ObjectError> {
        let Some(id) = id else { return Ok(None) };
        let bytes = self.blob(id)?;
        Ok(bytes.and_then(|bytes| file::read_one(path, &bytes, kind, self.scope).0))
    }

    /// Finds the folder of a work in the folder of a cluster or group: the folder of the same name
    /// first, then folders whose `work.yaml` names the work.
    fn find(
        &self,
        key: &WorkKey,
        owner: &RepoPath,
        works: &BTreeMap<String, ObjectId>,
        ignore: &PathPatterns,
    ) -> Result<Option<Found>, ObjectError> {
        let own = works.get_key_value(key.work.as_str());
        let others = works.iter().filter(|(name, _)| name.as_str() != key.work.as_str());
        for (name, tree) in own.into_iter().chain(others) {
            let folder = owner.join(name);
            let files = layout::work_folder(&folder, *tree, self.objects, ignore, self.scope)?;
            let work_file: Option<Config<WorkFile>> = match &files.work_file {
                Some(file) => self.config(&file.path, Some(file.id), FileKind::Work)?,
                None => None,
            };
            let named = work_file.as_ref().and_then(|config| config.value.name.as_deref());
            if named.unwrap_or(name) == key.work.as_str() {
                return Ok(Some(Found { folder, tree: *tree, files, work_file }));
            }
        }
        Ok(None)
    }

    fn manifests(
        &self,
        files: &[layout::WorkFolderFile],
        rules: &manifests::Rules<'_>,
        mut values: Option<&mut Substitution<'_>>,
    ) -> Result<Vec<Manifest>, ObjectError> {
        let mut all = Vec::new();
        for file in files {
            if let Some(bytes) = self.blob(file.id)? {
                let file = ParsedManifestFile::parse(&file.path, &bytes);
                let read = manifests::read(file, rules, values.as_deref_mut());
                all.extend(read.manifests);
            }
            if all.len() > limits::WORK_MANIFESTS_MAX {
                break;
            }
        }
        all.sort_by(|a, b| manifests::order(a).cmp(&manifests::order(b)));
        Ok(all)
    }

    fn sidecars(
        &self,
        files: &[(layout::WorkFolderFile, RepoPath)],
    ) -> Result<Vec<Sidecar>, ObjectError> {
        let mut all = Vec::new();
        for (file, manifest_file) in files {
            let Some(bytes) = self.blob(file.id)? else { continue };
            let (configs, _) = file::read_all(&file.path, &bytes, FileKind::Manifest, self.scope);
            let of_file = |config| Sidecar { config, manifest_file: manifest_file.clone() };
            all.extend(configs.into_iter().map(of_file));
        }
        Ok(all)
    }
}

/// Adds the Namespace that gitwork adds to the work, at the place that asks for it.
fn add_namespace(objects: &mut Vec<Manifest>, namespace: Option<&str>, levels: &[Level<'_>]) {
    let asked = levels.iter().rev().find_map(|level| {
        let value = level.get("/createNamespace").map(|(value, _)| value == true)?;
        let span = level.document.span_of(&format!("{}/createNamespace", level.below));
        Some((value, Origin { file: level.file.clone(), document: 1, span }))
    });
    let (Some(name), Some((true, origin))) = (namespace, asked) else { return };
    let added = namespace_of(name, origin);
    if !objects.is_empty() && objects.iter().all(|one| one.identity != added.identity) {
        objects.insert(0, added);
    }
}

/// The default of each setting.
fn defaults() -> [(&'static str, Value); 8] {
    [
        ("prune", true.into()),
        ("suspend", false.into()),
        ("substitute", false.into()),
        ("deleteOption", serde_json::json!({ "propagationPolicy": "Foreground" })),
        ("executor", Value::Null),
        ("namespace", Value::Null),
        ("createNamespace", false.into()),
        ("dependsOn", serde_json::json!([])),
    ]
}

fn work_settings(levels: &[Level<'_>]) -> Vec<Setting> {
    let mut settings = Vec::new();
    for (name, default) in defaults() {
        let setting = setting(name, &format!("/{name}"), levels);
        let unset = || Setting {
            name: name.into(),
            value: default,
            set_by: None,
            fact: None,
            overrides: vec![],
        };
        settings.push(setting.unwrap_or_else(unset));
    }
    for map in ["labels", "annotations"] {
        let mut names: Vec<&String> = Vec::new();
        for level in levels {
            let keys = level.get(&format!("/{map}")).and_then(|(value, _)| value.as_object());
            names.extend(keys.into_iter().flat_map(|fields| fields.keys()));
        }
        names.sort();
        names.dedup();
        settings.extend(names.into_iter().filter_map(|name| {
            setting(&format!("{map}.{name}"), &format!("/{map}/{}", pointer_token(name)), levels)
        }));
    }
    settings
}

/// The highest level that sets it takes precedence.
fn setting(name: &str, pointer: &str, levels: &[Level<'_>]) -> Option<Setting> {
    let set = levels.iter().filter_map(|level| level.get(pointer));
    won(name, set.map(|(value, place)| (value.clone(), place)).collect())
}

/// The last value takes precedence.
fn won(name: &str, mut set: Vec<(Value, FileLine)>) -> Option<Setting> {
    let (value, place) = set.pop()?;
    let overrides = set.into_iter().map(|(_, place)| place).collect();
    Some(Setting { name: name.to_owned(), value, set_by: Some(place), fact: None, overrides })
}

/// The values of the variables of one cluster.
struct ShownValues<'a> {
    cluster: &'a ClusterName,
    facts: KnownFacts,
    labels: BTreeMap<String, String>,
    /// Highest precedence first.
    levels: Vec<(RepoPath, FileValues)>,
}

impl<'a> ShownValues<'a> {
    fn new(inherited: &Inheritance, query: OriginQuery<'a>) -> Self {
        let cluster = &query.key.cluster;
        let json = |values: &BTreeMap<String, SubstitutionValue>| {
            let values = values.iter().map(|(name, value)| (name.clone(), value.0.clone()));
            FileValues::from(values.collect::<BTreeMap<_, _>>())
        };
        let own = inherited.cluster.as_ref();
        let of_group = inherited.group.iter().flat_map(|one| {
            let overrides = inherited.overrides.iter().rev();
            let overrides = overrides.filter_map(|index| one.value.overrides.get(*index));
            let values = overrides.map(|one| &one.values).chain([&one.value.values]);
            values.map(|values| (one.file.clone(), json(values)))
        });
        let own_level = own.map(|config| (config.file.clone(), json(&config.value.values)));
        let levels = own_level.into_iter().chain(of_group);
        Self {
            cluster,
            facts: Facts::of(query.facts, cluster),
            labels: own.map(|config| config.value.labels.clone()).unwrap_or_default(),
            levels: levels.collect(),
        }
    }

    fn of_cluster(&self) -> ClusterValues<'_> {
        ClusterValues {
            cluster: self.cluster,
            levels: (self.levels.iter())
                .map(|(file, values)| ValueLevel { file: file.clone(), values })
                .collect(),
            labels: &self.labels,
            facts: &self.facts,
        }
    }
}

/// Hides the values that Secrets use, and those that no other object of the work uses: a Secret of
/// another work may use them. `unchanged`: the objects before variables were replaced.
fn hide_values_of_secrets(settings: &mut [Setting], unchanged: &[Manifest], objects: &[Manifest]) {
    let is_secret = |object: &Manifest| object.kind == "Secret" || object.kind.contains("${");
    let (secrets, others): (Vec<&Manifest>, Vec<&Manifest>) =
        unchanged.iter().partition(|object| is_secret(object));
    let [secrets, others] = [secrets, others].map(|objects| {
        objects.iter().map(|object| object.object.to_string()).collect::<Vec<String>>()
    });
    // A Secret that is readable only with its variables replaced may use any of them.
    let is_unknown = objects.iter().filter(|object| is_secret(object)).count() > secrets.len();
    for setting in settings {
        let Some(name) = setting.name.strip_prefix("values.") else { continue };
        // The texts are JSON, in which a double quote has a backslash.
        let names = [name.replace('"', "\\\""), name.replace('"', "'")];
        let is_used = |text: &String| {
            let uses = |name: &String| {
                text.contains(&format!("${{{name}}}")) || text.contains(&format!("${{{name}:-"))
            };
            names.iter().any(uses)
        };
        let is_in = |texts: &[String]| texts.iter().any(is_used);
        if name == CLUSTER_NAME {
            continue;
        }
        if is_unknown || is_in(&secrets) {
            setting.value = HIDDEN.into();
        } else if !is_in(&others) {
            setting.value = UNUSED.into();
        }
    }
}

/// The values of the work's variables, and all others in `values`.
fn value_settings(
    used: &[Variable],
    values: &ClusterValues<'_>,
    inherited: &Inheritance,
) -> Vec<Setting> {
    let mut variables: BTreeSet<Variable> = used.iter().cloned().collect();
    variables.extend(values.names().map(|name| Variable::Value(name.into())));
    variables.insert(Variable::ClusterName);
    let setting = |variable: Variable| {
        let Resolved::Set { value, is_reported } = values.resolve(&variable) else { return None };
        let mut places = inherited.places(&variable);
        let fact = is_reported.then(|| format!("ManagedCluster {}", values.cluster));
        Some(Setting {
            name: format!("values.{variable}"),
            value: value.into_owned(),
            set_by: places.pop(),
            fact,
            overrides: places,
        })
    };
    variables.into_iter().filter_map(setting).collect()
}

impl Inheritance {
    /// The places that set a variable, lowest precedence first.
    fn places(&self, variable: &Variable) -> Vec<FileLine> {
        let place = |document: &gitwork_yaml::Document, file: &RepoPath, pointer: String| {
            document.value.pointer(&pointer)?;
            Some(FileLine { file: file.clone(), line: Some(document.span_of(&pointer).line) })
        };
        let group = self.group.as_ref().map(|config| (&config.document, &config.file));
        let cluster = self.cluster.as_ref().map(|config| (&config.document, &config.file));
        let (files, name) = match variable {
            Variable::Value(name) => {
                let overrides = self.overrides.iter();
                let overrides =
                    overrides.map(|index| (group, format!("/overrides/{index}/values")));
                let values = || "/values".to_owned();
                let files = std::iter::once((group, values())).chain(overrides);
                (files.chain([(cluster, values())]).collect(), name)
            }
            Variable::Label(key) => (vec![(cluster, "/labels".to_owned())], key),
            Variable::ClusterName | Variable::Claim(_) => return Vec::new(),
        };
        let files = files.into_iter().filter_map(|(file, pointer)| Some((file?, pointer)));
        let places = files.filter_map(|((document, file), pointer)| {
            place(document, file, format!("{pointer}/{}", pointer_token(name)))
        });
        places.collect()
    }
}

/// The rules of one object. Precedence: manifest sidecar, `work.yaml`, `cluster.yaml`,
/// `group.yaml`, `gitwork.yaml`.
fn object_settings(object: &Manifest, sidecars: &[Sidecar], levels: &[Level<'_>]) -> Vec<Setting> {
    let sidecars = || sidecars.iter().filter(|sidecar| sidecar.covers(object));
    let mut settings = Vec::new();
    for field in RULE_FIELDS {
        let mut set: Vec<(Value, FileLine)> = Vec::new();
        for level in levels {
            let all = level.get("/manifestConfigs").and_then(|(entries, _)| entries.as_array());
            let mut own: Vec<(Value, FileLine)> = Vec::new();
            for (index, entry) in all.into_iter().flatten().enumerate() {
                if is_about(entry, &object.identity) {
                    let found = level.get(&format!("/manifestConfigs/{index}/{field}"));
                    own.extend(found.map(|(value, place)| (value.clone(), place)));
                }
            }
            // Within one file the first matching rule takes precedence.
            own.reverse();
            set.extend(own);
        }
        for sidecar in sidecars() {
            let own = sidecar_fields(&sidecar.config.value).find(|(name, _)| *name == field);
            let place = FileLine::of(&sidecar.config.location(&format!("/{field}")));
            set.extend(own.map(|(_, value)| (value.clone(), place)));
        }
        settings.extend(won(field, set));
    }
    for field in ["orphan", "resource"] {
        let set = sidecars().filter_map(|sidecar| {
            let file = &sidecar.config.value;
            let value = match field {
                "orphan" => file.orphan.map(Value::from),
                _ => file.resource.clone().map(Value::from),
            };
            Some((value?, FileLine::of(&sidecar.config.location(&format!("/{field}")))))
        });
        settings.extend(won(field, set.collect()));
    }
    settings
}
