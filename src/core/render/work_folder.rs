//! One work folder into one ManifestWork: reads its files, checks every manifest, merges the
//! settings of all levels, fills in `resourceIdentifier`.

mod checks;
mod diagnostics;
mod files;
mod folder_config;
mod manifest_configs;
mod parts;
mod settings;
mod sidecar;

pub use checks::wire_size;
pub use diagnostics::WorkDiagnostics;
pub use manifest_configs::is_about;
pub use sidecar::{Sidecar, name_resources, sidecar_fields};

use std::collections::BTreeMap;

use serde_json::Value;

use super::layout;
use super::layout::WorkFolderFile;
use super::manifests;
use super::snippets::add_snippets;
use crate::config::path_patterns::PathPatterns;
use crate::config::tenancy::{Tenancy, Tenant};
use crate::config::{SecretPolicy, WorkSettings};
use crate::model::diagnostic::{Code, Diagnostic, Scope};
use crate::model::kinds::{CrdNames, Found, KindIndex};
use crate::model::manifest::{Identity, Manifest, Origin};
use crate::model::name::{ClusterName, ObjectId, RepoPath, SourceId, WorkKey, WorkName};
use crate::model::snapshot::{ObjectError, Objects};
use crate::model::work::{DesiredWork, NamedObject};
use crate::render::desired::FrozenObjects;
use checks::{check_objects, check_tenancy};
use files::FolderFiles;
use folder_config::FolderConfig;
use manifest_configs::manifest_configs;
use parts::WorkParts;
use settings::Settings;
use sidecar::orphans;

/// What a work folder inherits from above it.
#[derive(Debug)]
pub struct Inherited<'a> {
    /// The source that the work belongs to.
    pub source: &'a SourceId,
    /// What the operator lets the folder do.
    pub tenancy: &'a Tenancy,
    /// The cluster whose folder it is in.
    pub cluster: &'a ClusterName,
    /// Lowest precedence first: `gitwork.yaml`'s defaults, then `cluster.yaml`'s.
    pub settings: [&'a WorkSettings; 2],
    /// The values of `${NAME}`.
    pub values: &'a BTreeMap<String, Value>,
    /// What becomes of Secrets with data.
    pub secrets: SecretPolicy,
}

/// The outcome for one work folder.
#[derive(Debug)]
pub struct Rendered {
    /// The work's key, if it is known.
    pub key: Option<WorkKey>,
    /// The work folder, from the source's path.
    pub path: RepoPath,
    /// `None` where an error freezes the work.
    pub work: Option<DesiredWork>,
    /// Every object of the work and where it stands, for the checks between works.
    pub objects: Vec<(Identity, Origin)>,
    /// What is known of the objects if an error freezes the folder.
    pub frozen: FrozenObjects,
    /// The CRDs among them.
    pub crds: Vec<CrdNames>,
    /// The kinds that are neither built in nor defined by a CRD of this work, with the plural that
    /// was assumed.
    pub custom_kinds: BTreeMap<(String, String), Found>,
    /// What is wrong with the folder and its files.
    pub diagnostics: Vec<Diagnostic>,
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
    let folder_key = folder_key(path, inherited.cluster);
    let scope = match &folder_key {
        Some(key) => Scope::Work(key.clone()),
        None => Scope::Cluster(inherited.cluster.clone()),
    };
    let found = layout::work_folder(path, tree, objects, ignore, &scope)?;
    let mut files = FolderFiles::new(objects, WorkDiagnostics::new(&scope, found.diagnostics));
    let work_file = files.work_file(found.work_file.as_ref())?;
    let folder = FolderConfig { path, work_file: work_file.as_ref() };
    let key = work_key(&folder, inherited.cluster, &mut files.diagnostics);
    let levels = inherited.settings;
    let settings = Settings::merge(levels, work_file.as_ref());
    let values = settings.substitute.then_some(inherited.values);
    let rules = manifests::Rules { kinds, values, secrets: inherited.secrets, scope: &scope };
    let mut manifests = files.manifests(&found.manifests, &rules)?;
    let sidecars = files.sidecars(&found.sidecars)?;
    let FolderFiles { texts, mut diagnostics, .. } = files;
    name_resources(&mut manifests, &sidecars, kinds, &mut diagnostics);
    let configs = manifest_configs(&manifests, &sidecars, &folder, levels, &mut diagnostics);
    check_objects(path, &manifests, &mut diagnostics);
    settings.check_metadata(&folder, &mut diagnostics);
    let orphans = orphans(&manifests, &sidecars);
    let delete_option = settings.deletion_policy(orphans, path, &mut diagnostics);
    let parts = WorkParts { settings, delete_option, configs, manifests };
    let is_allowed = key.as_ref().is_none_or(|key| {
        let tenant = Tenant {
            path,
            cluster: inherited.cluster,
            work: &key.work,
            executor: parts.settings.executor.as_ref(),
            manifests: &parts.manifests,
        };
        check_tenancy(inherited.tenancy, &tenant, &folder, &mut diagnostics)
    });

