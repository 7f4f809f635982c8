//! The names that objects of built-in kinds may have.

use std::net::IpAddr;

use gitwork_api::names::check_subdomain;
use serde_json::Value;

use crate::formats::Format;
use crate::version::KubernetesVersion;

/// What is wrong with an object's name; reads after "the name `X` ".
pub(crate) fn problem(
    (group, kind): (&str, &str),
    name: &str,
    object: &Value,
    version: Option<KubernetesVersion>,
) -> Option<String> {
    let at_most = |most: usize| {
        let length = name.len();
        (length > most).then(|| format!("has {length} characters; {kind} allows {most}"))
    };
    match (group, kind) {
        ("rbac.authorization.k8s.io" | "certificates.k8s.io", _)
        | ("policy", "PodDisruptionBudget")
        | ("", "Event") => Format::PathSegment.problem(name),
        ("internal.apiserver.k8s.io", _) => None,
        ("", "Namespace") => Format::DnsLabel.problem(name),
        // From 1.34 on, a cluster may accept names that begin with a digit.
        ("", "Service") => {
            let newer = KubernetesVersion { major: 1, minor: 34 };
            let may_be_newer = version.is_none_or(|version| version >= newer);
            let format = if may_be_newer { Format::DnsLabel } else { Format::Dns1035 };
            format.problem(name)
        }
        ("apps", "StatefulSet") => Format::DnsLabel.problem(name),
        ("batch", "CronJob") => Format::Subdomain.problem(name).or_else(|| at_most(52)),
        ("batch", "Job") => Format::Subdomain
            .problem(name)
            .or_else(|| at_most(63))
            .or_else(|| indexed_job_problem(name, object)),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
            let wanted = text("/spec/names/plural").zip(text("/spec/group"));
            let wanted = wanted.map(|(plural, group)| format!("{plural}.{group}"));
            wanted.filter(|wanted| wanted != name).map(|wanted| {
                format!("must be PLURAL.GROUP of the spec, {}", crate::finding::shown(&wanted))
            })
        }
        ("apiregistration.k8s.io", "APIService") => {
            let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
            let group = text("/spec/group").unwrap_or_default();
            let wanted = text("/spec/version").map(|version| format!("{version}.{group}"));
            wanted.filter(|wanted| wanted != name).map(|wanted| {
                format!("must be VERSION.GROUP of the spec, {}", crate::finding::shown(&wanted))
            })
        }
        ("networking.k8s.io", "IPAddress") => {
            let is_canonical = |ip: IpAddr| ip.to_string() == name;
            let is_good = name.parse().is_ok_and(is_canonical);
            (!is_good).then(|| "must be an IP address in its canonical form".to_owned())
        }
        ("scheduling.k8s.io", "PriorityClass") => {
            let is_reserved = name.starts_with("system-")
                && !["system-node-critical", "system-cluster-critical"].contains(&name);
            let reserved = || is_reserved.then(|| "begins with system-, which is reserved".into());
            Format::Subdomain.problem(name).or_else(reserved)
        }
        _ => check_subdomain(name, 253).err().map(|why| why.to_string()),
    }
}

/// The pods of an indexed Job have its name and their index as host names.
fn indexed_job_problem(name: &str, object: &Value) -> Option<String> {
    if object.pointer("/spec/completionMode").and_then(Value::as_str) != Some("Indexed") {
        return None;
    }
    let completions = object.pointer("/spec/completions").and_then(Value::as_i64).unwrap_or(1);
    let last = format!("{name}-{}", completions.max(1) - 1);
    let problem = Format::DnsLabel.problem(&last);
    problem.map(|why| format!("makes pods with the host name {last:?}, which {why}"))
}
