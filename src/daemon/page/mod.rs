//! The status page: a read-only matrix of clusters and works. `core::report::page` makes its
//! content; this module feeds it from the engines and serves it.

mod http;
mod source_info;
mod state;

pub use source_info::source_info;
pub use state::Page;
