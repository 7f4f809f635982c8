//! Tables of the rules, and requests of any form.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::access::{AccessAnswer, RequestUser};
use crate::limits;
use crate::policy::{NilExecutor, ReviewPolicy};
use crate::review::{ReviewError, ReviewedWrite, review};
use crate::reviewed_kind::ReviewedKind;

const POLICY: ReviewPolicy =
    ReviewPolicy { manifests_bytes_max: 2_000, nil_executor: NilExecutor::Allowed };

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": name}})
}

/// An object with these manifests, of either kind.
fn object(kind: ReviewedKind, spec: &Value) -> Value {
    match kind {
        ReviewedKind::ManifestWork => json!({"metadata": {"name": "w"}, "spec": spec}),
        ReviewedKind::ManifestWorkReplicaSet => {
            json!({"metadata": {"name": "s"}, "spec": {"manifestWorkTemplate": spec}})
        }
    }
}

fn request(kind: ReviewedKind, spec: &Value, old: Option<&Value>) -> Value {
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u1", "operation": operation, "namespace": "edge-7", "name": "w",
            "resource": {"group": "work.open-cluster-management.io",
                "version": kind.version(), "resource": kind.resource()},
            "userInfo": {"username": "ann", "uid": "7", "groups": ["dev"],
                "extra": {"scopes": ["a"]}},
            "object": object(kind, spec),
            "oldObject": old.map(|old| object(kind, old)),
        },
    })
}

fn reviewed(kind: ReviewedKind, request: &Value, policy: &ReviewPolicy) -> ReviewedWrite {
    review(kind, request.to_string().as_bytes(), policy).unwrap()
}

/// The message of the verdict without a question; empty if the write is allowed.
fn message(kind: ReviewedKind, spec: &Value, old: Option<&Value>) -> String {
    let found = reviewed(kind, &request(kind, spec, old), &POLICY);
    assert_eq!(found.question, None);
    let verdict = found.verdict(None);
    assert_eq!(verdict.is_allowed(), verdict.message().is_empty());
    verdict.message()
}

fn with(manifests: &[Value]) -> Value {
    json!({"workload": {"manifests": manifests}})
}

#[test]
fn each_rule_has_the_message_of_ocm_and_the_field() {
    let mut generated = config_map("one");
    generated["metadata"]["generateName"] = json!("one-");
    let kindless = json!({"apiVersion": "v1", "metadata": {"name": "one"}});
    let of_other_version = json!({"apiVersion": "v2", "kind": "ConfigMap",
        "metadata": {"namespace": "a", "name": "one"}});
    for (manifests, expected) in [
        (vec![config_map("one")], ""),
        (vec![config_map("one"), config_map("two")], ""),
        (vec![config_map("one"), of_other_version], ""),
        (vec![kindless], "manifests[0].kind: Object 'Kind' is missing"),
        (
            vec![config_map("one"), config_map("")],
            "manifests[1].metadata.name: name must be set in manifest",
        ),
        (
            vec![generated],
            "manifests[0].metadata.generateName: generateName must not be set in manifest",
        ),
        (
            vec![config_map("one"), config_map("two"), config_map("one")],
            "manifests[2]: duplicate manifest for resource a/one with resource type v1.ConfigMap",
        ),
        (
            vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": 3}})],
            "manifests[0].metadata.name: name must be set in manifest",
        ),
        (vec![json!("text")], "manifests[0].kind: Object 'Kind' is missing"),
    ] {
        for kind in ReviewedKind::ALL {
            let found = message(kind, &with(&manifests), None);
            let expected = match expected {
                "" => String::new(),
                error => format!("{}.workload.{error}", kind.spec_field()),
            };
            assert_eq!(found.is_empty(), expected.is_empty(), "{found}");
            assert!(found.starts_with(&expected), "{found}\nis not: {expected}");
        }
    }
}

#[test]
fn manifests_must_be_there() {
    for spec in [
        json!({}),
        json!({"workload": {}}),
        json!({"workload": {"manifests": null}}),
        with(&[]),
        json!(null),
        json!([]),
    ] {
        let found = message(ReviewedKind::ManifestWork, &spec, None);
        assert_eq!(found, "spec.workload.manifests: manifests should not be empty", "{spec}");
        let found = message(ReviewedKind::ManifestWorkReplicaSet, &spec, None);
        let expected = "spec.manifestWorkTemplate.workload.manifests: \
                        Workload manifests should not be empty";
        assert_eq!(found, expected, "{spec}");
    }
    let found = message(ReviewedKind::ManifestWork, &json!({"workload": {"manifests": {}}}), None);
    assert_eq!(found, "spec.workload.manifests: manifests must be a list");
}

