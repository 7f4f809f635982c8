//! `snapshot (Git tree) -> desired`: folders and sidecars into ManifestWorks.

mod changed_objects;
pub(crate) mod config_file;
pub mod desired;
pub mod fixes;
pub(crate) mod groups;
pub mod layout;
pub(crate) mod manifests;
pub mod object_checks;
pub mod origin;
pub(crate) mod parsed_files;
pub(crate) mod relations;
pub mod renderer;
pub mod setting;
mod snippets;
pub(crate) mod substitute;
mod template;
#[cfg(test)]
pub(crate) mod test_repository;
pub(crate) mod values;
pub(crate) mod work_folder;

pub use work_folder::wire_size;
