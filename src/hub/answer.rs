//! What an answer of the API server means. Pure: status code and body in, [`HubError`] out.

use http::{HeaderMap, StatusCode, header};
use serde_json::Value;

use super::{HubError, bounded};
use crate::core::name::{ClusterName, WorkKey};
use crate::core::secret;

/// What was asked of ManifestWorks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Patch,
    Delete,
}

impl Verb {
    /// Kubernetes' name of it, as in RBAC rules.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

/// Whom a question was about.
#[derive(Debug, Clone, Copy)]
pub enum Subject<'a> {
    Work(&'a WorkKey),
    /// All works that the hub has of one source, or at all.
    Works,
}

impl Subject<'_> {
    fn name(self) -> String {
        match self {
            Self::Work(key) => key.to_string(),
            Self::Works => "the list of ManifestWorks".into(),
        }
    }

    fn cluster(self) -> Option<ClusterName> {
        match self {
            Self::Work(key) => Some(key.cluster.clone()),
            Self::Works => None,
        }
    }
}

/// One answer, read whole.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub retry_after_seconds: Option<u64>,
    pub body: Vec<u8>,
}

/// The whole seconds of `Retry-After`. A date, which the API server never sends, is not looked at.
pub fn retry_after_seconds(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()
}

/// A `Status` object of the API server, as far as it is one.
struct Status(Value);

impl Status {
    fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
    fn reason(&self) -> &str {
        self.text("/reason")
    }
    fn message(&self) -> &str {
        self.text("/message")
    }
    fn is_status(&self) -> bool {
        self.text("/kind") == "Status"
    }
    fn has_cause(&self, reason: &str) -> bool {
        let causes = self.0.pointer("/details/causes").and_then(Value::as_array);
        causes.into_iter().flatten().any(|cause| cause.get("reason") == Some(&reason.into()))
    }
}

/// Reads an answer that is no success. Values of Secrets in `spec`, the `spec` that was sent, are taken out of the
/// message: webhooks and validation quote what they dislike.
pub fn error(answer: &Answer, verb: Verb, subject: Subject<'_>, spec: Option<&Value>) -> HubError {
    let mut status: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    if let (Some(spec), Some(Value::String(message))) = (spec, status.get_mut("message")) {
        hide_secrets(message, spec);
    }
    let code = answer.status.as_u16();
    of_status(code, answer.retry_after_seconds, &Status(status), verb, subject)
}

/// Reads a watch event of type `ERROR`; `None` where the watch has to start again from a list.
pub fn watch_error(object: Value) -> Option<HubError> {
    let status = Status(object);
    let code =
        status.0.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    match code {
        Some(410) => None,
        code => Some(of_status(code.unwrap_or(500), None, &status, Verb::Watch, Subject::Works)),
    }
}

fn of_status(
    code: u16,
    retry_after_seconds: Option<u64>,
    status: &Status,
    verb: Verb,
    subject: Subject<'_>,
) -> HubError {
    let refused = || HubError::Refused { key: subject.name(), message: told(code, status) };
    match code {
        401 => HubError::Forbidden {
            message:
                "the API server does not accept the credentials (401); are they expired or revoked?"
                    .into(),
        },
        403 => forbidden(status, verb, subject),
        404 => not_found(status, subject),
        409 if status.reason() == "AlreadyExists" => HubError::Exists { key: subject.name() },
        409 if !matches!(verb, Verb::Get | Verb::List | Verb::Watch) => {
            HubError::Stale { key: subject.name() }
        }
        // etcd and the connection to it have limits of their own, which come out as internal errors.
        500 if ["request is too large", "larger than max"]
            .iter()
            .any(|words| status.message().contains(words)) =>
        {
            refused()
        }
        // No read has a precondition to fail: whoever answers this is not the API server, and says nothing of
        // whether the object is there.
        408 | 409 | 410 | 429 | 500.. => HubError::Unavailable {
            message: told(code, status),
            retry_after_seconds: retry_after_seconds
                .or_else(|| status.0.pointer("/details/retryAfterSeconds").and_then(Value::as_u64)),
        },
        _ => refused(),
    }
}

/// 403 is said by RBAC, by a namespace that is being deleted, and by admission.
fn forbidden(status: &Status, verb: Verb, subject: Subject<'_>) -> HubError {
    let message = status.message();
    if let (true, Some(cluster)) = (status.has_cause("NamespaceTerminating"), subject.cluster()) {
        return HubError::NoNamespace { cluster: cluster.to_string() };
    }
    let verb = verb.as_str();
    let by_rbac = !status.is_status() || message.contains(&format!("cannot {verb} resource"));
    if let (Subject::Work(_), false) = (subject, by_rbac) {
        return HubError::Refused { key: subject.name(), message: told(403, status) };
    }
    let place = subject.cluster().map_or_else(
        || "in all namespaces".to_owned(),
        |c| format!("in namespace {:?}", c.as_str()),
    );
    HubError::Forbidden {
        message: format!(
            "{verb} manifestworks.work.open-cluster-management.io {place} ({}); a ClusterRole with the rule \
             {{apiGroups: [work.open-cluster-management.io], resources: [manifestworks], verbs: [{verb}]}}, bound to \
             gitwork's user, would allow it",
            told(403, status)
        ),
    }
}

