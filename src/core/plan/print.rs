//! A plan for people: what is done to which work, and why.

use std::collections::BTreeMap;

use super::{Action, Plan, Reason, Step};
use crate::core::name::WorkKey;
use crate::core::report::{Paint, Style, count, harmless};
use crate::core::signature::judge::Refusal;
use crate::limits;

/// Steps printed; a plan may have hundreds of thousands.
const STEPS_MAX: usize = 1_000;
/// Room for the remark on what is left out, in bytes.
const REMARK_CHARS: usize = 100;

fn told(plan: &Plan) -> impl Iterator<Item = &Step> {
    plan.steps.iter().filter(|step| step.action() != Action::Keep)
}

fn rest(plan: &Plan) -> Option<String> {
    let left = told(plan).count().saturating_sub(STEPS_MAX);
    (left > 0).then(|| format!("... and {left} more"))
}

/// What to do about what is held; one line for each hash.
fn held(plan: &Plan) -> Vec<String> {
    let mut hashes = BTreeMap::new();
    for step in &plan.steps {
        let (what, hash) = match &step.reason {
            Reason::HeldByBudget { hash, .. } => ("deletions are held", hash),
            Reason::HeldByRewind { hash, .. } => ("works are held by a rewind", hash),
            Reason::HeldByRestore { hash, .. } => {
                ("works are held since the hub was restored", hash)
            }
            Reason::HeldByWindow { hash, .. } => ("changes wait for a window", hash),
            _ => continue,
        };
        hashes.entry((*hash, what)).and_modify(|works| *works += 1).or_insert(1_usize);
    }
    let line = |((hash, what), works)| {
        format!("{works} {what}; to let just these through: gitwork approve {hash}")
    };
    hashes.into_iter().map(line).collect()
}

fn head(plan: &Plan) -> String {
    let at = plan.commit.map_or_else(String::new, |commit| format!(" at {}", commit.short()));
    format!("{}{at}", plan.counts())
}

/// What is told with a plan.
#[derive(Debug, Default)]
pub struct Remarks<'a> {
    /// Why it is no plan for the newest commit.
    pub refused: Option<&'a Refusal>,
    /// What take-overs change, for people.
    pub take_overs: BTreeMap<WorkKey, String>,
}

/// Lines of text further to the right. What people may have named and written in it is harmless already.
fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

/// What is said of a newer commit that nothing is planned for.
fn refused_text(refusal: &Refusal) -> String {
    format!("{refusal}; what is planned is the last verified commit")
}

/// One line a step, and what a take-over changes; the counts last.
pub fn text(plan: &Plan, remarks: &Remarks<'_>, style: Style) -> String {
    let mut out = String::new();
    for step in told(plan).take(STEPS_MAX) {
        let action = step.action();
        let (sign, paint) = match action {
            Action::Create | Action::Adopt => ("+", Paint::Good),
            Action::Update | Action::SetDeleteOption => ("~", Paint::Warning),
            Action::Delete => ("-", Paint::Bad),
            Action::Release | Action::Wait | Action::Hold | Action::Keep => ("!", Paint::Note),
        };
        let what = style.paint(paint, format!("{sign} {action:<17}"));
        let key = style.paint(Paint::Strong, &step.key);
        let path = step.path.as_ref().map_or_else(String::new, |path| format!(" ({path})"));
        out.push_str(&format!("{what} {key}  {}{}\n", step.reason, harmless(&path)));
        out.extend(remarks.take_overs.get(&step.key).map(|changes| indented(changes)));
    }
    out.extend(rest(plan).map(|rest| rest + "\n"));
    out.extend(held(plan).into_iter().map(|held| style.paint(Paint::Note, held) + "\n"));
    let refused = remarks.refused.map(|refusal| harmless(&refused_text(refusal)));
    out.extend(refused.map(|why| style.paint(Paint::Bad, why) + "\n"));
    out.push_str(&style.paint(Paint::Strong, head(plan)));
    out.push('\n');
    out
}

