//! A plan against the hub, for a terminal and for Markdown. Its JSON is `core::plan::Summary`.

use std::collections::HashMap;

use super::print::{clusters_named, code, signed_row};
use crate::core::plan::{Action, Plan, StepSummary, Summary};
use crate::core::report::{Paint, Style, count, harmless};
use crate::limits;

/// Works of one name on several clusters, to which the same is done for the same reason.
fn groups(summary: &Summary) -> Vec<Vec<&StepSummary>> {
    let mut groups: Vec<Vec<&StepSummary>> = Vec::new();
    let mut places = HashMap::new();
    for step in &summary.steps {
        let place = *places
            .entry((&step.key.work, step.action.as_str(), &step.message))
            .or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(step),
            None => groups.push(vec![step]),
        }
    }
    groups
}

fn sign(action: Action) -> (char, Paint) {
    match action {
        Action::Create => ('+', Paint::Good),
        Action::Update | Action::Adopt | Action::SetDeleteOption => ('~', Paint::Warning),
        Action::Delete | Action::Release => ('-', Paint::Bad),
        Action::Wait | Action::Hold => ('!', Paint::Warning),
        Action::Keep => (' ', Paint::Dim),
    }
}

fn totals(plan: &Plan) -> String {
    let counts = plan.counts();
    match counts.writes() {
        0 => format!("nothing to write: {counts}"),
        writes => format!("{}: {counts}", count(writes, "write")),
    }
}

/// One line for each work that is not just kept, then the counts.
pub fn plan_text(plan: &Plan, style: Style) -> String {
    let mut out = String::new();
    for group in groups(&plan.summary()) {
        let Some(step) = group.first() else { continue };
        let (mark, paint) = sign(step.action);
        let (mark, action) = (style.paint(paint, mark), step.action);
        let key = style.paint(Paint::Strong, &step.key);
        out.push_str(&format!("{mark} {key}: {action}: {}", harmless(&step.message)));
        if let Some(path) = &step.path {
            let path = harmless(&path.to_string());
            out.push_str(&style.paint(Paint::Dim, format_args!(" ({path})")));
        }
        out.push('\n');
        if group.len() > 1 {
            let others = group.iter().skip(1).map(|step| step.key.cluster.as_str());
            let clusters = clusters_named(others, str::to_owned);
            out.push_str(&format!("    the same on {clusters}\n"));
        }
    }
    out.push_str(&format!("{}\n", style.paint(Paint::Strong, totals(plan))));
    out
}

/// As a comment in GitHub's Markdown, at most `limits::COMMENT_CHARS_MAX` bytes; rows that do not fit are counted.
pub fn plan_markdown(plan: &Plan) -> String {
    let mut out = format!("### gitwork plan\n\n**{}**\n", totals(plan));
    if let Some(commit) = plan.commit {
        out.push_str(&format!("\nagainst the hub, at {commit}\n"));
    }
    let summary = plan.summary();
    let groups = groups(&summary);
    if groups.is_empty() {
        return out;
    }
    out.push_str("\n| | work | clusters | action | reason |\n|---|---|---|---|---|\n");
    let mut left_out = 0;
    for group in &groups {
        let Some(step) = group.first() else { continue };
        let clusters = group.iter().map(|step| step.key.cluster.as_str());
        let cells = [
            code(step.key.work.as_str()),
            clusters_named(clusters, code),
            step.action.to_string(),
            code(&step.message),
        ];
        let row = signed_row(sign(step.action).0, &cells);
        if out.len() + row.len() + ROOM_FOR_REMARK > limits::COMMENT_CHARS_MAX {
            left_out += 1;
        } else {
            out.push_str(&row);
        }
    }
    if left_out > 0 {
        out.push_str(&format!(
            "\n{} are left out: this comment would be too long.\n",
            count(left_out, "row")
        ));
    }
    out
}

/// In bytes.
const ROOM_FOR_REMARK: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::name::{ClusterName, ObjectId, RepoPath, WorkKey, WorkName};
    use crate::core::plan::{Effect, Reason, Step};

    fn step(cluster: &str, work: &str, effect: Option<Effect>, reason: Reason) -> Step {
        let key = WorkKey {
            cluster: ClusterName::parse(cluster).unwrap(),
            work: WorkName::parse(work).unwrap(),
        };
        let path = RepoPath::parse(&format!("clusters/{key}"));
        Step { key, path, effect, reason }
    }

    fn delete() -> Option<Effect> {
        Some(Effect::Delete { uid: "u".into(), resource_version: "1".into() })
    }

    #[test]
    fn the_same_on_many_clusters_is_said_once() {
        let gone = Reason::RemovedFromGit { by: None };
        let owner = Some("x|<b>@y\u{1b}".to_owned());
        let plan = Plan {
            commit: Some(ObjectId([1; 20])),
            steps: vec![
                step("a", "keep", None, Reason::UpToDate),
                step("a", "old", delete(), gone.clone()),
                step("b", "old", delete(), gone),
                step("c", "web", None, Reason::Conflict { owner }),
            ],
        };
        let text = plan_text(&plan, Style::Plain);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "- a/old: delete: removed from Git (clusters/a/old)");
        assert_eq!(lines[1], "    the same on b");
        assert!(lines[2].starts_with("! c/web: hold: the name is taken"), "{text}");
        assert_eq!(lines[3], "2 writes: 2 delete, 1 hold, 1 keep");
        assert!(!text.contains('\u{1b}'));
        let comment = plan_markdown(&plan);
        assert!(
            comment.contains("| ➖ | <code>old</code> | <code>a</code>, <code>b</code> | delete |")
        );
        assert!(!comment.contains("<b>") && !comment.contains("@y") && !comment.contains('\u{1b}'));
        assert!(comment.contains("01010101"));
    }

    #[test]
    fn an_empty_plan_and_a_huge_one() {
        assert_eq!(plan_text(&Plan::default(), Style::Plain), "nothing to write: nothing\n");
        let steps = (0..5_000)
            .map(|n| step("a", &format!("w{n}"), delete(), Reason::RemovedFromGit { by: None }))
            .collect();
        let comment = plan_markdown(&Plan { commit: None, steps });
        assert!(comment.len() <= limits::COMMENT_CHARS_MAX);
        assert!(comment.contains("rows are left out"), "{}", &comment[comment.len() - 200..]);
    }
}
