//! The limits of this crate, each with its reason.

use std::time::Duration;

/// The manifests of one work, in bytes, unless the operator chooses another limit: as OCM's
/// webhook, and as gitwork's plans.
pub const MANIFESTS_BYTES_MAX: usize = 500 * 1024;
/// Levels of lists and objects in one manifest. Readers of JSON in Rust end at 127 levels by
/// default, and a work in a list has 6 more around its manifests. Deeper works would break the
/// lists of gitwork and of other clients. The deepest CRDs in use have about 50.
pub const MANIFEST_DEPTH_MAX: usize = 100;
/// Errors that one answer lists; it counts the others. A rejected work may have thousands.
pub const ERRORS_MAX: usize = 20;
/// The largest manifests that an error about the size names.
pub const LARGEST_MAX: usize = 3;
/// A name or value in a message, in characters: the longest name of an object.
pub const QUOTE_CHARS_MAX: usize = 253;
/// The longest time between the announcement of a certificate authority and its use, and between
/// its last use and its end. The API servers learn a changed webhook configuration within seconds.
pub const OVERLAP_MAX: Duration = Duration::from_secs(3600);
/// The longest time between two looks at the certificates.
pub const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(10);
/// How far the clocks of the API servers may be behind: certificates are valid from so long before.
pub const CLOCK_SKEW: Duration = Duration::from_secs(300);