    let mut diagnostics = diagnostics.into_all();
    add_snippets(&mut diagnostics, &texts);
    let failed = diagnostics.iter().any(Diagnostic::is_error);
    let mut rendered = Rendered {
        key: None,
        path: path.clone(),
        work: None,
        objects: Vec::new(),
        frozen: FrozenObjects::default(),
        crds: Vec::new(),
        custom_kinds: custom_kinds(&parts.manifests, kinds),
        diagnostics,
    };
    // What is not allowed takes no name and no object from works that are.
    if is_allowed {
        rendered.key = key.clone().or(folder_key);
        let all = || parts.manifests.iter();
        rendered.objects = all().map(|one| (one.identity.clone(), one.origin.clone())).collect();
        rendered.crds = all().filter_map(|one| CrdNames::of(&one.object)).collect();
        let frozen = || frozen_objects(&parts.manifests, &found.manifests, &rendered);
        rendered.frozen = failed.then(frozen).unwrap_or_default();
    }
    let key = key.filter(|_| !failed);
    rendered.work = key.map(|key| parts.into_work(key, path, inherited.source));
    Ok(rendered)
}

/// The objects of a folder, as far as its manifests could be read: an error freezes them.
fn frozen_objects(
    manifests: &[Manifest],
    files: &[WorkFolderFile],
    rendered: &Rendered,
) -> FrozenObjects {
    let named = manifests.iter().map(|one| (&one.object, one.identity.resource.as_str()));
    let hides = |found: &Diagnostic| {
        let at = &found.location.file;
        found.is_error() && (*at == rendered.path || files.iter().any(|file| file.path == *at))
    };
    FrozenObjects {
        objects: NamedObject::all(named),
        may_hide_more: rendered.diagnostics.iter().any(hides),
    }
}

/// The key that the folder's own name gives.
fn folder_key(path: &RepoPath, cluster: &ClusterName) -> Option<WorkKey> {
    WorkName::parse(path.name()).ok().map(|work| WorkKey { cluster: cluster.clone(), work })
}

/// The key that work.yaml or the folder's name gives.
fn work_key(
    folder: &FolderConfig<'_>,
    cluster: &ClusterName,
    diagnostics: &mut WorkDiagnostics<'_>,
) -> Option<WorkKey> {
    let named = folder.work_file.and_then(|config| config.value.name.as_deref());
    let text = named.unwrap_or(folder.path.name());
    match WorkName::parse(text) {
        Ok(work) => Some(WorkKey { cluster: cluster.clone(), work }),
        Err(why) => {
            let message = format!("{text:?} cannot be the name of a ManifestWork: it {why}");
            diagnostics.add(Code::BadName, folder.location("/name"), message);
            None
        }
    }
}

/// The kinds that are neither built in nor defined by a CRD of the work.
fn custom_kinds(manifests: &[Manifest], kinds: &KindIndex) -> BTreeMap<(String, String), Found> {
    let named = manifests.iter().map(|manifest| {
        let (group, kind) = (&manifest.identity.group, &manifest.kind);
        ((group.clone(), kind.clone()), kinds.lookup(group, kind))
    });
    named.filter(|(_, found)| !matches!(found, Found::BuiltIn { .. })).collect()
}
