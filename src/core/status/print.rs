//! Statuses for people at a terminal. What clusters say comes out as text, never as commands to the terminal.

use jiff::Timestamp;
use serde_json::Value;

use super::live::Transition;
use super::tree::{ObjectStatus, WorkTree};
use super::view::Condition;
use super::{State, WorkStatus};
use crate::core::report::{Paint, Style};
use crate::core::table::{Cell, Table, one_line};

/// How a view is laid out.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// With source, path and all conditions.
    pub wide: bool,
    /// Columns of the terminal; `None` where there is none.
    pub width: Option<usize>,
    pub style: Style,
    pub now: Timestamp,
}

/// Characters of a message in a table that goes to no terminal, unless it is a wide one.
const MESSAGE_CHARS_MAX: usize = 80;

/// The colour of a state.
pub fn paint(state: State, unreachable: bool) -> Option<Paint> {
    if state.is_failure() && !unreachable {
        Some(Paint::Bad)
    } else if unreachable || state.is_open() {
        Some(Paint::Warning)
    } else {
        (state != State::Suspended).then_some(Paint::Good)
    }
}

fn state_cell(work: &WorkStatus) -> Cell {
    let lost = if work.unreachable { " (unreachable)" } else { "" };
    Cell::painted(&format!("{}{lost}", work.state), paint(work.state, work.unreachable))
}

fn short_commit(work: &WorkStatus) -> String {
    work.commit.as_deref().unwrap_or("-").chars().take(8).collect()
}

/// One line for each work.
pub fn works<'a>(works: impl Iterator<Item = &'a WorkStatus>, layout: &Layout) -> Vec<String> {
    let mut header = vec!["CLUSTER", "WORK", "STATE", "MANIFESTS", "AGE", "COMMIT"];
    header.extend(layout.wide.then_some(["SOURCE", "PATH", "REASON"]).into_iter().flatten());
    header.push("MESSAGE");
    let mut table = Table::new(&header);
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
    table.lines(layout.width, layout.style)
}

fn message(text: Option<&str>, layout: &Layout) -> String {
    let text = text.unwrap_or_default();
    if layout.wide || layout.width.is_some() {
        return text.to_owned();
    }
    super::source::cut(text, MESSAGE_CHARS_MAX)
}

/// Works with their objects below them.
pub fn trees<'a>(works: impl Iterator<Item = &'a WorkTree>, layout: &Layout) -> Vec<String> {
    let mut table = Table::new(&["WORK", "STATE", "AGE", "DETAILS"]);
    for tree in works {
        let work = &tree.work;
        let mut details = vec![format!("{}/{}", work.manifests_applied, work.manifests)];
        details.extend(work.commit.as_ref().map(|_| format!("commit {}", short_commit(work))));
        if layout.wide {
            details.extend(work.source.iter().map(|source| format!("source {source}")));
            details.extend(work.path.iter().cloned());
        }
        // Of what the agent says, the conditions below tell.
        details.extend(work.message.iter().filter(|_| work.told).cloned());
        table.add(vec![
            Cell::painted(&format!("{}/{}", work.cluster, work.work), Some(Paint::Strong)),
            state_cell(work),
            Cell::new(&age(work.since.as_deref(), layout.now)),
            Cell::new(&details.join(", ")),
        ]);
        let trunk = if tree.objects.is_empty() { "   " } else { "│  " };
        add_conditions(&mut table, &tree.conditions, trunk, layout);
        for (index, object) in tree.objects.iter().enumerate() {
            add_object(&mut table, object, index + 1 == tree.objects.len(), layout);
        }
    }
    table.lines(layout.width, layout.style)
}

fn add_object(table: &mut Table, object: &ObjectStatus, is_last: bool, layout: &Layout) {
    let (branch, trunk) = if is_last { ("└─ ", "      ") } else { ("├─ ", "│     ") };
    let values = object.feedback.iter().map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    });
    table.add(vec![
        Cell::new(&format!("{branch}{object}")),
        Cell::painted(object.state.as_str(), paint(object.state, false)),
        Cell::new(&age(object.since.as_deref(), layout.now)),
        Cell::new(&values.collect::<Vec<_>>().join(" ")),
    ]);
    add_conditions(table, &object.conditions, trunk, layout);
}

/// Those that say that something is wrong; all of them in a wide tree.
fn add_conditions(table: &mut Table, conditions: &[Condition], trunk: &str, layout: &Layout) {
    for one in conditions.iter().filter(|one| layout.wide || one.is_bad()) {
        let old = if one.outdated { " (of an older generation)" } else { "" };
        let colon = if one.reason.is_empty() || one.message.is_empty() { "" } else { ": " };
        table.add(vec![
            Cell::painted(&format!("{trunk}{}={}{old}", one.kind, one.status), Some(Paint::Dim)),
            Cell::new(""),
            Cell::new(&age(Some(&one.since), layout.now)),
            Cell::new(&format!("{}{colon}{}", one.reason, one.message)),
        ]);
    }
}

