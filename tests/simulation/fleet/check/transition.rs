//! Checks a write that leaves a work on the hub otherwise than in Git, which is right only while
//! objects move from it or to it.

use std::collections::{BTreeMap, BTreeSet};

use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::WorkKey;
use gitwork_core::model::work::DeletionPolicy;
use serde_json::Value;

use super::prune;
use crate::agents::identity;
use crate::fleet::git::CommitContent;
use crate::git_work::{GitWork, orphans, works_with};
use crate::moves::{delete_option, disowns, listed, manifests, moves_away, strategy};

/// A work on the hub before and after a write.
pub struct HubState<'a> {
    pub key: &'a WorkKey,
    pub before: Option<&'a Value>,
    pub after: &'a Value,
    pub others: &'a OtherObjects,
}

/// The objects that other works of the source list on the cluster.
#[derive(Debug, Default)]
pub struct OtherObjects {
    /// In a picture of the hub that a process may plan from.
    pub possible: BTreeSet<Identity>,
    /// Their agents may still own these.
    pub reported: BTreeSet<Identity>,
    /// In every such picture, with the work.
    pub certain: BTreeSet<(WorkKey, Identity)>,
}

type Manifests<'a> = BTreeMap<Identity, &'a Value>;

fn by_identity(work: Option<&Value>) -> Manifests<'_> {
    let all = work.into_iter().flat_map(manifests);
    all.map(|manifest| (identity(manifest), manifest)).collect()
}

/// What a work on the hub says of one object.
type Settings = (Option<String>, bool);

fn settings(work: &Value, id: &Identity) -> Settings {
    (strategy(work, id), orphans(&delete_option(work), id))
}

impl HubState<'_> {
    /// Whether the work is as it may be while objects move, and some do, or may do so: a work of
    /// the cluster cannot be read.
    /// `options`: the deleteOption in Git, or those of the last commit that had the work.
    pub fn check_move(
        &self,
        content: &CommitContent,
        options: &[DeletionPolicy],
    ) -> Result<(), String> {
        let works = &content.works;
        let mut of_cluster = works.keys().filter(|key| key.cluster == self.key.cluster);
        let may_move = of_cluster.any(|key| content.freezes(key));
        let (before, after) = (by_identity(self.before), by_identity(Some(self.after)));
        let in_git = works.get(self.key);
        if after.is_empty() {
            return Err("it has no manifest".into());
        }
        for (id, manifest) in &after {
            self.check_manifest((content, options), id, manifest, before.get(id))?;
        }
        let mut moves = may_move || after.keys().any(|id| moves_away(works, self.key, id));
        moves |= in_git.is_some_and(|work| after.keys().any(|id| self.goes_on_owning(work, id)));
        for id in before.keys().filter(|id| !after.contains_key(id)) {
            let leaves = moves_away(works, self.key, id);
            moves |= leaves;
            // Whether this loses the object is seen on the cluster.
            if in_git.is_none() && !leaves {
                return Err(format!("drops {} of a work that is to be deleted", id.name));
            }
        }
        for (id, manifest) in wanted(in_git).filter(|(id, _)| !after.contains_key(id)) {
            let waits = self.others.possible.contains(&id) && !before.contains_key(&id);
            moves |= waits;
            // What the work gives away orphaned, it gives in the state on the hub.
            if !waits && (before.contains_key(&id) || !moves) {
                return Err(format!("wants {manifest}, too"));
            }
        }
        if !moves {
            return Err(in_git.map_or_else(
                || "does not have it".into(),
                |work| format!("wants {:?}, {:?}", work.manifests(), work.deletion_policy()),
            ));
        }
        self.check_rest(in_git)
    }

    fn check_manifest(
        &self,
        (content, options): (&CommitContent, &[DeletionPolicy]),
        id: &Identity,
        manifest: &Value,
        before: Option<&&Value>,
    ) -> Result<(), String> {
        let works = &content.works;
        let is = settings(self.after, id);
        let was = self.before.map(|work| settings(work, id));
        let is_unchanged = before.is_some_and(|before| **before == *manifest);
        if let Some(work) = works.get(self.key).filter(|work| work.has(id)) {
            let object = &work.objects[&id.name];
            let in_git = (object.strategy.map(str::to_owned), orphans(&work.deletion_policy(), id));
            let has_content = work.manifest(&id.name) == *manifest;
            let as_in_git = has_content && is == in_git;
            let goes_on_owning = has_content && self.goes_on_owning(work, id);
            // What the work gives away orphaned, it gives in the state on the hub.
            return match as_in_git || goes_on_owning || (is_unchanged && was == Some(is)) {
                true => Ok(()),
                false => Err(format!("wants {}, {in_git:?}", work.manifest(&id.name))),
            };
        }
        if !is_unchanged {
            return Err(format!("adds or changes {manifest}, which is not in it"));
        }
        // Changes of the deleteOption go out in any case.
        let has_option = options.iter().any(|option| orphans(option, id) == is.1);
        let is_same =
            was.as_ref().is_some_and(|was| was.0 == is.0 && (was.1 == is.1 || has_option));
        if !moves_away(works, self.key, id) {
            return match works.contains_key(self.key) && !is_same {
                true => Err(format!("keeps {}, which Git has nowhere", id.name)),
                false => Ok(()),
            };
        }
        let is_kept_only = is.0.as_deref() == Some("CreateOnly");
        // Until the receiving work has the object, nothing changes for it.
        let mut receivers = works_with(works, &self.key.cluster, id);
        let is_received = receivers.any(|to| {
            let is_still = content.freezes(to) || works[to].suspend;
            !is_still && self.others.certain.contains(&(to.clone(), id.clone()))
        });
        match is_kept_only || (is_same && !is_received) {
            true => Ok(()),
            false => Err(format!("still applies {}, which has moved", id.name)),
        }
    }

    /// Whether the work is to stop owning an object, and goes on owning it as long as another work
    /// may have it, which could drop it.
    fn goes_on_owning(&self, work: &GitWork, id: &Identity) -> bool {
        let Some(object) = work.objects.get(&id.name).filter(|_| work.has(id)) else {
            return false;
        };
        let strategy = match object.strategy {
            Some("ReadOnly") => Some("CreateOnly"),
            strategy => strategy,
        };
        let owned = |before: &Value| listed(before).contains(id) && !disowns(before, id);
        let is = settings(self.after, id);
        work.disowns(id)
            && self.before.is_some_and(owned)
            && (is.0.as_deref(), is.1) == (strategy, false)
            && (self.others.possible.contains(id) || self.others.reported.contains(id))
    }

    /// The fields beside the objects are as in Git or unchanged.
    fn check_rest(&self, in_git: Option<&GitWork>) -> Result<(), String> {
        let team = |work: &Value| work["metadata"]["labels"]["team"].clone();
        let is = (prune(self.after), team(self.after));
        let was = self.before.map(|work| (prune(work), team(work)));
        let git = in_git.map(|work| {
            let team = work.labels.get("team").map_or(Value::Null, |team| team.as_str().into());
            (work.prune, team)
        });
        match was.as_ref() == Some(&is) || git.as_ref() == Some(&is) {
            true => Ok(()),
            false => Err(format!("wants {git:?}, not {is:?}")),
        }
    }
}

fn wanted(in_git: Option<&GitWork>) -> impl Iterator<Item = (Identity, Value)> {
    let all = in_git.map_or_else(Vec::new, GitWork::manifests);
    all.into_iter().map(|manifest| (identity(&manifest), manifest))
}
