//! Which clusters join and leave groups between two states, by the works that they have. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::name::{ClusterName, GroupName, RepoPath, WorkKey, WorkName};
use crate::plan::observed::ObservedWork;
use crate::render::desired::Desired;
use crate::render::layout;
use crate::text::style::count;

/// Clusters named in one line.
const NAMES_MAX: usize = 5;

/// The clusters that join or leave a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemberChange {
    /// The group.
    pub group: GroupName,
    /// Clusters that get their first work of the group.
    pub joins: Vec<ClusterName>,
    /// Clusters that lose their last work of the group.
    pub leaves: Vec<ClusterName>,
}

/// The clusters with works of each group, and whether one of these works is, or may be, in the
/// other state, too: from another folder, or in a part that could not be read.
type Members = BTreeMap<GroupName, BTreeMap<ClusterName, bool>>;

fn members(
    works: impl Iterator<Item = (WorkKey, RepoPath)>,
    is_elsewhere: impl Fn(&WorkKey, &RepoPath) -> bool,
) -> Members {
    let mut all = Members::new();
    for (key, folder) in works {
        let Some(group) = layout::group_of(&folder) else { continue };
        let members = all.entry(group).or_default();
        *members.entry(key.cluster.clone()).or_default() |= is_elsewhere(&key, &folder);
    }
    all
}

/// The works of clusters, also those that they get by ManifestWorkReplicaSets.
fn works_of(
    desired: &Desired,
    is_shown: impl Fn(&WorkKey) -> bool,
) -> impl Iterator<Item = (WorkKey, RepoPath)> {
    let own = desired.works.iter().filter(|(key, _)| !key.is_replica_set());
    let own = own.map(|(key, work)| (key.clone(), work.path.clone()));
    let delivered = desired.delivered.iter().flat_map(|(cluster, sets)| {
        let of_cluster = |work: &WorkName| WorkKey { cluster: cluster.clone(), work: work.clone() };
        sets.iter().map(move |set| (of_cluster(&set.key.work), set.path.clone()))
    });
    own.chain(delivered).filter(move |(key, _)| is_shown(key))
}

/// The clusters of a group that it has on one side only.
fn only_in(one: &Members, other: &Members, group: &GroupName) -> Vec<ClusterName> {
    let there = other.get(group);
    let all = one.get(group).into_iter().flatten().filter(|(_, is_elsewhere)| !**is_elsewhere);
    let all = all.map(|(cluster, _)| cluster);
    all.filter(|cluster| there.is_none_or(|there| !there.contains_key(*cluster))).cloned().collect()
}

fn difference(before: &Members, after: &Members) -> Vec<MemberChange> {
    let groups: BTreeSet<&GroupName> = before.keys().chain(after.keys()).collect();
    let changes = groups.into_iter().map(|group| MemberChange {
        group: group.clone(),
        joins: only_in(after, before, group),
        leaves: only_in(before, after, group),
    });
    changes.filter(|change| !change.joins.is_empty() || !change.leaves.is_empty()).collect()
}

impl MemberChange {
    /// The changes between two states of Git, of the works that `is_shown` selects. A cluster does
    /// not leave if one of its works of the group stays, as when a group gets another name.
    pub fn between(
        base: &Desired,
        head: &Desired,
        is_shown: impl Fn(&WorkKey) -> bool,
    ) -> Vec<Self> {
        let before = members(works_of(base, &is_shown), |key, folder| stays(head, key, folder));
        let after = members(works_of(head, &is_shown), |key, folder| {
            base.frozen.may_contain(key, Some(folder.as_str()))
        });
        difference(&before, &after)
    }

