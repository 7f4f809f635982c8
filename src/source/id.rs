//! The default id of a source.

use gitwork_api::names::NameError;
use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::{RepoPath, SourceId};

/// The id of a source without a configured one: the repository's name, and a hash of repository,
/// reference and path that keeps different sources apart.
pub fn default_id(
    repository: &str,
    reference: &str,
    path: &RepoPath,
) -> Result<SourceId, NameError> {
    let name = repository.trim_end_matches('/').trim_end_matches(".git");
    let name = name.rsplit(['/', ':', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    let slug: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
    let hash = Digest::of(format!("{repository}\n{reference}\n{path}").as_bytes()).to_string();
    let hash = hash.get(..8).unwrap_or_default();
    let slug = slug.trim_matches('-');
    SourceId::parse(&if slug.is_empty() {
        format!("source-{hash}")
    } else {
        format!("{slug}-{hash}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_ids_are_readable_and_keep_sources_apart() {
        let root = RepoPath::root();
        let id = |repository, reference, path: &RepoPath| {
            default_id(repository, reference, path).unwrap().to_string()
        };
        let first = id("https://git.example/team/Fleet_Config.git", "main", &root);
        assert!(first.starts_with("fleet-config-"), "{first}");
        assert_eq!(first, id("https://git.example/team/Fleet_Config.git", "main", &root));
        assert_ne!(first, id("https://git.example/team/Fleet_Config.git", "next", &root));
        assert_ne!(first, id("https://git.example/team/Fleet_Config.git", "main", &root.join("a")));
        assert!(id("///", "", &root).starts_with("source-"));
        assert!(id(&"ü".repeat(200), "", &root).len() <= 63);
    }
}
