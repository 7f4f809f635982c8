//! `groups/<group>/group.yaml`: which clusters are in a group, and what their works inherit.
//!
//! Only the schema rejects unknown fields: with one, the other fields are checked all the same.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::member_selector::{GroupProblem, MemberSelector, pattern_problem};
use super::repository_files::WorkSettings;
use super::rollout::{OnFailure, RolloutSettings};
use super::values::SubstitutionValue;
use gitwork_api::names::{check_label, check_subdomain};

/// `groups/<group>/group.yaml`: the clusters of a group, and settings for its works. A cluster is
/// in the group if all given conditions match: `clusters`, `selector`, `placement` and `exclude`.
/// One of the first three is needed.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct GroupFile {
    /// Names of clusters. `*` matches any sequence of characters.
    #[schemars(length(min = 1, max = 1000))]
    pub clusters: Option<Vec<String>>,
    /// Labels and claims of the clusters.
    pub selector: Option<MemberSelector>,
    /// OCM Placement that selects the clusters.
    pub placement: Option<PlacementReference>,
    /// Names of clusters that are not in the group. `*` matches any sequence of characters.
    #[schemars(length(max = 1000))]
    pub exclude: Vec<String>,
    /// Values for `${NAME}` in the manifests of works with `substitute: true`. `cluster.yaml`
    /// overrides them.
    pub values: BTreeMap<String, SubstitutionValue>,
    /// Other values for some of the members. Of several that match a cluster, a later one
    /// overrides those before it.
    #[schemars(length(max = 100))]
    pub overrides: Vec<ValueOverride>,
    /// How a change of the group reaches its clusters. Default: `rollout` of `gitwork.yaml`, else
    /// all clusters at once.
    pub rollout: Option<RolloutSettings>,
    /// What gitwork writes for the group. Default: `ManifestWork`.
    pub deliver: Option<Deliver>,
    /// Defaults for the works of this group. `cluster.yaml` and `work.yaml` override them.
    pub defaults: WorkSettings,
}

/// What gitwork writes for the works of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Deliver {
    /// One ManifestWork for each cluster.
    #[default]
    ManifestWork,
    /// One ManifestWorkReplicaSet for all clusters, in the namespace of the Placement. A controller
    /// on the hub makes the ManifestWorks.
    ManifestWorkReplicaSet,
}

/// Values for some members of a group. The given conditions must match; one is needed.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct ValueOverride {
    /// Names of clusters. `*` matches any sequence of characters.
    #[schemars(length(min = 1, max = 1000))]
    pub clusters: Option<Vec<String>>,
    /// Labels and claims of the clusters.
    pub selector: Option<MemberSelector>,
    /// Values for `${NAME}`. They override those of the group; `cluster.yaml` overrides them.
    pub values: BTreeMap<String, SubstitutionValue>,
}

/// An OCM Placement.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct PlacementReference {
    /// Name of the Placement.
    pub name: String,
    /// Namespace of the Placement.
    pub namespace: String,
}

impl GroupFile {
    /// Passes on what the schema does not find. A file may have very many problems.
    pub fn each_problem(&self, report: &mut dyn FnMut(GroupProblem)) {
        let mut add = |pointer: String, message: String| report(GroupProblem { pointer, message });
        if self.clusters.is_none() && self.selector.is_none() && self.placement.is_none() {
            let message = "the group says no cluster: it needs `clusters`, `selector` or \
                           `placement`";
            add(String::new(), message.to_owned());
        }
        let conditions = Conditions {
            clusters: self.clusters.as_deref(),
            exclude: &self.exclude,
            selector: self.selector.as_ref(),
        };
        conditions.problems("", &mut add);
        for (index, one) in self.overrides.iter().enumerate() {
            let at = format!("/overrides/{index}");
            if one.clusters.is_none() && one.selector.is_none() {
                let message = "says no cluster: it needs `clusters` or `selector`";
                add(at.clone(), message.to_owned());
            }
            let (clusters, selector) = (one.clusters.as_deref(), one.selector.as_ref());
            Conditions { clusters, exclude: &[], selector }.problems(&at, &mut add);
        }
        if let Some(PlacementReference { name, namespace }) = &self.placement {
            let checks =
                [("name", check_subdomain(name, 253)), ("namespace", check_label(namespace, 63))];
            for (field, check) in checks {
                check.err().into_iter().for_each(|why| {
                    add(format!("/placement/{field}"), why.to_string());
                });
            }
        }
        if let Some(rollout) = &self.rollout {
            rollout.each_problem(report);
            if self.placement.is_none() && rollout.uses_decision_groups() {
                let message = "goes by the decision groups of a Placement; the group needs \
                               `placement`";
                report(GroupProblem { pointer: "/rollout".into(), message: message.into() });
            }
        }
        if self.delivers_replica_set() {
            self.each_delivery_problem(report);
        }
    }

    /// Whether the works are delivered as ManifestWorkReplicaSets.
    pub fn delivers_replica_set(&self) -> bool {
        self.deliver == Some(Deliver::ManifestWorkReplicaSet)
    }

