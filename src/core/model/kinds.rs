//! What a kind is called in URLs and whether it is namespaced, known without asking a cluster:
//! Kubernetes' own kinds, then CRDs found in the repository, then the usual pluralisation.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gitwork_api::names::{check_label, check_subdomain};
use gitwork_schemas::CrdSchemas;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope, Resource};
use serde_json::Value;

use super::manifest::Identity;
use super::value_path::value_at;
use crate::limits;

/// The answer to "what is the plural of this kind?".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// One of Kubernetes' own kinds.
    BuiltIn { resource: &'static str, namespaced: bool },
    /// From a CRD in the repository.
    Crd { resource: String, namespaced: bool, schemas: Option<CrdSchemas> },
    /// By the usual pluralisation. Whether such a kind is namespaced is not known.
    Guessed {
        resource: String,
        /// The plurals in CRDs of frozen works. They count for nobody by themselves: see
        /// [`KindIndex::with_frozen`].
        frozen: BTreeSet<String>,
    },
}

impl Found {
    /// The plural.
    pub(crate) fn resource(&self) -> &str {
        match self {
            Found::BuiltIn { resource, .. } => resource,
            Found::Crd { resource, .. } | Found::Guessed { resource, .. } => resource,
        }
    }
    /// Whether its objects have a namespace; `None` where it is not known.
    pub(crate) fn namespaced(&self) -> Option<bool> {
        match self {
            Found::BuiltIn { namespaced, .. } | Found::Crd { namespaced, .. } => Some(*namespaced),
            Found::Guessed { .. } => None,
        }
    }
}

/// The names that a CRD gives its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CrdNames {
    pub(crate) group: String,
    pub(crate) kind: String,
    /// The plural.
    pub(crate) resource: String,
    pub(crate) namespaced: bool,
    /// `None` in a version of CRDs that has none.
    pub(crate) schemas: Option<CrdSchemas>,
}

impl CrdNames {
    /// Reads them from a manifest, if it is a CRD that an API server may accept. So no name is
    /// long, however many objects get it.
    pub(crate) fn of(object: &Value) -> Option<Self> {
        let text = |pointer| value_at(object, pointer).and_then(Value::as_str);
        if text("/kind")? != "CustomResourceDefinition"
            || !text("/apiVersion")?.starts_with("apiextensions.k8s.io/")
        {
            return None;
        }
        let (group, kind) = (text("/spec/group")?, text("/spec/names/kind")?);
        let (resource, scope) = (text("/spec/names/plural")?, text("/spec/scope")?);
        check_subdomain(group, 253).ok()?;
        check_label(resource, 63).ok()?;
        check_label(&kind.to_ascii_lowercase(), 63).ok()?;
        Some(Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            resource: resource.to_owned(),
            namespaced: match scope {
                "Namespaced" => true,
                "Cluster" => false,
                _ => return None,
            },
            schemas: CrdSchemas::of(object),
        })
    }
}

/// All kinds that are known for one repository.
#[derive(Debug, Clone, Default)]
pub struct KindIndex {
    crds: BTreeMap<(String, String), CrdNames>,
    /// The plurals in CRDs of frozen works.
    frozen: BTreeMap<(String, String), BTreeSet<String>>,
}

impl KindIndex {
    /// Of two CRDs for one kind the first counts.
    pub(crate) fn new<'a>(crds: impl Iterator<Item = &'a CrdNames>) -> Self {
        let mut index = Self::default();
        for crd in crds {
            let kind = (crd.group.clone(), crd.kind.clone());
            index.crds.entry(kind).or_insert_with(|| crd.clone());
        }
        index
    }

    /// Whether the objects of a kind have a namespace; `None` where it is not known.
    pub fn is_namespaced(&self, group: &str, kind: &str) -> Option<bool> {
        self.lookup(group, kind).namespaced()
    }

    /// The same kinds, and those of these CRDs that were not known.
    pub(crate) fn with<'a>(mut self, crds: impl Iterator<Item = &'a CrdNames>) -> Self {
        for (kind, names) in Self::new(crds).crds {
            self.crds.entry(kind).or_insert(names);
        }
        self
    }

    /// The same kinds, and the plurals in CRDs of frozen works, up to
    /// [`limits::FROZEN_PLURALS_MAX`] for each kind. Such a CRD must neither freeze nor change
    /// another work. So its plural counts only for a rule that names it and would be about no
    /// object otherwise: a problem in the work with the CRD must not freeze the work with the rule.
    pub(crate) fn with_frozen<'a>(mut self, crds: impl Iterator<Item = &'a CrdNames>) -> Self {
        for crd in crds {
            let plurals = self.frozen.entry((crd.group.clone(), crd.kind.clone())).or_default();
            if plurals.len() < limits::FROZEN_PLURALS_MAX {
                plurals.insert(crd.resource.clone());
            }
        }
        self
    }

    /// The schemas of a custom kind, if a CRD of the repository defines it.
    pub(crate) fn schemas(&self, group: &str, kind: &str) -> Option<&CrdSchemas> {
        let crd = self.crds.get(&(group.to_owned(), kind.to_owned()))?;
        crd.schemas.as_ref()
    }

    /// Whether a CRD of a frozen work has a plural.
    pub(crate) fn has_frozen_plurals(&self) -> bool {
        !self.frozen.is_empty()
    }

    /// The plural of one of Kubernetes' own kinds; `None` for any other.
    pub fn built_in(group: &str, kind: &str) -> Option<&'static str> {
        built_in(group, kind).map(|(resource, _)| resource)
    }

    /// Names a kind of an API group; the core group is the empty text.
    pub(crate) fn lookup(&self, group: &str, kind: &str) -> Found {
        if let Some((resource, namespaced)) = built_in(group, kind) {
            return Found::BuiltIn { resource, namespaced };
        }
        let named = (group.to_owned(), kind.to_owned());
        match self.crds.get(&named) {
            Some(CrdNames { resource, namespaced, schemas, .. }) => Found::Crd {
                resource: resource.clone(),
                namespaced: *namespaced,
                schemas: schemas.clone(),
            },
            None => {
                let frozen = self.frozen.get(&named).cloned().unwrap_or_default();
                Found::Guessed { resource: plural(kind), frozen }
            }
        }
    }
}

