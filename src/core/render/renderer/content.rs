//! What rendered works have in common: equal contents are held once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::Arc;

use gitwork_api::compressed_json::CompressedJson;
use gitwork_schemas::KubernetesVersion;

use super::inputs::ClusterConfig;
use super::sizes::{named_bytes, placed_bytes, sizes, spec_bytes, text_bytes, variables_bytes};
use crate::model::digest::Digest;
use crate::model::manifest::{Identity, Origin};
use crate::model::name::{GroupName, ObjectId};
use crate::model::spec_text::SpecText;
use crate::model::work::{DesiredWork, NamedObject};
use crate::render::values::{ClusterValues, Variable};
use crate::render::work_folder::{Rendered, RenderedSizes};

/// Unused contents are dropped once they may be so much of all: one part in this many.
const UNUSED_PARTS: usize = 16;

/// The contents of a source's works. Equal ones are held once: a fleet has the same folder for many
/// clusters.
#[derive(Debug)]
pub(super) struct SharedContent {
    /// Of works whose text nobody needs, the hashes of texts that are counted.
    counted: Option<HashSet<u64>>,
    texts: HashSet<CompressedJson>,
    specs: HashSet<Arc<[CompressedJson]>>,
    named: HashSet<Arc<[NamedObject]>>,
    placed: HashSet<Arc<[(Identity, Origin)]>>,
    variables: HashSet<Arc<[Variable]>>,
    /// What cluster.yaml says, by its blob.
    pub(super) configs: HashMap<ObjectId, Arc<ClusterConfig>>,
    /// The last rendered folders of each content, by its digest.
    folders: HashMap<ContentDigest, KnownFolders>,
    /// The bytes of the five sets; `None` if works may hold contents that are in none.
    bytes: Option<usize>,
    unused: Unused,
}

/// How much may be unused.
#[derive(Debug, Default)]
struct Unused {
    /// The bytes of all contents when unused ones were dropped.
    bytes_before: usize,
    /// Folders that were replaced or removed since.
    folders: usize,
    /// Somebody may have held works of an earlier commit then.
    was_held: bool,
}

/// The rendered folders of one content.
#[derive(Debug)]
enum KnownFolders {
    /// Without variables, there is one.
    Fixed(Arc<Rendered>),
    Variable(Box<FoldersByValues>),
}

/// The rendered folders of one content with variables.
#[derive(Debug, Default)]
struct FoldersByValues {
    /// All variables that rendering one of them has asked for.
    variables: Arc<[Variable]>,
    /// By the digest of the values of these variables.
    by_values: HashMap<Digest, Arc<Rendered>>,
}

impl FoldersByValues {
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

/// Half of a SHA-256 digest: a daemon has one for each different work folder.
type ContentDigest = [u8; 16];

/// What a rendered folder follows from, besides the values of its variables.
#[derive(Debug, Clone, Hash)]
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

impl FolderContent {
    fn digest(&self) -> ContentDigest {
        let Digest(bytes) = Digest::of_hash(self);
        let mut half = ContentDigest::default();
        half.copy_from_slice(&bytes[..size_of::<ContentDigest>()]);
        half
    }
}

impl Default for SharedContent {
    fn default() -> Self {
        Self {
            counted: None,
            texts: HashSet::new(),
            specs: HashSet::new(),
            named: HashSet::new(),
            placed: HashSet::new(),
            variables: HashSet::new(),
            configs: HashMap::new(),
            folders: HashMap::new(),
            bytes: Some(0),
            unused: Unused::default(),
        }
    }
}

impl Clone for SharedContent {
    /// An empty one: while two hold a content, neither would notice that no work has it.
    fn clone(&self) -> Self {
        let counted = self.counted.as_ref().map(|_| HashSet::new());
        Self { counted, bytes: None, ..Self::default() }
    }
}

impl SharedContent {
    /// Drops the text of each work once it is counted.
    pub(super) fn without_texts() -> Self {
        Self { counted: Some(HashSet::new()), bytes: None, ..Self::default() }
    }

    /// The bytes of all contents: at least those of all works, and those of earlier ones until
    /// [`Self::drop_unused`]. `None` if works may hold others.
    pub(super) fn bytes(&self) -> Option<usize> {
        self.bytes
    }

    /// Whether the texts of works are dropped once they are counted.
    pub(super) fn drops_texts(&self) -> bool {
        self.counted.is_some()
    }

    /// Counts what the folder holds, and replaces what others have as well by theirs.
    pub(super) fn share(&mut self, rendered: &mut Rendered) {
        rendered.sizes = sizes(rendered);
        let mut added = share(&mut self.placed, &mut rendered.objects, rendered.sizes.objects)
            + share(&mut self.variables, &mut rendered.variables, rendered.sizes.variables);
        if !rendered.uncommon().frozen.objects.is_empty() {
            let objects = &mut rendered.uncommon_mut().frozen.objects;
            let bytes = named_bytes(objects);
            added += share(&mut self.named, objects, bytes);
        }
        if let Some(work) = rendered.work.as_mut().map(Arc::make_mut) {
            added += share(&mut self.named, &mut work.objects, rendered.sizes.named);
            added += self.share_spec(work, &mut rendered.sizes);
        }
        self.bytes = self.bytes.map(|bytes| bytes + added);
    }

