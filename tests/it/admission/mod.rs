//! `gitwork admission` behind a real API server that calls it over TLS, with the rights of
//! `deploy/admission.yaml`.

mod certificates;
mod executors;
pub mod fixture;
mod garbage;
mod install;
mod load;
pub mod raw;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::eventually;
use fixture::{DEADLINE, Kind, Objects, config_map, namespace, shared, sized, with, with_policy};

const LIMIT: usize = 500 * 1024;

/// What a program serves that has checked a work with an executor, and got a request that is no
/// review.
pub async fn scrape() -> String {
    let (program, address, trusted) = garbage::target().await;
    for body in [&fixture::raw_review(Kind::Work, &fixture::executed("apps/deployer")), "{"] {
        let post = raw::post(fixture::WORKS_PATH, body);
        raw::exchange(address, &trusted, post.as_bytes()).await;
    }
    program.scrape().await
}

/// A spec and the beginning of each error, below the field of the spec.
fn rules() -> Vec<(&'static str, Value, Vec<&'static str>)> {
    let mut generated = config_map("one");
    generated["metadata"] = json!({"namespace": "default", "generateName": "one-"});
    let mut both = config_map("one");
    both["metadata"]["generateName"] = json!("one-");
    vec![
        ("good", with(&[config_map("one"), config_map("two")]), vec![]),
        ("empty", with(&[]), vec![".workload.manifests: "]),
        ("missing", json!({"workload": {}}), vec![".workload.manifests: "]),
        (
            "nameless",
            with(&[config_map("one"), generated.clone()]),
            vec![
                ".workload.manifests[1].metadata.name: name must be set in manifest",
                ".workload.manifests[1].metadata.generateName: generateName must not be set",
            ],
        ),
        (
            "generated",
            with(&[both.clone()]),
            vec![".workload.manifests[0].metadata.generateName: generateName must not be set"],
        ),
        (
            "twice",
            with(&[config_map("one"), config_map("two"), config_map("one")]),
            vec![
                ".workload.manifests[2]: duplicate manifest for resource default/one with \
                 resource type v1.ConfigMap",
            ],
        ),
        ("fits", sized(LIMIT), vec![]),
        (
            "large",
            sized(LIMIT + 1),
            vec![
                ".workload.manifests: the size of manifests is 512001 bytes which exceeds the \
                  512000 limit",
            ],
        ),
        (
            "several",
            with(&[both, config_map("two"), config_map("two"), generated]),
            vec![
                "manifests[0].metadata.generateName",
                "manifests[2]: duplicate",
                "manifests[3].metadata.name",
                "manifests[3].metadata.generateName",
            ],
        ),
    ]
}

