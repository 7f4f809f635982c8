//! Compares two desired states. Needs neither a hub nor credentials.
//!
//! Works with equal digests are skipped, so the cost grows with the size of the change only.
//!
//! - `difference`: the result, which is also the JSON output.
//! - `compare`: the comparison.
//! - `guards`: what the daemon's guards would hold.
//! - `print`, `markdown`: the result for a terminal and for a pull request.

mod compare;
mod difference;
mod guards;
mod markdown;
mod print;

pub use difference::{
    ClusterReview, ObjectChange, ObjectDiff, ObjectName, RemovalOutcome, RemovedObject, Review,
    ReviewCounts, Size, WorkChange, WorkDiff, WorkReview,
};
pub use guards::{Signatures, WouldHold, would_hold};
pub use markdown::markdown;
pub use print::text;
