//! Checks deletions, releases and changes of a `deleteOption` against the final state of a work in
//! Git.

use gitwork_core::model::name::WorkKey;
use gitwork_core::model::work::DeletionPolicy;
use gitwork_core::plan::Effect;
use serde_json::Value;

use super::{Checker, prune, uid};
use crate::agents::Object;
use crate::fleet::git::{Commit, removal};
use crate::git_work::{Works, orphans};
use crate::moves::{delete_option, gives_all, listed, moves_away, same_for_rest, strategy};

/// The `deleteOption` and `prune` that may count for a work that Git dropped: those of the last
/// commit that had it. If that commit cannot be read, those on the hub may count, too.
pub(super) fn final_states(
    commits: &[Commit],
    head: usize,
    key: &WorkKey,
    on_hub: &Value,
) -> Vec<(DeletionPolicy, bool)> {
    let own = (delete_option(on_hub), prune(on_hub));
    let Some((last_in, removed_by)) = removal(commits, head, key) else {
        return vec![own];
    };
    let (before, after) = (&commits[last_in].content, &commits[removed_by].content);
    let work = &before.works[key];
    let mut states = vec![(work.deletion_policy(), work.prune)];
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
        // It begins again without the objects that it gave away: a work is never empty.
        let is_restarted = matches!(effect, Effect::Delete { .. })
            && gives_all(&content.works, key, &listed(before));
        return if is_restarted { Ok(()) } else { Err("Git has it".into()) };
    }
    let states = final_states(commits, head, key, before);
    let hub = delete_option(before);
    let fits_final = |option: &DeletionPolicy, last: &DeletionPolicy| {
        same_for_rest([option, last], &content.works, key, before)
    };
    // A work that gives all its objects away has nothing to release.
    let is_emptied = gives_all(&content.works, key, &listed(before));
    let fits = |(option, prune): &(DeletionPolicy, bool)| match effect {
        Effect::Release { .. } => !prune,
        Effect::SetDeleteOption { delete_option, .. } => {
            (*prune || is_emptied) && fits_final(delete_option, option)
        }
        _ => (*prune || is_emptied) && fits_final(&hub, option),
    };
    if states.iter().any(fits) {
        return Ok(());
    }
    Err(format!("the final states in Git were {states:?}, the hub has {hub:?}"))
}

impl Checker {
    /// Whether the agent has released the objects that stay, and still owns those that go.
    pub(super) fn check_released(
        &self,
        works: &Works,
        key: &WorkKey,
        before: &Value,
    ) -> Result<(), String> {
        let agents = self.agents.lock().unwrap();
        let option = delete_option(before);
        let moves = |object: &Object| moves_away(works, key, &object.1);
        if option == DeletionPolicy::Foreground {
            let stays = agents.would_stay(key, before).into_iter().find(|one| !moves(one));
            return match stays {
                Some(object) => Err(format!("{object:?} would stay on {}", key.cluster)),
                None => Ok(()),
            };
        }
        // Objects that left the work before go in any case. An agent does not orphan an object that
        // it only reads, whoever owns it.
        let listed = listed(before);
        let stays = |object: &Object| {
            listed.contains(&object.1)
                && orphans(&option, &object.1)
                && strategy(before, &object.1).as_deref() != Some("ReadOnly")
        };
        match agents.would_go(key, uid(before)).into_iter().find(stays) {
            Some(object) => Err(format!("{object:?} would be deleted with it")),
            None => Ok(()),
        }
    }
}
