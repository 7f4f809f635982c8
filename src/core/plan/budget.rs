//! How much of what a source has on the hub one plan may delete. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::config::ocm_rules::wildcard;
use crate::config::{Budgets, ClusterBudget, GroupBudget};
use crate::model::name::{ClusterName, GroupName};

/// A budget with all of its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// A plan may always delete so many works.
    pub works: usize,
    /// It may delete more than `works`, up to this part of the source's works, in percent.
    pub percent: usize,
    /// It may delete every work of a cluster that has no more than so many.
    pub cluster: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { works: 10, percent: 10, cluster: 1 }
    }
}

impl Budget {
    /// What the operator (`daemon`) and the repository set, the stricter of both; the default where
    /// neither does.
    pub fn of(daemon: &Budgets, repository: &Budgets) -> Self {
        let least = |a: Option<u32>, b: Option<u32>, default: usize| {
            let least = a.into_iter().chain(b).min();
            least.map_or(default, number)
        };
        let default = Self::default();
        Self {
            works: least(daemon.works, repository.works, default.works),
            percent: least(daemon.percent, repository.percent, default.percent),
            cluster: least(daemon.cluster, repository.cluster, default.cluster),
        }
    }

    /// The lower bound of both, for each number.
    pub fn stricter(self, other: Self) -> Self {
        Self {
            works: self.works.min(other.works),
            percent: self.percent.min(other.percent),
            cluster: self.cluster.min(other.cluster),
        }
    }
}

/// The works of one cluster, as a plan leaves them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeletionCount {
    /// They are to be deleted, and nobody has approved of it.
    pub unapproved: usize,
    /// They are to be deleted, as somebody has approved.
    pub approved: usize,
    /// They were there before the commit that is judged, and stay.
    pub kept: usize,
}

impl DeletionCount {
    /// Counts the deletion of so many works.
    pub(crate) fn delete(&mut self, works: usize, is_approved: bool) {
        let count = if is_approved { &mut self.approved } else { &mut self.unapproved };
        *count = count.saturating_add(works);
    }

    fn deleted(self) -> usize {
        self.unapproved + self.approved
    }

    fn is_over(self, works: usize, percent: usize) -> bool {
        let had = self.deleted() + self.kept;
        let is_over_percent = self.unapproved.saturating_mul(100) > percent.saturating_mul(had);
        self.unapproved > works && is_over_percent
    }
}

/// Which bound a plan is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Excess {
    /// No work that the source had on the hub would stay.
    Everything,
    /// No work that the source had on this cluster would stay.
    Cluster(ClusterName),
    /// More than `works` works, and more than `percent` of the source's.
    Works {
        /// [`Budget::works`] of the budget that the plan exceeds.
        works: usize,
        /// [`Budget::percent`] of that budget.
        percent: usize,
    },
    /// More than `works` works of this group, and more than `percent` of the group's.
    Group {
        /// The group.
        group: GroupName,
        /// [`Budget::works`] of the budget that the plan exceeds.
        works: usize,
        /// [`Budget::percent`] of that budget.
        percent: usize,
    },
    /// More works of these clusters together than the budget for them allows.
    Clusters(ClusterBudget),
    /// More works of these groups together than the budget for them allows.
    Groups(GroupBudget),
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A renamed work does not stay, whatever becomes of its objects.
            Self::Everything => {
                f.write_str("no work that the source has on the hub would stay under its name")
            }
            Self::Cluster(cluster) => write!(
                f,
                "no work that the source has on the cluster {cluster} would stay under its name"
            ),
            Self::Works { works, percent } => {
                write!(
                    f,
                    "that is more than {works} works and more than {percent}% of the source's"
                )
            }
            Self::Group { group, works, percent } => {
                write!(
                    f,
                    "that is more than {works} works and more than {percent}% of those of the \
                     group {group}"
                )
            }
            Self::Clusters(ClusterBudget { clusters, works, percent }) => {
                let names = clusters.join(", ");
                write!(
                    f,
                    "that is more than {works} works and more than {percent}% of those on {names}"
                )
            }
            Self::Groups(GroupBudget { groups, works, percent }) => {
                let names = groups.join(", ");
                write!(
                    f,
                    "that is more than {works} works and more than {percent}% of those of the \
                     groups {names}"
                )
            }
        }
    }
}

