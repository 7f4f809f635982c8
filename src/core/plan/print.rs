//! A plan for people: what is done to which work, and why. Equal steps of a group's work are one
//! row.

use std::collections::{BTreeMap, HashMap};

use crate::limits;
use crate::model::name::{ClusterName, RepoPath, WorkKey, WorkName};
use crate::plan::action::Action;
use crate::plan::cascading_deletion::CascadingDeletion;
use crate::plan::folder_removal::is_of_group;
use crate::plan::foreign_objects::ForeignObject;
use crate::plan::member_changes::{MemberChange, some_names};
use crate::plan::reason::Reason;
use crate::plan::step::{Plan, PlanStep};
use crate::signature::verification::VerificationFailure;
use crate::text::escape::escape_untrusted;
use crate::text::style::{ColorMode, TextStyle, count};

/// Rows printed; a plan may have hundreds of thousands of steps.
const ROWS_MAX: usize = 1_000;
/// Objects of other owners that are printed.
const FOREIGN_OBJECTS_MAX: usize = 50;
/// Room for the remark on omitted rows, in bytes.
const REMARK_CHARS: usize = 100;

fn printed(plan: &Plan) -> impl Iterator<Item = &PlanStep> {
    plan.steps.iter().filter(|step| step.action() != Action::Keep)
}

/// Equal steps: of one work folder of a group, on several clusters.
struct Row<'a> {
    first: &'a PlanStep,
    /// At least that of the first step.
    clusters: Vec<&'a ClusterName>,
    reason: String,
}

impl Row<'_> {
    /// `edge-1/web`, or `web on 3 clusters`.
    fn name(&self) -> String {
        match self.clusters.len() {
            1 => self.first.key.to_string(),
            more => format!("{} on {more} clusters", self.first.key.work),
        }
    }

    /// The clusters, if there are several.
    fn names(&self) -> Option<String> {
        (self.clusters.len() > 1).then(|| some_names(self.clusters.iter().copied()))
    }
}

/// What makes steps equal.
type RowKey<'a> = (&'a RepoPath, &'a WorkName, Action, String);

/// The rows of a plan, in the order of their first steps. `is_single`: works with a row of their
/// own.
fn rows<'a>(plan: &'a Plan, is_single: impl Fn(&WorkKey) -> bool) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    let mut places: HashMap<RowKey<'a>, usize> = HashMap::new();
    for step in printed(plan) {
        let (cluster, reason) = (&step.key.cluster, step.reason.to_string());
        let row = |reason| Row { first: step, clusters: vec![cluster], reason };
        let folder = step.path.as_ref().filter(|path| is_of_group(path) && !is_single(&step.key));
        let Some(folder) = folder else {
            rows.push(row(reason));
            continue;
        };
        // Works of the same cluster are the same thing on each.
        let common = reason.replace(&format!(" {cluster}/"), " ");
        let key = (folder, &step.key.work, step.action(), common.clone());
        let place = *places.entry(key).or_insert(rows.len());
        match rows.get_mut(place) {
            Some(row) => {
                row.clusters.push(cluster);
                row.reason = common;
            }
            None => rows.push(row(reason)),
        }
    }
    rows
}

