//! The actions of a seed as a list, so that a failure can be shown with few of them.

use super::Failure;

/// The number of actions before the faults stop.
const ACTIONS: usize = 14;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// An action or a fault.
    Act,
    /// Time passes.
    Wait,
    /// All faults stop, and the world converges.
    Rest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub kind: StepKind,
    /// The seed of its random numbers; `None` for those that the step before has left. A step with
    /// its own seed does the same even if earlier steps are left out.
    pub seed: Option<u64>,
}

/// The steps of every seed.
pub fn whole() -> Vec<Step> {
    let step = |kind| Step { kind, seed: None };
    let acts = (0..ACTIONS).flat_map(|_| [step(StepKind::Act), step(StepKind::Wait)]);
    acts.chain([step(StepKind::Rest)]).collect()
}

/// The kind of a failure: its text without names, numbers and objects.
pub fn failure_kind(why: &str) -> String {
    let parts = why.split(": ").take(2).map(|part| {
        let part = part.split([';', '{', '"', '[']).next().unwrap_or_default();
        let words = part.split_whitespace().filter(|word| {
            !word.contains('/') && !word.contains(|letter: char| letter.is_ascii_digit())
        });
        words.collect::<Vec<_>>().join(" ")
    });
    parts.collect::<Vec<_>>().join(": ")
}

/// Shortens a scenario that fails in the same way: first without half of the steps, then without a
/// quarter, and so on down to single steps (Zeller, Hildebrandt: Simplifying and Isolating
/// Failure-Inducing Input, 2002). Runs at most `runs` scenarios.
pub fn shrink(
    failure: Failure,
    runs: usize,
    fails: impl Fn(&[Step]) -> Option<Failure>,
) -> Failure {
    let kind = failure_kind(&failure.why);
    let (mut shortest, mut runs_left) = (failure, runs);
    let mut size = shortest.scenario.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        let mut shorter = false;
        while at < shortest.scenario.len() {
            if runs_left == 0 {
                return shortest;
            }
            runs_left -= 1;
            let end = (at + size).min(shortest.scenario.len());
            let convergence = [&shortest.scenario[..at], &shortest.scenario[end..]].concat();
            match fails(&convergence).filter(|failure| failure_kind(&failure.why) == kind) {
                Some(failure) => (shortest, shorter) = (failure, true),
                None => at = end,
            }
        }
        size = if size == 1 && shorter { 1 } else { size / 2 };
    }
    shortest
}

#[test]
fn failure_kind_leaves_out_names_and_numbers() {
    let cases = [
        ("delete of edge-1/api: Git has it", "delete of: Git has it"),
        ("delete of edge-3/web: Git has it", "delete of: Git has it"),
        (
            "update of edge-1/db: commit 3 wants other manifests than {\"a\":1}; commit 2 has none",
            "update of: commit wants other manifests than",
        ),
        (
            "delete of edge-2/db: over the budget of works: deletes {\"edge-2/db\"}, keeps {}",
            "delete of: over the budget of works",
        ),
        ("after convergence, edge-1/db is not there", "after convergence, is not there"),
        ("it does not converge", "it does not converge"),
    ];
    for (why, is) in cases {
        assert_eq!(failure_kind(why), is);
    }
}

#[test]
fn shrinking_keeps_only_necessary_steps() {
    let scenario: Vec<Step> =
        (0..29).map(|number| Step { kind: StepKind::Act, seed: Some(number) }).collect();
    let failure = |scenario: &[Step]| Failure {
        seed: 0,
        why: "bad".into(),
        trace: vec![],
        scenario: scenario.into(),
    };
    let needs = |scenario: &[Step], seed: u64| scenario.iter().any(|step| step.seed == Some(seed));
    let fails = |scenario: &[Step]| {
        (needs(scenario, 3) && needs(scenario, 20) && needs(scenario, 21))
            .then(|| failure(scenario))
    };
    let seed = |failure: &Failure| -> Vec<u64> {
        failure.scenario.iter().filter_map(|step| step.seed).collect()
    };
    assert_eq!(seed(&shrink(failure(&scenario), 200, fails)), [3, 20, 21]);
    let tried = std::cell::Cell::new(0);
    let counted = |scenario: &[Step]| {
        tried.set(tried.get() + 1);
        fails(scenario)
    };
    let early = shrink(failure(&scenario), 5, counted);
    assert_eq!(tried.get(), 5, "no more than it may");
    assert!(fails(&early.scenario).is_some());
}
