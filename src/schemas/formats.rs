//! Formats of texts, each as the API server checks it.

use std::net::{IpAddr, Ipv4Addr};

use gitwork_api::count::count;
use gitwork_api::names::{check_label, check_label_value, check_qualified_name, check_subdomain};

/// A format of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    DnsLabel,
    /// RFC 1035: begins with a letter.
    Dns1035,
    Subdomain,
    /// A subdomain, of which the first label may be `*`.
    Host,
    QualifiedName,
    LabelValue,
    /// The name of a port: at most 15 letters, digits and single `-`, with a letter.
    PortName,
    /// A key of a ConfigMap or a Secret.
    ConfigKey,
    /// The name of an environment variable: printable ASCII without `=`.
    EnvName,
    /// A resource of a container, as an environment variable or a file.
    ResourceField,
    /// What a LimitRange is for.
    LimitType,
    Ip,
    Cidr,
    /// `/a/b`.
    AbsolutePath,
    /// `a/b` without `..`.
    RelativePath,
    /// A path without `:`.
    MountPath,
    /// A resource such as `cpu` or `example.com/gpu`.
    ResourceName,
    /// A resource that containers use.
    ContainerResource,
    /// A resource that a LimitRange may limit.
    LimitedResource,
    /// What a ResourceQuota may count.
    QuotaResource,
    /// `kubernetes`, or a name with a domain.
    Finalizer,
    /// The fields of a cron schedule.
    Cron,
    /// Not negative.
    Quantity,
    TimeZone,
    /// A path segment: no `/`, no `%`.
    PathSegment,
    /// `http://` or `https://`, with a host.
    Url,
    /// A header of HTTP.
    HeaderName,
    /// A name in a programming language.
    Identifier,
    /// `25%`. A number in its place is no text.
    Percent,
    /// `example.com/name`.
    DomainPath,
    /// A subdomain in any case.
    DriverName,
    /// `net.ipv4.ip_forward` or `net/ipv4/ip_forward`.
    Sysctl,
    /// What a pod can tell its containers of itself.
    FieldPath,
    /// The name of an iSCSI target.
    Iqn,
    /// A DNS label (RFC 1035) in any case.
    CrdKind,
    /// `.spec.replicas`.
    JsonPath,
    /// A subdomain of three labels.
    WebhookName,
    /// A quantity above zero.
    Positive,
}

