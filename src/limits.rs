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
/// Brackets, calls and conditions within one another in a CEL expression. A level takes the parser some
/// 150 KiB of stack without optimisation and under 20 KiB with it, and a thread has 2 MiB.
pub const CEL_DEPTH_MAX: u16 = if cfg!(debug_assertions) { 8 } else { 32 };
/// Fields that a diff of one object shows. A person reads no more; past it, they are counted.
pub const DIFF_FIELDS_MAX: usize = 200;
/// Lines that a diff of one text shows, context included.
pub const DIFF_LINES_MAX: usize = 200;
/// Bytes of one value that a diff keeps.
pub const DIFF_VALUE_BYTES_MAX: usize = 2_048;
/// Items (or lines) that differ in one list (or text), both sides together, of which the shortest edit is
/// searched for: it takes up to the square of this many steps.
pub const DIFF_ITEMS_MAX: usize = 4_000;
/// Characters of a pull-request comment: GitHub takes 65,536, and the caller may add some words.
pub const COMMENT_CHARS_MAX: usize = 60_000;
