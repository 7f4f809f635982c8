use super::*;

fn problems(yaml: &str) -> Vec<String> {
    let settings: RolloutSettings = serde_yaml::from_str(yaml).unwrap();
    let mut all = Vec::new();
    settings.each_problem(&mut |found| all.push(format!("{} {}", found.pointer, found.message)));
    all
}

#[test]
fn strategies_of_ocm_and_waves_are_fine() {
    for yaml in [
        "{}",
        "type: All\nall: {progressDeadline: 10m}",
        "type: Progressive\nprogressive: {maxConcurrency: '25%', minSuccessTime: 1h30m}",
        "type: Progressive\nprogressive: {maxConcurrency: '3', progressDeadline: None}",
        "type: ProgressivePerGroup\nonFailure: return\nprogressivePerGroup: {maxFailures: 1, \
         mandatoryDecisionGroups: [{groupName: canary}, {groupIndex: 0}]}",
        "waves: [{name: lab, selector: {labelSelector: {matchLabels: {purpose: lab}}}, soak: 1h}, \
         {name: rest, clusters: ['*'], maxConcurrency: 20, approval: required, window: {allow: \
         [{start: '22:00', end: '06:00'}]}}]\nmaxFailures: 1\nonFailure: hold",
    ] {
        assert_eq!(problems(yaml), Vec::<String>::new(), "{yaml}");
    }
}

#[test]
fn zero_and_nonsense_are_found_with_their_place() {
    for (yaml, expected) in [
        ("type: Progressive\nprogressive: {maxConcurrency: 0}", "/progressive/maxConcurrency is z"),
        ("type: Progressive\nprogressive: {maxConcurrency: 0%}", "/progressive/maxConcurrency is"),
        ("type: Progressive\nprogressive: {maxFailures: -1}", "/progressive/maxFailures is -1"),
        ("type: Progressive\nprogressive: {maxFailures: x}", "/progressive/maxFailures is \"x\""),
        ("type: Progressive\nprogressive: {maxFailures: 101%}", "/progressive/maxFailures is 101%"),
        (
            "type: Progressive\nprogressive: {minSuccessTime: None}",
            "/progressive/minSuccessTime has no end",
        ),
        ("all: {maxFailures: 1}", "/all/maxFailures is not used by `All`"),
        ("all: {minSuccessTime: 1m}", "/all/minSuccessTime is not used by `All`"),
        ("all: {progressDeadline: 10}", "/all/progressDeadline is \"10\""),
        ("all: {progressDeadline: 5mx}", "/all/progressDeadline is \"5mx\""),
        ("all: {progressDeadline: 0s}", "/all/progressDeadline is zero"),
        ("all: {maxConcurrency: 2}", "/all/maxConcurrency is used by"),
        ("progressive: {maxConcurrency: 2}", "/progressive is for `type: Progressive`"),
        ("maxFailures: 1", "/maxFailures is for `waves`"),
        (
            "all: {mandatoryDecisionGroups: [{groupIndex: 1}]}",
            "/all/mandatoryDecisionGroups is not used by `All`",
        ),
        (
            "type: Progressive\nprogressive: {mandatoryDecisionGroups: [{}]}",
            "/progressive/mandatoryDecisionGroups/0 says no group",
        ),
        (
            "type: ProgressivePerGroup\nprogressivePerGroup: {mandatoryDecisionGroups: \
             [{groupName: a, groupIndex: 1}]}",
            "/progressivePerGroup/mandatoryDecisionGroups/0 has `groupName` and `groupIndex`",
        ),
        (
            "type: ProgressivePerGroup\nprogressivePerGroup: {mandatoryDecisionGroups: \
             [{groupName: ''}]}",
            "/progressivePerGroup/mandatoryDecisionGroups/0/groupName is empty",
        ),
        ("onFailure: return", "/onFailure is not used by `All`"),
        ("waves: [{name: a}]", "/waves/0 says no cluster"),
        ("waves: [{name: A, clusters: [a]}]", "/waves/0/name has"),
        ("waves: [{name: a, clusters: [a], soak: x}]", "/waves/0/soak is"),
        ("waves: [{name: a, clusters: [A]}]", "/waves/0/clusters/0 has"),
        ("waves: [{name: a, selector: {}}]", "/waves/0/selector selects every"),
        ("type: All\nwaves: [{name: a, clusters: [a]}]", "/type is not used"),
        (
            "waves: [{name: a, clusters: [a], window: {allow: [{start: x}]}}]",
            "/waves/0/window/allow/0/start is no time",
        ),
        ("waves: [{name: a, clusters: [a]}, {name: a, clusters: [b]}]", "/waves/1/name is \"a\""),
    ] {
        let found = problems(yaml);
        assert_eq!(found.len(), 1, "{yaml}: {found:#?}");
        assert!(found[0].starts_with(&format!("/rollout{expected}")), "{yaml}: {found:?}");
    }
}

#[test]
fn thresholds_clamp_to_the_number_of_clusters() {
    let of = |text: &str, total| Amount::Text(text.into()).parse().unwrap().of(total);
    assert_eq!((of("10%", 6), of("50%", 6), of("100%", 6), of("0%", 6)), (1, 3, 6, 0));
    assert_eq!((of("7", 6), of("2", 6), of("3", 0)), (6, 2, 0));
    assert_eq!(Amount::Number(7).parse().unwrap().unbounded(6), 7);
}
