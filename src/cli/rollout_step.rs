//! `rollout approve`, `pause`, `resume`, `abort` and `return`: what an operator wants of a rollout.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use jiff::Timestamp;

use super::approval_args::ApprovalArgs;
use super::argument_error::ArgumentError;
use super::compare::{HubPlan, plan_against_hub};
use super::completion;
use super::error::{CommandError, did_you_mean};
use super::exit::Exit;
use super::output;
use gitwork_core::model::approval::{Approval, RolloutApproval, RolloutStep};
use gitwork_core::model::name::GroupName;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::plan::rollouts::RolloutControl;
use gitwork_core::text::closest;

#[derive(Debug, Args)]
#[command(after_help = APPROVE_EXAMPLES)]
pub(super) struct ApproveWaveArgs {
    /// Wave to approve [default: the one that waits]
    #[arg(long, value_name = "NAME")]
    wave: Option<String>,
    #[command(flatten)]
    step: RolloutStepArgs,
}

#[derive(Debug, Args)]
pub(super) struct RolloutStepArgs {
    /// Group
    #[arg(value_name = "GROUP", value_parser = group, add = completion::groups())]
    group: GroupName,
    #[command(flatten)]
    approval: ApprovalArgs,
}

pub(super) fn group(text: &str) -> Result<GroupName, ArgumentError> {
    GroupName::parse(text).map_err(ArgumentError::Group)
}

const APPROVE_EXAMPLES: &str = "\
Examples:
  gitwork rollout approve tills                approve the wave that waits
  gitwork rollout approve tills --wave others  approve a later wave in advance";

/// What an operator wants of a rollout.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wish<'a> {
    /// A wave may begin: this one, or the one that waits.
    Approve(Option<&'a str>),
    Pause,
    Resume,
    Abort,
    Return,
}

/// Why a rollout cannot do what an operator wants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum RolloutStepError {
    #[error("group {group} has no rollout{near}")]
    NoRollout {
        group: GroupName,
        /// As in `; did you mean "tills"?`.
        near: String,
    },
    #[error("no wave of group {0} waits for an approval")]
    NothingToApprove(GroupName),
    #[error("the rollout of group {group} has no wave {wave:?}{near}")]
    NoWave { group: GroupName, wave: String, near: String },
    #[error("all clusters of group {0} that can get its content have it")]
    HasEnded(GroupName),
    #[error("the rollout of group {0} is paused already")]
    IsPaused(GroupName),
    #[error("the rollout of group {0} is stopped already")]
    IsStopped(GroupName),
    #[error("the rollout of group {0} is neither paused nor stopped")]
    IsGoing(GroupName),
    #[error("the record on the hub has no content that clusters of group {0} could get back")]
    NoLastGood(GroupName),
}

impl OperationError for RolloutStepError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::NoRollout { .. } => "NoRollout",
            Self::NothingToApprove(_) => "NothingToApprove",
            Self::NoWave { .. } => "NoWave",
            Self::HasEnded(_) => "RolloutEnded",
            Self::IsPaused(_) => "RolloutPaused",
            Self::IsStopped(_) => "RolloutStopped",
            Self::IsGoing(_) => "RolloutGoing",
            Self::NoLastGood(_) => "NoLastGoodContent",
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NoRollout { .. } => "set `rollout` in its group.yaml, or in gitwork.yaml",
            Self::NothingToApprove(_) => {
                "`gitwork rollout status` shows what each rollout waits for; with --wave, a wave \
                 is approved in advance"
            }
            Self::NoWave { .. } | Self::IsGoing(_) => {
                "`gitwork rollout status` shows what each rollout waits for"
            }
            Self::HasEnded(_) => "to undo the change, revert its commit in Git",
            Self::IsPaused(_) => "`gitwork rollout resume` lets it continue",
            Self::IsStopped(_) => {
                "`gitwork rollout resume` lets it continue, `return` gives clusters the last good \
                 content back"
            }
            Self::NoLastGood(_) => "revert the commit in Git",
        };
        vec![hint.to_owned()]
    }
}

impl fmt::Display for Wish<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Approve(_) => "approved a wave of",
            Self::Pause => "paused",
            Self::Resume => "resumed",
            Self::Abort => "stopped",
            Self::Return => "returned",
        })
    }
}

impl Wish<'_> {
    /// The step of the rollout that fulfils it.
    fn step(self, control: &RolloutControl) -> Result<RolloutStep, RolloutStepError> {
        let group = || control.group.clone();
        if control.has_ended && !control.is_stopped && !matches!(self, Self::Approve(Some(_))) {
            return Err(RolloutStepError::HasEnded(group()));
        }
        match self {
            Self::Approve(None) => {
                let waiting = control.waiting_wave.clone().map(RolloutStep::Wave);
                waiting.ok_or_else(|| RolloutStepError::NothingToApprove(group()))
            }
            Self::Approve(Some(wave)) if control.waves.iter().any(|known| known == wave) => {
                Ok(RolloutStep::Wave(wave.to_owned()))
            }
            Self::Approve(Some(wave)) => {
                let near = closest(wave, control.waves.iter().map(String::as_str));
                let near = did_you_mean(near.map(|near| format!("{near:?}")));
                Err(RolloutStepError::NoWave { group: group(), wave: wave.to_owned(), near })
            }
            Self::Pause if control.is_paused => Err(RolloutStepError::IsPaused(group())),
            Self::Pause => Ok(RolloutStep::Pause(control.pauses.saturating_add(1))),
            Self::Resume if control.is_stopped => Ok(RolloutStep::Retry(control.attempt)),
            Self::Resume if control.is_paused => Ok(RolloutStep::Resume(control.pauses)),
            Self::Resume => Err(RolloutStepError::IsGoing(group())),
            Self::Abort if control.is_stopped => Err(RolloutStepError::IsStopped(group())),
            Self::Abort => Ok(RolloutStep::Stop(control.attempt)),
            Self::Return if !control.has_last_good => Err(RolloutStepError::NoLastGood(group())),
            Self::Return => Ok(RolloutStep::Return(control.attempt)),
        }
    }
}

