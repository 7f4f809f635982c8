//! The fields, by kind. Each rule says in which of Kubernetes' validations of updates it is.
//!
//! Left out are fields that depend on the object's state on the cluster, and those of kinds that no
//! repository has.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::compare::{certainly_differ, differ, is_empty, is_less};
use Absent::{List, Nothing, Text, True, Unknown, Zero};

/// A field that the API server never lets change.
pub(super) struct Rule {
    /// As in `spec.selector`.
    pub(super) field: &'static str,
    change: Change,
    /// Whether the field counts for these manifests.
    is_applicable: fn(&Value, &Value) -> bool,
}

/// When a field of two manifests has changed.
#[derive(Clone, Copy)]
enum Change {
    /// The values differ. They have no defaults inside.
    Differs(Absent),
    /// The values differ whatever defaults the API server fills in.
    CertainlyDiffers(Absent),
    /// As this function says.
    If(fn(&Value, &Value) -> bool),
    /// As this function says. It names a field below.
    Below(fn(&Value, &Value) -> Option<String>),
}

/// What a field is without a value in the manifest.
#[derive(Clone, Copy)]
enum Absent {
    /// Unknown: the field counts only if both manifests have it.
    Unknown,
    /// Nothing: it has no default.
    Nothing,
    /// The API server's default.
    Text(&'static str),
    True,
    Zero,
    /// A list of this text.
    List(&'static str),
}

impl Absent {
    fn value(self) -> Option<Value> {
        match self {
            Self::Unknown => None,
            Self::Nothing => Some(Value::Null),
            Self::Text(text) => Some(text.into()),
            Self::True => Some(true.into()),
            Self::Zero => Some(0.into()),
            Self::List(text) => Some(json!([text])),
        }
    }
}

impl Rule {
    /// The field, or one below it, if it differs in two manifests of an object and cannot change.
    pub(super) fn changed(&self, was: &Value, is: &Value) -> Option<Cow<'static, str>> {
        let differs = |absent: Absent, compare: fn(&Value, &Value) -> bool| {
            let [was, is] = [was, is].map(|manifest| {
                let found = at(manifest, self.field).filter(|value| !value.is_null());
                found.cloned().or_else(|| absent.value())
            });
            was.zip(is).is_some_and(|(was, is)| compare(&was, &is))
        };
        if !(self.is_applicable)(was, is) {
            return None;
        }
        let is_changed = match self.change {
            Change::Differs(absent) => differs(absent, differ),
            Change::CertainlyDiffers(absent) => differs(absent, |was, is| {
                certainly_differ(was, is) || is_empty(was) != is_empty(is)
            }),
            Change::If(is_change) => is_change(was, is),
            Change::Below(find) => return find(was, is).map(Cow::Owned),
        };
        is_changed.then_some(Cow::Borrowed(self.field))
    }

    /// The same rule, for some manifests only.
    const fn only_if(self, is_applicable: fn(&Value, &Value) -> bool) -> Self {
        Self { is_applicable, ..self }
    }
}

const fn rule(field: &'static str, change: Change) -> Rule {
    Rule { field, change, is_applicable: |_, _| true }
}

const fn fixed(field: &'static str, absent: Absent) -> Rule {
    rule(field, Change::Differs(absent))
}

const fn certain(field: &'static str, absent: Absent) -> Rule {
    rule(field, Change::CertainlyDiffers(absent))
}

/// The rules of a kind.
pub(super) fn of_kind(group: &str, kind: &str) -> &'static [Rule] {
    let found =
        KINDS.iter().find(|(of_group, kinds, _)| *of_group == group && kinds.contains(&kind));
    found.map_or(&[], |(_, _, rules)| *rules)
}