impl Format {
    /// The format of a name in `rules.txt`.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "dns-label" => Self::DnsLabel,
            "dns-1035" => Self::Dns1035,
            "subdomain" => Self::Subdomain,
            "host" => Self::Host,
            "qualified-name" => Self::QualifiedName,
            "label-value" => Self::LabelValue,
            "port-name" => Self::PortName,
            "config-key" => Self::ConfigKey,
            "env-name" => Self::EnvName,
            "resource-field" => Self::ResourceField,
            "limit-type" => Self::LimitType,
            "ip" => Self::Ip,
            "cidr" => Self::Cidr,
            "absolute-path" => Self::AbsolutePath,
            "relative-path" => Self::RelativePath,
            "mount-path" => Self::MountPath,
            "resource-name" => Self::ResourceName,
            "container-resource" => Self::ContainerResource,
            "limited-resource" => Self::LimitedResource,
            "quota-resource" => Self::QuotaResource,
            "finalizer" => Self::Finalizer,
            "cron" => Self::Cron,
            "quantity" => Self::Quantity,
            "time-zone" => Self::TimeZone,
            "path-segment" => Self::PathSegment,
            "url" => Self::Url,
            "header-name" => Self::HeaderName,
            "identifier" => Self::Identifier,
            "percent" => Self::Percent,
            "domain-path" => Self::DomainPath,
            "driver-name" => Self::DriverName,
            "sysctl" => Self::Sysctl,
            "field-path" => Self::FieldPath,
            "iqn" => Self::Iqn,
            "crd-kind" => Self::CrdKind,
            "json-path" => Self::JsonPath,
            "webhook-name" => Self::WebhookName,
            "positive" => Self::Positive,
            _ => return None,
        })
    }

    /// What is wrong with a text; reads after "the value `X` ".
    pub(crate) fn problem(self, text: &str) -> Option<String> {
        let must_be = |is_good: bool, what: &str| (!is_good).then(|| format!("must be {what}"));
        match self {
            Self::DnsLabel => check_label(text, 63).err().map(|why| why.to_string()),
            Self::Dns1035 => match check_label(text, 63) {
                Err(why) => Some(why.to_string()),
                Ok(()) => must_be(
                    text.starts_with(|c: char| c.is_ascii_lowercase()),
                    "a DNS label that begins with a letter",
                ),
            },
            Self::Subdomain => check_subdomain(text, 253).err().map(|why| why.to_string()),
            Self::Host => {
                let host = text.strip_prefix("*.").unwrap_or(text);
                check_subdomain(host, 253).err().map(|why| why.to_string())
            }
            Self::QualifiedName => check_qualified_name(text),
            Self::LabelValue => check_label_value(text).map(|_| {
                "must be at most 63 letters, digits, '-', '_' or '.', with a letter or digit at \
                 both ends"
                    .to_owned()
            }),
            Self::PortName => must_be(
                is_port_name(text),
                "at most 15 lower-case letters, digits and single '-', with at least one letter",
            ),
            Self::ConfigKey => must_be(
                is_config_key(text),
                "at most 253 letters, digits, '-', '_' or '.', and neither '.' nor '..'",
            ),
            Self::EnvName => must_be(
                !text.is_empty() && text.chars().all(|c| matches!(c, ' '..='~') && c != '='),
                "printable ASCII characters without '='",
            ),
            Self::Ip => must_be(is_ip(text), "an IP address"),
            Self::Cidr => must_be(is_cidr(text), "a CIDR, such as 10.0.0.0/8"),
            Self::AbsolutePath => must_be(text.starts_with('/'), "an absolute path"),
            Self::RelativePath => must_be(
                !text.starts_with('/') && text.split('/').all(|part| part != ".."),
                "a relative path without '..'",
            ),
            Self::MountPath => must_be(!text.contains(':'), "a path without ':'"),
            Self::ResourceName => must_be(
                check_qualified_name(text).is_none(),
                "the name of a resource, such as cpu or example.com/gpu",
            ),
            Self::Cron => cron_problem(text),
            Self::Quantity => must_be(!text.starts_with('-'), "a quantity that is not negative"),
            Self::TimeZone => must_be(
                text != "Local" && jiff_like_zone(text),
                "a time zone, such as Europe/Berlin",
            ),
            Self::PathSegment => must_be(
                text != "." && text != ".." && !text.contains(['/', '%']),
                "a name without '/' and '%'",
            ),
            Self::Url => must_be(is_https(text), "an https URL with a host"),
            other => other.rare_problem(text),
        }
    }

    /// As [`Self::problem`], for formats of few fields.
    fn rare_problem(self, text: &str) -> Option<String> {
        let must_be = |is_good: bool, what: &str| (!is_good).then(|| format!("must be {what}"));
        match self {
            Self::HeaderName => must_be(
                !text.is_empty()
                    && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_'),
                "the name of an HTTP header",
            ),
            Self::Identifier => must_be(is_identifier(text), "letters, digits and '_'"),
            Self::Percent => {
                let digits = text.strip_suffix('%').unwrap_or_default();
                let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
                must_be(is_number, "a whole number or a percentage, such as 25%")
            }
            Self::DomainPath => {
                let parts = text.split_once('/');
                let is_domain = |domain: &str| check_subdomain(domain, 253).is_ok();
                let is_good =
                    parts.is_some_and(|(domain, path)| is_domain(domain) && !path.is_empty());
                let is_plain = !text.contains(char::is_whitespace);
                must_be(is_good && is_plain, "a domain and a path, such as example.com/name")
            }
            Self::DriverName => {
                let lower = text.to_ascii_lowercase();
                check_subdomain(&lower, 63).err().map(|why| why.to_string())
            }
            Self::Sysctl => {
                let part = |part: &str| {
                    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
                    part.starts_with(edge)
                        && part.ends_with(edge)
                        && part.chars().all(|c| edge(c) || matches!(c, '-' | '_'))
                };
                must_be(text.split(['.', '/']).all(part), "the name of a sysctl")
            }
            Self::ResourceField => must_be(
                is_resource_field(text),
                "limits.NAME or requests.NAME of cpu, memory, ephemeral-storage or hugepages-SIZE",
            ),
            Self::LimitType => must_be(
                ["Container", "Pod", "PersistentVolumeClaim"].contains(&text)
                    || (text.contains('/') && check_qualified_name(text).is_none()),
                "Container, Pod, PersistentVolumeClaim or a name with a domain",
            ),
            Self::FieldPath => must_be(is_field_path(text), "a field such as metadata.name"),
            Self::Iqn => {
                let starts = ["iqn.", "eui.", "naa."].iter().any(|start| text.starts_with(start));
                must_be(starts && !text.contains(' '), "a name that begins with iqn., eui. or naa.")
            }
            Self::CrdKind => Self::Dns1035.problem(&text.to_ascii_lowercase()),
            Self::JsonPath => must_be(text.starts_with('.'), "a path that begins with '.'"),
            Self::WebhookName => must_be(
                check_subdomain(text, 253).is_ok() && text.split('.').count() > 2,
                "a domain with at least three labels",
            ),
            other => other.resource_problem(text),
        }
    }

    /// As [`Self::problem`], for names of resources and finalizers.
    fn resource_problem(self, text: &str) -> Option<String> {
        let must_be = |is_good: bool, what: &str| (!is_good).then(|| format!("must be {what}"));
        match self {
            Self::ContainerResource => must_be(
                is_resource(text, CONTAINER_RESOURCES),
                "cpu, memory, ephemeral-storage, hugepages-SIZE or a name with a domain",
            ),
            Self::LimitedResource => must_be(
                text == "storage" || is_resource(text, CONTAINER_RESOURCES),
                "cpu, memory, ephemeral-storage, storage, hugepages-SIZE or a name with a domain",
            ),
            Self::QuotaResource => must_be(
                is_resource(text, QUOTA_RESOURCES),
                "a resource that quotas know, such as requests.cpu, pods or \
                 count/deployments.apps",
            ),
            Self::Finalizer => check_qualified_name(text).or_else(|| {
                let is_good = text.contains('/') || STANDARD_FINALIZERS.contains(&text);
                (!is_good).then(|| "needs a prefix, as in example.com/NAME".to_owned())
            }),
            _ => None,
        }
    }
}

