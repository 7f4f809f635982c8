//! Prints statuses for a terminal. Text of clusters is escaped.

use jiff::Timestamp;
use serde_json::Value;

use super::live::ViewTransition;
use super::tree::{ObjectStatus, WorkTree};
use super::view::Condition;
use super::{State, WorkStatus};
use gitwork_core::model::name::RepoPath;
use gitwork_core::render::layout::group_of;
use gitwork_core::text::escape::single_line;
use gitwork_core::text::style::{ColorMode, TextStyle};
use gitwork_core::text::table::{Cell, Table};
use gitwork_core::text::truncate::truncate_chars;

/// The layout of a view.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Also prints source, path and all conditions.
    pub wide: bool,
    /// Columns of the terminal; `None` without a terminal.
    pub width: Option<usize>,
    /// Whether to write ANSI colors.
    pub style: ColorMode,
    /// The present time, for the ages of states.
    pub now: Timestamp,
}

/// Characters of a message if there is no terminal and the output is not wide.
const MESSAGE_CHARS_MAX: usize = 80;

/// The style of a state.
pub(crate) fn paint(state: State, unreachable: bool) -> Option<TextStyle> {
    if state.is_failure() && !unreachable {
        Some(TextStyle::Bad)
    } else if unreachable || state.is_open() {
        Some(TextStyle::Warning)
    } else {
        (state != State::Suspended).then_some(TextStyle::Good)
    }
}

fn state_cell(work: &WorkStatus) -> Cell {
    let lost = if work.unreachable { " (unreachable)" } else { "" };
    Cell::styled(&format!("{}{lost}", work.state), paint(work.state, work.unreachable))
}

fn short_commit(work: &WorkStatus) -> String {
    work.commit.as_deref().unwrap_or("-").chars().take(8).collect()
}

/// A table for works, without objects.
pub fn work_table(wide: bool) -> Table {
    let mut header = vec!["CLUSTER", "WORK", "STATE", "MANIFESTS", "AGE", "COMMIT"];
    header.extend(wide.then_some(["SOURCE", "PATH", "REASON"]).into_iter().flatten());
    header.push("MESSAGE");
    Table::new(&header)
}

/// Adds one row for each work.
pub fn add_works<'a>(
    table: &mut Table,
    works: impl Iterator<Item = &'a WorkStatus>,
    layout: &Layout,
) {
    for work in works {
        let mut row = vec![
            Cell::new(&work.cluster),
            Cell::new(&work.work),
            state_cell(work),
            Cell::new(&format!("{}/{}", work.manifests_applied, work.manifests)),
            Cell::new(&age(work.since.as_deref(), layout.now)),
            Cell::new(&short_commit(work)),
        ];
        if layout.wide {
            let more = [&work.source, &work.path, &work.reason];
            row.extend(more.map(|text| Cell::new(text.as_deref().unwrap_or("-"))));
        }
        row.push(Cell::new(&message(work.message.as_deref(), layout)));
        table.add(row);
    }
}

fn message(text: Option<&str>, layout: &Layout) -> String {
    let text = text.unwrap_or_default();
    if layout.wide || layout.width.is_some() {
        return text.to_owned();
    }
    truncate_chars(text, MESSAGE_CHARS_MAX).into_owned()
}

/// A table for works with their objects.
pub fn tree_table() -> Table {
    Table::new(&["WORK", "STATE", "AGE", "DETAILS"])
}

