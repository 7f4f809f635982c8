//! Parses `CLUSTER/WORK[/OBJECT]`. An object is `kind/namespace/name` or any shorter form that
//! matches exactly one object.

use gitwork_api::names::NameError;
use std::fmt;

use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::text::closest;

/// A work, or one object of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainTarget {
    /// The work.
    pub key: WorkKey,
    /// The object; `None` for the whole work.
    pub object: Option<ObjectQuery>,
}

/// Why an argument matches no single work or object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The argument has too few or too many parts, or an empty one. Holds the argument.
    #[error(
        "{0:?} is no CLUSTER/WORK or CLUSTER/WORK/OBJECT, as in edge-7/web or \
         edge-7/web/deployment/shop/web"
    )]
    Form(String),
    /// A part of the argument cannot be a name.
    #[error("{name:?} cannot be the name of a {what}: it {why}")]
    Name {
        /// What it should name: `cluster` or `ManifestWork`.
        what: &'static str,
        /// The part of the argument.
        name: String,
        /// Why Kubernetes forbids the name.
        why: NameError,
    },
    /// No object of the work matches.
    #[error("the work {key} has no object {query}{}", hint(.near))]
    NoObject {
        /// The work.
        key: WorkKey,
        /// The object as the user names it.
        query: String,
        /// Objects of the work with similar names; otherwise its first ones.
        near: Vec<String>,
    },
    /// Several objects of the work match.
    #[error("{query} fits {} objects of {key}: {}", .fitting.len(), .fitting.join(", "))]
    Ambiguous {
        /// The work.
        key: WorkKey,
        /// The object as the user names it.
        query: String,
        /// The first objects that match, each in its longest form.
        fitting: Vec<String>,
    },
}

impl OperationError for TargetError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Form(_) => "InvalidTarget",
            Self::Name { .. } => "InvalidName",
            Self::NoObject { .. } => "ObjectNotFound",
            Self::Ambiguous { .. } => "AmbiguousObject",
        }
    }
}

fn hint(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; it has {}", near.join(", ")) }
}

/// Names listed in an error.
const NAMES_MAX: usize = 10;

/// An object as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectQuery {
    parts: Vec<String>,
}

impl fmt::Display for ObjectQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts.join("/"))
    }
}

/// An object that a query may match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectCandidate<'a> {
    /// The kind, as in `Deployment`.
    pub kind: &'a str,
    /// The plural; empty if unknown.
    pub resource: &'a str,
    /// The namespace; empty for an object of the cluster.
    pub namespace: &'a str,
    /// `metadata.name`.
    pub name: &'a str,
}

impl fmt::Display for ObjectCandidate<'_> {
    /// Writes the longest form of the query that matches the object.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, "{}/{}{slash}{}", self.kind.to_ascii_lowercase(), self.namespace, self.name)
    }
}

impl ExplainTarget {
    /// Parses `CLUSTER/WORK[/OBJECT]`. The object has 1 to 3 parts.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let form = || TargetError::Form(text.to_owned());
        let mut parts = text.split('/');
        let (Some(cluster), Some(work)) = (parts.next(), parts.next()) else { return Err(form()) };
        let rest: Vec<String> = parts.map(str::to_owned).collect();
        if rest.len() > 3 || rest.iter().any(String::is_empty) {
            return Err(form());
        }
        let bad = |what, name: &str| {
            let name = name.to_owned();
            move |why| TargetError::Name { what, name, why }
        };
        let key = WorkKey {
            cluster: ClusterName::parse_place(cluster).map_err(bad("cluster", cluster))?,
            work: WorkName::parse(work).map_err(bad("ManifestWork", work))?,
        };
        Ok(Self { key, object: (!rest.is_empty()).then_some(ObjectQuery { parts: rest }) })
    }
}

