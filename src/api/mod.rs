//! The kinds of Open Cluster Management that gitwork reads and writes, and the CRDs generated from them.
//!
//! The types are wire-compatible with OCM's: `tests/wire` has every field of OCM's CRDs, and a test compares.
//! They read what a newer OCM wrote: a field that is not known here is kept in `unknown_fields` and written
//! back, a value of an enumeration that is not known here is its `Other`, and a missing `spec` is an empty
//! one. So one odd object never makes a whole list unreadable, and no write drops what somebody else set.

pub mod crds;
mod schema;
pub mod work;

use std::collections::BTreeMap;

/// The fields of an object that a newer OCM has and this version does not know, by name.
pub type UnknownFields = BTreeMap<String, serde_json::Value>;
