//! Prints a review for a terminal. A comment has the same words: see `markdown`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::difference::{ObjectDiff, RemovalOutcome, Review, Size, WorkChange, WorkReview};
use super::guards::Signatures;
use super::moves::MovedFrom;
use super::object_name::ObjectName;
use super::words::{WriteName, headline, named, origin_words, outcome_words};
use gitwork_core::model::name::{ClusterName, WorkName};
use gitwork_core::plan::cascading_deletion::CascadingDeletion;
use gitwork_core::plan::immutable::ImmutableOutcome;
use gitwork_core::text::escape::escape_untrusted;
use gitwork_core::text::style::{ColorMode, TextStyle, count};
use gitwork_core::text::truncate::truncate_chars;

/// Lines about objects that cannot change in place; the others are counted.
const LINES_MAX: usize = 10;
/// Characters of an object's name in such a line.
const NAME_CHARS_MAX: usize = 200;

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

impl Group<'_> {
    /// The clusters, each name through `write`.
    pub(super) fn clusters(&self, write: WriteName) -> String {
        named(self.works.iter().map(|work| work.key.cluster.as_str()), write)
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
        let (sign, paint, words) = headline(work, str::to_owned);
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
    for change in &review.member_changes {
        out.push_str(&format!("{change}\n"));
    }
    for line in remarks(review) {
        out.push_str(&format!("{}\n", style.styled(TextStyle::Warning, line)));
    }
    for line in losses(review) {
        out.push_str(&format!("{}\n", style.styled(TextStyle::Warning, escape_untrusted(&line))));
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

/// A work's changes, object by object, indented.
pub(super) fn details(out: &mut String, work: &WorkReview, style: ColorMode) {
    let mut details = Details { out, from: &work.key.work, style };
    match &work.change {
        WorkChange::Added { objects, .. } => {
            for added in objects {
                details.added(&added.object, added.moved_from.as_ref());
            }
        }
        WorkChange::Deleted { objects, .. } | WorkChange::Released { objects } => {
            for removed in objects {
                details.removed(&removed.object, &removed.outcome);
            }
        }
        WorkChange::Changed(diff) => {
            for change in &diff.objects {
                let object = &change.object;
                match &change.change {
                    ObjectDiff::Added { moved_from } => {
                        details.added(object, moved_from.as_deref());
                    }
                    ObjectDiff::Removed(outcome) => details.removed(object, outcome),
                    ObjectDiff::Changed { fields, immutable } => {
                        let words =
                            immutable.as_ref().map(|change| format!(": {}", change.words()));
                        let words = words.unwrap_or_default();
                        details.line('~', TextStyle::Warning, object, &words);
                        fields.write_text(details.out, FIELD_INDENT, style);
                    }
                }
            }
            if let Some(names) = &diff.depends_on {
                let sign = style.styled(TextStyle::Warning, '~');
                let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
                out.push_str(&format!("    {sign} depends on {names}\n"));
            }
            for (what, fields) in [("settings", &diff.spec), ("metadata", &diff.metadata)] {
                if !fields.is_empty() {
                    out.push_str(&format!(
                        "    {} {what} of the ManifestWork\n",
                        style.styled(TextStyle::Warning, '~')
                    ));
                    fields.write_text(out, FIELD_INDENT, style);
                }
            }
        }
        WorkChange::Frozen => {}
    }
}

/// Before the fields of an object.
const FIELD_INDENT: &str = "        ";

/// The lines of a work's objects.
struct Details<'a> {
    out: &'a mut String,
    from: &'a WorkName,
    style: ColorMode,
}

impl Details<'_> {
    fn line(&mut self, sign: char, paint: TextStyle, object: &ObjectName, words: &str) {
        let words = escape_untrusted(&format!("{object}{words}"));
        self.out.push_str(&format!("    {} {words}\n", self.style.styled(paint, sign)));
    }

    fn added(&mut self, object: &ObjectName, moved: Option<&MovedFrom>) {
        let Some(moved) = moved else { return self.line('+', TextStyle::Good, object, "") };
        self.line('~', TextStyle::Warning, object, &origin_words(object, moved));
        moved.fields.write_text(self.out, FIELD_INDENT, self.style);
    }

    fn removed(&mut self, object: &ObjectName, outcome: &RemovalOutcome) {
        let (sign, paint) = match outcome {
            RemovalOutcome::MovedTo { .. } | RemovalOutcome::MayHaveMoved { .. } => {
                ('~', TextStyle::Warning)
            }
            RemovalOutcome::Deleted | RemovalOutcome::Stays => ('-', TextStyle::Bad),
        };
        self.line(sign, paint, object, &outcome_words(self.from, object, outcome));
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

/// Remarks on what clusters lose by the change, and on what its agents cannot apply. They contain
/// untrusted text.
pub(super) fn losses(review: &Review) -> Vec<String> {
    let mut lines = CascadingDeletion::lines(&review.cascading_deletions);
    lines.extend(immutable_lines(review));
    lines.extend(recreated(review));
    lines
}

/// One line for each object of a work with a field that cannot change. Those that agents cannot
/// apply come first.
fn immutable_lines(review: &Review) -> Vec<String> {
    let mut clusters: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for work in review.works() {
        for (object, change) in work.change.immutable_changes() {
            let key = (change.outcome, object, &work.key.work, &*change.field);
            clusters.entry(key).or_default().push(work.key.cluster.as_str());
        }
    }
    let line = |((outcome, object, work, field), clusters): (_, Vec<&str>)| {
        let object = ObjectName::to_string(object);
        let object = truncate_chars(&object, NAME_CHARS_MAX);
        let clusters = named(clusters.into_iter(), str::to_owned);
        let what = match outcome {
            ImmutableOutcome::Fails => format!("must be recreated on {clusters}"),
            ImmutableOutcome::Recreates => {
                format!("is deleted and created again by the agent of {clusters}")
            }
        };
        format!("{object} of {work} {what}: {field} cannot change.")
    };
    let left = clusters.len().saturating_sub(LINES_MAX);
    let rest =
        (left > 0).then(|| format!("{} that cannot change in place.", count(left, "more object")));
    clusters.into_iter().take(LINES_MAX).map(line).chain(rest).collect()
}

/// A remark on objects that leave one cluster for another.
fn recreated(review: &Review) -> Option<String> {
    let (mut number, mut from, mut to) = (0, BTreeSet::new(), BTreeSet::new());
    for work in review.works() {
        let WorkChange::Deleted { recreated_on, .. } = &work.change else { continue };
        if !recreated_on.is_empty() {
            let outcomes = work.change.removals().into_iter();
            number += outcomes.filter(|outcome| **outcome == RemovalOutcome::Deleted).count();
            from.insert(&work.key.cluster);
            to.extend(recreated_on);
        }
    }
    let clusters = |names: BTreeSet<&ClusterName>| {
        named(names.into_iter().map(ClusterName::as_str), str::to_owned)
    };
    let what = match number {
        0 => return None,
        1 => "1 object is".to_owned(),
        more => format!("{more} objects are"),
    };
    let (from, to) = (clusters(from), clusters(to));
    Some(format!(
        "{what} deleted on {from} and created on {to}: nothing moves from one cluster to another."
    ))
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
        (counts.works_moved, "moved to other works"),
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
    match counts.objects_moved {
        0 => {}
        1 => line.push_str("; 1 object moves"),
        more => line.push_str(&format!("; {more} objects move")),
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
