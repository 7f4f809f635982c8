//! Any bytes as a configuration file. Every rejection has a message. The first byte selects the
//! kind.

use gitwork_core::config::file;
use gitwork_core::config::file::Config;
use gitwork_core::config::{
    ClusterFile, DaemonFile, FileKind, GroupFile, ManifestFile, SourceFile, WorkFile,
};
use gitwork_core::model::diagnostic::{Diagnostic, Scope};
use gitwork_core::model::name::RepoPath;

fn read<T: serde::de::DeserializeOwned + Default>(bytes: &[u8], kind: FileKind) -> bool {
    let file = RepoPath::root().join("work.yaml");
    let (config, diagnostics): (Option<Config<T>>, Vec<Diagnostic>) =
        file::read_one(&file, bytes, kind, &Scope::Source);
    for diagnostic in &diagnostics {
        assert!(!diagnostic.message.is_empty(), "{diagnostic:?}");
    }
    if let Some(config) = &config {
        let _ = config.location("/a/0/b");
    }
    config.is_some()
}

pub fn check(bytes: &[u8]) -> bool {
    let Some((first, bytes)) = bytes.split_first() else { return false };
    match FileKind::ALL[usize::from(*first) % FileKind::ALL.len()] {
        kind @ FileKind::Source => read::<SourceFile>(bytes, kind),
        kind @ FileKind::Cluster => read::<ClusterFile>(bytes, kind),
        kind @ FileKind::Work => read::<WorkFile>(bytes, kind),
        kind @ FileKind::Manifest => read::<ManifestFile>(bytes, kind),
        kind @ FileKind::Daemon => read::<DaemonFile>(bytes, kind),
        kind @ FileKind::Group => read::<GroupFile>(bytes, kind),
    }
}
