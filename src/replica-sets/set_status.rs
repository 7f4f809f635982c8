//! The status of a replica set.

use std::collections::{BTreeMap, BTreeSet};

use gitwork_api::truncate::truncate_chars;
use gitwork_core::model::name::ClusterName;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::limits;
use crate::membership::MemberPlacement;
use crate::replica_set::ReplicaSet;
use crate::semantics::RolloutSemantics;
use crate::set_conditions::{SetCondition, with_conditions};
use crate::set_work::SetWork;
use crate::write::WriteFailure;

const VERIFIED: &str = "PlacementVerified";
const ROLLED_OUT: &str = "PlacementRolledOut";
const APPLIED: &str = "ManifestworkApplied";

const AS_EXPECTED: &str = "AsExpected";
const NOT_AS_EXPECTED: &str = "NotAsExpected";
const EMPTY: &str = "PlacementDecisionEmpty";
const NOT_FOUND: &str = "PlacementDecisionNotFound";

/// Counts of works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct WorkCounts {
    total: usize,
    updated: usize,
    applied: usize,
    available: usize,
    progressing: usize,
    degraded: usize,
}

/// What the status says of one Placement.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlacementReport {
    name: String,
    index: usize,
    is_found: bool,
    is_empty: bool,
    /// What is wrong with the strategy.
    pub problem: Option<String>,
    /// Why the decisions may be incomplete.
    uncertainty: Option<String>,
    groups: usize,
    /// As the Placement's status says.
    number_of_clusters: usize,
    counts: WorkCounts,
    /// Clusters that belong to this reference.
    pub selected: usize,
    pub has_rollout: bool,
    pub succeeded: usize,
    pub soaking: usize,
    pub failed: Vec<ClusterName>,
    pub is_stopped: bool,
}

impl PlacementReport {
    pub fn of(placement: &MemberPlacement<'_>) -> Self {
        let facts = placement.facts;
        let number = facts.and_then(|facts| facts.number_of_selected_clusters);
        Self {
            name: placement.reference.name.clone(),
            index: placement.reference.index,
            is_found: facts.is_some(),
            is_empty: placement.is_empty(),
            uncertainty: placement.uncertainty(),
            groups: facts.map_or(0, |facts| facts.decision_groups.len()),
            number_of_clusters: number.unwrap_or(0),
            ..Self::default()
        }
    }

    /// Counts a work.
    pub fn count(&mut self, work: &SetWork, is_updated: bool) {
        let reported = &work.conditions;
        let add = |count: &mut usize, condition| *count += usize::from(work.is_true(condition));
        self.counts.total += 1;
        self.counts.updated += usize::from(is_updated);
        add(&mut self.counts.applied, reported.applied);
        add(&mut self.counts.available, reported.available);
        add(&mut self.counts.progressing, reported.progressing);
        add(&mut self.counts.degraded, reported.degraded);
    }
}

/// What a status is made from.
pub(crate) struct StatusReport<'a> {
    pub set: &'a ReplicaSet,
    pub placements: Vec<PlacementReport>,
    /// Clusters that some Placement selects.
    pub selected: usize,
    pub failures: &'a BTreeMap<ClusterName, WriteFailure>,
}

/// The new status; `None` if it is the present one.
pub(crate) fn status(report: &StatusReport<'_>, now: Timestamp) -> Option<Value> {
    let total = report.total();
    let summaries = report.placements.iter().map(|placement| {
        let (groups, updated) = (placement.groups, placement.counts.updated);
        let all = placement.number_of_clusters;
        json!({
            "name": placement.name,
            "availableDecisionGroups":
                format!("{groups} ({updated} / {all} clusters applied)"),
            "summary": summary(placement.counts, placement.selected),
        })
    });
    let fields = json!({
        "summary": summary(total, report.selected),
        "placementSummary": summaries.collect::<Vec<Value>>(),
    });
    let conditions = [report.verified(), report.rolled_out(), report.applied(total)];
    changed(report.set, &fields, &conditions, now)
}

