//! What differs between two JSON values, field by field, as people think of Kubernetes objects:
//! list items are matched by their name or other key, texts line by line, and values of Secrets are
//! never shown.

mod change;
mod print;
mod secrets;
mod sequence;
#[cfg(test)]
mod tests;
mod walk;

pub use change::{ChangeKind, FieldChange, FieldDiff};
pub use sequence::unified;
pub use walk::diff;
