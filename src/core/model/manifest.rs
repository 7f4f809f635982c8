//! One Kubernetes object out of a repository, what it is called, and where it came from.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::diagnostic::Span;
use super::name::RepoPath;
use super::value_path::value_at;

/// Which object: what the Kubernetes API knows it by. `resource` is the plural, as OCM's
/// `resourceIdentifier` wants it. `group` and `namespace` are empty where there is none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct Identity {
    /// The API group, as in `apps`; empty for the core group.
    pub group: String,
    /// The plural of the kind in lower case, as in `deployments`.
    pub resource: String,
    /// Empty for a cluster-scoped object.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

/// Where a manifest stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Origin {
    /// The file, from the source's path.
    pub file: RepoPath,
    /// Counts from 1 within the file; the items of a `List` share their document's number.
    pub document: u32,
    /// The start of the object in the file.
    pub span: Span,
}

/// One object to be applied on a managed cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The object as it is sent, without nulls in its metadata.
    pub object: Value,
    /// `apiVersion`: `VERSION`, or `GROUP/VERSION`.
    pub api_version: String,
    /// `kind`, as in `Deployment`.
    pub kind: String,
    /// By what the API server knows the object.
    pub identity: Identity,
    /// Where it stands in the repository.
    pub origin: Origin,
}

impl Identity {
    /// That of a manifest whose kind has this plural. What it lacks is empty.
    pub fn of_manifest(manifest: &Value, resource: &str) -> Self {
        let text = |at| value_at(manifest, at).and_then(Value::as_str).unwrap_or_default();
        let group = text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: text("/metadata/namespace").to_owned(),
            name: text("/metadata/name").to_owned(),
        }
    }

    /// From a `resourceIdentifier`, an orphaning rule or a `resourceMeta`. What it lacks is empty.
    pub fn of_value(value: Option<&Value>) -> Self {
        let field = |name| value.and_then(|value| value.get(name)).and_then(Value::as_str);
        let text = |name| field(name).unwrap_or_default().to_owned();
        Self {
            group: text("group"),
            resource: text("resource"),
            namespace: text("namespace"),
            name: text("name"),
        }
    }

    /// As OCM's `resourceIdentifier` and orphaning rules have it; `group` and `namespace` are left
    /// out where they are empty.
    pub fn to_value(&self) -> Value {
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
