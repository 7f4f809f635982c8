//! The update strategies of a work's objects, indexed: a work may have thousands of both.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::config::ocm_rules;
use crate::model::manifest::Identity;

/// How many entries with wildcards are compared with each object. An object that none of these
/// decides counts as `ReadOnly`, the strategy with which an agent owns nothing. No work needs as
/// many, and without a bound a single one could cost seconds.
const WILDCARDS_MAX: usize = 100;

/// The agent only reads the object.
pub(crate) const READ_ONLY: &str = "ReadOnly";

/// The agent writes the object only if it does not exist.
pub(crate) const CREATE_ONLY: &str = "CreateOnly";

/// The entries of `manifestConfigs` that have an update strategy.
#[derive(Debug, Clone, Default)]
pub(crate) struct UpdateStrategies {
    /// The first entry about each object that an entry names.
    exact: BTreeMap<Identity, Entry>,
    /// Entries with wildcards, in their order.
    wildcards: Vec<(Identity, Entry)>,
    /// The place of the first entry that is left out.
    rest: Option<usize>,
}

#[derive(Debug, Clone)]
struct Entry {
    /// Its place among `manifestConfigs`.
    place: usize,
    /// `updateStrategy.type`; `None` if it is no text.
    kind: Option<Box<str>>,
    /// `updateStrategy.serverSideApply.ignoreFields`, if it has entries.
    ignored: Option<Arc<[Value]>>,
}

/// What decides about an object.
enum Deciding<'a> {
    Entry(&'a Entry),
    /// An entry that is left out may be about it.
    Unknown,
    Nothing,
}

impl UpdateStrategies {
    /// Those of the spec of a ManifestWork.
    pub(crate) fn of(spec: &Value) -> Self {
        let configs = spec.get("manifestConfigs").and_then(Value::as_array);
        Self::of_configs(configs.map(Vec::as_slice).unwrap_or_default())
    }

    /// Those of these entries of `manifestConfigs`.
    pub(crate) fn of_configs(configs: &[Value]) -> Self {
        let mut all = Self::default();
        for (place, config) in configs.iter().enumerate() {
            let Some(kind) = config.pointer("/updateStrategy/type") else { continue };
            let ignored = config.pointer("/updateStrategy/serverSideApply/ignoreFields");
            let ignored = ignored.and_then(Value::as_array).filter(|fields| !fields.is_empty());
            let ignored = ignored.map(|fields| fields.as_slice().into());
            let entry = Entry { place, kind: kind.as_str().map(Box::from), ignored };
            let object = Identity::of_value(config.get("resourceIdentifier"));
            if !object.namespace.contains('*') && !object.name.contains('*') {
                all.exact.entry(object).or_insert(entry);
            } else if all.wildcards.len() < WILDCARDS_MAX {
                all.wildcards.push((object, entry));
            } else {
                all.rest.get_or_insert(place);
            }
        }
        all
    }

    /// Whether no entry has an update strategy.
    pub(crate) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wildcards.is_empty() && self.rest.is_none()
    }

    /// The type of the object's update strategy: that of the first entry about the object that has
    /// one (OCM work agent, config lookup).
    pub(crate) fn of_object(&self, object: &Identity) -> Option<&str> {
        match self.deciding(object) {
            Deciding::Entry(entry) => entry.kind.as_deref(),
            Deciding::Unknown => Some(READ_ONLY),
            Deciding::Nothing => None,
        }
    }

    /// The entries of `ignoreFields` for the object: its agent leaves these fields as they are on
    /// the cluster.
    pub(crate) fn ignored_fields(&self, object: &Identity) -> &[Value] {
        match self.deciding(object) {
            Deciding::Entry(entry) => entry.ignored.as_deref().unwrap_or_default(),
            Deciding::Unknown | Deciding::Nothing => &[],
        }
    }

    fn deciding(&self, object: &Identity) -> Deciding<'_> {
        let exact = self.exact.get(object);
        let precedes = |place: usize| exact.is_none_or(|exact| place < exact.place);
        let mut wildcards = self.wildcards.iter().take_while(|(_, entry)| precedes(entry.place));
        match wildcards.find(|(pattern, _)| is_about(pattern, object)) {
            Some((_, entry)) => Deciding::Entry(entry),
            None if self.rest.is_some_and(precedes) => Deciding::Unknown,
            None => exact.map_or(Deciding::Nothing, Deciding::Entry),
        }
    }

    /// Whether the agent only reads the object, and does not own it.
    pub(crate) fn is_read_only(&self, object: &Identity) -> bool {
        self.of_object(object) == Some(READ_ONLY)
    }
}

fn is_about(pattern: &Identity, object: &Identity) -> bool {
    pattern.group == object.group
        && pattern.resource == object.resource
        && ocm_rules::wildcard(&pattern.namespace, &object.namespace)
        && ocm_rules::wildcard(&pattern.name, &object.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::render::work_folder;

    fn config(name: &str, strategy: &Value) -> Value {
        let mut config = json!({
            "resourceIdentifier": {"resource": "configmaps", "namespace": "shop", "name": name},
        });
        if !strategy.is_null() {
            config["updateStrategy"] = json!({"type": strategy});
        }
        config
    }

    fn object(name: &str) -> Identity {
        let resource = json!({"resource": "configmaps", "namespace": "shop", "name": name});
        Identity::of_value(Some(&resource))
    }

    fn of_object(configs: &[Value], name: &str) -> Option<String> {
        let all = UpdateStrategies::of(&json!({ "manifestConfigs": configs }));
        all.of_object(&object(name)).map(str::to_owned)
    }

    #[test]
    fn the_first_entry_about_the_object_that_has_a_strategy_counts() {
        let entries = [
            config("data", &Value::Null),
            config("d*", &"ReadOnly".into()),
            config("data", &"CreateOnly".into()),
            config("*a", &"Update".into()),
            config("other", &json!(7)),
        ];
        // Every order and every subset, compared with OCM's rule as it stands.
        for mask in 0..1_u32 << entries.len() {
            for turn in 0..entries.len() {
                let mut configs: Vec<Value> = entries.to_vec();
                configs.rotate_left(turn);
                let is_chosen = |(at, _): &(usize, Value)| mask & (1 << at) != 0;
                let chosen: Vec<Value> = configs
                    .into_iter()
                    .enumerate()
                    .filter(is_chosen)
                    .map(|(_, config)| config)
                    .collect();
                for name in ["data", "date", "alpha", "other", "x"] {
                    let about =
                        chosen.iter().filter(|one| work_folder::is_about(one, &object(name)));
                    let mut kinds = about.filter_map(|one| one.pointer("/updateStrategy/type"));
                    let expected = kinds.next().and_then(Value::as_str).map(str::to_owned);
                    assert_eq!(of_object(&chosen, name), expected, "{name} in {chosen:?}");
                }
            }
        }
    }

    #[test]
    fn an_object_beyond_the_bound_counts_as_read_only() {
        let mut configs = vec![config("first", &"Update".into())];
        let wildcards = (0..=WILDCARDS_MAX).map(|n| config(&format!("n{n}-*"), &"Update".into()));
        configs.extend(wildcards);
        configs.push(config("last", &"Update".into()));
        let update = Some("Update".to_owned());
        assert_eq!(of_object(&configs, "first"), update);
        assert_eq!(of_object(&configs, "n0-a"), update);
        for name in [&format!("n{WILDCARDS_MAX}-a"), "last", "unnamed"] {
            assert_eq!(of_object(&configs, name).as_deref(), Some("ReadOnly"), "{name}");
        }
    }
}
