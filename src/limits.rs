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
/// One tree object of a repository: a folder of more than a million entries.
pub const TREE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Commits looked at to answer a question about history. At some 10,000 commits a second an answer takes
/// ten seconds at the most.
pub const HISTORY_COMMITS_MAX: usize = 100_000;
/// Files and folders of a local directory, as many as a source of `WORKS_MAX` works of a few files has.
pub const DIRECTORY_ENTRIES_MAX: usize = 1_000_000;
/// Folder levels of a local directory; deeper ones are loops by mounts, or an attack on the stack.
pub const DIRECTORY_DEPTH_MAX: usize = 64;
/// The head of an answer of a Git server over HTTP.
pub const HTTP_HEAD_BYTES_MAX: usize = 64 * 1024;
/// Redirects followed from a repository's URL; forges use one.
pub const HTTP_REDIRECTS_MAX: usize = 5;
/// A file with a password, a token, a key or certificates: a bundle of all public authorities has 250 KiB.
pub const CREDENTIAL_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// References a Git server may list.
pub const REFERENCES_MAX: usize = 500_000;
/// Packs of a mirror before it is written anew as one: every look-up asks each of them.
pub const MIRROR_PACKS_MAX: usize = 100;
