//! Finds applied commits that a source abandons: a forced push, an older commit, another
//! branch. Pure.
//!
//! Only the hub shows which commit was applied last: by its record of the source, which only
//! gitwork writes. So a new process on a new machine with an empty mirror decides as the old one
//! did. A commit that the remote no longer has counts as abandoned.
//!
//! Without a record, the commits on works are hints. The agent of a managed cluster may write them
//! on its own works, so that a commit that one cluster alone names does not count in a larger
//! fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::approval::Rewind;
use crate::model::name::{ClusterName, CommitId, SourceId};
use crate::plan::observed::Observed;
use crate::plan::record::Record;

/// The commits in the annotations of the source's works on the hub. If the source has works on
/// several clusters, only those that two of them name.
pub fn commits_on_works(source: &SourceId, observed: &Observed) -> BTreeSet<CommitId> {
    let ours = || observed.works.values().filter(|work| work.is_ours(source));
    let first = ours().next().map(|work| &work.key.cluster);
    let has_several = ours().any(|work| Some(&work.key.cluster) != first);
    // One at a time: thousands of works name a few commits.
    let mut commits: BTreeMap<CommitId, (&ClusterName, bool)> = BTreeMap::new();
    for work in ours() {
        let (Some(commit), cluster) = (work.commit, &work.key.cluster) else { continue };
        let (named_by, counts) = commits.entry(commit).or_insert((cluster, !has_several));
        *counts |= *named_by != cluster;
    }
    commits.into_iter().filter(|(_, (_, counts))| *counts).map(|(commit, _)| commit).collect()
}

/// The commits that were applied according to the hub: the one of the record. Without one, those on
/// works, without abandoned ones.
pub fn applied<'a>(
    commits_on_works: &'a BTreeSet<CommitId>,
    record: Option<&'a Record>,
) -> impl Iterator<Item = CommitId> + 'a {
    let recorded = record.and_then(|record| record.commit);
    let is_abandoned =
        move |commit: &CommitId| record.is_some_and(|record| record.abandoned.contains(commit));
    let hints = commits_on_works.iter().copied().filter(move |commit| !is_abandoned(commit));
    recorded.into_iter().chain(hints.filter(move |_| recorded.is_none()))
}

/// The commits that the hub showed as applied at one time.
#[derive(Debug, Clone, Default)]
pub struct AppliedCommits {
    /// Those in the annotations of works.
    pub on_works: Arc<BTreeSet<CommitId>>,
    /// The one of the record.
    pub recorded: Option<CommitId>,
}

impl AppliedCommits {
    /// Whether the hub showed each of `commits` as applied.
    pub fn has_all(&self, commits: &BTreeSet<CommitId>) -> bool {
        let has =
            |commit: &CommitId| self.recorded == Some(*commit) || self.on_works.contains(commit);
        commits.iter().all(has)
    }
}

/// Git's answers about one head: the commits that it builds on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeadAncestry {
    head: Option<CommitId>,
    reached: BTreeSet<CommitId>,
    unreached: BTreeSet<CommitId>,
}

impl HeadAncestry {
    /// The commits to look up in Git before `rewound` is known for all of `commits`. If the head
    /// has moved, the old head comes first: a head that builds on it builds on its ancestors, too.
    pub fn unknown_commits(
        &self,
        head: CommitId,
        commits: impl IntoIterator<Item = CommitId>,
    ) -> BTreeSet<CommitId> {
        let mut commits = commits.into_iter();
        match self.head {
            Some(at) if at == head => {
                let known = |commit: &CommitId| {
                    self.reached.contains(commit) || self.unreached.contains(commit)
                };
                commits.filter(|commit| !known(commit)).collect()
            }
            Some(before) if self.unreached.is_empty() => {
                commits.next().map(|_| before).into_iter().collect()
            }
            _ => commits.collect(),
        }
    }

    /// Records Git's answer. `unreached`: those of `looked_up` that `head` does not build on.
    pub fn record(
        &mut self,
        head: CommitId,
        looked_up: &BTreeSet<CommitId>,
        unreached: &BTreeSet<CommitId>,
    ) {
        if self.head != Some(head) {
            let builds_on_it =
                self.head.is_some_and(|before| looked_up.contains(&before)) && unreached.is_empty();
            if !builds_on_it {
                self.reached.clear();
            }
            self.unreached.clear();
            self.head = Some(head);
        }
        for commit in looked_up {
            let list =
                if unreached.contains(commit) { &mut self.unreached } else { &mut self.reached };
            list.insert(*commit);
        }
    }

    /// Whether the head is known to build on a commit.
    pub fn is_reached(&self, commit: CommitId) -> bool {
        self.reached.contains(&commit)
    }

    /// Whether the head is not known to abandon any commit.
    pub fn is_clear(&self) -> bool {
        self.unreached.is_empty()
    }

    /// Those of `commits` that the head does not build on.
    pub fn rewound(&self, commits: impl IntoIterator<Item = CommitId>) -> BTreeSet<CommitId> {
        commits.into_iter().filter(|commit| self.unreached.contains(commit)).collect()
    }

