//! The deletion budget as `docs/guards.md` states it.
//!
//! The checkers judge by this statement. It shares no code with the planner, so that a wrong sum in
//! the planner is found.

use gitwork_core::config::{Budgets, ClusterBudget};
use gitwork_core::model::name::ClusterName;

/// The numbers of a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetRule {
    /// Up to this many works may go.
    works: usize,
    /// More works may go, up to this percentage of the works that the source has on the hub.
    percent: usize,
    /// Up to this many works of a cluster may go if none stays there.
    cluster: usize,
    /// Further budgets for the works of some clusters together.
    of_clusters: Vec<ClusterRule>,
}

/// The budget of some clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterRule {
    /// Names, and beginnings of names with a `*` at their end.
    clusters: Vec<String>,
    works: usize,
    percent: usize,
}

/// "more than 10 works and more than 10%, or every work of a cluster that had more than one".
const DEFAULT: [usize; 3] = [10, 10, 1];

/// The lower of two settings; the default if neither is set.
fn lower(operator: Option<u32>, repository: Option<u32>, default: usize) -> usize {
    match (operator, repository) {
        (Some(one), Some(other)) if one < other => one as usize,
        (_, Some(set)) | (Some(set), None) => set as usize,
        (None, None) => default,
    }
}

impl BudgetRule {
    /// The budget that the operator and one commit set together.
    pub fn new(operator: &Budgets, repository: &Budgets) -> Self {
        let [works, percent, cluster] = DEFAULT;
        let of_clusters = operator.clusters.iter().chain(&repository.clusters);
        Self {
            works: lower(operator.works, repository.works, works),
            percent: lower(operator.percent, repository.percent, percent),
            cluster: lower(operator.cluster, repository.cluster, cluster),
            of_clusters: of_clusters.map(ClusterRule::new).collect(),
        }
    }

    /// Whether so many unapproved deletions may go, of the works that the source has on the hub.
    pub fn allows_deletions(&self, unapproved: usize, on_hub: usize) -> bool {
        allows(self.works, self.percent, unapproved, on_hub)
    }

    /// Whether a cluster may lose so many works if so many stay there.
    pub fn allows_on_cluster(&self, deleted: usize, kept: usize) -> bool {
        kept > 0 || deleted <= self.cluster
    }

    /// The budgets that count the works of a cluster.
    pub fn of_cluster(&self, cluster: &ClusterName) -> impl Iterator<Item = &ClusterRule> {
        self.of_clusters.iter().filter(|rule| rule.counts(cluster))
    }
}

impl ClusterRule {
    /// The rule that a file sets.
    pub fn new(set: &ClusterBudget) -> Self {
        let ClusterBudget { clusters, works, percent } = set;
        let clusters = clusters.clone();
        Self { clusters, works: *works as usize, percent: *percent as usize }
    }

    /// Whether the works of a cluster count.
    pub fn counts(&self, cluster: &ClusterName) -> bool {
        self.clusters.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => cluster.as_str().starts_with(beginning),
            None => cluster.as_str() == pattern,
        })
    }

    /// Whether so many unapproved deletions may go, of the works that these clusters have.
    pub fn allows_deletions(&self, unapproved: usize, on_hub: usize) -> bool {
        allows(self.works, self.percent, unapproved, on_hub)
    }
}

fn allows(works: usize, percent: usize, unapproved: usize, on_hub: usize) -> bool {
    let is_over_number = unapproved > works;
    let is_over_percentage = 100 * unapproved > percent * on_hub;
    !(is_over_number && is_over_percentage)
}

#[test]
fn budget_rule_has_documented_defaults_and_bounds() {
    let unset = Budgets::default();
    let rule = BudgetRule::new(&unset, &unset);
    assert!(rule.allows_deletions(10, 11), "10 works may go at any share");
    assert!(!rule.allows_deletions(11, 109) && rule.allows_deletions(11, 110), "10% may go");
    assert!(rule.allows_on_cluster(1, 0) && !rule.allows_on_cluster(2, 0));
    assert!(rule.allows_on_cluster(200, 1));
    let set = |works, percent| Budgets {
        works: Some(works),
        percent: Some(percent),
        cluster: None,
        ..Budgets::default()
    };
    let numbers = |rule: &BudgetRule| [rule.works, rule.percent, rule.cluster];
    for (operator, repository) in [(set(3, 50), set(9, 20)), (set(9, 20), set(3, 50))] {
        assert_eq!(numbers(&BudgetRule::new(&operator, &repository)), [3, 20, 1]);
    }
    assert_eq!(numbers(&BudgetRule::new(&set(50, 50), &unset)), [50, 50, 1]);
}

#[test]
fn budgets_of_clusters_count_for_the_clusters_they_name() {
    let of = |clusters: &[&str], works| Budgets {
        clusters: vec![ClusterBudget {
            clusters: clusters.iter().map(|&name| name.to_owned()).collect(),
            works,
            percent: 0,
        }],
        ..Budgets::default()
    };
    let rule = BudgetRule::new(&of(&["edge-1"], 1), &of(&["edge-*"], 2));
    let allowed = |cluster: &str, count| {
        let cluster = ClusterName::parse(cluster).unwrap();
        rule.of_cluster(&cluster).all(|rule| rule.allows_deletions(count, 100))
    };
    assert!(allowed("edge-1", 1) && !allowed("edge-1", 2), "both count");
    assert!(allowed("edge-2", 2) && !allowed("edge-2", 3));
    assert!(allowed("hub", 99));
}
