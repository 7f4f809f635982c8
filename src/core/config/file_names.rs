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

/// Whether a file is meant to be a configuration file of this name, but is not read as one: its
/// name has other capitals, or ends in `.yml`.
pub fn is_misnamed(name: &str, meant: &str) -> bool {
    let folded = name.to_lowercase();
    let folded = folded.strip_suffix(".yml").or_else(|| folded.strip_suffix(".yaml"));
    name != meant && folded.is_some() && folded == meant.strip_suffix(".yaml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misnamed_files_differ_in_capitals_and_ending() {
        for name in ["gitwork.yml", "Gitwork.yaml", "GITWORK.YML"] {
            assert!(is_misnamed(name, SOURCE_FILE), "{name}");
        }
        for name in ["gitwork.yaml", "gitwork.json", "gitworks.yaml", "gitwork", "work.yml"] {
            assert!(!is_misnamed(name, SOURCE_FILE), "{name}");
        }
    }
}
