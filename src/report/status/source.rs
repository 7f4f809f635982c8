//! `(desired, plan, observed, failed writes, reachability) -> status`: the rollout of one commit.
//! Pure.
//!
//! A work counts as applied only if the hub has the content of this commit and the agent's
//! conditions are of the generation with this content.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::source_work::reported;
use super::work_states::{ClusterStates, WorkStates};
use super::{Clusters, NAMES_SHOWN, RolloutVerdict, State};
use gitwork_core::limits;
use gitwork_core::model::diagnostic::{Diagnostic, Severity};
use gitwork_core::model::digest::Digest;
use gitwork_core::model::facts::Facts;
use gitwork_core::model::name::{ClusterName, CommitId, GroupName, SourceId, WorkKey};
use gitwork_core::plan::rollout_progress::GroupProgress;
use gitwork_core::plan::{Guard, Hold};
use gitwork_core::text::style::count;
use gitwork_core::text::truncate::truncate_chars;

pub use super::source_work::{FailedWrite, StatusInputs, WorkState};

/// The state of one source at one commit.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceStatus {
    /// The source id.
    pub source: SourceId,
    /// `None` if the source is a directory on disk.
    pub commit: Option<CommitId>,
    /// How often the source's record on the hub was written.
    pub record_generation: u64,
    /// All works in Git, and those of the source on the hub.
    pub works: WorkStates,
    /// Clusters that the hub cannot reach.
    pub unreachable: BTreeSet<ClusterName>,
    /// The number of errors in Git.
    pub errors: usize,
    /// The first error, with its location.
    pub first_error: Option<String>,
    /// The first errors and warnings in Git, for annotations.
    pub findings: Vec<Diagnostic>,
    /// Changes that wait for approval.
    pub held: Vec<HeldChanges>,
    /// How far the rollouts of groups have come.
    pub rollouts: Vec<GroupProgress>,
    /// The facts of the hub that the works follow from.
    pub facts: Option<Arc<Facts>>,
}

/// Changes of one plan that one guard holds. One approval covers all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldChanges {
    /// The guard that holds them.
    pub guard: Guard,
    /// The hash to approve.
    pub hash: Digest,
    /// How many works are held.
    pub works: usize,
    /// The reason, for people.
    pub reason: String,
}

/// Groups that the summary line names for each state.
const GROUPS_SHOWN: usize = 3;

/// A line of at least so many characters has the beginning of the reason of held changes. Commit
/// statuses of all forges have more.
const CUT_REASON_MIN: usize = 100;

impl HeldChanges {
    /// What is held and why. `None` if the reason names another repository.
    fn clause(&self) -> Option<String> {
        let noun = match self.guard {
            Guard::Origin => return None,
            Guard::Budget => "deletion",
            _ => "change",
        };
        Some(format!("; {} held: {}", count(self.works, noun), self.reason))
    }

    fn of(hold: Hold) -> Self {
        let Hold { approval, guard, works, reason } = hold;
        Self { guard, hash: approval.hash(), works, reason }
    }
}

/// The states of all works, computed from nothing but the times of those before.
pub(super) fn works_of(inputs: &StatusInputs<'_>, before: Option<&WorkStates>) -> WorkStates {
    let earlier = |key: &WorkKey| before.and_then(|before| before.get(key));
    let of_steps = inputs.plan.steps.iter();
    let of_steps =
        of_steps.map(|step| (step.key.clone(), inputs.of_step(step, earlier(&step.key))));
    let mut works: WorkStates = of_steps.collect();
    // An unreadable work that is new in Git has no step: nothing of it is on the hub.
    for key in &inputs.desired.frozen.works {
        if !works.contains_key(key) {
            works.insert(key.clone(), inputs.frozen(key, earlier(key)));
        }
    }
    works
}

impl SourceStatus {
    /// Computes the status. `before` is the previous one, for the times at which states began.
    pub fn of(inputs: &StatusInputs<'_>, before: Option<&Self>) -> Self {
        Self::with_works(inputs, works_of(inputs, before.map(|before| &before.works)))
    }

