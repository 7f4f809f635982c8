//! One work folder into one ManifestWork: reads its files, checks every manifest, merges the
//! settings of all levels, fills in `resourceIdentifier`.

mod agent_rules;
mod checks;
mod default_namespace;
mod dependencies;
mod diagnostics;
mod files;
mod folder_config;
mod health_rules;
mod inherited;
mod manifest_configs;
mod near_objects;
mod parts;
mod plurals;
mod rule_index;
mod settings;
mod sidecar;

pub use checks::wire_size;
pub use default_namespace::namespace_of;
pub use dependencies::Dependency;
pub use diagnostics::WorkDiagnostics;
pub use folder_config::Reuse;
pub use inherited::{Inherited, SettingsLevel};
pub use manifest_configs::is_about;
pub use plurals::{NamedPlurals, name_resources};
pub use rule_index::{ConfigIndex, RuleSteps};
pub use sidecar::{Covering, Sidecar, sidecar_fields};

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::layout;
use super::layout::WorkFolderFile;
use super::snippets::add_snippets;
use crate::config::path_patterns::PathPatterns;
use crate::config::tenancy::{Tenant, TenantFolder};
use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::diagnostic_sink::ScopedDiagnostic;
use crate::model::kinds::{CrdNames, Found, KindIndex};
use crate::model::manifest::{Identity, Manifest, Origin};
use crate::model::name::{ObjectId, RepoPath, WorkKey, WorkName};
use crate::model::snapshot::{ObjectError, Objects};
use crate::model::work::{DesiredWork, NamedObject};
use crate::render::desired::FrozenObjects;
use crate::render::relations::Relations;
use crate::render::substitute::Substitution;
use crate::render::values::Variable;
use crate::text::truncate::truncate_chars;
use agent_rules::{check_agent_rules, check_orphaning_rules, check_ttl};
use checks::{check_objects, check_tenancy, folder_refused};
use files::FolderFiles;
use folder_config::FolderConfig;
use manifest_configs::{ObjectRules, WorkRules};
use parts::WorkParts;
use rule_index::TooManySteps;
use sidecar::orphans;

/// What few work folders have: a daemon holds the outcome for each one.
#[derive(Debug, Clone, Default)]
pub struct Uncommon {
    /// What is known of the objects if an error freezes the folder.
    pub frozen: FrozenObjects,
    /// The CRDs of the folder. Those of a frozen work count for that work only.
    pub crds: Vec<CrdNames>,
    /// The kinds that are neither built in nor defined by a CRD of this work, with the plural that
    /// was assumed.
    pub custom_kinds: BTreeMap<(String, String), Found>,
    /// If it was not rendered because its group has too many members: their number.
    pub too_many_members: Option<usize>,
}

/// The outcome for one work folder.
#[derive(Debug)]
pub struct Rendered {
    /// The work's key, if it is known.
    pub key: Option<WorkKey>,
    /// The work folder, from the source's path.
    pub path: RepoPath,
    /// `None` where an error freezes the work.
    pub work: Option<Arc<DesiredWork>>,
    /// Every object of the work and where it stands, from the work folder, for the checks between
    /// works. Empty where an error freezes the work: its objects then count for nobody.
    pub objects: Arc<[(Identity, Origin)]>,
    /// What few folders have; `None` if it has none of it.
    uncommon: Option<Box<Uncommon>>,
    /// What an error of the folder freezes.
    pub scope: Scope,
    /// What is wrong with the folder and its files. Folders of several clusters share them, so
    /// their scope is that of any of these: see [`Rendered::problems`].
    pub diagnostics: Arc<[Diagnostic]>,
    /// Whether the work replaces those of groups that have its name.
    pub replaces_group: bool,
    /// The works that it depends on.
    pub depends_on: Arc<[Dependency]>,
    /// The variables of the manifests. A folder has the same ones for every cluster.
    pub variables: Arc<[Variable]>,
    /// What its objects look for, and what they offer; `None` if that is nothing.
    pub relations: Option<Arc<Relations>>,
    /// Whether a folder with the same files, inherited settings and values gives the same
    /// elsewhere.
    pub reuse: Reuse,
    /// The bytes of its files, with those that variables have added.
    pub input_bytes: usize,
    /// What it holds in memory; counted once, as every pass asks for it.
    pub sizes: RenderedSizes,
}

