//! One Kubernetes object out of a repository, what it is called, and where it came from.

use std::fmt;

use serde::Serialize;

use super::diagnostic::Span;
use super::name::RepoPath;

/// Which object: what the Kubernetes API knows it by. `resource` is the plural, as OCM's
/// `resourceIdentifier` wants it. `group` and `namespace` are empty where there is none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Identity {
    pub group: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

/// Where a manifest stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Origin {
    pub file: RepoPath,
    /// Counts from 1 within the file; the items of a `List` share their document's number.
    pub document: u32,
    pub span: Span,
}

/// One object to be applied on a managed cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    pub object: serde_json::Value,
    pub api_version: String,
    pub kind: String,
    pub identity: Identity,
    pub origin: Origin,
}

impl Identity {
    /// As OCM's `resourceIdentifier` and orphaning rules have it; `group` and `namespace` are left
    /// out where they are empty.
    pub fn to_value(&self) -> serde_json::Value {
        let fields = [
            ("group", &self.group),
            ("resource", &self.resource),
            ("namespace", &self.namespace),
            ("name", &self.name),
        ];
        fields
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (name, value.as_str()))
            .collect()
    }
}

impl fmt::Display for Identity {
    /// As kubectl names it: `deployments.apps/web in namespace shop`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        write!(f, "/{}", self.name)?;
        if !self.namespace.is_empty() {
            write!(f, " in namespace {}", self.namespace)?;
        }
        Ok(())
    }
}