/// All budgets that a plan must keep.
#[derive(Debug, Clone, Default)]
pub struct AllBudgets<'a> {
    of_source: Budget,
    of_clusters: BTreeSet<&'a ClusterBudget>,
    of_groups: BTreeSet<&'a GroupBudget>,
}

impl<'a> AllBudgets<'a> {
    /// `of_source`: for the works of the whole source, of each cluster and of each group.
    /// `further`: the files whose budgets for some clusters or groups count.
    pub fn new(of_source: Budget, further: impl Iterator<Item = &'a Budgets>) -> Self {
        let mut all = Self { of_source, ..Self::default() };
        for budgets in further {
            all.of_clusters.extend(&budgets.clusters);
            all.of_groups.extend(&budgets.groups);
        }
        all
    }
}

/// The deletions of a plan, and the works that it keeps.
#[derive(Debug, Clone, Default)]
pub struct DeletionCounts {
    /// By the cluster of the works.
    pub clusters: BTreeMap<ClusterName, DeletionCount>,
    /// By the group that has their folder. A group without deletions need not be here.
    pub groups: BTreeMap<GroupName, DeletionCount>,
}

/// The unapproved deletions that a plan may not make, each with the bound.
///
/// The budget of the source holds all deletions of the plan. One for some clusters or groups holds
/// those of their works, and a cluster that would lose all its works, or a group that would lose
/// too many, holds its own: a mistake in one of them, or what an agent makes of the works of its
/// cluster, must not hold others. Approved deletions do not count as deleted, but these works do
/// not stay either.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OverBudget {
    clusters: BTreeMap<ClusterName, Excess>,
    groups: BTreeMap<GroupName, Excess>,
}

impl OverBudget {
    /// Compares the deletions with the budgets.
    pub fn find(budgets: &AllBudgets<'_>, counts: &DeletionCounts) -> Self {
        let DeletionCounts { clusters, groups } = counts;
        Self {
            clusters: clusters_over_budget(budgets, clusters),
            groups: groups_over_budget(budgets, groups),
        }
    }

    /// The bound that holds the deletion of a work of this cluster, and of this group.
    pub fn excess(&self, cluster: &ClusterName, group: Option<&GroupName>) -> Option<&Excess> {
        self.clusters.get(cluster).or_else(|| self.groups.get(group?))
    }
}

fn clusters_over_budget(
    budgets: &AllBudgets<'_>,
    clusters: &BTreeMap<ClusterName, DeletionCount>,
) -> BTreeMap<ClusterName, Excess> {
    let AllBudgets { of_source: budget, of_clusters, .. } = budgets;
    let of_source = source_excess(*budget, clusters);
    let over = of_clusters.iter().copied().filter(|budget| is_exceeded(budget, clusters));
    let over: Vec<&ClusterBudget> = over.collect();
    let held = clusters.iter().filter(|(_, count)| count.unapproved > 0);
    let held = held.filter_map(|(cluster, count)| {
        let of_pattern = || {
            let budget = over.iter().find(|budget| is_for(&budget.clusters, cluster.as_str()))?;
            Some(Excess::Clusters((*budget).clone()))
        };
        let is_emptied = count.kept == 0 && count.deleted() > budget.cluster;
        let of_cluster = || is_emptied.then(|| Excess::Cluster(cluster.clone()));
        Some((cluster.clone(), of_source.clone().or_else(of_pattern).or_else(of_cluster)?))
    });
    held.collect()
}

/// Whether one of the patterns of a budget is for this name.
fn is_for(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| wildcard(pattern, name))
}

/// Whether the deletions on the clusters of a budget exceed it.
fn is_exceeded(budget: &ClusterBudget, clusters: &BTreeMap<ClusterName, DeletionCount>) -> bool {
    let of = clusters.iter().filter(|(cluster, _)| is_for(&budget.clusters, cluster.as_str()));
    sum(of.map(|(_, count)| count)).is_over(number(budget.works), number(budget.percent))
}