/// The bytes that a rendered folder holds in memory, besides the text of its work.
#[derive(Debug, Clone, Copy, Default)]
pub struct RenderedSizes {
    /// What no other folder can share.
    pub own: usize,
    /// `Rendered::objects`.
    pub objects: usize,
    /// The objects of the work, or of the frozen folder.
    pub named: usize,
    /// `Rendered::diagnostics`.
    pub diagnostics: usize,
    /// `Rendered::variables`.
    pub variables: usize,
}

impl RenderedSizes {
    /// Diagnostics, too, count for each folder.
    pub(super) fn unshared(self) -> usize {
        self.own + self.diagnostics
    }
}

/// Renders a work folder. An error is one of the object database only; all else is a diagnostic.
pub fn render(
    path: &RepoPath,
    tree: ObjectId,
    inherited: &Inherited<'_>,
    ignore: &PathPatterns,
    kinds: &KindIndex,
    objects: &dyn Objects,
) -> Result<Rendered, ObjectError> {
    let folder_key = layout::folder_key(path, inherited.cluster);
    let scope = Scope::Work(folder_key.clone());
    // The policy first: nothing is read of a folder that may have no work.
    if let Some(breach) = inherited.tenancy.folder_breach(path, inherited.cluster) {
        let refused = folder_refused(&breach, path, inherited, &scope);
        return Ok(Rendered::without_work(path, scope.clone(), None, [refused]));
    }
    let found = layout::work_folder(path, tree, objects, ignore, &scope)?;
    let diagnostics = WorkDiagnostics::new(&scope, found.diagnostics);
    let mut files = FolderFiles::new(objects, inherited.parsed, diagnostics);
    let work_file = files.work_file(found.work_file.as_ref())?;
    let folder = FolderConfig { path, work_file: work_file.as_ref() };
    let key = work_key(&folder, &folder_key, &mut files.diagnostics);
    let replaces_group = check_replaces(&folder, inherited, &mut files.diagnostics);
    let depends_on = dependencies::read(&folder, &mut files.diagnostics);
    check_delivery(&folder, inherited, &mut files.diagnostics);
    let settings = inherited.settings(work_file.as_ref());
    let mut values = settings.substitute.then(|| Substitution::new(&inherited.values));
    let namespace = default_namespace::checked(&settings, &folder, &mut files.diagnostics);
    let has_bad_namespace = namespace.is_none() && settings.namespace.is_some();
    let rules = inherited.manifest_rules(kinds, &scope, (namespace, has_bad_namespace));
    let mut manifests = files.manifests(&found.manifests, &rules, values.as_mut())?;
    let added = default_namespace::add(&mut manifests, (&settings, namespace), &folder);
    let substituted = values.as_ref().map_or(0, Substitution::added_bytes);
    let variables: Arc<[Variable]> = values.map(Substitution::into_used).unwrap_or_default().into();
    let mut sidecars = files.sidecars(&found.sidecars)?;
    let FolderFiles { texts, bytes: input_bytes, mut diagnostics, mut relations, .. } = files;
    relations.locate_from(path);
    let (mut configs, orphans) =
        apply_rules(&mut manifests, &mut sidecars, &folder, (inherited, kinds), &mut diagnostics);
    check_orphaning_rules(&manifests, &folder, &mut diagnostics);
    check_objects(path, &manifests, &mut diagnostics);
    settings.check_metadata(&folder, &mut diagnostics);
    let delete_option = settings.deletion_policy(orphans, path, &mut diagnostics);
    let delete_option = default_namespace::keep(added.as_ref(), &mut configs, delete_option);
    check_ttl(settings.delete_option.as_ref(), &configs, &folder, &mut diagnostics);
    let parts =
        WorkParts { settings, delete_option, configs, manifests, depends_on: depends_on.clone() };
    let is_allowed = check_policy(&parts, &folder, (inherited, kinds), &mut diagnostics);

    let mut diagnostics = diagnostics.into_all();
    add_snippets(&mut diagnostics, &texts);
    let failed = diagnostics.iter().any(Diagnostic::freezes_work);
    let mut rendered = Rendered::without_work(path, scope.clone(), None, diagnostics);
    rendered.input_bytes = input_bytes + substituted;
    rendered.replaces_group = replaces_group;
    rendered.depends_on = depends_on;
    rendered.variables = variables;
    rendered.relations = (!relations.is_empty()).then(|| Arc::new(relations));
    rendered.set_custom_kinds(custom_kinds(&parts.manifests, kinds));
    // What is not allowed takes no name and no object from works that are.
    if is_allowed {
        rendered.key = Some(key.clone().unwrap_or(folder_key));
        let frozen = failed.then(|| inherited.tenancy.of_folder(path, inherited.cluster));
        rendered.set_objects(&parts.manifests, &found.manifests, frozen, added.as_ref());
    }
    if rendered.diagnostics.is_empty() && ignore.is_empty() {
        rendered.reuse = folder.reuse();
    }
    let key = key.filter(|_| !failed);
    // They may be large, and the work is put together from what is left.
    drop((sidecars, texts));
    rendered.work = key.map(|key| Arc::new(parts.into_work(key, path, inherited)));
    Ok(rendered)
}