#[test]
fn all_errors_come_at_once_and_endless_ones_are_counted() {
    let manifests = [config_map(""), json!({"metadata": {"name": "x"}}), config_map("")];
    let found = message(ReviewedKind::ManifestWork, &with(&manifests), None);
    for part in ["[0].metadata.name", "[1].kind", "[2].metadata.name"] {
        assert!(found.contains(part), "{found}");
    }
    let many = vec![json!(1); 500];
    let found = message(ReviewedKind::ManifestWork, &with(&many), None);
    assert_eq!(found.matches("must be set").count(), limits::ERRORS_MAX);
    assert!(found.ends_with("; and 980 more errors"), "{found}");
}

#[test]
fn size_is_checked_at_the_limit_and_one_byte_over() {
    let sized = |bytes: usize| {
        let empty = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"},
            "data": {"x": ""}});
        let length = empty.to_string().len();
        let mut manifest = empty;
        // A tag and two bytes of length.
        manifest["data"]["x"] = json!("x".repeat(bytes - 3 - length));
        with(&[manifest])
    };
    for kind in ReviewedKind::ALL {
        assert_eq!(message(kind, &sized(2_000), None), "");
        let found = message(kind, &sized(2_001), None);
        let expected = "the size of manifests is 2001 bytes which exceeds the 2000 limit; split \
                        the work; its largest manifests are ConfigMap big (2001 bytes)";
        assert_eq!(found, format!("{}.workload.manifests: {expected}", kind.spec_field()));
        let raised = ReviewPolicy { manifests_bytes_max: 2_001, ..POLICY };
        let verdict = reviewed(kind, &request(kind, &sized(2_001), None), &raised).verdict(None);
        assert!(verdict.is_allowed(), "{}", verdict.message());
    }
}

