//! Messages from outside, in errors of the hub.

use gitwork_kube::message::{MESSAGE_CHARS_MAX, one_line};
use gitwork_sync::hub::HubError;

/// A message from outside on one line, for logs and commit statuses.
pub fn bounded(message: &str) -> String {
    one_line(message, MESSAGE_CHARS_MAX)
}

/// There is no valid response from the hub; a write may have taken place.
pub fn unavailable(message: String) -> HubError {
    HubError::Unavailable { message, retry_after_seconds: None }
}
