//! What is wrong with `rollout`, beyond its schema.

use std::collections::BTreeSet;

use super::{
    Amount, DurationText, GroupProblem, OnFailure, RolloutSettings, RolloutType, StrategySettings,
    Threshold, WaveSettings, pattern_problem,
};
use crate::config::window::ChangeWindows;
use gitwork_api::names::check_label;

/// Passes problems on, with JSON pointers.
struct Problems<'a> {
    report: &'a mut dyn FnMut(GroupProblem),
}

impl Problems<'_> {
    fn add(&mut self, pointer: &str, message: impl Into<String>) {
        (self.report)(GroupProblem { pointer: pointer.to_owned(), message: message.into() });
    }

    /// Of these fields, each with whether it is set, those that are say nothing here.
    fn unused(&mut self, at: &str, fields: [(&str, bool); 2], message: &str) {
        for (field, _) in fields.iter().filter(|(_, is_set)| *is_set) {
            self.add(&format!("{at}/{field}"), message);
        }
    }

    /// `is_bound`: zero would let nothing happen.
    fn amount(&mut self, pointer: &str, amount: Option<&Amount>, is_bound: bool) {
        match amount.map(Amount::parse) {
            Some(Err(problem)) => self.add(pointer, problem),
            Some(Ok(Threshold::Count(0) | Threshold::Percent(0))) if is_bound => {
                self.add(pointer, "is zero, so that no cluster would get the content");
            }
            _ => {}
        }
    }

    /// A time that has to pass.
    fn wait(&mut self, pointer: &str, text: Option<&DurationText>) {
        match text.map(DurationText::parse) {
            Some(Err(problem)) => self.add(pointer, problem),
            Some(Ok(None)) => self.add(pointer, "has no end, so that no cluster would be done"),
            _ => {}
        }
    }

    /// A time until which something has to happen.
    fn deadline(&mut self, pointer: &str, text: Option<&DurationText>) {
        match text.map(DurationText::parse) {
            Some(Err(problem)) => self.add(pointer, problem),
            Some(Ok(Some(time))) if time.is_zero() => {
                self.add(pointer, "is zero, so that each cluster would have failed at once");
            }
            _ => {}
        }
    }
}

impl RolloutSettings {
    /// Passes on what the schema does not find; the JSON pointers begin with `/rollout`. A file may
    /// have very many problems.
    pub fn each_problem(&self, report: &mut dyn FnMut(GroupProblem)) {
        let mut problems = Problems { report };
        self.add_strategy_problems(&mut problems);
        self.add_wave_problems(&mut problems);
        let is_all = self.waves.is_none() && self.kind.unwrap_or_default() == RolloutType::All;
        if self.on_failure == Some(OnFailure::Return) && is_all {
            let message = "is not used by `All`, which no failure stops";
            problems.add("/rollout/onFailure", message);
        }
    }

    fn add_strategy_problems(&self, problems: &mut Problems<'_>) {
        let all = [
            ("all", RolloutType::All, &self.all),
            ("progressive", RolloutType::Progressive, &self.progressive),
            ("progressivePerGroup", RolloutType::ProgressivePerGroup, &self.progressive_per_group),
        ];
        let kind = self.kind.unwrap_or_default();
        if self.waves.is_some() && self.kind.is_some() {
            problems.add("/rollout/type", "is not used with `waves`");
        }
        for (field, of, settings) in all {
            let Some(settings) = settings else { continue };
            let at = format!("/rollout/{field}");
            if self.waves.is_some() {
                problems.add(&at, "is not used with `waves`");
            } else if of != kind {
                problems.add(&at, format!("is for `type: {of:?}`, and the type is {kind:?}"));
            }
            settings.add_problems(&at, of, problems);
        }
    }

    fn add_wave_problems(&self, problems: &mut Problems<'_>) {
        problems.amount("/rollout/maxFailures", self.max_failures.as_ref(), false);
        problems.deadline("/rollout/progressDeadline", self.progress_deadline.as_ref());
        let Some(waves) = &self.waves else {
            let of_waves = [
                ("maxFailures", self.max_failures.is_some()),
                ("progressDeadline", self.progress_deadline.is_some()),
            ];
            let message = "is for `waves`; the strategies have their own";
            return problems.unused("/rollout", of_waves, message);
        };
        let mut names = BTreeSet::new();
        for (index, wave) in waves.iter().enumerate() {
            let at = format!("/rollout/waves/{index}");
            if !names.insert(wave.name.as_str()) {
                let message = format!("is {:?}, as that of another wave", wave.name);
                problems.add(&format!("{at}/name"), message);
            }
            wave.add_problems(&at, problems);
        }
    }
}

impl StrategySettings {
    fn add_problems(&self, at: &str, of: RolloutType, problems: &mut Problems<'_>) {
        let mandatory = format!("{at}/mandatoryDecisionGroups");
        if of == RolloutType::All && !self.mandatory_decision_groups.is_empty() {
            problems.add(&mandatory, "is not used by `All`, which waits for no cluster");
        }
        for (index, group) in self.mandatory_decision_groups.iter().enumerate() {
            let at = format!("{mandatory}/{index}");
            match (&group.group_name, group.group_index) {
                (None, None) => {
                    problems.add(&at, "says no group: it needs `groupName` or `groupIndex`");
                }
                (Some(_), Some(_)) => {
                    problems.add(&at, "has `groupName` and `groupIndex`; write one of them");
                }
                (Some(name), None) if name.is_empty() => {
                    problems.add(&format!("{at}/groupName"), "is empty");
                }
                _ => {}
            }
        }
        let concurrency = format!("{at}/maxConcurrency");
        if of != RolloutType::Progressive && self.max_concurrency.is_some() {
            problems.add(&concurrency, "is used by `Progressive` only");
        }
        if of == RolloutType::All {
            let unused = [
                ("maxFailures", self.max_failures.is_some()),
                ("minSuccessTime", self.min_success_time.is_some()),
            ];
            problems.unused(at, unused, "is not used by `All`, which waits for no cluster");
        }
        problems.amount(&concurrency, self.max_concurrency.as_ref(), true);
        problems.amount(&format!("{at}/maxFailures"), self.max_failures.as_ref(), false);
        problems.wait(&format!("{at}/minSuccessTime"), self.min_success_time.as_ref());
        problems.deadline(&format!("{at}/progressDeadline"), self.progress_deadline.as_ref());
    }
}

impl WaveSettings {
    fn add_problems(&self, at: &str, problems: &mut Problems<'_>) {
        if let Err(problem) = check_label(&self.name, 63) {
            problems.add(&format!("{at}/name"), problem.to_string());
        }
        if self.clusters.is_none() && self.selector.is_none() {
            problems.add(at, "says no cluster: it needs `clusters` or `selector`");
        }
        for (index, pattern) in self.clusters.iter().flatten().enumerate() {
            if let Some(problem) = pattern_problem(pattern) {
                problems.add(&format!("{at}/clusters/{index}"), problem);
            }
        }
        if let Some(selector) = &self.selector {
            selector.check(at, &mut |pointer, message| problems.add(&pointer, message));
        }
        problems.amount(&format!("{at}/maxConcurrency"), self.max_concurrency.as_ref(), true);
        problems.wait(&format!("{at}/soak"), self.soak.as_ref());
        for problem in self.window.iter().flat_map(ChangeWindows::problems) {
            problems.add(&format!("{at}/window{}", problem.pointer), problem.message);
        }
    }
}
