//! The Markdown pages of the status branch.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::status::State;
use crate::status::source::{SourceStatus, WorkState};
use crate::status::work_states::ClusterStates;
use gitwork_core::model::name::{ClusterName, GroupName, WorkKey, WorkName};
use gitwork_core::text::escape::escape_untrusted;
use gitwork_core::text::style::count;
use gitwork_core::text::truncate::truncate_chars;

/// Columns of works. With more works the table lists only the unhealthy ones of each cluster.
const COLUMNS_MAX: usize = 12;
/// Rows of the table. Forges show the first 512 KB of a page.
const ROWS_MAX: usize = 2_000;
/// Characters of a message in a table.
const CELL_CHARS_MAX: usize = 200;
/// Characters of the summary line.
const LINE_CHARS_MAX: usize = 500;

/// Untrusted text as plain text in a cell. Characters with a meaning in Markdown or HTML become
/// character references; control characters become escapes.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in truncate_chars(&escape_untrusted(text), CELL_CHARS_MAX).into_owned().chars() {
        match character {
            '-' | ',' | ' ' | '%' | '=' | ';' => out.push(character),
            // A dot makes a link of `www.` and a list of `1.`, but most texts contain one.
            '.' if !out.ends_with("www") => out.push('.'),
            other if other.is_ascii_punctuation() => {
                // Writing to a string does not fail.
                let _infallible = write!(out, "&#{};", u32::from(other));
            }
            other => out.push(other),
        }
    }
    out
}

/// A mark for an applied work, a word for any other state. Neither depends on colour.
fn cell(state: State) -> &'static str {
    if state.is_applied() { "✓" } else { state.as_str() }
}

/// One line of a list.
fn line(text: &impl ToString) -> String {
    plain(&text.to_string())
}

pub fn readme(status: &SourceStatus) -> String {
    let mut out = format!("# Status of {}\n\n", plain(status.source.as_str()));
    out.push_str(&plain(&status.line(LINE_CHARS_MAX)));
    out.push_str("\n\n");
    if let Some(commit) = status.commit {
        out.push_str(&format!("Commit `{commit}`. "));
    }
    out.push_str("Written by gitwork; manual changes are overwritten.\n\n");
    for rollout in status.reported_rollouts().iter().filter(|rollout| !rollout.has_ended()) {
        out.push_str(&format!("Rollout of {}:\n\n", line(rollout)));
        let waves = rollout.waves.iter().map(|wave| format!("- {}\n", line(wave)));
        out.push_str(&waves.collect::<String>());
        out.push('\n');
    }
    let mut rows: Vec<(&ClusterName, &ClusterStates)> = status.works.clusters().collect();
    // Clusters that need attention come first, so they are never cut off.
    rows.sort_by_key(|(cluster, works)| {
        let worst = works.worst();
        (worst.is_applied(), worst.min(State::Applied), *cluster)
    });
    let mut rows = fold(&rows, status);
    let left_out: usize = rows.iter().skip(ROWS_MAX).map(|row| row.count).sum();
    rows.truncate(ROWS_MAX);
    match columns(status) {
        Some(names) => matrix(&mut out, &rows, &names),
        None => list(&mut out, &rows),
    }
    if left_out > 0 {
        out.push_str(&format!("\n… and {}; see `summary.json`.\n", count(left_out, "cluster")));
    }
    out
}

/// The names of all works; `None` if there are too many for a column each.
fn columns(status: &SourceStatus) -> Option<BTreeSet<&WorkName>> {
    let mut names = BTreeSet::new();
    for (key, _) in &status.works {
        names.insert(&key.work);
        if names.len() > COLUMNS_MAX {
            return None;
        }
    }
    Some(names)
}

/// The names of a cluster's works, and their states.
fn states(works: &ClusterStates) -> impl Iterator<Item = (&WorkName, State)> {
    works.iter().map(|(key, work)| (&key.work, work.state))
}

/// One row of the table.
struct Row<'a> {
    name: String,
    /// How many clusters it is for.
    count: usize,
    works: &'a ClusterStates,
}

/// Clusters share a row if more than so many have works of the same groups.
const FOLDED_MIN: usize = 5;

