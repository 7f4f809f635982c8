//! Which clusters join and leave groups between two states, by the works that they have. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use crate::model::name::{ClusterName, GroupName, RepoPath, WorkKey};
use crate::plan::observed::ObservedWork;
use crate::render::desired::{Desired, Frozen};
use crate::render::layout;
use crate::text::style::count;

/// Clusters named in one line.
const NAMES_MAX: usize = 5;

/// The clusters that join or leave a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemberChange {
    /// The group.
    pub group: GroupName,
    /// Clusters that get their first work of the group.
    pub joins: Vec<ClusterName>,
    /// Clusters that lose their last work of the group.
    pub leaves: Vec<ClusterName>,
}

/// Clusters by group.
type Members = BTreeMap<GroupName, BTreeSet<ClusterName>>;

/// The members of groups by works and their folders; with those that may also be members in a part
/// of the other state that could not be read.
fn members<'a>(
    works: impl Iterator<Item = (&'a WorkKey, RepoPath)>,
    other: Option<&Frozen>,
) -> (Members, Members) {
    let (mut all, mut maybe_others) = (Members::new(), Members::new());
    for (key, folder) in works {
        let Some(group) = layout::group_of(&folder) else { continue };
        if other.is_some_and(|frozen| frozen.may_contain(key, Some(folder.as_str()))) {
            maybe_others.entry(group.clone()).or_default().insert(key.cluster.clone());
        }
        all.entry(group).or_default().insert(key.cluster.clone());
    }
    (all, maybe_others)
}

fn works_of(
    desired: &Desired,
    is_shown: impl Fn(&WorkKey) -> bool,
) -> impl Iterator<Item = (&WorkKey, RepoPath)> {
    let shown = desired.works.iter().filter(move |(key, _)| is_shown(key));
    shown.map(|(key, work)| (key, work.path.clone()))
}

fn difference(
    (before, maybe_after): (Members, Members),
    (after, maybe_before): (Members, Members),
) -> Vec<MemberChange> {
    let none = BTreeSet::new();
    let of = |members: &'_ Members, group: &GroupName| members.get(group).unwrap_or(&none).clone();
    let groups: BTreeSet<&GroupName> = before.keys().chain(after.keys()).collect();
    let changes = groups.into_iter().map(|group| {
        let (was, is) = (of(&before, group), of(&after, group));
        let joins = is.difference(&was).filter(|one| !of(&maybe_before, group).contains(*one));
        let leaves = was.difference(&is).filter(|one| !of(&maybe_after, group).contains(*one));
        MemberChange {
            group: group.clone(),
            joins: joins.cloned().collect(),
            leaves: leaves.cloned().collect(),
        }
    });
    changes.filter(|change| !change.joins.is_empty() || !change.leaves.is_empty()).collect()
}

impl MemberChange {
    /// The changes between two states of Git, of the works that `is_shown` selects.
    pub fn between(
        base: &Desired,
        head: &Desired,
        is_shown: impl Fn(&WorkKey) -> bool,
    ) -> Vec<Self> {
        let before = members(works_of(base, &is_shown), Some(&head.frozen));
        difference(before, members(works_of(head, &is_shown), Some(&base.frozen)))
    }

    /// The changes from the works of the source on the hub to those in Git. The hub says from which
    /// folder a work is, and its agent may write that.
    pub fn from_hub<'a>(
        works: impl Iterator<Item = &'a ObservedWork>,
        head: &Desired,
        is_shown: impl Fn(&WorkKey) -> bool,
    ) -> Vec<Self> {
        let works = works.filter(|work| work.is_ours(&head.source) && is_shown(&work.key));
        let works =
            works.filter_map(|work| Some((&work.key, RepoPath::parse(work.path.as_deref()?)?)));
        difference(members(works, Some(&head.frozen)), members(works_of(head, &is_shown), None))
    }
}

/// `edge-1, edge-2 and 3 more`.
pub(crate) fn some_names<'a>(names: impl ExactSizeIterator<Item = &'a ClusterName>) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let first: Vec<&str> = names.take(NAMES_MAX).map(ClusterName::as_str).collect();
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

    fn all(pairs: &[(&str, &str)]) -> Members {
        let mut members = Members::new();
        for (name, member) in pairs {
            members.entry(group(name)).or_default().insert(cluster(member));
        }
        members
    }

    fn lines(before: &[(&str, &str)], after: &[(&str, &str)], maybe: &[(&str, &str)]) -> String {
        let changes = difference((all(before), all(maybe)), (all(after), Members::new()));
        changes.iter().map(|change| format!("{change}\n")).collect()
    }

    #[test]
    fn clusters_that_join_and_leave_are_named() {
        assert_eq!(lines(&[("s", "a")], &[("s", "a")], &[]), "");
        assert_eq!(
            lines(&[("s", "a"), ("t", "x")], &[("s", "b"), ("s", "c"), ("t", "x")], &[]),
            "group s: 2 clusters join: b, c; 1 cluster leaves: a\n"
        );
        let many: Vec<String> = (0..9).map(|number| format!("c{number}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| ("s", name.as_str())).collect();
        assert_eq!(
            lines(&[], &many, &[]),
            "group s: 9 clusters join: c0, c1, c2, c3, c4 and 4 more\n"
        );
    }

    #[test]
    fn clusters_whose_works_may_stay_do_not_leave() {
        let before = [("s", "a"), ("s", "b")];
        assert_eq!(lines(&before, &[], &[("s", "a")]), "group s: 1 cluster leaves: b\n");
    }
}
