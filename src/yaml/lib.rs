//! Reads YAML and JSON as kubectl does: sigs.k8s.io/yaml over go-yaml v2, then JSON. A cluster must
//! receive what kubectl would send. The test `as_kubectl` has a table of examples.
//!
//! The parser only emits events. This crate composes them, resolves scalars and merge keys, and
//! applies limits. It reads usual manifests itself, and leaves only the others to the parser.
//!
//! ```
//! let read = gitwork_yaml::read(b"kind: ConfigMap\ndata:\n  country: NO\n");
//! let document = &read.documents[0];
//! // kubectl reads a boolean here, as YAML 1.1 has it. The problem reports its location.
//! assert_eq!(document.value["data"]["country"], false);
//! assert_eq!(read.problems[0].span, Some(document.span_of("/data/country")));
//! assert_eq!(document.span_of("/data/country").line, 3);
//! ```

mod block;
mod compose;
mod document;
pub mod limits;
mod lines;
mod problem;
mod read;
mod scalar;
mod span;
mod write;

pub use document::Document;
pub use gitwork_api::escape::is_dangerous;
pub use lines::Lines;
pub use problem::{ProblemKind, YamlProblem};
pub use read::{ParsedYaml, read};
pub use span::Span;
pub use write::write;

#[cfg(test)]
mod block_tests;
#[cfg(test)]
mod tests;
