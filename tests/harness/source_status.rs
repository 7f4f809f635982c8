//! Statuses of sources, without what a test does not name.

use std::collections::BTreeSet;

use gitwork_core::model::name::{SourceId, WorkKey};
use gitwork_report::status::State;
use gitwork_report::status::source::{SourceStatus, WorkState};
use gitwork_report::status::view::StatusView;
use jiff::Timestamp;

/// A work in this state since 1970, of which the agent has reported `view`.
pub fn work_state(state: State, view: StatusView) -> WorkState {
    WorkState {
        state,
        since: Timestamp::UNIX_EPOCH,
        why: None,
        code: None,
        uid: None,
        path: None,
        commit: None,
        view: view.into(),
    }
}

/// A source with these works, without a commit, errors and holds.
pub fn source_status(
    source: &str,
    works: impl IntoIterator<Item = (WorkKey, WorkState)>,
) -> SourceStatus {
    SourceStatus {
        source: SourceId::parse(source).unwrap(),
        commit: None,
        works: works.into_iter().collect(),
        unreachable: BTreeSet::new(),
        record_generation: 0,
        errors: 0,
        first_error: None,
        findings: Vec::new(),
        facts: None,
        held: Vec::new(),
        rollouts: Vec::new(),
    }
}
