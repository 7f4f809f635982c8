//! A group that is delivered as ManifestWorkReplicaSets.

use serde_json::{Map, Value, json};

use super::group_file::GroupFile;
use super::rollout::{Amount, DurationText, MandatoryGroup, RolloutType, StrategySettings};
use crate::model::digest::Digest;
use crate::model::name::ClusterName;

/// How the works of a group become ManifestWorkReplicaSets.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// Where the sets are: in the namespace of the Placement.
    pub place: ClusterName,
    /// `spec.placementRefs`.
    placement_refs: Value,
}

impl Delivery {
    /// `None` if the group has ManifestWorks, or an error.
    pub fn of(file: &GroupFile) -> Option<Self> {
        let placement = file.placement.as_ref().filter(|_| file.delivers_replica_set())?;
        let place = ClusterName::of_replica_sets(&placement.namespace).ok()?;
        // Always written: the API server adds it with defaults of its own.
        let strategy = rollout_strategy(file);
        let reference = json!({"name": placement.name, "rolloutStrategy": strategy});
        Some(Self { place, placement_refs: json!([reference]) })
    }

    /// The spec of the ManifestWorkReplicaSet with this template, which is the spec of a
    /// ManifestWork.
    pub fn spec(&self, template: Value) -> Value {
        let mut spec = json!({
            "cascadeDeletionPolicy": "Background",
            "placementRefs": self.placement_refs,
        });
        // Moved: `json!` would copy it.
        spec["manifestWorkTemplate"] = template;
        spec
    }

    /// Identifies what the specs have of it.
    pub fn digest(&self) -> Digest {
        Digest::of_json(&json!([self.place.as_str(), self.placement_refs]))
    }
}

/// `rolloutStrategy` as OCM has it. What group.yaml does not set has OCM's defaults.
fn rollout_strategy(file: &GroupFile) -> Value {
    let rollout = file.rollout.clone().unwrap_or_default();
    let (name, field, settings) = match rollout.kind.unwrap_or_default() {
        RolloutType::All => ("All", "all", rollout.all),
        RolloutType::Progressive => ("Progressive", "progressive", rollout.progressive),
        RolloutType::ProgressivePerGroup => {
            ("ProgressivePerGroup", "progressivePerGroup", rollout.progressive_per_group)
        }
    };
    json!({"type": name, field: strategy_settings(&settings.unwrap_or_default())})
}

fn strategy_settings(settings: &StrategySettings) -> Value {
    let StrategySettings { mandatory_decision_groups: groups, max_concurrency, .. } = settings;
    let StrategySettings { min_success_time, progress_deadline, max_failures, .. } = settings;
    let mut fields = Map::new();
    let mut set = |field: &str, value: Option<Value>| {
        fields.extend(value.map(|value| (field.to_owned(), value)));
    };
    let groups: Vec<Value> = groups.iter().map(mandatory_group).collect();
    set("mandatoryDecisionGroups", (!groups.is_empty()).then(|| groups.into()));
    set("maxConcurrency", max_concurrency.as_ref().map(amount));
    set("minSuccessTime", min_success_time.as_ref().map(duration));
    set("progressDeadline", progress_deadline.as_ref().map(duration));
    set("maxFailures", max_failures.as_ref().map(amount));
    Value::Object(fields)
}

fn mandatory_group(group: &MandatoryGroup) -> Value {
    let mut fields = Map::new();
    fields.extend(group.group_name.iter().map(|name| ("groupName".into(), name.as_str().into())));
    fields.extend(group.group_index.map(|index| ("groupIndex".into(), index.into())));
    Value::Object(fields)
}

/// OCM's controller rejects a number in quotes (OCM hub, A.1).
fn amount(amount: &Amount) -> Value {
    match amount {
        Amount::Number(number) => (*number).into(),
        Amount::Text(text) => text.parse().map_or_else(|_| text.as_str().into(), i64::into),
    }
}

/// In seconds: the CRD takes one number and one unit, and Go reads that, too.
fn duration(text: &DurationText) -> Value {
    match text.parse() {
        Ok(Some(time)) => format!("{}s", time.as_secs()).into(),
        Ok(None) | Err(_) => "None".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refs(yaml: &str) -> Value {
        let file: GroupFile = serde_yaml::from_str(yaml).unwrap();
        Delivery::of(&file).map_or(Value::Null, |one| one.spec(json!({}))["placementRefs"].clone())
    }

    #[test]
    fn strategies_have_the_fields_of_ocm() {
        let group = "deliver: ManifestWorkReplicaSet\nplacement: {name: p, namespace: fleet}\n";
        let of = |rollout: &str| refs(&format!("{group}rollout: {rollout}"))[0].clone();
        assert_eq!(
            refs(group),
            json!([{"name": "p", "rolloutStrategy": {"type": "All", "all": {}}}])
        );
        assert_eq!(
            of("{type: Progressive, progressive: {maxConcurrency: '25%', minSuccessTime: 1m30s, \
                progressDeadline: None, maxFailures: '2', mandatoryDecisionGroups: \
                [{groupName: a}, {groupIndex: 1}]}}")["rolloutStrategy"],
            json!({"type": "Progressive", "progressive": {
                "mandatoryDecisionGroups": [{"groupName": "a"}, {"groupIndex": 1}],
                "maxConcurrency": "25%", "minSuccessTime": "90s", "progressDeadline": "None",
                "maxFailures": 2,
            }})
        );
        assert_eq!(
            of("{type: ProgressivePerGroup}")["rolloutStrategy"],
            json!({"type": "ProgressivePerGroup", "progressivePerGroup": {}})
        );
        let manifest_work = group.replace("ManifestWorkReplicaSet", "ManifestWork");
        assert_eq!(refs(&manifest_work), Value::Null);
        assert_eq!(refs("deliver: ManifestWorkReplicaSet\nclusters: [a]"), Value::Null);
    }
}
