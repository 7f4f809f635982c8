//! Kubernetes versions.

use std::fmt;

/// A minor version of Kubernetes, such as 1.31.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KubernetesVersion {
    /// 1.
    pub major: u16,
    /// 31 of 1.31.
    pub minor: u16,
}

impl KubernetesVersion {
    /// Reads a version as API servers and people write it: `1.31`, `v1.31.4`, `v1.31.4-eks-a1b2`,
    /// `1.31+`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (major, rest) = text.split_once('.')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (minor, end) = rest.split_at(digits);
        let is_version = end.is_empty() || end.starts_with(['.', '-', '+']);
        let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
        is_version.then_some(Self { major, minor })
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_servers_and_people_write_them() {
        for text in ["1.31", "v1.31", "v1.31.4", "v1.31.4-eks-a1b2", "1.31+", "1.31.4+k3s1"] {
            let version = KubernetesVersion::parse(text);
            assert_eq!(version, Some(KubernetesVersion { major: 1, minor: 31 }), "{text}");
        }
        for text in ["", "1", "v", "1.", "1.x", "x.31", "1.31x", "latest"] {
            assert_eq!(KubernetesVersion::parse(text), None, "{text}");
        }
    }
}
