//! The executor of a work or of a template, and the question about it.

use std::borrow::Cow;

use crate::access::{AccessAnswer, AccessQuestion, RequestUser};
use crate::json_text::JsonText;
use crate::policy::NilExecutor;
use crate::reviewed_kind::ReviewedKind;
use crate::verdict::{FieldError, FieldErrors, quoted};

/// What OCM asks about if a work has no executor: the account of its agent, in no namespace.
const AGENT_ACCOUNT: &str = "klusterlet-work-sa";

/// The question about an executor, if there is one. An executor without an account is an error.
pub(crate) fn question(
    kind: ReviewedKind,
    executor: Option<JsonText<'_>>,
    (user, namespace): (&RequestUser, &str),
    nil: NilExecutor,
    errors: &mut FieldErrors,
) -> Option<AccessQuestion> {
    let text = |path: &[&str]| executor?.at(path)?.string().map(Cow::into_owned);
    let (account_namespace, account_name) = match executor {
        None if nil == NilExecutor::Allowed => return None,
        None => (String::new(), AGENT_ACCOUNT.to_owned()),
        Some(_) => {
            let field = format!("{}.executor.subject", kind.spec_field());
            let error = |below: &str, message: &str| FieldError {
                field: format!("{field}{below}"),
                reason: "FieldValueInvalid",
                message: message.to_owned(),
            };
            if text(&["subject", "type"]).is_some_and(|kind| kind != "ServiceAccount") {
                errors.add(|| error(".type", "only a ServiceAccount can be an executor"));
                return None;
            }
            let account = |field| text(&["subject", "serviceAccount", field]);
            let Some(account) = account("namespace").zip(account("name")) else {
                let message = "executor service account can not be nil; set its namespace and name";
                errors.add(|| error(".serviceAccount", message));
                return None;
            };
            account
        }
    };
    // The works of a set may be in the namespace of any cluster.
    let namespace = match kind {
        ReviewedKind::ManifestWork => namespace.to_owned(),
        ReviewedKind::ManifestWorkReplicaSet => String::new(),
    };
    Some(AccessQuestion { user: user.clone(), namespace, account_namespace, account_name })
}

/// The error that an answer means; `None` if the user may.
pub(crate) fn error_of(
    kind: ReviewedKind,
    question: &AccessQuestion,
    answer: &AccessAnswer,
) -> Option<FieldError> {
    let user = quoted(&question.user.username);
    let (namespace, name) = (quoted(&question.account_namespace), quoted(&question.account_name));
    let message = match (answer, kind) {
        (AccessAnswer::Allowed, _) => return None,
        (AccessAnswer::Unknown(why), _) => format!(
            "cannot ask the API server whether user {user} may use the executor \
             {namespace}/{name}, so the write is rejected: {}",
            quoted(why)
        ),
        (AccessAnswer::Denied(note), ReviewedKind::ManifestWork) => format!(
            "user {user} cannot manipulate the Manifestwork with executor {namespace}/{name} in \
             namespace {}; grant the verb execute-as on the manifestworks named {} there{}",
            quoted(&question.namespace),
            quoted(&question.resource_name()),
            noted(note)
        ),
        (AccessAnswer::Denied(note), ReviewedKind::ManifestWorkReplicaSet) => format!(
            "user {user} cannot manipulate the ManifestWorkReplicaSet with executor \
             {namespace}/{name}, as its works may be in every namespace; grant the verb execute-as \
             on the manifestworks named {} by a ClusterRoleBinding{}",
            quoted(&question.resource_name()),
            noted(note)
        ),
    };
    let field = format!("{}.executor", kind.spec_field());
    let reason = match answer {
        AccessAnswer::Unknown(_) => "UnexpectedServerResponse",
        _ => "FieldValueForbidden",
    };
    Some(FieldError { field, reason, message })
}

/// An authorizer's error, to be appended.
fn noted(note: &str) -> String {
    if note.is_empty() {
        String::new()
    } else {
        format!(" (the API server adds: {})", quoted(note))
    }
}
