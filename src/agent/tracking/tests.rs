use super::*;

fn mapping(version: &str) -> ResourceMapping {
    ResourceMapping {
        group: "apps".into(),
        version: version.into(),
        resource: "deployments".into(),
        namespaced: true,
    }
}

fn metadata(revision: &str, generation: i64) -> Metadata {
    Metadata {
        name: "web".into(),
        namespace: "ns".into(),
        resource_version: revision.into(),
        generation,
        ..Metadata::default()
    }
}

fn subscription(holder: &QueueKey, wants_all: bool) -> Subscription {
    Subscription { key: holder.clone(), ordinal: 3, wants_all, applied_digest: 7 }
}

fn setup(wants_all: bool) -> (Tracking, KindId, ObjectKey, QueueKey) {
    let mut tracking = Tracking::default();
    let kind = tracking.kind(&mapping("v1"));
    assert_eq!(tracking.kind(&mapping("v1beta1")), kind);
    let key = ObjectKey { kind, namespace: "ns".into(), name: "web".into() };
    let holder = QueueKey::Work("a".into());
    let version = ObjectVersion::of(&metadata("10", 1));
    tracking.subscribe(&key, ObservedState::Present(version), subscription(&holder, wants_all));
    (tracking, kind, key, holder)
}

#[test]
fn only_relevant_changes_are_reported() {
    let (mut tracking, kind, key, holder) = setup(false);
    assert!(tracking.observe_present(kind, &metadata("10", 1)).is_empty(), "our own write");
    assert!(tracking.observe_present(kind, &metadata("11", 1)).is_empty(), "only the status");
    assert!(!tracking.is_newer(&key, 11));
    assert_eq!(tracking.observe_present(kind, &metadata("12", 2)), [(holder.clone(), 3, 12)]);
    assert!(tracking.is_newer(&key, 12), "until a pass has read it");
    assert_eq!(tracking.observe_gone(kind, "ns", "web", 13), [(holder.clone(), 3, 13)]);
    let last = tracking.last_observed(&key, &holder, 3).unwrap();
    assert_eq!((last.state, last.applied_digest), (ObservedState::Absent, 7));
    assert!(
        tracking
            .observe_present(kind, &Metadata { name: "other".into(), ..metadata("14", 1) })
            .is_empty()
    );
    let (mut tracking, kind, _, holder) = setup(true);
    assert_eq!(
        tracking.observe_present(kind, &metadata("11", 1)),
        [(holder, 3, 11)],
        "feedback wants the status"
    );
}

#[test]
fn kinds_without_generation_report_every_change() {
    let (mut tracking, kind, key, holder) = setup(false);
    let version = ObjectVersion::of(&metadata("20", 0));
    tracking.subscribe(&key, ObservedState::Present(version), subscription(&holder, false));
    assert_eq!(tracking.observe_present(kind, &metadata("21", 0)).len(), 1);
}

#[test]
fn failed_read_is_not_absence() {
    let (mut tracking, kind, key, holder) = setup(false);
    let state =
        |tracking: &Tracking| tracking.last_observed(&key, &holder, 3).map(|last| last.state);
    tracking.subscribe(&key, ObservedState::Absent, subscription(&holder, false));
    assert_eq!(state(&tracking), Some(ObservedState::Absent));
    assert!(tracking.list_ended(kind, &BTreeSet::new(), 11).is_empty(), "it is known");
    tracking.subscribe(&key, ObservedState::Unknown, subscription(&holder, false));
    assert_eq!(state(&tracking), Some(ObservedState::Unknown));
    assert_eq!(tracking.list_ended(kind, &BTreeSet::new(), 11), [(holder.clone(), 3, 11)]);
    assert_eq!(state(&tracking), Some(ObservedState::Absent));
    tracking.unsubscribe(&key, &holder, 3);
    assert_eq!(state(&tracking), None);
}

#[test]
fn list_end_reports_missing_objects() {
    let (mut tracking, kind, key, holder) = setup(false);
    assert!(
        tracking.list_ended(kind, &BTreeSet::new(), 9).is_empty(),
        "the list is older than the object"
    );
    let seen = BTreeSet::from([("ns".into(), "web".into())]);
    assert!(tracking.list_ended(kind, &seen, 11).is_empty());
    assert_eq!(tracking.list_ended(kind, &BTreeSet::new(), 11), [(holder.clone(), 3, 11)]);
    tracking.unsubscribe(&key, &holder, 3);
    assert_eq!(tracking.count(), 0);
    assert!(tracking.kinds().all(|(_, _, used)| !used));
}

#[test]
fn change_before_the_first_response_is_newer_than_the_response() {
    let (mut tracking, kind, _, holder) = setup(false);
    let key = ObjectKey { kind, namespace: "x".into(), name: "new".into() };
    let absent = || ObservedState::Absent;
    tracking.subscribe_before(&key, absent, subscription(&holder, false));
    let mut metadata = metadata("12", 1);
    (metadata.namespace, metadata.name) = ("x".into(), "new".into());
    assert_eq!(tracking.observe_present(kind, &metadata), [(holder.clone(), 3, 12)]);
    metadata.resource_version = "11".into();
    let response = ObservedState::Present(ObjectVersion::of(&metadata));
    tracking.subscribe(&key, response, subscription(&holder, false));
    assert!(tracking.is_newer(&key, 12));
    // What is known of an object that is tracked stays.
    tracking.subscribe_before(&key, absent, subscription(&holder, false));
    assert_eq!(tracking.last_observed(&key, &holder, 3).unwrap().state, response);
}
