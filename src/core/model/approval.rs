//! Approvals of operators. The name of each is the hash of a text that lists exactly what is
//! approved. Pure.
//!
//! | text | approves |
//! |---|---|
//! | `CLUSTER/WORK UID` lines | the deletion of just these works |
//! | `rewind SOURCE to COMMIT`, then `from COMMIT` lines | that commit in place of these |
//! | `changes SOURCE`, then `CLUSTER/WORK VERSION` lines | just these writes in a closed window |
//! | `restored SOURCE at GENERATION` | deletions on a hub that was restored from a backup |
//! | `rollout SOURCE of HASH to GROUP`, then `wave NAME` | a wave of a rollout |
//! | the same, then `retry`, `stop`, `return`, `pause` or `resume`, and a number | to change it |
//! | `origin SOURCE`, then `from ORIGIN` and `to ORIGIN` | another repository or path |
//! | `trust SOURCE at COMMIT`, then `after COMMIT` | the first as verified, not the other |

use std::collections::BTreeSet;
use std::fmt;

use crate::limits;
use crate::model::digest::Digest;
use crate::model::name::{ClusterName, CommitId, GroupName, SourceId, WorkKey, WorkName};
use crate::model::operation_error::{ErrorClass, OperationError};
use crate::model::source_origin::SourceOrigin;
use gitwork_api::names::check_label;

/// One ManifestWork on the hub. Created again under the same name, it is another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The namespace of its cluster on the hub, and its name.
    pub key: WorkKey,
    /// The work's uid; in an approval of changes, the digest of the content to be written.
    pub uid: String,
}

/// Works whose deletion was approved. Any subset of them is approved, too, so that a deletion that
/// takes several passes needs one approval.
pub type Approved = BTreeSet<Target>;

/// A move from applied commits to one that does not build on them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rewind {
    /// The source whose ref no longer builds on what was applied.
    pub source: SourceId,
    /// The applied commits that are left.
    pub from: BTreeSet<CommitId>,
    /// The commit that is applied in their place, with all that later builds on it.
    pub to: CommitId,
}

/// One approval.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Approval {
    /// Deletions of just these works.
    Deletions(Approved),
    /// A move to a commit that does not build on the applied ones.
    Rewind(Rewind),
    /// Writes, each with what is written, while a window is closed.
    Changes {
        /// The source whose window is closed.
        source: SourceId,
        /// The works, each with the digest of the content to be written in place of the uid.
        works: Approved,
    },
    /// Deletions on a hub that was restored from a backup on purpose.
    Restored {
        /// The source whose record on the hub went back.
        source: SourceId,
        /// The first generation of the source's record that says that the hub was restored.
        record_generation: u64,
    },
    /// A step of the rollout of a group's content.
    Rollout {
        /// The source.
        source: SourceId,
        /// What may be done.
        step: RolloutApproval,
    },
    /// Another origin of the source. It counts on the hub only: in Git, the other repository could
    /// approve itself.
    Origin {
        /// The source.
        source: SourceId,
        /// The origin in the source's record on the hub.
        from: SourceOrigin,
        /// The origin that takes its place.
        to: SourceOrigin,
    },
    /// A commit from which the next ones are verified. It counts on the hub only: in Git, an
    /// unverified commit could approve itself.
    Trust {
        /// The source.
        source: SourceId,
        /// The verified commit in the source's record on the hub; `None` if it has none.
        after: Option<CommitId>,
        /// The commit that takes its place.
        commit: CommitId,
    },
}

/// A step of a rollout that somebody may approve.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RolloutApproval {
    /// The group.
    pub group: GroupName,
    /// The content that is rolled out.
    pub content: Digest,
    /// The step.
    pub step: RolloutStep,
}

/// What may be done in a rollout.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RolloutStep {
    /// The wave of this name may begin.
    Wave(String),
    /// The rollout continues after it was stopped for the time of this number, which counts from 1.
    Retry(u32),
    /// The rollout is stopped, as by a failure. After so many retries, with this one.
    Stop(u32),
    /// As `Stop`, and clusters that got the content get the last good one back.
    Return(u32),
    /// No further cluster gets the content until the `Resume` of the same number.
    Pause(u32),
    /// The rollout continues after the `Pause` of the same number.
    Resume(u32),
}

impl RolloutStep {
    /// Its name in an approval, and its number.
    fn numbered(&self) -> Option<(&'static str, u32)> {
        match self {
            Self::Wave(_) => None,
            Self::Retry(number) => Some(("retry", *number)),
            Self::Stop(number) => Some(("stop", *number)),
            Self::Return(number) => Some(("return", *number)),
            Self::Pause(number) => Some(("pause", *number)),
            Self::Resume(number) => Some(("resume", *number)),
        }
    }

    fn of_number(name: &str, number: u32) -> Option<Self> {
        let all = [Self::Retry, Self::Stop, Self::Return, Self::Pause, Self::Resume];
        let mut all = all.into_iter().map(|step| step(number));
        all.find(|step| step.numbered().is_some_and(|(known, _)| known == name))
    }
}

