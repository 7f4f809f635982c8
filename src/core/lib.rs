//! The pure core: `snapshot -> desired -> plan`, and the values that flow between.
//!
//! Nothing here does IO: no tokio, no kube client, no git2, no file system, no clock, no
//! environment.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::Arc;
//!
//! use gitwork_core::model::name::{ObjectId, SourceId};
//! use gitwork_core::model::snapshot::{Entry, EntryKind, ObjectError, Objects, Snapshot, Tree};
//! use gitwork_core::plan::observed::Observed;
//! use gitwork_core::plan::{PlanPolicy, LastKnownStates, plan};
//! use gitwork_core::render::renderer::Renderer;
//!
//! /// A repository with one file: the folders `clusters`, `edge-1` and `web` have the ids 0 to 2.
//! struct Memory;
//!
//! fn id(number: usize) -> ObjectId {
//!     ObjectId([number as u8; 20])
//! }
//!
//! impl Objects for Memory {
//!     fn tree(&self, wanted: ObjectId) -> Result<Arc<Tree>, ObjectError> {
//!         let names = ["clusters", "edge-1", "web", "cm.yaml"];
//!         let at = (0..4).find(|at| id(*at) == wanted).ok_or(ObjectError::Missing(wanted))?;
//!         let kind = if at == 3 { EntryKind::Blob } else { EntryKind::Tree };
//!         Ok(Arc::new(BTreeMap::from([(names[at].into(), Entry { kind, id: id(at + 1) })])))
//!     }
//!
//!     fn blob(&self, _: ObjectId, _: usize) -> Result<Arc<[u8]>, ObjectError> {
//!         let text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}}";
//!         Ok(Arc::from(text.as_bytes()))
//!     }
//! }
//!
//! let source = SourceId::parse("fleet").unwrap();
//! let snapshot = Snapshot { commit: None, root: id(0), objects: &Memory };
//! let desired = Renderer::new(source).render(&snapshot).unwrap();
//! let (hub, last_known) = (Observed::default(), LastKnownStates::new());
//! let plan = plan(&desired, &hub, &last_known, &PlanPolicy::default());
//! assert_eq!(plan.counts().to_string(), "1 create");
//! ```

// Its name in the repository of the tests, which other crates include.
#[cfg(test)]
extern crate self as gitwork_core;

pub mod config;
pub mod limits;
pub mod model;
pub mod plan;
pub mod render;
pub mod rollout;
pub mod signature;
pub mod text;