impl Rendered {
    /// What few folders have.
    pub fn uncommon(&self) -> &Uncommon {
        static NOTHING: LazyLock<Uncommon> = LazyLock::new(Uncommon::default);
        self.uncommon.as_deref().unwrap_or(&NOTHING)
    }

    /// The bytes of what few folders have, without what that refers to.
    pub(crate) fn uncommon_bytes(&self) -> usize {
        self.uncommon.as_deref().map_or(0, size_of_val)
    }

    /// As [`Self::uncommon`], to be changed.
    pub(crate) fn uncommon_mut(&mut self) -> &mut Uncommon {
        self.uncommon.get_or_insert_default()
    }

    /// Whether `kinds` answers other than the kinds with which the folder was rendered.
    pub(crate) fn is_stale(&self, kinds: &KindIndex) -> bool {
        let mut all = self.uncommon().custom_kinds.iter();
        all.any(|((group, kind), answer)| kinds.lookup(group, kind) != *answer)
    }

    fn set_custom_kinds(&mut self, custom_kinds: BTreeMap<(String, String), Found>) {
        if !custom_kinds.is_empty() {
            self.uncommon_mut().custom_kinds = custom_kinds;
        }
    }

    /// Sets what is known of the objects. `frozen`: the folder, if an error freezes it.
    fn set_objects(
        &mut self,
        manifests: &[Manifest],
        files: &[WorkFolderFile],
        frozen: Option<TenantFolder>,
        added: Option<&Identity>,
    ) {
        let crds: Vec<_> = manifests.iter().filter_map(|one| CrdNames::of(&one.object)).collect();
        if !crds.is_empty() {
            self.uncommon_mut().crds = crds;
        }
        match frozen {
            Some(folder) => {
                self.uncommon_mut().frozen = frozen_objects(manifests, files, self, folder);
            }
            None => self.objects = objects_from(&self.path, manifests, added),
        }
    }

