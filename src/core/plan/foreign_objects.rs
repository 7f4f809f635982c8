//! Objects that Git newly has in a work, and that a work of another owner lists on the hub.
//!
//! A source does not move objects out of another source's work. If that other work drops such an
//! object without orphaning it first, its agent may delete it.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::manifest::Identity;
use crate::model::name::{ClusterName, WorkKey, WorkName};
use crate::model::object_digest::ObjectDigest;
use crate::model::work::NamedObject;
use crate::plan::observed::ObservedWork;
use crate::plan::work_spec::WorkSpec;
use crate::render::desired::Desired;

/// An object that Git newly has in a work, and that a work of another owner lists on the hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForeignObject {
    /// The work that gets it, as the fields `cluster` and `work`.
    #[serde(flatten)]
    pub key: WorkKey,
    /// The object.
    pub object: Identity,
    /// The work of the other owner, on the same cluster.
    pub other_work: WorkName,
    /// The source of that work; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_source: Option<Box<str>>,
}

impl fmt::Display for ForeignObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, object, other_work, other_source } = self;
        write!(f, "{key}: {object} is in the work {other_work}")?;
        match other_source {
            Some(source) => {
                write!(f, " of the source {source}: commit `orphan: true` for it there first")?;
            }
            None => f.write_str(", which has no source: let its deleteOption orphan it first")?,
        }
        f.write_str(", or its deletion there deletes it here")
    }
}

/// All of them, sorted by work. `works`: all works on the hub. A work that orphans an object or
/// only reads it does not delete it; neither does one that the source adopts.
pub fn foreign_objects(desired: &Desired, works: &[ObservedWork]) -> Vec<ForeignObject> {
    let mut others: BTreeMap<(&ClusterName, ObjectDigest), &ObservedWork> = BTreeMap::new();
    let mut own: BTreeMap<&WorkKey, &ObservedWork> = BTreeMap::new();
    for work in works {
        if work.is_ours(&desired.source) {
            own.insert(&work.key, work);
        } else if !desired.works.contains_key(&work.key) {
            let owned = work.objects.iter().filter(|one| one.should_be_owned());
            others.extend(owned.map(|one| ((&work.key.cluster, one.digest), work)));
        }
    }
    if others.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for work in desired.works.values() {
        let there = own.get(&work.key);
        let objects = work.objects.iter();
        let new =
            objects.filter(|one| there.is_none_or(|there| there.object(one.digest).is_none()));
        let new = new.filter_map(|one| Some((one, others.get(&(&work.key.cluster, one.digest))?)));
        let new: Vec<(&NamedObject, &&ObservedWork)> = new.collect();
        if new.is_empty() {
            continue;
        }
        let spec = WorkSpec::of(work.body.spec.value());
        found.extend(new.into_iter().filter_map(|(one, other)| {
            Some(ForeignObject {
                key: work.key.clone(),
                object: spec.identity(one.digest, &one.resource)?,
                other_work: other.key.work.clone(),
                other_source: other.source.as_deref().map(Box::from),
            })
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::model::name::{RepoPath, SourceId};
    use crate::model::work::{DeletionPolicy, DesiredWork, WorkBody};

    fn spec(option: &str) -> Value {
        let manifest = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "shop", "name": "data"},
        });
        json!({
            "workload": {"manifests": [manifest]}, "deleteOption": {"propagationPolicy": option},
        })
    }

    fn key(work: &str) -> WorkKey {
        WorkKey {
            cluster: ClusterName::parse("edge-1").unwrap(),
            work: WorkName::parse(work).unwrap(),
        }
    }

    fn on_hub(work: &str, labels: &Value, option: &str) -> ObservedWork {
        ObservedWork::from_manifest_work(json!({
            "metadata": {
                "namespace": "edge-1", "name": work, "uid": "u", "resourceVersion": "1",
                "labels": labels,
            },
            "spec": spec(option),
        }))
        .unwrap()
    }

    fn desired() -> Desired {
        let source = SourceId::parse("fleet").unwrap();
        let path = RepoPath::parse("clusters/edge-1/shop2").unwrap();
        let (spec, none) = (spec("Foreground"), BTreeMap::new());
        let manifests = spec["workload"]["manifests"].as_array().unwrap();
        let objects = NamedObject::all(manifests.iter().map(|one| (one, "configmaps")));
        let work = DesiredWork {
            key: key("shop2"),
            body: Arc::new(WorkBody::new(&source, &path, spec, none.clone(), none, true)),
            path,
            delete_option: DeletionPolicy::Foreground,
            prune: true,
            suspend: false,
            objects,
            depends_on: Default::default(),
            group_content: None,
            is_earlier: false,
        };
        Desired {
            delivered: BTreeMap::new(),
            source,
            commit: None,
            works: [(work.key.clone(), Arc::new(work))].into(),
            frozen: Default::default(),
            rules: Default::default(),
            approved: Default::default(),
            suspended: Default::default(),
            needed_facts: None,
            rollouts: BTreeMap::new(),
            later: BTreeMap::new(),
            facts: None,
            diagnostics: Vec::new(),
        }
    }

    #[test]
    fn object_in_work_of_another_owner_is_named_until_it_is_orphaned() {
        let remarks = |works: &[ObservedWork]| -> Vec<String> {
            foreign_objects(&desired(), works).iter().map(ToString::to_string).collect()
        };
        let (other, none) = (json!({"gitwork.dev/source": "web"}), json!({}));
        let ours = json!({"gitwork.dev/source": "fleet"});
        assert_eq!(
            remarks(&[on_hub("shop", &other, "Foreground")]),
            ["edge-1/shop2: configmaps/data in namespace shop is in the work shop of the source \
              web: commit `orphan: true` for it there first, or its deletion there deletes it here"]
        );
        assert_eq!(
            remarks(&[on_hub("shop", &none, "Foreground")]),
            ["edge-1/shop2: configmaps/data in namespace shop is in the work shop, which has no \
              source: let its deleteOption orphan it first, or its deletion there deletes it here"]
        );
        for quiet in [
            vec![on_hub("shop", &other, "Orphan")],
            // The source has it already, or adopts the whole work.
            vec![on_hub("shop", &other, "Foreground"), on_hub("shop2", &ours, "Foreground")],
            vec![on_hub("shop2", &other, "Foreground")],
            vec![on_hub("shop", &ours, "Foreground")],
        ] {
            assert_eq!(remarks(&quiet), [""; 0]);
        }
    }
}