impl fmt::Display for RolloutStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.numbered()) {
            (Self::Wave(name), _) => write!(f, "wave {name}"),
            (_, Some((name, number))) => write!(f, "{name} {number}"),
            (_, None) => Ok(()),
        }
    }
}

/// All that is approved for one source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approvals {
    /// Works that may be deleted.
    pub deletions: Approved,
    /// Writes that may be made while a window is closed, by work and content digest.
    pub changes: Approved,
    /// Moves to commits that do not build on the applied ones.
    pub rewinds: BTreeSet<Rewind>,
    /// Record generations at which a restored hub was confirmed.
    pub restored: BTreeSet<u64>,
    /// Changes of the origin: the recorded one, and the one in its place.
    pub origins: BTreeSet<(SourceOrigin, SourceOrigin)>,
    /// Steps of rollouts.
    pub rollouts: BTreeSet<RolloutApproval>,
    /// Commits to verify from: the recorded one, and the one in its place.
    pub trusted: BTreeSet<(Option<CommitId>, CommitId)>,
}

/// Why a text approves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalError {
    /// The name of the file or annotation is no SHA-256 digest.
    #[error("its name is not the 64 digits of a hash")]
    Name,
    /// A line does not name one work and its uid or digest.
    #[error("line {line} is not of the form CLUSTER/WORK UID")]
    Line {
        /// Counts from 1.
        line: usize,
    },
    /// The first line names no known kind of approval, or another line does not fit its kind.
    #[error("line {line} does not belong in an approval of this kind")]
    Form {
        /// Counts from 1.
        line: usize,
    },
    /// It lists more works than a source may have.
    #[error("it lists more than {} works", limits::WORKS_MAX)]
    TooManyWorks,
    /// The SHA-256 digest of the text differs from the name.
    #[error("it lists other works than those of the plan that it is named after")]
    OtherWorks,
}

impl OperationError for ApprovalError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Name => "InvalidHash",
            Self::Line { .. } | Self::Form { .. } | Self::TooManyWorks => "InvalidApproval",
            Self::OtherWorks => "HashMismatch",
        }
    }
}

/// The works as an approval lists them: sorted, one a line.
pub fn listing(works: &Approved) -> String {
    works.iter().map(|Target { key, uid }| format!("{key} {uid}\n")).collect()
}

/// The hash of a plan: SHA-256 over exactly what it would delete, which is its `listing`.
pub fn plan_hash(works: &Approved) -> Digest {
    Digest::of(listing(works).as_bytes())
}

impl Approval {
    /// The text that lists what is approved.
    pub fn text(&self) -> String {
        match self {
            Self::Deletions(works) => listing(works),
            Self::Rewind(Rewind { source, from, to }) => {
                let from: String = from.iter().map(|commit| format!("from {commit}\n")).collect();
                format!("rewind {source} to {to}\n{from}")
            }
            Self::Changes { source, works } => format!("changes {source}\n{}", listing(works)),
            Self::Restored { source, record_generation } => {
                format!("restored {source} at {record_generation}\n")
            }
            Self::Rollout { source, step: RolloutApproval { group, content, step } } => {
                format!("rollout {source} of {content} to {group}\n{step}\n")
            }
            Self::Origin { source, from, to } => {
                format!("origin {source}\nfrom {from}\nto {to}\n")
            }
            Self::Trust { source, after, commit } => {
                let after = after.map(|commit| format!("after {commit}\n")).unwrap_or_default();
                format!("trust {source} at {commit}\n{after}")
            }
        }
    }

    /// Its name: SHA-256 over its text.
    pub fn hash(&self) -> Digest {
        Digest::of(self.text().as_bytes())
    }

    /// Reads an approval: the text whose hash is its name. Empty lines and those that begin with
    /// `#` say nothing.
    pub fn read(name: &str, text: &str) -> Result<Self, ApprovalError> {
        let hash = Digest::parse(name).ok_or(ApprovalError::Name)?;
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let mut lines =
            lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).peekable();
        let first = lines.peek().copied().unwrap_or_default();
        let words: Vec<&str> = first.1.split(' ').collect();
        let form = ApprovalError::Form { line: first.0 };
        let source = |text: &str| SourceId::parse(text).map_err(|_| form.clone());
        let approval = match words.as_slice() {
            ["rewind", id, "to", to] => {
                let (source, to) = (source(id)?, CommitId::parse(to).ok_or(form)?);
                let from = lines.skip(1).map(|(line, text)| {
                    let commit = text.strip_prefix("from ").and_then(CommitId::parse);
                    commit.ok_or(ApprovalError::Form { line })
                });
                Self::Rewind(Rewind { source, to, from: from.collect::<Result<_, _>>()? })
            }
            ["changes", id] => {
                Self::Changes { source: source(id)?, works: read_targets(lines.skip(1))? }
            }
            ["restored", id, "at", record_generation] => {
                let record_generation = record_generation.parse().map_err(|_| form.clone())?;
                if let Some((line, _)) = lines.nth(1) {
                    return Err(ApprovalError::Form { line });
                }
                Self::Restored { source: source(id)?, record_generation }
            }
            ["rollout", id, "of", content, "to", group] => {
                let content = Digest::parse(content).ok_or_else(|| form.clone())?;
                let group = GroupName::parse(group).map_err(|_| form.clone())?;
                let step = read_rollout_step(first.0, lines.skip(1))?;
                let step = RolloutApproval { group, content, step };
                Self::Rollout { source: source(id)?, step }
            }
            ["origin", id] => {
                let (from, to) = read_origins(first.0, lines.skip(1))?;
                Self::Origin { source: source(id)?, from, to }
            }
            ["trust", id, "at", commit] => {
                let (source, commit) = (source(id)?, CommitId::parse(commit).ok_or(form)?);
                let mut after = None;
                for (line, text) in lines.skip(1) {
                    let found = text.strip_prefix("after ").and_then(CommitId::parse);
                    let found = found.filter(|_| after.is_none());
                    after = Some(found.ok_or(ApprovalError::Form { line })?);
                }
                Self::Trust { source, after, commit }
            }
            _ => Self::Deletions(read_targets(lines)?),
        };
        if approval.hash() == hash { Ok(approval) } else { Err(ApprovalError::OtherWorks) }
    }
}

