//! The repository's layout: which folder is a cluster, which a work, which file a manifest or a
//! sidecar.
//!
//! ```text
//! gitwork.yaml
//! approvals/<hash>
//! clusters/<cluster>/cluster.yaml
//! clusters/<cluster>/<work>/work.yaml, **/*.yaml, **/<file>.config.yaml
//! groups/<group>/group.yaml
//! groups/<group>/<work>/work.yaml, **/*.yaml, **/<file>.config.yaml
//! ```

mod entries;
mod source;
mod work_files;

pub use source::{
    BlockedEntry, OwnerFolder, cluster, cluster_path, folder_key, group, group_of, group_path,
    is_of_group, top, work_folder_of,
};
pub use work_files::{WorkFolder, WorkFolderFile, work_folder};
