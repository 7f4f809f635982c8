//! The sync daemon: one engine for each source keeps the hub in step with Git.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use gitwork_daemon::engine::{Engine, EngineOptions};
//! use gitwork_daemon::metrics::Metrics;
//! use gitwork_hub::{KubeHub, client};
//! use gitwork_source::Source;
//! use tokio::sync::{mpsc, watch};
//!
//! # async fn run(
//! #     source: Source,
//! #     options: EngineOptions,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let hub = KubeHub::connect(client::connector(None, None)).await?;
//! let engine = Engine::new(Arc::new(hub), source, options, Arc::new(Metrics::default()));
//! // A hint makes it fetch at once.
//! let (_hint, hints) = mpsc::channel(1);
//! let (_stop, stopped) = watch::channel(false);
//! engine.run(hints, stopped).await?;
//! # Ok(())
//! # }
//! ```

mod clock;
pub mod engine;
pub mod facts_feed;
pub mod http;
pub mod leader_elector;
pub mod leader_guarded_hub;
pub mod leadership;
pub mod limits;
pub mod metrics;
pub mod open_statuses;
pub mod page;
pub mod reader;
pub mod reporters;
pub mod source_report;
pub mod status_publisher;
pub mod transitions;
pub mod webhook;