/// 404 is said of an object, of its namespace, and of a kind that is not served.
fn not_found(status: &Status, subject: Subject<'_>) -> HubError {
    match (subject, status.text("/details/kind")) {
        (Subject::Work(key), "namespaces") => {
            HubError::NoNamespace { cluster: key.cluster.to_string() }
        }
        (Subject::Work(key), "manifestworks") => HubError::Stale { key: key.to_string() },
        _ => HubError::NoCrd,
    }
}

fn told(code: u16, status: &Status) -> String {
    match status.message() {
        "" => format!("HTTP status {code}"),
        message => bounded(message),
    }
}

fn hide_secrets(message: &mut String, spec: &Value) {
    let manifests = spec.pointer("/workload/manifests").and_then(Value::as_array);
    let objects = manifests.into_iter().flatten().filter_map(Value::as_object);
    secret::hide(message, objects);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::name::WorkName;
    use crate::limits;

    fn key() -> WorkKey {
        WorkKey {
            cluster: ClusterName::parse("edge").unwrap(),
            work: WorkName::parse("web").unwrap(),
        }
    }

    fn secrets() -> Value {
        json!({"workload": {"manifests": [
            {"kind": "Secret", "data": {"p": "dDBw"}, "stringData": {"q": "t0ps3cret", "empty": ""}},
            {"kind": "ConfigMap", "data": {"p": "open"}},
        ]}})
    }

    fn read(code: u16, body: &Value, verb: Verb) -> HubError {
        let body = body.to_string().into_bytes();
        let status = StatusCode::from_u16(code).unwrap();
        let answer = Answer { status, retry_after_seconds: None, body };
        error(&answer, verb, Subject::Work(&key()), Some(&secrets()))
    }

    fn status(reason: &str, message: &str, details: &Value) -> Value {
        json!({"kind": "Status", "reason": reason, "message": message, "details": details})
    }

    #[test]
    fn answers_are_told_apart() {
        let none = json!({});
        let refused =
            |message: &str| HubError::Refused { key: "edge/web".into(), message: message.into() };
        let away = |message: &str, after| HubError::Unavailable {
            message: message.into(),
            retry_after_seconds: after,
        };
        let no_namespace = HubError::NoNamespace { cluster: "edge".into() };
        let stale = HubError::Stale { key: "edge/web".into() };
        let cases = [
            (404, status("NotFound", "", &json!({"kind": "namespaces"})), no_namespace.clone()),
            (404, status("NotFound", "", &json!({"kind": "manifestworks"})), stale.clone()),
            (
                404,
                status("NotFound", "the server could not find the requested resource", &none),
                HubError::NoCrd,
            ),
            (404, json!("404 page not found"), HubError::NoCrd),
            (
                403,
                status("Forbidden", "", &json!({"causes": [{"reason": "NamespaceTerminating"}]})),
                no_namespace,
            ),
            (403, status("Forbidden", "exceeded quota", &none), refused("exceeded quota")),
            (409, status("AlreadyExists", "", &none), HubError::Exists { key: "edge/web".into() }),
            (409, status("Conflict", "", &none), stale),
            (400, status("BadRequest", "no\nkind", &none), refused("no kind")),
            (413, json!("x"), refused("HTTP status 413")),
            (422, status("Invalid", "spec is wrong", &none), refused("spec is wrong")),
            (429, status("", "slow", &json!({"retryAfterSeconds": 3})), away("slow", Some(3))),
            (
                500,
                status("", "etcdserver: request is too large", &none),
                refused("etcdserver: request is too large"),
            ),
            (503, json!("<html>"), away("HTTP status 503", None)),
        ];
        for (code, body, expected) in cases {
            assert_eq!(read(code, &body, Verb::Create), expected, "{code} {body}");
        }
    }

    #[test]
    fn a_permission_that_is_missing_is_named_with_its_rule() {
        let message = "manifestworks.work.open-cluster-management.io \"web\" is forbidden: User \"bot\" cannot \
                       patch resource \"manifestworks\" in API group \"work.open-cluster-management.io\"";
        let shown = read(403, &status("Forbidden", message, &json!({})), Verb::Patch).to_string();
        for part in
            ["namespace \"edge\"", "verbs: [patch]", "resources: [manifestworks]", "User \"bot\""]
        {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn messages_are_bounded_and_secrets_hidden() {
        let long = "x".repeat(100_000);
        let HubError::Refused { message, .. } =
            read(422, &status("", &long, &json!({})), Verb::Create)
        else {
            panic!("is refused")
        };
        assert_eq!(message.chars().count(), limits::HUB_MESSAGE_CHARS_MAX + 1);

        let told = read(
            422,
            &status("", &format!("t0ps3cret, dDBw, t0p, open{long}"), &json!({})),
            Verb::Create,
        );
        let shown = told.to_string();
        assert!(
            shown.starts_with("the hub refuses edge/web: (hidden), (hidden), (hidden), openxx"),
            "{shown}"
        );
    }

    #[test]
    fn an_expired_watch_asks_for_a_list_and_other_errors_are_told() {
        assert_eq!(watch_error(json!({"code": 410})), None);
        assert!(matches!(watch_error(json!({"code": 500})), Some(HubError::Unavailable { .. })));
        assert!(matches!(watch_error(json!("?")), Some(HubError::Unavailable { .. })));
    }
}