fn rest(rows: &[Row<'_>]) -> Option<String> {
    let left: usize = rows.iter().skip(ROWS_MAX).map(|row| row.clusters.len()).sum();
    (left > 0).then(|| format!("... and {left} more"))
}

/// How to approve held changes; one line for each hash.
fn held(plan: &Plan) -> Vec<String> {
    let mut hashes = BTreeMap::new();
    for step in plan.steps.of_held_clusters() {
        let (what, hash) = match &step.reason {
            Reason::HeldByBudget { hash, .. } => ("deletions are held", hash),
            Reason::HeldByRewind { hash, .. } => ("works are held by a rewind", hash),
            Reason::HeldByRestore { hash, .. } => {
                ("works are held since the hub was restored", hash)
            }
            Reason::HeldByOrigin { hash, .. } => {
                ("works are held, because the source belongs to another repository", hash)
            }
            Reason::HeldByWindow { hash, .. } => ("changes wait for a window", hash),
            _ => continue,
        };
        hashes.entry((*hash, what)).and_modify(|works| *works += 1).or_insert(1_usize);
    }
    let line = |((hash, what), works)| {
        format!("{works} {what}; approve only these: gitwork approve {hash}")
    };
    hashes.into_iter().map(line).collect()
}

fn head(plan: &Plan) -> String {
    let at = plan.commit.map_or_else(String::new, |commit| format!(" at {}", commit.short()));
    format!("{}{at}", plan.counts())
}

/// Additions to a printed plan.
#[derive(Debug, Default)]
pub struct Remarks<'a> {
    /// Why the plan is not for the newest commit.
    pub verification_failure: Option<&'a VerificationFailure>,
    /// The changes of adoptions, for people.
    pub adoptions: BTreeMap<WorkKey, String>,
    /// Objects that Git newly has, and that works of other owners have on the hub.
    pub foreign_objects: Vec<ForeignObject>,
    /// Deleted Namespaces and CustomResourceDefinitions, with the objects that go with them.
    pub cascading_deletions: Vec<CascadingDeletion>,
    /// Clusters that join or leave groups.
    pub member_changes: Vec<MemberChange>,
}

impl Remarks<'_> {
    /// What somebody should know before the plan is executed. It contains untrusted text.
    fn warnings(&self) -> Vec<String> {
        let mut lines = CascadingDeletion::lines(&self.cascading_deletions);
        lines.extend(self.foreign_lines());
        lines
    }

    /// One line for each object of another owner; names of sources are untrusted.
    fn foreign_lines(&self) -> Vec<String> {
        let all = &self.foreign_objects;
        let first = all.iter().take(FOREIGN_OBJECTS_MAX).map(ToString::to_string);
        let left = all.len().saturating_sub(FOREIGN_OBJECTS_MAX);
        let rest =
            (left > 0).then(|| format!("and {left} more objects that works of other owners have"));
        first.chain(rest).collect()
    }
}

/// Lines of text further to the right. Untrusted text in it is escaped already.
fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

/// The remark on a newer commit that is not planned.
fn failure_text(failure: &VerificationFailure) -> String {
    format!("{failure}; what is planned is the last verified commit")
}

/// One line for each step, the changes of adoptions, and the counts.
pub fn text(plan: &Plan, remarks: &Remarks<'_>, style: ColorMode) -> String {
    let mut out = String::new();
    let rows = rows(plan, |key| remarks.adoptions.contains_key(key));
    for row in rows.iter().take(ROWS_MAX) {
        let step = row.first;
        let action = step.action();
        let (sign, paint) = match action {
            Action::Create | Action::Adopt => ("+", TextStyle::Good),
            Action::Update | Action::SetDeleteOption => ("~", TextStyle::Warning),
            Action::Delete => ("-", TextStyle::Bad),
            Action::Release | Action::Wait | Action::Hold | Action::Keep => ("!", TextStyle::Note),
        };
        let what = style.styled(paint, format!("{sign} {action:<17}"));
        let name = style.styled(TextStyle::Strong, row.name());
        let path = step.path.as_ref().map_or_else(String::new, |path| format!(" ({path})"));
        out.push_str(&format!("{what} {name}  {}{}\n", row.reason, escape_untrusted(&path)));
        out.extend(row.names().map(|names| indented(&names)));
        out.extend(remarks.adoptions.get(&step.key).map(|changes| indented(changes)));
    }
    out.extend(rest(&rows).map(|rest| rest + "\n"));
    out.extend(remarks.member_changes.iter().map(|change| format!("{change}\n")));
    out.extend(held(plan).into_iter().map(|held| style.styled(TextStyle::Note, held) + "\n"));
    for line in remarks.warnings() {
        out.push_str(&(style.styled(TextStyle::Warning, escape_untrusted(&line)) + "\n"));
    }
    let failure =
        remarks.verification_failure.map(|failure| escape_untrusted(&failure_text(failure)));
    out.extend(failure.map(|why| style.styled(TextStyle::Bad, why) + "\n"));
    out.push_str(&style.styled(TextStyle::Strong, head(plan)));
    out.push('\n');
    out
}

