//! What the hub has, reduced to what planning needs.

mod agent;
#[cfg(test)]
mod tests;
mod work;
mod works;

pub use agent::{AGENT_FINALIZER, AgentView};
pub use work::{ManagedKeys, ObservedWork, UnreadableWork};
pub use works::{GoneWork, NormalizedWrite, Observed};
