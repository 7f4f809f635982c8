//! The common view of every operation that can fail: a fetch, a push, a call to a hub or a forge.
//!
//! Each operation has an error type of its own that implements [`OperationError`]. Callers decide
//! by [`class`](OperationError::class), never by the text; the command line and the log print
//! [`describe`].
//!
//! ```
//! use gitwork_core::model::operation_error::{ErrorClass, OperationError, describe};
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

use gitwork_retry::RetryClass;

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

/// The error on one line: its message, its causes and its hints. A cause whose text the message
/// already has is left out.
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
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot fetch")]
    struct Fetch(#[source] std::io::Error);

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
        let error = Fetch(std::io::Error::other("no route"));
        assert_eq!(describe(&error), "cannot fetch: no route; check the proxy");
        assert!(!error.needs_action());
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

        let error = Outer(Fetch(std::io::Error::other("no route")));
        assert_eq!(describe(&error), "the source cannot be read: cannot fetch: no route");
    }
}
