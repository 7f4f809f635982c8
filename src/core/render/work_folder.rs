//! One work folder into one ManifestWork: reads its files, checks every manifest, merges the
//! settings of all levels, fills in `resourceIdentifier`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::layout::{self, WorkFolderFile};
use super::manifests::{self, Read};
use crate::config::file;
use crate::config::file::Config;
use crate::config::ocm_rules;
use crate::config::path_patterns::PathPatterns;
use crate::config::tenancy;
use crate::config::tenancy::{Breach, Tenancy, Tenant};
use crate::config::{
    FileKind, ManifestFile, ManifestMatch, RULE_FIELDS, SecretPolicy, WorkFile, WorkSettings,
};
use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope, Severity};
use crate::model::kinds::{CrdNames, Found, KindIndex};
use crate::model::manifest::{Identity, Manifest, Origin};
use crate::model::name::{ClusterName, ObjectId, RepoPath, SourceId, WorkKey, WorkName};
use crate::model::snapshot::{ObjectError, Objects};
use crate::model::work;
use crate::model::work::{DeleteOption, DesiredWork, WorkBody};
use crate::text::yaml;

/// What a work folder inherits from above it.
#[derive(Debug)]
pub struct Inherited<'a> {
    pub source: &'a SourceId,
    /// What the operator lets the folder do.
    pub tenancy: &'a Tenancy,
    pub cluster: &'a ClusterName,
    /// Lowest precedence first: `gitwork.yaml`'s defaults, then `cluster.yaml`'s.
    pub settings: [&'a WorkSettings; 2],
    /// The values of `${NAME}`.
    pub values: &'a BTreeMap<String, Value>,
    pub secrets: SecretPolicy,
}

/// The outcome for one work folder.
#[derive(Debug)]
pub struct Rendered {
    /// The work's key, if it is known.
    pub key: Option<WorkKey>,
    pub path: RepoPath,
    /// `None` where an error freezes the work.
    pub work: Option<DesiredWork>,
    /// Every object of the work and where it stands, for the checks between works.
    pub objects: Vec<(Identity, Origin)>,
    /// The CRDs among them.
    pub crds: Vec<CrdNames>,
    /// The kinds that are neither built in nor defined by a CRD of this work, with the plural that
    /// was assumed.
    pub custom_kinds: BTreeMap<(String, String), Found>,
    pub diagnostics: Vec<Diagnostic>,
}

/// The texts of a work folder's files, for the snippets of diagnostics.
type Texts = BTreeMap<RepoPath, Arc<[u8]>>;

