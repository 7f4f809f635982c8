//! Converts failed responses about ManifestWorks to [`HubError`]. Pure.

use serde_json::Value;

use crate::HubError;
use crate::work_kind::WorkKind;
use gitwork_api::secret;
use gitwork_core::model::defaults::TEMPLATE;
use gitwork_core::model::name::{ClusterName, WorkKey};
use gitwork_kube::api_status::ApiStatus;
use gitwork_kube::connection::ApiResponse;
use gitwork_retry::RetryClass;

/// The verb of a request.
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
    /// Its name in RBAC rules.
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

/// The object of a request.
#[derive(Debug, Clone, Copy)]
pub enum RequestTarget<'a> {
    Work(&'a WorkKey),
    /// The objects of a kind: those of one source, or of all.
    All(WorkKind),
}

impl RequestTarget<'_> {
    fn name(self) -> String {
        match self {
            Self::Work(key) => key.to_string(),
            Self::All(kind) => format!("the list of {}s", kind.names().1),
        }
    }

    fn cluster(self) -> Option<ClusterName> {
        match self {
            Self::Work(key) => Some(key.cluster.clone()),
            Self::All(_) => None,
        }
    }

    fn kind(self) -> WorkKind {
        match self {
            Self::Work(key) => WorkKind::of(key),
            Self::All(kind) => kind,
        }
    }
}

/// The error of a failed response. Values of Secrets in `spec`, the `spec` of the request, are
/// hidden in the message: webhooks and validation quote the content that they reject.
pub fn error(
    response: &ApiResponse,
    verb: Verb,
    target: RequestTarget<'_>,
    spec: Option<&Value>,
) -> HubError {
    let mut status = response.api_status();
    if let Some(spec) = spec {
        hide_secrets(&mut status.message, spec);
    }
    of_status(&status, verb, target)
}

/// The error that a watch reports in its stream.
pub fn watch_error(status: &ApiStatus, kind: WorkKind) -> HubError {
    of_status(status, Verb::Watch, RequestTarget::All(kind))
}

fn of_status(status: &ApiStatus, verb: Verb, target: RequestTarget<'_>) -> HubError {
    let is_write = !matches!(verb, Verb::Get | Verb::List | Verb::Watch);
    if status.is_unauthorized() {
        return HubError::Forbidden {
            message: "the API server does not accept the credentials (401)".to_owned(),
            hint: Some("check whether they have expired or were revoked".to_owned()),
        };
    }
    if status.is_forbidden() {
        return forbidden(status, verb, target);
    }
    if status.is_not_found() {
        return not_found(status, target);
    }
    if status.is_already_exists() {
        return HubError::Exists { key: target.name() };
    }
    if status.is_conflict() && is_write {
        return HubError::Stale { key: target.name() };
    }
    let retry_after_seconds = status.retry_after_seconds;
    match status.retry_class() {
        // A read has no precondition that could fail: a proxy sent this conflict.
        RetryClass::Stale | RetryClass::Unavailable { .. } => {
            HubError::Unavailable { message: status.text(), retry_after_seconds }
        }
        RetryClass::Blocked | RetryClass::Rejected => {
            HubError::WriteRejected { key: target.name(), message: status.text() }
        }
    }
}

/// RBAC, a terminating namespace and admission all send 403.
fn forbidden(status: &ApiStatus, verb: Verb, target: RequestTarget<'_>) -> HubError {
    if let (true, Some(cluster)) = (status.is_namespace_terminating(), target.cluster()) {
        return HubError::ClusterNamespaceMissing { cluster: cluster.namespace().to_owned() };
    }
    let verb = verb.as_str();
    // A proxy before the API server says nothing about its reasons.
    let is_rbac = !status.is_from_api_server || status.denied_verb() == Some(verb);
    if let (RequestTarget::Work(_), false) = (target, is_rbac) {
        return HubError::WriteRejected { key: target.name(), message: status.text() };
    }
    let resource = target.kind().resource();
    let namespace = target.cluster().map_or_else(
        || "in all namespaces".to_owned(),
        |c| format!("in namespace {:?}", c.namespace()),
    );
    HubError::Forbidden {
        message: format!(
            "{verb} {resource}.work.open-cluster-management.io {namespace} ({})",
            status.text()
        ),
        hint: Some(format!(
            "a ClusterRole with the rule {{apiGroups: [work.open-cluster-management.io], \
             resources: [{resource}], verbs: [{verb}]}}, bound to gitwork's user, would allow it"
        )),
    }
}

/// A missing object, a missing namespace and a missing CRD all send 404.
fn not_found(status: &ApiStatus, target: RequestTarget<'_>) -> HubError {
    match (target, status.resource.as_str()) {
        (RequestTarget::Work(key), "namespaces") => {
            HubError::ClusterNamespaceMissing { cluster: key.cluster.namespace().to_owned() }
        }
        (RequestTarget::Work(key), resource) if resource == WorkKind::of(key).resource() => {
            HubError::Stale { key: key.to_string() }
        }
        _ if target.kind() == WorkKind::ReplicaSet => HubError::ReplicaSetCrdMissing,
        _ => HubError::CrdMissing,
    }
}

