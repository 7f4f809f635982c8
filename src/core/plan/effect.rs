//! One write to one ManifestWork, with its precondition.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::digest::Digest;
use crate::model::work::{DeletionPolicy, WorkBody};

/// Facts about the labels and annotations on the hub that a rewrite of them depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetadataChange {
    /// Labels that gitwork once set and Git no longer has.
    pub remove_labels: BTreeSet<String>,
    /// As `remove_labels`, for annotations.
    pub remove_annotations: BTreeSet<String>,
    /// The object has no `metadata.labels`. A JSON Patch cannot add a key to it then.
    pub labels_absent: bool,
    /// As `labels_absent`, for annotations.
    pub annotations_absent: bool,
}

/// One write to one ManifestWork. It leaves no choice to the executor.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Create; fails if the name is taken.
    Create {
        /// The whole content that the hub has afterwards.
        body: Arc<WorkBody>,
    },
    /// Replace the spec and gitwork's labels and annotations, if the hub still has
    /// `resource_version`.
    Update {
        /// The whole content that the hub has afterwards.
        body: Arc<WorkBody>,
        /// `metadata.resourceVersion` of the observed work; the write fails if it has changed.
        resource_version: Box<str>,
        /// The labels and annotations to remove or to create the maps of.
        metadata: Box<MetadataChange>,
    },
    /// As `Update`, for a work of another owner that may be adopted.
    Adopt {
        /// The whole content that the hub has afterwards.
        body: Arc<WorkBody>,
        /// `metadata.resourceVersion` of the observed work; the write fails if it has changed.
        resource_version: Box<str>,
        /// The labels and annotations to remove or to create the maps of.
        metadata: Box<MetadataChange>,
    },
    /// Write only this deleteOption, ahead of a deletion.
    SetDeleteOption {
        /// The final deletion policy in Git.
        delete_option: DeletionPolicy,
        /// `metadata.resourceVersion` of the observed work; the write fails if it has changed.
        resource_version: Box<str>,
    },
    /// Delete, if the hub still has this object (`uid`) in this state (`resource_version`).
    Delete {
        /// `metadata.uid` of the observed work.
        uid: Arc<str>,
        /// `metadata.resourceVersion` of the observed work; the write fails if it has changed.
        resource_version: Box<str>,
    },
    /// Remove gitwork's labels and annotations, and leave the rest.
    Release {
        /// `metadata.resourceVersion` of the observed work; the write fails if it has changed.
        resource_version: Box<str>,
    },
}

impl Effect {
    /// The content that the hub has afterwards; `None` if the effect does not write a whole work.
    pub fn body(&self) -> Option<&Arc<WorkBody>> {
        match self {
            Self::Create { body } | Self::Update { body, .. } | Self::Adopt { body, .. } => {
                Some(body)
            }
            Self::SetDeleteOption { .. } | Self::Delete { .. } | Self::Release { .. } => None,
        }
    }

    /// Whether it writes content from Git, together with the commit that the content is from.
    pub fn writes_content(&self) -> bool {
        self.body().is_some()
    }

    /// Whether it deletes the work, prepares its deletion, or releases it.
    pub fn removes(&self) -> bool {
        !self.writes_content()
    }

    /// The digest of the content or deleteOption that it writes; `None` if it writes neither.
    pub(crate) fn written_digest(&self) -> Option<Digest> {
        match self {
            Self::SetDeleteOption { delete_option, .. } => {
                Some(Digest::of_json(&delete_option.to_value(None)))
            }
            _ => self.body().map(|body| body.digest),
        }
    }

    /// The `metadata.resourceVersion` that the hub must still have; `None` for a create.
    pub fn resource_version(&self) -> Option<&str> {
        match self {
            Self::Create { .. } => None,
            Self::Update { resource_version, .. }
            | Self::Adopt { resource_version, .. }
            | Self::SetDeleteOption { resource_version, .. }
            | Self::Delete { resource_version, .. }
            | Self::Release { resource_version } => Some(resource_version),
        }
    }
}
