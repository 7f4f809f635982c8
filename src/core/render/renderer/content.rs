//! What rendered works hold in memory: equal contents once, and all of them within a bound.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use gitwork_schemas::{CrdSchemas, KubernetesVersion};
use serde_json::Value;

use super::inputs::ClusterConfig;
use crate::config::WorkSettings;
use crate::limits;
use crate::model::approval::{Approvals, Target};
use crate::model::diagnostic::Diagnostic;
use crate::model::digest::{CanonicalJson, Digest};
use crate::model::kinds::CrdNames;
use crate::model::manifest::{Identity, Origin};
use crate::model::name::{GroupName, ObjectId, RepoPath};
use crate::model::spec_text::SpecText;
use crate::model::work::{DeletionPolicy, DesiredWork, NamedObject};
use crate::render::groups::GroupConfig;
use crate::render::layout::is_of_group;
use crate::render::relations::Relations;
use crate::render::values::{ClusterValues, Variable};
use crate::render::work_folder::{Rendered, RenderedSizes};

/// Bytes that an allocation costs besides its content.
const ALLOCATION: usize = 32;

/// The contents of a source's works. Equal ones are held once: a fleet has the same folder for many
/// clusters.
#[derive(Debug, Default)]
pub(super) struct SharedContent {
    /// Of works whose text nobody needs, the hashes of texts that are counted.
    counted: Option<HashSet<u64>>,
    texts: HashSet<CanonicalJson>,
    specs: HashSet<Arc<[CanonicalJson]>>,
    named: HashSet<Arc<[NamedObject]>>,
    placed: HashSet<Arc<[(Identity, Origin)]>>,
    variables: HashSet<Arc<[Variable]>>,
    /// What cluster.yaml says, by its blob.
    pub(super) configs: HashMap<ObjectId, Arc<ClusterConfig>>,
    /// The last rendered folders of each content.
    folders: HashMap<FolderContent, RenderedContent>,
}

/// The rendered folders of one content.
#[derive(Debug, Default)]
struct RenderedContent {
    /// All variables that rendering one of them has asked for.
    variables: Arc<[Variable]>,
    /// By the digest of the values of these variables.
    by_values: HashMap<Digest, Arc<Rendered>>,
}

impl RenderedContent {
    /// Keeps a folder. One that fails may have asked for other variables than others did. What is
    /// known by the values of fewer variables is dropped then: it may depend on another one.
    fn keep(&mut self, values: &ClusterValues<'_>, rendered: &Arc<Rendered>) {
        let is_known = |variable| self.variables.contains(variable);
        if !rendered.variables.iter().all(is_known) {
            let all = self.variables.iter().chain(rendered.variables.iter());
            let all: BTreeSet<&Variable> = all.collect();
            self.variables = all.into_iter().cloned().collect();
            self.by_values.clear();
        }
        self.by_values.insert(values.digest(&self.variables), rendered.clone());
    }
}

/// What a rendered folder follows from, besides the values of its variables.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FolderContent {
    /// The tree of the work folder.
    pub(super) tree: ObjectId,
    /// The blob of gitwork.yaml.
    pub(super) source: Option<ObjectId>,
    /// The group whose folder it is in, with the digest of the defaults in group.yaml.
    pub(super) group: Option<(GroupName, Digest)>,
    /// As in what the folder inherits.
    pub(super) reports_health: bool,
    /// The digest of how its works become ManifestWorkReplicaSets.
    pub(super) delivery: Option<Digest>,
    /// The digest of the defaults in cluster.yaml.
    pub(super) cluster_defaults: Digest,
    /// The version for which the objects are checked.
    pub(super) kubernetes_version: Option<KubernetesVersion>,
}

impl Clone for SharedContent {
    /// An empty one: while two hold a content, neither would notice that no work has it.
    fn clone(&self) -> Self {
        Self { counted: self.counted.as_ref().map(|_| HashSet::new()), ..Self::default() }
    }
}

impl SharedContent {
    /// Drops the text of each work once it is counted.
    pub(super) fn without_texts() -> Self {
        Self { counted: Some(HashSet::new()), ..Self::default() }
    }

