//! Collects the problems of a stream within a bound.

use gitwork_api::count::{count, is_or_are};

use crate::limits;
use crate::problem::ProblemKind;
use crate::span::Span;

/// A problem in a stream, before its snippet is known.
pub(crate) struct StreamProblem {
    pub kind: ProblemKind,
    pub span: Span,
    pub message: String,
    /// Other locations that matter, each with the reason.
    pub related: Vec<(Span, String)>,
}

/// The first problems of a stream, and the number of the others. Keeps at least one problem of each
/// kind, so that an error is an error also behind many warnings.
#[derive(Default)]
pub(crate) struct StreamProblems {
    kept: Vec<StreamProblem>,
    omitted: usize,
    /// Where the first problem is that was not kept.
    omitted_at: Option<Span>,
}

/// A position to which the problems can be set back.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    kept: usize,
    omitted: usize,
}

impl StreamProblems {
    /// Adds a problem. Calls `describe` only if the problem is kept.
    pub fn add(&mut self, kind: ProblemKind, span: Span, describe: impl FnOnce() -> Description) {
        let is_full = self.kept.len() >= limits::YAML_PROBLEMS_MAX;
        if is_full && self.kept.iter().any(|known| known.kind == kind) {
            self.omitted += 1;
            self.omitted_at.get_or_insert(span);
            return;
        }
        let Description { message, related } = describe();
        self.kept.push(StreamProblem { kind, span, message, related });
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { kept: self.kept.len(), omitted: self.omitted }
    }

    /// Forgets the problems since `mark`, except the first one that is not an ambiguous scalar.
    pub(super) fn retract_ambiguous(&mut self, mark: Mark) {
        let added = self.kept.split_off(mark.kept.min(self.kept.len()));
        let first = added.into_iter().find(|one| one.kind != ProblemKind::AmbiguousScalar);
        self.kept.extend(first);
        self.omitted = mark.omitted;
    }

    /// The problems. The last one says how many more there are.
    pub fn into_all(mut self) -> Vec<StreamProblem> {
        if let Some(span) = self.omitted_at.filter(|_| self.omitted > 0) {
            let (more, verb) = (count(self.omitted, "more problem"), is_or_are(self.omitted));
            let message = format!("{more} in this file {verb} not listed");
            let (kind, related) = (ProblemKind::Omitted, Vec::new());
            self.kept.push(StreamProblem { kind, span, message, related });
        }
        self.kept
    }
}

/// The text of a problem.
pub(crate) struct Description {
    pub message: String,
    pub related: Vec<(Span, String)>,
}

impl From<String> for Description {
    fn from(message: String) -> Self {
        Self { message, related: Vec::new() }
    }
}

/// A text of the file as a message shows it.
pub(super) fn quoted(text: &str) -> String {
    let mut chars = text.char_indices().skip(limits::YAML_MESSAGE_TEXT_MAX);
    match chars.next() {
        Some((end, _)) => format!("{:?}...", text.get(..end).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}
