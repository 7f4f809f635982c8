//! Rules between the fields of a type.

mod extensions;
mod pods;
mod services;
mod workloads;

use gitwork_api::escape::pointer_token;
use serde_json::{Map, Value};

use crate::checker::Checker;
use crate::fields::{items, text};
use crate::finding::{Problem, shown};
use crate::metadata::{self, MetadataRules};
use crate::scalars::base64_bytes;

/// Checks the fields of a value of a built-in type with each other.
pub(crate) fn check(checker: &mut Checker<'_>, of: &str, fields: &Map<String, Value>) {
    let Some((group, name)) = of.split_once('.') else { return };
    match group {
        "apps" | "batch" => workload(checker, name, fields),
        "core" | "meta" => core(checker, name, fields),
        "autoscaling" => autoscaling(checker, name, fields),
        "networking" | "discovery" => network(checker, name, fields),
        "rbac" if name == "v1.PolicyRule" => policy_rule(checker, fields),
        "rbac" if name == "v1.Subject" => subject(checker, fields),
        _ => extension(checker, of, fields),
    }
}

fn workload(checker: &mut Checker<'_>, name: &str, fields: &Map<String, Value>) {
    match name {
        "v1.DeploymentSpec" => {
            workloads::selector(checker, fields);
            workloads::deadline(checker, fields);
        }
        "v1.ReplicaSetSpec" | "v1.DaemonSetSpec" => workloads::selector(checker, fields),
        "v1.StatefulSetSpec" => {
            workloads::selector(checker, fields);
            workloads::claims(checker, fields);
        }
        "v1.DeploymentStrategy" | "v1.DaemonSetUpdateStrategy" | "v1.StatefulSetUpdateStrategy" => {
            workloads::strategy(checker, fields);
        }
        "v1.ControllerRevision" => revision(checker, fields),
        "v1.JobSpec" => workloads::job(checker, fields),
        "v1.PodFailurePolicyOnExitCodesRequirement" => workloads::exit_codes(checker, fields),
        _ => {}
    }
}

/// The core group, and what all groups share.
fn core(checker: &mut Checker<'_>, name: &str, fields: &Map<String, Value>) {
    match name {
        "v1.ObjectMeta" => {
            let rules = MetadataRules { finalizers_have_prefix: false, is_of_object: false };
            metadata::check(checker, fields, rules);
        }
        "v1.LabelSelectorRequirement"
        | "v1.NodeSelectorRequirement"
        | "v1.ScopedResourceSelectorRequirement" => requirement(checker, fields),
        "v1.ReplicationControllerSpec" => workloads::replication_controller(checker, fields),
        "v1.PodSpec" => pods::spec(checker, fields),
        "v1.Container" => pods::container(checker, fields),
        "v1.ResourceRequirements" => pods::resources(checker, fields),
        "v1.Toleration" => pods::toleration(checker, fields),
        "v1.DownwardAPIVolumeFile" => pods::downward_file(checker, fields),
        "v1.ServiceSpec" => services::spec(checker, fields),
        "v1.EndpointAddress" => services::not_empty(checker, fields, "nodeName"),
        "v1.PersistentVolumeClaimSpec" => claim(checker, fields),
        "v1.PersistentVolumeSpec" => volume(checker, fields),
        "v1.Namespace" => namespace(checker, fields),
        "v1.LimitRangeItem" => limit(checker, fields),
        "v1.ConfigMap" => config_map(checker, fields),
        "v1.Secret" => secret(checker, fields),
        _ => {}
    }
}

fn autoscaling(checker: &mut Checker<'_>, name: &str, fields: &Map<String, Value>) {
    match name {
        "v2.HorizontalPodAutoscalerSpec" | "v1.HorizontalPodAutoscalerSpec" => {
            autoscaler(checker, fields);
        }
        "v2.MetricSpec" => metric(checker, fields),
        "v2.ResourceMetricSource" | "v2.ContainerResourceMetricSource" => {
            target(checker, fields, &["averageUtilization", "averageValue"]);
        }
        "v2.PodsMetricSource" => target(checker, fields, &["averageValue"]),
        "v2.ObjectMetricSource" | "v2.ExternalMetricSource" => {
            target(checker, fields, &["value", "averageValue"]);
        }
        _ => {}
    }
}

fn network(checker: &mut Checker<'_>, name: &str, fields: &Map<String, Value>) {
    match name {
        "v1.HTTPIngressPath" => services::ingress_path(checker, fields),
        "v1.NetworkPolicyPort" => services::policy_port(checker, fields),
        "v1.IngressClassParametersReference" => services::class_parameters(checker, fields),
        "v1.ServiceCIDRSpec" => services::cidrs(checker, fields),
        "v1.EndpointSlice" => services::slice(checker, fields),
        "v1.Endpoint" => services::not_empty(checker, fields, "nodeName"),
        _ => {}
    }
}