impl Approvals {
    /// The works that approvals list, each once for each kind of approval.
    pub fn works(&self) -> usize {
        self.deletions.len() + self.changes.len()
    }

    /// Adds an approval. One for another source approves nothing here. Deletions name works by
    /// their uid, which no other source's work has.
    pub fn add(&mut self, source: &SourceId, approval: Approval) {
        match approval {
            Approval::Deletions(works) => self.deletions.extend(works),
            Approval::Rewind(rewind) if rewind.source == *source => {
                self.rewinds.insert(rewind);
            }
            Approval::Changes { source: of, works } if of == *source => self.changes.extend(works),
            Approval::Restored { source: of, record_generation } if of == *source => {
                self.restored.insert(record_generation);
            }
            Approval::Rollout { source: of, step } if of == *source => {
                self.rollouts.insert(step);
            }
            Approval::Origin { source: of, from, to } if of == *source => {
                self.origins.insert((from, to));
            }
            Approval::Trust { source: of, after, commit } if of == *source => {
                self.trusted.insert((after, commit));
            }
            Approval::Rewind(_)
            | Approval::Changes { .. }
            | Approval::Restored { .. }
            | Approval::Rollout { .. }
            | Approval::Origin { .. }
            | Approval::Trust { .. } => {}
        }
    }
}

fn read_targets<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
) -> Result<Approved, ApprovalError> {
    let mut works = Approved::new();
    for (line, text) in lines {
        works.insert(read_target(text).ok_or(ApprovalError::Line { line })?);
        if works.len() > limits::WORKS_MAX {
            return Err(ApprovalError::TooManyWorks);
        }
    }
    Ok(works)
}

/// Reads one line `from ORIGIN` and one line `to ORIGIN`, which follow the line `first`.
fn read_origins<'a>(
    first: usize,
    lines: impl Iterator<Item = (usize, &'a str)>,
) -> Result<(SourceOrigin, SourceOrigin), ApprovalError> {
    let (mut from, mut to) = (None, None);
    for (line, text) in lines {
        let form = || ApprovalError::Form { line };
        let (slot, origin) = match text.split_once(' ') {
            Some(("from", origin)) => (&mut from, origin),
            Some(("to", origin)) => (&mut to, origin),
            _ => return Err(form()),
        };
        let origin = SourceOrigin::parse(origin).ok_or_else(form)?;
        if slot.replace(origin).is_some() {
            return Err(form());
        }
    }
    from.zip(to).ok_or(ApprovalError::Form { line: first })
}

/// Reads the one line that follows the line `first`.
fn read_rollout_step<'a>(
    first: usize,
    mut lines: impl Iterator<Item = (usize, &'a str)>,
) -> Result<RolloutStep, ApprovalError> {
    let (line, text) = lines.next().ok_or(ApprovalError::Form { line: first })?;
    let step = match text.split_once(' ') {
        Some(("wave", name)) if name == "*" || check_label(name, 63).is_ok() => {
            RolloutStep::Wave(name.to_owned())
        }
        Some((name, number)) => {
            let step = number.parse().ok().and_then(|number| RolloutStep::of_number(name, number));
            step.ok_or(ApprovalError::Form { line })?
        }
        None => return Err(ApprovalError::Form { line }),
    };
    match lines.next() {
        Some((line, _)) => Err(ApprovalError::Form { line }),
        None => Ok(step),
    }
}

fn read_target(line: &str) -> Option<Target> {
    let (key, uid) = line.split_once(' ')?;
    let (cluster, work) = key.split_once('/')?;
    let key = WorkKey {
        cluster: ClusterName::parse_place(cluster).ok()?,
        work: WorkName::parse(work).ok()?,
    };
    let fits = !uid.is_empty()
        && uid.len() <= limits::UID_BYTES_MAX
        && uid.chars().all(|c| c.is_ascii_graphic());
    fits.then(|| Target { key, uid: uid.to_owned() })
}

#[cfg(test)]
mod tests;