/// Adds works, with their objects below them.
pub fn add_trees<'a>(
    table: &mut Table,
    works: impl Iterator<Item = &'a WorkTree>,
    layout: &Layout,
) {
    for tree in works {
        let work = &tree.work;
        let mut details = vec![format!("{}/{}", work.manifests_applied, work.manifests)];
        details.extend(work.commit.as_ref().map(|_| format!("commit {}", short_commit(work))));
        let folder = work.path.as_deref().and_then(RepoPath::parse);
        let group = folder.as_ref().and_then(group_of);
        details.extend(group.map(|group| format!("group {group}")));
        if layout.wide {
            details.extend(work.source.iter().map(|source| format!("source {source}")));
            details.extend(work.path.iter().cloned());
        }
        // The conditions below already show the agent's message.
        details.extend(work.message.iter().filter(|_| work.reported).cloned());
        table.add(vec![
            Cell::styled(&format!("{}/{}", work.cluster, work.work), Some(TextStyle::Strong)),
            state_cell(work),
            Cell::new(&age(work.since.as_deref(), layout.now)),
            Cell::new(&details.join(", ")),
        ]);
        let trunk = if tree.objects.is_empty() { "   " } else { "│  " };
        add_conditions(table, &tree.conditions, trunk, layout);
        for (index, object) in tree.objects.iter().enumerate() {
            add_object(table, object, index + 1 == tree.objects.len(), layout);
        }
    }
}

fn add_object(table: &mut Table, object: &ObjectStatus, is_last: bool, layout: &Layout) {
    let (branch, trunk) = if is_last { ("└─ ", "      ") } else { ("├─ ", "│     ") };
    let values = object.feedback.iter().map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    });
    table.add(vec![
        Cell::new(&format!("{branch}{object}")),
        Cell::styled(object.state.as_str(), paint(object.state, false)),
        Cell::new(&age(object.since.as_deref(), layout.now)),
        Cell::new(&values.collect::<Vec<_>>().join(" ")),
    ]);
    add_conditions(table, &object.conditions, trunk, layout);
}

/// Adds unhealthy conditions; in a wide tree, all conditions.
fn add_conditions(table: &mut Table, conditions: &[Condition], trunk: &str, layout: &Layout) {
    for one in conditions.iter().filter(|one| layout.wide || one.is_bad()) {
        let old = if one.outdated { " (of an older generation)" } else { "" };
        let colon = if one.reason.is_empty() || one.message.is_empty() { "" } else { ": " };
        table.add(vec![
            Cell::styled(&format!("{trunk}{}={}{old}", one.kind, one.status), Some(TextStyle::Dim)),
            Cell::new(""),
            Cell::new(&age(Some(&one.since), layout.now)),
            Cell::new(&format!("{}{colon}{}", one.reason, one.message)),
        ]);
    }
}

/// One line for one transition, as in `2026-01-02T03:04:05Z edge-1/web pending -> applied (3/3,
/// commit 0123abcd)`.
pub fn transition(transition: &ViewTransition, at: Timestamp, style: ColorMode) -> String {
    let at = at.strftime("%Y-%m-%dT%H:%M:%SZ");
    let object = transition.object.as_ref().map_or_else(String::new, |object| format!(" {object}"));
    let name = single_line(&format!("{}/{}{object}", transition.cluster, transition.work));
    let before = transition.before.map_or_else(String::new, |before| format!("{before} -> "));
    let lost = if transition.unreachable { " (unreachable)" } else { "" };
    let state = match transition.state {
        Some(state) => {
            let text = format!("{state}{lost}");
            paint(state, transition.unreachable)
                .map_or(text.clone(), |hue| style.styled(hue, &text))
        }
        None => style.styled(TextStyle::Dim, "gone"),
    };
    let details = single_line(&transition.details.join(", "));
    let details = if details.is_empty() { details } else { format!(" ({details})") };
    let message = transition.message.as_deref().unwrap_or_default();
    let colon = if message.is_empty() { "" } else { ": " };
    format!("{at} {name} {before}{state}{details}{colon}{}", single_line(message))
}

