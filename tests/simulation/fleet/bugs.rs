//! Planted bugs: each makes gitwork, as the simulation runs it, do what a careless change of it would do. A checker
//! that finds none of them would be worth nothing.

use std::collections::BTreeSet;

use gitwork::core::approval::Target;
use gitwork::core::desired::{Desired, Frozen};
use gitwork::core::directives::Directives;
use gitwork::core::name::WorkKey;
use gitwork::core::observed::ObservedWork;
use gitwork::core::plan::Effect;
use gitwork::core::window::ChangeWindows;

use crate::simulation::agents::Slip;
use crate::simulation::world::SOURCE;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    PreconditionDropped,
    ConflictRetriedBlindly,
    DeletedBeforeOptionIsSet,
    DeletedBeforeOrphaned,
    HistoryNotAsked,
    BrokenTakenForAbsent,
    SuspendIgnored,
    ForeignTakenOver,
    ForeignCountedAsOurs,
    ReleasedByDeleting,
    BudgetIgnored,
    NewcomerMarkForgotten,
    WrittenWithoutNeed,
    DeletionNotNoticed,
    CutWatchNotListedAnew,
    LostWriteTakenForDone,
    FinalizersOverwritten,
    UserLabelsWiped,
    WindowsIgnored,
    ClockTakenForMonotonic,
    UnverifiedFollowed,
    ApprovalTakenForNamesake,
    OrphansDeletedByAgent,
    NamesakeDeletedByAgent,
    EmptyWorkWaitedFor,
    ConsentToAnotherTaken,
}

pub const ALL: [Bug; 26] = [
    Bug::PreconditionDropped,
    Bug::ConflictRetriedBlindly,
    Bug::DeletedBeforeOptionIsSet,
    Bug::DeletedBeforeOrphaned,
    Bug::HistoryNotAsked,
    Bug::BrokenTakenForAbsent,
    Bug::SuspendIgnored,
    Bug::ForeignTakenOver,
    Bug::ForeignCountedAsOurs,
    Bug::ReleasedByDeleting,
    Bug::BudgetIgnored,
    Bug::NewcomerMarkForgotten,
    Bug::WrittenWithoutNeed,
    Bug::DeletionNotNoticed,
    Bug::CutWatchNotListedAnew,
    Bug::LostWriteTakenForDone,
    Bug::FinalizersOverwritten,
    Bug::UserLabelsWiped,
    Bug::WindowsIgnored,
    Bug::ClockTakenForMonotonic,
    Bug::UnverifiedFollowed,
    Bug::ApprovalTakenForNamesake,
    Bug::OrphansDeletedByAgent,
    Bug::NamesakeDeletedByAgent,
    Bug::EmptyWorkWaitedFor,
    Bug::ConsentToAnotherTaken,
];

