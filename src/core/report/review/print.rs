//! Prints a review for a terminal. A comment has the same words: see `markdown`.

use std::collections::HashMap;

use super::difference::{
    ObjectDiff, ObjectName, RemovalOutcome, Review, Size, WorkChange, WorkDiff, WorkReview,
};
use super::guards::Signatures;
use crate::model::name::WorkName;
use crate::model::work::DeletionPolicy;
use crate::text::escape::escape_untrusted;
use crate::text::style::{ColorMode, TextStyle, count};

/// Works of one name with the same change on several clusters, as a change of a shared file gives.
pub(super) struct Group<'a> {
    pub(super) first: &'a WorkReview,
    /// All works, including the first.
    pub(super) works: Vec<&'a WorkReview>,
}

/// Groups works by name and change, in the order of their first ones.
pub(super) fn groups(review: &Review) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut places: HashMap<(&WorkName, bool, &WorkChange), usize> = HashMap::new();
    for work in review.works() {
        let place =
            *places.entry((&work.key.work, work.suspended, &work.change)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.works.push(work),
            None => groups.push(Group { first: work, works: vec![work] }),
        }
    }
    groups
}

/// Clusters named in one line. The others are counted.
const CLUSTERS_NAMED_MAX: usize = 10;

/// Writes `edge-1, edge-2 and 98 more`, each name through `write`.
fn clusters_named<'a>(
    clusters: impl Iterator<Item = &'a str>,
    write: impl Fn(&str) -> String,
) -> String {
    let all: Vec<&str> = clusters.collect();
    let names: Vec<String> = all.iter().take(CLUSTERS_NAMED_MAX).map(|name| write(name)).collect();
    let named = names.join(", ");
    match all.len().saturating_sub(CLUSTERS_NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

impl Group<'_> {
    /// The clusters, each name through `write`.
    pub(super) fn clusters(&self, write: impl Fn(&str) -> String) -> String {
        clusters_named(self.works.iter().map(|work| work.key.cluster.as_str()), write)
    }

    /// The size of the largest work. Sizes differ by the lengths of substituted values.
    pub(super) fn size(&self) -> Option<Size> {
        self.works.iter().filter_map(|work| work.size).max_by_key(|size| size.bytes)
    }
}

/// The review for a terminal: every work with its changes, then the counts.
pub fn text(review: &Review, style: ColorMode) -> String {
    let mut out = String::new();
    for group in groups(review) {
        let work = group.first;
        let (sign, paint, words) = headline(work);
        let name = style.styled(TextStyle::Strong, &work.key);
        out.push_str(&format!("{} {name}", style.styled(paint, sign)));
        out.push_str(&format!(": {words}"));
        if let Some(size) = group.size() {
            out.push_str(&style.styled(TextStyle::Dim, format_args!(" ({size})")));
        }
        out.push('\n');
        details(&mut out, work, style);
        if group.works.len() > 1 {
            let others =
                Group { first: work, works: group.works.iter().skip(1).copied().collect() };
            let clusters = others.clusters(str::to_owned);
            out.push_str(&format!("    the same on {clusters}\n"));
        }
    }
    if !review.clusters.is_empty() {
        out.push('\n');
    }
    for line in remarks(review) {
        out.push_str(&format!("{}\n", style.styled(TextStyle::Warning, line)));
    }
    for line in guarded(review) {
        out.push_str(&format!("{}\n", style.styled(TextStyle::Note, escape_untrusted(&line))));
    }
    out.push_str(&format!("{}\n", style.styled(TextStyle::Strong, totals(review))));
    out
}

impl std::fmt::Display for Size {
    /// Writes `12.0 KiB, 3% of the hub's limit`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(before) = self.bytes_before.filter(|before| *before != self.bytes) {
            write!(f, "{} -> ", bytes(before))?;
        }
        write!(f, "{}, {}% of the hub's limit", bytes(self.bytes), self.percent)
    }
}

