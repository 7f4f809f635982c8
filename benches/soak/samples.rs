//! The programs' resources, from `/proc` and from the disk.

use std::fs;
use std::path::Path;

use crate::harness::resources::cpu_of;
use crate::report::{Folder, Usage};

/// The resources of one process; `None` if it has ended.
pub fn usage(process: u32, life: usize) -> Option<Usage> {
    let proc = Path::new("/proc").join(process.to_string());
    let status = fs::read_to_string(proc.join("status")).ok()?;
    let number = |name: &str| -> Option<u64> {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    let (mut handles, mut packs) = (0, 0);
    for entry in fs::read_dir(proc.join("fd")).ok()?.flatten() {
        handles += 1;
        let target = fs::read_link(entry.path()).unwrap_or_default();
        packs += u64::from(target.extension().is_some_and(|e| e == "pack" || e == "idx"));
    }
    Some(Usage {
        life,
        rss_kib: number("VmRSS:")?,
        anon_kib: number("RssAnon:")?,
        threads: number("Threads:")?,
        handles,
        packs,
        cpu_ms: u64::try_from(cpu_of(process)?.as_millis()).ok()?,
    })
}

/// The total size of all folders below `root` whose names have this ending.
pub fn folder(root: &Path, suffix: &str) -> Folder {
    let mut found = Folder::default();
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().ends_with(suffix) {
            add(&entry.path(), &mut found);
        }
    }
    found
}

fn add(path: &Path, found: &mut Folder) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let (path, Ok(facts)) = (entry.path(), entry.metadata()) else { continue };
        if facts.is_dir() {
            add(&path, found);
        } else {
            found.bytes += facts.len();
            found.files += 1;
            found.packs += u64::from(path.extension().is_some_and(|e| e == "pack"));
        }
    }
}
