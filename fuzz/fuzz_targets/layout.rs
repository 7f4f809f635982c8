//! Text as a repository: no panic, and rendering again from what is kept gives the same works.
//!
//! A line `=== path` starts a file. A file whose text starts with `link:` is a link, one of `submodule` a submodule.
#![no_main]

#[path = "../../tests/it/memory.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod memory;

use std::collections::BTreeMap;

use gitwork::core::desired::Renderer;
use gitwork::core::snapshot::Snapshot;
use libfuzzer_sys::fuzz_target;

use crate::memory::{File, MemoryObjects, source};

const FILES_MAX: usize = 64;

fn files(text: &str) -> BTreeMap<String, File> {
    let mut files = BTreeMap::new();
    for part in text.split("=== ").take(FILES_MAX) {
        let (path, content) = part.split_once('\n').unwrap_or((part, ""));
        if path.split('/').any(str::is_empty) {
            continue;
        }
        let file = match content.strip_prefix("link:") {
            Some(target) => File::Link(target.trim_end().to_owned()),
            None if content.trim_end() == "submodule" => File::Submodule,
            None => File::from(content),
        };
        files.insert(path.to_owned(), file);
    }
    files
}

fuzz_target!(|text: &str| {
    let mut objects = MemoryObjects::default();
    let root = objects.add(&files(text));
    let snapshot = Snapshot { commit: None, root, objects: &objects };
    let mut renderer = Renderer::new(source());
    let first = renderer.render(&snapshot).unwrap();
    let second = renderer.render(&snapshot).unwrap();
    assert!(first.works.keys().eq(second.works.keys()));
    assert_eq!(first.diagnostics.len(), second.diagnostics.len());
    for (key, work) in &first.works {
        assert!(work.body.spec.value().is_object(), "{key}");
    }
});