/// A size as in `512 B` or `12.0 KiB`.
pub(super) fn bytes(number: usize) -> String {
    if number < 1024 { format!("{number} B") } else { format!("{:.1} KiB", number as f64 / 1024.0) }
}

/// The sign of a work's change, its style and its description.
pub(super) fn headline(work: &WorkReview) -> (char, TextStyle, String) {
    let suspended =
        if work.suspended { "; suspended: not written until it is resumed" } else { "" };
    match &work.change {
        WorkChange::Added { objects, base_unreadable: false } => {
            ('+', TextStyle::Good, format!("new, {}{suspended}", count(objects.len(), "object")))
        }
        WorkChange::Added { objects, base_unreadable: true } => (
            '+',
            TextStyle::Good,
            format!(
                "can be read again, {}; its previous content is unknown{suspended}",
                count(objects.len(), "object")
            ),
        ),
        WorkChange::Changed(diff) => {
            ('~', TextStyle::Warning, format!("{}{suspended}", changed_words(diff)))
        }
        WorkChange::Deleted { delete_option, objects, renamed_to } => {
            let renamed = match renamed_to {
                Some(name) => format!("; its folder now makes the work {name}"),
                None => String::new(),
            };
            let outcome =
                removal_words(delete_option, objects.iter().map(|object| &object.outcome));
            ('-', TextStyle::Bad, format!("deleted; {outcome}{renamed}"))
        }
        WorkChange::Released => (
            '-',
            TextStyle::Warning,
            "released (prune: false): stays on the hub and on the cluster, unmanaged".into(),
        ),
        WorkChange::Frozen => {
            ('!', TextStyle::Warning, "cannot be read: stays unchanged on the hub".into())
        }
    }
}

fn changed_words(diff: &WorkDiff) -> String {
    if diff.is_metadata_only() {
        return "only its labels or annotations change, nothing on the cluster".into();
    }
    let mut words = Vec::new();
    if !diff.objects.is_empty() {
        words.push(count(diff.objects.len(), "object"));
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
    let change =
        if words.is_empty() { String::new() } else { format!("changes {}", words.join(", ")) };
    match diff.suspend {
        None => change,
        // The headline of a suspended work already mentions the suspension.
        Some(true) if words.is_empty() => "no other change".into(),
        Some(true) => change,
        Some(false) if words.is_empty() => "is resumed by this change".into(),
        Some(false) => format!("{change}, and is resumed by this change"),
    }
}

/// The effect of a work's deletion on its cluster.
fn removal_words<'a>(
    option: &DeletionPolicy,
    outcomes: impl Iterator<Item = &'a RemovalOutcome>,
) -> String {
    let (mut deleted, mut stay, mut moved) = (0, 0, 0);
    for outcome in outcomes {
        match outcome {
            RemovalOutcome::Deleted => deleted += 1,
            RemovalOutcome::Stays => stay += 1,
            RemovalOutcome::MovedTo { .. } => moved += 1,
        }
    }
    let mut words = Vec::new();
    if deleted > 0 {
        let verb = if deleted == 1 { "is" } else { "are" };
        words.push(format!("{} {verb} deleted from the cluster", count(deleted, "object")));
    }
    if stay > 0 {
        let verb = if stay == 1 { "stays" } else { "stay" };
        words.push(format!("{} {verb} on the cluster", count(stay, "object")));
    }
    if moved > 0 {
        let verb = if moved == 1 { "moves" } else { "move" };
        words.push(format!("{} {verb} to another work", count(moved, "object")));
    }
    if words.is_empty() {
        words.push("it has no objects".into());
    }
    format!("deleteOption {}: {}", option.policy(), words.join(", "))
}