    /// Counts what the folder holds, and replaces what others have as well by theirs.
    pub(super) fn share(&mut self, rendered: &mut Rendered) {
        rendered.sizes = sizes(rendered);
        share(&mut self.placed, &mut rendered.objects);
        share(&mut self.variables, &mut rendered.variables);
        share(&mut self.named, &mut rendered.frozen.objects);
        let Some(work) = rendered.work.as_mut().map(Arc::make_mut) else { return };
        share(&mut self.named, &mut work.objects);
        let Some(body) = Arc::get_mut(&mut work.body) else { return };
        // Another folder with this text has it from here.
        if Arc::strong_count(body.spec.parts()) > 1 {
            return;
        }
        if let Some(counted) = &mut self.counted {
            rendered.sizes.own += uncounted_bytes(counted, body.spec.parts());
            body.spec = SpecText::from_parts([].into());
            return;
        }
        let mut spec = body.spec.parts().clone();
        if !self.specs.contains(&spec) {
            spec = spec.iter().map(|part| self.text(part)).collect();
        }
        share(&mut self.specs, &mut spec);
        body.spec = SpecText::from_parts(spec);
    }

    fn text(&mut self, text: &CanonicalJson) -> CanonicalJson {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        self.texts.insert(text.clone());
        text.clone()
    }

    /// A folder of this content that was rendered with the same values.
    pub(super) fn rendered(
        &self,
        content: &FolderContent,
        values: &ClusterValues<'_>,
    ) -> Option<Arc<Rendered>> {
        let known = self.folders.get(content)?;
        known.by_values.get(&values.digest(&known.variables)).cloned()
    }

    /// Keeps a rendered folder, to be found again.
    pub(super) fn keep(
        &mut self,
        content: FolderContent,
        values: &ClusterValues<'_>,
        rendered: &Arc<Rendered>,
    ) {
        self.folders.entry(content).or_default().keep(values, rendered);
    }

    /// Drops the contents that nobody else holds.
    pub(super) fn drop_unused(&mut self) {
        self.folders.retain(|_, known| {
            known.by_values.retain(|_, one| Arc::strong_count(one) > 1);
            !known.by_values.is_empty()
        });
        self.specs.retain(|one| Arc::strong_count(one) > 1);
        self.texts.retain(CanonicalJson::is_shared);
        self.named.retain(|one| Arc::strong_count(one) > 1);
        self.placed.retain(|one| Arc::strong_count(one) > 1);
        self.variables.retain(|one| Arc::strong_count(one) > 1);
        self.configs.retain(|_, one| Arc::strong_count(one) > 1);
    }
}

/// The bytes of texts that were not counted before, as [`ContentBudget::spend_folder`] counts those
/// that are kept.
fn uncounted_bytes(counted: &mut HashSet<u64>, parts: &Arc<[CanonicalJson]>) -> usize {
    let hasher = BuildHasherDefault::<DefaultHasher>::new();
    let hashes: Vec<u64> = parts.iter().map(|part| hasher.hash_one(part)).collect();
    if parts.is_empty() || !counted.insert(hasher.hash_one(&hashes)) {
        return 0;
    }
    let new = parts.iter().zip(hashes).filter(|(_, hash)| counted.insert(*hash));
    size_of_val(&**parts)
        + ALLOCATION
        + new.map(|(one, _)| one.as_str().len() + ALLOCATION).sum::<usize>()
}

fn share<T: ?Sized + Eq + Hash>(known: &mut HashSet<Arc<T>>, one: &mut Arc<T>) {
    match known.get(one) {
        Some(known) => *one = known.clone(),
        None => drop(known.insert(one.clone())),
    }
}

/// The works of the source hold more than they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

/// The bytes that the rendered works may still hold. Each content counts once.
#[derive(Debug)]
pub(super) struct ContentBudget {
    left: usize,
    /// Bytes of files that may still be read for works.
    input_left: usize,
    /// Those of one folder of a group.
    input_of_folder: usize,
    /// Bytes of relations that may still be kept.
    relations_left: usize,
    /// What each folder of a group has cost.
    inputs: HashMap<RepoPath, usize>,
    /// The addresses of contents that are counted.
    counted: HashSet<usize, BuildHasherDefault<AddressHasher>>,
}

/// Spreads addresses: nobody chooses them, and each pass looks up all of them.
#[derive(Debug, Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, address: usize) {
        // The odd number next to 2^64 divided by the golden ratio (Knuth's multiplicative hash).
        let product = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

impl ContentBudget {
    /// Nothing is counted yet.
    pub(super) fn new(max: usize) -> Self {
        Self {
            left: max,
            input_left: max.saturating_mul(limits::INPUT_FACTOR),
            input_of_folder: max,
            relations_left: limits::RELATIONS_BYTES_MAX,
            inputs: HashMap::new(),
            counted: HashSet::default(),
        }
    }

