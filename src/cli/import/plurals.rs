//! The plurals of the kinds of a work: those of Kubernetes, those that its agent reports, those of
//! its CRDs, and those that its rules name.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use gitwork_core::config::ocm_rules::wildcard;
use gitwork_core::model::kinds::{KindIndex, guessed_identity};
use gitwork_core::model::manifest::Identity;

/// A group and a kind.
type GroupKind = (String, String);

/// The plurals of custom kinds.
#[derive(Debug, Default)]
pub(super) struct Plurals {
    named: BTreeMap<GroupKind, String>,
    /// Kinds whose CRD is in the work.
    with_crd: BTreeSet<GroupKind>,
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn group_kind(manifest: &Value) -> GroupKind {
    let group = text(manifest, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
    (group.to_owned(), text(manifest, "/kind").to_owned())
}

impl Plurals {
    /// Finds them in a ManifestWork.
    pub fn of(spec: &Value, status: &Value) -> Self {
        let mut plurals = Self::default();
        for manifest in items(spec, "/workload/manifests") {
            let names = ["/spec/group", "/spec/names/kind", "/spec/names/plural"];
            let [group, kind, plural] = names.map(|pointer| text(manifest, pointer).to_owned());
            if text(manifest, "/kind") == "CustomResourceDefinition" && !plural.is_empty() {
                plurals.with_crd.insert((group.clone(), kind.clone()));
                plurals.named.insert((group, kind), plural);
            }
        }
        for reported in items(status, "/resourceStatus/manifests") {
            let names = ["/resourceMeta/group", "/resourceMeta/kind", "/resourceMeta/resource"];
            let [group, kind, plural] = names.map(|pointer| text(reported, pointer).to_owned());
            if !plural.is_empty() {
                plurals.named.entry((group, kind)).or_insert(plural);
            }
        }
        for manifest in items(spec, "/workload/manifests") {
            if !plurals.is_known(manifest)
                && let Some(plural) = plural_in_rules(manifest, spec)
            {
                plurals.named.insert(group_kind(manifest), plural);
            }
        }
        plurals
    }

    fn is_known(&self, manifest: &Value) -> bool {
        let (group, kind) = group_kind(manifest);
        KindIndex::default().is_namespaced(&group, &kind).is_some()
            || self.named.contains_key(&(group, kind))
    }

    /// The identity of an object.
    pub fn identity(&self, manifest: &Value) -> Identity {
        let mut identity = guessed_identity(manifest);
        let (group, kind) = group_kind(manifest);
        if KindIndex::default().is_namespaced(&group, &kind).is_none()
            && let Some(plural) = self.named.get(&(group, kind))
        {
            identity.resource.clone_from(plural);
        }
        identity
    }

    /// The plural of an object's kind, if gitwork would not find it without a sidecar.
    pub fn to_name(&self, manifest: &Value) -> Option<String> {
        let plural = self.identity(manifest).resource;
        let is_found = plural == guessed_identity(manifest).resource
            || self.with_crd.contains(&group_kind(manifest));
        (!is_found).then_some(plural)
    }
}

/// The plural that the only rule for a custom object names. `None` if rules of several plurals
/// could be for it, or if one has the plural that gitwork takes by itself.
fn plural_in_rules(manifest: &Value, spec: &Value) -> Option<String> {
    let guessed = guessed_identity(manifest);
    let configs = items(spec, "/manifestConfigs").filter_map(|one| one.get("resourceIdentifier"));
    let orphans = items(spec, "/deleteOption/selectivelyOrphans/orphaningRules");
    let is_about = |rule: &&Value| {
        text(rule, "/group") == guessed.group
            && wildcard(text(rule, "/namespace"), &guessed.namespace)
            && wildcard(text(rule, "/name"), &guessed.name)
    };
    let named: BTreeSet<&str> =
        configs.chain(orphans).filter(is_about).map(|rule| text(rule, "/resource")).collect();
    let mut named = named.into_iter();
    match (named.next(), named.next()) {
        (Some(only), None) if only != guessed.resource => Some(only.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plural_is_the_reported_one_or_that_of_the_crd_or_of_the_only_rule() {
        let mouse = json!({"apiVersion": "x.io/v1", "kind": "Mouse", "metadata": {"name": "a"}});
        let crd = json!({"kind": "CustomResourceDefinition", "spec": {"group": "x.io",
            "names": {"kind": "Mouse", "plural": "mice"}}});
        let rule = json!({"resourceIdentifier":
            {"group": "x.io", "resource": "mice", "name": "*"}});
        let other = json!({"resourceIdentifier":
            {"group": "x.io", "resource": "mouses", "name": "*"}});
        let status = json!({"resourceStatus": {"manifests": [{"resourceMeta":
            {"group": "x.io", "kind": "Mouse", "resource": "mice"}}]}});
        let found = |manifests: Value, configs: Value, status: &Value| {
            let spec = json!({"workload": {"manifests": manifests}, "manifestConfigs": configs});
            let plurals = Plurals::of(&spec, status);
            (plurals.identity(&mouse).resource, plurals.to_name(&mouse))
        };
        let none = Value::Null;
        let named = ("mice".to_owned(), Some("mice".to_owned()));
        assert_eq!(found(json!([mouse]), json!([]), &status), named);
        assert_eq!(found(json!([mouse]), json!([rule]), &none), named);
        assert_eq!(found(json!([mouse, crd]), json!([]), &none), ("mice".to_owned(), None));
        let guessed = ("mouses".to_owned(), None);
        assert_eq!(found(json!([mouse]), json!([]), &none), guessed);
        assert_eq!(found(json!([mouse]), json!([rule, other]), &none), guessed);
    }
}
