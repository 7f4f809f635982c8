//! What OCM's program gave for 34 rollouts. [`OcmRollout`] gives the same; waves give the same but
//! for the listed ones, each with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::ocm::{GroupKey, OcmRollout, OcmStrategy, PlacementGroup};
use super::rules::{DecisionGroupRules, REST, RolloutRules, WaveRules};
use super::state::{ActiveCluster, ActiveClusters, ClusterState};
use super::waves::{Rollout, Wave};
use crate::config::rollout::{Amount, DurationText, RolloutSettings, Threshold};
use crate::config::window::ChangeWindows;
use crate::model::name::ClusterName;

/// The clusters that may be in a result: `active|timed out|b` if too many have failed.
type Outcome = &'static str;

/// One rollout of the clusters c1 to c6, which are one group, or three with `groups`.
#[derive(Clone, Copy)]
struct Vector {
    number: u32,
    /// `all`, `progressive` or `per-group`.
    strategy: &'static str,
    groups: usize,
    mandatory: &'static [&'static str],
    concurrency: &'static str,
    failures: &'static str,
    deadline: &'static str,
    soak: &'static str,
    /// Seconds since each state.
    age: i64,
    /// As in `c1F c2P`.
    states: &'static str,
    ocm: Outcome,
    /// Where gitwork deviates: what it gives, and why.
    ours: Option<(Outcome, &'static str)>,
}

const ALL: Vector = Vector {
    number: 0,
    strategy: "all",
    groups: 1,
    mandatory: &[],
    concurrency: "100%",
    failures: "0",
    deadline: "None",
    soak: "0s",
    age: 0,
    states: "",
    ocm: "",
    ours: None,
};
const PROGRESSIVE: Vector = Vector { strategy: "progressive", concurrency: "2", ..ALL };
const GROUPS: Vector = Vector { groups: 3, ..PROGRESSIVE };
const PER_GROUP: Vector = Vector { strategy: "per-group", groups: 3, ..ALL };
const TOLERATED: &str = "a tolerated failure frees its place";
const CLAMPED: &str = "more failures than clusters are as many as clusters";
const MANDATORY: &str = "mandatory groups that are done delay no other cluster";

fn v(number: u32, base: Vector, states: &'static str, ocm: Outcome) -> Vector {
    Vector { number, states, ocm, ..base }
}

fn late(base: Vector) -> Vector {
    Vector { deadline: "10s", age: 90, ..base }
}

fn fails(failures: &'static str, base: Vector) -> Vector {
    Vector { failures, ..base }
}

fn g(mandatory: &'static [&'static str], base: Vector) -> Vector {
    Vector { mandatory, ..base }
}

fn ours(outcome: Outcome, why: &'static str, base: Vector) -> Vector {
    Vector { ours: Some((outcome, why)), ..base }
}

fn vectors() -> Vec<Vector> {
    [vectors_of_one_group(), vectors_of_groups()].concat()
}

