//! Operators, who approve held changes.

use gitwork_core::config::Budgets;
use gitwork_core::config::window::Closed;
use gitwork_core::model::approval::Approval;
use gitwork_core::model::name::SourceId;
use gitwork_core::plan::observed::Observed;
use gitwork_core::plan::{PlanPolicy, removed_candidates};
use gitwork_daemon::reader::SourceReader;
use gitwork_source::SourceState;

use crate::checked_plan;
use crate::fleet::machine_clock::DailyHours;
use crate::fleet::run::World;

impl World {
    /// An operator approves the held changes, as `gitwork approve` does.
    pub(in crate::fleet) fn approve(&mut self) {
        self.confirm_restore();
        self.second_source_approves();
        let holds = self.holds();
        if holds.is_empty() {
            return;
        }
        self.checker.trace(|| format!("approved: {holds:?}"));
        self.checker.approve(&holds);
        if self.chance(50) {
            let mut hub = self.hub.lock();
            holds.into_iter().for_each(|approval| hub.approved.add(&self.id, approval));
            return;
        }
        let (_, mut content) = self.git.head();
        content.approved = holds;
        // Operators sign.
        self.git.push(content);
        self.checker.trace(|| format!("commit {}: an approval", self.git.head().0));
        self.hint();
    }

    /// An operator confirms that the hub was restored and is in order.
    pub(super) fn confirm_restore(&mut self) {
        let mut hub = self.hub.lock();
        let generations = hub
            .records
            .iter()
            .filter_map(|(id, (record, _))| Some((id.clone(), record.unconfirmed_restore()?)));
        let generations: Vec<(SourceId, u64)> = generations.collect();
        for (id, record_generation) in generations {
            hub.approved.add(&id, Approval::Restored { source: id.clone(), record_generation });
            self.checker.trace(|| format!("confirmed: the hub of {id} was restored"));
        }
    }

    /// The changes that the guards may hold: deletions and, outside the change windows, any change.
    pub(super) fn holds(&mut self) -> Vec<Approval> {
        let Ok(SourceState { desired, .. }) = self.operator.read_branch() else {
            return Vec::new();
        };
        let is_open = |hours: DailyHours| hours.are_open(self.machine_clock.now());
        let is_open = is_open(self.hours) && is_open(self.git.head().1.hours);
        if is_open && self.hub.keys().iter().all(|key| desired.works.contains_key(key)) {
            return Vec::new();
        }
        let mut observed = Observed::default();
        let works = self.hub.works_of(Some(&self.id));
        observed.record_list(&self.id, works.into_iter().collect());
        let candidates = removed_candidates(&desired, &observed);
        let cancel = Default::default();
        let found = self.operator.last_known_states(&desired, &candidates, &[], &cancel);
        let Ok(last_known) = found else { return Vec::new() };
        let budgets =
            Budgets { works: Some(0), percent: Some(0), cluster: Some(0), ..Budgets::default() };
        let approved = self.hub.lock().approved.clone();
        let closed = (!is_open).then_some(Closed { until: None, unknown_zone: None });
        let policy = PlanPolicy { budgets, approved, closed, ..PlanPolicy::default() };
        let holds = checked_plan(&desired, &observed, &last_known, &policy).holds(&self.id);
        holds.into_iter().map(|hold| hold.approval).collect()
    }
}
