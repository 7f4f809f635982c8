//! How far the rollouts of groups have come, for people and programs. [`crate::sync::rollouts`]
//! finds it.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rollouts::wave_text;
use crate::text::style::count;

/// How far the rollout of one group's content has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupProgress {
    /// The group.
    pub group: String,
    /// The hash of the content.
    pub content: String,
    /// The waves that have clusters, first to last.
    pub waves: Vec<WaveProgress>,
    /// The first wave that has not ended; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wave: Option<String>,
    /// Until when clusters of that wave have to stay healthy, at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub soaking_until: Option<Timestamp>,
    /// What the clusters that have not got the content wait for, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Whether it goes on only if somebody acts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// Whether the content was stopped: clusters failed, or somebody stopped it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rejected: bool,
    /// The hash for `gitwork approve` that lets it go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
}

/// The clusters of one wave by how far they have come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WaveProgress {
    /// Its name; `*` for the clusters in no wave.
    pub name: String,
    /// All of its clusters. The other counts add up to this one.
    pub clusters: usize,
    /// They have the content, are healthy, and have soaked.
    pub done: usize,
    /// They are healthy, and soak.
    pub soaking: usize,
    /// They have the content and are not done.
    pub progressing: usize,
    /// They have failed, or were not done within the deadline.
    pub failed: usize,
    /// They have the content and cannot be reached.
    pub offline: usize,
    /// They have not got the content.
    pub waiting: usize,
}

impl WaveProgress {
    /// The clusters by state, each state with its word for people and programs.
    pub fn by_state(&self) -> [(&'static str, usize); 6] {
        [
            ("done", self.done),
            ("soaking", self.soaking),
            ("progressing", self.progressing),
            ("failed", self.failed),
            ("offline", self.offline),
            ("waiting", self.waiting),
        ]
    }
}

impl GroupProgress {
    /// Whether all waves have ended.
    pub fn has_ended(&self) -> bool {
        self.wave.is_none()
    }

    /// All clusters.
    pub fn clusters(&self) -> usize {
        self.waves.iter().map(|wave| wave.clusters).sum()
    }

    /// Clusters that are done.
    pub fn done(&self) -> usize {
        self.waves.iter().map(|wave| wave.done).sum()
    }

    /// The few words of a commit status: `tills: wave 2/4 bonn, 37/100 clusters, soaking until
    /// 2026-11-26T14:05:00Z`.
    pub fn short(&self) -> String {
        let place = self.wave.as_deref().map(|name| {
            let at = self.waves.iter().position(|wave| wave.name == name).map_or(1, |at| at + 1);
            format!("wave {at}/{} {name}, ", self.waves.len())
        });
        let place = place.unwrap_or_default();
        let (group, done, all) = (&self.group, self.done(), self.clusters());
        let soaking = self.soaking_until.filter(|_| !self.held);
        let soaking = soaking.map_or_else(String::new, |until| {
            format!(", soaking until {}", until.strftime("%Y-%m-%dT%H:%M:%SZ"))
        });
        format!("{group}: {place}{done}/{all} clusters{soaking}")
    }
}

impl fmt::Display for GroupProgress {
    /// One line, with what it waits for and what ends that.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.short();
        match self.has_ended() {
            true => write!(f, "group {short}: the rollout has ended")?,
            false => write!(f, "group {short}")?,
        }
        let failed: usize = self.waves.iter().map(|wave| wave.failed).sum();
        if failed > 0 {
            write!(f, ", {failed} failed")?;
        }
        match &self.waits_for {
            Some(why) => write!(f, "; {why}")?,
            None => return Ok(()),
        }
        match &self.approval {
            Some(hash) => write!(f, "; `gitwork approve {hash}` lets it go on"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for WaveProgress {
    /// `wave bonn, 5 clusters: 2 done, 1 soaking, 2 waiting`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states = self.by_state().into_iter().filter(|(_, number)| *number > 0);
        let states: Vec<String> = states.map(|(word, number)| format!("{number} {word}")).collect();
        let (name, all) = (wave_text(&self.name), count(self.clusters, "cluster"));
        write!(f, "{name}, {all}: {}", states.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(name: &str, done: usize, waiting: usize) -> WaveProgress {
        let clusters = done + waiting;
        WaveProgress { name: name.into(), clusters, done, waiting, ..WaveProgress::default() }
    }

    #[test]
    fn progress_reads_as_one_line() {
        let until = "2026-11-26T14:05:00.7Z".parse().unwrap();
        let mut progress = GroupProgress {
            group: "tills".into(),
            waves: vec![wave("lab", 2, 0), wave("bonn", 35, 5), wave("*", 0, 58)],
            wave: Some("bonn".into()),
            soaking_until: Some(until),
            ..GroupProgress::default()
        };
        let short = "tills: wave 2/3 bonn, 37/100 clusters, soaking until 2026-11-26T14:05:00Z";
        assert_eq!(progress.short(), short);
        assert_eq!(progress.to_string(), format!("group {short}"));
        assert_eq!(progress.waves[1].to_string(), "wave bonn, 40 clusters: 35 done, 5 waiting");
        progress.waits_for = Some("nobody has approved it".into());
        (progress.held, progress.approval) = (true, Some("ab12".into()));
        let held = "group tills: wave 2/3 bonn, 37/100 clusters; nobody has approved it; \
                    `gitwork approve ab12` lets it go on";
        assert_eq!(progress.to_string(), held);
        progress.waves.truncate(1);
        let ended =
            GroupProgress { waves: progress.waves, group: "x".into(), ..Default::default() };
        assert_eq!(ended.to_string(), "group x: 2/2 clusters: the rollout has ended");
    }
}
