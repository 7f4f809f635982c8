//! Pods and containers.

use gitwork_api::escape::pointer_token;
use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::checker::Checker;
use crate::fields::{items, text};
use crate::finding::{Problem, shown};
use crate::scalars::quantity_value;

/// The names of containers and volumes in a pod.
pub(super) fn spec(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    // Those of a StatefulSet are checked with its claims.
    if !checker.is_in("apps.v1.StatefulSetSpec") {
        mounts(checker, "", fields, &[]);
    }
    let of_init = names(items(fields, "initContainers"));
    for list in ["initContainers", "containers"] {
        for (index, container) in items(fields, list).iter().enumerate() {
            let at = format!("/{list}/{index}");
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            if list == "containers" && of_init.contains(name) {
                let message = format!("`initContainers` have a container {:?}, too", shown(name));
                checker.report_at(Problem::InvalidValue, &format!("{at}/name"), message);
            }
            let Value::Object(container) = container else { continue };
            check_init(checker, &at, list, container);
        }
    }
    if text(fields, "dnsPolicy") == "None" && fields.get("dnsConfig").is_none() {
        let message = "`dnsPolicy: None` needs `dnsConfig` with `nameservers`";
        checker.report_missing("dnsConfig", message);
    }
}

/// The names of items.
pub(super) fn names(items: &[Value]) -> HashSet<&str> {
    items.iter().filter_map(|one| one.get("name").and_then(Value::as_str)).collect()
}

/// The volumes that the containers of a pod mount. `claims` are templates of claims, which are
/// volumes of the pod, too; `at` leads to the pod.
pub(super) fn mounts(
    checker: &mut Checker<'_>,
    at: &str,
    pod: &Map<String, Value>,
    claims: &[&str],
) {
    let mut volumes = names(items(pod, "volumes"));
    volumes.extend(claims);
    for list in ["initContainers", "containers"] {
        for (index, container) in items(pod, list).iter().enumerate() {
            let Value::Object(container) = container else { continue };
            for mounts in ["volumeMounts", "volumeDevices"] {
                let at = format!("{at}/{list}/{index}/{mounts}");
                check_mounts(checker, &at, items(container, mounts), &volumes);
            }
        }
    }
}

fn check_mounts(checker: &mut Checker<'_>, at: &str, mounts: &[Value], volumes: &HashSet<&str>) {
    for (index, mount) in mounts.iter().enumerate() {
        let name = mount.get("name").and_then(Value::as_str).unwrap_or_default();
        if !name.is_empty() && !volumes.contains(name) {
            let near = crate::suggest::did_you_mean(name, volumes.iter().copied());
            let message = format!("the pod has no volume {:?}{near}", shown(name));
            checker.report_at(Problem::InvalidValue, &format!("{at}/{index}/name"), message);
        }
    }
}

/// Init containers have no probes, unless they run beside the others.
fn check_init(checker: &mut Checker<'_>, at: &str, list: &str, container: &Map<String, Value>) {
    if list != "initContainers" || text(container, "restartPolicy") == "Always" {
        return;
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle"] {
        if container.get(name).is_some_and(|one| !one.is_null()) {
            let message = format!("an init container has no `{name}`");
            checker.report_at(Problem::InvalidValue, &format!("{at}/{name}"), message);
        }
    }
}

pub(super) fn container(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    for probe in ["livenessProbe", "startupProbe"] {
        let threshold = fields.get(probe).and_then(|one| one.get("successThreshold"));
        if threshold.and_then(Value::as_i64).is_some_and(|threshold| threshold > 1) {
            let message = format!("`successThreshold` of a {probe} must be 1");
            let below = format!("/{probe}/successThreshold");
            checker.report_at(Problem::InvalidValue, &below, message);
        }
    }
    let mut names = HashSet::new();
    for (index, port) in items(fields, "ports").iter().enumerate() {
        let name = port.get("name").and_then(Value::as_str).unwrap_or_default();
        if !name.is_empty() && !names.insert(name) {
            let message = format!("two ports of the container have the name {:?}", shown(name));
            checker.report_at(Problem::InvalidValue, &format!("/ports/{index}/name"), message);
        }
    }
}

/// Requests are not larger than limits, and equal where a resource cannot be shared.
pub(super) fn resources(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let map = |name: &str| fields.get(name).and_then(Value::as_object);
    let Some(requests) = map("requests") else { return };
    let limits = map("limits");
    for (resource, request) in requests {
        let limit = limits.and_then(|limits| limits.get(resource));
        let at = format!("/requests/{}", pointer_token(resource));
        let resource = shown(resource);
        let is_extended = resource.contains('/') && !resource.contains("kubernetes.io/");
        if let (Some(request), Some(limit)) = (number(request), limit.and_then(number)) {
            if request > limit {
                let message = format!("the request of {resource} is larger than its limit");
                checker.report_at(Problem::InvalidValue, &at, message);
            } else if is_extended && (request - limit).abs() > f64::EPSILON {
                let message = format!("the request and the limit of {resource} must be equal");
                checker.report_at(Problem::InvalidValue, &at, message);
            }
        } else if is_extended && limit.is_none() {
            let message = format!("{resource} needs a limit that is equal to its request");
            checker.report_at(Problem::InvalidValue, &at, message);
        }
    }
}

pub(super) fn number(quantity: &Value) -> Option<f64> {
    match quantity {
        Value::String(text) => quantity_value(text),
        other => other.as_f64(),
    }
}

pub(super) fn toleration(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let (key, operator) = (text(fields, "key"), text(fields, "operator"));
    if key.is_empty() && operator != "Exists" {
        let message = "a toleration without `key` must have `operator: Exists`";
        checker.report(Problem::InvalidValue, message);
    }
    if operator == "Exists" && !text(fields, "value").is_empty() {
        let message = "a toleration with `operator: Exists` has no `value`";
        checker.report_at(Problem::InvalidValue, "/value", message);
    }
    let effect = text(fields, "effect");
    if fields.get("tolerationSeconds").is_some_and(|one| !one.is_null()) && effect != "NoExecute" {
        let message = "`tolerationSeconds` needs `effect: NoExecute`";
        checker.report_at(Problem::InvalidValue, "/tolerationSeconds", message);
    }
}

/// In a volume, a resource needs the name of its container.
pub(super) fn downward_file(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let Some(Value::Object(resource)) = fields.get("resourceFieldRef") else { return };
    if text(resource, "containerName").is_empty() {
        let message = "a resource in a volume needs `containerName`";
        checker.report_at(Problem::MissingField, "/resourceFieldRef/containerName", message);
    }
}
