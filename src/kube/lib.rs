//! What hub and agent share to talk to an API server: the client, bounded requests, failures and
//! their retry class, pages of lists, watch streams, Leases and leader election.
//!
//! A watch of some collection, once its request is open:
//!
//! ```
//! # async fn example(body: impl futures::Stream<Item = Result<bytes::Bytes, std::io::Error>>
//! #     + Send + 'static) {
//! use gitwork_kube::watch_stream::{WatchEnd, WatchEvent, WatchStream};
//! use serde_json::Value;
//! use tokio::time::{Duration, Instant};
//!
//! let deadline = Instant::now() + Duration::from_secs(130);
//! let mut watch = WatchStream::new(body, deadline, 8 << 20);
//! let end = loop {
//!     let next = watch.next(|event: WatchEvent<Value>| {
//!         println!("{event:?}");
//!         Ok(())
//!     });
//!     if let Err(end) = next.await {
//!         break end;
//!     }
//! };
//! let list_again = end == WatchEnd::Expired;
//! # }
//! ```

pub mod api_status;
pub mod client;
pub mod connection;
pub mod connection_error;
mod crypto;
pub mod leader_election;
pub mod lease;
pub mod list_items;
pub mod list_page;
pub mod message;
pub mod watch_stream;

pub use crypto::install_crypto;
