//! Prints an explanation for a terminal.

use serde_json::Value;

use super::size::within;
use gitwork_core::render::setting::Setting;

use super::{CommitNote, Explanation, GitSide, HubSide};
use crate::status::print::{Layout, age, paint};
use crate::status::view::Condition;
use gitwork_core::limits::EXPLANATION_BYTES_MAX;
use gitwork_core::text::escape::single_line;
use gitwork_core::text::style::TextStyle;
use gitwork_core::text::table::{Cell, Table};
use gitwork_core::text::truncate::truncate_columns;

/// Characters of a setting's value.
const VALUE_CHARS_MAX: usize = 60;

/// The whole explanation: the conclusion, then the details.
pub fn text(explanation: &Explanation, layout: &Layout) -> String {
    let Explanation { cluster, work, object, answer, git, hub, hub_unknown, omitted } = explanation;
    let style = layout.style;
    let object = object.as_ref().map_or_else(String::new, |object| format!(", {object}"));
    let mut out =
        vec![style.styled(TextStyle::Strong, single_line(&format!("{cluster}/{work}{object}")))];
    let mark = if answer.there { TextStyle::Good } else { TextStyle::Warning };
    let message = single_line(&answer.message);
    out.push(format!("  {}: {message}", style.styled(mark, &answer.reason)));
    out.extend(answer.advice.iter().map(|advice| format!("  {}", single_line(advice))));
    out.push(format!("\n{}", style.styled(TextStyle::Strong, "In Git")));
    out.extend(indented(git_table(git, layout)));
    if !git.settings.is_empty() {
        out.push(format!("\n{}", style.styled(TextStyle::Strong, "Settings")));
        out.extend(indented(settings(&git.settings, layout)));
    }
    if !git.objects.is_empty() {
        out.push(format!("\n{}", style.styled(TextStyle::Strong, "Objects")));
        let mut table = Table::default();
        for one in &git.objects {
            table.add(vec![Cell::new(&one.object), Cell::new(&one.place.to_string())]);
        }
        out.extend(indented(table.lines(narrower(layout), style)));
    }
    out.push(format!("\n{}", style.styled(TextStyle::Strong, "On the hub")));
    match hub {
        Some(hub) => out.extend(indented(hub_table(hub, layout))),
        None => {
            let why = hub_unknown.as_deref().unwrap_or("no hub is selected");
            out.push(format!("  unknown: {}", single_line(why)));
        }
    }
    if *omitted > 0 {
        out.push(format!("\n{omitted} more settings and objects are not shown"));
    }
    within(&out, EXPLANATION_BYTES_MAX)
}

fn narrower(layout: &Layout) -> Option<usize> {
    layout.width.map(|width| width.saturating_sub(2))
}

fn indented(lines: Vec<String>) -> impl Iterator<Item = String> {
    lines.into_iter().map(|line| format!("  {line}"))
}

fn row(table: &mut Table, name: &str, value: &str) {
    table.add(vec![Cell::styled(name, Some(TextStyle::Dim)), Cell::new(value)]);
}

fn commit(note: &CommitNote) -> String {
    let id: String = note.commit.chars().take(8).collect();
    let day = note.date.split('T').next().unwrap_or_default();
    format!("{id} {day} {}: {}", note.author, note.subject)
}

fn git_table(git: &GitSide, layout: &Layout) -> Vec<String> {
    let mut table = Table::default();
    let at = git.commit.as_deref().map(|commit| commit.chars().take(8).collect::<String>());
    row(
        &mut table,
        "source",
        &format!("{} at {}", git.source, at.as_deref().unwrap_or("the directory on disk")),
    );
    match (&git.folder, &git.place) {
        (_, Some(place)) => row(&mut table, "file", &place.to_string()),
        (Some(folder), None) => row(&mut table, "folder", folder.as_str()),
        (None, None) => row(&mut table, "folder", "none"),
    }
    if let Some(note) = &git.last_change {
        row(&mut table, "changed by", &commit(note));
    }
    if git.uncommitted {
        row(&mut table, "", "and uncommitted changes on disk");
    }
    if let Some(note) = &git.removed_by {
        row(&mut table, "removed by", &commit(note));
    }
    for problem in &git.problems {
        let what = if problem.error { "error" } else { "warning" };
        row(&mut table, what, &format!("{} {}: {}", problem.code, problem.place, problem.message));
    }
    table.lines(narrower(layout), layout.style)
}

fn settings(all: &[Setting], layout: &Layout) -> Vec<String> {
    let mut table = Table::default();
    for setting in all.iter().filter(|setting| layout.wide || !setting.value.is_null()) {
        let value = match &setting.value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let value = if layout.wide {
            value
        } else {
            truncate_columns(&single_line(&value), VALUE_CHARS_MAX).into_owned()
        };
        let set_by = setting.set_by.as_ref().map(ToString::to_string);
        let mut place = set_by.or(setting.fact.clone()).unwrap_or_else(|| "default".to_owned());
        if !setting.overrides.is_empty() {
            let over: Vec<String> = setting.overrides.iter().map(ToString::to_string).collect();
            place.push_str(&format!(", over {}", over.join(", ")));
        }
        table.add(vec![
            Cell::styled(&setting.name, Some(TextStyle::Dim)),
            Cell::new(&value),
            Cell::new(&place),
        ]);
    }
    table.lines(narrower(layout), layout.style)
}

fn hub_table(hub: &HubSide, layout: &Layout) -> Vec<String> {
    let mut table = Table::default();
    let Some(tree) = &hub.work else { return vec!["no ManifestWork of this name".into()] };
    let work = &tree.work;
    let lost = if work.unreachable { ", the cluster is unreachable" } else { "" };
    let since = |since: Option<&str>| match age(since, layout.now).as_str() {
        "-" => String::new(),
        age => format!(" for {age}"),
    };
    let state = format!("{}{}{lost}", work.state, since(work.since.as_deref()));
    table.add(vec![
        Cell::styled("work", Some(TextStyle::Dim)),
        Cell::styled(&state, paint(work.state, work.unreachable)),
    ]);
    row(
        &mut table,
        "manifests",
        &format!("{} of {} applied", work.manifests_applied, work.manifests),
    );
    for (name, value) in [("source", &work.source), ("commit", &work.commit), ("path", &work.path)]
    {
        value.iter().for_each(|value| row(&mut table, name, value));
    }
    let condition = |table: &mut Table, one: &Condition| {
        let old = if one.outdated { " (of an older generation)" } else { "" };
        let name = format!("{}={}", one.kind, one.status);
        row(table, &name, &format!("{}{old}: {}", one.reason, one.message));
    };
    match &hub.object {
        None => tree.conditions.iter().for_each(|one| condition(&mut table, one)),
        Some(object) => {
            let state = format!("{}{}", object.state, since(object.since.as_deref()));
            row(&mut table, "object", &state);
            object.conditions.iter().for_each(|one| condition(&mut table, one));
            for (name, value) in &object.feedback {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                row(&mut table, name, &text);
            }
        }
    }
    table.lines(narrower(layout), layout.style)
}
