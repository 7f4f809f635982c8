//! The changes of a review in words, the same on a terminal and in a comment.

use std::collections::BTreeSet;

use super::difference::{
    AddedObject, ObjectDiff, RemovalOutcome, RemovedObject, WorkChange, WorkDiff, WorkReview,
};
use super::moves::{MoveForecast, MovedFrom};
use super::object_name::ObjectName;
use gitwork_core::model::name::{ClusterName, WorkName};
use gitwork_core::model::work::DeletionPolicy;
use gitwork_core::plan::immutable::ImmutableOutcome;
use gitwork_core::plan::moves::CREATE_AGAIN;
use gitwork_core::text::style::{TextStyle, count};

/// Names in one line. The others are counted.
const NAMES_MAX: usize = 10;

/// Writes a name: as it is on a terminal, and as code in a comment.
pub(super) type WriteName = fn(&str) -> String;

/// Writes `edge-1, edge-2 and 98 more`, each name through `write`.
pub(super) fn named<'a>(names: impl Iterator<Item = &'a str>, write: WriteName) -> String {
    let all: Vec<&str> = names.collect();
    let first: Vec<String> = all.iter().take(NAMES_MAX).map(|name| write(name)).collect();
    let first = first.join(", ");
    match all.len().saturating_sub(NAMES_MAX) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

fn works(names: BTreeSet<&WorkName>, write: WriteName) -> String {
    named(names.into_iter().map(WorkName::as_str), write)
}

/// `1 object moves`, `2 objects move`.
fn objects(number: usize, one: &str, several: &str) -> String {
    let verb = if number == 1 { one } else { several };
    format!("{} {verb}", count(number, "object"))
}

/// The sign of a work's change, its style and its description.
pub(super) fn headline(work: &WorkReview, write: WriteName) -> (char, TextStyle, String) {
    let suspended =
        if work.suspended { "; suspended: not written until it is resumed" } else { "" };
    match &work.change {
        WorkChange::Added { objects, base_unreadable } => {
            let number = count(objects.len(), "object");
            let from = from_words(objects, write);
            let words = match base_unreadable {
                false => format!("new, {number}{from}"),
                true => {
                    format!("can be read again, {number}{from}; its previous content is unknown")
                }
            };
            ('+', TextStyle::Good, words + suspended)
        }
        WorkChange::Changed(diff) => {
            ('~', TextStyle::Warning, format!("{}{suspended}", changed_words(diff, write)))
        }
        WorkChange::Deleted { objects, renamed_to, .. } if work.change.is_moved_away() => {
            ('~', TextStyle::Warning, moved_words(objects, renamed_to.as_ref(), write))
        }
        WorkChange::Deleted { delete_option, objects, renamed_to, recreated_on } => {
            let mut words = removal_words(delete_option, objects, recreated_on, write);
            if let Some(name) = renamed_to {
                words
                    .push_str(&format!("; its folder now makes the work {}", write(name.as_str())));
            }
            ('-', TextStyle::Bad, format!("deleted; {words}"))
        }
        WorkChange::Released { objects } => {
            let mut words: String =
                "released (prune: false): stays on the hub and on the cluster, unmanaged".into();
            if !objects.is_empty() {
                let moves = move_words(objects.iter().map(|one| &one.outcome), write);
                words.push_str(&format!("; before that, {moves}"));
            }
            ('-', TextStyle::Warning, words)
        }
        WorkChange::Frozen => {
            ('!', TextStyle::Warning, "cannot be read: stays unchanged on the hub".into())
        }
    }
}

/// The works that objects of an added work come from.
fn from_words(objects: &[AddedObject], write: WriteName) -> String {
    let moved: Vec<&MovedFrom> =
        objects.iter().filter_map(|added| added.moved_from.as_ref()).collect();
    if moved.is_empty() {
        return String::new();
    }
    let from = works(moved.iter().map(|one| &one.work).collect(), write);
    match moved.len() {
        number if number < objects.len() => format!(", {number} of them from {from}"),
        1 => format!(" from {from}"),
        _ => format!(", all from {from}"),
    }
}

fn changed_words(diff: &WorkDiff, write: WriteName) -> String {
    if diff.is_metadata_only() {
        return "only its labels or annotations change, nothing on the cluster".into();
    }
    let moves = |change: &ObjectDiff| match change {
        ObjectDiff::Added { moved_from } => moved_from.is_some(),
        ObjectDiff::Removed(outcome) => matches!(outcome, RemovalOutcome::MovedTo { .. }),
        ObjectDiff::Changed { .. } => false,
    };
    let mut words = Vec::new();
    let changed = diff.objects.iter().filter(|object| !moves(&object.change)).count();
    if changed > 0 {
        words.push(format!("{}{}", count(changed, "object"), recreated_words(diff)));
    }
    if !diff.spec.is_empty() {
        words.push("its settings".into());
    }
    if !diff.metadata.is_empty() {
        words.push("its labels or annotations".into());
    }
    if diff.reordered {
        words.push("the order of its objects".into());
    }
    if diff.depends_on.is_some() {
        words.push("what it depends on".into());
    }
    let changes = (!words.is_empty()).then(|| format!("changes {}", words.join(", ")));
    let changes: Vec<String> = changes
        .into_iter()
        .chain(gives_words(diff, write))
        .chain(gets_words(diff, write))
        .collect();
    let change = changes.join("; ");
    match diff.suspend {
        None => change,
        // The headline of a suspended work already mentions the suspension.
        Some(true) if change.is_empty() => "no other change".into(),
        Some(true) => change,
        Some(false) if change.is_empty() => "is resumed by this change".into(),
        Some(false) => format!("{change}, and is resumed by this change"),
    }
}

/// ` (1 must be recreated)`.
fn recreated_words(diff: &WorkDiff) -> String {
    let number = |outcome| {
        let changes = diff.objects.iter().filter_map(|object| match &object.change {
            ObjectDiff::Changed { immutable, .. } => immutable.as_ref(),
            ObjectDiff::Added { .. } | ObjectDiff::Removed(_) => None,
        });
        changes.filter(|change| change.outcome == outcome).count()
    };
    let (fail, again) = (number(ImmutableOutcome::Fails), number(ImmutableOutcome::Recreates));
    let words = [(fail, "must be recreated"), (again, "deleted and created again")];
    let words = words.into_iter().filter(|(number, _)| *number > 0);
    let words: Vec<String> = words.map(|(number, what)| format!("{number} {what}")).collect();
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

/// `2 objects move to shop2`.
fn gives_words(diff: &WorkDiff, write: WriteName) -> Option<String> {
    let outcomes = diff.objects.iter().filter_map(|object| match &object.change {
        ObjectDiff::Removed(outcome) => Some(outcome),
        _ => None,
    });
    let moved = outcomes.filter(|one| matches!(one, RemovalOutcome::MovedTo { .. }));
    let moved: Vec<&RemovalOutcome> = moved.collect();
    (!moved.is_empty()).then(|| move_words(moved.into_iter(), write))
}

/// `1 object moves here from shop`.
fn gets_words(diff: &WorkDiff, write: WriteName) -> Option<String> {
    let from = diff.objects.iter().filter_map(|object| match &object.change {
        ObjectDiff::Added { moved_from } => moved_from.as_deref(),
        _ => None,
    });
    let from: Vec<&WorkName> = from.map(|one| &one.work).collect();
    let number = from.len();
    (number > 0).then(|| {
        let from = works(from.into_iter().collect(), write);
        format!("{} here from {from}", objects(number, "moves", "move"))
    })
}

/// `2 objects move to shop2; 1 of the moves is held`.
fn move_words<'a>(outcomes: impl Iterator<Item = &'a RemovalOutcome>, write: WriteName) -> String {
    let (mut number, mut held, mut to) = (0, 0, BTreeSet::new());
    for outcome in outcomes {
        if let RemovalOutcome::MovedTo { work, forecast } = outcome {
            number += 1;
            held += usize::from(is_held(forecast));
            to.insert(work);
        }
    }
    let held = held_words(held);
    format!("{} to {}{held}", objects(number, "moves", "move"), works(to, write))
}

fn held_words(held: usize) -> String {
    match held {
        0 => String::new(),
        1 => "; 1 of the moves is held".into(),
        held => format!("; {held} of the moves are held"),
    }
}

fn is_held(forecast: &MoveForecast) -> bool {
    match forecast {
        MoveForecast::ImmutableField { .. }
        | MoveForecast::Suspended { .. }
        | MoveForecast::Unreadable => true,
        MoveForecast::Kept | MoveForecast::OrphanedFirst => false,
    }
}

/// A deleted work whose objects all move.
fn moved_words(
    removed: &[RemovedObject],
    renamed_to: Option<&WorkName>,
    write: WriteName,
) -> String {
    let (mut held, mut to) = (0, BTreeSet::new());
    for object in removed {
        if let RemovalOutcome::MovedTo { work, forecast } = &object.outcome {
            held += usize::from(is_held(forecast));
            to.insert(work);
        }
    }
    let what = match renamed_to {
        Some(name) if to.len() == 1 && to.contains(name) => "renamed to",
        _ if to.len() == 1 => "merged into",
        _ => "split into",
    };
    let moves = objects(removed.len(), "moves", "move");
    format!("{what} {}: {moves}, none is deleted{}", works(to, write), held_words(held))
}

/// The effect of a work's deletion on its cluster.
fn removal_words(
    option: &DeletionPolicy,
    removed: &[RemovedObject],
    recreated_on: &[ClusterName],
    write: WriteName,
) -> String {
    let number = |outcome| removed.iter().filter(|object| object.outcome == outcome).count();
    let (deleted, stay) = (number(RemovalOutcome::Deleted), number(RemovalOutcome::Stays));
    let mut words = Vec::new();
    if deleted > 0 {
        let again = match recreated_on {
            [] => String::new(),
            clusters => {
                let clusters = named(clusters.iter().map(ClusterName::as_str), write);
                format!(" and created on {clusters}")
            }
        };
        words.push(format!("{} deleted from the cluster{again}", objects(deleted, "is", "are")));
    }
    if stay > 0 {
        words.push(format!("{} on the cluster", objects(stay, "stays", "stay")));
    }
    if removed.iter().any(|object| matches!(object.outcome, RemovalOutcome::MovedTo { .. })) {
        words.push(move_words(removed.iter().map(|object| &object.outcome), write));
    }
    let waits = removed.iter().filter_map(|object| match &object.outcome {
        RemovalOutcome::MayHaveMoved { work } => Some(work),
        _ => None,
    });
    let waits: Vec<&WorkName> = waits.collect();
    if !waits.is_empty() {
        let (number, may_have) = (waits.len(), works(waits.into_iter().collect(), write));
        words.push(format!("{} until {may_have} can be read", objects(number, "stays", "stay")));
    }
    if words.is_empty() {
        words.push("it has no objects".into());
    }
    format!("deleteOption {}: {}", option.policy(), words.join(", "))
}

/// What becomes of an object that the work `from` no longer has.
pub(super) fn outcome_words(
    from: &WorkName,
    object: &ObjectName,
    outcome: &RemovalOutcome,
) -> String {
    let (to, forecast) = match outcome {
        RemovalOutcome::Deleted => return ": deleted from the cluster".into(),
        RemovalOutcome::Stays => return ": stays on the cluster".into(),
        RemovalOutcome::MayHaveMoved { work } => {
            return format!(": stays in {from} until {work}, which may have it, can be read");
        }
        RemovalOutcome::MovedTo { work, forecast } => (work, forecast),
    };
    match forecast {
        MoveForecast::Kept => {
            format!(": moves to {to}; {from} keeps it until {to} has applied it")
        }
        MoveForecast::OrphanedFirst => {
            format!(": moves to {to}; {from} orphans it first, then {to} gets it")
        }
        MoveForecast::ImmutableField { field } => format!(
            ": moves to {to}; the move is held: {field} of {object} cannot change; {CREATE_AGAIN}"
        ),
        MoveForecast::Suspended { by } => {
            format!(": moves to {to} when {by} is resumed; {from} keeps it until then")
        }
        MoveForecast::Unreadable => format!(": stays in {from}, which cannot be read"),
    }
}

/// Where an object that its work did not have comes from.
pub(super) fn origin_words(object: &ObjectName, moved: &MovedFrom) -> String {
    let from = &moved.work;
    match &moved.forecast {
        MoveForecast::Kept | MoveForecast::OrphanedFirst => format!(": moves here from {from}"),
        MoveForecast::ImmutableField { field } => {
            format!(": moves here from {from}; the move is held: {field} of {object} cannot change")
        }
        MoveForecast::Suspended { by } => {
            format!(": moves here from {from} when {by} is resumed")
        }
        MoveForecast::Unreadable => format!(": stays in {from}, which cannot be read"),
    }
}