/// The plural that client-go guesses: lower case, `y` to `ies`, `s` to `ses`, otherwise an `s`.
fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    if lower == "endpoints" {
        return lower;
    }
    match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if lower.ends_with('s') => format!("{lower}es"),
        None => format!("{lower}s"),
    }
}

/// The identity of an object by its manifest alone. The plural of its kind is a guess unless the
/// kind is one of Kubernetes' own: a CRD can define another one.
pub fn guessed_identity(manifest: &Value) -> Identity {
    let kind = manifest.get("kind").and_then(Value::as_str).unwrap_or_default();
    let mut identity = Identity::of_manifest(manifest, "");
    let kinds = KindIndex::default();
    kinds.lookup(&identity.group, kind).resource().clone_into(&mut identity.resource);
    identity
}

/// Kubernetes' own words for a kind's scope, as a boolean.
trait IsNamespaced {
    const NAMESPACED: bool;
}
impl IsNamespaced for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}
impl IsNamespaced for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

fn row<K: Resource<Scope: IsNamespaced>>() -> (&'static str, &'static str, &'static str, bool) {
    (K::GROUP, K::KIND, K::URL_PATH_SEGMENT, <K::Scope as IsNamespaced>::NAMESPACED)
}

macro_rules! built_ins {
    ($($($part:ident)::+: $($kind:ident),+;)*) => {
        /// Group, kind, plural and whether it is namespaced, from k8s-openapi's own constants.
        fn built_ins() -> impl Iterator<Item = (&'static str, &'static str, &'static str, bool)> {
            let mut rows = Vec::new();
            $({
                use k8s_openapi::$($part)::+ as version;
                rows.extend([$(row::<version::$kind>()),+]);
            })*
            rows.into_iter()
        }
    };
}

built_ins! {
        api::admissionregistration::v1: MutatingWebhookConfiguration, ValidatingAdmissionPolicy,
            ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration;
        api::admissionregistration::v1alpha1: MutatingAdmissionPolicy,
            MutatingAdmissionPolicyBinding;
        api::admissionregistration::v1beta1: ValidatingAdmissionPolicy,
            ValidatingAdmissionPolicyBinding;
        api::apiserverinternal::v1alpha1: StorageVersion;
        api::apps::v1: ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet;
        api::authentication::v1: SelfSubjectReview, TokenReview;
        api::authorization::v1: LocalSubjectAccessReview, SelfSubjectAccessReview,
            SelfSubjectRulesReview, SubjectAccessReview;
        api::autoscaling::v1: HorizontalPodAutoscaler;
        api::autoscaling::v2: HorizontalPodAutoscaler;
        api::batch::v1: CronJob, Job;
        api::certificates::v1: CertificateSigningRequest;
        api::certificates::v1alpha1: ClusterTrustBundle;
        api::certificates::v1beta1: ClusterTrustBundle;
        api::coordination::v1: Lease;
        api::coordination::v1alpha2: LeaseCandidate;
        api::coordination::v1beta1: LeaseCandidate;
        api::core::v1: Binding, ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace,
            Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate, ReplicationController,
            ResourceQuota, Secret, Service, ServiceAccount;
        api::discovery::v1: EndpointSlice;
        api::events::v1: Event;
        api::flowcontrol::v1: FlowSchema, PriorityLevelConfiguration;
        api::networking::v1: IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR;
        api::networking::v1beta1: IPAddress, ServiceCIDR;
        api::node::v1: RuntimeClass;
        api::policy::v1: PodDisruptionBudget;
        api::rbac::v1: ClusterRole, ClusterRoleBinding, Role, RoleBinding;
        api::resource::v1alpha3: DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate,
            ResourceSlice;
        api::resource::v1beta1: DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice;
        api::resource::v1beta2: DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice;
        api::scheduling::v1: PriorityClass;
        api::storage::v1: CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment;
        api::storage::v1alpha1: VolumeAttributesClass;
        api::storage::v1beta1: VolumeAttributesClass;
        api::storagemigration::v1alpha1: StorageVersionMigration;
        apiextensions_apiserver::pkg::apis::apiextensions::v1: CustomResourceDefinition;
        kube_aggregator::pkg::apis::apiregistration::v1: APIService;
}