/// The age as kubectl prints it: `5s`, `12m`, `3h`, `4d`.
pub fn age(since: Option<&str>, now: Timestamp) -> String {
    let Some(since) = since.and_then(|since| since.parse::<Timestamp>().ok()) else {
        return "-".into();
    };
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use gitwork_core::model::diagnostic::Scope;
    use gitwork_yaml::is_dangerous;

    use crate::status::live::{LiveWorks, ViewEvent};
    use gitwork_core::text::escape::escape_untrusted_json;
    use gitwork_core::text::yaml;

    fn now() -> Timestamp {
        "2026-01-03T00:00:00Z".parse().unwrap()
    }

    fn layout(wide: bool, width: Option<usize>) -> Layout {
        Layout { wide, width, style: ColorMode::Plain, now: now() }
    }

    fn works<'a>(works: impl Iterator<Item = &'a WorkStatus>, layout: &Layout) -> Vec<String> {
        let mut table = work_table(layout.wide);
        add_works(&mut table, works, layout);
        table.lines(layout.width, layout.style)
    }

    fn trees<'a>(works: impl Iterator<Item = &'a WorkTree>, layout: &Layout) -> Vec<String> {
        let mut table = tree_table();
        add_trees(&mut table, works, layout);
        table.lines(layout.width, layout.style)
    }

    #[test]
    fn ages_read_like_kubectls() {
        for (since, expected) in [
            ("2026-01-02T23:59:55Z", "5s"),
            ("2026-01-02T23:48:00Z", "12m"),
            ("2026-01-02T21:00:00Z", "3h"),
            ("2025-12-30T00:00:00Z", "4d"),
            ("2026-01-04T00:00:00Z", "0s"),
            ("yesterday", "-"),
        ] {
            assert_eq!(age(Some(since), now()), expected);
        }
    }

    fn work(text: &str) -> Value {
        let condition = |kind: &str, status: &str| {
            json!({ "type": kind, "status": status, "reason": text, "message": text,
                    "observedGeneration": 2, "lastTransitionTime": "2026-01-02T23:48:00Z" })
        };
        json!({
            "metadata": {
                "namespace": "edge-1", "name": "web", "generation": 2,
                "labels": { "gitwork.dev/source": text },
                "annotations": { "gitwork.dev/commit": text, "gitwork.dev/path": text },
            },
            "spec": { "workload": { "manifests": [
                { "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } },
                { "apiVersion": "apps/v1", "kind": "Deployment",
                  "metadata": { "namespace": "shop", "name": text } },
                { "apiVersion": "v1", "kind": "Secret",
                  "metadata": { "namespace": "shop", "name": "key" } },
            ] } },
            "status": {
                "conditions": [condition("Applied", "False"), condition(text, text)],
                "resourceStatus": { "manifests": [
                    { "resourceMeta": { "ordinal": 0, "kind": "Namespace", "name": "shop" },
                      "conditions": [
                          condition("Applied", "True"), condition("Available", "True"),
                      ] },
                    { "resourceMeta": {
                          "ordinal": 1, "kind": "Deployment", "namespace": "shop", "name": text,
                      },
                      "conditions": [condition("Applied", "False"), condition(text, text)],
                      "statusFeedback": { "values": [
                          { "name": "Ready", "fieldValue": { "type": "Integer", "integer": 2 } },
                          { "name": text, "fieldValue": { "type": "String", "string": text } },
                      ] } },
                    { "resourceMeta": {
                          "ordinal": 2, "kind": "Secret", "namespace": "shop", "name": "key",
                      },
                      "conditions": [{ "type": "Applied", "status": "False", "message": "CANARY" }],
                      "statusFeedback": { "values": [
                          { "name": "v", "fieldValue": { "string": "CANARY" } },
                      ] } },
                ] },
            },
        })
    }

    #[test]
    fn tree_shows_objects_feedback_and_unhealthy_conditions() {
        let tree = WorkTree::of(&work("web"), |_| false);
        let shown = trees([&tree].into_iter(), &layout(false, None)).join("\n");
        let expected = "\
WORK                     STATE       AGE   DETAILS
edge-1/web               failed      12m   1/3, commit web
│  Applied=False                     12m   web: web
│  web=web                           12m   web: web
├─ Namespace shop        available   12m
├─ Deployment shop/web   failed      12m   Ready=2 web=web
│     Applied=False                  12m   web: web
│     web=web                        12m   web: web
└─ Secret shop/key       failed      -
      Applied=False                  -     what was said of this Secret is not shown, \
                        as it may quote its data";
        assert_eq!(shown, expected);
        let mut of_group = tree.clone();
        of_group.work.path = Some("groups/stores/web".into());
        let shown = trees([&of_group].into_iter(), &layout(false, None)).join("\n");
        assert!(shown.contains("1/3, commit web, group stores"), "{shown}");
        let wide = trees([&tree].into_iter(), &layout(true, None)).join("\n");
        assert!(wide.contains("│     Available=True") && wide.contains("source web"), "{wide}");
    }

    /// Every output of one work whose cluster-provided texts are all `text`.
    fn every_output(text: &str) -> BTreeMap<&'static str, String> {
        let tree = WorkTree::of(&work(text), |_| false);
        let statuses = || [&tree.work].into_iter();
        let narrow = layout(false, Some(80));
        let value = json!({ "works": [tree] });
        let mut live = LiveWorks::new(true);
        let lines = live.apply(ViewEvent::Updated(Box::new(tree.clone())));
        let line = |one: &ViewTransition| transition(one, now(), ColorMode::Plain);
        BTreeMap::from([
            ("status", works(statuses(), &layout(false, None)).join("\n")),
            ("status on a terminal", works(statuses(), &narrow).join("\n")),
            ("status, wide", works(statuses(), &layout(true, None)).join("\n")),
            ("tree", trees([&tree].into_iter(), &layout(false, None)).join("\n")),
            ("tree on a terminal", trees([&tree].into_iter(), &narrow).join("\n")),
            ("tree, wide", trees([&tree].into_iter(), &layout(true, None)).join("\n")),
            ("watch", lines.iter().map(line).collect::<Vec<_>>().join("\n")),
            ("watch as JSON", escape_untrusted_json(&json!(lines).to_string())),
            ("JSON", escape_untrusted_json(&format!("{value:#}"))),
            ("YAML", yaml::write(&value)),
        ])
    }

    #[test]
    fn hostile_texts_are_text_in_every_output() {
        let long = "x".repeat(100_000);
        let cases = [
            "\u{1b}[2J\u{1b}]0;owned\u{7}",
            "\u{9b}31m\u{85}\u{7f}\u{0}",
            "\u{202e}txt.exe\u{2066}\u{200f}\u{feff}\u{2028}",
            "line\nedge-9/web   available\r\n\tforged",
            "| [x](javascript:alert(1)) **b** <script>alert(1)</script> &amp;",
            "- a: {b: [c]} # \"'\\ %{}",
            long.as_str(),
        ];
        for text in cases {
            let outputs = every_output(text);
            for (name, shown) in &outputs {
                let command = shown.chars().find(|c| *c != '\n' && is_dangerous(*c));
                assert_eq!(command, None, "{name} of {text:?}: {shown:?}");
                assert!(!shown.contains("CANARY"), "{name}: {shown}");
                assert!(shown.len() < 60_000, "{name}: {} bytes", shown.len());
                assert!(!shown.lines().any(|line| line.starts_with("edge-9")), "{name}: {shown}");
            }
            // Programs read the unescaped text, possibly shortened.
            let read: Value = serde_json::from_str(&outputs["JSON"]).unwrap();
            let name = read["works"][0]["objects"][1]["name"].as_str().unwrap();
            assert!(text.starts_with(name.trim_end_matches('…')) && !name.is_empty(), "{name:?}");
            let file = RepoPath::root().join("x.yaml");
            let again = yaml::read(&file, outputs["YAML"].as_bytes(), &Scope::Source).documents;
            assert_eq!(again[0].value, read, "{text:?}");
        }
    }
}
