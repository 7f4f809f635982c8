//! Expressions in rules of ManifestWorks: client-go's JSONPath, CEL and jq.
//!
//! The agent evaluates them; validation checks them before a commit reaches a cluster. Both use the
//! same code.

pub mod cel;
pub mod jq;
pub mod jsonpath;
pub mod limits;
