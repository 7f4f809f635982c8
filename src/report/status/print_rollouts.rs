//! Prints how far rollouts have come. Text from the hub is escaped.

use super::source_report::ReportedSource;
use gitwork_core::plan::rollout_progress::{GroupProgress, WaveProgress};
use gitwork_core::text::escape::escape_untrusted;
use gitwork_core::text::style::{ColorMode, TextStyle};
use gitwork_core::text::table::{Cell, Table};

/// For each rollout of the sources, a line about the group and a table of its waves. `group`: only
/// those of this group.
pub fn rollouts(
    sources: &[ReportedSource],
    group: Option<&str>,
    (width, style): (Option<usize>, ColorMode),
) -> Vec<String> {
    let mut lines = Vec::new();
    for (source, rollout) in selected(sources, group) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let title = format!("source {source}: {rollout}");
        let hue = match (rollout.held, rollout.has_ended()) {
            (true, _) => TextStyle::Warning,
            (false, true) => TextStyle::Good,
            (false, false) => TextStyle::Strong,
        };
        lines.push(style.styled(hue, escape_untrusted(&title)));
        lines.extend(waves(rollout).lines(width, style));
    }
    lines
}

/// The rollouts of the sources, of one group or all, each with its source.
pub fn selected<'a>(
    sources: &'a [ReportedSource],
    group: Option<&'a str>,
) -> impl Iterator<Item = (&'a str, &'a GroupProgress)> {
    let all = sources
        .iter()
        .flat_map(|one| one.report.rollouts.iter().map(|rollout| (one.source.as_str(), rollout)));
    all.filter(move |(_, rollout)| group.is_none_or(|group| rollout.group == group))
}

fn waves(rollout: &GroupProgress) -> Table {
    let states = WaveProgress::default().by_state().map(|(word, _)| word.to_uppercase());
    let mut header = vec!["", "WAVE", "CLUSTERS"];
    header.extend(states.iter().map(String::as_str));
    let mut table = Table::new(&header);
    for wave in &rollout.waves {
        let is_current = rollout.wave.as_ref() == Some(&wave.name);
        let mark = if is_current { ">" } else { "" };
        let mut row = vec![Cell::new(mark), Cell::new(&wave.name)];
        row.push(Cell::new(&wave.clusters.to_string()));
        row.extend(wave.by_state().map(|(_, number)| Cell::new(&number.to_string())));
        table.add(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::source_report::SourceReport;

    #[test]
    fn each_group_has_a_line_and_its_waves() {
        let wave = |name: &str, done, failed, waiting| WaveProgress {
            name: name.into(),
            clusters: done + failed + waiting,
            done,
            failed,
            waiting,
            ..WaveProgress::default()
        };
        let rollout = |group: &str, wave_now: Option<&str>, held, waves| GroupProgress {
            group: group.into(),
            wave: wave_now.map(str::to_owned),
            waits_for: wave_now.map(|_| "nobody has\napproved it".into()),
            held,
            waves,
            ..GroupProgress::default()
        };
        let waves = vec![wave("lab", 2, 0, 0), wave("bonn", 1, 1, 30)];
        let rollouts = vec![
            rollout("tills", Some("bonn"), true, waves.clone()),
            rollout("web", None, false, vec![waves[0].clone()]),
        ];
        let report = SourceReport { rollouts, ..SourceReport::default() };
        let sources = [ReportedSource { source: "fleet".into(), report }];
        let text = |group| super::rollouts(&sources, group, (None, ColorMode::Plain)).join("\n");
        let header =
            "   WAVE   CLUSTERS   DONE   SOAKING   PROGRESSING   FAILED   OFFLINE   WAITING";
        let lines = [
            "source fleet: group tills: wave 2/2 bonn, 3/34 clusters, 1 failed; nobody \
             has\\napproved it",
            &format!(" {header}"),
            "    lab    2          2      0         0             0        0         0",
            ">   bonn   32         1      0         0             1        0         30",
            "",
            "source fleet: group web: 2/2 clusters: the rollout has ended",
            header,
            "   lab    2          2      0         0             0        0         0",
        ];
        assert_eq!(text(None), lines.join("\n"));
        assert!(text(Some("web")).starts_with("source fleet: group web"));
        assert_eq!(text(Some("other")), "");
    }
}
