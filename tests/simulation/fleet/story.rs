//! What a seed does, as a list: a failure is told by the few steps that it takes.

use super::Failure;

/// How much happens before the faults stop.
const ACTIONS: usize = 14;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// Somebody does something, or something breaks.
    Act,
    /// Time goes by.
    Wait,
    /// All faults stop, and the world comes to rest.
    Rest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub deed: Deed,
    /// The dice that it is done with; `None` for those that the step before has left. With dice of its own a step
    /// does the same whatever is left out before it.
    pub dice: Option<u64>,
}

/// What every seed does, each with its own dice.
pub fn whole() -> Vec<Step> {
    let step = |deed| Step { deed, dice: None };
    let acts = (0..ACTIONS).flat_map(|_| [step(Deed::Act), step(Deed::Wait)]);
    acts.chain([step(Deed::Rest)]).collect()
}

/// How a world failed, without what differs from one world to the next: names, numbers and objects.
pub fn kind(why: &str) -> String {
    let parts = why.split(": ").take(2).map(|part| {
        let part = part.split([';', '{', '"', '[']).next().unwrap_or_default();
        let words = part.split_whitespace().filter(|word| {
            !word.contains('/') && !word.contains(|letter: char| letter.is_ascii_digit())
        });
        words.collect::<Vec<_>>().join(" ")
    });
    parts.collect::<Vec<_>>().join(": ")
}

/// A shorter story that fails in the same way: first without half of the steps, then without a quarter, and so on
/// down to single ones (Zeller, Hildebrandt: Simplifying and Isolating Failure-Inducing Input, 2002). `runs` bounds
/// how often a story is tried.
pub fn shrink(
    failure: Failure,
    runs: usize,
    fails: impl Fn(&[Step]) -> Option<Failure>,
) -> Failure {
    let kind = kind(&failure.why);
    let (mut least, mut runs_left) = (failure, runs);
    let mut size = least.story.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        let mut shorter = false;
        while at < least.story.len() {
            if runs_left == 0 {
                return least;
            }
            runs_left -= 1;
            let end = (at + size).min(least.story.len());
            let rest = [&least.story[..at], &least.story[end..]].concat();
            match fails(&rest).filter(|failure| self::kind(&failure.why) == kind) {
                Some(failure) => (least, shorter) = (failure, true),
                None => at = end,
            }
        }
        size = if size == 1 && shorter { 1 } else { size / 2 };
    }
    least
}

#[test]
fn a_failure_is_known_by_what_is_the_same_in_every_world() {
    let cases = [
        ("delete of edge-1/api: Git has it", "delete of: Git has it"),
        ("delete of edge-3/web: Git has it", "delete of: Git has it"),
        (
            "update of edge-1/db: commit 3 wants other manifests than {\"a\":1}; commit 2 does not have it",
            "update of: commit wants other manifests than",
        ),
        (
            "delete of edge-2/db: over the budget of works: deletes {\"edge-2/db\"}, keeps {}",
            "delete of: over the budget of works",
        ),
        ("at rest, edge-1/db is not there", "at rest, is not there"),
        ("it does not come to rest", "it does not come to rest"),
    ];
    for (why, is) in cases {
        assert_eq!(kind(why), is);
    }
}

#[test]
fn a_story_shrinks_to_what_it_takes() {
    let story: Vec<Step> =
        (0..29).map(|number| Step { deed: Deed::Act, dice: Some(number) }).collect();
    let failure =
        |story: &[Step]| Failure { seed: 0, why: "bad".into(), trace: vec![], story: story.into() };
    let needs = |story: &[Step], dice: u64| story.iter().any(|step| step.dice == Some(dice));
    let fails = |story: &[Step]| {
        (needs(story, 3) && needs(story, 20) && needs(story, 21)).then(|| failure(story))
    };
    let dice = |failure: &Failure| -> Vec<u64> {
        failure.story.iter().filter_map(|step| step.dice).collect()
    };
    assert_eq!(dice(&shrink(failure(&story), 200, fails)), [3, 20, 21]);
    let tried = std::cell::Cell::new(0);
    let counted = |story: &[Step]| {
        tried.set(tried.get() + 1);
        fails(story)
    };
    let early = shrink(failure(&story), 5, counted);
    assert_eq!(tried.get(), 5, "no more than it may");
    assert!(fails(&early.story).is_some());
}
