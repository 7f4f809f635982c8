//! Any text as a name, a path or an id. An accepted text prints as it reads, and a path stays
//! inside the repository.

use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::{ClusterName, ObjectId, RepoPath, SourceId, WorkName};

/// A second implementation of a DNS label or subdomain (RFC 1123).
fn is_dns(text: &str, dots: bool, limit: usize) -> bool {
    let part = |part: &str| {
        let bytes = part.as_bytes();
        let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        bytes.first().is_some_and(plain)
            && bytes.last().is_some_and(plain)
            && bytes.iter().all(|byte| plain(byte) || *byte == b'-')
    };
    text.len() <= limit && if dots { text.split('.').all(part) } else { part(text) }
}

pub fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let cluster = ClusterName::parse(text);
    assert_eq!(cluster.is_ok(), is_dns(text, false, 63), "{cluster:?}");
    assert_eq!(SourceId::parse(text).is_ok(), cluster.is_ok());
    let work = WorkName::parse(text);
    assert_eq!(work.is_ok(), is_dns(text, true, 188), "{work:?}");
    for error in cluster.as_ref().err().into_iter().chain(work.as_ref().err()) {
        assert!(!error.to_string().is_empty());
    }
    if let Some(id) = ObjectId::parse(text) {
        assert_eq!(id.to_string(), text.to_ascii_lowercase());
    }
    if let Some(digest) = Digest::parse(text) {
        assert_eq!(digest.to_string(), text.to_ascii_lowercase());
    }
    let Some(path) = RepoPath::parse(text) else {
        assert!(text.starts_with('/') || text.split('/').any(|part| part == ".."));
        return false;
    };
    assert!(path.parts().all(|part| !matches!(part, "" | "." | "..")), "{path:?}");
    assert_eq!(RepoPath::parse(path.as_str()).as_ref(), Some(&path));
    assert_eq!(RepoPath::parse(&path.to_string()).as_ref(), Some(&path));
    assert_eq!(RepoPath::root().join_path(&path), path);
    let joined = path.parts().fold(RepoPath::root(), |at, part| at.join(part));
    assert_eq!(joined, path);
    match path.parent() {
        Some(parent) => assert_eq!(parent.join(path.name()), path),
        None => assert!(path.is_root()),
    }
    let below = RepoPath::root().join("clusters").join_path(&path);
    assert!(path.is_root() || below.as_str().starts_with("clusters/"), "{below:?}");
    work.is_ok()
}