fn vectors_of_one_group() -> Vec<Vector> {
    let one = Vector { concurrency: "1", ..PROGRESSIVE };
    let three = Vector { concurrency: "3", ..PROGRESSIVE };
    let soak = |age| Vector { soak: "60s", age, ..PROGRESSIVE };
    vec![
        v(1, ALL, "c1F c2P c3S c4T c5K", "c1F c2P c6A||"),
        v(2, Vector { age: 30, ..late(ALL) }, "c1F c2P c3S c4A", "c4A c5A c6A|c1 c2|"),
        v(3, Vector { groups: 0, ..ALL }, "c9S", "||"),
        v(4, PROGRESSIVE, "", "c1A c2A||"),
        v(5, PROGRESSIVE, "c1A c2A", "c1A c2A||"),
        v(6, PROGRESSIVE, "c1S c2P", "c2P c3A||"),
        v(7, soak(30), "c1S c2S", "c1S c2S||"),
        v(8, soak(90), "c1S c2S", "c3A c4A||"),
        v(9, PROGRESSIVE, "c1F c2S", "c1F||b"),
        ours("c1F c3A c4A||", TOLERATED, v(10, fails("1", PROGRESSIVE), "c1F c2S", "c1F c3A||")),
        ours("c1F c2A||", TOLERATED, v(11, fails("5", one), "c1F", "c1F||")),
        v(12, late(fails("5", one)), "c1F", "c2A|c1|"),
        v(13, late(one), "c1P", "|c1|b"),
        ours("c2A c3A|c1|", CLAMPED, v(14, late(fails("7", PROGRESSIVE)), "c1F", "|c1|b")),
        v(15, late(fails("6", PROGRESSIVE)), "c1F", "c2A c3A|c1|"),
        v(15, late(fails("100%", PROGRESSIVE)), "c1F", "c2A c3A|c1|"),
        v(15, late(fails("10%", PROGRESSIVE)), "c1F", "c2A c3A|c1|"),
        v(16, Vector { concurrency: "10%", ..PROGRESSIVE }, "", "c1A||"),
        v(16, Vector { concurrency: "50%", ..PROGRESSIVE }, "", "c1A c2A c3A||"),
        ours(
            "c2F c3P||b",
            "a stopped rollout begins no cluster",
            v(17, three, "c1A c2F c3P", "c1A c2F c3P||b"),
        ),
        v(18, three, "c1F c2A c3P", "c1F c3P||b"),
    ]
}

fn vectors_of_groups() -> Vec<Vector> {
    vec![
        v(19, g(&["g1"], Vector { concurrency: "1", ..GROUPS }), "", "c3A c4A||"),
        v(20, g(&["2", "g1"], GROUPS), "", "c3A c4A||"),
        ours("c4P c5A||", MANDATORY, v(21, g(&["g0"], GROUPS), "c1S c2S c3S c4P", "c4P||")),
        v(22, g(&["g0"], GROUPS), "c1S c2S c3S c4A", "c4A c5A||"),
        ours(
            "c5A c6A|c3|",
            MANDATORY,
            v(23, late(fails("3", g(&["g0"], GROUPS))), "c1S c2S c3F c4S", "|c3|"),
        ),
        v(24, late(fails("3", GROUPS)), "c1S c2S c3F c4S", "c5A c6A|c3|"),
        v(25, PER_GROUP, "", "c1A c2A||"),
        v(25, PER_GROUP, "c1S c2S", "c3A c4A||"),
        v(26, fails("1", PER_GROUP), "c1F c2S", "c1F c3A c4A||"),
        ours("c3F c5A c6A||", TOLERATED, v(27, fails("1", PER_GROUP), "c1S c2S c3F c4S", "c3F||")),
        v(28, late(fails("1", PER_GROUP)), "c1S c2S c3F c4S", "c5A c6A|c3|"),
        ours("c3A c4A|c1|", CLAMPED, v(29, late(fails("3", PER_GROUP)), "c1F c2S", "|c1|b")),
        ours(
            "c2P||",
            "a group begins once no cluster of the one before is in progress",
            v(30, fails("1", PER_GROUP), "c1T c2P", "c2P c3A c4A||"),
        ),
        v(31, PER_GROUP, "c2S c3S c4S c5P", "c1A c5P||"),
        ours(
            "c1F c3A c4A||",
            MANDATORY,
            v(32, fails("1", g(&["2"], PER_GROUP)), "c1F c2S c5S c6S", "c1F||"),
        ),
        ours(
            "c3A c4A|c1|",
            MANDATORY,
            v(33, late(fails("1", g(&["2"], PER_GROUP))), "c1F c2S c5S c6S", "|c1|"),
        ),
    ]
}

/// Those that may deviate; the others bind.
const MAY_DEVIATE: [u32; 13] = [3, 10, 11, 14, 17, 21, 23, 26, 27, 29, 30, 32, 33];

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

fn name(text: &str) -> ClusterName {
    ClusterName::parse(text).unwrap()
}

impl Vector {
    fn threshold(text: &str) -> Threshold {
        Amount::Text(text.into()).parse().unwrap()
    }

    fn duration(text: &str) -> Option<Duration> {
        DurationText(text.into()).parse().unwrap()
    }