impl ApproveWaveArgs {
    /// Runs `gitwork rollout approve`.
    pub fn approve(&self) -> Result<Exit, CommandError> {
        self.step.ask_for(Wish::Approve(self.wave.as_deref()))
    }
}

impl RolloutStepArgs {
    /// Stores on the hub what an operator wants, or prints it.
    pub fn ask_for(&self, wish: Wish<'_>) -> Result<Exit, CommandError> {
        let cancel = Arc::new(AtomicBool::new(false));
        let (configured, now) = (self.approval.configured()?, Timestamp::now());
        let HubPlan { desired, id_from, state, .. } =
            plan_against_hub(configured, &self.approval.hub, now, &cancel)?;
        let source = &desired.source;
        let control = self.control(state.rollout_controls())?;
        let step = wish.step(control)?;
        let step = RolloutApproval { group: self.group.clone(), content: control.content, step };
        let approval = Approval::Rollout { source: source.clone(), step };
        if self.approval.print {
            output::print(&approval.text())?;
            let hash = approval.hash();
            output::note(&format!("commit this text to Git as approvals/{hash}"));
            return Ok(Exit::Done);
        }
        id_from.check_write(source)?;
        let stored = self.approval.store(&approval, (source, &state))?;
        output::note(&format!(
            "{} {wish} the rollout of group {}; that is in the {}",
            stored.who, self.group, stored.place
        ));
        Ok(Exit::Done)
    }

    fn control<'a>(
        &self,
        all: &'a [RolloutControl],
    ) -> Result<&'a RolloutControl, RolloutStepError> {
        let found = all.iter().find(|control| control.group == self.group);
        found.ok_or_else(|| {
            let names = all.iter().map(|control| control.group.as_str());
            let near = closest(self.group.as_str(), names);
            let near = did_you_mean(near.map(|near| format!("{near:?}")));
            RolloutStepError::NoRollout { group: self.group.clone(), near }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gitwork_core::model::digest::Digest;

    fn control() -> RolloutControl {
        RolloutControl {
            group: GroupName::parse("tills").unwrap(),
            content: Digest::of(b"x"),
            waves: vec!["lab".into(), "others".into(), "*".into()],
            has_ended: false,
            is_stopped: false,
            is_paused: false,
            has_last_good: true,
            waiting_wave: None,
            attempt: 2,
            pauses: 1,
        }
    }

    fn outcome(wish: Wish<'_>, change: impl FnOnce(&mut RolloutControl)) -> String {
        let mut control = control();
        change(&mut control);
        match wish.step(&control) {
            Ok(step) => step.to_string(),
            Err(why) => why.reason().to_owned(),
        }
    }

    #[test]
    fn each_wish_is_a_step_unless_the_rollout_cannot_do_it() {
        assert_eq!(outcome(Wish::Pause, |_| {}), "pause 2");
        assert_eq!(outcome(Wish::Pause, |one| one.is_paused = true), "RolloutPaused");
        assert_eq!(outcome(Wish::Resume, |one| one.is_paused = true), "resume 1");
        assert_eq!(outcome(Wish::Resume, |one| one.is_stopped = true), "retry 2");
        assert_eq!(outcome(Wish::Resume, |_| {}), "RolloutGoing");
        assert_eq!(outcome(Wish::Abort, |_| {}), "stop 2");
        assert_eq!(outcome(Wish::Abort, |one| one.is_stopped = true), "RolloutStopped");
        assert_eq!(outcome(Wish::Return, |_| {}), "return 2");
        assert_eq!(outcome(Wish::Return, |one| one.is_stopped = true), "return 2");
        assert_eq!(outcome(Wish::Return, |one| one.has_last_good = false), "NoLastGoodContent");
        assert_eq!(outcome(Wish::Return, |one| one.has_ended = true), "RolloutEnded");
        assert_eq!(outcome(Wish::Approve(None), |_| {}), "NothingToApprove");
        let waits = |one: &mut RolloutControl| one.waiting_wave = Some("others".into());
        assert_eq!(outcome(Wish::Approve(None), waits), "wave others");
        assert_eq!(outcome(Wish::Approve(Some("lab")), |_| {}), "wave lab");
        let why = Wish::Approve(Some("othes")).step(&control()).unwrap_err().to_string();
        assert_eq!(
            why,
            "the rollout of group tills has no wave \"othes\"; did you mean \"others\"?"
        );
    }
}