/// A table, as a comment on a pull request shows it, of at most `limits::COMMENT_CHARS_MAX` bytes; rows that do
/// not fit are counted. Names are Kubernetes names; text from elsewhere is escaped.
pub fn markdown(plan: &Plan, remarks: &Remarks<'_>) -> String {
    let mut out = format!("**gitwork plan**: {}\n", head(plan));
    out.extend(remarks.refused.map(|refusal| format!("\n{}\n", cell(&refused_text(refusal)))));
    out.extend(held(plan).into_iter().map(|held| format!("\n{held}\n")));
    if told(plan).next().is_none() {
        return out;
    }
    out.push_str("\n| work | action | reason |\n|---|---|---|\n");
    let mut left_out = 0;
    for step in told(plan) {
        let reason = cell(&step.reason.to_string());
        let row = format!("| {} | {} | {reason} |\n", step.key, step.action());
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
    for (key, changes) in &remarks.take_overs {
        // Four spaces make it code, which nothing in it can end.
        let block = format!("\nwhat a take-over of {key} changes:\n\n{}", indented(changes));
        if out.len() + block.len() <= limits::COMMENT_CHARS_MAX {
            out.push_str(&block);
        }
    }
    out
}

/// Text that stays text in a table's cell.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in harmless(text).chars() {
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
    use crate::core::adoption::Adoption;
    use crate::core::name::{ClusterName, RepoPath, WorkKey, WorkName};
    use crate::core::plan::Reason;

    fn plan(reasons: Vec<Reason>) -> Plan {
        let step = |(index, reason)| Step {
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
    fn a_line_tells_work_action_reason_and_folder() {
        let plan = plan(vec![Reason::UpToDate, Reason::Suspended]);
        assert_eq!(
            text(&plan, &Remarks::default(), Style::Plain),
            "! hold              edge-1/web-1  suspended in Git (clusters/edge-1/web-1)\n1 hold, 1 keep\n"
        );
    }

    #[test]
    fn markdown_takes_nothing_from_the_outside_for_markup() {
        let owner = Some("<img src=x>|[a](b)".to_owned());
        let conflict = Reason::Conflict { owner, adoption: Adoption::default() };
        let told = markdown(&plan(vec![conflict]), &Remarks::default());
        assert!(told.contains(r"&lt;img src=x>\|\[a\](b)"), "{told}");
        assert!(!told.contains("<img"), "{told}");
    }

    #[test]
    fn what_a_take_over_changes_stands_below_its_work() {
        let conflict = Reason::Conflict { owner: None, adoption: Adoption::default() };
        let plan = plan(vec![conflict]);
        let key = plan.steps[0].key.clone();
        let remarks = |changes: &str| Remarks {
            take_overs: [(key.clone(), changes.to_owned())].into(),
            ..Remarks::default()
        };
        let changes = remarks("settings\n    ~ a\n```\n# b\n");
        assert!(
            text(&plan, &changes, Style::Plain).contains(")\n    settings\n        ~ a\n    ```\n")
        );
        let comment = markdown(&plan, &changes);
        assert!(
            comment.ends_with("web-0 changes:\n\n    settings\n        ~ a\n    ```\n    # b\n"),
            "{comment}"
        );
        let large = remarks(&"x".repeat(limits::COMMENT_CHARS_MAX));
        assert!(markdown(&plan, &large).len() < 2_000);
    }

    #[test]
    fn long_plans_end_with_what_is_left_out() {
        let plan = plan(vec![Reason::Suspended; 5_000]);
        assert!(text(&plan, &Remarks::default(), Style::Plain).contains("... and 4000 more\n"));
        let comment = markdown(&plan, &Remarks::default());
        let rows = comment.lines().filter(|line| line.starts_with("| edge-1/")).count();
        assert!(comment.len() <= limits::COMMENT_CHARS_MAX, "{}", comment.len());
        let remark = format!("\n{} rows left out: this comment would be too long.\n", 5_000 - rows);
        assert!(comment.ends_with(&remark), "{}", &comment[comment.len() - 200..]);
    }
}