    /// The status with these states of works.
    pub(super) fn with_works(inputs: &StatusInputs<'_>, works: WorkStates) -> Self {
        let desired = inputs.desired;
        let errors = desired.diagnostics.iter().filter(|found| found.is_error());
        Self {
            source: desired.source.clone(),
            commit: desired.commit,
            record_generation: inputs.record_generation,
            works,
            unreachable: inputs.unreachable.clone(),
            errors: errors.clone().count(),
            first_error: errors.clone().next().map(reported),
            held: inputs.plan.holds(&desired.source).into_iter().map(HeldChanges::of).collect(),
            rollouts: inputs.rollouts.to_vec(),
            findings: findings(&desired.diagnostics),
            facts: desired.facts.clone(),
        }
    }

    /// Sets the state of a commit that is not applied. Its works stay those of an older commit.
    pub fn refuse(&mut self, commit: CommitId, why: &str) {
        self.commit = Some(commit);
        self.errors += 1;
        self.first_error = Some(truncate_chars(why, limits::STATUS_TEXT_CHARS_MAX).into_owned());
    }

    /// The clusters with a work of the source, each with its worst state.
    pub fn clusters(&self) -> Clusters<'_> {
        Clusters::new(self.works.clusters().map(|(name, cluster)| {
            (name.as_str(), cluster.worst(), self.unreachable.contains(name))
        }))
    }

    /// The result of the commit's rollout.
    pub fn verdict(&self) -> RolloutVerdict {
        self.verdict_of(&self.clusters())
    }

    /// Like [`Self::verdict`], for callers that have the clusters.
    pub(crate) fn verdict_of(&self, clusters: &Clusters<'_>) -> RolloutVerdict {
        if self.errors > 0 { RolloutVerdict::Failure } else { clusters.verdict() }
    }

    /// The summary line within `chars_max` characters. It drops names first, then the location of
    /// an error, then how far rollouts have come, then the states of clusters, then the end of the
    /// reason of held changes. A short one drops the reason, and is truncated last.
    pub fn line(&self, chars_max: usize) -> String {
        self.line_of(&self.clusters(), chars_max)
    }

    /// Like [`Self::line`], for callers that have the clusters.
    pub(crate) fn line_of(&self, clusters: &Clusters<'_>, chars_max: usize) -> String {
        let errors = match self.errors {
            0 => String::new(),
            errors => format!(", {} in Git", count(errors, "error")),
        };
        let place = self.first_error.as_deref().map(|error| format!("{errors}: {error}"));
        let place = place.as_deref().unwrap_or(&errors);
        let held = self.held.iter().find_map(HeldChanges::clause).unwrap_or_default();
        let note = |state| self.groups_in(state);
        let rollouts = self.rollouts_clause();
        let rollouts = rollouts.as_str();
        let forms = [
            (Some(3), place, held.as_str(), rollouts),
            (Some(3), &errors, &held, rollouts),
            (Some(1), &errors, &held, rollouts),
            (Some(0), &errors, &held, rollouts),
            (Some(1), &errors, &held, ""),
            (Some(0), &errors, &held, ""),
            (None, &errors, &held, ""),
            (Some(1), &errors, "", ""),
            (Some(0), &errors, "", ""),
        ];
        let mut line = String::new();
        for (names, place, held, rollouts) in forms {
            let start = match names {
                _ if self.works.is_empty() => "no works".to_owned(),
                Some(names) => clusters.line_of("cluster", names, note),
                None => clusters.applied_of("cluster"),
            };
            line = start + place + held + rollouts;
            if line.chars().count() <= chars_max {
                return line;
            }
            if names.is_none() && !held.is_empty() && chars_max >= CUT_REASON_MIN {
                break;
            }
        }
        truncate_chars(&line, chars_max).into_owned()
    }
}

impl SourceStatus {
    /// The rollouts for reports: those that have not ended, then others, as many as have room.
    pub(crate) fn reported_rollouts(&self) -> Vec<GroupProgress> {
        let mut all: Vec<&GroupProgress> = self.rollouts.iter().collect();
        all.sort_by_key(|rollout| rollout.has_ended());
        let mut left = limits::REPORTED_ROLLOUTS_BYTES_MAX;
        let has_room = |rollout: &&GroupProgress| {
            let bytes = serde_json::to_string(rollout).map_or(usize::MAX, |text| text.len() + 1);
            left = left.saturating_sub(bytes);
            left > 0
        };
        all.into_iter().take_while(has_room).cloned().collect()
    }

