//! Problems of key files, and times in messages.

/// A line or key of a key file that was ignored: it makes nobody trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyProblem {
    /// The line of allowed_signers, or the number of the OpenPGP key in its file; from 1.
    pub number: usize,
    /// Why it was ignored, as a clause whose subject is the line or key.
    pub message: String,
}

/// A time for messages.
pub(crate) fn format_time(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds)
        .map_or_else(|_| format!("second {seconds} since 1970"), |time| time.to_string())
}