    fn states(&self) -> BTreeMap<ClusterName, ClusterState> {
        let since = now().checked_sub(SignedDuration::from_secs(self.age)).unwrap();
        let state = |text: &str| {
            let state = match &text[2..] {
                "A" => ClusterState::ToApply,
                "P" => ClusterState::Progressing { since },
                "S" => ClusterState::Succeeded { since },
                "F" => ClusterState::Failed { since },
                "T" => ClusterState::TimedOut,
                "K" => ClusterState::Skipped,
                other => panic!("{other}"),
            };
            (name(&text[..2]), state)
        };
        self.states.split_whitespace().map(state).collect()
    }

    fn decision_groups(&self) -> Vec<PlacementGroup> {
        let clusters = |from: usize, to: usize| (from..=to).map(|n| name(&format!("c{n}")));
        let size = 6_usize.checked_div(self.groups).unwrap_or(6);
        let group = |index: usize| PlacementGroup {
            name: format!("g{index}"),
            clusters: clusters(index * size + 1, (index + 1) * size).collect(),
        };
        (0..self.groups).map(group).collect()
    }

    fn ocm(&self) -> String {
        let mandatory = self.keys();
        let max_concurrency = Some(Self::threshold(self.concurrency));
        let strategy = match self.strategy {
            "all" => OcmStrategy::All,
            "progressive" => OcmStrategy::Progressive { mandatory, max_concurrency },
            _ => OcmStrategy::ProgressivePerGroup { mandatory },
        };
        let (states, groups) = (self.states(), self.decision_groups());
        let found = OcmRollout {
            strategy: &strategy,
            groups: &groups,
            states: &states,
            max_failures: Self::threshold(self.failures),
            soak: Self::duration(self.soak).unwrap(),
            deadline: Self::duration(self.deadline),
            now: now(),
        }
        .progress();
        self.check_recheck(found.recheck);
        outcome(&found.active, &found.timed_out, found.breach)
    }

    fn keys(&self) -> Vec<GroupKey> {
        let key = |text: &&str| match text.parse() {
            Ok(index) => GroupKey::Index(index),
            Err(_) => GroupKey::Name((*text).to_owned()),
        };
        self.mandatory.iter().map(key).collect()
    }

    /// The strategy as waves: mandatory groups, then the other groups or all of their clusters.
    fn waves(&self) -> Vec<Wave> {
        let is_all = self.strategy == "all";
        let rest = WaveRules {
            name: REST.to_owned(),
            max_concurrency: (!is_all).then(|| Self::threshold(self.concurrency)),
            max_failures: Self::threshold(if is_all { "100%" } else { self.failures }),
            soak: Self::duration(self.soak).unwrap(),
            needs_approval: false,
            window: ChangeWindows::default(),
        };
        let rules = RolloutRules { deadline: None, waves: vec![rest], returns: false };
        let is_per_group = self.strategy == "per-group";
        let of_groups = DecisionGroupRules { mandatory: self.keys(), is_per_group };
        let groups = self.decision_groups();
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        let waves = of_groups.waves(&names, &rules).unwrap();
        waves.with_clusters(groups.iter().map(|group| &group.clusters))
    }

    fn ours(&self) -> String {
        let (waves, states) = (self.waves(), self.states());
        let deadline = Self::duration(self.deadline);
        let none = &BTreeSet::new();
        let (waves, states, now) = (&waves[..], &states, now());
        let found = Rollout { waves, states, blocked: none, first: none, deadline, now }.progress();
        self.check_recheck(found.recheck);
        let removed: Vec<&str> = found.removed.iter().map(ClusterName::as_str).collect();
        assert_eq!(removed, if self.groups == 0 { vec!["c9"] } else { vec![] });
        outcome(&found.active, &found.timed_out, found.breach.is_some())
    }

    fn check_recheck(&self, found: Option<Timestamp>) {
        let in_seconds = found.map(|at| at.as_second() - now().as_second());
        assert_eq!(in_seconds, (self.number == 7).then_some(30), "{}", self.number);
    }
}