    /// Whether a folder of a group may be rendered once more. Otherwise it freezes itself, and not
    /// the source.
    pub(super) fn allows_input_of(&self, folder: &RepoPath) -> bool {
        self.inputs.get(folder).is_none_or(|read| *read <= self.input_of_folder)
    }

    /// Counts the files of a folder that was rendered.
    pub(super) fn spend_input(&mut self, rendered: &Rendered) -> Result<(), TooLarge> {
        let bytes = rendered.input_bytes;
        if is_of_group(&rendered.path) {
            *self.inputs.entry(rendered.path.clone()).or_default() += bytes;
        }
        self.input_left = self.input_left.checked_sub(bytes).ok_or(TooLarge)?;
        Ok(())
    }

    /// Counts the relations of a folder that was rendered, apart from what works hold: a command
    /// must accept what the daemon accepts. Drops them once there are too many.
    pub(super) fn spend_relations(&mut self, rendered: &mut Rendered) {
        let Some(relations) = &mut rendered.relations else { return };
        match self.relations_left.checked_sub(relations.bytes()) {
            Some(left) => self.relations_left = left,
            None => *relations = Arc::new(Relations { is_cut: true, ..Relations::default() }),
        }
    }

    /// Counts bytes.
    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), TooLarge> {
        self.left = self.left.checked_sub(bytes).ok_or(TooLarge)?;
        Ok(())
    }

    /// Counts diagnostics.
    pub(super) fn spend_diagnostics<'a>(
        &mut self,
        all: impl IntoIterator<Item = &'a Diagnostic>,
    ) -> Result<(), TooLarge> {
        self.spend(all.into_iter().map(diagnostic_bytes).sum())
    }

    /// Counts what cluster.yaml says.
    pub(super) fn spend_config(&mut self, config: &Arc<ClusterConfig>) -> Result<(), TooLarge> {
        if self.counted.insert(Arc::as_ptr(config).addr()) {
            self.spend(config_bytes(config))?;
        }
        Ok(())
    }

    /// Counts what group.yaml says.
    pub(super) fn spend_group(&mut self, config: &Arc<GroupConfig>) -> Result<(), TooLarge> {
        let is_new = self.counted.insert(Arc::as_ptr(config).addr());
        if is_new { self.spend(config.bytes) } else { Ok(()) }
    }

    /// Counts a work folder: its contents, and what it has of its own.
    pub(super) fn spend_folder(&mut self, rendered: &Rendered) -> Result<(), TooLarge> {
        let sizes = rendered.sizes;
        self.spend(sizes.own)?;
        self.spend_content(address(&rendered.objects), sizes.objects)?;
        self.spend_content(address(named(rendered)), sizes.named)?;
        self.spend_content(address(&rendered.diagnostics), sizes.diagnostics)?;
        self.spend_content(address(&rendered.variables), sizes.variables)?;
        let Some(work) = &rendered.work else { return Ok(()) };
        let parts = work.body.spec.parts();
        // Those that are dropped were counted then.
        if !parts.is_empty() && self.counted.insert(address(parts)) {
            self.spend(size_of_val(&**parts) + ALLOCATION)?;
            for part in parts.iter() {
                let address = part.as_str().as_ptr().addr();
                self.spend_content(address, part.as_str().len() + ALLOCATION)?;
            }
        }
        Ok(())
    }

    fn spend_content(&mut self, address: usize, bytes: usize) -> Result<(), TooLarge> {
        if bytes > 0 && self.counted.insert(address) { self.spend(bytes) } else { Ok(()) }
    }
}

fn address<T>(list: &Arc<[T]>) -> usize {
    list.as_ptr().addr()
}

/// The objects of the work, or of the frozen folder.
fn named(rendered: &Rendered) -> &Arc<[NamedObject]> {
    rendered.work.as_ref().map_or(&rendered.frozen.objects, |work| &work.objects)
}