    /// Gives the bytes of what was not there.
    fn share_spec(&mut self, work: &mut DesiredWork, sizes: &mut RenderedSizes) -> usize {
        let Some(body) = Arc::get_mut(&mut work.body) else { return 0 };
        // Another folder with this text has it from here.
        if Arc::strong_count(body.spec.parts()) > 1 {
            return 0;
        }
        if let Some(counted) = &mut self.counted {
            sizes.own += uncounted_bytes(counted, body.spec.parts());
            body.spec = SpecText::from_parts([].into());
            return 0;
        }
        let mut added = 0;
        let spec = match self.specs.get(body.spec.parts()) {
            Some(known) => known.clone(),
            None => {
                let parts = body.spec.parts().iter();
                let spec: Arc<[_]> = parts.map(|part| self.text(part, &mut added)).collect();
                added += spec_bytes(&spec);
                self.specs.insert(spec.clone());
                spec
            }
        };
        body.spec = SpecText::from_parts(spec);
        added
    }

    fn text(&mut self, text: &CompressedJson, added: &mut usize) -> CompressedJson {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        *added += text_bytes(text);
        self.texts.insert(text.clone());
        text.clone()
    }

    /// A folder of this content that was rendered with the same values.
    pub(super) fn rendered(
        &self,
        content: &FolderContent,
        values: &ClusterValues<'_>,
    ) -> Option<Arc<Rendered>> {
        match self.folders.get(&content.digest())? {
            KnownFolders::Fixed(rendered) => Some(rendered.clone()),
            KnownFolders::Variable(known) => {
                known.by_values.get(&values.digest(&known.variables)).cloned()
            }
        }
    }

    /// Keeps a rendered folder, to be found again.
    pub(super) fn keep(
        &mut self,
        content: &FolderContent,
        values: &ClusterValues<'_>,
        rendered: &Arc<Rendered>,
    ) {
        let content = content.digest();
        if let Some(KnownFolders::Variable(known)) = self.folders.get_mut(&content) {
            return known.keep(values, rendered);
        }
        let known = match rendered.variables.is_empty() {
            true => KnownFolders::Fixed(rendered.clone()),
            false => {
                let mut known = FoldersByValues::default();
                known.keep(values, rendered);
                KnownFolders::Variable(Box::new(known))
            }
        };
        self.folders.insert(content, known);
    }

    /// Drops the contents that nobody else holds, once they may be a good part of all: the cost is
    /// in the number of contents. `replaced`: the folders that are no longer among these `folders`
    /// since the last call.
    pub(super) fn drop_unused(&mut self, replaced: usize, folders: usize) {
        self.unused.folders += replaced;
        let grown = self.bytes.map(|bytes| bytes.saturating_sub(self.unused.bytes_before));
        let is_much = grown.is_none_or(|grown| grown * UNUSED_PARTS > self.unused.bytes_before)
            || self.unused.folders * UNUSED_PARTS > folders;
        if is_much || self.unused.was_held {
            self.drop_all_unused();
            let bytes_before = self.bytes.unwrap_or_default();
            // Before the first commit there was none that somebody may hold.
            let was_held = is_much && self.unused.folders > 0;
            self.unused = Unused { bytes_before, folders: 0, was_held };
        }
    }

    /// Drops the contents that nobody else holds.
    pub(super) fn drop_all_unused(&mut self) {
        self.folders.retain(|_, known| match known {
            KnownFolders::Fixed(one) => Arc::strong_count(one) > 1,
            KnownFolders::Variable(known) => {
                known.by_values.retain(|_, one| Arc::strong_count(one) > 1);
                !known.by_values.is_empty()
            }
        });
        let dropped = drop_unused(&mut self.specs, spec_bytes)
            + drop_unused(&mut self.named, named_bytes)
            + drop_unused(&mut self.placed, placed_bytes)
            + drop_unused(&mut self.variables, variables_bytes);
        let mut dropped_texts = 0;
        self.texts.retain(|text| {
            let is_used = text.is_shared();
            dropped_texts += if is_used { 0 } else { text_bytes(text) };
            is_used
        });
        self.configs.retain(|_, one| Arc::strong_count(one) > 1);
        self.bytes = self.bytes.map(|bytes| bytes.saturating_sub(dropped + dropped_texts));
    }
}

/// The bytes of texts that were not counted before, as [`super::budget::ContentBudget`] counts
/// those that are kept.
fn uncounted_bytes(counted: &mut HashSet<u64>, parts: &Arc<[CompressedJson]>) -> usize {
    let hasher = BuildHasherDefault::<DefaultHasher>::new();
    let hashes: Vec<u64> = parts.iter().map(|part| hasher.hash_one(part)).collect();
    if parts.is_empty() || !counted.insert(hasher.hash_one(&hashes)) {
        return 0;
    }
    let new = parts.iter().zip(hashes).filter(|(_, hash)| counted.insert(*hash));
    spec_bytes(parts) + new.map(|(one, _)| text_bytes(one)).sum::<usize>()
}

/// Gives the bytes if nobody had it.
fn share<T: ?Sized + Eq + Hash>(
    known: &mut HashSet<Arc<T>>,
    one: &mut Arc<T>,
    bytes: usize,
) -> usize {
    if let Some(known) = known.get(one) {
        *one = known.clone();
        return 0;
    }
    known.insert(one.clone());
    bytes
}

/// Gives the bytes of what is dropped.
fn drop_unused<T: ?Sized + Eq + Hash>(
    known: &mut HashSet<Arc<T>>,
    bytes: impl Fn(&T) -> usize,
) -> usize {
    let mut dropped = 0;
    known.retain(|one| {
        let is_used = Arc::strong_count(one) > 1;
        dropped += if is_used { 0 } else { bytes(one) };
        is_used
    });
    dropped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_looked_at_again_only_if_an_earlier_commit_had_others() {
        let mut content = SharedContent { bytes: Some(100), ..SharedContent::default() };
        content.drop_unused(0, 10);
        assert_eq!((content.unused.bytes_before, content.unused.was_held), (100, false));
        content.drop_unused(1, 10);
        assert!(content.unused.was_held);
        content.drop_unused(0, 10);
        assert!(!content.unused.was_held);
    }
}
