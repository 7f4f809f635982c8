//! Reviews of writes: decodes an AdmissionReview, and checks its object.

use crate::access::{AccessAnswer, AccessQuestion, RequestUser};
use crate::executor;
use crate::json_text::JsonText;
use crate::manifest_rules::check_manifests;
use crate::policy::ReviewPolicy;
use crate::reviewed_kind::ReviewedKind;
use crate::verdict::{AdmissionVerdict, FieldError, FieldErrors, quoted};

/// Why a request is no review that can be answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// The body is not JSON.
    #[error("the body is not JSON: {0}")]
    NotJson(String),
    /// The body is another object.
    #[error("the body is {api_version:?} {kind:?}, not admission.k8s.io/v1 AdmissionReview")]
    NotReview {
        /// Its `apiVersion`.
        api_version: String,
        /// Its `kind`.
        kind: String,
    },
    /// There is no request, or it has no uid.
    #[error("the AdmissionReview has no request.uid")]
    NoUid,
}

/// What a review found so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewedWrite {
    uid: String,
    kind: ReviewedKind,
    errors: FieldErrors,
    /// What to ask the API server before there is a verdict.
    pub question: Option<AccessQuestion>,
}

impl ReviewedWrite {
    /// The verdict. `answer` is that to the question, if there is one. Without it, the write is
    /// rejected.
    pub fn verdict(self, answer: Option<AccessAnswer>) -> AdmissionVerdict {
        let Self { uid, kind, mut errors, question } = self;
        let mut unanswered = None;
        if let Some(question) = question {
            let answer = answer.unwrap_or_else(|| AccessAnswer::Unknown("not asked".to_owned()));
            let error = executor::error_of(kind, &question, &answer);
            match answer {
                AccessAnswer::Unknown(_) => unanswered = error,
                _ => error.into_iter().for_each(|error| errors.add(|| error)),
            }
        }
        AdmissionVerdict::new(uid, errors, unanswered)
    }
}

/// Reviews the request in `body` for the webhook of `kind`.
///
/// # Errors
/// The body is no AdmissionReview that can be answered. Everything else that is wrong is an error
/// of the review.
pub fn review(
    kind: ReviewedKind,
    body: &[u8],
    policy: &ReviewPolicy,
) -> Result<ReviewedWrite, ReviewError> {
    let body = JsonText::check(body).map_err(ReviewError::NotJson)?;
    let [api_version, name, request] = body.fields(["apiVersion", "kind", "request"]);
    let (api_version, name) = (text(api_version), text(name));
    if api_version != "admission.k8s.io/v1" || name != "AdmissionReview" {
        let (api_version, kind) = (quoted(&api_version), quoted(&name));
        return Err(ReviewError::NotReview { api_version, kind });
    }
    let request = RequestParts::read(request.ok_or(ReviewError::NoUid)?);
    if request.uid.is_empty() {
        return Err(ReviewError::NoUid);
    }
    let (mut errors, mut question) = (FieldErrors::default(), None);
    match requested_specs(kind, &request) {
        Ok(None) => {}
        Ok(Some(specs)) => question = check(kind, &request, &specs, policy, &mut errors),
        Err(message) => errors.add(|| error_of_request(message)),
    }
    Ok(ReviewedWrite { uid: request.uid, kind, errors, question })
}

/// The text of a string; empty if there is none.
fn text(value: Option<JsonText<'_>>) -> String {
    JsonText::text_or_empty(value)
}

fn error_of_request(message: String) -> FieldError {
    FieldError { field: String::new(), reason: "UnexpectedServerResponse", message }
}

/// What counts of a request.
struct RequestParts<'a> {
    uid: String,
    group: String,
    version: String,
    resource: String,
    sub_resource: String,
    operation: String,
    namespace: String,
    user: Option<JsonText<'a>>,
    object: Option<JsonText<'a>>,
    old_object: Option<JsonText<'a>>,
}