/// Group and kind to plural, and whether objects of it have a namespace.
type BuiltIns = HashMap<(&'static str, &'static str), (&'static str, bool)>;

fn built_in(group: &str, kind: &str) -> Option<(&'static str, bool)> {
    static TABLE: std::sync::LazyLock<BuiltIns> = std::sync::LazyLock::new(|| {
        built_ins()
            .map(|(group, kind, resource, namespaced)| ((group, kind), (resource, namespaced)))
            .collect()
    });
    TABLE.get(&(group, kind)).copied()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kubernetes_own_kinds() {
        for (group, kind, resource, namespaced) in [
            ("apps", "Deployment", "deployments", true),
            ("", "Endpoints", "endpoints", true),
            ("", "Namespace", "namespaces", false),
            ("networking.k8s.io", "NetworkPolicy", "networkpolicies", true),
            ("networking.k8s.io", "IngressClass", "ingressclasses", false),
            ("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", false),
            (
                "apiextensions.k8s.io",
                "CustomResourceDefinition",
                "customresourcedefinitions",
                false,
            ),
            ("apiregistration.k8s.io", "APIService", "apiservices", false),
        ] {
            assert_eq!(
                KindIndex::default().lookup(group, kind),
                Found::BuiltIn { resource, namespaced }
            );
        }
        assert!(
            matches!(KindIndex::default().lookup("apps", "Pod"), Found::Guessed { .. }),
            "the group counts"
        );
    }

    /// The guess is client-go's: it is right for all of Kubernetes' own kinds.
    #[test]
    fn the_guess_is_right_for_all_built_in_kinds() {
        assert!(built_ins().count() > 70);
        for (_, kind, resource, _) in built_ins() {
            assert_eq!(plural(kind), resource);
        }
    }

    fn crd(spec: &Value) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": spec,
        })
    }

    fn mouse(plural: &str) -> CrdNames {
        let names = json!({"kind": "Mouse", "plural": plural});
        let of = CrdNames::of(&crd(&json!({"group": "x.io", "scope": "Cluster", "names": names})));
        of.unwrap()
    }

    fn guessed(resource: &str, frozen: &[&str]) -> Found {
        let frozen = frozen.iter().map(|plural| (*plural).to_owned()).collect();
        Found::Guessed { resource: resource.into(), frozen }
    }

    #[test]
    fn a_crd_in_the_repository_tells() {
        let index = KindIndex::new([&mouse("mice")].into_iter());
        assert_eq!(
            index.lookup("x.io", "Mouse"),
            Found::Crd { resource: "mice".into(), namespaced: false, schemas: None }
        );
        assert_eq!(index.lookup("y.io", "Mouse"), guessed("mouses", &[]));
        assert_eq!(CrdNames::of(&json!({"kind": "Pod"})), None);
    }

    #[test]
    fn crds_of_frozen_works_tell_nothing_by_themselves() {
        let plurals: Vec<String> = (0..20).map(|n| format!("rats-{n}")).collect();
        let all: Vec<CrdNames> = plurals.iter().map(|plural| mouse(plural)).collect();
        let index = KindIndex::default().with_frozen(all.iter());
        let first: Vec<&str> = plurals[..limits::FROZEN_PLURALS_MAX].iter().map(|p| &**p).collect();
        assert_eq!(index.lookup("x.io", "Mouse"), guessed("mouses", &first));
        assert_eq!(index.is_namespaced("x.io", "Mouse"), None);
        // A kind that another CRD defines has no second plural.
        let index = KindIndex::new([&mouse("mice")].into_iter()).with_frozen(all.iter());
        assert_eq!(index.lookup("x.io", "Mouse").resource(), "mice");
    }

    #[test]
    fn crds_that_no_api_server_accepts_tell_nothing() {
        let long = "x".repeat(64);
        for (group, kind, plural, scope) in [
            ("", "Mouse", "mice", "Cluster"),
            ("X.io", "Mouse", "mice", "Cluster"),
            ("x.io", "", "mice", "Cluster"),
            ("x.io", "Mou se", "mice", "Cluster"),
            ("x.io", &long, "mice", "Cluster"),
            ("x.io", "Mouse", "", "Cluster"),
            ("x.io", "Mouse", "Mice", "Cluster"),
            ("x.io", "Mouse", &long, "Cluster"),
            ("x.io", "Mouse", "mice", "namespaced"),
        ] {
            let names = json!({"kind": kind, "plural": plural});
            let crd = crd(&json!({"group": group, "scope": scope, "names": names}));
            assert_eq!(CrdNames::of(&crd), None, "{crd}");
        }
    }
}