    /// Whether one of the approvals allows the head to abandon all of `rewound`: it names them, and
    /// the head is the commit that it names, or builds on it.
    pub fn is_approved(&self, rewound: &BTreeSet<CommitId>, approvals: &BTreeSet<Rewind>) -> bool {
        approvals.iter().any(|approval| {
            let there = self.head == Some(approval.to) || self.reached.contains(&approval.to);
            there && rewound.is_subset(&approval.from)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::name::ObjectId;
    use crate::plan::observed::ObservedWork;

    fn commit(number: u8) -> CommitId {
        ObjectId([number; 20])
    }

    fn commits(numbers: &[u8]) -> BTreeSet<CommitId> {
        numbers.iter().map(|number| commit(*number)).collect()
    }

    fn source() -> SourceId {
        SourceId::parse("fleet").unwrap()
    }

    fn on_hub(cluster: &str, name: &str, owner: &str, commit: &str) -> ObservedWork {
        ObservedWork::from_manifest_work(json!({
            "metadata": {
                "namespace": cluster, "name": name, "uid": name, "resourceVersion": "1",
                "labels": {"gitwork.dev/source": owner},
                "annotations": {"gitwork.dev/commit": commit},
            },
        }))
        .unwrap()
    }

    fn on_works(works: &[(&str, &str, &str, String)]) -> BTreeSet<CommitId> {
        let mut observed = Observed::default();
        for (cluster, name, owner, of) in works {
            let work = on_hub(cluster, name, owner, of);
            observed.works.insert(work.key.clone(), work);
        }
        commits_on_works(&source(), &observed)
    }

    #[test]
    fn record_shows_the_applied_commit_and_works_are_hints_without_it() {
        let hints = on_works(&[
            ("edge-1", "api", "fleet", commit(1).to_string()),
            ("edge-1", "db", "fleet", commit(2).to_string()),
            ("edge-1", "web", "other", commit(3).to_string()),
            ("edge-1", "x", "fleet", "main".into()),
        ]);
        assert_eq!(hints, commits(&[1, 2]));
        let all = |record: Option<&Record>| applied(&hints, record).collect::<BTreeSet<_>>();
        assert_eq!(all(None), commits(&[1, 2]));
        let record = Record { abandoned: commits(&[1, 9]), ..Record::default() };
        assert_eq!(all(Some(&record)), commits(&[2]));
        let record = Record { commit: Some(commit(4)), ..record };
        assert_eq!(all(Some(&record)), commits(&[4]));
    }

    #[test]
    fn commit_that_one_cluster_alone_names_does_not_count_for_the_others() {
        let found = on_works(&[
            ("edge-1", "api", "fleet", commit(7).to_string()),
            ("edge-1", "db", "fleet", commit(7).to_string()),
            ("edge-1", "web", "fleet", commit(1).to_string()),
            ("edge-2", "web", "fleet", commit(1).to_string()),
            ("edge-3", "web", "other", commit(7).to_string()),
        ]);
        assert_eq!(found, commits(&[1]));
    }

    #[test]
    fn git_is_asked_once_about_each_commit_and_once_when_the_head_moves_on() {
        let mut ancestry = HeadAncestry::default();
        let all = commits(&[1, 2, 3]);
        assert_eq!(ancestry.unknown_commits(commit(4), all.clone()), all);
        ancestry.record(commit(4), &all, &commits(&[]));
        assert_eq!(ancestry.unknown_commits(commit(4), all.clone()), commits(&[]));
        assert_eq!(ancestry.unknown_commits(commit(4), commits(&[1, 7])), commits(&[7]));
        // The head moves on: one question answers for all.
        let looked_up = ancestry.unknown_commits(commit(5), all.clone());
        assert_eq!(looked_up, commits(&[4]));
        ancestry.record(commit(5), &looked_up, &commits(&[]));
        assert_eq!(ancestry.unknown_commits(commit(5), all.clone()), commits(&[]));
        assert_eq!(ancestry.rewound(all.clone()), commits(&[]));
        // It moves elsewhere: nothing that was known of the old one counts.
        let looked_up = ancestry.unknown_commits(commit(6), all.clone());
        ancestry.record(commit(6), &looked_up, &looked_up.clone());
        assert_eq!(ancestry.unknown_commits(commit(6), all.clone()), all);
        ancestry.record(commit(6), &all, &commits(&[3]));
        assert_eq!(ancestry.rewound(all.clone()), commits(&[3]));
        // And back again, while a commit is abandoned: all are looked up again.
        assert_eq!(ancestry.unknown_commits(commit(5), all.clone()), all);
    }

    #[test]
    fn an_approval_covers_its_commit_and_commits_that_build_on_it() {
        let rewind =
            |from: &[u8], to| Rewind { source: source(), from: commits(from), to: commit(to) };
        let mut ancestry = HeadAncestry::default();
        ancestry.record(commit(6), &commits(&[1, 3, 5]), &commits(&[3]));
        let left = commits(&[3]);
        for (approval, expected) in [
            (rewind(&[3], 6), true),
            (rewind(&[3], 5), true),
            (rewind(&[2, 3], 6), true),
            (rewind(&[2], 6), false),
            (rewind(&[3], 7), false),
            (rewind(&[], 6), false),
        ] {
            let all = [approval.clone()].into();
            assert_eq!(ancestry.is_approved(&left, &all), expected, "{approval:?}");
        }
    }
}