/// Flow control, admission and extensions of the API server.
fn extension(checker: &mut Checker<'_>, of: &str, fields: &Map<String, Value>) {
    match of {
        "flowcontrol.v1.Subject" => extensions::flow_subject(checker, fields),
        "flowcontrol.v1.PriorityLevelConfigurationSpec" => {
            extensions::priority_level(checker, fields);
        }
        "flowcontrol.v1.ResourcePolicyRule" => {
            let names = ["verbs", "apiGroups", "resources", "namespaces"];
            extensions::wildcards(checker, fields, &names);
        }
        "flowcontrol.v1.NonResourcePolicyRule" => {
            extensions::wildcards(checker, fields, &["verbs", "nonResourceURLs"]);
        }
        "flowcontrol.v1.LimitResponse" => extensions::limit_response(checker, fields),
        "admissionregistration.v1.ValidatingAdmissionPolicySpec" => {
            extensions::admission_policy(checker, fields);
        }
        "admissionregistration.v1.RuleWithOperations"
        | "admissionregistration.v1.NamedRuleWithOperations" => {
            extensions::wildcards(checker, fields, &["operations", "apiGroups", "apiVersions"]);
        }
        "apiregistration.v1.APIServiceSpec" => extensions::api_service(checker, fields),
        "apiextensions.v1.CustomResourceDefinitionSpec" => extensions::crd(checker, fields),
        "apiextensions.v1.CustomResourceValidation" => extensions::crd_schema(checker, fields),
        _ => {}
    }
}

/// A selector's requirement: whether its operator takes values.
fn requirement(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let count = items(fields, "values").len();
    let operator = text(fields, "operator");
    let problem = match operator {
        "In" | "NotIn" if count == 0 => "needs `values`",
        "Exists" | "DoesNotExist" if count > 0 => "takes no `values`",
        "Gt" | "Lt" if count != 1 => "needs one value",
        _ => return,
    };
    checker.report(Problem::InvalidValue, format!("the operator {operator} {problem}"));
}

fn claim(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let resources = fields.get("resources").and_then(Value::as_object);
    let storage = resources.and_then(|one| one.get("requests")).and_then(|one| one.get("storage"));
    if storage.is_none() {
        let message = "a PersistentVolumeClaim needs `resources.requests.storage`";
        checker.report_at(Problem::MissingField, "/resources/requests/storage", message);
    }
}

/// A volume has the size of its storage, and nothing else.
fn volume(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let Some(Value::Object(capacity)) = fields.get("capacity") else { return };
    if !capacity.keys().eq(["storage"]) {
        let message = "`capacity` of a PersistentVolume must have `storage` and nothing else";
        checker.report_at(Problem::InvalidValue, "/capacity", message);
    }
}

/// The labels of Pod Security.
fn namespace(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    const LEVELS: &[&str] = &["privileged", "baseline", "restricted"];
    let labels = fields.get("metadata").and_then(|one| one.get("labels"));
    for mode in ["enforce", "audit", "warn"] {
        let key = format!("pod-security.kubernetes.io/{mode}");
        let level = labels.and_then(|labels| labels.get(&key)).and_then(Value::as_str);
        if let Some(level) = level.filter(|level| !LEVELS.contains(level)) {
            let near = crate::suggest::did_you_mean(level, LEVELS.iter().copied());
            let all = LEVELS.join(", ");
            let message = format!("`{key}` is {:?}, and must be one of {all}{near}", shown(level));
            let below = format!("/metadata/labels/{}", pointer_token(&key));
            checker.report_at(Problem::InvalidMetadata, &below, message);
        }
    }
}

fn revision(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    if fields.get("data").is_some_and(|data| !data.is_null() && !data.is_object()) {
        checker.report_at(Problem::WrongType, "/data", "`data` must be a mapping");
    }
}

fn policy_rule(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let has = |name: &str| !items(fields, name).is_empty();
    if has("nonResourceURLs") {
        if has("apiGroups") || has("resources") || has("resourceNames") {
            let message = "a rule is for resources or for `nonResourceURLs`, not for both";
            checker.report(Problem::InvalidValue, message);
        }
        return;
    }
    for name in ["apiGroups", "resources"].into_iter().filter(|name| !has(name)) {
        let message = match name {
            "apiGroups" => "a rule for resources needs `apiGroups`; [\"\"] is the core group",
            _ => "a rule for resources needs `resources`",
        };
        checker.report_missing(name, message);
    }
}

fn subject(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let group = text(fields, "apiGroup");
    let is_account = text(fields, "kind") == "ServiceAccount";
    let why = gitwork_api::names::check_subdomain(text(fields, "name"), 253).err();
    if let Some(why) = why.filter(|_| is_account && !text(fields, "name").is_empty()) {
        let message = format!("the name of the ServiceAccount {why}");
        checker.report_at(Problem::InvalidValue, "/name", message);
    }
    // In a RoleBinding, the API server takes the namespace of the binding.
    let needs_namespace = is_account && checker.is_in("rbac.v1.ClusterRoleBinding");
    if needs_namespace && text(fields, "namespace").is_empty() {
        let message = "a ServiceAccount as a subject needs `namespace`";
        checker.report_missing("namespace", message);
    }
    let wanted = if is_account { "" } else { "rbac.authorization.k8s.io" };
    if !group.is_empty() && group != wanted {
        let message = format!("`apiGroup` of this subject must be {wanted:?}");
        checker.report_at(Problem::InvalidValue, "/apiGroup", message);
    }
}

