//! Text as a repository. Rendering again from the cache gives the same works, and so does another
//! renderer.
//!
//! A line `=== path` starts a file. A file whose text starts with `link:` is a link, one with
//! `submodule` a submodule.

use std::collections::BTreeMap;
use std::sync::Arc;

use gitwork_core::limits;
use gitwork_core::model::diagnostic::Diagnostic;
use gitwork_core::model::facts::Facts;
use gitwork_core::model::snapshot::Snapshot;
use gitwork_core::render::desired::Desired;
use gitwork_core::render::renderer::Renderer;

use super::memory_repository::{File, MemoryObjects, source};

const FILES_MAX: usize = 64;
/// Bytes that the diagnostics of an input may have, which has 16 KiB and `FILES_MAX` files.
const TEXT_BYTES_MAX: usize = 8 * 1024 * 1024;

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

fn text_bytes(one: &Diagnostic) -> usize {
    let texts = [&one.field, &one.hint, &one.snippet].into_iter().flatten();
    one.message.len() + texts.map(String::len).sum::<usize>()
}

/// The inputs of a plan.
fn same(one: &Desired, other: &Desired) {
    assert_eq!(one.diagnostics, other.diagnostics);
    assert!(one.works.keys().eq(other.works.keys()));
    for (key, work) in &one.works {
        assert_eq!(work.body, other.works[key].body, "{key}");
        assert_eq!(work.prune, other.works[key].prune, "{key}");
    }
}

pub fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let mut objects = MemoryObjects::default();
    let root = objects.add(&files(text));
    let before = files(text).into_iter().skip(1).collect();
    let before = objects.add(&before);
    let facts = files(text).remove("facts.json");
    let facts = facts.and_then(|file| match file {
        File::Bytes(bytes) => Facts::read(&bytes).ok().map(Arc::new),
        _ => None,
    });
    let new_renderer = || {
        let mut renderer = Renderer::new(source());
        renderer.set_facts(facts.clone());
        renderer
    };
    let of = |root| Snapshot { commit: None, root, objects: &objects };
    let snapshot = of(root);
    let mut renderer = new_renderer();
    let first = renderer.render(&snapshot).unwrap();
    let kept: usize = first.diagnostics.iter().map(text_bytes).sum();
    assert!(first.diagnostics.len() <= limits::DIAGNOSTICS_MAX && kept <= TEXT_BYTES_MAX);
    same(&first, &renderer.render(&snapshot).unwrap());
    same(&first, &new_renderer().render(&snapshot).unwrap());
    let mut later = new_renderer();
    later.render(&of(before)).unwrap();
    same(&first, &later.render(&snapshot).unwrap());
    for (key, work) in &first.works {
        assert!(work.body.spec.value().is_object(), "{key}");
        // A work may only be on the cluster of its folder, or on a member of a group.
        let at = format!("clusters/{}/", key.cluster);
        let path = work.path.as_str();
        assert!(path.starts_with(&at) || path.starts_with("groups/"), "{key} from {path}");
    }
    !first.works.is_empty()
}
