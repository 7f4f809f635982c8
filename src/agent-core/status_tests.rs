//! How outcomes fold into a status.

use gitwork_api::work::{FeedbackValue, FieldValue, ValueType};
use serde_json::{Value, json};

use super::*;

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).unwrap()
}

fn meta(ordinal: i32, name: &str) -> ManifestResourceMeta {
    ManifestResourceMeta {
        ordinal,
        version: "v1".into(),
        kind: "ConfigMap".into(),
        resource: "configmaps".into(),
        name: name.into(),
        namespace: "ns".into(),
        ..ManifestResourceMeta::default()
    }
}

fn done() -> ApplyOutcome {
    ApplyOutcome::Complete { note: None }
}

fn available() -> Observation {
    with_rules(vec![])
}

fn with_rules(rules: Vec<NewCondition>) -> Observation {
    let synced = NewCondition::new(FEEDBACK_SYNCED, "True", "NoStatusFeedbackSynced", "");
    Observation::Available { feedback: EvaluatedFeedback { values: vec![], synced }, rules }
}

fn kinds(conditions: &[Condition]) -> Vec<&str> {
    conditions.iter().map(|one| one.type_.as_str()).collect()
}

fn brief(conditions: &[Condition]) -> Vec<String> {
    conditions
        .iter()
        .map(|c| {
            format!(
                "{}={} {} {:?} gen {}",
                c.type_,
                c.status,
                c.reason,
                c.message,
                c.observed_generation.unwrap_or_default()
            )
        })
        .collect()
}

#[test]
fn a_fresh_work() {
    let mut status = ManifestWorkStatus::default();
    record_apply_outcomes(
        &mut status,
        1,
        &[(meta(0, "a"), done()), (meta(1, "b"), ApplyOutcome::Failed("no".into()))],
        time(0),
    );
    record_observations(&mut status, 1, [(0, available()), (1, Observation::Absent)], time(0));
    assert_eq!(
        brief(&status.conditions),
        [
            r#"Applied=False AppliedManifestWorkFailed "Failed to apply manifest work" gen 1"#,
            r#"Available=False ResourcesNotAvailable "1 of 2 resources are not available" gen 1"#,
        ]
    );
    assert_eq!(
        brief(&manifests(&status)[0].conditions),
        [
            r#"Applied=True AppliedManifestComplete "Apply manifest complete" gen 1"#,
            r#"Available=True ResourceAvailable "Resource is available" gen 1"#,
            r#"StatusFeedbackSynced=True NoStatusFeedbackSynced "" gen 0"#,
        ]
    );
    assert_eq!(
        brief(&manifests(&status)[1].conditions),
        [
            r#"Applied=False AppliedManifestFailed "Failed to apply manifest: no" gen 1"#,
            r#"Available=False ResourceNotAvailable "Resource is not available" gen 1"#,
        ]
    );
    let sent = &status_patch(&status)["resourceStatus"]["manifests"][0];
    assert_eq!(sent["statusFeedback"], json!({}));
    assert_eq!(sent["conditions"][2]["message"], Value::String(String::new()), "empty, and there");
}

#[test]
fn applied_moves_to_the_end_with_a_new_generation() {
    let mut status = ManifestWorkStatus::default();
    record_apply_outcomes(&mut status, 1, &[(meta(0, "a"), done())], time(0));
    record_observations(&mut status, 1, [(0, available())], time(0));
    let before = status.clone();
    record_apply_outcomes(&mut status, 1, &[(meta(0, "a"), done())], time(5));
    assert_eq!(status, before, "the same generation changes nothing");
    record_apply_outcomes(
        &mut status,
        2,
        &[(meta(0, "new"), done()), (meta(1, "a"), done())],
        time(5),
    );
    let moved = &manifests(&status)[1].conditions;
    assert_eq!(kinds(moved), ["Available", "StatusFeedbackSynced", "Applied"]);
    assert_eq!(moved[0].last_transition_time.0, time(0));
    assert_eq!(moved[2].last_transition_time.0, time(5));
    assert_eq!(status.conditions[0].last_transition_time.0, time(0), "the work's own stays");
    assert_eq!(status.conditions[0].observed_generation, Some(2));
}