#[test]
fn deep_manifests_are_rejected_and_stay_as_they_are() {
    let nested = |levels: usize| {
        format!(
            r#"{{"apiVersion":"v1","kind":"A","metadata":{{"name":"a"}},"x":{}1{}}}"#,
            "[".repeat(levels - 1),
            "]".repeat(levels - 1)
        )
    };
    let spec = |levels| format!(r#"{{"workload":{{"manifests":[{}]}}}}"#, nested(levels));
    let review_of = |new: &str, old: Option<&str>| {
        let kind = ReviewedKind::ManifestWork;
        let text = request(kind, &json!("NEW"), old.map(|_| json!("OLD")).as_ref()).to_string();
        let text = text.replace("\"NEW\"", new).replace("\"OLD\"", old.unwrap_or_default());
        let policy = ReviewPolicy { manifests_bytes_max: 10_000_000, ..POLICY };
        review(kind, text.as_bytes(), &policy).unwrap().verdict(None).message()
    };
    assert_eq!(review_of(&spec(limits::MANIFEST_DEPTH_MAX), None), "");
    for levels in [limits::MANIFEST_DEPTH_MAX + 1, 500_000] {
        let found = review_of(&spec(levels), None);
        let expected = format!("manifests[0]: the manifest has {levels} levels");
        assert!(found.contains(&expected), "{found}");
        assert_eq!(review_of(&spec(levels), Some(&spec(levels))), "");
    }
}

#[test]
fn unchanged_content_is_not_checked_again() {
    let bad = with(&[]);
    let good = with(&[config_map("one")]);
    for kind in ReviewedKind::ALL {
        assert_eq!(message(kind, &bad, Some(&bad)), "");
        assert_ne!(message(kind, &bad, Some(&good)), "");
        assert_eq!(message(kind, &good, Some(&bad)), "");
        let mut other = bad.clone();
        other["deleteOption"] = json!({"propagationPolicy": "Orphan"});
        assert_eq!(message(kind, &other, Some(&bad)), "");
    }
}

fn executor(namespace: &str, name: &str) -> Value {
    json!({"subject": {"type": "ServiceAccount",
        "serviceAccount": {"namespace": namespace, "name": name}}})
}

fn executed(executor: Value) -> Value {
    let mut spec = with(&[config_map("one")]);
    spec["executor"] = executor;
    spec
}

#[test]
fn executor_is_asked_about_where_it_counts() {
    let deployer = executed(executor("apps", "deployer"));
    for (kind, namespace, expected) in [
        (
            ReviewedKind::ManifestWork,
            "edge-7",
            "spec.executor: user ann cannot manipulate the Manifestwork with executor \
             apps/deployer in namespace edge-7; grant the verb execute-as on the manifestworks \
             named system:serviceaccount:apps:deployer there",
        ),
        (
            ReviewedKind::ManifestWorkReplicaSet,
            "",
            "spec.manifestWorkTemplate.executor: user ann cannot manipulate the \
             ManifestWorkReplicaSet with executor apps/deployer, as its works may be in every \
             namespace; grant the verb execute-as on the manifestworks named \
             system:serviceaccount:apps:deployer by a ClusterRoleBinding",
        ),
    ] {
        let found = reviewed(kind, &request(kind, &deployer, None), &POLICY);
        let question = found.question.clone().unwrap();
        assert_eq!(question.namespace, namespace);
        let user = RequestUser {
            username: "ann".into(),
            uid: "7".into(),
            groups: vec!["dev".into()],
            extra: [("scopes".into(), vec!["a".into()])].into(),
        };
        assert_eq!(question.user, user);
        let spec = &question.subject_access_review()["spec"];
        assert_eq!(spec["resourceAttributes"]["name"], "system:serviceaccount:apps:deployer");
        assert_eq!(spec["extra"], json!({"scopes": ["a"]}));
        assert!(found.clone().verdict(Some(AccessAnswer::Allowed)).is_allowed());
        let denied = found.clone().verdict(Some(AccessAnswer::Denied(String::new())));
        assert_eq!(denied.message(), expected);
        assert_eq!(denied.response()["response"]["status"]["code"], 400);
        // Without an answer, nothing is allowed, and the client may try again.
        for answer in [None, Some(AccessAnswer::Unknown("no answer".into()))] {
            let unknown = found.clone().verdict(answer);
            assert!(!unknown.is_allowed() && unknown.is_unanswered());
            assert_eq!(unknown.response()["response"]["status"]["code"], 503);
        }
    }
}

#[test]
fn executor_is_asked_about_when_it_changes() {
    let (none, one) = (with(&[config_map("one")]), executed(executor("apps", "one")));
    let two = executed(executor("apps", "two"));
    let checked = ReviewPolicy { nil_executor: NilExecutor::Checked, ..POLICY };
    for kind in ReviewedKind::ALL {
        for (old, new, policy, expected) in [
            (None, &none, POLICY, None),
            (None, &none, checked, Some("system:serviceaccount::klusterlet-work-sa")),
            (None, &one, checked, Some("system:serviceaccount:apps:one")),
            (Some(&none), &none, checked, None),
            (Some(&one), &one, checked, None),
            (Some(&one), &two, POLICY, Some("system:serviceaccount:apps:two")),
            (Some(&one), &none, POLICY, None),
            (Some(&one), &none, checked, Some("system:serviceaccount::klusterlet-work-sa")),
        ] {
            let found = reviewed(kind, &request(kind, new, old), &policy);
            let name = found.question.map(|question| question.resource_name());
            assert_eq!(name.as_deref(), expected, "{kind:?} {old:?} {new} {policy:?}");
        }
    }
}

#[test]
fn executor_without_an_account_is_an_error() {
    for (executor, expected) in [
        (json!({}), "executor.subject.serviceAccount: executor service account can not be nil"),
        (
            json!({"subject": {"type": "ServiceAccount"}}),
            "executor.subject.serviceAccount: executor service account can not be nil",
        ),
        (
            json!({"subject": {"type": "User", "name": "root"}}),
            "executor.subject.type: only a ServiceAccount can be an executor",
        ),
    ] {
        let found = message(ReviewedKind::ManifestWork, &executed(executor), None);
        assert!(found.starts_with(&format!("spec.{expected}")), "{found}");
    }
}

#[test]
fn a_bad_executor_and_bad_manifests_come_together() {
    let mut spec = executed(executor("apps", "deployer"));
    spec["workload"]["manifests"] = json!([]);
    let kind = ReviewedKind::ManifestWork;
    let found = reviewed(kind, &request(kind, &spec, None), &POLICY);
    let denied = found.clone().verdict(Some(AccessAnswer::Denied("role x is missing".into())));
    let message = denied.message();
    assert!(message.contains("should not be empty; spec.executor: user ann cannot"), "{message}");
    assert!(message.ends_with("(the API server adds: role x is missing)"), "{message}");
    let causes = denied.response();
    let causes = causes.pointer("/response/status/details/causes").unwrap().as_array().unwrap();
    assert_eq!(causes.len(), 2);
    assert_eq!(causes[0]["field"], "spec.workload.manifests");
    let unknown = found.verdict(None);
    // Another try cannot succeed.
    assert_eq!(unknown.response()["response"]["status"]["code"], 400);
}

#[test]
fn hostile_names_are_one_short_line() {
    let name = format!("a\n\u{1b}[31m{}", "x".repeat(100_000));
    let manifests = [config_map(&name), config_map(&name)];
    let kind = ReviewedKind::ManifestWork;
    let policy = ReviewPolicy { manifests_bytes_max: 1_000_000, ..POLICY };
    let verdict = reviewed(kind, &request(kind, &with(&manifests), None), &policy).verdict(None);
    let message = verdict.message();
    assert!(!message.contains(['\n', '\u{1b}']) && message.len() < 1_000, "{message}");
}

#[test]
fn what_is_not_to_be_checked_is_allowed_and_wrong_rules_are_named() {
    let kind = ReviewedKind::ManifestWork;
    let bad = request(kind, &with(&[]), Some(&with(&[config_map("one")])));
    let answer = |pointer: &str, value: Value| {
        let mut request = bad.clone();
        *request.pointer_mut(pointer).unwrap() = value;
        reviewed(kind, &request, &POLICY).verdict(None).message()
    };
    assert_eq!(answer("/request/operation", json!("DELETE")), "");
    let mut status = bad.clone();
    status["request"]["subResource"] = json!("status");
    assert!(reviewed(kind, &status, &POLICY).verdict(None).is_allowed());
    for (pointer, value) in [
        ("/request/resource/resource", "pods"),
        ("/request/resource/version", "v2"),
        ("/request/resource/group", ""),
    ] {
        let found = answer(pointer, json!(value));
        assert!(found.starts_with("this webhook checks v1 manifestworks, not "), "{found}");
    }
    assert_eq!(answer("/request/object", json!(null)), "the request has no object");
    assert_eq!(answer("/request/oldObject", json!([])), "the request has no oldObject");
    let mut user = request(kind, &executed(executor("a", "b")), None);
    user["request"]["userInfo"]["groups"] = json!("root");
    let found = reviewed(kind, &user, &POLICY);
    assert_eq!(found.question, None);
    assert!(found.verdict(None).message().starts_with("request.userInfo cannot be read"));
}

#[test]
fn garbage_is_no_review() {
    let of = |body: &[u8]| review(ReviewedKind::ManifestWork, body, &POLICY).unwrap_err();
    for body in [&b""[..], b"x", b"{", b"\xff\xfe", b"{}{}"] {
        assert!(matches!(of(body), ReviewError::NotJson(_)), "{body:?}");
    }
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    for body in [
        "1",
        "[]",
        "{}",
        "null",
        &deep,
        r#"{"apiVersion":"v1","kind":"Pod"}"#,
        r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}"#,
    ] {
        let error = of(body.as_bytes());
        assert!(matches!(error, ReviewError::NotReview { .. }), "{error}");
    }
    for request in [json!(null), json!({}), json!({"uid": ""}), json!({"uid": 1}), json!([])] {
        let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": request});
        assert_eq!(of(body.to_string().as_bytes()), ReviewError::NoUid, "{request}");
    }
}

