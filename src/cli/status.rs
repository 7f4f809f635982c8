//! `status`: what the hub has of gitwork's works, and how far the clusters are with them.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use comfy_table::{Cell, Color, ContentArrangement, Table, presets};
use jiff::Timestamp;

use super::source_args::{Filter, FilterArgs, HubArgs};
use super::{Exit, Failure, output, runtime};
use crate::core::name::{ClusterName, WorkKey, WorkName};
use crate::core::report::harmless;
use crate::core::status::{State, WorkStatus, aggregate};
use crate::core::yaml;
use crate::hub::fleet;

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Only works of this source
    #[arg(long, value_name = "ID")]
    source_id: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    hub: HubArgs,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = StatusFormat::Table)]
    output: StatusFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StatusFormat {
    Table,
    /// The table with source, path and message
    Wide,
    Json,
    Yaml,
}

pub fn status(args: &StatusArgs) -> Result<Exit, Failure> {
    let filter = args.filter.filter()?;
    let works = runtime()?.block_on(async {
        let client = super::run::client(&args.hub).await?;
        fleet::status(&client, args.source_id.as_deref()).await.map_err(Failure::new)
    })?;
    let works: Vec<WorkStatus> = works.into_iter().filter(|work| admits(&filter, work)).collect();
    let summary = aggregate(&works);
    let value = || serde_json::json!({ "summary": summary, "works": works });
    match args.output {
        StatusFormat::Json => output::print(&format!("{:#}\n", value()))?,
        StatusFormat::Yaml => output::print(&yaml::write(&value()))?,
        StatusFormat::Table | StatusFormat::Wide if works.is_empty() => {
            output::note("the hub has no ManifestWorks of gitwork that match");
        }
        StatusFormat::Table | StatusFormat::Wide => {
            let wide = args.output == StatusFormat::Wide;
            output::print(&format!("{}\n{summary}\n", table(&works, wide, Timestamp::now())))?;
        }
    }
    Ok(Exit::Done)
}

fn admits(filter: &Filter, work: &WorkStatus) -> bool {
    let key = ClusterName::parse(&work.cluster)
        .and_then(|cluster| Ok(WorkKey { cluster, work: WorkName::parse(&work.work)? }));
    key.is_ok_and(|key| filter.admits(&key))
}

fn table(works: &[WorkStatus], wide: bool, now: Timestamp) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if std::io::stdout().is_terminal() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    let mut header = vec!["CLUSTER", "WORK", "STATE", "MANIFESTS", "AGE", "COMMIT"];
    header.extend(wide.then_some(["SOURCE", "PATH"]).into_iter().flatten());
    header.push("MESSAGE");
    table.set_header(header);
    for work in works {
        let mut state = work.state.to_string();
        if work.unreachable {
            state.push_str(" (unreachable)");
        }
        let commit = work.commit.as_deref().unwrap_or("-");
        let message = harmless(work.message.as_deref().unwrap_or_default()).replace('\n', " ");
        let message = if wide { message } else { message.chars().take(80).collect() };
        let mut row = vec![
            Cell::new(&work.cluster),
            Cell::new(&work.work),
            Cell::new(state).fg(colour(work)),
            Cell::new(format!("{}/{}", work.manifests_applied, work.manifests)),
            Cell::new(work.since.as_deref().map_or_else(|| "-".into(), |since| age(since, now))),
            Cell::new(harmless(&commit.chars().take(8).collect::<String>())),
        ];
        if wide {
            row.push(Cell::new(harmless(work.source.as_deref().unwrap_or("-"))));
            row.push(Cell::new(harmless(work.path.as_deref().unwrap_or("-"))));
        }
        row.push(Cell::new(message));
        table.add_row(row);
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn colour(work: &WorkStatus) -> Color {
    let colours: BTreeMap<State, Color> = [
        (State::Failed, Color::Red),
        (State::Degraded, Color::Red),
        (State::Deleting, Color::Yellow),
        (State::Pending, Color::Yellow),
        (State::Progressing, Color::Yellow),
    ]
    .into();
    let own = colours.get(&work.state).copied().unwrap_or(Color::Green);
    if work.unreachable { Color::Yellow } else { own }
}

/// How long ago, as kubectl tells ages: `5s`, `12m`, `3h`, `4d`.
fn age(since: &str, now: Timestamp) -> String {
    let Ok(since) = since.parse::<Timestamp>() else { return "-".into() };
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
    use super::*;

    #[test]
    fn ages_read_like_kubectls() {
        let now: Timestamp = "2026-01-03T00:00:00Z".parse().unwrap();
        for (since, expected) in [
            ("2026-01-02T23:59:55Z", "5s"),
            ("2026-01-02T23:48:00Z", "12m"),
            ("2026-01-02T21:00:00Z", "3h"),
            ("2025-12-30T00:00:00Z", "4d"),
            ("2026-01-04T00:00:00Z", "0s"),
            ("yesterday", "-"),
        ] {
            assert_eq!(age(since, now), expected);
        }
    }
}
