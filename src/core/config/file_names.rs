//! Names of the files and folders that gitwork reads in a repository.
//!
//! ```text
//! gitwork.yaml
//! approvals/<hash>
//! clusters/<cluster>/cluster.yaml
//! clusters/<cluster>/<work>/work.yaml, **/*.yaml, **/<file>.config.yaml
//! groups/<group>/group.yaml
//! groups/<group>/<work>/work.yaml, **/*.yaml, **/<file>.config.yaml
//! ```

/// Configuration of the source, at its path.
pub const SOURCE_FILE: &str = "gitwork.yaml";
/// Folder with one folder for each cluster.
pub const CLUSTERS: &str = "clusters";
/// Folder with approvals of held plans, named by their hash.
pub const APPROVALS: &str = "approvals";
/// Folder with one folder for each group of clusters.
pub const GROUPS: &str = "groups";
/// Configuration of a group, in the group's folder.
pub const GROUP_FILE: &str = "group.yaml";
/// Configuration of a cluster, in the cluster's folder.
pub const CLUSTER_FILE: &str = "cluster.yaml";
/// Configuration of a work, in the work folder.
pub const WORK_FILE: &str = "work.yaml";
