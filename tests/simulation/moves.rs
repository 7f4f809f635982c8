//! What the checkers say of moves: from the raw works on the hub and from Git, without the planner.

use std::collections::BTreeSet;

use gitwork_agent_core::work::ManifestOptions;
use gitwork_api::work::{ManifestResourceMeta, ManifestWorkSpec};
use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::WorkKey;
use gitwork_core::model::work::DeletionPolicy;
use serde::Deserialize;
use serde_json::Value;

use super::agents::identity;
use super::git_work::{Works, orphans, works_with};

/// The manifests of a work on the hub.
pub fn manifests(on_hub: &Value) -> &[Value] {
    let manifests = on_hub.pointer("/spec/workload/manifests").and_then(Value::as_array);
    manifests.map_or(&[], Vec::as_slice)
}

/// The objects that a work on the hub lists.
pub fn listed(on_hub: &Value) -> BTreeSet<Identity> {
    manifests(on_hub).iter().map(identity).collect()
}

/// The objects that the agent of a work may own: those that the work lists, and those that it no
/// longer lists and the agent still reports. The agent of a Complete work never gives these up.
pub fn may_own(on_hub: &Value) -> BTreeSet<Identity> {
    let reported = on_hub.pointer("/status/resourceStatus/manifests").and_then(Value::as_array);
    let reported = reported.into_iter().flatten();
    let reported = reported.map(|one| Identity::of_value(one.get("resourceMeta")));
    listed(on_hub).into_iter().chain(reported).collect()
}

/// Whether a work on the hub does not own the object, by its deleteOption or update strategy.
pub fn disowns(on_hub: &Value, id: &Identity) -> bool {
    orphans(&delete_option(on_hub), id) || strategy(on_hub, id).as_deref() == Some("ReadOnly")
}

/// The deleteOption of a work on the hub.
pub fn delete_option(on_hub: &Value) -> DeletionPolicy {
    DeletionPolicy::from_value(&on_hub["spec"]["deleteOption"])
}

/// The update strategy of one object in a work on the hub; `None` for `Update`.
pub fn strategy(on_hub: &Value, id: &Identity) -> Option<String> {
    let spec = ManifestWorkSpec::deserialize(&on_hub["spec"]).ok()?;
    let Identity { group, resource, namespace, name } = id.clone();
    let meta = ManifestResourceMeta {
        group,
        resource,
        namespace,
        name,
        ..ManifestResourceMeta::default()
    };
    let strategy = ManifestOptions::of(&spec, &meta).update_strategy?;
    Some(strategy.type_.as_str().to_owned()).filter(|kind| kind != "Update")
}

/// The objects of a work on the hub, for a trace.
pub fn describe(on_hub: &Value) -> String {
    let option = delete_option(on_hub);
    let object = |id: &Identity| {
        let strategy = strategy(on_hub, id).map_or(String::new(), |kind| format!(":{kind}"));
        format!("{}{strategy}{}", id.name, if orphans(&option, id) { ":orphan" } else { "" })
    };
    let objects: Vec<String> = listed(on_hub).iter().map(object).collect();
    format!("[{}] {}", objects.join(" "), option.policy())
}

/// Whether the agent does nothing more for the work.
pub fn is_complete(work: &Value) -> bool {
    let conditions = work["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Complete"))
}

/// Whether Git has the object in another work of the cluster than this one.
pub fn is_elsewhere(works: &Works, key: &WorkKey, id: &Identity) -> bool {
    works_with(works, &key.cluster, id).any(|other| other != key)
}

/// Whether Git has the object in another work, and not in this one.
pub fn moves_away(works: &Works, key: &WorkKey, id: &Identity) -> bool {
    !works.get(key).is_some_and(|work| work.has(id)) && is_elsewhere(works, key, id)
}

/// Whether the work has objects, and Git has all of them in other works. Then its deletion loses
/// none.
pub fn gives_all(works: &Works, key: &WorkKey, objects: &BTreeSet<Identity>) -> bool {
    !objects.is_empty() && objects.iter().all(|id| moves_away(works, key, id))
}

/// Whether two deleteOptions say the same of all objects but those that move away.
pub fn same_for_rest(
    [one, other]: [&DeletionPolicy; 2],
    works: &Works,
    key: &WorkKey,
    on_hub: &Value,
) -> bool {
    let objects = listed(on_hub);
    let mut rest = objects.iter().filter(|id| !moves_away(works, key, id));
    let moves = objects.iter().any(|id| moves_away(works, key, id));
    if !moves {
        return one == other;
    }
    rest.all(|id| orphans(one, id) == orphans(other, id))
}