fn outcome(active: &ActiveClusters, timed_out: &BTreeSet<ClusterName>, breach: bool) -> String {
    let letter = |active: &ActiveCluster| match active {
        ActiveCluster::ToApply => "A",
        ActiveCluster::Progressing => "P",
        ActiveCluster::Soaking => "S",
        ActiveCluster::Failed => "F",
    };
    let active: Vec<String> =
        active.iter().map(|(name, active)| format!("{name}{}", letter(active))).collect();
    let timed_out: Vec<&str> = timed_out.iter().map(ClusterName::as_str).collect();
    let breach = if breach { "b" } else { "" };
    format!("{}|{}|{breach}", active.join(" "), timed_out.join(" "))
}

#[test]
fn ocm_rollouts_are_those_of_ocm() {
    for vector in vectors() {
        assert_eq!(vector.ocm(), vector.ocm, "{}", vector.number);
    }
}

#[test]
fn waves_are_as_ocm_but_for_its_defects() {
    let mut numbers = BTreeSet::new();
    for vector in vectors() {
        numbers.insert(vector.number);
        let expected = match vector.ours {
            Some((outcome, why)) => {
                assert!(MAY_DEVIATE.contains(&vector.number), "{} {why}", vector.number);
                assert_ne!(outcome, vector.ocm, "{}", vector.number);
                outcome
            }
            None => vector.ocm,
        };
        assert_eq!(vector.ours(), expected, "{}", vector.number);
    }
    // 34 is a strategy without a type, which neither can express: the schema rejects it.
    assert_eq!(numbers, (1..=33).collect());
}

#[test]
fn a_rollout_without_a_known_type_is_rejected() {
    let read = serde_yaml::from_str::<RolloutSettings>;
    assert!(read("type: ''").is_err() && read("type: Slow").is_err());
    assert!(read("type: Progressive").is_ok());
}

#[test]
fn decision_groups_are_waves_with_names_and_mandatory_ones_tolerate_no_failure() {
    let read = |text: &str| -> RolloutSettings { serde_yaml::from_str(text).unwrap() };
    let settings = read(
        "{type: ProgressivePerGroup, progressivePerGroup: {maxFailures: 10%, minSuccessTime: 5m, \
         mandatoryDecisionGroups: [{groupName: canary}, {groupIndex: 0}]}}",
    );
    let (rules, groups) = (RolloutRules::of(&settings), DecisionGroupRules::of(&settings).unwrap());
    let found = groups.waves(&["", "eu", "canary", "eu", "canary"], &rules).unwrap();
    let names: Vec<&str> = found.rules.waves.iter().map(|wave| wave.name.as_str()).collect();
    assert_eq!(
        names,
        ["group-0", "group-2-canary", "group-4-canary", "group-1-eu", "group-3-eu", "*"]
    );
    assert_eq!(found.waves, [0, 3, 1, 4, 2]);
    let failures: Vec<Threshold> = found.rules.waves.iter().map(|wave| wave.max_failures).collect();
    let (none, some) = (Threshold::Count(0), Threshold::Percent(10));
    assert_eq!(failures, [none, none, none, some, some, some]);
    assert!(found.rules.waves.iter().all(|wave| wave.soak == Duration::from_secs(300)));
    assert_eq!(groups.waves(&["", "eu"], &rules), None, "no canary");

    let settings = read(
        "{type: Progressive, progressive: {maxConcurrency: 2, \
         mandatoryDecisionGroups: [{groupIndex: 1}]}}",
    );
    let (rules, groups) = (RolloutRules::of(&settings), DecisionGroupRules::of(&settings).unwrap());
    let found = groups.waves(&["a", "b", "c"], &rules).unwrap();
    assert_eq!((found.rules.waves.len(), found.waves), (2, vec![1, 0, 1]));
    let concurrency = found.rules.waves.iter().map(|wave| wave.max_concurrency);
    assert!(concurrency.eq([None, Some(Threshold::Count(2))]));
    for text in ["{}", "{type: Progressive}", "{type: All}", "{waves: [{name: a}]}"] {
        assert_eq!(DecisionGroupRules::of(&read(text)), None, "{text}");
    }
}
