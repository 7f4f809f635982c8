//! The static facts of a source.

use crate::forge::WebPages;
use gitwork_core::model::name::SourceId;

/// The static facts of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceInfo {
    /// The source id, unique in the daemon.
    pub id: SourceId,
    /// Its URL or directory, without credentials.
    pub repository: String,
    /// The ref, as in `branch main`; empty for a directory.
    pub reference: String,
    /// The arguments that identify it for `gitwork approve`.
    pub arguments: Vec<String>,
    /// Its pages on the forge.
    pub pages: Option<WebPages>,
}