/// Any JSON at any place of a request.
fn replaced() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i32>().prop_map(|number| json!(number)),
        ".{0,12}".prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 30, 4, |inner| {
        let key = prop_oneof![
            Just("spec".to_owned()),
            Just("workload".to_owned()),
            Just("manifests".to_owned()),
            Just("executor".to_owned()),
            Just("metadata".to_owned()),
            Just("name".to_owned()),
            Just("subject".to_owned()),
            Just("kind".to_owned()),
            ".{0,4}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(key, inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The places of all values below this one.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, part)| pointers(part, &format!("{at}/{name}"), found));
        }
        Value::Array(items) => {
            let all = items.iter().enumerate();
            all.for_each(|(index, part)| pointers(part, &format!("{at}/{index}"), found));
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn any_json_is_answered(value in replaced(), place in any::<prop::sample::Index>()) {
        let kind = ReviewedKind::ManifestWork;
        let old = with(&[config_map("one")]);
        let mut request = request(kind, &executed(executor("apps", "deployer")), Some(&old));
        let mut places = Vec::new();
        pointers(&request, "", &mut places);
        *request.pointer_mut(place.get(&places).as_str()).unwrap() = value;
        let policy = ReviewPolicy { nil_executor: NilExecutor::Checked, ..POLICY };
        if let Ok(review) = review(kind, request.to_string().as_bytes(), &policy) {
            let is_asked = review.question.is_some();
            let verdict = review.verdict(None);
            prop_assert!(!is_asked || !verdict.is_allowed());
            let response = verdict.response();
            prop_assert_eq!(&response["response"]["uid"], &request["request"]["uid"]);
        }
    }

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _answered = review(ReviewedKind::ManifestWorkReplicaSet, &bytes, &POLICY);
    }
}
