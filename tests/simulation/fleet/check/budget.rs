//! Checks a deletion against the deletion budget.
//!
//! A process may plan from a picture of the hub that is up to `STALENESS` old. So the check blames
//! a process only for what every such picture has shown.

use std::collections::BTreeSet;

use gitwork_core::model::approval::Target;
use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::WorkKey;
use tokio::time::Instant;

use super::{Checker, STALENESS, State, WorkState};
use crate::budget_rule::{BudgetRule, ClusterRule};
use crate::fleet::git::{Commit, Head, is_trusted, removal};
use crate::moves::gives_all;

/// A deletion that reached the hub, and the commit that the process made it for.
pub(super) struct Deletion<'a> {
    pub key: &'a WorkKey,
    pub uid: &'a str,
    /// The objects that the work lists.
    pub objects: &'a BTreeSet<Identity>,
    pub commits: &'a [Commit],
    /// The states of the branch, oldest first.
    pub heads: &'a [Head],
    /// The commit that the write names.
    pub head: usize,
    /// The commits that the process followed shortly before.
    pub recent: &'a [usize],
}

/// The works that a plan deletes.
struct Planned<'a> {
    /// Every picture of the hub showed these deletions, and no operator approved them.
    certain: BTreeSet<&'a WorkKey>,
    /// Some picture of the hub showed these deletions.
    possible: BTreeSet<&'a WorkKey>,
}

/// The works of the source in any picture of the hub.
struct OnHub<'a> {
    all: BTreeSet<&'a WorkKey>,
    /// Works that stay, and were there before the deletions.
    kept: BTreeSet<&'a WorkKey>,
}

struct BudgetCheck<'a> {
    checker: &'a Checker,
    state: &'a State,
    deletion: &'a Deletion<'a>,
    /// The time of the oldest picture of the hub that a process may plan from.
    since: Instant,
}

