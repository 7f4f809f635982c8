//! Groups as other commits have them, for clusters that keep or get an earlier content while
//! another one is rolled out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::inputs::SourceInputs;
use crate::config::rollout::RolloutSettings;
use crate::model::digest::Digest;
use crate::model::facts::Facts;
use crate::model::name::{ClusterName, CommitId, GroupName, ObjectId};
use crate::model::snapshot::{ObjectError, Objects};
use crate::render::groups::{
    Certainty, ClusterLabels, GroupConfigs, GroupDefaults, GroupInputs, GroupOverride, GroupWaves,
    Membership,
};
use crate::render::layout;
use crate::rollout::GroupRollout;
use crate::rollout::earlier::EarlierContents;

/// The clusters that get the content of the commit, although another one was asked for.
pub(super) type LeftOut = BTreeSet<ClusterName>;

/// What clusters keep or get in place of the content of the commit.
#[derive(Debug, Clone, Default)]
pub(super) struct Earlier {
    contents: Arc<EarlierContents>,
    /// The tree of each commit that could be found.
    roots: BTreeMap<CommitId, ObjectId>,
    groups: BTreeMap<(GroupName, Digest), Arc<GroupInputs>>,
    /// By the blob of gitwork.yaml.
    sources: BTreeMap<Option<ObjectId>, Arc<SourceInputs>>,
}

impl Earlier {
    pub(super) fn set(
        &mut self,
        contents: Arc<EarlierContents>,
        roots: BTreeMap<CommitId, ObjectId>,
    ) {
        (self.contents, self.roots) = (contents, roots);
    }

    /// Reads the groups that are needed, taking over those that are known. What cannot be read is
    /// left out.
    pub(super) fn read(&mut self, objects: &dyn Objects) -> Result<(), ObjectError> {
        let (contents, before) = (self.contents.clone(), std::mem::take(&mut self.groups));
        let mut read = SourcesAt { sources: std::mem::take(&mut self.sources), objects };
        for (name, group) in &*contents {
            let needed: BTreeSet<&Digest> = group.clusters.values().collect();
            for content in needed {
                let at = (name.clone(), *content);
                let known = before.get(&at).cloned();
                let root = group.commits.get(content).and_then(|commit| self.roots.get(commit));
                let found = match (known, root) {
                    (Some(known), _) => Some(known),
                    (None, Some(root)) => read.group(name, *content, *root)?,
                    (None, None) => None,
                };
                self.groups.extend(found.map(|group| (at, group)));
            }
        }
        let used: BTreeSet<_> = self.groups.values().map(|group| group.source_blob).collect();
        self.sources = read.sources;
        self.sources.retain(|blob, _| used.contains(blob));
        Ok(())
    }

    /// All groups that were read.
    pub(super) fn groups(&self) -> impl Iterator<Item = &Arc<GroupInputs>> {
        self.groups.values()
    }

    /// What works of an earlier content inherit from gitwork.yaml.
    pub(super) fn source(&self, group: &GroupInputs) -> Option<&Arc<SourceInputs>> {
        self.sources.get(&group.source_blob)
    }

    /// Gives each cluster the group as it keeps or gets it. Answers with the groups as the commit
    /// has them.
    pub(super) fn assign(
        &self,
        members: &mut BTreeMap<ClusterName, Vec<Membership>>,
        rollouts: &mut BTreeMap<GroupName, GroupRollout>,
        (labels, facts): (&ClusterLabels<'_>, Option<&Facts>),
        left_out: &LeftOut,
    ) -> BTreeMap<ClusterName, Vec<Membership>> {
        let mut later: BTreeMap<ClusterName, Vec<Membership>> = BTreeMap::new();
        for (name, rollout) in rollouts {
            let asked = self.contents.get(name).filter(|asked| asked.head == rollout.content);
            for (cluster, content) in asked.iter().flat_map(|asked| &asked.clusters) {
                let group = self.groups.get(&(name.clone(), *content));
                let member = rollout.members.get_mut(cluster).filter(|one| !one.is_blocked);
                let mut all = members.get_mut(cluster).into_iter().flatten();
                let place = all.find(|one| one.group.name == *name);
                let (Some(group), Some(member), Some(place)) = (group, member, place) else {
                    continue;
                };
                let of_cluster = Facts::of(facts, cluster);
                let labels = labels.get(cluster).copied();
                let all = &group.config.overrides;
                let overrides = GroupOverride::matching(all, cluster, labels, &of_cluster);
                let Some(overrides) = overrides.filter(|_| !left_out.contains(cluster)) else {
                    continue;
                };
                member.earlier = Some(*content);
                let earlier = Membership {
                    group: group.clone(),
                    certainty: Certainty::Member,
                    overrides,
                    group_members: place.group_members,
                    is_earlier: true,
                };
                let of_commit = std::mem::replace(place, earlier);
                later.entry(cluster.clone()).or_default().push(of_commit);
            }
        }
        later
    }
}

/// Reads groups of other commits.
struct SourcesAt<'a> {
    sources: BTreeMap<Option<ObjectId>, Arc<SourceInputs>>,
    objects: &'a dyn Objects,
}

impl SourcesAt<'_> {
    /// The group as the commit of `root` has it; `None` with an error in its files, or if its
    /// content is another one.
    fn group(
        &mut self,
        name: &GroupName,
        content: Digest,
        root: ObjectId,
    ) -> Result<Option<Arc<GroupInputs>>, ObjectError> {
        match self.try_group(name, root) {
            Ok(found) => Ok(found.filter(|group| {
                let rollout = group.rollout.as_ref();
                let is_read = group.matcher().is_some();
                is_read && rollout.is_some_and(|rollout| rollout.content == content)
            })),
            Err(ObjectError::Cancelled) => Err(ObjectError::Cancelled),
            Err(_) => Ok(None),
        }
    }

    fn try_group(
        &mut self,
        name: &GroupName,
        root: ObjectId,
    ) -> Result<Option<Arc<GroupInputs>>, ObjectError> {
        let top = layout::top(root, self.objects)?;
        let Some(tree) = top.groups.get(name) else { return Ok(None) };
        let source = match self.sources.get(&top.source_file) {
            Some(known) => known.clone(),
            None => {
                let mut problems = Vec::new();
                let read = SourceInputs::read(top.source_file, self.objects, &mut problems)?;
                let read = Arc::new(read);
                self.sources.insert(top.source_file, read.clone());
                read
            }
        };
        // The waves are those of the commit that is rendered.
        let waves = Arc::new(GroupWaves::new(&RolloutSettings::default()));
        let of_groups = source.of_groups();
        let defaults = GroupDefaults { waves: Some(&waves), ..of_groups };
        let mut configs = GroupConfigs::new();
        let group = GroupInputs::read(name, *tree, defaults, self.objects, &mut configs)?;
        Ok(Some(Arc::new(group)))
    }
}