/// A table, as a comment on a pull request shows it, of at most `limits::COMMENT_CHARS_MAX` bytes;
/// rows that do not fit are counted. Names are Kubernetes names; text from elsewhere is escaped.
pub fn markdown(plan: &Plan, remarks: &Remarks<'_>) -> String {
    let mut out = format!("**gitwork plan**: {}\n", head(plan));
    out.extend(
        remarks.verification_failure.map(|failure| format!("\n{}\n", cell(&failure_text(failure)))),
    );
    out.extend(held(plan).into_iter().map(|held| format!("\n{held}\n")));
    out.extend(remarks.member_changes.iter().map(|change| format!("\n{change}\n")));
    out.extend(remarks.warnings().iter().map(|line| format!("\n{}\n", cell(line))));
    if printed(plan).next().is_none() {
        return out;
    }
    out.push_str("\n| work | action | reason |\n|---|---|---|\n");
    let mut left_out = 0;
    for row in rows(plan, |key| remarks.adoptions.contains_key(key)) {
        let (step, reason) = (row.first, cell(&row.reason));
        let names = row.names().map_or_else(String::new, |names| format!(": {names}"));
        let row = format!("| {}{names} | {} | {reason} |\n", row.name(), step.action());
        if left_out > 0 || out.len() + row.len() + REMARK_CHARS > limits::COMMENT_CHARS_MAX {
            left_out += 1;
        } else {
            out.push_str(&row);
        }
    }
    if left_out > 0 {
        let rows = count(left_out, "row");
        out.push_str(&format!("\n{rows} left out: this comment would be too long.\n"));
    }
    for (key, changes) in &remarks.adoptions {
        // Four spaces make it code, which nothing in it can end.
        let block = format!("\nchanges of the adoption of {key}:\n\n{}", indented(changes));
        if out.len() + block.len() <= limits::COMMENT_CHARS_MAX {
            out.push_str(&block);
        }
    }
    out
}

