//! What an API server's response means: the `Status` object of a failure, and its class for
//! retries.

use http::{HeaderMap, header};
use serde_json::Value;

use gitwork_retry::RetryClass;

use crate::message::{MESSAGE_CHARS_MAX, one_line};

/// A failure that an API server, or a proxy before it, reported.
///
/// Fields that the response does not have are empty: a proxy sends no `Status` object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiStatus {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason, such as `AlreadyExists`.
    pub reason: String,
    pub message: String,
    /// `details.kind`: the resource that a 404 is about, in the plural.
    pub resource: String,
    /// The reasons in `details.causes`.
    pub causes: Vec<String>,
    /// The wait that the server asks for, by header or by `details.retryAfterSeconds`.
    pub retry_after_seconds: Option<u64>,
    /// The body was a `Status` object: the API server itself answered.
    pub is_from_api_server: bool,
}

impl ApiStatus {
    /// Reads the body of a failed response. `retry_after_seconds`: that of the header.
    pub fn of_response(code: u16, retry_after_seconds: Option<u64>, body: &[u8]) -> Self {
        let object = serde_json::from_slice(body).unwrap_or_default();
        Self::of_object(code, retry_after_seconds, &object)
    }

    /// Reads the object of a watch event of type `ERROR`; without a code it is a 500.
    pub fn of_watch_event(object: &Value) -> Self {
        let code = object.get("code").and_then(Value::as_u64);
        let code = code.and_then(|code| u16::try_from(code).ok());
        Self::of_object(code.unwrap_or(500), None, object)
    }

    fn of_object(code: u16, retry_after_seconds: Option<u64>, object: &Value) -> Self {
        let text = |pointer: &str| {
            let found = object.pointer(pointer).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let causes = object.pointer("/details/causes").and_then(Value::as_array);
        let reasons =
            causes.into_iter().flatten().filter_map(|cause| cause.get("reason")?.as_str());
        let in_body = object.pointer("/details/retryAfterSeconds").and_then(Value::as_u64);
        Self {
            code,
            reason: text("/reason"),
            message: text("/message"),
            resource: text("/details/kind"),
            causes: reasons.map(str::to_owned).collect(),
            retry_after_seconds: retry_after_seconds.or(in_body),
            is_from_api_server: text("/kind") == "Status",
        }
    }

    pub fn is_unauthorized(&self) -> bool {
        self.code == 401
    }
    pub fn is_forbidden(&self) -> bool {
        self.code == 403
    }
    pub fn is_not_found(&self) -> bool {
        self.code == 404
    }
    /// The name of a create is taken.
    pub fn is_already_exists(&self) -> bool {
        self.code == 409 && self.reason == "AlreadyExists"
    }
    /// A precondition of a write failed: the object changed.
    pub fn is_conflict(&self) -> bool {
        self.code == 409 && self.reason != "AlreadyExists"
    }
    /// The resourceVersion or continue token is too old: list again.
    pub fn is_expired(&self) -> bool {
        self.code == 410
    }
    /// The namespace is being deleted: nothing can be created in it.
    pub fn is_namespace_terminating(&self) -> bool {
        self.causes.iter().any(|cause| cause == "NamespaceTerminating")
    }
    /// etcd, or the connection to it, rejects the size of the object. It is reported as a 500.
    pub fn is_too_large(&self) -> bool {
        let words = ["request is too large", "larger than max"];
        self.code == 413
            || (self.code == 500 && words.iter().any(|words| self.message.contains(words)))
    }

    /// What the failure means for the next try.
    pub fn retry_class(&self) -> RetryClass {
        match self.code {
            _ if self.is_too_large() => RetryClass::Rejected,
            401 | 403 => RetryClass::Blocked,
            404 | 409 => RetryClass::Stale,
            408 | 410 | 429 | 500.. => {
                RetryClass::Unavailable { retry_after_seconds: self.retry_after_seconds }
            }
            _ => RetryClass::Rejected,
        }
    }

    /// The message on one line, or the HTTP status code if there is no message.
    pub fn text(&self) -> String {
        match self.message.as_str() {
            "" => format!("HTTP status {}", self.code),
            message => one_line(message, MESSAGE_CHARS_MAX),
        }
    }
}

impl From<&kube::core::Status> for ApiStatus {
    fn from(status: &kube::core::Status) -> Self {
        let details = status.details.as_ref();
        let causes = details.iter().flat_map(|details| &details.causes);
        let wait = details.map_or(0, |details| details.retry_after_seconds);
        Self {
            code: status.code,
            reason: status.reason.clone(),
            message: status.message.clone(),
            resource: details.map_or_else(String::new, |details| details.kind.clone()),
            causes: causes.map(|cause| cause.reason.clone()).collect(),
            retry_after_seconds: (wait > 0).then_some(u64::from(wait)),
            is_from_api_server: true,
        }
    }
}

/// The whole seconds of `Retry-After`. A date, which the API server never sends, is ignored.
pub fn retry_after_seconds(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn failures_have_a_retry_class() {
        let unavailable = |retry_after_seconds| RetryClass::Unavailable { retry_after_seconds };
        for (code, object, expected) in [
            (401, json!({}), RetryClass::Blocked),
            (403, json!({}), RetryClass::Blocked),
            (404, json!({}), RetryClass::Stale),
            (409, json!({"reason": "Conflict"}), RetryClass::Stale),
            (410, json!({}), unavailable(None)),
            (413, json!({}), RetryClass::Rejected),
            (422, json!({}), RetryClass::Rejected),
            (429, json!({"details": {"retryAfterSeconds": 3}}), unavailable(Some(3))),
            (500, json!({"message": "etcdserver: request is too large"}), RetryClass::Rejected),
            (503, json!("<html>"), unavailable(None)),
        ] {
            let status = ApiStatus::of_response(code, None, object.to_string().as_bytes());
            assert_eq!(status.retry_class(), expected, "{code} {object}");
        }
    }

    #[test]
    fn the_header_wins_over_the_body_and_both_forms_of_a_409_differ() {
        let body = json!({"reason": "AlreadyExists", "details": {"retryAfterSeconds": 9}});
        let status = ApiStatus::of_response(409, Some(2), body.to_string().as_bytes());
        assert!(status.is_already_exists() && !status.is_conflict());
        assert_eq!(status.retry_after_seconds, Some(2));
        let kube: kube::core::Status = serde_json::from_value(json!({
            "code": 409, "reason": "Conflict", "message": "a\nb",
        }))
        .unwrap();
        let status = ApiStatus::from(&kube);
        assert!(status.is_conflict() && !status.is_already_exists());
        assert_eq!(status.text(), "a b");
    }
}