/// The status of a set that waits for its works to be deleted; `None` if it is the present one.
pub(crate) fn deletion_status(
    set: &ReplicaSet,
    clusters: &BTreeSet<&ClusterName>,
    failures: &BTreeMap<ClusterName, WriteFailure>,
    now: Timestamp,
) -> Option<Value> {
    let (count, names) = (clusters.len(), named(clusters.iter().copied()));
    let waits = format!(
        "deleting the ManifestWorks of {count} clusters: {names}; the work of a cluster that is \
         gone stays until somebody removes its finalizers"
    );
    let message = failure_text(failures).unwrap_or(waits);
    let condition = SetCondition { kind: APPLIED, is_true: false, reason: "Processing", message };
    changed(set, &json!({}), &[condition], now)
}

fn changed(
    set: &ReplicaSet,
    fields: &Value,
    conditions: &[SetCondition],
    now: Timestamp,
) -> Option<Value> {
    let mut status = set.status.as_object().cloned().unwrap_or_default();
    for (name, value) in fields.as_object().into_iter().flatten() {
        status.insert(name.clone(), value.clone());
    }
    let all = with_conditions(set.status.get("conditions"), conditions, set.generation, now);
    status.insert("conditions".into(), all);
    let status = Value::Object(status);
    (status != set.status).then_some(status)
}

fn summary(counts: WorkCounts, desired: usize) -> Value {
    json!({
        "total": counts.total,
        "desiredTotal": desired,
        "updated": counts.updated,
        "applied": counts.applied,
        "available": counts.available,
        "progressing": counts.progressing,
        "degraded": counts.degraded,
    })
}

