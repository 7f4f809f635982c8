//! The objects of a work on the hub, and how far its agent has come with each.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::model::kinds;
use crate::model::manifest::Identity;
use crate::model::object_digest::ObjectDigest;
use crate::model::value_path::value_at;
use crate::model::work::DeletionPolicy;
use crate::model::work_state::Conditions;
use crate::plan::update_strategies::{self, UpdateStrategies};

/// One object that a work on the hub lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedObject {
    /// What identifies the object.
    pub digest: ObjectDigest,
    /// The agent has reported the object, of whatever generation of the work. Before that, the
    /// plural of its kind is a guess.
    pub reported: bool,
    /// The status of the manifest's condition `Applied`, if it is about the work's generation.
    pub applied: Option<bool>,
    /// The manifest's condition `Complete` is True: the agent does not apply it again (OCM work
    /// agent, manifest conditions).
    pub complete: bool,
    /// The deleteOption on the hub orphans the object.
    pub orphaned: bool,
    /// Its update strategy on the hub is `ReadOnly`: the agent does not own it.
    pub read_only: bool,
    /// Its update strategy on the hub is `CreateOnly`, as in a work that gives it to another.
    pub create_only: bool,
}

impl ListedObject {
    /// Whether the agent makes the work an owner of the object when it applies the manifest.
    pub fn should_be_owned(&self) -> bool {
        !self.orphaned && !self.read_only
    }

    /// Whether the agent has applied the object at the work's generation, as one that the work
    /// owns.
    pub fn is_owned(&self) -> bool {
        self.applied == Some(true) && self.should_be_owned()
    }

    /// Whether the agent has orphaned the object: it removes its owner reference when it applies
    /// the manifest (OCM work agent, Orphan timing).
    pub fn is_orphaned(&self) -> bool {
        self.applied == Some(true) && self.orphaned && !self.read_only && !self.complete
    }
}

/// The objects of a work with this spec and status, at this generation; sorted by digest.
pub(super) fn objects(
    spec: &Value,
    status: &Value,
    generation: i64,
    delete_option: &DeletionPolicy,
) -> Box<[ListedObject]> {
    let manifests = value_at(spec, "/workload/manifests").and_then(Value::as_array);
    let listing = Listing { strategies: &UpdateStrategies::of(spec), delete_option };
    let reported = reported(status);
    let all = manifests
        .into_iter()
        .flatten()
        .filter_map(|manifest| Some((manifest, ObjectDigest::of_manifest(manifest)?)))
        .map(|(manifest, digest)| match reported.get(&digest) {
            Some(report) => report.object(digest, generation, &listing),
            None => listing.unreported(digest, || kinds::guessed_identity(manifest)),
        });
    sorted(all.collect())
}

pub(super) fn sorted(mut objects: Vec<ListedObject>) -> Box<[ListedObject]> {
    objects.sort_by_key(|object| object.digest);
    objects.into()
}

/// What a work says of its objects.
pub(super) struct Listing<'a> {
    pub strategies: &'a UpdateStrategies,
    pub delete_option: &'a DeletionPolicy,
}

impl Listing<'_> {
    /// An object that the agent has not reported. `identity`: with a guess as the plural of its
    /// kind; a wrong one fits no rule. It is needed only where there are rules.
    pub fn unreported(
        &self,
        digest: ObjectDigest,
        identity: impl FnOnce() -> Identity,
    ) -> ListedObject {
        let Self { strategies, delete_option } = self;
        let mut object = ListedObject {
            digest,
            reported: false,
            applied: None,
            complete: false,
            orphaned: **delete_option == DeletionPolicy::Orphan,
            read_only: false,
            create_only: false,
        };
        if !strategies.is_empty() || matches!(delete_option, DeletionPolicy::SelectivelyOrphan(_)) {
            let identity = identity();
            object.orphaned = delete_option.orphans(&identity);
            object.read_only = strategies.is_read_only(&identity);
            let strategy = strategies.of_object(&identity);
            object.create_only = strategy == Some(update_strategies::CREATE_ONLY);
        }
        object
    }
}

/// The objects that the agent reports and that the work does not list: it has not acted on their
/// removal yet. Sorted.
pub(super) fn left(objects: &[ListedObject], status: &Value) -> Box<[ObjectDigest]> {
    let is_listed = |digest: &ObjectDigest| {
        objects.binary_search_by_key(digest, |object| object.digest).is_ok()
    };
    reported(status).into_keys().filter(|digest| !is_listed(digest)).collect()
}

/// What the agent reports of one manifest.
struct ManifestReport<'a> {
    meta: &'a Value,
    manifest: &'a Value,
}

/// The entries of `status.resourceStatus.manifests` by object.
fn reported(status: &Value) -> BTreeMap<ObjectDigest, ManifestReport<'_>> {
    let manifests = value_at(status, "/resourceStatus/manifests").and_then(Value::as_array);
    let read = |manifest| {
        let meta = Value::get(manifest, "resourceMeta")?;
        Some((ObjectDigest::of_resource_meta(meta)?, ManifestReport { meta, manifest }))
    };
    manifests.into_iter().flatten().filter_map(read).collect()
}

