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
    /// The message for people. It may quote the object of the request, and have several lines.
    pub message: String,
    /// `details.kind`: the resource that a 404 is about, in the plural.
    pub resource: String,
    /// `details.causes`: one for each invalid field, among others.
    pub causes: Vec<StatusCause>,
    /// The wait that the server asks for, by header or by `details.retryAfterSeconds`.
    pub retry_after_seconds: Option<u64>,
    /// The body was a `Status` object: the API server itself answered.
    pub is_from_api_server: bool,
}

/// One entry of `details.causes` (`StatusCause` of the Kubernetes API).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatusCause {
    /// The machine-readable reason, such as `FieldValueInvalid`.
    pub reason: String,
    /// The path of the field, such as `spec.selector`; empty if the cause is about no field.
    pub field: String,
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
        let causes = causes.into_iter().flatten().map(|cause| {
            let text = |field| cause.get(field).and_then(Value::as_str).unwrap_or_default().into();
            StatusCause { reason: text("reason"), field: text("field") }
        });
        let in_body = object.pointer("/details/retryAfterSeconds").and_then(Value::as_u64);
        Self {
            code,
            reason: text("/reason"),
            message: text("/message"),
            resource: text("/details/kind"),
            causes: causes.collect(),
            retry_after_seconds: retry_after_seconds.or(in_body),
            is_from_api_server: text("/kind") == "Status",
        }
    }

    /// The API server does not accept the credentials.
    pub fn is_unauthorized(&self) -> bool {
        self.code == 401
    }
    /// The request is denied: by RBAC, by admission, or because the namespace is being deleted.
    pub fn is_forbidden(&self) -> bool {
        self.code == 403
    }
    /// The object, its namespace or its kind does not exist.
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
        self.causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
    }
    /// An update changes one of `fields`, which are immutable: a 422 with the field as a cause.
    /// Validation reports it as `FieldValueInvalid`, or as `FieldValueForbidden` if another field
    /// makes it immutable.
    pub fn is_immutable(&self, fields: &[&str]) -> bool {
        let reasons = ["FieldValueInvalid", "FieldValueForbidden"];
        let is_immutable = |cause: &StatusCause| {
            reasons.contains(&cause.reason.as_str()) && fields.contains(&cause.field.as_str())
        };
        self.code == 422 && self.causes.iter().any(is_immutable)
    }
    /// The verb that the user lacks, if the authorizer denied the request. Admission denies with
    /// the same code, reason and details, so only the text tells them apart. (kube-apiserver 1.33,
    /// `forbiddenMessage` in pkg/endpoints/handlers/responsewriters/errors.go, and `NewForbidden`
    /// in pkg/admission/errors.go: both call `apierrors.NewForbidden`.) A SelfSubjectAccessReview
    /// would tell too, with one more request for each denied write. If the text changes, a denial
    /// counts as one of admission: the message is shown without the missing rule, and the write is
    /// retried at longer intervals.
    pub fn denied_verb(&self) -> Option<&str> {
        if !self.is_forbidden() {
            return None;
        }
        let (_, after) = self.message.split_once("\" cannot ")?;
        let (verb, _) = after.split_once(" resource \"")?;
        verb.bytes().all(|byte| byte.is_ascii_lowercase()).then_some(verb)
    }
    /// etcd, or the connection to it, rejects the size of the object. The API server reports it as
    /// a 500 without a reason: only the text of the message tells it from other failures.
    /// (kube-apiserver 1.33: `ErrorToAPIStatus` in pkg/endpoints/handlers/responsewriters/status.go
    /// copies the text, and `isTooLargeError` in pkg/endpoints/handlers/rest.go compares the same
    /// texts.)
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

    /// A stable word for logs: the meaning of the HTTP status code. [`reason`](Self::reason) is
    /// whatever the server sent.
    pub fn code_name(&self) -> &'static str {
        match self.code {
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            409 if self.is_already_exists() => "AlreadyExists",
            409 => "Conflict",
            410 => "Expired",
            408 | 504 => "Timeout",
            429 => "TooManyRequests",
            500.. => "ServerError",
            _ => "Rejected",
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
        let body = json!({"kind": "Status", "reason": "Conflict", "message": "a\nb"});
        let status = ApiStatus::of_response(409, None, body.to_string().as_bytes());
        assert!(status.is_conflict() && !status.is_already_exists());
        assert_eq!(status.text(), "a b");
    }

    fn status(code: u16, body: &Value) -> ApiStatus {
        ApiStatus::of_response(code, None, body.to_string().as_bytes())
    }

    #[test]
    fn a_change_of_an_immutable_field_is_known_by_its_cause() {
        // As kube-apiserver 1.33 answers to a PUT of a Secret.
        let of_type = status(
            422,
            &json!({
                "kind": "Status", "reason": "Invalid", "details": {"kind": "Secret", "causes": [
                    {"reason": "FieldValueInvalid", "field": "type",
                        "message": "Invalid value: \"b\": field is immutable"}]},
            }),
        );
        let of_data = status(
            422,
            &json!({"reason": "Invalid", "details": {"causes": [
                {"reason": "FieldValueForbidden", "field": "data",
                    "message": "Forbidden: field is immutable when `immutable` is set"}]}}),
        );
        let of_a_key = status(
            422,
            &json!({"reason": "Invalid", "details": {"causes": [
                {"reason": "FieldValueInvalid", "field": "data[a b]"}]}}),
        );
        let too_long = status(
            422,
            &json!({"reason": "Invalid", "details": {"causes": [
                {"reason": "FieldValueTooLong", "field": "data"}]}}),
        );
        for (status, expected) in
            [(of_type, true), (of_data, true), (of_a_key, false), (too_long, false)]
        {
            assert_eq!(status.is_immutable(&["type", "data"]), expected, "{status:?}");
        }
    }

    #[test]
    fn the_authorizer_names_the_verb_that_it_denies_and_admission_does_not() {
        for (message, expected) in [
            (
                "widgets.example.com is forbidden: User \"system:serviceaccount:a:b\" \
                 cannot create resource \"widgets\" in API group \"example.com\" \
                 in the namespace \"apps\"",
                Some("create"),
            ),
            (
                "nodes \"a\" is forbidden: User \"u\" cannot patch resource \"nodes/status\" \
                 in API group \"\" at the cluster scope: \
                 RBAC: role.rbac.authorization.k8s.io \"x\" not found",
                Some("patch"),
            ),
            (
                "admission webhook \"a.b\" denied the request: you cannot create resource \"x\"",
                None,
            ),
            ("pods \"a\" is forbidden: exceeded quota: small, requested: pods=1", None),
            (
                "clusterroles.rbac.authorization.k8s.io \"a\" is forbidden: \
                 user \"u\" (groups=[\"g\"]) is attempting to grant RBAC permissions \
                 not currently held",
                None,
            ),
        ] {
            let body = json!({"kind": "Status", "reason": "Forbidden", "message": message});
            assert_eq!(status(403, &body).denied_verb(), expected, "{message}");
            assert_eq!(status(409, &body).denied_verb(), None);
        }
    }
}
