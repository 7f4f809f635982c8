//! Any bytes as a YAML file: a document written as JSON reads back as the same document.

use gitwork::core::diagnostic::Scope;
use gitwork::core::name::RepoPath;
use gitwork::core::report::harmless_json;
use gitwork::core::yaml;
use gitwork::limits::FILE_BYTES_MAX;

pub fn check(bytes: &[u8]) -> bool {
    let file = RepoPath::root().join("a.yaml");
    let read = yaml::read(&file, bytes, &Scope::Source);
    for diagnostic in &read.diagnostics {
        assert!(!diagnostic.message.is_empty(), "{diagnostic:?}");
    }
    for document in &read.documents {
        // YAML takes some characters for line breaks that JSON does not; as escapes they are the same to both.
        let json = harmless_json(&serde_json::to_string(&document.value).unwrap()).into_bytes();
        // What aliases expand to may be too large for a file.
        if json.len() > FILE_BYTES_MAX {
            continue;
        }
        let again = yaml::read(&file, &json, &Scope::Source);
        let values: Vec<_> = again.documents.iter().map(|document| &document.value).collect();
        assert_eq!(values, [&document.value], "{:?}", again.diagnostics);
    }
    !read.documents.is_empty()
}