/// Finalizers that have no domain.
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];

const CONTAINER_RESOURCES: &[&str] = &["cpu", "memory", "ephemeral-storage"];

const QUOTA_RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "services",
    "services.nodeports",
    "services.loadbalancers",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
];

/// Whether a text is one of these resources, huge pages, or a name with a domain.
fn is_resource(text: &str, known: &[&str]) -> bool {
    let is_plain = known.contains(&text)
        || text.starts_with("hugepages-")
        || text.starts_with("requests.hugepages-");
    (is_plain || text.contains('/')) && check_qualified_name(text).is_none()
}

/// Whether a pod can tell a field of itself, as an environment variable or a file.
fn is_field_path(text: &str) -> bool {
    const FIELDS: &[&str] = &[
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.labels",
        "metadata.annotations",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    let with_key = ["metadata.labels['", "metadata.annotations['"];
    FIELDS.contains(&text)
        || with_key.iter().any(|start| text.starts_with(start) && text.ends_with("']"))
}

/// Whether a pod can pass on a resource of a container.
fn is_resource_field(text: &str) -> bool {
    text.strip_prefix("limits.").or_else(|| text.strip_prefix("requests.")).is_some_and(|name| {
        ["cpu", "memory", "ephemeral-storage"].contains(&name) || name.starts_with("hugepages-")
    })
}

fn is_port_name(text: &str) -> bool {
    (1..=15).contains(&text.len())
        && text.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-'))
        && text.chars().any(|c| c.is_ascii_lowercase())
        && !text.contains("--")
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn is_config_key(text: &str) -> bool {
    (1..=253).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && text != "."
        && !text.starts_with("..")
}

/// Go's parser accepts what Rust's does, and leading zeros besides, which Kubernetes refuses in new
/// fields and accepts in old ones.
fn is_ip(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || is_ip_with_zeros(text)
}

fn is_ip_with_zeros(text: &str) -> bool {
    let part = |part: &str| {
        let digits = part.trim_start_matches('0');
        let is_number = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        is_number && (digits.is_empty() || digits.parse::<u8>().is_ok())
    };
    text.split('.').count() == 4 && text.split('.').all(part)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => Ipv4Addr::BITS,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) if is_ip_with_zeros(address) => Ipv4Addr::BITS,
        Err(_) => return false,
    };
    let is_number = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
    is_number && length.parse::<u32>().is_ok_and(|length| length <= most)
}

