//! Every bound of this crate, each with its reason.

use std::time::Duration;

/// References to Placements of one replica set that count. Each is looked up in every pass.
pub const PLACEMENT_REFS_MAX: usize = 50;
/// Clusters that a message names. The others are counted.
pub const NAMED_CLUSTERS_MAX: usize = 5;
/// Characters of the message of one failed write.
pub const FAILURE_CHARS_MAX: usize = 300;
/// Characters of the message of a condition. The CRD allows 32,768.
pub const MESSAGE_CHARS_MAX: usize = 4_000;
/// Labels of a replica set that its works get. Annotations of a work have 256 KiB in all.
pub const COPIED_LABELS_MAX: usize = 100;
/// An agent may report success for the new generation of a work before it has applied it, as it
/// looked at the old objects. OCM's agent looks again after 10 s. A success that began before the
/// work was written counts once it has lasted this much longer than the write.
pub const EARLY_SUCCESS: Duration = Duration::from_secs(30);