/// One line for one transition, as in `2026-01-02T03:04:05Z edge-1/web pending -> applied (3/3, commit 0123abcd)`.
pub fn transition(transition: &Transition, at: Timestamp, style: Style) -> String {
    let at = at.strftime("%Y-%m-%dT%H:%M:%SZ");
    let object = transition.object.as_ref().map_or_else(String::new, |object| format!(" {object}"));
    let name = one_line(&format!("{}/{}{object}", transition.cluster, transition.work));
    let before = transition.before.map_or_else(String::new, |before| format!("{before} -> "));
    let lost = if transition.unreachable { " (unreachable)" } else { "" };
    let state = match transition.state {
        Some(state) => {
            let text = format!("{state}{lost}");
            paint(state, transition.unreachable).map_or(text.clone(), |hue| style.paint(hue, &text))
        }
        None => style.paint(Paint::Dim, "gone"),
    };
    let details = one_line(&transition.details.join(", "));
    let details = if details.is_empty() { details } else { format!(" ({details})") };
    let message = transition.message.as_deref().unwrap_or_default();
    let colon = if message.is_empty() { "" } else { ": " };
    format!("{at} {name} {before}{state}{details}{colon}{}", one_line(message))
}

/// How long ago, as kubectl tells ages: `5s`, `12m`, `3h`, `4d`.
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
    use crate::core::diagnostic::Scope;
    use crate::core::name::RepoPath;
    use crate::core::report::{harmless_json, is_dangerous};
    use crate::core::status::live::{Change, Live};
    use crate::core::yaml;

    fn now() -> Timestamp {
        "2026-01-03T00:00:00Z".parse().unwrap()
    }

    fn layout(wide: bool, width: Option<usize>) -> Layout {
        Layout { wide, width, style: Style::Plain, now: now() }
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
                { "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "namespace": "shop", "name": text } },
                { "apiVersion": "v1", "kind": "Secret", "metadata": { "namespace": "shop", "name": "key" } },
            ] } },
            "status": {
                "conditions": [condition("Applied", "False"), condition(text, text)],
                "resourceStatus": { "manifests": [
                    { "resourceMeta": { "ordinal": 0, "kind": "Namespace", "name": "shop" },
                      "conditions": [condition("Applied", "True"), condition("Available", "True")] },
                    { "resourceMeta": { "ordinal": 1, "kind": "Deployment", "namespace": "shop", "name": text },
                      "conditions": [condition("Applied", "False"), condition(text, text)],
                      "statusFeedback": { "values": [
                          { "name": "Ready", "fieldValue": { "type": "Integer", "integer": 2 } },
                          { "name": text, "fieldValue": { "type": "String", "string": text } },
                      ] } },
                    { "resourceMeta": { "ordinal": 2, "kind": "Secret", "namespace": "shop", "name": "key" },
                      "conditions": [{ "type": "Applied", "status": "False", "message": "CANARY" }],
                      "statusFeedback": { "values": [{ "name": "v", "fieldValue": { "string": "CANARY" } }] } },
                ] },
            },
        })
    }

    #[test]
    fn a_tree_shows_objects_feedback_and_what_is_wrong() {
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
      Applied=False                  -     what was said of this Secret is not shown, as it may quote its data";
        assert_eq!(shown, expected);
        let wide = trees([&tree].into_iter(), &layout(true, None)).join("\n");
        assert!(wide.contains("│     Available=True") && wide.contains("source web"), "{wide}");
    }

    /// Every form of output of one work in which a cluster's texts are `text`.
    fn every_output(text: &str) -> BTreeMap<&'static str, String> {
        let tree = WorkTree::of(&work(text), |_| false);
        let statuses = || [&tree.work].into_iter();
        let narrow = layout(false, Some(80));
        let value = json!({ "works": [tree] });
        let mut live = Live::new(true);
        live.apply(Change::Restart);
        live.apply(Change::Set(Box::new(tree.clone())));
        let lines = live.apply(Change::Listed);
        let line = |one: &Transition| transition(one, now(), Style::Plain);
        BTreeMap::from([
            ("status", works(statuses(), &layout(false, None)).join("\n")),
            ("status on a terminal", works(statuses(), &narrow).join("\n")),
            ("status, wide", works(statuses(), &layout(true, None)).join("\n")),
            ("tree", trees([&tree].into_iter(), &layout(false, None)).join("\n")),
            ("tree on a terminal", trees([&tree].into_iter(), &narrow).join("\n")),
            ("tree, wide", trees([&tree].into_iter(), &layout(true, None)).join("\n")),
            ("watch", lines.iter().map(line).collect::<Vec<_>>().join("\n")),
            ("watch as JSON", harmless_json(&json!(lines).to_string())),
            ("JSON", harmless_json(&format!("{value:#}"))),
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
            // What a program reads is the text itself, cut at the most.
            let read: Value = serde_json::from_str(&outputs["JSON"]).unwrap();
            let name = read["works"][0]["objects"][1]["name"].as_str().unwrap();
            assert!(text.starts_with(name.trim_end_matches('…')) && !name.is_empty(), "{name:?}");
            let file = RepoPath::root().join("x.yaml");
            let again = yaml::read(&file, outputs["YAML"].as_bytes(), &Scope::Source).documents;
            assert_eq!(again[0].value, read, "{text:?}");
        }
    }
}