/// Renders a work folder. An error is one of the object database only; all else is a diagnostic.
pub fn render(
    path: &RepoPath,
    tree: ObjectId,
    inherited: &Inherited<'_>,
    ignore: &PathPatterns,
    kinds: &KindIndex,
    objects: &dyn Objects,
) -> Result<Rendered, ObjectError> {
    let fallback = folder_key(path, inherited.cluster);
    let scope =
        fallback.clone().map_or_else(|| Scope::Cluster(inherited.cluster.clone()), Scope::Work);
    let folder = layout::work_folder(path, tree, objects, ignore, &scope)?;
    let mut files = Files {
        objects,
        texts: Texts::new(),
        bytes: 0,
        scope: &scope,
        diagnostics: folder.diagnostics,
    };
    let work_file = files.work_file(folder.work_file.as_ref())?;
    let key = work_key(path, inherited.cluster, &work_file, &scope, &mut files.diagnostics);
    let settings = Settings::merge(inherited, work_file.as_ref());
    let values = settings.substitute.then_some(inherited.values);
    let mut manifests = files.manifests(&folder.manifests, kinds, values, inherited.secrets)?;
    let sidecars = files.sidecars(&folder.sidecars)?;
    let Files { texts, mut diagnostics, .. } = files;
    name_resources(&mut manifests, &sidecars, kinds, &scope, &mut diagnostics);

    let configs = manifest_configs(
        &manifests,
        &sidecars,
        work_file.as_ref(),
        inherited,
        &scope,
        &mut diagnostics,
    );
    check_duplicates(&manifests, &scope, &mut diagnostics);
    if manifests.is_empty() && !diagnostics.iter().any(Diagnostic::is_error) {
        let message = "this work folder holds no manifest";
        diagnostics.push(Diagnostic::new(
            Code::EmptyWork,
            Location::file(path),
            scope.clone(),
            message,
        ));
    }
    check_size(path, &manifests, &scope, &mut diagnostics);
    check_metadata(&settings, work_file.as_ref(), path, &scope, &mut diagnostics);
    let orphans = orphans(&manifests, &sidecars);
    let delete_option = delete_option(&settings, orphans, path, &scope, &mut diagnostics);

    let allowed = key.as_ref().is_none_or(|key| {
        let at = Place { path, work_file: work_file.as_ref(), scope: &scope };
        check_tenancy(&at, key, &settings, &manifests, inherited, &mut diagnostics)
    });

    add_snippets(&mut diagnostics, &texts);
    let failed = diagnostics.iter().any(Diagnostic::is_error);
    let objects = manifests.iter().map(|m| (m.identity.clone(), m.origin.clone())).collect();
    let crds = manifests.iter().filter_map(|m| CrdNames::of(&m.object)).collect();
    let custom_kinds = manifests
        .iter()
        .map(|m| {
            ((m.identity.group.clone(), m.kind.clone()), kinds.lookup(&m.identity.group, &m.kind))
        })
        .filter(|(_, found)| !matches!(found, Found::BuiltIn { .. }))
        .collect();
    let work = match &key {
        Some(key) if !failed => {
            Some(desired_work(key, path, settings, delete_option, configs, manifests, inherited))
        }
        _ => None,
    };
    Ok(Rendered {
        // What is not allowed is in nobody's way: it takes no name and no object from works that
        // are.
        key: key.or(fallback).filter(|_| allowed),
        path: path.clone(),
        work,
        objects: if allowed { objects } else { Vec::new() },
        crds: if allowed { crds } else { Vec::new() },
        custom_kinds,
        diagnostics,
    })
}

/// Where a work folder's settings stand.
struct Place<'a> {
    path: &'a RepoPath,
    work_file: Option<&'a Config<WorkFile>>,
    scope: &'a Scope,
}

impl Place<'_> {
    /// The place of a field of work.yaml; the folder where that does not set it.
    fn of(&self, pointer: &str, is_set: impl Fn(&WorkFile) -> bool) -> Location {
        let config = self.work_file.filter(|config| is_set(&config.value));
        config.map_or_else(|| Location::file(self.path), |config| config.location(pointer))
    }
}

/// Whether the operator's policy allows the work. Reports each breach.
fn check_tenancy(
    place: &Place<'_>,
    key: &WorkKey,
    settings: &Settings,
    manifests: &[Manifest],
    inherited: &Inherited<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> bool {
    let (path, cluster) = (place.path, inherited.cluster);
    let breaches = inherited.tenancy.breaches(&Tenant {
        path,
        cluster,
        work: &key.work,
        executor: settings.executor.as_ref(),
        manifests,
    });
    for breach in &breaches {
        let folder = || Location::file(path);
        let (at, message) = match breach {
            Breach::Path => {
                (folder(), "no rule of the operator's policy is for this folder".into())
            }
            Breach::Cluster => {
                (folder(), format!("this folder may have no works on the cluster {cluster}"))
            }
            Breach::Name => (
                place.of("/name", |file| file.name.is_some()),
                format!("this folder may have no work named {}", key.work),
            ),
            Breach::Executor(account) => {
                let at = place.of("/executor", |file| file.executor.is_some());
                let message = match account {
                    Some(account) => format!("this folder may not have its objects applied as {account}"),
                    None => "this folder must name an executor: without one its objects are applied with the agent's \
                             own rights"
                        .into(),
                };
                (at, message)
            }
            Breach::Object(index) => {
                let Some(manifest) = manifests.get(*index) else { continue };
                let kind = tenancy::kind_name(manifest);
                let place = match manifest.identity.namespace.as_str() {
                    "" => "for a whole cluster".to_owned(),
                    namespace => format!("in the namespace {namespace}"),
                };
                let at = Location::at(&manifest.origin.file, manifest.origin.span);
                (at, format!("this folder may have no {kind} {place}"))
            }
        };
        diagnostics.push(Diagnostic::new(Code::NotAllowed, at, place.scope.clone(), message));
    }
    breaches.is_empty()
}

/// Reads a work folder's files, each within its limits.
struct Files<'a> {
    objects: &'a dyn Objects,
    texts: Texts,
    bytes: usize,
    scope: &'a Scope,
    diagnostics: Vec<Diagnostic>,
}