impl Bug {
    /// What is wrong, for the table of `docs/simulation.md`.
    pub fn says(self) -> &'static str {
        match self {
            Self::PreconditionDropped => {
                "a write is sent with the version that the hub has now, not with the planned one"
            }
            Self::ConflictRetriedBlindly => {
                "a write that was refused as stale is sent again as it was"
            }
            Self::DeletedBeforeOptionIsSet => {
                "a work is deleted where its deleteOption should be set first"
            }
            Self::DeletedBeforeOrphaned => {
                "the agent is taken to have applied whatever the hub has"
            }
            Self::HistoryNotAsked => "Git is not asked for its last word on a work that is gone",
            Self::BrokenTakenForAbsent => "what cannot be read is taken for absent",
            Self::SuspendIgnored => "a suspended work is written all the same",
            Self::ForeignTakenOver => {
                "a work whose name is taken is written over the one that has it"
            }
            Self::ForeignCountedAsOurs => "the list of works is not limited to the source's label",
            Self::ReleasedByDeleting => "a work with `prune: false` is deleted",
            Self::BudgetIgnored => "there is no deletion budget",
            Self::NewcomerMarkForgotten => "what is made while deletions are held gets no mark",
            Self::WrittenWithoutNeed => "a work is written though nothing has changed",
            Self::DeletionNotNoticed => "the watch does not tell of deletions",
            Self::CutWatchNotListedAnew => "a watch that broke goes on without a list",
            Self::LostWriteTakenForDone => "a write without an answer is taken for done",
            Self::FinalizersOverwritten => "an update takes the agent's finalizer off",
            Self::UserLabelsWiped => "an update takes the labels of others off",
            Self::WindowsIgnored => "changes are made at any hour",
            Self::ClockTakenForMonotonic => "a clock that is set back is taken to stand still",
            Self::UnverifiedFollowed => "a commit that is not signed is followed",
            Self::ApprovalTakenForNamesake => {
                "an approval is taken for another work of the same name"
            }
            Self::OrphansDeletedByAgent => "the agent deletes what its work does not own",
            Self::NamesakeDeletedByAgent => {
                "the agent deletes what somebody made anew under an object's name"
            }
            Self::ConsentToAnotherTaken => {
                "the consent to a take-over by another source is taken for one's own"
            }
            Self::EmptyWorkWaitedFor => {
                "of a work without manifests the agent's word is waited for, which never comes"
            }
        }
    }

    /// What an agent does wrong.
    pub fn slip(self) -> Option<Slip> {
        match self {
            Self::OrphansDeletedByAgent => Some(Slip::DeletesOrphans),
            Self::NamesakeDeletedByAgent => Some(Slip::IgnoresUids),
            _ => None,
        }
    }

    /// What operators say on the hub, which has these works.
    pub fn spoil_directives(self, said: &mut Directives, works: &[ObservedWork]) {
        if self != Self::ApprovalTakenForNamesake {
            return;
        }
        let approved = &mut said.approvals.deletions;
        let names: BTreeSet<WorkKey> = approved.iter().map(|target| target.key.clone()).collect();
        let namesakes = works.iter().filter(|work| names.contains(&work.key));
        approved
            .extend(namesakes.map(|work| Target { key: work.key.clone(), uid: work.uid.clone() }));
    }

    /// What is read from Git.
    pub fn spoil_desired(self, desired: &mut Desired) {
        match self {
            Self::BrokenTakenForAbsent => desired.frozen = Frozen::default(),
            Self::WindowsIgnored => desired.rules.windows = ChangeWindows::default(),
            Self::SuspendIgnored => {
                desired.works.values_mut().for_each(|work| work.suspend = false);
            }
            _ => {}
        }
    }

    /// What the hub tells of a work.
    pub fn spoil_work(self, work: &mut ObservedWork) {
        match self {
            Self::DeletedBeforeOrphaned => {
                work.agent.applied_generation = Some(work.generation);
                work.agent.applied = true;
            }
            Self::ConsentToAnotherTaken => {
                work.adopt = work.adopt.as_ref().map(|_| SOURCE.into());
            }
            Self::EmptyWorkWaitedFor => work.agent.is_empty = false,
            Self::WrittenWithoutNeed => work.digest.0[0] ^= 1,
            _ => {}
        }
    }

    /// What is sent to the hub, which has `there` by now.
    pub fn spoil_effect(self, effect: &Effect, there: Option<&ObservedWork>) -> Option<Effect> {
        let there_uid = there.map(|work| work.uid.clone());
        let there_version = there.map(|work| work.resource_version.clone())?;
        match (self, effect) {
            (Self::PreconditionDropped, effect) => Some(with_version(effect, there?)),
            (Self::DeletedBeforeOptionIsSet, Effect::SetDeleteOption { resource_version, .. }) => {
                Some(Effect::Delete { uid: there_uid?, resource_version: resource_version.clone() })
            }
            (Self::ReleasedByDeleting, Effect::Release { resource_version }) => {
                Some(Effect::Delete { uid: there_uid?, resource_version: resource_version.clone() })
            }
            (Self::ForeignTakenOver, Effect::Create { body }) => Some(Effect::Update {
                body: body.clone(),
                resource_version: there_version,
                metadata: gitwork::core::plan::MetadataChange {
                    labels_absent: there?.labels_absent,
                    annotations_absent: there?.annotations_absent,
                    ..Default::default()
                },
            }),
            _ => None,
        }
    }

    /// What is sent where nothing needs to be there.
    pub fn spoil_new(self, effect: &mut Effect) {
        if let (Self::NewcomerMarkForgotten, Effect::Create { body } | Effect::Adopt { body, .. }) =
            (self, effect)
        {
            std::sync::Arc::make_mut(body).newcomer = false;
        }
    }
}

/// The effect with the precondition that fits what is there.
pub fn with_version(effect: &Effect, there: &ObservedWork) -> Effect {
    let mut effect = effect.clone();
    match &mut effect {
        Effect::Create { .. } => {}
        Effect::Update { resource_version, .. }
        | Effect::Adopt { resource_version, .. }
        | Effect::SetDeleteOption { resource_version, .. }
        | Effect::Release { resource_version } => {
            resource_version.clone_from(&there.resource_version);
        }
        Effect::Delete { uid, resource_version } => {
            uid.clone_from(&there.uid);
            resource_version.clone_from(&there.resource_version);
        }
    }
    effect
}
