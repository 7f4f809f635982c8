//! Every bound in one place, each with its reason. Input past a bound is a diagnostic, never a
//! crash and never a silent cut.

/// One file of a repository. Manifests larger than this would not fit into a ManifestWork.
pub const FILE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// All manifest files of one work folder, before rendering.
pub const WORK_INPUT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Files in one work folder.
pub const WORK_FILES_MAX: usize = 2_000;
/// Folder levels inside one work folder.
pub const WORK_FOLDER_DEPTH_MAX: usize = 16;
/// Nesting of one YAML document. CRD schemas are the deepest real input, at about 60.
pub const YAML_DEPTH_MAX: usize = 128;
/// Nodes of one YAML stream after aliases are expanded.
pub const YAML_NODES_MAX: usize = 1_000_000;
/// Documents of one YAML stream.
pub const YAML_DOCUMENTS_MAX: usize = 10_000;
/// Manifests of one work. OCM's agent keeps a condition list for each in the work's status.
pub const WORK_MANIFESTS_MAX: usize = 5_000;
/// Sum of the manifests' JSON bytes in one work: the default of the hub's admission webhook
/// (OCM work webhook, flag `--manifestLimit`).
pub const WORK_BYTES_MAX: usize = 500 * 1024;
/// Clusters of one source.
pub const CLUSTERS_MAX: usize = 20_000;
/// Works of one source.
pub const WORKS_MAX: usize = 200_000;
/// Length of a path inside a repository, in bytes.
pub const PATH_BYTES_MAX: usize = 4_096;
/// Diagnostics reported for one repository; past it, a last one says how many were left out.
pub const DIAGNOSTICS_MAX: usize = 10_000;
/// ManifestWork names: OCM's AppliedManifestWork name is a 64-digit hash, a dash and this name,
/// within 253 characters (OCM work agent).
pub const WORK_NAME_CHARS_MAX: usize = 188;
/// One JSONPath of a rule. A path with a long filter has some 200 bytes.
pub const JSONPATH_BYTES_MAX: usize = 4_096;
/// Expressions within expressions of one JSONPath; real ones have a key within a filter, which is two.
pub const JSONPATH_DEPTH_MAX: usize = 16;
/// Values that one JSONPath may touch in one object: `..` repeated multiplies them. An object at etcd's limit
/// of 1.5 MiB has at most some 100,000 values.
pub const JSONPATH_STEPS_MAX: usize = 1_000_000;
/// One CEL expression of a condition rule. Real ones have a few hundred bytes, and parsing takes more than
/// linear time.
pub const CEL_BYTES_MAX: usize = 4_096;
/// Brackets, calls and conditions within one another in a CEL expression. The parser takes some 150 KiB of
/// stack for a level in a build without optimisation, and a thread has 2 MiB.
pub const CEL_DEPTH_MAX: u16 = 8;
