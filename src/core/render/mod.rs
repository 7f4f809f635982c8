//! `snapshot (Git tree) -> desired`: folders and sidecars into ManifestWorks.

pub mod desired;
pub mod layout;
pub mod manifests;
pub mod substitute;
pub mod work_folder;
