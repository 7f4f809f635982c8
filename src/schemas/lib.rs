//! Checks objects as an API server does with `fieldValidation=Strict`: kinds, fields, types and
//! values, with the pointer of each problem.
//!
//! The built-in kinds are those of six Kubernetes minors, in `kubernetes.txt`, which
//! `tests/kubernetes-schemas` writes. `rules.txt` has what OpenAPI does not say: ranges, formats of
//! names, and which fields exclude each other. Custom kinds have the schemas of their CRDs.
//!
//! ```
//! use gitwork_schemas::{Cluster, Problem, check};
//!
//! let object = serde_json::json!({
//!     "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "dat": {"port": "80"},
//! });
//! let found = check(&object, &Cluster::default());
//! assert_eq!(found[0].problem, Problem::UnknownField);
//! assert_eq!(found[0].pointer, "/dat");
//! assert_eq!(found[0].message, "ConfigMap has no field `dat`; did you mean `data`?");
//! ```

mod checker;
mod crd;
mod fields;
mod finding;
mod formats;
mod kinds;
pub mod limits;
mod metadata;
mod names;
mod objects;
mod rules;
mod scalars;
mod semantics;
mod shape;
mod suggest;
mod table;
mod unknown_fields;
mod version;

pub use crd::CrdSchemas;
pub use finding::{Correction, Finding, Problem};
pub use kinds::{Cluster, is_built_in_group, plural_and_scope};
pub use objects::{check, check_custom};
pub use suggest::{certain, closest};
pub use version::KubernetesVersion;

#[cfg(test)]
mod tests;
