//! The paths of collections and objects on an API server.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use gitwork_agent_core::identity::WORK_GROUP;
use gitwork_agent_core::manifest::ResourceMapping;
use gitwork_api::work::AppliedManifestResourceMeta;

/// The path of a collection, or of an object in it.
pub fn path(mapping: &ResourceMapping, namespace: &str, name: Option<&str>) -> String {
    let mut path = group_version_path(&mapping.group, &mapping.version);
    if mapping.namespaced && !namespace.is_empty() {
        path.push_str("/namespaces/");
        path.push_str(&segment(namespace));
    }
    path.push('/');
    path.push_str(&segment(&mapping.resource));
    if let Some(name) = name {
        path.push('/');
        path.push_str(&segment(name));
    }
    path
}

/// The path of an API group and version.
pub fn group_version_path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("/api/{}", segment(version))
    } else {
        format!("/apis/{}/{}", segment(group), segment(version))
    }
}

/// The resource of a kind of OCM's work API.
pub fn work_mapping(resource: &str, namespaced: bool) -> ResourceMapping {
    ResourceMapping {
        group: WORK_GROUP.into(),
        version: "v1".into(),
        resource: resource.into(),
        namespaced,
    }
}

/// One segment of a path: whatever a manifest names, it stays one.
fn segment(text: &str) -> String {
    const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b':');
    const BUT_DOTS: &AsciiSet = &RESERVED.remove(b'.');
    let reserved = if matches!(text, "." | "..") { RESERVED } else { BUT_DOTS };
    utf8_percent_encode(text, reserved).to_string()
}

/// The resource of a recorded object, which is namespaced if it has a namespace.
pub fn recorded_mapping(recorded: &AppliedManifestResourceMeta) -> ResourceMapping {
    ResourceMapping {
        group: recorded.group.clone(),
        version: recorded.version.clone(),
        resource: recorded.resource.clone(),
        namespaced: !recorded.namespace.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Discovery must not ask for another path either, such as that of an object.
    #[test]
    fn api_versions_cannot_leave_their_segments() {
        for (api_version, expected) in [
            ("v1", "/api/v1"),
            ("apps/v1", "/apis/apps/v1"),
            ("a/b/c", "/apis/a/b%2Fc"),
            ("/v1", "/api/v1"),
            ("..", "/api/%2E%2E"),
            ("apps/v1?x=1", "/apis/apps/v1%3Fx%3D1"),
            ("v1/namespaces/kube-system/secrets", "/apis/v1/namespaces%2Fkube-system%2Fsecrets"),
        ] {
            let (group, version) = gitwork_agent_core::object::group_version(api_version);
            assert_eq!(group_version_path(group, version), expected);
        }
    }

    #[test]
    fn names_cannot_leave_their_segment() {
        let mapping = |group: &str, namespaced| ResourceMapping {
            group: group.into(),
            version: "v1".into(),
            resource: "widgets".into(),
            namespaced,
        };
        for (mapping, namespace, name, expected) in [
            (mapping("", true), "ns", Some("a"), "/api/v1/namespaces/ns/widgets/a"),
            (mapping("x.io", false), "ns", Some("system:a"), "/apis/x.io/v1/widgets/system:a"),
            (mapping("x.io", true), "ns", None, "/apis/x.io/v1/namespaces/ns/widgets"),
            (
                mapping("", true),
                "ns",
                Some("../secrets/x?y"),
                "/api/v1/namespaces/ns/widgets/..%2Fsecrets%2Fx%3Fy",
            ),
            (mapping("", true), "..", Some("a"), "/api/v1/namespaces/%2E%2E/widgets/a"),
        ] {
            assert_eq!(path(&mapping, namespace, name), expected);
        }
    }
}
