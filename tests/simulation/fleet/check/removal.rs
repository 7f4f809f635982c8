//! Checks deletions, releases and changes of a `deleteOption` against the final state of a work in
//! Git.

use gitwork_core::model::name::WorkKey;
use gitwork_core::model::work::DeletionPolicy;
use gitwork_core::plan::Effect;
use serde_json::Value;

use super::{Checker, prune, uid};
use crate::simulation::agents::Object;
use crate::simulation::fleet::git::{Commit, removal};

/// The `deleteOption` and `prune` that may count for a work that Git dropped: those of the last
/// commit that had it. If that commit cannot be read, those on the hub may count, too.
fn final_states(
    commits: &[Commit],
    head: usize,
    key: &WorkKey,
    on_hub: &Value,
) -> Vec<(DeletionPolicy, bool)> {
    let own = (DeletionPolicy::from_value(&on_hub["spec"]["deleteOption"]), prune(on_hub));
    let Some((last_in, removed_by)) = removal(commits, head, key) else {
        return vec![own];
    };
    let (before, after) = (&commits[last_in].content, &commits[removed_by].content);
    let work = &before.works[key];
    let mut states = vec![(work.delete_option.clone(), work.prune)];
    if before.freezes(key) || after.freezes(key) {
        states.push(own);
    }
    states
}

/// Whether the commit asks for the removal, with the final state of the work in Git.
pub(super) fn check_removal(
    commits: &[Commit],
    head: usize,
    key: &WorkKey,
    effect: &Effect,
    before: &Value,
) -> Result<(), String> {
    let content = &commits[head].content;
    if content.freezes(key) {
        return Err("it is frozen".into());
    }
    if content.works.contains_key(key) {
        return Err("Git has it".into());
    }
    let states = final_states(commits, head, key, before);
    let hub = DeletionPolicy::from_value(&before["spec"]["deleteOption"]);
    let fits = |(option, prune): &(DeletionPolicy, bool)| match effect {
        Effect::Release { .. } => !prune,
        Effect::SetDeleteOption { delete_option, .. } => *prune && option == delete_option,
        _ => *prune && *option == hub,
    };
    if states.iter().any(fits) {
        return Ok(());
    }
    Err(format!("the final states in Git were {states:?}, the hub has {hub:?}"))
}

impl Checker {
    /// Whether the agent has released the objects that stay, and still owns those that go.
    pub(super) fn check_released(&self, key: &WorkKey, before: &Value) -> Result<(), String> {
        let agents = self.agents.lock().unwrap();
        let option = DeletionPolicy::from_value(&before["spec"]["deleteOption"]);
        if option == DeletionPolicy::Foreground {
            return match agents.would_stay(key, before) {
                Some(object) => Err(format!("{object:?} would stay on {}", key.cluster)),
                None => Ok(()),
            };
        }
        // Objects that left the work before go in any case.
        if before["spec"]["workload"]["manifests"].as_array().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        let stays = |object: &Object| match &option {
            DeletionPolicy::SelectivelyOrphan(rules) => rules.contains(&object.1),
            _ => true,
        };
        match agents.would_go(key, uid(before)).into_iter().find(stays) {
            Some(object) => Err(format!("{object:?} would be deleted with it")),
            None => Ok(()),
        }
    }
}