impl<'a> RequestParts<'a> {
    fn read(request: JsonText<'a>) -> Self {
        let [uid, resource, sub_resource, operation, namespace] =
            request.fields(["uid", "resource", "subResource", "operation", "namespace"]);
        let [user, object, old_object] = request.fields(["userInfo", "object", "oldObject"]);
        let [group, version, resource] =
            resource.map_or([None; 3], |it| it.fields(["group", "version", "resource"]));
        let is_object = |value: &JsonText<'_>| value.is_object();
        Self {
            uid: text(uid),
            group: text(group),
            version: text(version),
            resource: text(resource),
            sub_resource: text(sub_resource),
            operation: text(operation),
            namespace: text(namespace),
            user,
            object: object.filter(is_object),
            old_object: old_object.filter(is_object),
        }
    }
}

/// The specs of works to check: the one that is written, and the one that it replaces.
struct RequestedSpecs<'a> {
    new: WorkSpecParts<'a>,
    old: Option<WorkSpecParts<'a>>,
}

/// What counts of the spec of a work.
struct WorkSpecParts<'a> {
    workload: Option<JsonText<'a>>,
    executor: Option<JsonText<'a>>,
}

impl<'a> WorkSpecParts<'a> {
    fn read(kind: ReviewedKind, object: JsonText<'a>) -> Self {
        let spec = kind.spec(object);
        let [workload, executor] =
            spec.map_or([None; 2], |spec| spec.fields(["workload", "executor"]));
        Self { workload, executor }
    }
}

/// The specs to check. `None` if this webhook has nothing to say about the request.
fn requested_specs<'a>(
    kind: ReviewedKind,
    request: &RequestParts<'a>,
) -> Result<Option<RequestedSpecs<'a>>, String> {
    let RequestParts { group, version, resource, .. } = request;
    let is_ours = group == gitwork_api::work::GROUP && resource == kind.resource();
    if !is_ours || version != kind.version() {
        return Err(format!(
            "this webhook checks {} {}, not {}/{} {}; correct the rules of the \
             ValidatingWebhookConfiguration",
            kind.version(),
            kind.resource(),
            quoted(group),
            quoted(version),
            quoted(resource)
        ));
    }
    let is_update = request.operation == "UPDATE";
    // A status has no manifests, and agents must be able to report and to finish deletions.
    if !request.sub_resource.is_empty() || !(is_update || request.operation == "CREATE") {
        return Ok(None);
    }
    let new = request.object.ok_or_else(|| "the request has no object".to_owned())?;
    if is_update && request.old_object.is_none() {
        return Err("the request has no oldObject".to_owned());
    }
    let old = request.old_object.filter(|_| is_update);
    let read = |object| WorkSpecParts::read(kind, object);
    Ok(Some(RequestedSpecs { new: read(new), old: old.map(read) }))
}

/// Checks what a write sets or changes. What it leaves as it is, is not checked: an agent must be
/// able to remove its finalizer from a work that is older than a rule. The API server writes both
/// objects in the same way, with sorted fields, so that equal values have equal texts.
fn check(
    kind: ReviewedKind,
    request: &RequestParts<'_>,
    specs: &RequestedSpecs<'_>,
    policy: &ReviewPolicy,
    errors: &mut FieldErrors,
) -> Option<AccessQuestion> {
    let RequestedSpecs { new, old } = specs;
    if old.as_ref().is_none_or(|old| old.workload != new.workload) {
        let manifests = new.workload.and_then(|workload| workload.field("manifests"));
        let list = format!("{}.workload.manifests", kind.spec_field());
        check_manifests(manifests, (&list, kind.nothing()), policy.manifests_bytes_max, errors);
    }
    if old.as_ref().is_some_and(|old| old.executor == new.executor) {
        return None;
    }
    let user = request.user.map_or("{}", JsonText::text);
    let user: RequestUser = match serde_json::from_str(user) {
        Ok(user) => user,
        Err(error) => {
            errors.add(|| error_of_request(format!("request.userInfo cannot be read: {error}")));
            return None;
        }
    };
    let asker = (&user, request.namespace.as_str());
    executor::question(kind, new.executor, asker, policy.nil_executor, errors)
}
