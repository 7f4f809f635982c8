//! Fields that Kubernetes never lets change, of built-in kinds.
//!
//! A change of such a field is refused by the API server, or the agent deletes the object and
//! creates it again (OCM work agent, `Update`: Secret, StorageClass, CSIDriver). A move does
//! neither.
//!
//! Two manifests are compared, not the object on the cluster. So a field counts only if both
//! manifests have it, or if the API server's default for it is known.

use serde_json::{Value, json};

/// The first field that differs in two manifests of one object and cannot change, as in
/// `spec.selector`.
pub fn changed_field(before: &Value, after: &Value) -> Option<String> {
    let text = |field| after.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    if (group, kind) == ("", "PersistentVolumeClaim") {
        return claim_field(before, after);
    }
    let differs = |field: &&&str| {
        let (was, is) = (value(before, field), value(after, field));
        was.is_some() && is.is_some() && was != is
    };
    let is_applicable = |field: &&&str| match (group, kind, **field) {
        // A suspended Job may get other scheduling directives.
        ("batch", "Job", "spec.template") => value(before, "spec.suspend") != Some(true.into()),
        ("", "Service", _) => ![before, after].into_iter().any(is_external_name),
        ("", "ConfigMap" | "Secret", "data" | "binaryData" | "stringData") => {
            value(before, "immutable") == Some(true.into())
        }
        _ => true,
    };
    let mut fields = fields(group, kind).iter().filter(is_applicable);
    fields.find(differs).map(|field| (*field).to_owned())
}

fn fields(group: &str, kind: &str) -> &'static [&'static str] {
    match (group, kind) {
        ("", "ConfigMap") => &["data", "binaryData"],
        ("", "Secret") => &["type", "data", "stringData"],
        ("", "Service") => &["spec.clusterIP"],
        ("apps", "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet") => &["spec.selector"],
        ("batch", "Job") => &["spec.selector", "spec.template", "spec.completionMode"],
        ("rbac.authorization.k8s.io", "ClusterRoleBinding" | "RoleBinding") => {
            &["roleRef.kind", "roleRef.name"]
        }
        ("storage.k8s.io", "CSIDriver") => &["spec"],
        ("storage.k8s.io", "StorageClass") => {
            &["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"]
        }
        _ => &[],
    }
}

/// The value of a field, or the API server's default.
fn value(manifest: &Value, field: &str) -> Option<Value> {
    let found = manifest.pointer(&format!("/{}", field.replace('.', "/")));
    if let Some(found) = found.filter(|found| !found.is_null()) {
        return Some(found.clone());
    }
    match field {
        "data" | "binaryData" | "stringData" | "parameters" => Some(json!({})),
        "type" => Some("Opaque".into()),
        "reclaimPolicy" => Some("Delete".into()),
        "volumeBindingMode" => Some("Immediate".into()),
        "spec.completionMode" => Some("NonIndexed".into()),
        _ => None,
    }
}

/// The address of such a Service may be set and removed.
fn is_external_name(service: &Value) -> bool {
    value(service, "spec.type") == Some("ExternalName".into())
}

/// The whole spec of a claim, but for two fields.
fn claim_field(before: &Value, after: &Value) -> Option<String> {
    let fields = before.get("spec").and_then(Value::as_object).into_iter().flatten();
    let fixed = fields
        .filter(|(name, _)| !matches!(name.as_str(), "resources" | "volumeAttributesClassName"));
    let mut changed = fixed.filter(|(name, was)| {
        let is = after.get("spec").and_then(|spec| spec.get(name.as_str()));
        is.is_some_and(|is| is != *was)
    });
    changed.next().map(|(name, _)| format!("spec.{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_kind(group: &str, kind: &str, mut manifest: Value) -> Value {
        let api_version = if group.is_empty() { "v1".into() } else { format!("{group}/v1") };
        (manifest["apiVersion"], manifest["kind"]) = (api_version.into(), kind.into());
        manifest
    }

    #[test]
    fn only_fields_that_cannot_change_are_named() {
        let apps = |kind| ("apps", kind);
        let core = |kind| ("", kind);
        let selector = |app: &str| json!({"spec": {"selector": {"matchLabels": {"app": app}}}});
        let replicas = |number: u32| json!({"spec": {"replicas": number}});
        let claim = |size: &str, class: &str| {
            let resources = json!({"requests": size});
            json!({"spec": {"storageClassName": class, "resources": resources}})
        };
        let map =
            |immutable: bool, data: &str| json!({"immutable": immutable, "data": {"a": data}});
        let service = |fields: Value| json!({ "spec": fields });
        let job = |image: &str, suspend: bool| {
            let template = json!({"image": image});
            json!({"spec": {"suspend": suspend, "template": template}})
        };
        let role = |name: &str| json!({"roleRef": {"kind": "Role", "name": name}});
        let rbac = ("rbac.authorization.k8s.io", "RoleBinding");
        let class = ("storage.k8s.io", "StorageClass");
        for ((group, kind), before, after, expected) in [
            (apps("Deployment"), selector("a"), selector("b"), Some("spec.selector")),
            (apps("Deployment"), selector("a"), selector("a"), None),
            (apps("StatefulSet"), replicas(1), replicas(2), None),
            (("example.com", "Deployment"), selector("a"), selector("b"), None),
            (
                core("PersistentVolumeClaim"),
                claim("1Gi", "a"),
                claim("1Gi", "b"),
                Some("spec.storageClassName"),
            ),
            (core("PersistentVolumeClaim"), claim("1Gi", "a"), claim("2Gi", "a"), None),
            (core("PersistentVolumeClaim"), json!({"spec": {}}), claim("1Gi", "a"), None),
            (core("ConfigMap"), map(true, "1"), map(true, "2"), Some("data")),
            (core("ConfigMap"), map(true, "1"), map(false, "1"), None),
            (core("ConfigMap"), map(false, "1"), map(true, "2"), None),
            (core("Secret"), json!({}), json!({"type": "Opaque"}), None),
            (core("Secret"), json!({}), json!({"type": "kubernetes.io/tls"}), Some("type")),
            (
                core("Service"),
                service(json!({"clusterIP": "10.0.0.1"})),
                service(json!({"clusterIP": "None"})),
                Some("spec.clusterIP"),
            ),
            (
                core("Service"),
                service(json!({"clusterIP": "10.0.0.1"})),
                service(json!({"type": "ExternalName", "clusterIP": ""})),
                None,
            ),
            (core("Service"), service(json!({})), service(json!({"clusterIP": "10.0.0.1"})), None),
            (("batch", "Job"), job("a", false), job("b", false), Some("spec.template")),
            (("batch", "Job"), job("a", true), job("b", true), None),
            (rbac, role("a"), role("b"), Some("roleRef.name")),
            (class, json!({}), json!({"reclaimPolicy": "Retain"}), Some("reclaimPolicy")),
            (class, json!({}), json!({"reclaimPolicy": "Delete", "parameters": {}}), None),
        ] {
            let [before, after] = [before, after].map(|manifest| of_kind(group, kind, manifest));
            let found = changed_field(&before, &after);
            assert_eq!(found.as_deref(), expected, "{kind}: {before} -> {after}");
        }
    }

    #[test]
    fn spec_of_a_csi_driver_cannot_change() {
        let driver = |attach: bool| {
            let spec = json!({"spec": {"attachRequired": attach}});
            of_kind("storage.k8s.io", "CSIDriver", spec)
        };
        let found = |before, after| changed_field(&driver(before), &driver(after));
        assert_eq!(found(true, false).as_deref(), Some("spec"));
        assert_eq!(found(true, true), None);
    }
}
