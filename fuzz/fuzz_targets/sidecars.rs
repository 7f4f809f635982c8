//! Any bytes as a configuration file: no panic, and what is refused says why. The first byte picks the kind.
#![no_main]

use gitwork::core::config::{ClusterFile, DaemonFile, FileKind, ManifestFile, SourceFile, WorkFile};
use gitwork::core::configfile::{self, Config};
use gitwork::core::diagnostic::{Diagnostic, Scope};
use gitwork::core::name::RepoPath;
use libfuzzer_sys::fuzz_target;

fn read<T: serde::de::DeserializeOwned + Default>(bytes: &[u8], kind: FileKind) {
    let file = RepoPath::root().join("work.yaml");
    let (config, diagnostics): (Option<Config<T>>, Vec<Diagnostic>) =
        configfile::read_one(&file, bytes, kind, &Scope::Source);
    for diagnostic in &diagnostics {
        assert!(!diagnostic.message.is_empty(), "{diagnostic:?}");
    }
    if let Some(config) = config {
        let _ = config.location("/a/0/b");
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    match FileKind::ALL[usize::from(*first) % FileKind::ALL.len()] {
        kind @ FileKind::Source => read::<SourceFile>(bytes, kind),
        kind @ FileKind::Cluster => read::<ClusterFile>(bytes, kind),
        kind @ FileKind::Work => read::<WorkFile>(bytes, kind),
        kind @ FileKind::Manifest => read::<ManifestFile>(bytes, kind),
        kind @ FileKind::Daemon => read::<DaemonFile>(bytes, kind),
    }
});
