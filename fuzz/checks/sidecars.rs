//! Any bytes as a configuration file: what is refused says why. The first byte picks the kind.

use gitwork::core::config::{
    ClusterFile, DaemonFile, FileKind, ManifestFile, SourceFile, WorkFile,
};
use gitwork::core::configfile::{self, Config};
use gitwork::core::diagnostic::{Diagnostic, Scope};
use gitwork::core::name::RepoPath;

fn read<T: serde::de::DeserializeOwned + Default>(bytes: &[u8], kind: FileKind) -> bool {
    let file = RepoPath::root().join("work.yaml");
    let (config, diagnostics): (Option<Config<T>>, Vec<Diagnostic>) =
        configfile::read_one(&file, bytes, kind, &Scope::Source);
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
    }
}