/// One row for each cluster, or for many whose works are all of the same groups and in the same
/// states. It comes where the first of them does.
fn fold<'a>(rows: &[(&ClusterName, &'a ClusterStates)], status: &SourceStatus) -> Vec<Row<'a>> {
    type Key<'a> = (String, bool, Vec<(&'a WorkName, State)>);
    let mut alike: BTreeMap<Key<'a>, Vec<&ClusterName>> = BTreeMap::new();
    let key = |cluster: &ClusterName, works: &'a ClusterStates| {
        let groups = works.groups()?;
        let names: Vec<&str> = groups.iter().map(GroupName::as_str).collect();
        Some((names.join(", "), status.unreachable.contains(cluster), states(works).collect()))
    };
    for &(cluster, works) in rows {
        if let Some(key) = key(cluster, works) {
            alike.entry(key).or_default().push(cluster);
        }
    }
    let rows = rows.iter().filter_map(|&(cluster, works)| {
        let lost = if status.unreachable.contains(cluster) { " (unreachable)" } else { "" };
        let together = key(cluster, works).and_then(|key| {
            let clusters = alike.get(&key).filter(|clusters| clusters.len() > FOLDED_MIN)?;
            Some((key.0, clusters))
        });
        let Some((groups, clusters)) = together else {
            let name = format!("[{cluster}](clusters/{cluster}.md){lost}");
            return Some(Row { name, count: 1, works });
        };
        let count = clusters.len();
        let name = format!("[{count} clusters](clusters) of {groups}{lost}");
        (clusters.first() == Some(&cluster)).then_some(Row { name, count, works })
    });
    rows.collect()
}

fn matrix(out: &mut String, rows: &[Row<'_>], names: &BTreeSet<&WorkName>) {
    out.push_str("| cluster |");
    names.iter().for_each(|name| out.push_str(&format!(" {name} |")));
    out.push_str("\n|---|");
    out.push_str(&"---|".repeat(names.len()));
    out.push('\n');
    for row in rows {
        out.push_str(&format!("| {} |", row.name));
        let works: BTreeMap<&WorkName, State> = states(row.works).collect();
        for name in names {
            out.push(' ');
            out.push_str(works.get(name).map_or("", |state| cell(*state)));
            out.push_str(" |");
        }
        out.push('\n');
    }
}

fn list(out: &mut String, rows: &[Row<'_>]) {
    out.push_str("| cluster | applied | others |\n|---|---|---|\n");
    for Row { name, works, .. } in rows {
        let all = State::ALL.into_iter().map(|state| works.count(state)).sum::<usize>();
        let applied = State::ALL.into_iter().filter(|state| state.is_applied());
        let applied = applied.map(|state| works.count(state)).sum::<usize>();
        // Most clusters have no others.
        let others = states(works).filter(|(_, state)| !state.is_applied());
        let others = others.take(all - applied).map(|(name, state)| format!("{name}: {state}"));
        let mut others: Vec<String> = others.collect();
        let more = others.len().saturating_sub(COLUMNS_MAX);
        others.truncate(COLUMNS_MAX);
        if more > 0 {
            others.push(format!("and {more} more"));
        }
        out.push_str(&format!("| {name} | {applied}/{all} | {} |\n", others.join(", ")));
    }
}

/// The page of a cluster.
pub fn cluster(cluster: &ClusterName, works: &[(&WorkKey, &WorkState)], lost: bool) -> String {
    let mut out = format!("# {cluster}\n\n");
    if lost {
        out.push_str("The hub cannot reach this cluster: its status may be stale.\n\n");
    }
    out.push_str("| work | state | since | manifests applied | commit | message |\n");
    out.push_str("|---|---|---|---|---|---|\n");
    for (key, work) in works {
        let commit = work.commit.map_or_else(String::new, |commit| format!("`{}`", commit.short()));
        out.push_str(&format!(
            "| [{}]({cluster}/{}.yaml) | {} | {} | {}/{} | {commit} | {} |\n",
            key.work,
            key.work,
            work.state,
            work.since,
            work.view.manifests_applied,
            work.view.manifests,
            plain(&work.message().unwrap_or_default())
        ));
    }
    out
}