/// API group, kinds and their rules.
type Kinds = (&'static str, &'static [&'static str], &'static [Rule]);

/// The rules of all kinds.
pub(super) const KINDS: &[Kinds] = &[
    // ValidateConfigMapUpdate.
    (
        "",
        &["ConfigMap"],
        &[
            fixed("data", Nothing).only_if(was_immutable),
            fixed("binaryData", Nothing).only_if(was_immutable),
            rule("immutable", Change::If(is_no_longer_immutable)),
        ],
    ),
    // ValidateSecretUpdate.
    (
        "",
        &["Secret"],
        &[
            fixed("type", Text("Opaque")),
            fixed("data", Nothing).only_if(is_other_content),
            rule("stringData", Change::If(is_other_content)),
            rule("immutable", Change::If(is_no_longer_immutable)),
        ],
    ),
    // ValidatePersistentVolumeClaimUpdate.
    (
        "",
        &["PersistentVolumeClaim"],
        &[
            fixed("spec.accessModes", Unknown),
            fixed("spec.storageClassName", Unknown),
            fixed("spec.volumeMode", Text("Filesystem")),
            rule("spec.resources.requests.storage", Change::If(shrinks)),
            fixed("spec.selector", Unknown),
            rule("spec.volumeName", Change::If(volume_name_changes)),
            certain("spec.dataSource", Unknown),
            certain("spec.dataSourceRef", Unknown),
        ],
    ),
    // ValidatePersistentVolumeUpdate: one of these is the source of the volume.
    (
        "",
        &["PersistentVolume"],
        &[
            certain("spec.csi", Nothing),
            certain("spec.fc", Nothing),
            certain("spec.hostPath", Nothing),
            certain("spec.iscsi", Nothing),
            certain("spec.local", Nothing),
            certain("spec.nfs", Nothing),
            fixed("spec.volumeMode", Text("Filesystem")),
            fixed("spec.nodeAffinity", Unknown).only_if(has_no_beta_labels),
        ],
    ),
    // ValidatePodUpdate: all of the spec but a few fields.
    ("", &["Pod"], &[rule("spec", Change::Below(pod_field))]),
    // ValidateResourceQuotaUpdate.
    ("", &["ResourceQuota"], &[rule("spec.scopes", Change::If(scopes_change))]),
    // validateUpgradeDowngradeClusterIPs, validateUpgradeDowngradeIPFamilies and
    // validateLoadBalancerClassField. An address that the manifest does not name is that of the
    // cluster.
    (
        "",
        &["Service"],
        &[
            rule("spec.clusterIP", Change::If(cluster_ip_changes)),
            rule("spec.clusterIPs", Change::If(cluster_ips_change)),
            rule("spec.ipFamilies", Change::If(first_family_changes)),
            fixed("spec.loadBalancerClass", Unknown).only_if(are_load_balancers),
        ],
    ),
    // ValidateCustomResourceDefinitionUpdate, once the names are accepted.
    (
        "apiextensions.k8s.io",
        &["CustomResourceDefinition"],
        &[fixed("spec.scope", Unknown), fixed("spec.names.kind", Unknown)],
    ),
    // ValidateUpdate of each.
    ("apps", &["DaemonSet", "Deployment", "ReplicaSet"], &[fixed("spec.selector", Unknown)]),
    // ValidateStatefulSetUpdate: all fields of the spec but those that it names.
    (
        "apps",
        &["StatefulSet"],
        &[
            fixed("spec.selector", Unknown),
            fixed("spec.serviceName", Text("")),
            fixed("spec.podManagementPolicy", Text("OrderedReady")),
            certain("spec.volumeClaimTemplates", Nothing),
        ],
    ),
    // ValidateJobSpecUpdate. A suspended Job may get other scheduling directives.
    (
        "batch",
        &["Job"],
        &[
            fixed("spec.selector", Unknown),
            certain("spec.template", Unknown).only_if(|was, _| !is_true(was, "spec.suspend")),
            fixed("spec.completionMode", Text("NonIndexed")),
            fixed("spec.completions", Unknown).only_if(|_, is| !is_indexed(is)),
            certain("spec.podFailurePolicy", Nothing),
            fixed("spec.backoffLimitPerIndex", Nothing),
            certain("spec.successPolicy", Nothing),
            fixed("spec.managedBy", Nothing),
        ],
    ),
    // ValidateEndpointSliceUpdate.
    ("discovery.k8s.io", &["EndpointSlice"], &[fixed("addressType", Unknown)]),
    // ValidateIngressClassUpdate.
    ("networking.k8s.io", &["IngressClass"], &[fixed("spec.controller", Unknown)]),
    // ValidateRuntimeClassUpdate.
    ("node.k8s.io", &["RuntimeClass"], &[fixed("handler", Unknown)]),
    // ValidateRoleBindingUpdate, ValidateClusterRoleBindingUpdate.
    (
        "rbac.authorization.k8s.io",
        &["ClusterRoleBinding", "RoleBinding"],
        &[fixed("roleRef.kind", Unknown), fixed("roleRef.name", Unknown)],
    ),
    // ValidatePriorityClassUpdate.
    (
        "scheduling.k8s.io",
        &["PriorityClass"],
        &[fixed("value", Zero), fixed("preemptionPolicy", Text("PreemptLowerPriority"))],
    ),
    // ValidateCSIDriverUpdate.
    (
        "storage.k8s.io",
        &["CSIDriver"],
        &[
            fixed("spec.attachRequired", True),
            fixed("spec.volumeLifecycleModes", List("Persistent")),
        ],
    ),
    // ValidateStorageClassUpdate.
    (
        "storage.k8s.io",
        &["StorageClass"],
        &[
            fixed("provisioner", Unknown),
            fixed("parameters", Nothing),
            fixed("reclaimPolicy", Text("Delete")),
            fixed("volumeBindingMode", Text("Immediate")),
        ],
    ),
];

/// The value of a field, as in `spec.selector`.
fn at<'a>(manifest: &'a Value, field: &str) -> Option<&'a Value> {
    field.split('.').try_fold(manifest, |value, name| value.get(name))
}

