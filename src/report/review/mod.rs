//! Compares two desired states. Needs neither a hub nor credentials.
//!
//! Works with equal digests are skipped, so the cost grows with the size of the change only.
//!
//! - `difference`: the result, which is also the JSON output.
//! - `moves`: objects that move from one work to another.
//! - `cascading`: what a cluster deletes together with a Namespace or a CustomResourceDefinition.
//! - `compare`: the comparison.
//! - `guards`: what the daemon's guards would hold.
//! - `words`: the changes in words.
//! - `print`, `markdown`: the result for a terminal and for a pull request.

mod cascading;
#[cfg(test)]
mod change_tests;
mod compare;
mod difference;
mod guards;
#[cfg(test)]
mod loss_tests;
mod markdown;
mod moves;
mod object_name;
mod print;
mod words;

pub use compare::problems_of_changes;
pub use difference::{
    AddedObject, ClusterReview, ObjectChange, ObjectDiff, RemovalOutcome, RemovedObject, Review,
    ReviewCounts, Size, WorkChange, WorkDiff, WorkReview,
};
pub use guards::{Signatures, WouldHold, would_hold};
pub use markdown::markdown;
pub use moves::{MoveForecast, MovedFrom};
pub use object_name::ObjectName;
pub use print::text;