fn hide_secrets(message: &mut String, spec: &Value) {
    let spec = spec.get(TEMPLATE).unwrap_or(spec);
    let manifests = spec.pointer("/workload/manifests").and_then(Value::as_array);
    let objects = manifests.into_iter().flatten().filter_map(Value::as_object);
    secret::hide(message, objects);
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::json;

    use super::*;
    use gitwork_core::limits;
    use gitwork_core::model::name::WorkName;
    use gitwork_retry::operation_error::{OperationError as _, describe};

    fn key() -> WorkKey {
        WorkKey {
            cluster: ClusterName::parse("edge").unwrap(),
            work: WorkName::parse("web").unwrap(),
        }
    }

    fn secrets() -> Value {
        json!({"workload": {"manifests": [
            {"kind": "Secret", "data": {"p": "dDBw"},
                "stringData": {"q": "t0ps3cret", "empty": ""}},
            {"kind": "ConfigMap", "data": {"p": "open"}},
        ]}})
    }

    fn read(code: u16, body: &Value, verb: Verb) -> HubError {
        let body = body.to_string().into_bytes().into();
        let status = StatusCode::from_u16(code).unwrap();
        let response = ApiResponse { status, retry_after_seconds: None, body };
        error(&response, verb, RequestTarget::Work(&key()), Some(&secrets()))
    }

    fn status(reason: &str, message: &str, details: &Value) -> Value {
        json!({"kind": "Status", "reason": reason, "message": message, "details": details})
    }

    #[test]
    fn failed_responses_become_different_errors() {
        let none = json!({});
        let rejected = |message: &str| HubError::WriteRejected {
            key: "edge/web".into(),
            message: message.into(),
        };
        let unavailable = |message: &str, after| HubError::Unavailable {
            message: message.into(),
            retry_after_seconds: after,
        };
        let no_namespace = HubError::ClusterNamespaceMissing { cluster: "edge".into() };
        let stale = HubError::Stale { key: "edge/web".into() };
        let cases = [
            (404, status("NotFound", "", &json!({"kind": "namespaces"})), no_namespace.clone()),
            (404, status("NotFound", "", &json!({"kind": "manifestworks"})), stale.clone()),
            (
                404,
                status("NotFound", "the server could not find the requested resource", &none),
                HubError::CrdMissing,
            ),
            (404, json!("404 page not found"), HubError::CrdMissing),
            (
                403,
                status("Forbidden", "", &json!({"causes": [{"reason": "NamespaceTerminating"}]})),
                no_namespace,
            ),
            (403, status("Forbidden", "exceeded quota", &none), rejected("exceeded quota")),
            (409, status("AlreadyExists", "", &none), HubError::Exists { key: "edge/web".into() }),
            (409, status("Conflict", "", &none), stale),
            (400, status("BadRequest", "no\nkind", &none), rejected("no kind")),
            (413, json!("x"), rejected("HTTP status 413")),
            (422, status("Invalid", "spec is wrong", &none), rejected("spec is wrong")),
            (
                429,
                status("", "slow", &json!({"retryAfterSeconds": 3})),
                unavailable("slow", Some(3)),
            ),
            (
                500,
                status("", "etcdserver: request is too large", &none),
                rejected("etcdserver: request is too large"),
            ),
            (503, json!("<html>"), unavailable("HTTP status 503", None)),
        ];
        for (code, body, expected) in cases {
            assert_eq!(read(code, &body, Verb::Create), expected, "{code} {body}");
        }
    }

    #[test]
    fn taken_names_and_changed_works_have_the_same_reason() {
        for reason in ["AlreadyExists", "Conflict"] {
            let error = read(409, &status(reason, "", &json!({})), Verb::Create);
            assert_eq!(error.reason(), "Conflict", "{error:?}");
        }
    }

    #[test]
    fn a_missing_permission_is_named_with_its_rbac_rule() {
        let message = "manifestworks.work.open-cluster-management.io \"web\" is forbidden: \
                       User \"bot\" cannot patch resource \"manifestworks\" \
                       in API group \"work.open-cluster-management.io\"";
        let error = read(403, &status("Forbidden", message, &json!({})), Verb::Patch);
        let shown = describe(&error);
        for part in
            ["namespace \"edge\"", "verbs: [patch]", "resources: [manifestworks]", "User \"bot\""]
        {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn messages_are_bounded_and_secrets_hidden() {
        let long = "x".repeat(100_000);
        let HubError::WriteRejected { message, .. } =
            read(422, &status("", &long, &json!({})), Verb::Create)
        else {
            panic!("is rejected")
        };
        assert_eq!(message.chars().count(), limits::HUB_MESSAGE_CHARS_MAX);

        let error = read(
            422,
            &status("", &format!("t0ps3cret, dDBw, t0p, open{long}"), &json!({})),
            Verb::Create,
        );
        let shown = error.to_string();
        assert!(
            shown.starts_with("the hub refuses edge/web: (hidden), (hidden), (hidden), openxx"),
            "{shown}"
        );
    }
}
