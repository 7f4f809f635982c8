//! The origin of a source, and the id that it has by default.

use std::path::Path;

use gitwork_api::names::NameError;
use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::{RepoPath, SourceId};
use gitwork_core::model::source_origin::SourceOrigin;
use gitwork_git::{LocalRepository, canonical_path, canonical_repository};

/// The origin at a path of the repository with this URL.
pub fn origin_of_url(url: &str, path: &RepoPath) -> SourceOrigin {
    SourceOrigin::new(&canonical_repository(url, Path::new("/")), path)
}

/// The origin at a path below a folder. It is the repository of which the folder's repository is a
/// clone, so that all clones have one origin. A folder without a remote is its own origin.
pub fn origin_of_folder(folder: &Path, path: &RepoPath) -> SourceOrigin {
    let local = LocalRepository::discover(folder).ok();
    if let Some(local) = local
        && let Some(upstream) = local.upstream()
    {
        return SourceOrigin::new(&upstream, &local.path().join_path(path));
    }
    let folder = folder.canonicalize().or_else(|_| std::path::absolute(folder));
    let folder = folder.unwrap_or_default().join(path.as_str());
    SourceOrigin::new(&canonical_path(&folder), &RepoPath::root())
}

/// The id of a source without a configured one: the repository's name, and a hash of origin and
/// reference that keeps different sources apart.
pub fn default_id(origin: &SourceOrigin, reference: &str) -> Result<SourceId, NameError> {
    let repository = origin.as_str().split(" (path /").next().unwrap_or_default();
    let name = repository.rsplit(['/', ':']).next().unwrap_or_default();
    let name = name.strip_suffix(".git").unwrap_or(name).to_ascii_lowercase();
    let slug: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
    let hash = Digest::of(format!("{origin}\n{reference}").as_bytes()).to_string();
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
        let id = |url: &str, reference: &str, path: &RepoPath| {
            default_id(&origin_of_url(url, path), reference).unwrap().to_string()
        };
        let first = id("https://git.example/team/Fleet_Config.git", "main", &root);
        assert!(first.starts_with("fleet-config-"), "{first}");
        assert_eq!(first, id("git@git.example:team/Fleet_Config", "main", &root));
        assert_ne!(first, id("https://git.example/team/Fleet_Config.git", "next", &root));
        assert_ne!(first, id("https://git.example/team/Fleet_Config.git", "main", &root.join("a")));
        assert_ne!(first, id("https://git.example/other/Fleet_Config.git", "main", &root));
        assert!(id("file:///", "", &root).starts_with("source-"));
        assert!(id(&"ü".repeat(200), "", &root).len() <= 63);
    }

    #[test]
    fn path_of_a_folder_is_part_of_its_origin() {
        let below =
            |path: &str| origin_of_folder(Path::new("/there/is"), &RepoPath::parse(path).unwrap());
        assert_eq!(below("none").as_str(), "/there/is/none (path /)");
        assert_ne!(below("none"), below(""));
    }
}