fn sizes(rendered: &Rendered) -> RenderedSizes {
    let mut own = size_of::<Rendered>() + ALLOCATION + rendered.path.as_str().len();
    let kinds = rendered.custom_kinds.iter();
    own += kinds.map(|((group, kind), _)| group.len() + 2 * kind.len() + 96).sum::<usize>();
    let schemas = |crd: &CrdNames| crd.schemas.as_ref().map_or(0, CrdSchemas::bytes);
    let crd_bytes = |crd: &CrdNames| 96 + crd.kind.len() + crd.group.len() + schemas(crd);
    own += rendered.crds.iter().map(crd_bytes).sum::<usize>();
    own += rendered.work.as_deref().map_or(0, work_bytes);
    let origin = |at: &Origin| size_of::<Origin>() + at.file.as_str().len();
    let object = |(identity, at): &(Identity, Origin)| identity_bytes(identity) + origin(at);
    RenderedSizes {
        own,
        objects: rendered.objects.iter().map(object).sum(),
        named: named(rendered).iter().map(named_bytes).sum(),
        diagnostics: rendered.diagnostics.iter().map(diagnostic_bytes).sum(),
        variables: rendered.variables.iter().map(variable_bytes).sum(),
    }
}

/// The bytes that approvals hold in memory.
pub(super) fn approval_bytes(approved: &Approvals) -> usize {
    let Approvals { deletions, changes, .. } = approved;
    let target = |Target { key, uid }: &Target| {
        let texts = [key.cluster.as_str(), key.work.as_str(), uid];
        let texts = texts.map(|text| text.len() + ALLOCATION);
        size_of::<Target>() + texts.into_iter().sum::<usize>()
    };
    deletions.iter().chain(changes).map(target).sum()
}

fn named_bytes(object: &NamedObject) -> usize {
    size_of::<NamedObject>() + object.resource.len() + ALLOCATION
}

fn identity_bytes(identity: &Identity) -> usize {
    let Identity { group, resource, namespace, name } = identity;
    let texts = [group, resource, namespace, name].into_iter();
    size_of::<Identity>() + texts.map(|text| text.len() + ALLOCATION / 2).sum::<usize>()
}

fn variable_bytes(variable: &Variable) -> usize {
    let name = match variable {
        Variable::Value(name) | Variable::Label(name) | Variable::Claim(name) => name.len(),
        Variable::ClusterName => 0,
    };
    size_of::<Variable>() + name + ALLOCATION
}

fn work_bytes(work: &DesiredWork) -> usize {
    let orphans = match &work.delete_option {
        DeletionPolicy::SelectivelyOrphan(rules) => rules.iter().map(identity_bytes).sum(),
        DeletionPolicy::Foreground | DeletionPolicy::Orphan => 0,
    };
    let depends_on = size_of_val(&*work.depends_on);
    // During a rollout, the desired state has a copy.
    work.body.metadata_bytes()
        + 2 * (size_of_val(work) + ALLOCATION)
        + size_of_val(&*work.body)
        + 2 * ALLOCATION
        + 2 * orphans
        + depends_on
}

fn diagnostic_bytes(one: &Diagnostic) -> usize {
    let texts = [&one.field, &one.hint, &one.snippet].into_iter().flatten();
    let related = one.related.iter().map(|(_, why)| why.len() + size_of::<(Diagnostic, String)>());
    size_of::<Diagnostic>()
        + one.message.len()
        + texts.map(String::len).sum::<usize>()
        + related.sum::<usize>()
}

fn config_bytes(config: &ClusterConfig) -> usize {
    let ClusterConfig { file, values, .. } = config;
    let WorkSettings { labels, annotations, manifest_configs, delete_option, executor, .. } =
        &file.defaults;
    let maps = [&file.labels, labels, annotations];
    let maps = maps.into_iter().flatten().map(|(name, value)| name.len() + value.len() + 64);
    // The file has the values, too, and the index of the rules has their names.
    let values =
        2 * values.all().iter().map(|(name, value)| entry_bytes(name, value)).sum::<usize>();
    let rules = 2 * manifest_configs.iter().map(value_bytes).sum::<usize>();
    let others = delete_option.iter().chain(executor).map(value_bytes);
    size_of::<ClusterConfig>() + maps.sum::<usize>() + values + rules + others.sum::<usize>()
}

fn entry_bytes(name: &str, value: &Value) -> usize {
    name.len() + size_of::<String>() + ALLOCATION + value_bytes(value)
}

/// Values are nested up to [`gitwork_yaml::limits::YAML_DEPTH_MAX`] levels.
fn value_bytes(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len() + ALLOCATION / 2,
            Value::Array(items) => items.iter().map(value_bytes).sum(),
            Value::Object(fields) => fields.iter().map(|(n, v)| entry_bytes(n, v)).sum(),
        }
}