fn is_https(text: &str) -> bool {
    let host = text.strip_prefix("https://").unwrap_or_default();
    !host.is_empty() && !host.starts_with('/')
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The form of a name of the time zone database. Which zones it has depends on the server.
fn jiff_like_zone(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+'))
    };
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.split('/').all(part)
}

/// What is wrong with a cron schedule (robfig/cron's standard parser).
fn cron_problem(text: &str) -> Option<String> {
    if text.contains("TZ") {
        return Some("must not have a time zone; set `timeZone`".into());
    }
    if let Some(descriptor) = text.strip_prefix('@') {
        let known = ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"];
        let is_known = known.contains(&descriptor) || descriptor.starts_with("every ");
        return (!is_known).then(|| format!("has the unknown descriptor @{descriptor}"));
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != 5 {
        return Some(format!("has {}; a cron schedule has 5", count(fields.len(), "field")));
    }
    let bounds = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
    let names = [
        &[][..],
        &[],
        &[],
        &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
        &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    ];
    let bad = fields.iter().zip(bounds.iter().zip(names)).find(|(field, (bounds, names))| {
        !field.split(',').all(|part| is_cron_part(part, **bounds, names))
    });
    bad.map(|(field, _)| format!("has the invalid field {field:?}"))
}

fn is_cron_part(part: &str, (least, most): (u32, u32), names: &[&str]) -> bool {
    let (range, step) =
        part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
    if step.is_some_and(|step| !step.parse::<u32>().is_ok_and(|step| step > 0)) {
        return false;
    }
    if range == "*" || range == "?" {
        return true;
    }
    let number = |text: &str| -> Option<u32> {
        let named = names.iter().position(|name| text.eq_ignore_ascii_case(name));
        let named = named.and_then(|index| u32::try_from(index).ok()).map(|index| index + least);
        named.or_else(|| text.parse().ok()).filter(|n| (least..=most).contains(n))
    };
    match range.split_once('-') {
        Some((from, to)) => number(from).zip(number(to)).is_some_and(|(from, to)| from <= to),
        None => number(range).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_and_bad_texts() {
        for (format, good, bad) in [
            (Format::PortName, &["http", "h2c-1"][..], &["", "HTTP", "80", "a--b", "-a"][..]),
            (Format::ConfigKey, &["a.b_C-1", ".hidden"], &["", "a/b", "..", "..a", "a b"]),
            (Format::Ip, &["10.0.0.1", "::1", "010.0.0.1"], &["", "10.0.0", "10.0.0.256", "x"]),
            (Format::Cidr, &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33", "/8", "a/8"]),
            (
                Format::Cron,
                &["*/5 * * * *", "0 0 1 jan mon-fri", "@daily", "0,30 2-4 * * ?"],
                &["* * * *", "61 * * * *", "@nightly", "TZ=UTC * * * * *", "5-1 * * * *"],
            ),
            (Format::Host, &["a.b", "*.a.b"], &["*", "A.b", "a.*.b"]),
            (Format::Dns1035, &["a-1"], &["1a", "a.b", "A"]),
            (
                Format::ResourceField,
                &["limits.cpu", "requests.hugepages-2Mi"],
                &["cpu", "limits.gpu", "limit.cpu"],
            ),
            (
                Format::LimitedResource,
                &["cpu", "storage", "hugepages-2Mi", "example.com/gpu"],
                &["cpus", "pods"],
            ),
            (
                Format::QuotaResource,
                &["requests.cpu", "pods", "count/jobs.batch", "requests.nvidia.com/gpu"],
                &["request.cpu", "pod", "storage"],
            ),
            (Format::Finalizer, &["kubernetes", "example.com/a"], &["a", "a b/c"]),
            (Format::TimeZone, &["UTC", "Europe/Berlin", "Etc/GMT+3"], &["Local", "-1", "a b"]),
            (Format::LimitType, &["Pod", "openshift.io/Image"], &["pod", "Image", "a b/c"]),
            (Format::JsonPath, &[".", ".status.a[?(@.type == 'Ready')]"], &["status", "$.a"]),
            (Format::RelativePath, &["a/b", "..a"], &["/a", "a/../b"]),
        ] {
            for text in good {
                assert_eq!(format.problem(text), None, "{format:?} {text:?}");
            }
            for text in bad {
                assert!(format.problem(text).is_some(), "{format:?} {text:?}");
            }
        }
    }
}