fn text<'a>(manifest: &'a Value, field: &str) -> &'a str {
    at(manifest, field).and_then(Value::as_str).unwrap_or_default()
}

fn is_true(manifest: &Value, field: &str) -> bool {
    at(manifest, field) == Some(&Value::Bool(true))
}

fn was_immutable(was: &Value, _: &Value) -> bool {
    is_true(was, "immutable")
}

fn is_no_longer_immutable(was: &Value, is: &Value) -> bool {
    is_true(was, "immutable") && !is_true(is, "immutable")
}

/// Whether an immutable Secret has other content, whichever field it is in.
fn is_other_content(was: &Value, is: &Value) -> bool {
    was_immutable(was, is) && secret_content(was) != secret_content(is)
}

/// The values of a Secret: those of `stringData` come before those of `data`.
fn secret_content(secret: &Value) -> BTreeMap<&str, Vec<u8>> {
    let pairs = |field| at(secret, field).and_then(Value::as_object).into_iter().flatten();
    let decoded = |value: &Value| serde_json::from_value(value.clone()).unwrap_or_default();
    let encoded = pairs("data").map(|(key, value)| {
        let ByteString(bytes) = decoded(value);
        (key.as_str(), bytes)
    });
    let plain = pairs("stringData")
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default().as_bytes().to_vec()));
    encoded.chain(plain).collect()
}

/// The API server lets a claim shrink only to take back an expansion that failed.
fn shrinks(was: &Value, is: &Value) -> bool {
    let storage = |claim| at(claim, "spec.resources.requests.storage");
    storage(was).zip(storage(is)).is_some_and(|(was, is)| is_less(was, is))
}

/// A claim without a volume may get one.
fn volume_name_changes(was: &Value, is: &Value) -> bool {
    let [was, is] = [was, is].map(|claim| text(claim, "spec.volumeName"));
    !was.is_empty() && !is.is_empty() && was != is
}

/// Labels of this form may be replaced by others.
fn has_no_beta_labels(was: &Value, is: &Value) -> bool {
    let affinity = |volume| at(volume, "spec.nodeAffinity").map(Value::to_string);
    ![was, is].into_iter().filter_map(affinity).any(|text| text.contains("beta.kubernetes.io/"))
}

