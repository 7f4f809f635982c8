//! The remote's report on a pushed reference.

use gitwork_core::limits;
use gitwork_core::text::escape::escape_untrusted;
use gitwork_core::text::truncate::truncate_chars;

/// The remote's answer to a push.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PushOutcome {
    /// The remote has the commit.
    Accepted,
    /// The remote's tip is not the commit that the push builds on.
    TipMoved,
    /// With the remote's reason.
    Rejected(String),
}

/// The reasons of a lost race. The report has no codes: it is `ng SP refname SP error-msg`, with a
/// free text (gitprotocol-pack, Report Status). These are the texts of Git's own receive-pack and
/// of the forges that put words around them.
const LOST_RACES: [&str; 5] = [
    "failed to update ref",
    "cannot lock ref",
    "fetch first",
    // The example of gitprotocol-pack.
    "non-fast-forward",
    "stale info",
];

impl PushOutcome {
    /// Reads the report for one reference: `None` for `ok`, or the reason that follows `ng`.
    pub(crate) fn of_report(reason: Option<&str>) -> Self {
        let Some(reason) = reason else { return Self::Accepted };
        if LOST_RACES.iter().any(|words| reason.contains(words)) {
            return Self::TipMoved;
        }
        let text = escape_untrusted(reason);
        Self::Rejected(truncate_chars(&text, limits::HUB_MESSAGE_CHARS_MAX).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_races_are_not_rejections() {
        assert_eq!(PushOutcome::of_report(None), PushOutcome::Accepted);
        for reason in [
            "non-fast-forward",
            "failed to update ref",
            "cannot lock ref 'refs/heads/gitwork-status': is at 1 but expected 2",
        ] {
            assert_eq!(PushOutcome::of_report(Some(reason)), PushOutcome::TipMoved, "{reason}");
        }
        let declined = PushOutcome::Rejected("pre-receive hook declined".to_owned());
        assert_eq!(PushOutcome::of_report(Some("pre-receive hook declined")), declined);
    }
}