/// The budget of the source counts for the works of each group, too.
fn groups_over_budget(
    budgets: &AllBudgets<'_>,
    groups: &BTreeMap<GroupName, DeletionCount>,
) -> BTreeMap<GroupName, Excess> {
    let AllBudgets { of_source: Budget { works, percent, .. }, of_groups, .. } = budgets;
    let counted = |budget: &GroupBudget| {
        let of = groups.iter().filter(|(group, _)| is_for(&budget.groups, group.as_str()));
        sum(of.map(|(_, count)| count))
    };
    let is_over = |budget: &GroupBudget| {
        counted(budget).is_over(number(budget.works), number(budget.percent))
    };
    let over = of_groups.iter().copied().filter(|budget| is_over(budget));
    let over: Vec<&GroupBudget> = over.collect();
    let held = groups.iter().filter(|(_, count)| count.unapproved > 0);
    let held = held.filter_map(|(group, count)| {
        let of_pattern = || {
            let budget = over.iter().find(|budget| is_for(&budget.groups, group.as_str()))?;
            Some(Excess::Groups((*budget).clone()))
        };
        let (works, percent) = (*works, *percent);
        let of_group = || {
            let excess = Excess::Group { group: group.clone(), works, percent };
            count.is_over(works, percent).then_some(excess)
        };
        Some((group.clone(), of_pattern().or_else(of_group)?))
    });
    held.collect()
}

/// The bound that all deletions together exceed.
fn source_excess(
    budget: Budget,
    clusters: &BTreeMap<ClusterName, DeletionCount>,
) -> Option<Excess> {
    let all = sum(clusters.values());
    if all.unapproved > 0 && all.kept == 0 {
        return Some(Excess::Everything);
    }
    let Budget { works, percent, .. } = budget;
    all.is_over(works, percent).then_some(Excess::Works { works, percent })
}

fn sum<'a>(counts: impl Iterator<Item = &'a DeletionCount>) -> DeletionCount {
    counts.fold(DeletionCount::default(), |all, count| DeletionCount {
        unapproved: all.unapproved + count.unapproved,
        approved: all.approved + count.approved,
        kept: all.kept + count.kept,
    })
}

