//! Services.

use std::net::IpAddr;

use serde_json::{Map, Value};

use crate::checker::{Checker, is_missing};
use crate::fields::{items, text};
use crate::finding::{Problem, shown};
use crate::formats::Format;

pub(super) fn spec(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let (of, address) = (text(fields, "type"), text(fields, "clusterIP"));
    let ports = items(fields, "ports");
    let is_headless = address == "None";
    if of == "ExternalName" {
        external_name(checker, text(fields, "externalName"));
        if !address.is_empty() {
            let message = "a Service of type ExternalName has no `clusterIP`";
            checker.report_at(Problem::InvalidValue, "/clusterIP", message);
        }
    } else if ports.is_empty() && !is_headless {
        checker.report_missing("ports", "a Service needs `ports`");
    }
    if !address.is_empty() && !is_headless && address.parse::<IpAddr>().is_err() {
        let message =
            format!("`clusterIP` is {:?}; it must be an IP address or None", shown(address));
        checker.report_at(Problem::InvalidValue, "/clusterIP", message);
    }
    if is_headless && matches!(of, "NodePort" | "LoadBalancer") {
        let message = format!("a Service of type {of} cannot have `clusterIP: None`");
        checker.report_at(Problem::InvalidValue, "/clusterIP", message);
    }
    let has_node_ports = matches!(of, "NodePort" | "LoadBalancer");
    for (index, port) in ports.iter().enumerate() {
        let at = format!("/ports/{index}");
        let name = port.get("name").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() && ports.len() > 1 {
            let message = "a Service with several ports needs a `name` for each";
            checker.report_at(Problem::MissingField, &format!("{at}/name"), message);
        }
        let node_port = port.get("nodePort").and_then(Value::as_i64).unwrap_or_default();
        if node_port != 0 && !has_node_ports {
            let message = "`nodePort` needs the type NodePort or LoadBalancer";
            checker.report_at(Problem::InvalidValue, &format!("{at}/nodePort"), message);
        }
    }
    let policy = !text(fields, "externalTrafficPolicy").is_empty();
    if policy && !has_node_ports && items(fields, "externalIPs").is_empty() {
        let message = "`externalTrafficPolicy` needs the type NodePort or LoadBalancer";
        checker.report_at(Problem::InvalidValue, "/externalTrafficPolicy", message);
    }
    source_ranges(checker, fields);
    for name in ["loadBalancerClass", "allocateLoadBalancerNodePorts"] {
        if of != "LoadBalancer" && fields.get(name).is_some_and(|one| !one.is_null()) {
            let message = format!("`{name}` needs the type LoadBalancer");
            checker.report_at(Problem::InvalidValue, &format!("/{name}"), message);
        }
    }
}

/// A name may end with a dot.
fn external_name(checker: &mut Checker<'_>, name: &str) {
    let domain = name.strip_suffix('.').unwrap_or(name);
    if domain.is_empty() {
        let message = "a Service of type ExternalName needs `externalName`";
        checker.report_missing("externalName", message);
    } else if let Some(why) = Format::Subdomain.problem(domain) {
        let message = format!("`externalName` is {:?}, which {why}", shown(name));
        checker.report_at(Problem::InvalidValue, "/externalName", message);
    }
}

/// They belong to load balancers, and may have spaces around them.
fn source_ranges(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let name = "loadBalancerSourceRanges";
    if !is_missing(fields.get(name)) && text(fields, "type") != "LoadBalancer" {
        let message = format!("`{name}` needs the type LoadBalancer");
        checker.report_at(Problem::InvalidValue, &format!("/{name}"), message);
    }
    for (index, range) in items(fields, name).iter().enumerate() {
        let Some(range) = range.as_str() else { continue };
        if let Some(why) = Format::Cidr.problem(range.trim()) {
            let message = format!("`{name}` has {:?}, which {why}", shown(range));
            checker.report_at(Problem::InvalidValue, &format!("/{name}/{index}"), message);
        }
    }
}

pub(super) fn ingress_path(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let (of, path) = (text(fields, "pathType"), text(fields, "path"));
    if matches!(of, "Exact" | "Prefix") {
        if path.is_empty() {
            checker.report_missing("path", format!("a path of type {of} needs `path`"));
        }
        if ["//", "/./", "/../", "%2f", "%2F"].iter().any(|part| path.contains(part)) {
            let message = "the path must not have `//`, `/./`, `/../` or `%2f`";
            checker.report_at(Problem::InvalidValue, "/path", message);
        }
    }
}

/// Blocks of addresses: one of each IP family.
pub(super) fn cidrs(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let texts = items(fields, "cidrs").iter().filter_map(Value::as_str);
    let (v6, v4): (Vec<&str>, Vec<&str>) = texts.partition(|text| text.contains(':'));
    if v4.len() > 1 || v6.len() > 1 {
        let message = "`cidrs` has at most one block of each IP family";
        checker.report_at(Problem::InvalidValue, "/cidrs", message);
    }
}

/// Addresses of the type of an EndpointSlice.
pub(super) fn slice(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let of = text(fields, "addressType");
    for (index, endpoint) in items(fields, "endpoints").iter().enumerate() {
        let addresses = endpoint.get("addresses").and_then(Value::as_array);
        for (at, address) in addresses.into_iter().flatten().enumerate() {
            let Some(address) = address.as_str() else { continue };
            let parsed = address.parse::<IpAddr>();
            let is_good = match of {
                "IPv4" => parsed.is_ok_and(|ip| ip.is_ipv4()),
                "IPv6" => parsed.is_ok_and(|ip| ip.is_ipv6()),
                "FQDN" => Format::Subdomain.problem(address).is_none(),
                _ => true,
            };
            if !is_good {
                let message = format!("{:?} is no address of the type {of}", shown(address));
                let below = format!("/endpoints/{index}/addresses/{at}");
                checker.report_at(Problem::InvalidValue, &below, message);
            }
        }
    }
}

/// A name that is there must not be empty, where no name means something else.
pub(super) fn not_empty(checker: &mut Checker<'_>, fields: &Map<String, Value>, name: &str) {
    if fields.get(name).is_some_and(|value| value == "") {
        let message = format!("`{name}` must not be empty; remove it");
        checker.report_at(Problem::InvalidValue, &format!("/{name}"), message);
    }
}

pub(super) fn policy_port(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    not_empty(checker, fields, "port");
    let (port, end) = (fields.get("port"), fields.get("endPort").and_then(Value::as_i64));
    let Some(end) = end else { return };
    let problem = match port {
        None | Some(Value::Null) => "needs `port`",
        Some(Value::String(_)) => "needs a number as `port`",
        Some(port) if port.as_i64().is_some_and(|port| port > end) => "must not be below `port`",
        Some(_) => return,
    };
    checker.report_at(Problem::InvalidValue, "/endPort", format!("`endPort` {problem}"));
}

pub(super) fn class_parameters(checker: &mut Checker<'_>, fields: &Map<String, Value>) {
    let has_namespace = !text(fields, "namespace").is_empty();
    match text(fields, "scope") {
        "Namespace" if !has_namespace => {
            checker.report_missing("namespace", "`scope: Namespace` needs `namespace`");
        }
        "" | "Cluster" if has_namespace => {
            let message = "`namespace` needs `scope: Namespace`";
            checker.report_at(Problem::InvalidValue, "/namespace", message);
        }
        _ => {}
    }
}
