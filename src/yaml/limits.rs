//! Every bound of this crate in one place, each with its reason. Input past a bound is a
//! diagnostic, never a crash and never a silent cut.

/// One file of a repository. Manifests larger than this would not fit into a ManifestWork.
pub const FILE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Nesting of one YAML document. CRD schemas are the deepest real input, at about 60.
pub const YAML_DEPTH_MAX: usize = 128;
/// Nodes of one YAML stream after aliases are expanded.
pub const YAML_NODES_MAX: usize = 1_000_000;
/// Documents of one YAML stream.
pub const YAML_DOCUMENTS_MAX: usize = 10_000;