impl ManifestReport<'_> {
    fn object(&self, digest: ObjectDigest, generation: i64, listing: &Listing<'_>) -> ListedObject {
        let identity = Identity::of_value(Some(self.meta));
        let all = Conditions::of(Some(self.manifest), None);
        // A report about another generation is about other content.
        let current = Conditions::of(Some(self.manifest), Some(generation));
        let is_applied = current.is("Applied", "True").is_some();
        let strategy = listing.strategies.of_object(&identity);
        ListedObject {
            digest,
            reported: true,
            applied: current.get("Applied").map(|_| is_applied),
            complete: all.is("Complete", "True").is_some(),
            orphaned: listing.delete_option.orphans(&identity),
            read_only: strategy == Some(update_strategies::READ_ONLY),
            create_only: strategy == Some(update_strategies::CREATE_ONLY),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(generation: i64, conditions: &Value, spec_fields: &Value) -> ListedObject {
        let manifest = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "shop", "name": "data"},
        });
        let mut spec = json!({"workload": {"manifests": [manifest]}});
        for (field, value) in spec_fields.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let meta = json!({
            "ordinal": 0, "group": "", "version": "v1", "kind": "ConfigMap",
            "resource": "configmaps", "namespace": "shop", "name": "data",
        });
        let manifests = json!([{"resourceMeta": meta, "conditions": conditions}]);
        let status = json!({"resourceStatus": {"manifests": manifests}});
        let option = DeletionPolicy::from_value(spec.get("deleteOption").unwrap_or(&Value::Null));
        let all = objects(&spec, &status, generation, &option);
        assert_eq!(all.len(), 1);
        all[0]
    }

    fn applied(status: &str, generation: i64) -> Value {
        json!([{"type": "Applied", "status": status, "observedGeneration": generation}])
    }

    #[test]
    fn applied_of_an_older_generation_does_not_count() {
        assert_eq!(read(3, &applied("True", 3), &json!({})).applied, Some(true));
        assert_eq!(read(3, &applied("False", 3), &json!({})).applied, Some(false));
        for old in [applied("True", 2), json!([{"type": "Applied", "status": "True"}]), json!(7)] {
            assert_eq!(read(3, &old, &json!({})).applied, None, "{old}");
        }
    }

    #[test]
    fn ownership_follows_from_delete_option_and_strategy() {
        let rule = |name: &str| {
            let rule = json!({"resource": "configmaps", "namespace": "shop", "name": name});
            json!({"deleteOption": {
                "propagationPolicy": "SelectivelyOrphan",
                "selectivelyOrphans": {"orphaningRules": [rule]},
            }})
        };
        let strategies = |kinds: &[&str]| {
            let identifier = json!({"resource": "configmaps", "namespace": "*", "name": "d*"});
            let entry = |kind: &&str| {
                let strategy = json!({"type": kind});
                json!({"resourceIdentifier": identifier, "updateStrategy": strategy})
            };
            json!({"manifestConfigs": kinds.iter().map(entry).collect::<Vec<_>>()})
        };
        for (spec, owned, orphaned) in [
            (json!({}), true, false),
            (json!({"deleteOption": {"propagationPolicy": "Orphan"}}), false, true),
            (rule("data"), false, true),
            (rule("other"), true, false),
            (strategies(&["ReadOnly", "CreateOnly"]), false, false),
            (strategies(&["CreateOnly", "ReadOnly"]), true, false),
        ] {
            let object = read(3, &applied("True", 3), &spec);
            assert_eq!((object.is_owned(), object.is_orphaned()), (owned, orphaned), "{spec}");
            let unseen = read(4, &applied("True", 3), &spec);
            assert!(!unseen.is_owned() && !unseen.is_orphaned(), "{spec}");
        }
        let complete = json!([applied("True", 3)[0], {"type": "Complete", "status": "True"}]);
        assert!(!read(3, &complete, &rule("data")).is_orphaned());
    }

    /// The spec on the hub says what the agent will do, before its first report, too.
    #[test]
    fn ownership_before_the_first_report_follows_from_the_spec() {
        let identifier = json!({"resource": "configmaps", "namespace": "shop", "name": "data"});
        let strategy = |kind: &str| {
            let strategy = json!({"type": kind});
            json!({"manifestConfigs": [
                {"resourceIdentifier": identifier, "updateStrategy": strategy},
            ]})
        };
        let orphaned = json!({"deleteOption": {
            "propagationPolicy": "SelectivelyOrphan",
            "selectivelyOrphans": {"orphaningRules": [identifier]},
        }});
        for (mut spec, should_be_owned, create_only) in [
            (json!({}), true, false),
            (strategy("ReadOnly"), false, false),
            (strategy("CreateOnly"), true, true),
            (orphaned, false, false),
        ] {
            spec["workload"] = json!({"manifests": [{
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": "shop", "name": "data"},
            }]});
            let option = spec.get("deleteOption").unwrap_or(&Value::Null);
            let option = DeletionPolicy::from_value(option);
            let [object] = objects(&spec, &json!({}), 1, &option)[..] else { panic!("{spec}") };
            assert!(!object.reported && !object.is_owned() && !object.is_orphaned(), "{spec}");
            let found = (object.should_be_owned(), object.create_only);
            assert_eq!(found, (should_be_owned, create_only), "{spec}");
        }
    }
}