    /// The rollouts that have not ended: the first one, and how many more.
    fn rollouts_clause(&self) -> String {
        let mut open = self.rollouts.iter().filter(|one| !one.has_ended());
        let Some(first) = open.next() else { return String::new() };
        let more = match open.count() {
            0 => String::new(),
            more => format!(" and {}", count(more, "more rollout")),
        };
        format!("; {}{more}", first.short())
    }

    /// The groups of the works in a state that determines the state of more clusters than a line
    /// names; `None` if a work of no group is among them, or if there are many groups.
    fn groups_in(&self, state: State) -> Option<String> {
        let all = self.works.clusters();
        let all =
            all.filter(|(name, works)| works.worst() == state && !self.unreachable.contains(*name));
        let (mut clusters, mut groups) = (0, BTreeSet::new());
        for (_, works) in all {
            clusters += 1;
            groups.extend(works.groups_in(state)?);
        }
        if clusters <= NAMES_SHOWN || groups.is_empty() || groups.len() > GROUPS_SHOWN {
            return None;
        }
        let names: Vec<&str> = groups.iter().map(GroupName::as_str).collect();
        let noun = if names.len() == 1 { "group" } else { "groups" };
        Some(format!("{noun} {}", names.join(", ")))
    }

    /// The groups that have works on clusters.
    pub fn groups(&self) -> BTreeSet<&GroupName> {
        self.works.clusters().flat_map(|(_, works)| works.of_groups().keys()).collect()
    }

    /// The verdict and the summary line over the clusters of a group, of which only the works of
    /// the group count, within `chars_max` characters.
    pub fn line_of_group(&self, group: &GroupName, chars_max: usize) -> (RolloutVerdict, String) {
        let members = self.works.clusters();
        let members = members.filter_map(|(name, works)| {
            let state = works.of_groups().get(group)?;
            Some((name.as_str(), *state, self.unreachable.contains(name)))
        });
        let all = Clusters::new(members);
        (all.verdict(), fitting(&all, "cluster", chars_max))
    }

    /// The verdict and the summary line over these clusters, within `chars_max` characters.
    pub fn line_of_clusters(
        &self,
        clusters: &BTreeSet<&ClusterName>,
        chars_max: usize,
    ) -> (RolloutVerdict, String) {
        self.line_of_those(clusters, "cluster", |key| key.cluster.as_str(), chars_max)
    }

    /// The verdict and the summary line over the works of these clusters, within `chars_max`
    /// characters.
    pub fn line_of_works(
        &self,
        clusters: &BTreeSet<&ClusterName>,
        chars_max: usize,
    ) -> (RolloutVerdict, String) {
        self.line_of_those(clusters, "work", |key| key.work.as_str(), chars_max)
    }

    fn line_of_those(
        &self,
        clusters: &BTreeSet<&ClusterName>,
        noun: &str,
        name: fn(&WorkKey) -> &str,
        chars_max: usize,
    ) -> (RolloutVerdict, String) {
        let found = clusters.iter().filter_map(|name| self.works.of_cluster(name));
        let works = found.flat_map(ClusterStates::iter);
        let all =
            Clusters::new(works.map(|(key, work)| {
                (name(key), work.state, self.unreachable.contains(&key.cluster))
            }));
        (all.verdict(), fitting(&all, noun, chars_max))
    }
}

fn fitting(all: &Clusters<'_>, noun: &str, chars_max: usize) -> String {
    let lines = [3, 1, 0].map(|names| all.line_of(noun, names, |_| None));
    let fits = lines.iter().find(|line| line.chars().count() <= chars_max);
    fits.cloned().unwrap_or_else(|| truncate_chars(&lines[2], chars_max).into_owned())
}

/// Errors first, each severity in the order of the files.
fn findings(diagnostics: &[Diagnostic]) -> Vec<Diagnostic> {
    let of = |severity| diagnostics.iter().filter(move |found| found.severity == severity);
    let all = of(Severity::Error).chain(of(Severity::Warning));
    all.take(limits::STATUS_FINDINGS_MAX).cloned().collect()
}

#[cfg(test)]
mod tests;
