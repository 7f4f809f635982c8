//! Names that OCM gives: finalizers, the AppliedManifestWork of a ManifestWork, the hash of a hub.

use sha2::{Digest, Sha256};

/// The API group of OCM's work API.
pub const WORK_GROUP: &str = "work.open-cluster-management.io";
/// The `apiVersion` of ManifestWork and AppliedManifestWork.
pub const WORK_API_VERSION: &str = "work.open-cluster-management.io/v1";
/// The kind that owns applied objects.
pub const APPLIED_KIND: &str = "AppliedManifestWork";
/// On a ManifestWork: its objects are to be cleaned up before it goes.
pub const WORK_FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";
/// On an AppliedManifestWork, for the same.
pub const APPLIED_FINALIZER: &str =
    "cluster.open-cluster-management.io/applied-manifest-work-cleanup";
/// On an object applied with `ignoreFields`: the hash of what was applied.
pub const SPEC_HASH_ANNOTATION: &str = "open-cluster-management.io/config-spec-hash";
/// The field manager of every write, as of OCM's agent: server-side apply conflicts depend on it.
pub const FIELD_MANAGER: &str = "work-agent";

/// The hash that names a hub: SHA-256 of the server address of its kubeconfig, byte for byte.
pub fn hub_hash(server: &str) -> String {
    hex::encode(Sha256::digest(server.as_bytes()))
}

/// The address that counts for [`hub_hash`]: client-go drops query and fragment where there is a
/// path.
pub fn hub_host(server: &str) -> &str {
    let after_scheme = server.find("://").map_or(0, |start| start + 3);
    let rest = server.get(after_scheme..).unwrap_or_default();
    let Some(path) = rest.find('/') else { return server };
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    if end <= path + 1 {
        return server;
    }
    server.get(..after_scheme + end).unwrap_or(server)
}

/// The AppliedManifestWork of a ManifestWork.
pub fn applied_name(hub_hash: &str, work: &str) -> String {
    format!("{hub_hash}-{work}")
}

/// The ManifestWork of an AppliedManifestWork of this hub.
pub fn work_of_applied<'a>(hub_hash: &str, applied: &'a str) -> Option<&'a str> {
    applied.strip_prefix(hub_hash)?.strip_prefix('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hub_hash_is_of_the_literal_server_string() {
        assert!(hub_hash("https://127.0.0.1:6443").starts_with("6c5003f4dd16"));
        assert!(hub_hash("https://127.0.0.1:6443/").starts_with("a637a180fd25"));
        for (server, host) in [
            ("https://a:6443", "https://a:6443"),
            ("https://a:6443/", "https://a:6443/"),
            ("https://a/?x=1", "https://a/?x=1"),
            ("https://a/k8s/c1?x=1#y", "https://a/k8s/c1"),
            ("https://A/k8s/", "https://A/k8s/"),
            ("a:6443", "a:6443"),
        ] {
            assert_eq!(hub_host(server), host);
        }
    }

    #[test]
    fn applied_names() {
        assert_eq!(applied_name("ab", "web"), "ab-web");
        assert_eq!(work_of_applied("ab", "ab-web"), Some("web"));
        assert_eq!(work_of_applied("ab", "cd-web"), None);
    }
}