fn names(keys: &BTreeSet<&WorkKey>) -> String {
    keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Checker {
    /// Whether the deletion budget allows the deletion.
    pub(super) fn check_budget(&self, deletion: &Deletion<'_>) -> Result<(), String> {
        let state = self.lock();
        let since = self.operator.clock.awake_ago(STALENESS).unwrap_or(state.start);
        BudgetCheck { checker: self, state: &state, deletion, since }.run()
    }
}

impl<'a> BudgetCheck<'a> {
    fn run(&self) -> Result<(), String> {
        let Deletion { key, uid, commits, heads, head, .. } = *self.deletion;
        if self.is_approved(key, uid) || self.gives_all(key, self.deletion.objects) {
            return Ok(());
        }
        let planned = self.planned();
        let heads: Vec<Head> =
            heads.iter().filter(|at| is_trusted(commits, at.commit)).copied().collect();
        let Some(last) = self.last_removal(&heads, &planned.possible) else { return Ok(()) };
        if self.owned_since(uid).is_some_and(|created| created > heads[last].at) {
            // A process that still followed an older commit created it after Git had dropped it.
            return Ok(());
        }
        let on_hub = self.on_hub(&heads, last);
        let before = last.checked_sub(1).map(|index| heads[index].commit);
        let context = || {
            format!(
                "commit {head}, after commit {before:?}, deletes {}; keeps {:?} of {:?}",
                names(&planned.certain),
                names(&on_hub.kept),
                names(&on_hub.all)
            )
        };
        if on_hub.kept.is_empty() {
            return Err(format!("nothing would stay: {}", context()));
        }
        let in_cluster = |keys: &BTreeSet<&WorkKey>| {
            keys.iter().filter(|other| other.cluster == key.cluster).count()
        };
        for rule in self.rules() {
            if !rule.allows_deletions(planned.certain.len(), on_hub.all.len()) {
                return Err(format!("over the budget of works: {}; {rule:?}", context()));
            }
            if !rule.allows_on_cluster(in_cluster(&planned.certain), in_cluster(&on_hub.kept)) {
                return Err(format!("nothing would stay on the cluster: {}; {rule:?}", context()));
            }
            let is_exceeded = |rule: &&ClusterRule| {
                let of = |keys: &BTreeSet<&WorkKey>| {
                    keys.iter().filter(|other| rule.counts(&other.cluster)).count()
                };
                !rule.allows_deletions(of(&planned.certain), of(&on_hub.all))
            };
            if let Some(exceeded) = rule.of_cluster(&key.cluster).find(is_exceeded) {
                return Err(format!("over the budget of clusters: {}; {exceeded:?}", context()));
            }
        }
        Ok(())
    }

    /// The budget of the commit, and the budget of the last commit that had the work: a commit
    /// cannot raise its own budget.
    fn rules(&self) -> Vec<BudgetRule> {
        let Deletion { key, commits, head, .. } = *self.deletion;
        let before = removal(commits, head, key).map(|(last_in, _)| &commits[last_in].content);
        let before = before.filter(|content| content.readable(key).is_some());
        let contents = before.into_iter().chain([&commits[head].content]);
        let operator = &self.checker.operator.budgets;
        contents.map(|content| BudgetRule::new(operator, &content.budgets)).collect()
    }

    fn is_approved(&self, key: &WorkKey, uid: &str) -> bool {
        self.state.approved.contains(&Target { key: key.clone(), uid: uid.into() })
    }

    /// When the object became the source's.
    fn owned_since(&self, uid: &str) -> Option<Instant> {
        let owned = (uid.to_owned(), self.checker.source.to_string());
        self.state.owned_since.get(&owned).copied()
    }

    /// Whether all objects of the work move to other works: it loses none, and counts as none.
    fn gives_all(&self, key: &WorkKey, objects: &BTreeSet<Identity>) -> bool {
        let Deletion { commits, head, .. } = *self.deletion;
        gives_all(&commits[head].content.works, key, objects)
    }

    fn is_in_a_picture(&self, state: &WorkState) -> bool {
        state.until.is_none_or(|until| until >= self.since)
    }

    /// Whether the commit deletes a work in this state.
    fn goes(&self, key: &WorkKey, state: &WorkState) -> bool {
        let Deletion { commits, head, .. } = *self.deletion;
        let content = &commits[head].content;
        self.checker.is_ours(state)
            && !content.works.contains_key(key)
            && !content.freezes(key)
            && !self.gives_all(key, &state.objects)
            && removal(commits, head, key)
                .is_none_or(|(last_in, _)| commits[last_in].content.works[key].prune)
            && state.prune
    }

    fn planned(&self) -> Planned<'a> {
        let certain = BTreeSet::from([self.deletion.key]);
        let mut planned = Planned { possible: certain.clone(), certain };
        for (key, history) in &self.state.history {
            let recent: Vec<&WorkState> =
                history.iter().filter(|state| self.is_in_a_picture(state)).collect();
            if recent.iter().any(|state| self.goes(key, state)) {
                planned.possible.insert(key);
            }
            let [state] = recent[..] else { continue };
            let is_in_all = state.until.is_none()
                && self.owned_since(&state.uid).is_some_and(|at| at < self.since);
            let goes = !state.deleting && self.goes(key, state);
            if is_in_all && goes && !self.is_approved(key, &state.uid) {
                planned.certain.insert(key);
            }
        }
        planned
    }

    /// The index of the branch state at which the last of these works was dropped.
    fn last_removal(&self, heads: &[Head], works: &BTreeSet<&WorkKey>) -> Option<usize> {
        let Deletion { commits, head, .. } = *self.deletion;
        let lacks = |at: &Head, key: &WorkKey| {
            let content = &commits[at.commit].content;
            !content.works.contains_key(key) && !content.freezes(key)
        };
        let now = heads.iter().rposition(|at| at.commit == head)?;
        let dropped_at =
            |key: &WorkKey| (0..=now).rev().take_while(|index| lacks(&heads[*index], key)).last();
        works.iter().filter_map(|key| dropped_at(key)).max()
    }

    /// The works that the plan may have seen on the hub. `last` is the index of the branch state
    /// that dropped the last of the deleted works.
    fn on_hub(&self, heads: &[Head], last: usize) -> OnHub<'a> {
        let Deletion { commits, head, recent, .. } = *self.deletion;
        let content = &commits[head].content;
        // If no commit before this one had them, this one did not drop them: a second process has
        // read a newer commit.
        let is_first = last == 0;
        let before = last.checked_sub(1).map(|index| &commits[heads[index].commit].content);
        // A write for one of these commits may still have been in flight.
        let earlier: Vec<usize> =
            heads[..last].iter().map(|at| at.commit).filter(|at| recent.contains(at)).collect();
        let mut on_hub = OnHub { all: BTreeSet::new(), kept: BTreeSet::new() };
        for (key, history) in &self.state.history {
            let ours = history.iter().filter(|state| self.is_in_a_picture(state));
            for state in ours.filter(|state| self.checker.is_ours(state)) {
                on_hub.all.insert(key);
                let stays = content.works.contains_key(key)
                    || content.freezes(key)
                    || self.gives_all(key, &state.objects);
                let was_there = is_first
                    || self.owned_since(&state.uid).is_some_and(|at| at < heads[last].at)
                    || before.is_some_and(|before| {
                        before.works.contains_key(key) || before.freezes(key)
                    })
                    || earlier.iter().any(|at| commits[*at].content.works.contains_key(key));
                if stays && was_there && !state.deleting {
                    on_hub.kept.insert(key);
                }
            }
        }
        on_hub
    }
}