/// The fields of a Pod that may change: some for a Pod with scheduling gates only.
const POD_FIELDS: [&str; 6] = [
    "activeDeadlineSeconds",
    "affinity",
    "ephemeralContainers",
    "nodeSelector",
    "schedulingGates",
    "tolerations",
];

/// A field of a Pod's spec that both manifests have. Admission fills in others.
fn pod_field(was: &Value, is: &Value) -> Option<String> {
    let spec = |pod| at(pod, "spec").and_then(Value::as_object);
    let (was, is) = spec(was).zip(spec(is))?;
    let is_changed = |name: &&String| {
        let Some((was, is)) = was.get(*name).zip(is.get(*name)) else { return false };
        match name.as_str() {
            "containers" | "initContainers" => {
                let [was, is] = [was, is].map(without_images);
                certainly_differ(&was, &is)
            }
            // It may become shorter.
            "activeDeadlineSeconds" => is_less(is, was),
            // A negative one may change.
            "terminationGracePeriodSeconds" => !is_less(&json!(0), was) && was != is,
            name => !POD_FIELDS.contains(&name) && certainly_differ(was, is),
        }
    };
    was.keys().find(is_changed).map(|name| format!("spec.{name}"))
}

/// Containers without their images, which may change.
fn without_images(containers: &Value) -> Value {
    let mut containers = containers.clone();
    for container in containers.as_array_mut().into_iter().flatten() {
        if let Some(fields) = container.as_object_mut() {
            fields.remove("image");
        }
    }
    containers
}

fn scopes_change(was: &Value, is: &Value) -> bool {
    let scopes = |quota: &Value| -> BTreeSet<String> {
        let all = at(quota, "spec.scopes").and_then(Value::as_array).into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    scopes(was) != scopes(is)
}

/// Addresses of such Services may be set and removed.
fn is_external_name(service: &Value) -> bool {
    text(service, "spec.type") == "ExternalName"
}

/// The address with this number that a manifest names; empty if it names none.
fn address(service: &Value, number: usize) -> &str {
    let all = at(service, "spec.clusterIPs").and_then(Value::as_array);
    let listed = all.and_then(|all| all.get(number)?.as_str()).unwrap_or_default();
    match text(service, "spec.clusterIP") {
        first if number == 0 && !first.is_empty() => first,
        _ => listed,
    }
}

/// Whether the first address changes. A Service without one in its manifest gets one, so it cannot
/// become headless.
fn first_address_changes(was: &Value, is: &Value) -> bool {
    let [before, after] = [was, is].map(|service| address(service, 0));
    let differs = match before {
        "" => after == "None",
        _ => !after.is_empty() && before != after,
    };
    differs && ![was, is].into_iter().any(is_external_name)
}

fn cluster_ip_changes(was: &Value, is: &Value) -> bool {
    !text(is, "spec.clusterIP").is_empty() && first_address_changes(was, is)
}

fn cluster_ips_change(was: &Value, is: &Value) -> bool {
    let [before, after] = [was, is].map(|service| address(service, 1));
    let second = !before.is_empty() && !after.is_empty() && before != after;
    let of_external_name = [was, is].into_iter().any(is_external_name);
    first_address_changes(was, is) || (second && !of_external_name)
}

/// A headless Service may get any family.
fn first_family_changes(was: &Value, is: &Value) -> bool {
    let family = |service| {
        let all = at(service, "spec.ipFamilies").and_then(Value::as_array);
        all.and_then(|all| all.first()).and_then(Value::as_str)
    };
    let is_free = |service: &Value| is_external_name(service) || address(service, 0) == "None";
    let differs = family(was).zip(family(is)).is_some_and(|(was, is)| was != is);
    differs && ![was, is].into_iter().any(is_free)
}

fn are_load_balancers(was: &Value, is: &Value) -> bool {
    [was, is].into_iter().all(|service| text(service, "spec.type") == "LoadBalancer")
}

/// Such a Job may get more completions.
fn is_indexed(job: &Value) -> bool {
    text(job, "spec.completionMode") == "Indexed"
}
