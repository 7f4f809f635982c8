//! What both programs need to run: logs, bounded connections, heap settings.

pub mod connection;
pub mod heap;
pub mod limits;
pub mod logs;
