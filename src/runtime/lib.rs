//! What the programs need to run: logs, probes, bounded connections, queues, heap settings, the
//! time of day.
//!
//! ```
//! use std::time::Duration;
//!
//! use gitwork_runtime::connection::{Bounded, ConnectionTimeout};
//! use tokio::net::TcpListener;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let bounded = Bounded::new(listener, 64, ConnectionTimeout::Idle(Duration::from_secs(30)));
//! let router: axum::Router = axum::Router::new();
//! let serving = axum::serve(bounded, router).with_graceful_shutdown(async {});
//! serving.await?;
//! # Ok(())
//! # }
//! ```

pub mod clock;
pub mod connection;
pub mod heap;
pub mod limits;
pub mod logs;
pub mod probes;
pub mod queue;