fn assert_rule(kind: Kind, name: &str, answer: &Result<(), String>, errors: &[&str]) {
    let Err(found) = answer else {
        assert!(errors.is_empty(), "{kind:?} {name} is allowed");
        return;
    };
    assert!(!errors.is_empty(), "{kind:?} {name}: {found}");
    assert!(found.starts_with("400: admission webhook \"manifestwork"), "{found}");
    for error in errors {
        let error = match error.strip_prefix('.') {
            Some(below) => format!("{}.{below}", kind.field()),
            None => (*error).to_owned(),
        };
        assert!(found.contains(&error), "{kind:?} {name}: {found}\nhas not: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_rule_counts_for_creates_and_updates_of_both_kinds() {
    let hub = &shared().await.hub;
    for kind in Kind::ALL {
        let namespace = namespace(hub, None).await;
        let objects = Objects::new(hub.client(), kind, &namespace);
        for (name, spec, errors) in rules() {
            assert_rule(kind, name, &objects.create(name, &spec).await, &errors);
            let exists = objects.api.get_opt(name).await.unwrap().is_some();
            assert_eq!(exists, errors.is_empty(), "{kind:?} {name}");
        }
        objects.create("changes", &with(&[config_map("three")])).await.unwrap();
        for (name, spec, errors) in rules() {
            let answer = objects.update("changes", &spec).await;
            assert_rule(kind, name, &answer, &errors);
            if errors.is_empty() {
                objects.update("changes", &with(&[config_map("three")])).await.unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_their_fields_as_causes() {
    let hub = &shared().await.hub;
    let namespace = namespace(hub, None).await;
    let objects = Objects::new(hub.client(), Kind::Work, &namespace);
    let object = Kind::Work.object("bad", &with(&[]));
    let object = serde_json::from_value(object).unwrap();
    let error = objects.api.create(&Default::default(), &object).await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error}") };
    let causes = status.details.unwrap().causes;
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert_eq!(causes[0].field, "spec.workload.manifests");
    assert_eq!(causes[0].message, "manifests should not be empty");
    assert_eq!(status.reason, "BadRequest");
}

#[tokio::test(flavor = "multi_thread")]
async fn raised_limit_allows_more_and_no_more() {
    let (_program, namespace) = with_policy("raised", &["--manifest-limit", "700000"]).await;
    let hub = &shared().await.hub;
    for kind in Kind::ALL {
        let objects = Objects::new(hub.client(), kind, &namespace);
        objects.create("fits", &sized(700_000)).await.unwrap();
        let error = objects.create("large", &sized(700_001)).await.unwrap_err();
        assert!(error.contains("is 700001 bytes which exceeds the 700000 limit"), "{error}");
    }
}

/// A work from before the webhooks breaks a rule. Its agent must be able to finish it.
#[tokio::test(flavor = "multi_thread")]
async fn older_works_that_break_a_rule_can_be_reported_on_and_deleted() {
    let hub = &shared().await.hub;
    // Nobody is called for this namespace.
    let namespace = namespace(hub, Some("none")).await;
    for kind in Kind::ALL {
        let objects = Objects::new(hub.client(), kind, &namespace);
        objects.create("old", &with(&[])).await.unwrap();
        objects
            .patch("old", json!({"metadata": {"finalizers": ["example.com/agent"]}}))
            .await
            .unwrap();
    }
    let namespaces: kube::Api<k8s_openapi::api::core::v1::Namespace> = kube::Api::all(hub.client());
    let unlabelled = Patch::Merge(json!({"metadata": {"labels": {"policy": null}}}));
    namespaces.patch(&namespace, &PatchParams::default(), &unlabelled).await.unwrap();
    fixture::until_called(hub, &namespace).await;
    for kind in Kind::ALL {
        let objects = Objects::new(hub.client(), kind, &namespace);
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        objects.patch("old", label).await.unwrap();
        let status = Patch::Merge(json!({"status": {"conditions": []}}));
        objects.api.patch_status("old", &PatchParams::default(), &status).await.unwrap();
        let twice = with(&[config_map("one"), config_map("one")]);
        let error = objects.update("old", &twice).await.unwrap_err();
        assert!(error.contains("duplicate manifest"), "{error}");
        objects.api.delete("old", &Default::default()).await.unwrap();
        objects.patch("old", json!({"metadata": {"finalizers": null}})).await.unwrap();
        let gone = || async {
            match objects.api.get_opt("old").await.unwrap() {
                None => Ok(()),
                Some(_) => Err("it is there".to_owned()),
            }
        };
        eventually("the object to be gone", DEADLINE, gone).await.unwrap();
    }
}

/// More levels than a client in Rust reads.
#[tokio::test(flavor = "multi_thread")]
async fn deep_manifest_is_rejected_before_it_breaks_lists() {
    let hub = &shared().await.hub;
    let namespace = namespace(hub, None).await;
    let object = Kind::Work.object("deep", &with(&[json!("DEEP")])).to_string();
    for (levels, is_allowed) in [(100, true), (101, false), (5_000, false)] {
        let manifest = format!(
            r#"{{"apiVersion":"v1","kind":"Deep","metadata":{{"name":"a"}},"x":{}{}}}"#,
            "[".repeat(levels - 1),
            "]".repeat(levels - 1)
        );
        let body =
            object.replace("\"DEEP\"", &manifest).replace("\"deep\"", &format!("\"d{levels}\""));
        let path = format!(
            "/apis/work.open-cluster-management.io/v1/namespaces/{namespace}/manifestworks"
        );
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(body.into_bytes()).unwrap();
        let answer = hub.client().request_text(request).await;
        match answer {
            Ok(_) => assert!(is_allowed, "{levels}"),
            Err(error) => {
                let error = error.to_string();
                assert!(!is_allowed, "{levels}: {error}");
                assert!(error.contains(&format!("has {levels} levels of lists")), "{error}");
            }
        }
    }
}