fn autoscaler(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let number = |name: &str| fields.get(name).and_then(Value::as_i64);
    let least = number("minReplicas").unwrap_or(1);
    if let Some(most) = number("maxReplicas").filter(|most| *most < least && *most > 0) {
        let message = format!("`maxReplicas` is {most}, less than `minReplicas`, {least}");
        checker.report_at(Problem::InvalidValue, "/maxReplicas", message);
    }
}

/// The field that belongs to the type of a metric.
fn metric(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let of = text(fields, "type");
    let (field, others): (&str, &[&str]) = match of {
        "Resource" => ("resource", &["containerResource", "pods", "object", "external"]),
        "ContainerResource" => ("containerResource", &["resource", "pods", "object", "external"]),
        "Pods" => ("pods", &["resource", "containerResource", "object", "external"]),
        "Object" => ("object", &["resource", "containerResource", "pods", "external"]),
        "External" => ("external", &["resource", "containerResource", "pods", "object"]),
        _ => return,
    };
    let has = |name: &str| fields.get(name).is_some_and(|one| !one.is_null());
    if !has(field) {
        checker.report_missing(field, format!("a metric of type {of} needs `{field}`"));
    }
    for other in others.iter().filter(|other| has(other)) {
        let message = format!("a metric of type {of} has no `{other}`");
        checker.report_at(Problem::InvalidValue, &format!("/{other}"), message);
    }
}

/// The targets that a metric may have.
fn target(checker: &mut Checker<'_>, fields: &Map<String, Value>, allowed: &[&str]) {
    let Some(target) = fields.get("target").and_then(Value::as_object) else { return };
    if !allowed.iter().any(|name| target.get(*name).is_some_and(|one| !one.is_null())) {
        let message = format!("the target of this metric needs {}", allowed.join(" or "));
        checker.report_at(Problem::MissingField, "/target", message);
    }
}

/// What a limit for claims needs, and that no minimum is above its maximum.
fn limit(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let storage = |name: &str| fields.get(name).and_then(|one| one.get("storage")).is_some();
    if text(fields, "type") == "PersistentVolumeClaim" && !storage("min") && !storage("max") {
        let message = "a limit of PersistentVolumeClaims needs `min.storage` or `max.storage`";
        checker.report(Problem::MissingField, message);
    }
    let map = |name: &str| fields.get(name).and_then(Value::as_object);
    let order = ["min", "defaultRequest", "default", "max"];
    for (index, lower) in order.iter().enumerate() {
        for upper in &order[index + 1..] {
            let (Some(low), Some(high)) = (map(lower), map(upper)) else { continue };
            for (resource, least) in low {
                let most = high.get(resource).and_then(pods::number);
                if pods::number(least).zip(most).is_some_and(|(least, most)| least > most) {
                    let resource = shown(resource);
                    let message = format!("`{lower}` of {resource} is larger than `{upper}`");
                    checker.report_at(Problem::InvalidValue, &format!("/{lower}"), message);
                }
            }
        }
    }
}

fn config_map(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let map = |name: &str| fields.get(name).and_then(Value::as_object);
    let (Some(data), Some(binary)) = (map("data"), map("binaryData")) else { return };
    for key in data.keys().filter(|key| binary.contains_key(*key)) {
        let message = format!("the key {:?} is in `data` and in `binaryData`", shown(key));
        let below = format!("/binaryData/{}", pointer_token(key));
        checker.report_at(Problem::InvalidValue, &below, message);
    }
}

/// The keys that a type of Secret needs.
fn secret(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let of = text(fields, "type");
    let needed: &[&str] = match of {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => return,
    };
    let has = |key: &str| {
        let within = |name: &str| fields.get(name).is_some_and(|data| data.get(key).is_some());
        within("data") || within("stringData")
    };
    for key in needed.iter().filter(|key| !has(key)) {
        let message = format!("a Secret of type {of} needs the key {key:?}");
        let data = if fields.contains_key("stringData") { "stringData" } else { "data" };
        let below = format!("/{data}/{}", pointer_token(key));
        checker.report_at(Problem::MissingField, &below, message);
    }
    for key in needed.iter().filter(|key| key.starts_with(".docker")) {
        docker_config(checker, fields, key);
    }
}

/// The logins of container registries are a JSON object. `stringData` wins over `data`.
fn docker_config(checker: &mut Checker<'_>, fields: &Map<String, Value>, key: &str) {
    let within = |name: &str| fields.get(name)?.get(key)?.as_str();
    let (name, bytes) = match within("stringData") {
        Some(text) => ("stringData", Some(text.as_bytes().to_owned())),
        None => ("data", within("data").and_then(base64_bytes)),
    };
    let Some(bytes) = bytes else { return };
    if serde_json::from_slice::<Option<Map<String, Value>>>(&bytes).is_err() {
        let message = format!("the key {key:?} must have a JSON object");
        let below = format!("/{name}/{}", pointer_token(key));
        checker.report_at(Problem::InvalidValue, &below, message);
    }
}
