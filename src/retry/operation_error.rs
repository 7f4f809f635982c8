//! The common view of every operation that can fail: a fetch, a push, a call to a hub or a forge.
//!
//! Each operation has an error type of its own that implements [`OperationError`]. Callers decide
//! by [`class`](OperationError::class), never by the text. The command line prints [`describe`];
//! the log has it from [`log_error`](crate::log_error), with class and reason.
//!
//! ```
//! use gitwork_retry::operation_error::{ErrorClass, OperationError, describe};
//!
//! #[derive(Debug, thiserror::Error)]
//! #[error("cannot fetch {url}")]
//! struct Refused { url: String }
//!
//! impl OperationError for Refused {
//!     fn class(&self) -> ErrorClass { ErrorClass::NeedsAction }
//!     fn reason(&self) -> &'static str { "AuthenticationRefused" }
//!     fn hints(&self) -> Vec<String> { vec!["check the token".to_owned()] }
//! }
//!
//! let error = Refused { url: "https://git.example/fleet".to_owned() };
//! assert_eq!(describe(&error), "cannot fetch https://git.example/fleet; check the token");
//! ```

use std::error::Error;
use std::time::Duration;

use crate::RetryClass;

/// What has to happen before a failed operation can succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The same operation may succeed later (network, server, concurrent write): retry with
    /// exponential backoff, and not before `retry_after` where the server names a time.
    Transient {
        /// The wait that the server asked for, as in `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// A person must first change credentials, permissions, configuration or Git: retry rarely.
    NeedsAction,
    /// The caller cancelled the operation.
    Cancelled,
    /// A bug in gitwork: report it.
    Bug,
}

impl ErrorClass {
    /// Transient, without a time named by the server.
    pub const TRANSIENT: Self = Self::Transient { retry_after: None };

    /// Its name in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient { .. } => "transient",
            Self::NeedsAction => "needs-action",
            Self::Cancelled => "cancelled",
            Self::Bug => "bug",
        }
    }
}

impl From<RetryClass> for ErrorClass {
    fn from(class: RetryClass) -> Self {
        match class {
            RetryClass::Stale => Self::TRANSIENT,
            RetryClass::Unavailable { retry_after_seconds } => {
                Self::Transient { retry_after: retry_after_seconds.map(Duration::from_secs) }
            }
            RetryClass::Blocked | RetryClass::Rejected => Self::NeedsAction,
        }
    }
}

/// Why an operation failed, for programs: callers, metrics, the command line and the log.
///
/// `Display` names the failure and its subject; advice belongs to [`hints`](Self::hints).
pub trait OperationError: Error + 'static {
    /// What has to happen before the operation can succeed.
    fn class(&self) -> ErrorClass;

    /// A stable CamelCase word for metric labels, Events, conditions and log fields.
    fn reason(&self) -> &'static str;

    /// What the reader can do about it: each a clause that follows the message after `; `.
    fn hints(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether a retry cannot succeed before a person changes something.
    fn needs_action(&self) -> bool {
        self.class() == ErrorClass::NeedsAction
    }
}

/// Logs the error of an operation: `log_error!(warn, &error, source = %id, "cannot list works")`.
///
/// The fields `class`, `reason` and `error` hold the error's class, reason and [`describe`]. What
/// follows the error goes to the macro of `tracing` for the level; the caller depends on `tracing`.
#[macro_export]
macro_rules! log_error {
    ($level:ident, $error:expr, $($rest:tt)+) => {{
        let error: &dyn $crate::operation_error::OperationError = $error;
        ::tracing::$level!(
            class = error.class().as_str(),
            reason = error.reason(),
            error = %$crate::operation_error::describe(error),
            $($rest)+
        );
    }};
}

/// The error on one line: its message, its causes and its hints. A cause whose text the message
/// already has is left out. Control characters are escaped: errors quote what others have written,
/// and a line break would begin another line of a log.
pub fn describe(error: &dyn OperationError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    for hint in error.hints() {
        text.push_str("; ");
        text.push_str(&hint);
    }
    escape_controls(&text)
}

fn escape_controls(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => escaped.extend(character.escape_default()),
            false => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot fetch")]
    struct Fetch(#[source] io::Error);

    impl OperationError for Fetch {
        fn class(&self) -> ErrorClass {
            ErrorClass::TRANSIENT
        }

        fn reason(&self) -> &'static str {
            "Network"
        }

        fn hints(&self) -> Vec<String> {
            vec!["check the proxy".to_owned()]
        }
    }

    #[test]
    fn description_has_message_causes_and_hints() {
        let error = Fetch(io::Error::other("no route"));
        assert_eq!(describe(&error), "cannot fetch: no route; check the proxy");
        assert!(!error.needs_action());
        let quoted = Fetch(io::Error::other("a\u{1b}[2Jb\nERROR c"));
        let expected = "cannot fetch: a\\u{1b}[2Jb\\nERROR c; check the proxy";
        assert_eq!(describe(&quoted), expected);
    }

    /// What is written to the log.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn log_has_class_reason_and_description() {
        let (written, error) = (Written::default(), Fetch(io::Error::other("no route")));
        let writer = written.clone();
        let log = tracing_subscriber::fmt().without_time().with_target(false).with_ansi(false);
        let log = log.with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(log, || {
            log_error!(warn, &error, source = "fleet", "the hub stays as it {}", "is");
        });
        let written = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(
            written,
            " WARN the hub stays as it is class=\"transient\" reason=\"Network\" \
             error=cannot fetch: no route; check the proxy source=\"fleet\"\n"
        );
    }

    #[test]
    fn cause_in_message_is_not_repeated() {
        #[derive(Debug, thiserror::Error)]
        #[error("the source cannot be read: {0}")]
        struct Outer(#[source] Fetch);

        impl OperationError for Outer {
            fn class(&self) -> ErrorClass {
                self.0.class()
            }

            fn reason(&self) -> &'static str {
                self.0.reason()
            }
        }

        let error = Outer(Fetch(io::Error::other("no route")));
        assert_eq!(describe(&error), "the source cannot be read: cannot fetch: no route");
    }
}
