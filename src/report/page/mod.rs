//! The content of the status page. Pure.
//!
//! - [`page_model`]: all clusters and works, as a whole and as changes.
//! - [`work_detail`]: the details of one work.
//! - [`journal`]: the last changes, for browsers that are slightly behind.
//!
//! Everything here is sent to a browser. Names follow Kubernetes' rules. Text of clusters,
//! repositories and API servers is escaped, and stays text.

pub mod journal;
mod model_json;
mod numbered;
pub mod page_model;
mod pending_approval;
mod source_info;
pub mod work_detail;

pub use journal::Journal;
pub use page_model::{ModelChange, PageModel};
pub use pending_approval::PendingApproval;
pub use source_info::SourceInfo;
pub use work_detail::WorkDetail;