/// Text that stays text in a table's cell.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in escape_untrusted(text).chars() {
        match c {
            '|' | '\\' | '*' | '_' | '[' | ']' | '#' | '~' | '@' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AdoptionPolicy;
    use crate::model::manifest::Identity;
    use crate::model::name::{GroupName, SourceId};
    use crate::model::object_digest::ObjectDigest;
    use crate::plan::moves::{MoveProgress, ObjectMove};
    use crate::plan::name_holder::NameHolder;

    fn plan(reasons: Vec<Reason>) -> Plan {
        let step = |(index, reason)| PlanStep {
            key: WorkKey {
                cluster: ClusterName::parse("edge-1").unwrap(),
                work: WorkName::parse(&format!("web-{index}")).unwrap(),
            },
            path: RepoPath::parse(&format!("clusters/edge-1/web-{index}")),
            effect: None,
            reason,
        };
        Plan { commit: None, steps: reasons.into_iter().enumerate().map(step).collect() }
    }

    #[test]
    fn a_line_has_work_action_reason_and_folder() {
        let plan = plan(vec![Reason::UpToDate, Reason::Suspended]);
        assert_eq!(
            text(&plan, &Remarks::default(), ColorMode::Plain),
            "! hold              edge-1/web-1  suspended in Git (clusters/edge-1/web-1)\n\
             1 hold, 1 keep\n"
        );
    }

    fn one_move(number: usize, progress: MoveProgress) -> ObjectMove {
        let name = format!("data-{number}");
        let work = |name: &str| WorkKey {
            cluster: ClusterName::parse("edge-1").unwrap(),
            work: WorkName::parse(name).unwrap(),
        };
        ObjectMove {
            digest: ObjectDigest::new("", "ConfigMap", "shop", &name),
            object: Identity {
                group: String::new(),
                resource: "configmaps".into(),
                namespace: "shop".into(),
                name,
            },
            from: work("shop"),
            to: work("shop2"),
            progress,
        }
    }

    fn applying(failure: Option<&str>) -> MoveProgress {
        MoveProgress::Applying { failure: failure.map(str::to_owned) }
    }

    #[test]
    fn moves_are_named_and_wait_or_are_held() {
        let reason = |moves: Vec<ObjectMove>| Reason::MovesObjects { moves: moves.into() };
        let waits = reason((0..5).map(|number| one_move(number, applying(None))).collect());
        let held = reason(vec![one_move(0, applying(Some("field | is immutable")))]);
        let plan = plan(vec![waits, held]);
        assert_eq!(
            text(&plan, &Remarks::default(), ColorMode::Plain),
            "! wait              edge-1/web-0  configmaps/data-0 in namespace shop moves from shop \
             to shop2; shop keeps it until shop2 has applied it; configmaps/data-1 in namespace \
             shop moves from shop to shop2; shop keeps it until shop2 has applied it; \
             configmaps/data-2 in namespace shop moves from shop to shop2; shop keeps it until \
             shop2 has applied it; and 2 more (clusters/edge-1/web-0)\n\
             ! hold              edge-1/web-1  held: configmaps/data-0 in namespace shop moves \
             from shop to shop2, which has not applied it: field | is immutable; shop keeps it \
             (clusters/edge-1/web-1)\n\
             1 wait, 1 hold\n"
        );
        let comment = markdown(&plan, &Remarks::default());
        assert!(comment.contains(r"| edge-1/web-1 | hold | held: configmaps/data-0"), "{comment}");
        assert!(comment.contains(r"field \| is immutable; shop keeps it |"), "{comment}");
        let summary = plan.summary(&SourceId::parse("fleet").unwrap());
        let summary = serde_json::json!(summary);
        assert_eq!(summary["counts"]["wait"], 1);
        assert_eq!(summary["steps"][1]["reason"], "MovesObjects");
        assert_eq!(summary["steps"][1]["action"], "hold");
        assert!(summary["steps"][0]["message"].as_str().unwrap().ends_with("; and 2 more"));
    }

    #[test]
    fn objects_of_other_owners_follow_the_steps() {
        let object = |number: usize| {
            let ObjectMove { object, from, to: key, .. } = one_move(number, applying(None));
            ForeignObject { key, object, other_work: from.work, other_source: Some("<web>".into()) }
        };
        let foreign_objects = (0..FOREIGN_OBJECTS_MAX + 2).map(object).collect();
        let remarks = Remarks { foreign_objects, ..Remarks::default() };
        let all = text(&plan(vec![]), &remarks, ColorMode::Plain);
        assert!(
            all.starts_with("edge-1/shop2: configmaps/data-0 in namespace shop is in"),
            "{all}"
        );
        assert!(all.contains("\nand 2 more objects that works of other owners have\n"), "{all}");
        let comment = markdown(&plan(vec![]), &remarks);
        assert!(comment.contains("of the source &lt;web>: commit `orphan: true`"), "{comment}");
    }

    #[test]
    fn markdown_escapes_untrusted_text() {
        let owner = Some("<img src=x>|[a](b)".into());
        let conflict = Reason::Conflict {
            owner,
            holder: NameHolder::Work { adoption: AdoptionPolicy::default() },
        };
        let comment = markdown(&plan(vec![conflict]), &Remarks::default());
        assert!(comment.contains(r"&lt;img src=x>\|\[a\](b)"), "{comment}");
        assert!(!comment.contains("<img"), "{comment}");
    }

    #[test]
    fn the_changes_of_an_adoption_follow_its_work() {
        let conflict = Reason::Conflict {
            owner: None,
            holder: NameHolder::Work { adoption: AdoptionPolicy::default() },
        };
        let plan = plan(vec![conflict]);
        let key = plan.steps.first().unwrap().key.clone();
        let remarks = |changes: &str| Remarks {
            adoptions: [(key.clone(), changes.to_owned())].into(),
            ..Remarks::default()
        };
        let changes = remarks("settings\n    ~ a\n```\n# b\n");
        assert!(
            text(&plan, &changes, ColorMode::Plain)
                .contains(")\n    settings\n        ~ a\n    ```\n")
        );
        let comment = markdown(&plan, &changes);
        assert!(
            comment.ends_with("web-0:\n\n    settings\n        ~ a\n    ```\n    # b\n"),
            "{comment}"
        );
        let large = remarks(&"x".repeat(limits::COMMENT_CHARS_MAX));
        assert!(markdown(&plan, &large).len() < 2_000);
    }

    #[test]
    fn equal_steps_of_a_groups_work_are_one_row() {
        let step = |cluster: &str, folder: &str, reason| PlanStep {
            key: WorkKey {
                cluster: ClusterName::parse(cluster).unwrap(),
                work: WorkName::parse("web").unwrap(),
            },
            path: RepoPath::parse(folder),
            effect: None,
            reason,
        };
        let of_group = |cluster: &str, reason| step(cluster, "groups/stores/web", reason);
        let mut steps: Vec<PlanStep> =
            (1..8).map(|number| of_group(&format!("edge-{number}"), Reason::Suspended)).collect();
        steps.push(of_group("edge-8", Reason::Frozen));
        steps.push(step("edge-9", "clusters/edge-9/web", Reason::Suspended));
        let plan = Plan { commit: None, steps: steps.into_iter().collect() };
        let group = GroupName::parse("stores").unwrap();
        let joins = vec![ClusterName::parse("edge-8").unwrap()];
        let member_changes = vec![MemberChange { group, joins, leaves: Vec::new() }];
        let remarks = Remarks { member_changes, ..Remarks::default() };
        assert_eq!(
            text(&plan, &remarks, ColorMode::Plain),
            "! hold              web on 7 clusters  suspended in Git (groups/stores/web)\n    \
             edge-1, edge-2, edge-3, edge-4, edge-5 and 2 more\n\
             ! hold              edge-8/web  kept as it is: its files in Git could not be read \
             (groups/stores/web)\n\
             ! hold              edge-9/web  suspended in Git (clusters/edge-9/web)\n\
             group stores: 1 cluster joins: edge-8\n\
             9 hold\n"
        );
        let comment = markdown(&plan, &remarks);
        assert!(comment.contains("\ngroup stores: 1 cluster joins: edge-8\n"), "{comment}");
        let names = "edge-1, edge-2, edge-3, edge-4, edge-5 and 2 more";
        let row = format!("| web on 7 clusters: {names} | hold | suspended in Git |\n");
        assert!(comment.contains(&row), "{comment}");
    }

    #[test]
    fn long_plans_end_with_the_number_of_omitted_steps() {
        let plan = plan(vec![Reason::Suspended; 5_000]);
        assert!(text(&plan, &Remarks::default(), ColorMode::Plain).contains("... and 4000 more\n"));
        let comment = markdown(&plan, &Remarks::default());
        let rows = comment.lines().filter(|line| line.starts_with("| edge-1/")).count();
        assert!(comment.len() <= limits::COMMENT_CHARS_MAX, "{}", comment.len());
        let remark = format!("\n{} rows left out: this comment would be too long.\n", 5_000 - rows);
        assert!(comment.ends_with(&remark), "{}", &comment[comment.len() - 200..]);
    }
}
