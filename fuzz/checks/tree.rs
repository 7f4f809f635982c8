//! Any bytes as a tree object. Every entry is there once, and its name is not a path.

use gitwork_core::model::snapshot::{EntryKind, read_tree};

pub fn check(bytes: &[u8]) -> bool {
    let tree = match read_tree(bytes) {
        Ok(tree) => tree,
        Err(why) => {
            assert!(!why.to_string().is_empty());
            return false;
        }
    };
    let mut length = 0;
    for (name, entry) in &tree {
        assert!(!name.is_empty() && !name.contains(['/', '\0']), "{name:?}");
        assert!(!matches!(name.as_str(), "." | ".."), "{name:?}");
        // With the shortest mode, if the name is unchanged.
        length += b"100644 \0".len() + name.len() + entry.id.0.len();
    }
    let odd = tree.keys().any(|name| name.contains('\u{fffd}'));
    // Written again it reads the same.
    let mode = |kind| match kind {
        EntryKind::Tree => "40000",
        EntryKind::Blob => "100644",
        EntryKind::Symlink => "120000",
        EntryKind::Gitlink => "160000",
    };
    let mut again = Vec::with_capacity(length);
    for (name, entry) in &tree {
        again.extend(format!("{} {name}\0", mode(entry.kind)).into_bytes());
        again.extend(entry.id.0);
    }
    assert_eq!(read_tree(&again).as_ref(), Ok(&tree));
    if !odd {
        let entries = bytes.windows(2).filter(|pair| pair[0] == 0).count();
        assert!(tree.len() <= entries.max(1), "{} of {entries}", tree.len());
    }
    !tree.is_empty()
}
