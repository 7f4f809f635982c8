//! The bound of what a source's rendered works may hold in memory.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::cluster::RenderedCluster;
use super::content::SharedContent;
use super::inputs::ClusterConfig;
use super::sizes::{config_bytes, diagnostic_bytes, named, spec_bytes, text_bytes};
use crate::limits;
use crate::model::diagnostic::Diagnostic;
use crate::model::name::RepoPath;
use crate::render::groups::GroupConfig;
use crate::render::layout::is_of_group;
use crate::render::relations::Relations;
use crate::render::work_folder::Rendered;

/// The works of the source hold more than they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

/// How the contents of works are counted. Each counts once.
#[derive(Debug)]
enum Counting {
    /// Those of the works that there are, by their addresses. The cost is in the number of works.
    Exact(HashSet<usize, AddressHasher>),
    /// All that any work has shared since unused ones were dropped, and these are its bytes. The
    /// cost is in the number of clusters. What is within the bounds in this way is so in the other.
    AtMost { shared: usize },
}

/// The bytes that the rendered works may still hold.
#[derive(Debug)]
pub(super) struct ContentBudget {
    left: usize,
    counting: Counting,
    /// The bytes were not enough.
    is_spent: bool,
    /// Bytes of files that may still be read for works.
    input_left: usize,
    /// Those of one folder of a group.
    input_of_folder: usize,
    /// Bytes of relations that may still be kept.
    relations_left: usize,
    /// What each folder of a group has cost.
    inputs: HashMap<RepoPath, usize>,
    /// The addresses of configurations that are counted.
    configs: HashSet<usize, AddressHasher>,
}

type AddressHasher = BuildHasherDefault<SpreadAddress>;

/// Spreads addresses: nobody chooses them.
#[derive(Debug, Default)]
struct SpreadAddress(u64);

impl Hasher for SpreadAddress {
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
    pub(super) fn exact(max: usize) -> Self {
        Self {
            left: max,
            counting: Counting::Exact(HashSet::default()),
            is_spent: false,
            input_left: max.saturating_mul(limits::INPUT_FACTOR),
            input_of_folder: max,
            relations_left: limits::RELATIONS_BYTES_MAX,
            inputs: HashMap::new(),
            configs: HashSet::default(),
        }
    }

    /// As [`Self::exact`], but counts what works share as [`SharedContent::bytes`] does, which has
    /// so many now.
    pub(super) fn at_most(max: usize, shared: usize) -> Self {
        Self { counting: Counting::AtMost { shared }, ..Self::exact(max) }
    }

    /// Whether the bytes may be enough if they are counted exactly.
    pub(super) fn may_be_enough(&self) -> bool {
        self.is_spent && matches!(self.counting, Counting::AtMost { .. })
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

    fn spend(&mut self, bytes: usize) -> Result<(), TooLarge> {
        // What works share needs room beside what is spent, whichever comes last.
        let shared = match self.counting {
            Counting::Exact(_) => 0,
            Counting::AtMost { shared } => shared,
        };
        let left = self.left.checked_sub(bytes).filter(|left| *left >= shared);
        self.is_spent |= left.is_none();
        self.left = left.ok_or(TooLarge)?;
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
        let is_new = self.configs.insert(Arc::as_ptr(config).addr());
        if is_new { self.spend(config_bytes(config)) } else { Ok(()) }
    }

    /// Counts what group.yaml says.
    pub(super) fn spend_group(&mut self, config: &Arc<GroupConfig>) -> Result<(), TooLarge> {
        let is_new = self.configs.insert(Arc::as_ptr(config).addr());
        if is_new { self.spend(config.bytes) } else { Ok(()) }
    }

    /// Counts a cluster whose works are rendered, without what was found between them.
    pub(super) fn spend_cluster(&mut self, cluster: &RenderedCluster) -> Result<(), TooLarge> {
        self.spend_config(&cluster.inherited.config)?;
        self.spend_diagnostics(&cluster.diagnostics)?;
        match self.counting {
            Counting::AtMost { .. } => self.spend(cluster.own_bytes()),
            Counting::Exact(_) => {
                cluster.rendered_folders().try_for_each(|one| self.spend_contents(one))
            }
        }
    }

    /// Counts a work folder: its contents, and what it has of its own. `shared`: what all works
    /// share.
    pub(super) fn spend_folder(
        &mut self,
        rendered: &Rendered,
        shared: &SharedContent,
    ) -> Result<(), TooLarge> {
        match &mut self.counting {
            Counting::Exact(_) => self.spend_contents(rendered),
            Counting::AtMost { shared: counted } => {
                // Without a number, they would have to be counted one by one.
                *counted = shared.bytes().unwrap_or(usize::MAX);
                self.spend(rendered.sizes.unshared())
            }
        }
    }

    fn spend_contents(&mut self, rendered: &Rendered) -> Result<(), TooLarge> {
        let sizes = rendered.sizes;
        self.spend(sizes.own)?;
        self.spend_content(address(&rendered.objects), sizes.objects)?;
        self.spend_content(address(named(rendered)), sizes.named)?;
        self.spend_content(address(&rendered.diagnostics), sizes.diagnostics)?;
        self.spend_content(address(&rendered.variables), sizes.variables)?;
        let Some(work) = &rendered.work else { return Ok(()) };
        let parts = work.body.spec.parts();
        // Those that are dropped were counted then.
        if !parts.is_empty() && self.is_new(address(parts)) {
            self.spend(spec_bytes(parts))?;
            for part in parts.iter() {
                self.spend_content(part.address(), text_bytes(part))?;
            }
        }
        Ok(())
    }

    fn spend_content(&mut self, address: usize, bytes: usize) -> Result<(), TooLarge> {
        if bytes > 0 && self.is_new(address) { self.spend(bytes) } else { Ok(()) }
    }

    fn is_new(&mut self, address: usize) -> bool {
        match &mut self.counting {
            Counting::Exact(counted) => counted.insert(address),
            Counting::AtMost { .. } => false,
        }
    }
}

fn address<T>(list: &Arc<[T]>) -> usize {
    list.as_ptr().addr()
}
