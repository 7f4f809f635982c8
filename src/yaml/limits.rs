//! Limits of this crate, each with its reason. Input beyond a limit is a problem; it is never cut.

/// Bytes of one file. Larger manifests do not fit into a ManifestWork.
pub const FILE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Levels of one document. CRD schemas are the deepest real input, with about 60.
pub const YAML_DEPTH_MAX: usize = 128;
/// Nodes of one file, with aliases expanded.
pub const YAML_NODES_MAX: usize = 1_000_000;
/// Documents of one file.
pub const YAML_DOCUMENTS_MAX: usize = 10_000;
/// Bytes that the documents of one file take in memory, with aliases expanded, as `compose` counts
/// them. A ManifestWork with 500 KiB of JSON takes less, even if it is nothing but mappings with
/// one field.
pub const YAML_MEMORY_MAX: usize = 96 * 1024 * 1024;
/// Problems of one file. The others are counted.
pub const YAML_PROBLEMS_MAX: usize = 100;
/// Characters of a key or tag that a message shows.
pub const YAML_MESSAGE_TEXT_MAX: usize = 200;