impl ObjectQuery {
    /// Whether the query matches this object.
    pub fn fits(&self, object: &ObjectCandidate<'_>) -> bool {
        let is_kind = |text: &str| {
            text.eq_ignore_ascii_case(object.kind) || text.eq_ignore_ascii_case(object.resource)
        };
        match self.parts.as_slice() {
            [only] => only == object.name || is_kind(only),
            [first, name] => name == object.name && (is_kind(first) || first == object.namespace),
            [kind, namespace, name] => {
                is_kind(kind) && namespace == object.namespace && name == object.name
            }
            _ => false,
        }
    }

    /// The index of the only match. Errors list near or ambiguous names.
    pub fn find(
        &self,
        key: &WorkKey,
        objects: &[ObjectCandidate<'_>],
    ) -> Result<usize, TargetError> {
        let fitting: Vec<usize> = objects
            .iter()
            .enumerate()
            .filter(|(_, object)| self.fits(object))
            .map(|(index, _)| index)
            .collect();
        let names = |indices: &[usize]| {
            let names = indices.iter().filter_map(|index| objects.get(*index));
            names.take(NAMES_MAX).map(ToString::to_string).collect::<Vec<_>>()
        };
        let (key, query) = (key.clone(), self.to_string());
        match fitting.as_slice() {
            [only] => Ok(*only),
            [] => {
                let near = self.nearest(objects);
                let all: Vec<usize> = (0..objects.len()).collect();
                let near = if near.is_empty() { names(&all) } else { names(&near) };
                Err(TargetError::NoObject { key, query, near })
            }
            several => Err(TargetError::Ambiguous { key, query, fitting: names(several) }),
        }
    }

    /// Indices of the objects with the name most similar to the query's.
    fn nearest(&self, objects: &[ObjectCandidate<'_>]) -> Vec<usize> {
        let Some(asked) = self.parts.last() else { return Vec::new() };
        let near = closest(asked, objects.iter().map(|object| object.name));
        let same = |(_, object): &(usize, &ObjectCandidate<'_>)| Some(object.name) == near;
        objects.iter().enumerate().filter(same).map(|(index, _)| index).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read() {
        let target = ExplainTarget::parse("edge-7/web").unwrap();
        assert_eq!((target.key.to_string().as_str(), target.object), ("edge-7/web", None));
        let target = ExplainTarget::parse("edge-7/web/deployment/shop/web").unwrap();
        assert_eq!(target.object.unwrap().to_string(), "deployment/shop/web");
        for text in ["", "edge-7", "edge-7/", "/web", "edge-7/web/", "a/b/c/d/e/f", "Edge/web"] {
            assert!(ExplainTarget::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn any_query_that_matches_one_object_is_accepted() {
        let object =
            |kind, resource, namespace, name| ObjectCandidate { kind, resource, namespace, name };
        let objects = [
            object("Namespace", "namespaces", "", "shop"),
            object("Deployment", "deployments", "shop", "web"),
            object("Service", "services", "shop", "web"),
            object("Service", "services", "shop", "database"),
        ];
        let find = |text: &str| {
            let target = ExplainTarget::parse(&format!("edge/web/{text}")).unwrap();
            target.object.unwrap().find(&target.key, &objects).map_err(|error| error.to_string())
        };
        for (text, expected) in [
            ("shop", 0),
            ("namespace/shop", 0),
            ("Deployment/web", 1),
            ("deployments/shop/web", 1),
            ("database", 3),
            ("deployment", 1),
            ("shop/database", 3),
        ] {
            assert_eq!(find(text), Ok(expected), "{text}");
        }
        let reported = |text| find(text).unwrap_err();
        assert_eq!(
            reported("web"),
            "web fits 2 objects of edge/web: deployment/shop/web, service/shop/web"
        );
        assert_eq!(
            reported("service/databse"),
            "the work edge/web has no object service/databse; it has service/shop/database"
        );
        assert!(reported("elsewhere").ends_with(
            "it has namespace/shop, deployment/shop/web, service/shop/web, service/shop/database"
        ));
    }
}