    /// A folder whose work is frozen, and of whose objects nothing is known.
    pub fn without_work(
        path: &RepoPath,
        scope: Scope,
        key: Option<WorkKey>,
        diagnostics: impl Into<Arc<[Diagnostic]>>,
    ) -> Self {
        let diagnostics = Some(diagnostics.into()).filter(|found| !found.is_empty());
        Self {
            key,
            path: path.clone(),
            work: None,
            objects: Arc::default(),
            uncommon: None,
            scope,
            // All folders without a problem share this one.
            diagnostics: diagnostics.unwrap_or_default(),
            replaces_group: false,
            depends_on: Arc::default(),
            variables: Arc::default(),
            relations: None,
            reuse: Reuse::SameFolder,
            input_bytes: 0,
            sizes: RenderedSizes::default(),
        }
    }

    /// What is wrong with the folder and its files.
    pub fn problems(&self) -> impl Iterator<Item = ScopedDiagnostic<'_>> {
        let scoped = |diagnostic| ScopedDiagnostic { scope: &self.scope, diagnostic };
        self.diagnostics.iter().map(scoped)
    }

    /// Whether the folder may fail for another cluster in the same way. Some messages name the
    /// cluster.
    pub(crate) fn is_for_any_cluster(&self) -> bool {
        let is_of_cluster = |one: &Diagnostic| {
            matches!(one.code, Code::NotAllowed | Code::UnknownFacts | Code::UnknownVariable)
        };
        self.work.is_some() || !self.diagnostics.iter().any(is_of_cluster)
    }

    /// The outcome for a folder with the same files, inherited settings and values. `None` if it
    /// must be rendered.
    pub(crate) fn elsewhere(&self, path: &RepoPath, inherited: &Inherited<'_>) -> Option<Self> {
        let known = self.key.as_ref()?;
        let is_same = *path == self.path;
        // They name the cluster.
        let of_cluster = |one: &Diagnostic| one.code.is_about_version();
        if known.cluster != *inherited.cluster && self.diagnostics.iter().any(of_cluster) {
            return None;
        }
        let name = match self.reuse {
            Reuse::SameFolder if !is_same => return None,
            Reuse::SameFolder | Reuse::SameName => known.work.clone(),
            Reuse::FolderName => WorkName::parse(path.name()).ok()?,
        };
        let key = WorkKey { cluster: inherited.cluster.clone(), work: name };
        // In a folder with a longer path, that of a file may be too long.
        let is_alike = path.as_str().len() <= self.path.as_str().len()
            && inherited.tenancy.judges_alike((&self.path, known), (path, &key));
        if !is_alike || !self.is_for_any_cluster() {
            return None;
        }
        // Diagnostics are about the files, which are the same: there are some in the same folder
        // only.
        let scope = Scope::Work(layout::folder_key(path, inherited.cluster));
        let mut rendered =
            Self::without_work(path, scope, Some(key.clone()), self.diagnostics.clone());
        let mut frozen = FrozenObjects::default();
        match &self.work {
            Some(work) => {
                let in_folder = || Arc::new(work.body.in_folder(path));
                let body = if is_same { work.body.clone() } else { in_folder() };
                let depends_on = Dependency::keys(&self.depends_on, inherited.cluster);
                let (path, work) = (path.clone(), (**work).clone());
                let work = DesiredWork { key, path, body, depends_on, ..work };
                rendered.work = Some(Arc::new(work));
            }
            None => {
                let folder = || Arc::new(inherited.tenancy.of_folder(path, inherited.cluster));
                let FrozenObjects { objects, unread, .. } = &self.uncommon().frozen;
                let unread = unread.first().map(|_| folder()).into_iter().collect();
                let objects = objects.clone();
                frozen = FrozenObjects { objects, unread, ..FrozenObjects::default() };
            }
        }
        rendered.uncommon = self.uncommon.clone();
        if let Some(uncommon) = &mut rendered.uncommon {
            (uncommon.frozen, uncommon.too_many_members) = (frozen, None);
        }
        rendered.objects = self.objects.clone();
        rendered.reuse = self.reuse;
        rendered.replaces_group = self.replaces_group;
        rendered.depends_on = self.depends_on.clone();
        rendered.variables = self.variables.clone();
        rendered.relations = self.relations.clone();
        Some(rendered)
    }
}