    /// Passes on what a ManifestWorkReplicaSet cannot do: it has one content, and what its
    /// Placement selects.
    fn each_delivery_problem(&self, report: &mut dyn FnMut(GroupProblem)) {
        const SELECTS: &str = "cannot be used with `deliver: ManifestWorkReplicaSet`: its \
                               `placement` alone selects the clusters";
        const ONE_CONTENT: &str = "cannot be used with `deliver: ManifestWorkReplicaSet`: all its \
                                   clusters have the same content";
        const STRATEGIES: &str = "cannot be used with `deliver: ManifestWorkReplicaSet`: it has \
                                  the types `All`, `Progressive` and `ProgressivePerGroup`";
        const NO_RETURN: &str = "cannot be `return` with `deliver: ManifestWorkReplicaSet`: its \
                                 controller only stops";
        let rollout = self.rollout.as_ref();
        let returns = rollout.is_some_and(|one| one.on_failure == Some(OnFailure::Return));
        let found = [
            ("/clusters", self.clusters.is_some(), SELECTS),
            ("/selector", self.selector.is_some(), SELECTS),
            ("/exclude", !self.exclude.is_empty(), SELECTS),
            ("/overrides", !self.overrides.is_empty(), ONE_CONTENT),
            ("/rollout/waves", rollout.is_some_and(|one| one.waves.is_some()), STRATEGIES),
            ("/rollout/onFailure", returns, NO_RETURN),
            (
                "/deliver",
                self.placement.is_none(),
                "needs `placement`: a ManifestWorkReplicaSet goes to the clusters of a Placement",
            ),
        ];
        for (pointer, _, message) in found.into_iter().filter(|(_, is_wrong, _)| *is_wrong) {
            report(GroupProblem { pointer: pointer.into(), message: message.into() });
        }
    }
}

/// Names and selectors of clusters.
struct Conditions<'a> {
    clusters: Option<&'a [String]>,
    exclude: &'a [String],
    selector: Option<&'a MemberSelector>,
}

impl Conditions<'_> {
    /// `place`: the JSON pointer to the mapping that has them.
    fn problems(&self, place: &str, add: &mut dyn FnMut(String, String)) {
        let lists = [("clusters", self.clusters.unwrap_or_default()), ("exclude", self.exclude)];
        for (field, patterns) in lists {
            for (index, pattern) in patterns.iter().enumerate() {
                if let Some(problem) = pattern_problem(pattern) {
                    add(format!("{place}/{field}/{index}"), problem);
                }
            }
        }
        let Some(selector) = self.selector else { return };
        selector.check(place, add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(yaml: &str) -> Vec<String> {
        let file: GroupFile = serde_yaml::from_str(yaml).unwrap();
        let mut all = Vec::new();
        file.each_problem(&mut |found| all.push(format!("{} {}", found.pointer, found.message)));
        all
    }

    #[test]
    fn a_group_with_a_condition_is_fine() {
        for yaml in [
            "clusters: ['*']",
            "clusters: [edge-1, 'store-*']\nexclude: [store-bonn-7]",
            "selector: {labelSelector: {matchLabels: {example.com/tier: edge}}}",
            "selector: {claimSelector: {matchExpressions: [{key: City, operator: Exists}]}}",
            "placement: {name: batch, namespace: fleet}",
            "placement: {name: batch, namespace: fleet}\ndeliver: ManifestWork",
            "placement: {name: batch, namespace: fleet}\ndeliver: ManifestWorkReplicaSet\n\
             rollout: {type: Progressive, progressive: {maxConcurrency: 2}}",
        ] {
            assert_eq!(problems(yaml), Vec::<String>::new(), "{yaml}");
        }
    }

    #[test]
    fn every_problem_is_found_with_its_place() {
        for (yaml, expected) in [
            (
                "clusters: ['*']\noverrides: [{values: {A: b}}, {clusters: [A], selector: {}}]",
                vec![
                    "/overrides/0 says no cluster",
                    "/overrides/1/clusters/0 has",
                    "/overrides/1/selector selects every cluster",
                ],
            ),
            ("exclude: [a]", vec![" the group says no cluster"]),
            ("selector: {}", vec!["/selector selects every cluster"]),
            (
                "clusters: [Edge, 'St*re', '']\nexclude: ['a.*']",
                vec![
                    "/clusters/0 has",
                    "/clusters/1 has",
                    "/clusters/2 is empty",
                    "/exclude/0 has",
                ],
            ),
            (
                "selector: {labelSelector: {matchLabels: {a/b/c: x, d: 'e f'}, matchExpressions: \
                 [{key: -x, operator: In}, {key: y, operator: Exists, values: [z]}]}}",
                vec![
                    "/selector/labelSelector/matchLabels/a~1b~1c has",
                    "/selector/labelSelector/matchLabels/d has",
                    "/selector/labelSelector/matchExpressions/0/values needs",
                    "/selector/labelSelector/matchExpressions/0/key must",
                    "/selector/labelSelector/matchExpressions/1/values must be empty",
                ],
            ),
            (
                "deliver: ManifestWorkReplicaSet\nclusters: [a]\nselector: {labelSelector: \
                 {matchLabels: {a: b}}}\nexclude: [b]\noverrides: [{clusters: [a]}]\nrollout: \
                 {onFailure: return, waves: [{name: a, clusters: [a]}]}",
                vec![
                    "/clusters cannot be used with",
                    "/selector cannot",
                    "/exclude cannot",
                    "/overrides cannot",
                    "/rollout/waves cannot",
                    "/rollout/onFailure cannot",
                    "/deliver needs `placement`",
                ],
            ),
            (
                "placement: {name: A, namespace: ''}",
                vec!["/placement/name has", "/placement/namespace is empty"],
            ),
        ] {
            let found = problems(yaml);
            assert_eq!(found.len(), expected.len(), "{yaml}: {found:#?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.starts_with(expected), "{yaml}: {found}");
            }
        }
    }
}
