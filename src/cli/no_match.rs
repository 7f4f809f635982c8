//! Filters and names that select nothing.

use super::error::CommandError;
use super::read_args::is_unknown;
use super::source_args::{Filter, FilterArgs};
use gitwork_core::model::diagnostic::Diagnostic;
use gitwork_core::model::name::WorkKey;
use gitwork_core::render::desired::{Desired, Frozen};

/// The error that the filter selects no work; `None` if works may be missing because of a problem.
/// `on_hub`: works that there are beside those of Git.
pub(super) fn no_match<'a>(
    args: &FilterArgs,
    filter: &Filter,
    states: &'a [&'a Desired],
    on_hub: &'a [&'a WorkKey],
) -> Option<CommandError> {
    let in_git = || states.iter().flat_map(|desired| desired.named_works());
    let named = || in_git().chain(on_hub.iter().copied());
    let may_hide = |found: &Diagnostic| {
        (found.is_error() || is_unknown(found)) && filter.concerns(&found.scope)
    };
    let is_frozen = |state: &&Desired| {
        let Frozen { source, clusters, groups, .. } = &state.frozen;
        *source || !groups.is_empty() || clusters.iter().any(|one| filter.matches_cluster(one))
    };
    let mut diagnostics = states.iter().flat_map(|desired| &desired.diagnostics);
    let is_unknown = states.iter().any(is_frozen) || diagnostics.any(may_hide);
    if is_unknown || named().any(|key| filter.matches(key)) {
        return None;
    }
    args.no_match(filter, named)
}