/// Whether the operator's policy allows the work. Reports each breach.
fn check_policy(
    parts: &WorkParts,
    folder: &FolderConfig<'_>,
    (inherited, kinds): (&Inherited<'_>, &KindIndex),
    diagnostics: &mut WorkDiagnostics<'_>,
) -> bool {
    let tenant = Tenant {
        path: folder.path,
        cluster: inherited.cluster,
        work: folder.work_name(),
        executor: parts.settings.executor.as_ref(),
        manifests: &parts.manifests,
        kinds,
    };
    check_tenancy(inherited.tenancy, &tenant, folder, diagnostics)
}

/// `manifestConfigs` and the orphaned objects, by the rules of all levels. Both are empty where the
/// rules are too many, which is reported.
fn apply_rules(
    manifests: &mut [Manifest],
    sidecars: &mut [Sidecar],
    folder: &FolderConfig<'_>,
    (inherited, kinds): (&Inherited<'_>, &KindIndex),
    diagnostics: &mut WorkDiagnostics<'_>,
) -> (Vec<Value>, BTreeSet<Identity>) {
    let mut steps = RuleSteps::default();
    let mut apply = || {
        let covering = Covering::find(manifests, sidecars, &mut steps, diagnostics)?;
        let entries = folder.manifest_configs();
        let named =
            NamedPlurals { sidecars, covering: &covering, entries, crds: &inherited.checks.crds };
        name_resources(manifests, named, kinds, diagnostics);
        let rules = WorkRules::new(sidecars, &covering, folder, inherited);
        let rules = rules.manifest_configs(manifests, folder, &mut steps, diagnostics)?;
        check_agent_rules(manifests, &rules, (sidecars, folder), diagnostics);
        let entry = |rules: ObjectRules| {
            let manifest = manifests.get(rules.manifest)?;
            Some(rules.into_entry(&manifest.identity))
        };
        let configs = rules.into_iter().filter_map(entry).collect();
        Ok((configs, orphans(manifests, sidecars, &covering)))
    };
    apply().unwrap_or_else(|TooManySteps| {
        let message = "the rules of this work have too many wildcards for its number of objects";
        let at = Location::file(folder.path);
        let diagnostic = diagnostics.of(Code::TooManyFiles, at, message);
        diagnostics.push(diagnostic.with_hint("name the objects exactly, or split the work"));
        Default::default()
    })
}

/// The objects of a folder, and where they stand from there: equal folders have equal ones.
/// Leaves out a Namespace that gitwork added: any number of works may have it.
fn objects_from(
    folder: &RepoPath,
    manifests: &[Manifest],
    added: Option<&Identity>,
) -> Arc<[(Identity, Origin)]> {
    let mut files: BTreeMap<&RepoPath, RepoPath> = BTreeMap::new();
    let mut all = Vec::with_capacity(manifests.len());
    let is_own = |one: &&Manifest| Some(&one.identity) != added;
    for Manifest { identity, origin, .. } in manifests.iter().filter(is_own) {
        let file = files.entry(&origin.file).or_insert_with(|| origin.file.relative_to(folder));
        all.push((identity.clone(), Origin { file: file.clone(), ..origin.clone() }));
    }
    all.into()
}

/// The objects of a folder, as far as its manifests could be read: an error freezes them.
fn frozen_objects(
    manifests: &[Manifest],
    files: &[WorkFolderFile],
    rendered: &Rendered,
    folder: TenantFolder,
) -> FrozenObjects {
    let named = manifests.iter().map(|one| (&one.object, one.identity.resource.as_str()));
    let errors = rendered.diagnostics.iter().filter(|found| found.freezes_work());
    // All manifests of a work with a bad name or too many bytes were read.
    let errors = errors.filter(|one| !matches!(one.code, Code::BadName | Code::WorkTooLarge));
    let at: HashSet<&RepoPath> = errors.map(|found| &found.location.file).collect();
    let hides = at.contains(&rendered.path) || files.iter().any(|file| at.contains(&file.path));
    let unread = hides.then(|| Arc::new(folder)).into_iter().collect();
    FrozenObjects { objects: NamedObject::all(named), unread, ..FrozenObjects::default() }
}

/// Whether the work replaces those of groups. Only a cluster's own folder can.
fn check_replaces(
    folder: &FolderConfig<'_>,
    inherited: &Inherited<'_>,
    diagnostics: &mut WorkDiagnostics<'_>,
) -> bool {
    let replaces = folder.work_file.and_then(|config| config.value.replaces);
    if replaces.is_some() && inherited.group.is_some() {
        let message = "the folder of a group replaces no work: `replaces` is for the folder of a \
                       cluster";
        let found = diagnostics.of(Code::BadValue, folder.location("/replaces"), message);
        diagnostics.push(found.with_field("replaces"));
    }
    replaces.is_some()
}

/// What the folder of a ManifestWorkReplicaSet cannot have: no order, and no name for which OCM has
/// no label.
fn check_delivery(
    folder: &FolderConfig<'_>,
    inherited: &Inherited<'_>,
    diagnostics: &mut WorkDiagnostics<'_>,
) {
    let Some(delivery) = inherited.delivery else { return };
    if folder.work_file.is_some_and(|config| !config.value.depends_on.is_empty()) {
        let message = "the work is delivered as a ManifestWorkReplicaSet, which waits for no other \
                       work";
        let found = diagnostics.of(Code::BadValue, folder.location("/dependsOn"), message);
        diagnostics.push(found.with_field("dependsOn"));
    }
    // Its ManifestWorks have the label `NAMESPACE.NAME` (OCM hub, A.3).
    let label = delivery.place.namespace().len() + 1 + folder.work_name().len();
    if label > LABEL_BYTES_MAX {
        let message = format!(
            "the ManifestWorkReplicaSet cannot have this name: with the namespace {} it has \
             {label} characters, and OCM takes at most {LABEL_BYTES_MAX}",
            delivery.place.namespace()
        );
        diagnostics.add(Code::BadName, folder.location("/name"), message);
    }
}

/// The most that the value of a label has, in bytes.
const LABEL_BYTES_MAX: usize = 63;

/// The key that work.yaml or the folder's name gives. `of_folder`: the key by the folder's name,
/// which the work shares if it has this name.
fn work_key(
    folder: &FolderConfig<'_>,
    of_folder: &WorkKey,
    diagnostics: &mut WorkDiagnostics<'_>,
) -> Option<WorkKey> {
    let text = folder.work_name();
    match WorkName::parse(text) {
        Ok(work) if work == of_folder.work => Some(of_folder.clone()),
        Ok(work) => Some(WorkKey { work, ..of_folder.clone() }),
        Err(why) => {
            let text = truncate_chars(text, limits::MESSAGE_TEXT_CHARS_MAX);
            let message = format!("{text:?} cannot be the name of a ManifestWork: it {why}");
            diagnostics.add(Code::BadName, folder.location("/name"), message);
            None
        }
    }
}

/// The kinds that are neither built in nor defined by a CRD of the work.
fn custom_kinds(manifests: &[Manifest], kinds: &KindIndex) -> BTreeMap<(String, String), Found> {
    let all: BTreeSet<(&str, &str)> =
        manifests.iter().map(|one| (&*one.identity.group, &*one.kind)).collect();
    let named = all
        .into_iter()
        .map(|(group, kind)| ((group.to_owned(), kind.to_owned()), kinds.lookup(group, kind)));
    named.filter(|(_, found)| !matches!(found, Found::BuiltIn { .. })).collect()
}