/// A work's changes, object by object, indented.
pub(super) fn details(out: &mut String, work: &WorkReview, style: ColorMode) {
    let object = |out: &mut String, sign: char, paint, name: &ObjectName, words: &str| {
        let name = escape_untrusted(&name.to_string());
        let sign = style.styled(paint, sign);
        out.push_str(&format!("    {sign} {name}{words}\n"));
    };
    match &work.change {
        WorkChange::Added { objects, .. } => {
            objects.iter().for_each(|name| object(out, '+', TextStyle::Good, name, ""));
        }
        WorkChange::Deleted { objects, .. } => {
            for removed in objects {
                object(out, '-', TextStyle::Bad, &removed.object, &outcome_words(&removed.outcome));
            }
        }
        WorkChange::Changed(diff) => {
            for change in &diff.objects {
                match &change.change {
                    ObjectDiff::Added => object(out, '+', TextStyle::Good, &change.object, ""),
                    ObjectDiff::Removed(outcome) => {
                        object(out, '-', TextStyle::Bad, &change.object, &outcome_words(outcome));
                    }
                    ObjectDiff::Changed { fields } => {
                        object(out, '~', TextStyle::Warning, &change.object, "");
                        fields.write_text(out, "        ", style);
                    }
                }
            }
            for (what, fields) in [("settings", &diff.spec), ("metadata", &diff.metadata)] {
                if !fields.is_empty() {
                    out.push_str(&format!(
                        "    {} {what} of the ManifestWork\n",
                        style.styled(TextStyle::Warning, '~')
                    ));
                    fields.write_text(out, "        ", style);
                }
            }
        }
        WorkChange::Released | WorkChange::Frozen => {}
    }
}

fn outcome_words(outcome: &RemovalOutcome) -> String {
    match outcome {
        RemovalOutcome::Deleted => ": deleted from the cluster".into(),
        RemovalOutcome::Stays => ": stays on the cluster".into(),
        RemovalOutcome::MovedTo { work } => format!(": now in work {work}"),
    }
}

/// Remarks on the source as a whole.
pub(super) fn remarks(review: &Review) -> Vec<String> {
    let mut remarks = Vec::new();
    if review.source_frozen {
        remarks.push("The source cannot be read: every work stays unchanged.".into());
    }
    if review.deletes_frozen {
        remarks.push("This version cannot read a part of the source: nothing is deleted.".into());
    }
    if review.diagnostics.errors + review.diagnostics.warnings > 0 {
        remarks.push(format!("The repository has {}.", review.diagnostics));
    }
    remarks
}

/// The result of the signature check, and the reasons of holds. They contain untrusted text.
pub(super) fn guarded(review: &Review) -> Vec<String> {
    let signatures = review.signatures.as_ref().map(|signatures| match signatures {
        Signatures::Unchecked { .. } => {
            "signatures are required but were not checked: no keys are configured".to_owned()
        }
        Signatures::Verified { head } => {
            format!("signatures: verified up to commit {}", head.short())
        }
        Signatures::Refused { verified, failure } => {
            let verified = verified.short();
            format!("not applied: {failure}; the hub would stay at commit {verified}")
        }
    });
    let holds = review.holds.iter().map(|hold| hold.reason.clone());
    signatures.into_iter().chain(holds).collect()
}

/// `1 work to add, 2 to change, 1 to delete on 3 of 100 clusters; 97 unchanged`.
pub(super) fn totals(review: &Review) -> String {
    let counts = &review.counts;
    let parts: Vec<String> = [
        (counts.works_added, "to add"),
        (counts.works_changed, "to change"),
        (counts.works_deleted, "to delete"),
        (counts.works_released, "to release"),
    ]
    .into_iter()
    .filter(|(number, _)| *number > 0)
    .enumerate()
    .map(|(index, (number, what))| match index {
        0 => format!("{} {what}", count(number, "work")),
        _ => format!("{number} {what}"),
    })
    .collect();
    let mut line = if parts.is_empty() { "no changes".to_owned() } else { parts.join(", ") };
    if !parts.is_empty() {
        let total = counts.clusters;
        line.push_str(&format!(" on {} of {}", counts.clusters_changed, count(total, "cluster")));
    }
    for (number, what) in [
        (counts.works_suspended, "suspended"),
        (counts.works_frozen, "frozen"),
        (counts.works_unchanged, "unchanged"),
    ] {
        if number > 0 {
            line.push_str(&format!("; {number} {what}"));
        }
    }
    line
}