impl StatusReport<'_> {
    fn total(&self) -> WorkCounts {
        self.placements.iter().map(|placement| placement.counts).fold(
            WorkCounts::default(),
            |sum, one| WorkCounts {
                total: sum.total + one.total,
                updated: sum.updated + one.updated,
                applied: sum.applied + one.applied,
                available: sum.available + one.available,
                progressing: sum.progressing + one.progressing,
                degraded: sum.degraded + one.degraded,
            },
        )
    }

    fn verified(&self) -> SetCondition {
        let condition = |is_true, reason, message| {
            let kind = VERIFIED;
            SetCondition { kind, is_true, reason, message }
        };
        let namespace = &self.set.key.namespace;
        let missing: Vec<String> = self
            .placements
            .iter()
            .filter(|one| !one.is_found)
            .map(|one| format!("{namespace}/{}", one.name))
            .collect();
        if !missing.is_empty() {
            let message = format!(
                "there is no Placement {}; create it or remove the reference; until then no work \
                 is deleted",
                missing.join(", ")
            );
            return condition(false, NOT_FOUND, message);
        }
        if self.set.has_ignored_placements {
            let most = limits::PLACEMENT_REFS_MAX;
            let message = format!(
                "only the first {most} of spec.placementRefs count, and those with a name; remove \
                 the others; until then no work is deleted"
            );
            return condition(false, NOT_AS_EXPECTED, message);
        }
        let problems: Vec<String> = self.placements.iter().filter_map(strategy_problem).collect();
        if self.placements.is_empty() {
            let message = "spec.placementRefs is empty; name a Placement".to_owned();
            return condition(false, NOT_AS_EXPECTED, message);
        }
        if !problems.is_empty() {
            return condition(false, NOT_AS_EXPECTED, problems.join("; "));
        }
        let uncertain: Vec<String> = self
            .placements
            .iter()
            .filter_map(|one| {
                let why = one.uncertainty.as_ref()?;
                Some(format!("Placement {namespace}/{}: {why}; no work is deleted", one.name))
            })
            .collect();
        if self.selected == 0 {
            let empty = self.placements.iter().all(|one| one.is_empty);
            let text = if empty { "the Placements select no cluster" } else { "no cluster" };
            let message = [vec![text.to_owned()], uncertain].concat().join("; ");
            return condition(false, EMPTY, message);
        }
        let selected = format!("{} clusters are selected", self.selected);
        condition(true, AS_EXPECTED, [vec![selected], uncertain].concat().join("; "))
    }

    fn rolled_out(&self) -> SetCondition {
        let condition = |is_true, reason, message| {
            let kind = ROLLED_OUT;
            SetCondition { kind, is_true, reason, message }
        };
        let succeeded: usize = self.placements.iter().map(|one| one.succeeded).sum();
        let is_whole = self.placements.iter().all(|one| one.is_found && one.has_rollout);
        if self.selected == 0 {
            let message = "no cluster is selected".to_owned();
            return condition(false, EMPTY, message);
        }
        let mut message = format!("{succeeded} of {} clusters have succeeded", self.selected);
        if is_whole && succeeded == self.selected {
            return condition(true, "Complete", message);
        }
        let soaking: usize = self.placements.iter().map(|one| one.soaking).sum();
        if soaking > 0 {
            message.push_str(&format!("; {soaking} for less than minSuccessTime"));
        }
        for placement in self.placements.iter().filter(|one| !one.failed.is_empty()) {
            let name = &placement.name;
            let (count, clusters) = (placement.failed.len(), named(&placement.failed));
            let end = if placement.is_stopped {
                "more than maxFailures; no other cluster gets the template until it changes or \
                 they succeed"
            } else {
                "within maxFailures"
            };
            let failed = match count {
                1 => format!("1 cluster of {name} has failed"),
                _ => format!("{count} clusters of {name} have failed"),
            };
            message.push_str(&format!("; {failed}: {clusters} ({end})"));
        }
        condition(false, "Progressing", message)
    }

    fn applied(&self, total: WorkCounts) -> SetCondition {
        let condition = |is_true, reason, message| {
            let kind = APPLIED;
            SetCondition { kind, is_true, reason, message }
        };
        if self.set.template.is_none() {
            let message = "spec.manifestWorkTemplate.workload.manifests is empty; works stay as \
                           they are";
            return condition(false, NOT_AS_EXPECTED, message.to_owned());
        }
        if let Some(message) = failure_text(self.failures) {
            return condition(false, NOT_AS_EXPECTED, message);
        }
        if self.selected == 0 {
            return condition(false, EMPTY, "no cluster is selected".to_owned());
        }
        let WorkCounts { updated, available, progressing, degraded, .. } = total;
        // Upstream compares with the works that were written so far.
        let is_upstream = self.set.semantics == RolloutSemantics::Upstream;
        let wanted = if is_upstream { updated } else { self.selected };
        let message = format!(
            "{updated} of {} works have the template; {available} works are available, \
             {progressing} progressing, {degraded} degraded",
            self.selected
        );
        let is_settled = progressing == 0 && degraded == 0;
        if is_settled && updated == wanted && available >= wanted && updated > 0 {
            return condition(true, AS_EXPECTED, message);
        }
        let is_under_way = progressing > 0 || updated < wanted;
        let reason = if is_under_way && degraded == 0 { "Processing" } else { NOT_AS_EXPECTED };
        condition(false, reason, message)
    }
}

fn strategy_problem(placement: &PlacementReport) -> Option<String> {
    let problem = placement.problem.as_ref()?;
    let index = placement.index;
    Some(format!("spec.placementRefs[{index}].rolloutStrategy.{problem}"))
}

/// The failed writes, in one text.
fn failure_text(failures: &BTreeMap<ClusterName, WriteFailure>) -> Option<String> {
    if failures.is_empty() {
        return None;
    }
    let shown: Vec<String> = failures
        .values()
        .take(limits::NAMED_CLUSTERS_MAX)
        .map(|one| truncate_chars(&one.message, limits::FAILURE_CHARS_MAX).into_owned())
        .collect();
    let rest = failures.len() - shown.len();
    let more = if rest > 0 { format!("; {rest} more clusters") } else { String::new() };
    Some(shown.join("; ") + &more)
}

/// The first names, and how many more there are.
fn named<'a>(clusters: impl IntoIterator<Item = &'a ClusterName>) -> String {
    let all: Vec<&str> = clusters.into_iter().map(ClusterName::as_str).collect();
    let shown: Vec<&str> = all.iter().take(limits::NAMED_CLUSTERS_MAX).copied().collect();
    match all.len() - shown.len() {
        0 => shown.join(", "),
        rest => format!("{} and {rest} more", shown.join(", ")),
    }
}
