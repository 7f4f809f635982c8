use serde_json::json;

use super::*;

fn work(cluster: &str, conditions: &Value) -> Value {
    json!({
        "metadata": {
            "namespace": cluster, "name": "web", "generation": 2,
            "labels": { LABEL_SOURCE: "fleet" },
            "annotations": { ANNOTATION_COMMIT: "abc" },
        },
        "spec": { "workload": { "manifests": [{}, {}] } },
        "status": { "conditions": conditions },
    })
}

fn condition(kind: &str, status: &str, generation: i64) -> Value {
    json!({ "type": kind, "status": status, "observedGeneration": generation,
            "lastTransitionTime": "2026-01-02T03:04:05Z", "message": "because" })
}

#[test]
fn conditions_of_an_older_generation_do_not_count() {
    let cases = [
        (json!([]), State::Pending),
        (json!([condition("Applied", "True", 1)]), State::Pending),
        (json!([condition("Applied", "False", 1)]), State::Pending),
        (json!([condition("Applied", "True", 2)]), State::Applied),
        (json!([condition("Applied", "False", 2)]), State::Failed),
        (
            json!([condition("Applied", "True", 2), condition("Available", "True", 1)]),
            State::Applied,
        ),
        (
            json!([condition("Applied", "True", 2), condition("Available", "True", 2)]),
            State::Available,
        ),
        (
            json!([condition("Applied", "True", 2), condition("Available", "False", 2)]),
            State::Progressing,
        ),
        (
            json!([
                condition("Applied", "True", 2),
                condition("Available", "True", 2),
                condition("Progressing", "True", 2)
            ]),
            State::Progressing,
        ),
        (
            json!([condition("Applied", "True", 2), condition("Degraded", "True", 2)]),
            State::Degraded,
        ),
        (
            json!([condition("Applied", "True", 2), condition("Complete", "True", 2)]),
            State::Complete,
        ),
    ];
    for (conditions, expected) in cases {
        let status = of_work(&work("edge-1", &conditions), |_| false);
        assert_eq!(status.state, expected, "{conditions}");
    }
}

#[test]
fn a_failure_names_the_object() {
    let mut object = work("edge-1", &json!([condition("Applied", "False", 2)]));
    object["status"]["resourceStatus"] = json!({ "manifests": [
        { "resourceMeta": { "kind": "ConfigMap", "namespace": "shop", "name": "a" },
          "conditions": [{ "type": "Applied", "status": "True" }] },
        { "resourceMeta": { "kind": "Deployment", "namespace": "shop", "name": "web" },
          "conditions": [{ "type": "Applied", "status": "False", "message": "no such image" }] },
    ]});
    let status = of_work(&object, |_| false);
    assert_eq!(status.message.as_deref(), Some("Deployment shop/web: no such image"));
    assert_eq!((status.manifests, status.manifests_applied), (2, 1));
}

#[test]
fn one_line_summarizes_all_works() {
    let of = |cluster: &str, kind: &str, status: &str| {
        let conditions = json!([condition("Applied", "True", 2), condition(kind, status, 2)]);
        of_work(&work(cluster, &conditions), |name| name.as_str() == "gone")
    };
    let failed = of_work(&work("edge-7", &json!([condition("Applied", "False", 2)])), |_| false);
    let works = [
        of("edge-1", "Available", "True"),
        of("edge-2", "Progressing", "True"),
        of("gone", "Available", "True"),
        of("edge-7", "Available", "True"),
        failed,
    ];
    assert_eq!(
        aggregate(works.iter()),
        "1/4 clusters applied, 1 progressing, 1 failed: edge-7, 1 unreachable: gone"
    );
}

#[test]
fn message_about_secret_is_not_shown() {
    let mut object = work("edge-1", &json!([condition("Applied", "False", 2)]));
    object["status"]["resourceStatus"] = json!({ "manifests": [
        { "resourceMeta": { "kind": "Secret", "namespace": "shop", "name": "key" },
          "conditions": [{ "type": "Applied", "status": "False", "message": "CANARY" }] },
    ]});
    let message = of_work(&object, |_| false).message.unwrap();
    assert!(message.starts_with("Secret shop/key: ") && !message.contains("CANARY"), "{message}");
}

#[test]
fn verdicts_follow_the_clusters_that_can_be_reached() {
    use State::{Applied, Degraded, Frozen, Held, Pending, Progressing, Suspended};
    type Case = (&'static [(&'static str, State, bool)], RolloutVerdict);
    let cases: &[Case] = &[
        (&[], RolloutVerdict::Success),
        (&[("a", Applied, false)], RolloutVerdict::Success),
        (&[("a", Applied, false), ("b", Suspended, false)], RolloutVerdict::Success),
        (&[("a", Applied, false), ("b", Pending, true)], RolloutVerdict::Success),
        (&[("a", Applied, false), ("b", Degraded, true)], RolloutVerdict::Success),
        (&[("a", Applied, true)], RolloutVerdict::Pending),
        (&[("a", Applied, false), ("a", Progressing, false)], RolloutVerdict::Pending),
        (&[("a", Held, false)], RolloutVerdict::Pending),
        (&[("a", Progressing, false), ("b", Frozen, false)], RolloutVerdict::Failure),
    ];
    for (works, expected) in cases {
        assert_eq!(Clusters::new(works.iter().copied()).verdict(), *expected, "{works:?}");
    }
}

#[test]
fn a_line_can_do_without_names() {
    let works: Vec<String> = (0..9).map(|n| format!("c{n}")).collect();
    let works = works.iter().map(|name| (name.as_str(), State::Failed, false));
    let clusters = Clusters::new(works);
    assert_eq!(clusters.line(1), "0/9 clusters applied, 9 failed: c0 and 8 more");
    assert_eq!(clusters.line(0), "0/9 clusters applied, 9 failed");
}

#[test]
fn malformed_objects_are_pending() {
    for object in [json!(null), json!([]), json!({"status": {"conditions": 7}, "metadata": []})] {
        assert_eq!(of_work(&object, |_| false).state, State::Pending);
    }
}