impl Files<'_> {
    /// The bytes of a file; `None` where it is too large, which is reported.
    fn bytes(&mut self, file: &WorkFolderFile) -> Result<Option<Arc<[u8]>>, ObjectError> {
        let bytes = match self.objects.blob(file.id, gitwork_yaml::limits::FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(ObjectError::TooLarge { size, limit, .. }) => {
                let message = format!("the file has {size} bytes; at most {limit} are read");
                self.say(Code::FileTooLarge, &file.path, message);
                return Ok(None);
            }
            Err(why) => return Err(why),
        };
        self.bytes += bytes.len();
        if self.bytes > limits::WORK_INPUT_BYTES_MAX {
            if self.bytes - bytes.len() <= limits::WORK_INPUT_BYTES_MAX {
                let message = format!(
                    "the work's files have more than {} bytes",
                    limits::WORK_INPUT_BYTES_MAX
                );
                self.say(Code::TooManyFiles, &file.path, message);
            }
            return Ok(None);
        }
        self.texts.insert(file.path.clone(), bytes.clone());
        Ok(Some(bytes))
    }

    fn say(&mut self, code: Code, path: &RepoPath, message: String) {
        self.diagnostics.push(Diagnostic::new(
            code,
            Location::file(path),
            self.scope.clone(),
            message,
        ));
    }

    fn work_file(
        &mut self,
        file: Option<&WorkFolderFile>,
    ) -> Result<Option<Config<WorkFile>>, ObjectError> {
        let Some(file) = file else { return Ok(None) };
        let Some(bytes) = self.bytes(file)? else { return Ok(None) };
        let (config, diagnostics) = file::read_one(&file.path, &bytes, FileKind::Work, self.scope);
        self.diagnostics.extend(diagnostics);
        Ok(config)
    }

    fn manifests(
        &mut self,
        files: &[WorkFolderFile],
        kinds: &KindIndex,
        values: Option<&BTreeMap<String, Value>>,
        secrets: SecretPolicy,
    ) -> Result<Vec<Manifest>, ObjectError> {
        let mut all = Vec::new();
        for file in files {
            let Some(bytes) = self.bytes(file)? else { continue };
            let Read { manifests, diagnostics } = manifests::read(
                &file.path,
                &bytes,
                &manifests::Rules { kinds, values, secrets, scope: self.scope },
            );
            all.extend(manifests);
            self.diagnostics.extend(diagnostics);
            if all.len() > limits::WORK_MANIFESTS_MAX {
                let message =
                    format!("more than {} manifests in one work", limits::WORK_MANIFESTS_MAX);
                self.say(Code::TooManyManifests, &file.path, message);
                return Ok(Vec::new());
            }
        }
        all.sort_by(|a, b| manifests::order(a).cmp(&manifests::order(b)));
        Ok(all)
    }

    fn sidecars(
        &mut self,
        files: &[(WorkFolderFile, RepoPath)],
    ) -> Result<Vec<Sidecar>, ObjectError> {
        let mut all = Vec::new();
        for (file, manifest_file) in files {
            let Some(bytes) = self.bytes(file)? else { continue };
            let (configs, diagnostics) =
                file::read_all(&file.path, &bytes, FileKind::Manifest, self.scope);
            self.diagnostics.extend(diagnostics);
            all.extend(
                configs
                    .into_iter()
                    .map(|config| Sidecar { config, manifest_file: manifest_file.clone() }),
            );
        }
        Ok(all)
    }
}

