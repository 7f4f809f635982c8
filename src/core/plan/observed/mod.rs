//! What the hub has, reduced to what planning needs.

mod agent;
mod content;
mod created;
mod object;
mod set_status;
#[cfg(test)]
mod tests;
mod work;
mod works;

pub use agent::{AGENT_FINALIZER, AgentView};
pub use content::WorkContent;
pub use object::ListedObject;
pub use work::{LABEL_REPLICA_SET, ManagedKeys, ObservedWork, UnreadableWork};
pub use works::{DeliveredWork, GoneWork, ListRecording, NormalizedWrite, Observed};
