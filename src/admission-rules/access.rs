//! What to ask the API server about a user, and its answer.

use std::collections::BTreeMap;

use gitwork_api::work::GROUP;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Who sent a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestUser {
    /// The name.
    pub username: String,
    /// An id that no other user has, if there is one.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// More from the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Whether a user may let works run as a ServiceAccount of the managed cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessQuestion {
    /// The user.
    pub user: RequestUser,
    /// Where the works are. Empty for all namespaces: the works of a set may be in any.
    pub namespace: String,
    /// The namespace of the ServiceAccount.
    pub account_namespace: String,
    /// The name of the ServiceAccount.
    pub account_name: String,
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessAnswer {
    /// The user may.
    Allowed,
    /// The user may not. The text is an error of an authorizer, such as a binding whose role is
    /// missing; mostly it is empty.
    Denied(String),
    /// There is no answer, for this reason.
    Unknown(String),
}

impl AccessQuestion {
    /// The name of the executor, as roles have it in `resourceNames`.
    pub fn resource_name(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.account_namespace, self.account_name)
    }

    /// The SubjectAccessReview that asks it.
    pub fn subject_access_review(&self) -> Value {
        let RequestUser { username, uid, groups, extra } = &self.user;
        let mut attributes = json!({
            "group": GROUP, "resource": "manifestworks", "verb": "execute-as",
            "name": self.resource_name(),
        });
        if !self.namespace.is_empty() {
            attributes["namespace"] = json!(self.namespace);
        }
        json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": username, "uid": uid, "groups": groups, "extra": extra,
                "resourceAttributes": attributes},
        })
    }

    /// Reads the API server's answer.
    pub fn answer(review: &Value) -> AccessAnswer {
        let status = |field: &str| review.get("status").and_then(|status| status.get(field));
        if status("allowed").and_then(Value::as_bool) == Some(true) {
            return AccessAnswer::Allowed;
        }
        let error = status("evaluationError").and_then(Value::as_str).unwrap_or_default();
        match status("allowed") {
            None => AccessAnswer::Unknown("the answer has no status.allowed".to_owned()),
            Some(_) => AccessAnswer::Denied(error.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let denied = |error: &str| AccessAnswer::Denied(error.to_owned());
        for (status, expected) in [
            (json!({"allowed": true}), AccessAnswer::Allowed),
            (json!({"allowed": true, "evaluationError": "no role x"}), AccessAnswer::Allowed),
            (json!({"allowed": false}), denied("")),
            (json!({"allowed": false, "evaluationError": "no role x"}), denied("no role x")),
            (json!({"allowed": "true"}), denied("")),
        ] {
            assert_eq!(AccessQuestion::answer(&json!({"status": status})), expected, "{status}");
        }
        assert!(matches!(AccessQuestion::answer(&json!({})), AccessAnswer::Unknown(_)));
        assert!(matches!(AccessQuestion::answer(&json!(null)), AccessAnswer::Unknown(_)));
    }
}