/// One document of a manifest sidecar.
pub struct Sidecar {
    pub config: Config<ManifestFile>,
    /// The file that it is about.
    pub manifest_file: RepoPath,
}

impl Sidecar {
    pub fn covers(&self, manifest: &Manifest) -> bool {
        manifest.origin.file == self.manifest_file
            && self.config.value.select.as_ref().is_none_or(|select| matches(select, manifest))
    }
}

fn matches(select: &ManifestMatch, manifest: &Manifest) -> bool {
    let same = |want: &Option<String>, have: &str| want.as_ref().is_none_or(|want| want == have);
    let like = |want: &Option<String>, have: &str| {
        want.as_ref().is_none_or(|want| ocm_rules::wildcard(want, have))
    };
    same(&select.api_version, &manifest.api_version)
        && same(&select.kind, &manifest.kind)
        && like(&select.namespace, &manifest.identity.namespace)
        && like(&select.name, &manifest.identity.name)
}

/// The key that the folder's own name gives.
fn folder_key(path: &RepoPath, cluster: &ClusterName) -> Option<WorkKey> {
    WorkName::parse(path.name()).ok().map(|work| WorkKey { cluster: cluster.clone(), work })
}

fn work_key(
    path: &RepoPath,
    cluster: &ClusterName,
    work_file: &Option<Config<WorkFile>>,
    scope: &Scope,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<WorkKey> {
    let named = work_file.as_ref().and_then(|config| Some((config, config.value.name.as_deref()?)));
    let (text, location) = match named {
        Some((config, name)) => (name, config.location("/name")),
        None => (path.name(), Location::file(path)),
    };
    match WorkName::parse(text) {
        Ok(work) => Some(WorkKey { cluster: cluster.clone(), work }),
        Err(why) => {
            let message = format!("{text:?} cannot be the name of a ManifestWork: it {why}");
            diagnostics.push(Diagnostic::new(Code::BadName, location, scope.clone(), message));
            None
        }
    }
}

/// The settings of all levels, merged.
struct Settings {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    delete_option: Option<Value>,
    executor: Option<Value>,
    prune: bool,
    suspend: bool,
    substitute: bool,
}

impl Settings {
    fn merge(inherited: &Inherited<'_>, work_file: Option<&Config<WorkFile>>) -> Self {
        let mut merged = Self {
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            delete_option: None,
            executor: None,
            prune: true,
            suspend: false,
            substitute: false,
        };
        for level in inherited.settings {
            merged.labels.extend(level.labels.clone());
            merged.annotations.extend(level.annotations.clone());
            merged.overlay(
                &level.delete_option,
                &level.executor,
                [level.prune, level.suspend, level.substitute],
            );
        }
        if let Some(Config { value: file, .. }) = work_file {
            merged.labels.extend(file.labels.clone());
            merged.annotations.extend(file.annotations.clone());
            merged.overlay(
                &file.delete_option,
                &file.executor,
                [file.prune, file.suspend, file.substitute],
            );
        }
        merged
    }

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
}

/// One entry for each manifest that has a rule, in the manifests' order. Every level's wildcards
/// are resolved here: OCM's agent takes the first match for some fields and the last for others
/// (OCM work agent, gotcha 14), and one exact entry an object leaves nothing to that.
fn manifest_configs(
    manifests: &[Manifest],
    sidecars: &[Sidecar],
    work_file: Option<&Config<WorkFile>>,
    inherited: &Inherited<'_>,
    scope: &Scope,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Value> {
    let entries = work_file.map_or(&[][..], |config| &config.value.manifest_configs);
    let mut used = vec![false; entries.len()];
    let mut sidecar_used = vec![false; sidecars.len()];
    let mut configs = Vec::new();
    for manifest in manifests {
        let mut fields = Map::new();
        for (sidecar, used) in
            sidecars.iter().zip(&mut sidecar_used).filter(|(sidecar, _)| sidecar.covers(manifest))
        {
            *used = true;
            for (name, value) in sidecar_fields(&sidecar.config.value) {
                if fields.insert(name.to_owned(), value.clone()).is_some() {
                    diagnostics.push(two_sidecars(sidecar, name, manifest, scope));
                }
            }
        }
        for (entry, used) in
            entries.iter().zip(&mut used).filter(|(entry, _)| is_about(entry, &manifest.identity))
        {
            *used = true;
            fill(&mut fields, entry);
        }
        for level in inherited.settings.iter().rev() {
            for entry in
                level.manifest_configs.iter().filter(|entry| is_about(entry, &manifest.identity))
            {
                fill(&mut fields, entry);
            }
        }
        if !fields.is_empty() {
            fields.insert("resourceIdentifier".into(), manifest.identity.to_value());
            configs.push(Value::Object(fields));
        }
    }
    // Where a manifest could not be read, a rule may have been meant for it.
    if !diagnostics.iter().any(Diagnostic::is_error) {
        report_unused(work_file, &used, sidecars, &sidecar_used, scope, diagnostics);
    }
    configs
}

fn report_unused(
    work_file: Option<&Config<WorkFile>>,
    used: &[bool],
    sidecars: &[Sidecar],
    sidecar_used: &[bool],
    scope: &Scope,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for (index, _) in used.iter().enumerate().filter(|(_, used)| !**used) {
        let pointer = format!("/manifestConfigs/{index}/resourceIdentifier");
        let Some(location) = work_file.map(|config| config.location(&pointer)) else { continue };
        let message = "no object of this work has this resourceIdentifier";
        diagnostics.push(
            Diagnostic::new(Code::MatchesNothing, location, scope.clone(), message)
                .with_field(file::dotted(&pointer)),
        );
    }
    for (sidecar, _) in sidecars.iter().zip(sidecar_used).filter(|(_, used)| !**used) {
        let location = sidecar.config.location("/match");
        let message = format!("no object of {} matches", sidecar.manifest_file);
        diagnostics.push(
            Diagnostic::new(Code::MatchesNothing, location, scope.clone(), message)
                .with_field("match"),
        );
    }
}

fn two_sidecars(sidecar: &Sidecar, field: &str, manifest: &Manifest, scope: &Scope) -> Diagnostic {
    let message = format!("{field} is set twice for {}", manifest.identity);
    Diagnostic::new(
        Code::RuleConflict,
        sidecar.config.location(&format!("/{field}")),
        scope.clone(),
        message,
    )
    .with_field(field)
    .with_hint("narrow one of the `match`es")
}

/// The rules that a sidecar sets.
pub fn sidecar_fields(file: &ManifestFile) -> impl Iterator<Item = (&'static str, &Value)> {
    [&file.feedback_rules, &file.update_strategy, &file.condition_rules, &file.feedback_scrape_type]
        .into_iter()
        .zip(RULE_FIELDS)
        .filter_map(|(value, name)| Some((name, value.as_ref()?)))
}

/// Takes the rules of `entry` that a higher level has not set.
fn fill(fields: &mut Map<String, Value>, entry: &Value) {
    for name in RULE_FIELDS {
        if let Some(value) = entry.get(name)
            && !fields.contains_key(name)
        {
            fields.insert(name.into(), value.clone());
        }
    }
}

/// Whether an entry of `manifestConfigs` is about this object.
pub fn is_about(entry: &Value, identity: &Identity) -> bool {
    let part = |name| {
        entry
            .pointer(&format!("/resourceIdentifier/{name}"))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    part("group") == identity.group
        && part("resource") == identity.resource
        && ocm_rules::wildcard(part("namespace"), &identity.namespace)
        && ocm_rules::wildcard(part("name"), &identity.name)
}

/// Takes the plurals that sidecars name in the place of guessed ones. What Kubernetes or a CRD of
/// the repository says of a kind stands: another plural for it is an error.
pub fn name_resources(
    manifests: &mut [Manifest],
    sidecars: &[Sidecar],
    kinds: &KindIndex,
    scope: &Scope,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for manifest in manifests {
        let mut named = false;
        for sidecar in sidecars {
            let Some(resource) = &sidecar.config.value.resource else { continue };
            if !sidecar.covers(manifest) {
                continue;
            }
            if named && *resource != manifest.identity.resource {
                diagnostics.push(two_sidecars(sidecar, "resource", manifest, scope));
            }
            named = true;
            match kinds.lookup(&manifest.identity.group, &manifest.kind) {
                Found::Guessed { .. } => {
                    let place = Location::at(&manifest.origin.file, manifest.origin.span);
                    diagnostics.retain(|d| d.code != Code::GuessedPlural || d.location != place);
                    manifest.identity.resource.clone_from(resource);
                }
                known if known.resource() == resource => {}
                known => {
                    let message =
                        format!("the plural of {} is {}", manifest.kind, known.resource());
                    let at = sidecar.config.location("/resource");
                    diagnostics.push(
                        Diagnostic::new(Code::BadValue, at, scope.clone(), message)
                            .with_field("resource"),
                    );
                }
            }
        }
    }
}

fn check_duplicates(manifests: &[Manifest], scope: &Scope, diagnostics: &mut Vec<Diagnostic>) {
    let mut first: BTreeMap<&Identity, &Origin> = BTreeMap::new();
    let mut by_origin: Vec<&Manifest> = manifests.iter().collect();
    by_origin.sort_by(|a, b| a.origin.cmp(&b.origin));
    for manifest in by_origin {
        if let Some(origin) = first.get(&manifest.identity) {
            let at = Location::at(&manifest.origin.file, manifest.origin.span);
            let message = format!("{} stands twice in this work", manifest.identity);
            diagnostics.push(
                Diagnostic::new(Code::DuplicateObject, at, scope.clone(), message)
                    .with_related(Location::at(&origin.file, origin.span), "first here"),
            );
        } else {
            first.insert(&manifest.identity, &manifest.origin);
        }
    }
}

/// The hub's webhook counts each manifest as a protobuf field: a tag, a length and the JSON bytes
/// (OCM work webhook).
pub fn wire_size(json_bytes: usize) -> usize {
    let mut varint = 1;
    let mut rest = json_bytes >> 7;
    while rest > 0 {
        varint += 1;
        rest >>= 7;
    }
    1 + varint + json_bytes
}

fn check_size(
    path: &RepoPath,
    manifests: &[Manifest],
    scope: &Scope,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut sizes: Vec<(usize, &Manifest)> =
        manifests.iter().map(|m| (wire_size(m.object.to_string().len()), m)).collect();
    let total: usize = sizes.iter().map(|(size, _)| size).sum();
    if total <= limits::WORK_BYTES_MAX {
        return;
    }
    sizes.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.identity.cmp(&b.1.identity)));
    let message =
        format!("the work has {total} bytes; the hub takes at most {}", limits::WORK_BYTES_MAX);
    let mut diagnostic =
        Diagnostic::new(Code::WorkTooLarge, Location::file(path), scope.clone(), message);
    for (size, manifest) in sizes.iter().take(5) {
        let at = Location::at(&manifest.origin.file, manifest.origin.span);
        diagnostic = diagnostic.with_related(at, format!("{} has {size} bytes", manifest.identity));
    }
    diagnostics.push(diagnostic);
}

/// Labels and annotations must be ones that Kubernetes takes, and not gitwork's own.
fn check_metadata(
    settings: &Settings,
    work_file: Option<&Config<WorkFile>>,
    path: &RepoPath,
    scope: &Scope,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for (field, map, is_label) in
        [("labels", &settings.labels, true), ("annotations", &settings.annotations, false)]
    {
        for (key, value) in map {
            let pointer = format!("/{field}/{}", key.replace('~', "~0").replace('/', "~1"));
            let problem =
                if key.starts_with(work::PREFIX) || (is_label && key == work::LABEL_MANAGED_BY) {
                    Some("is gitwork's own and cannot be set".to_owned())
                } else {
                    gitwork_api::names::check_qualified_name(key).or_else(|| {
                        is_label.then(|| gitwork_api::names::check_label_value(value)).flatten()
                    })
                };
            let Some(problem) = problem else { continue };
            let location = match work_file {
                Some(config) if config.document.value.pointer(&pointer).is_some() => {
                    config.location(&pointer)
                }
                _ => Location::file(path),
            };
            diagnostics.push(
                Diagnostic::new(
                    Code::BadValue,
                    location,
                    scope.clone(),
                    format!("the key {key:?} {problem}"),
                )
                .with_field(format!("{field}.{key}")),
            );
        }
    }
}

/// The objects that sidecars with `orphan: true` cover.
fn orphans(manifests: &[Manifest], sidecars: &[Sidecar]) -> BTreeSet<Identity> {
    let orphaned = |manifest: &&Manifest| {
        sidecars
            .iter()
            .any(|sidecar| sidecar.config.value.orphan == Some(true) && sidecar.covers(manifest))
    };
    manifests.iter().filter(orphaned).map(|manifest| manifest.identity.clone()).collect()
}

/// The work's deleteOption, with the orphaning rules of its sidecars.
fn delete_option(
    settings: &Settings,
    orphans: BTreeSet<Identity>,
    path: &RepoPath,
    scope: &Scope,
    diagnostics: &mut Vec<Diagnostic>,
) -> DeleteOption {
    let own = settings.delete_option.as_ref().map(DeleteOption::from_value).unwrap_or_default();
    if orphans.is_empty() {
        return own;
    }
    match own {
        DeleteOption::Foreground => DeleteOption::SelectivelyOrphan(orphans.into_iter().collect()),
        DeleteOption::SelectivelyOrphan(rules) => {
            let all: BTreeSet<Identity> = rules.into_iter().chain(orphans).collect();
            DeleteOption::SelectivelyOrphan(all.into_iter().collect())
        }
        DeleteOption::Orphan => {
            let message =
                "`orphan: true` is without effect: the work's deleteOption orphans every object";
            diagnostics.push(Diagnostic::new(
                Code::NoEffect,
                Location::file(path),
                scope.clone(),
                message,
            ));
            DeleteOption::Orphan
        }
    }
}

fn desired_work(
    key: &WorkKey,
    path: &RepoPath,
    settings: Settings,
    delete_option: DeleteOption,
    configs: Vec<Value>,
    manifests: Vec<Manifest>,
    inherited: &Inherited<'_>,
) -> DesiredWork {
    let objects: Vec<Value> = manifests.into_iter().map(|manifest| manifest.object).collect();
    let mut spec = json!({ "workload": { "manifests": objects } });
    if let Value::Object(fields) = &mut spec {
        if settings.delete_option.is_some() || delete_option != DeleteOption::Foreground {
            fields.insert(
                "deleteOption".into(),
                delete_option.to_value(settings.delete_option.as_ref()),
            );
        }
        if let Some(executor) = settings.executor {
            fields.insert("executor".into(), executor);
        }
        if !configs.is_empty() {
            fields.insert("manifestConfigs".into(), configs.into());
        }
    }
    let body = WorkBody::new(
        inherited.source,
        path,
        spec,
        settings.labels,
        settings.annotations,
        settings.prune,
    );
    DesiredWork {
        key: key.clone(),
        path: path.clone(),
        body: Arc::new(body),
        delete_option,
        prune: settings.prune,
        suspend: settings.suspend,
    }
}

/// Puts the source line under every diagnostic that has a place and no line yet.
pub fn add_snippets(diagnostics: &mut [Diagnostic], texts: &Texts) {
    let mut lines: BTreeMap<&RepoPath, Option<yaml::Lines<'_>>> = BTreeMap::new();
    for diagnostic in
        diagnostics.iter_mut().filter(|d| d.snippet.is_none() && d.severity != Severity::Info)
    {
        if let (Some(span), Some((file, text))) =
            (diagnostic.location.span, texts.get_key_value(&diagnostic.location.file))
        {
            let lines = lines.entry(file).or_insert_with(|| yaml::Lines::new(text));
            diagnostic.snippet = lines.as_ref().and_then(|lines| lines.snippet(span));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_sizes_count_as_the_webhook_does() {
        for (json_bytes, expected) in
            [(0, 2), (127, 129), (128, 131), (16_383, 16_386), (16_384, 16_388)]
        {
            assert_eq!(wire_size(json_bytes), expected, "{json_bytes}");
        }
    }
}
