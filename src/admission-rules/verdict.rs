//! The answer to a review: all errors at once, each with its field.

use gitwork_api::escape::single_line;
use gitwork_api::truncate::truncate_chars;
use serde_json::{Value, json};

use crate::limits;

/// One error: the field, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldError {
    pub field: String,
    /// A reason of Kubernetes' `StatusCause`.
    pub reason: &'static str,
    pub message: String,
}

/// The errors of one object. Only the first ones are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldErrors {
    kept: Vec<FieldError>,
    /// Errors that are only counted.
    others: usize,
}

impl FieldErrors {
    /// Adds an error. It is not made if it would only be counted.
    pub fn add(&mut self, make: impl FnOnce() -> FieldError) {
        if self.kept.len() < limits::ERRORS_MAX {
            self.kept.push(make());
        } else {
            self.others += 1;
        }
    }

    fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// All errors on one line.
    fn message(&self) -> String {
        let line = |error: &FieldError| match error.field.as_str() {
            "" => error.message.clone(),
            field => format!("{field}: {}", error.message),
        };
        let mut message = self.kept.iter().map(line).collect::<Vec<_>>().join("; ");
        if self.others > 0 {
            message.push_str(&format!("; and {} more errors", self.others));
        }
        message
    }
}

/// Text of an object or a user in a message: on one line, and not endless.
pub(crate) fn quoted(text: &str) -> String {
    single_line(&truncate_chars(text, limits::QUOTE_CHARS_MAX))
}

/// Whether a write is allowed, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionVerdict {
    uid: String,
    errors: FieldErrors,
    /// Why a question has no answer: another try may succeed.
    unanswered: Option<FieldError>,
}

impl AdmissionVerdict {
    pub(crate) fn new(uid: String, errors: FieldErrors, unanswered: Option<FieldError>) -> Self {
        Self { uid, errors, unanswered }
    }

    /// Whether the write is allowed.
    pub fn is_allowed(&self) -> bool {
        self.errors.is_empty() && self.unanswered.is_none()
    }

    /// Whether the write is rejected only because the API server could not be asked.
    pub fn is_unanswered(&self) -> bool {
        self.errors.is_empty() && self.unanswered.is_some()
    }

    /// All errors on one line; empty if the write is allowed.
    pub fn message(&self) -> String {
        let mut all = self.errors.clone();
        if let Some(unanswered) = self.unanswered.clone() {
            all.kept.push(unanswered);
        }
        all.message()
    }

    /// The AdmissionReview that answers the request. As from OCM's webhooks, rejections have the
    /// code 400. Without an answer about the user it is 503, so that clients try again.
    pub fn response(&self) -> Value {
        let mut response = json!({"uid": self.uid, "allowed": self.is_allowed()});
        if !self.is_allowed() {
            let (code, reason) = match self.is_unanswered() {
                true => (503, "ServiceUnavailable"),
                false => (400, "BadRequest"),
            };
            let causes = self.errors.kept.iter().chain(&self.unanswered);
            let causes: Vec<Value> = causes
                .map(|error| {
                    json!({"reason": error.reason, "message": error.message, "field": error.field})
                })
                .collect();
            response["status"] = json!({
                "status": "Failure", "code": code, "reason": reason, "message": self.message(),
                "details": {"causes": causes},
            });
        }
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        })
    }
}