    /// The changes from the works of the source on the hub to those in Git. The hub says from which
    /// folder a work is, and its agent may write that. Which clusters the ManifestWorkReplicaSets
    /// on the hub go to is not known here, so nothing is said of their groups.
    pub fn from_hub<'a>(
        works: impl Iterator<Item = &'a ObservedWork>,
        head: &Desired,
        is_shown: impl Fn(&WorkKey) -> bool,
    ) -> Vec<Self> {
        let works = works.filter(|work| work.is_ours(&head.source) && is_shown(&work.key));
        let works = works
            .filter_map(|work| Some((work.key.clone(), RepoPath::parse(work.path.as_deref()?)?)));
        let (sets, works): (Vec<_>, Vec<_>) = works.partition(|(key, _)| key.is_replica_set());
        let before = members(works.into_iter(), |key, folder| stays(head, key, folder));
        let of_sets = members(sets.into_iter(), |_, _| false);
        let mut changes = difference(&before, &members(works_of(head, &is_shown), |_, _| false));
        changes.retain(|change| !of_sets.contains_key(&change.group));
        changes
    }
}

/// Whether Git has, or may have, a work of this name.
fn stays(head: &Desired, key: &WorkKey, folder: &RepoPath) -> bool {
    head.works.contains_key(key) || head.frozen.may_contain(key, Some(folder.as_str()))
}

/// `edge-1, edge-2 and 3 more`.
pub(crate) fn some_names<'a>(names: impl ExactSizeIterator<Item = &'a ClusterName>) -> String {
    first_names(names, NAMES_MAX)
}

/// As [`some_names`], with at most so many names.
pub(crate) fn first_names<'a>(
    names: impl ExactSizeIterator<Item = &'a ClusterName>,
    most: usize,
) -> String {
    let more = names.len().saturating_sub(most);
    let first: Vec<&str> = names.take(most).map(ClusterName::as_str).collect();
    match more {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

impl fmt::Display for MemberChange {
    /// Writes `group stores: 2 clusters join: edge-1, edge-2; 1 cluster leaves: edge-9`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group {}", self.group)?;
        let mut separator = ": ";
        for (clusters, one, several) in
            [(&self.joins, "joins", "join"), (&self.leaves, "leaves", "leave")]
        {
            if !clusters.is_empty() {
                let verb = if clusters.len() == 1 { one } else { several };
                let number = count(clusters.len(), "cluster");
                write!(f, "{separator}{number} {verb}: {}", some_names(clusters.iter()))?;
                separator = "; ";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str) -> ClusterName {
        ClusterName::parse(name).unwrap()
    }

    fn group(name: &str) -> GroupName {
        GroupName::parse(name).unwrap()
    }

    /// Clusters by group; `*` behind one: a work of it is in the other state, too.
    fn all(pairs: &[(&str, &str)]) -> Members {
        let mut members = Members::new();
        for (name, member) in pairs {
            let is_elsewhere = member.ends_with('*');
            let cluster = cluster(member.trim_end_matches('*'));
            members.entry(group(name)).or_default().insert(cluster, is_elsewhere);
        }
        members
    }

    fn lines(before: &[(&str, &str)], after: &[(&str, &str)]) -> String {
        let changes = difference(&all(before), &all(after));
        changes.iter().map(|change| format!("{change}\n")).collect()
    }

    #[test]
    fn clusters_that_join_and_leave_are_named() {
        assert_eq!(lines(&[("s", "a")], &[("s", "a")]), "");
        assert_eq!(
            lines(&[("s", "a"), ("t", "x")], &[("s", "b"), ("s", "c"), ("t", "x")]),
            "group s: 2 clusters join: b, c; 1 cluster leaves: a\n"
        );
        let many: Vec<String> = (0..9).map(|number| format!("c{number}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| ("s", name.as_str())).collect();
        assert_eq!(lines(&[], &many), "group s: 9 clusters join: c0, c1, c2, c3, c4 and 4 more\n");
    }

    #[test]
    fn clusters_whose_works_stay_or_may_do_so_do_not_leave() {
        assert_eq!(lines(&[("s", "a*"), ("s", "b")], &[]), "group s: 1 cluster leaves: b\n");
        // The group has another name.
        let renamed = lines(&[("s", "a*"), ("s", "b*")], &[("t", "a"), ("t", "b")]);
        assert_eq!(renamed, "group t: 2 clusters join: a, b\n");
    }
}
