//! The deletion budget as `docs/guards.md` states it.
//!
//! The checkers judge by this statement. It shares no code with the planner, so that a wrong sum in
//! the planner is found.

use gitwork_core::config::Budgets;

/// The numbers of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetRule {
    /// Up to this many works may go.
    works: usize,
    /// More works may go, up to this percentage of the works that the source has on the hub.
    percent: usize,
    /// Up to this many works of a cluster may go if none stays there.
    cluster: usize,
}

/// "more than 10 works and more than 10%, or every work of a cluster that had more than one".
const DEFAULT: BudgetRule = BudgetRule { works: 10, percent: 10, cluster: 1 };

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
        Self {
            works: lower(operator.works, repository.works, DEFAULT.works),
            percent: lower(operator.percent, repository.percent, DEFAULT.percent),
            cluster: lower(operator.cluster, repository.cluster, DEFAULT.cluster),
        }
    }

    /// Whether so many unapproved deletions may go, of the works that the source has on the hub.
    pub fn allows_deletions(self, unapproved: usize, on_hub: usize) -> bool {
        let is_over_number = unapproved > self.works;
        let is_over_percentage = 100 * unapproved > self.percent * on_hub;
        !(is_over_number && is_over_percentage)
    }

    /// Whether a cluster may lose so many works if so many stay there.
    pub fn allows_on_cluster(self, deleted: usize, kept: usize) -> bool {
        kept > 0 || deleted <= self.cluster
    }
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
    for (operator, repository) in [(set(3, 50), set(9, 20)), (set(9, 20), set(3, 50))] {
        let rule = BudgetRule::new(&operator, &repository);
        assert_eq!(rule, BudgetRule { works: 3, percent: 20, cluster: 1 });
    }
    assert_eq!(
        BudgetRule::new(&set(50, 50), &unset),
        BudgetRule { works: 50, percent: 50, cluster: 1 }
    );
}
