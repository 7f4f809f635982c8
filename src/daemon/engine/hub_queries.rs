//! What a plan needs from the hub, besides the watched works and the record.

use std::time::Instant;

use crate::limits;
use gitwork_core::model::name::SourceId;
use gitwork_hub::Hub;
use gitwork_retry::log_error;
use gitwork_sync::facts::SourceFacts;

/// Reads the directives of operators. Gives whether one requests a sync.
pub(super) async fn ask_directives(
    hub: &dyn Hub,
    id: &SourceId,
    facts: &mut SourceFacts,
    now: Instant,
) -> bool {
    let found = hub.directives(id).await;
    if let Err(error) = &found {
        log_error!(warn, error, source = %id, "cannot read the directives on the hub");
    }
    let is_requested = facts.directives.set(found.ok(), now);
    if is_requested {
        tracing::info!(source = %id, "an operator requested a sync: fetching now");
    }
    is_requested
}

/// Reads works that give objects to others, and the works of replica sets that give or get some.
/// Without it, such objects stay where they are.
pub(super) async fn read_contents(
    hub: &dyn Hub,
    id: &SourceId,
    facts: &mut SourceFacts,
    now: Instant,
) {
    let keys = facts.contents_to_read(now);
    for set in facts.sets_to_read() {
        let works = hub.set_works(&set).await;
        if let Err(error) = &works {
            log_error!(warn, error, source = %id, set = %set, "cannot read the works of a replica \
                set; no object moves from it or to it");
        }
        facts.set_works_of_set(&set, works);
    }
    if keys.is_empty() {
        return;
    }
    let read = gitwork_hub::read_contents(hub, keys).await;
    for (key, result) in &read {
        if let Err(error) = result {
            log_error!(warn, error, source = %id, work = %key, "cannot read a work from which \
                objects move; they stay in it");
        }
    }
    facts.set_contents(read, now + limits::DIRECTIVES_RETRY);
}