fn number(set: u32) -> usize {
    usize::try_from(set).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(unapproved: usize, approved: usize, kept: usize) -> DeletionCount {
        DeletionCount { unapproved, approved, kept }
    }

    fn name(index: usize) -> ClusterName {
        ClusterName::parse(&format!("edge-{index}")).unwrap()
    }

    /// The clusters whose deletions are held, each with the bound.
    fn clusters_over(
        budget: Budget,
        further: &Budgets,
        clusters: BTreeMap<ClusterName, DeletionCount>,
    ) -> BTreeMap<ClusterName, Excess> {
        let counts = DeletionCounts { clusters, ..DeletionCounts::default() };
        OverBudget::find(&AllBudgets::new(budget, std::iter::once(further)), &counts).clusters
    }

    /// Budgets for some clusters.
    fn of_clusters(budgets: &[&ClusterBudget]) -> Budgets {
        Budgets { clusters: budgets.iter().copied().cloned().collect(), ..Budgets::default() }
    }

    /// The first excess, and the clusters whose deletions are held.
    fn judged(budget: Budget, counts: &[DeletionCount]) -> (Option<Excess>, Vec<ClusterName>) {
        let counts = counts.iter().enumerate().map(|(i, count)| (name(i), *count)).collect();
        let found = clusters_over(budget, &Budgets::default(), counts);
        (found.values().next().cloned(), found.into_keys().collect())
    }

    #[test]
    fn the_default_is_ten_works_or_a_tenth_and_no_whole_cluster() {
        let ten = Excess::Works { works: 10, percent: 10 };
        let second = Excess::Cluster(name(1));
        for (counts, expected) in [
            (vec![], None),
            (vec![count(0, 5, 0)], None),
            (vec![count(10, 0, 1)], None),
            (vec![count(11, 0, 99)], None),
            (vec![count(11, 0, 98)], Some(ten.clone())),
            (vec![count(20, 0, 180)], None),
            (vec![count(21, 0, 179)], Some(ten.clone())),
            (vec![count(1, 0, 0)], Some(Excess::Everything)),
            (vec![count(1, 4, 0)], Some(Excess::Everything)),
            (vec![count(1, 0, 0), count(0, 0, 1)], None),
            (vec![count(0, 0, 9), count(2, 0, 0)], Some(second.clone())),
            (vec![count(0, 0, 9), count(1, 1, 0)], Some(second)),
            (vec![count(0, 0, 9), count(0, 2, 0)], None),
            (vec![count(1, 30, 100)], None),
            (vec![count(11, 30, 30)], Some(ten)),
        ] {
            assert_eq!(judged(Budget::default(), &counts).0, expected, "{counts:?}");
        }
        let none = Budget { works: 0, percent: 0, cluster: 0 };
        let over = Some(Excess::Works { works: 0, percent: 0 });
        assert_eq!(judged(none, &[count(1, 0, 500)]).0, over);
    }

    #[test]
    fn cluster_that_would_be_emptied_holds_its_own_deletions_only() {
        let of = |counts: &[DeletionCount]| judged(Budget::default(), counts).1;
        let (some, emptied) = (count(3, 0, 9), count(2, 0, 0));
        assert_eq!(of(&[some, emptied, count(1, 0, 0)]), [name(1)]);
        assert_eq!(of(&[emptied, count(0, 2, 0), some, emptied]), [name(0), name(3)]);
        // All of them count towards the bound for the source.
        assert_eq!(of(&[count(9, 0, 9), emptied]), [name(0), name(1)]);
        assert_eq!(of(&[emptied, emptied]), [name(0), name(1)], "nothing would stay");
    }

    /// The groups whose deletions are held, each with the bound.
    fn groups_over(
        further: &[GroupBudget],
        counts: &[(&str, DeletionCount)],
    ) -> Vec<(String, Excess)> {
        let group = |name: &str| GroupName::parse(name).unwrap();
        let groups = counts.iter().map(|(name, count)| (group(name), *count)).collect();
        let counts = DeletionCounts { groups, ..DeletionCounts::default() };
        let further = Budgets { groups: further.to_vec(), ..Budgets::default() };
        let budgets = AllBudgets::new(Budget::default(), std::iter::once(&further));
        let found = OverBudget::find(&budgets, &counts).groups;
        found.into_iter().map(|(group, excess)| (group.to_string(), excess)).collect()
    }

    #[test]
    fn budget_of_the_source_counts_for_each_group_too() {
        let group = GroupName::parse("large").unwrap();
        let excess = ("large".to_owned(), Excess::Group { group, works: 10, percent: 10 });
        for (large, expected) in [
            (count(10, 0, 1), None),
            (count(11, 0, 99), None),
            (count(11, 0, 98), Some(&excess)),
            (count(0, 50, 0), None),
        ] {
            let over = groups_over(&[], &[("large", large), ("small", count(9, 0, 0))]);
            assert_eq!(over.first(), expected, "{large:?}");
        }
    }

    #[test]
    fn budget_of_groups_counts_their_works_together_and_holds_no_others() {
        let groups = vec!["store-*".to_owned(), "tills".to_owned()];
        let set = GroupBudget { groups, works: 2, percent: 10 };
        let held = |counts: &[(&str, DeletionCount)]| {
            let over = groups_over(std::slice::from_ref(&set), counts);
            assert!(over.iter().all(|(_, excess)| *excess == Excess::Groups(set.clone())));
            over.into_iter().map(|(group, _)| group).collect::<Vec<_>>()
        };
        let (none, one, two) = (count(0, 0, 8), count(1, 0, 9), count(2, 0, 9));
        assert_eq!(held(&[("store-a", one), ("tills", one), ("base", two)]), [""; 0]);
        assert_eq!(held(&[("store-a", two), ("tills", one), ("base", two)]), ["store-a", "tills"]);
        assert_eq!(held(&[("store-a", two), ("store-b", none), ("tills", one)]).len(), 2);
        assert_eq!(held(&[("store-a", count(2, 0, 19)), ("tills", count(1, 0, 9))]), [""; 0]);
        assert_eq!(held(&[("store-a", count(0, 9, 9)), ("tills", two)]), [""; 0], "approved");
    }

    #[test]
    fn budget_of_clusters_counts_their_works_together() {
        let counts = |names: &[(&str, DeletionCount)]| {
            let name = |name: &str| ClusterName::parse(name).unwrap();
            names.iter().map(|(of, count)| (name(of), *count)).collect::<BTreeMap<_, _>>()
        };
        let prod = ClusterBudget { clusters: vec!["prod-*".into()], works: 1, percent: 10 };
        let over = Some(Excess::Clusters(prod.clone()));
        for (clusters, expected) in [
            (vec![("prod-1", count(1, 0, 9)), ("prod-2", count(1, 0, 9))], None),
            (vec![("prod-1", count(2, 0, 9)), ("prod-2", count(1, 0, 9))], over.clone()),
            (vec![("prod-1", count(0, 2, 9)), ("prod-2", count(1, 0, 9))], None),
            (vec![("prod-1", count(0, 0, 9)), ("test-1", count(3, 0, 9))], None),
        ] {
            let clusters = counts(&clusters);
            let found = clusters_over(Budget::default(), &of_clusters(&[&prod]), clusters.clone());
            assert_eq!(found.into_values().next(), expected, "{clusters:?}");
        }
    }

    #[test]
    fn exceeded_budget_of_clusters_holds_their_deletions_only() {
        let cluster = |name: &str| ClusterName::parse(name).unwrap();
        let of = |clusters: &[&str], works| ClusterBudget {
            clusters: clusters.iter().map(|&name| name.to_owned()).collect(),
            works,
            percent: 0,
        };
        let (prod, east, tight) = (of(&["prod-*"], 1), of(&["*-east"], 3), of(&["*-west"], 0));
        let budgets = of_clusters(&[&prod, &east, &tight]);
        let held = |counts: &[(&str, usize)], budget| {
            let counts = counts.iter().map(|(name, n)| (cluster(name), count(*n, 0, 9)));
            let found = clusters_over(budget, &budgets, counts.collect());
            let found = found.into_iter().map(|(name, excess)| (name.to_string(), excess));
            found.collect::<Vec<_>>()
        };
        let default = Budget::default();
        let by = |budget: &ClusterBudget| Excess::Clusters(budget.clone());
        // Two on production are too many. Those in the east and on test clusters go.
        let counts = [("prod-1", 1), ("prod-2", 1), ("test-1", 4), ("test-east", 3)];
        let expected = [("prod-1".to_owned(), by(&prod)), ("prod-2".to_owned(), by(&prod))];
        assert_eq!(held(&counts, default), expected);
        // A cluster of two budgets counts in both, and is held by either.
        let counts = [("prod-1", 1), ("prod-east", 1), ("test-east", 2)];
        let expected = [("prod-1".to_owned(), by(&prod)), ("prod-east".to_owned(), by(&prod))];
        assert_eq!(held(&counts, default), expected);
        let counts = [("prod-1", 0), ("prod-east", 1), ("test-east", 3)];
        let expected = [("prod-east".to_owned(), by(&east)), ("test-east".to_owned(), by(&east))];
        assert_eq!(held(&counts, default), expected);
        let counts = [("prod-2", 2), ("test-1", 1), ("test-west", 1)];
        let expected = [("prod-2".to_owned(), by(&prod)), ("test-west".to_owned(), by(&tight))];
        assert_eq!(held(&counts, default), expected);
        // What is held still counts towards the budget of the source.
        let counts = [("prod-1", 2), ("test-1", 1)];
        let all = held(&counts, Budget { works: 2, percent: 0, cluster: 1 });
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["prod-1", "test-1"]);
    }

    #[test]
    fn the_stricter_of_two_budgets_counts() {
        let set = |works, percent| Budgets { works, percent, ..Budgets::default() };
        let loose = set(Some(50), Some(50));
        for (daemon, repository, expected) in [
            (set(None, None), set(None, None), (10, 10)),
            (set(None, None), loose.clone(), (50, 50)),
            (set(Some(2), None), loose.clone(), (2, 50)),
            (loose, set(Some(100), Some(5)), (50, 5)),
        ] {
            let budget = Budget::of(&daemon, &repository);
            assert_eq!((budget.works, budget.percent, budget.cluster), (expected.0, expected.1, 1));
        }
        let (a, b) = (Budget { works: 1, percent: 90, cluster: 5 }, Budget::default());
        assert_eq!(a.stricter(b), Budget { works: 1, percent: 10, cluster: 1 });
    }
}