#[test]
fn what_is_observed_names_the_generation_that_was_applied_before() {
    let mut status = ManifestWorkStatus::default();
    record_apply_outcomes(&mut status, 1, &[(meta(0, "a"), done())], time(0));
    let observed_at = |status: &ManifestWorkStatus| {
        let conditions = &manifests(status)[0].conditions;
        condition::find(conditions, AVAILABLE).and_then(|available| available.observed_generation)
    };
    record_observations(&mut status, 1, [(0, available())], time(0));
    assert_eq!(observed_at(&status), Some(1));
    record_observations(&mut status, 2, [(0, available())], time(1));
    assert_eq!(observed_at(&status), Some(1), "a work that is being deleted is not applied again");
    record_apply_outcomes(&mut status, 2, &[(meta(0, "a"), done())], time(2));
    record_observations(&mut status, 2, [(0, available())], time(2));
    assert_eq!(observed_at(&status), Some(2));
}

#[test]
fn dropped_manifests_vanish_and_an_emptied_work_keeps_its_condition() {
    let mut status = ManifestWorkStatus::default();
    record_apply_outcomes(&mut status, 1, &[(meta(0, "a"), done())], time(0));
    record_apply_outcomes(&mut status, 2, &[], time(1));
    record_observations(&mut status, 2, [], time(1));
    assert!(manifests(&status).is_empty());
    assert_eq!(
        brief(&status.conditions),
        [
            r#"Applied=True AppliedManifestWorkComplete "Apply manifest work complete" gen 1"#,
            "Available=Unknown ResourcesStatusUnknown \
             \"cannot get any available resource \" gen 2",
        ]
    );
}

#[test]
fn last_known_feedback_stays_when_the_object_is_gone() {
    let value = FeedbackValue {
        name: "n".into(),
        field_value: FieldValue {
            type_: ValueType::Integer,
            integer: Some(1),
            ..FieldValue::default()
        },
        ..FeedbackValue::default()
    };
    let synced = || NewCondition::new(FEEDBACK_SYNCED, "True", "StatusFeedbackSynced", "");
    let seen = |values: Vec<FeedbackValue>| Observation::Available {
        feedback: EvaluatedFeedback { values, synced: synced() },
        rules: vec![],
    };
    let mut status = ManifestWorkStatus::default();
    record_apply_outcomes(&mut status, 1, &[(meta(0, "a"), done())], time(0));
    record_observations(&mut status, 1, [(0, seen(vec![]))], time(0));
    record_observations(&mut status, 1, [(0, seen(vec![value]))], time(3));
    let conditions = &manifests(&status)[0].conditions;
    assert_eq!(conditions[2].last_transition_time.0, time(3), "values changed");
    record_observations(&mut status, 1, [(0, Observation::Absent)], time(4));
    assert_eq!(manifests(&status)[0].status_feedback.as_ref().unwrap().values.len(), 1);
    for (seen, line) in [
        (
            Observation::Failed("boom".into()),
            r#"Available=Unknown FetchingResourceFailed "Failed to fetch resource: boom" gen 0"#,
        ),
        (
            Observation::Incomplete,
            r#"Available=Unknown IncompleteResourceMeta "Resource meta is incomplete" gen 0"#,
        ),
    ] {
        record_observations(&mut status, 1, [(0, seen)], time(4));
        assert_eq!(brief(&manifests(&status)[0].conditions)[1], line);
        assert_eq!(status.conditions[1].message, "1 of 1 resources have unknown status");
    }
}

#[test]
fn condition_rules_aggregate_and_end_with_their_generation() {
    let rule = |kind: &str, status, message: &str| {
        NewCondition::new(kind, status, "ConditionRuleEvaluated", message)
    };
    let mut status = ManifestWorkStatus::default();
    let applied = [(meta(0, "a"), done()), (meta(1, "b"), done()), (meta(2, "c"), done())];
    record_apply_outcomes(&mut status, 1, &applied, time(0));
    record_observations(
        &mut status,
        1,
        [
            (
                0,
                with_rules(vec![
                    rule("Complete", "True", "a is done"),
                    rule("Progressing", "True", "x"),
                ]),
            ),
            (1, with_rules(vec![rule("Progressing", "False", "y")])),
            (2, available()),
        ],
        time(0),
    );
    assert_eq!(
        brief(&status.conditions)[1..],
        [
            r#"Available=True ResourcesAvailable "All resources are available" gen 1"#,
            r#"Complete=True ConditionRulesAggregated "a is done" gen 1"#,
            "Progressing=True ConditionRulesAggregated \
             \"Aggregated from 2 manifest conditions\" gen 1",
        ]
    );
    assert!(is_complete(&status, &meta(7, "a")) && !is_complete(&status, &meta(1, "b")));
    record_apply_outcomes(&mut status, 2, &applied, time(1));
    record_observations(
        &mut status,
        2,
        [(0, available()), (1, available()), (2, available())],
        time(1),
    );
    assert_eq!(kinds(&status.conditions), ["Applied", "Available"], "removed rules disappear");
}
