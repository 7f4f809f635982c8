//! The folder that is read if the arguments name no repository.

use std::path::{Path, PathBuf};

/// Names of which the top folder of a source has at least one.
const MARKS: [&str; 3] = ["clusters", "groups", "gitwork.yaml"];

/// Folders above the current one that are looked at.
const DEPTH_MAX: usize = 32;

/// The nearest folder, from `folder` upwards, that looks like the top of a source, as a path
/// relative to `folder`. It looks no further than the top of the Git working tree, and outside of
/// one not at all: then it is `.`, as without such a folder.
pub fn top_of_source(folder: &Path) -> PathBuf {
    let here = PathBuf::from(".");
    let Ok(folder) = folder.canonicalize() else { return here };
    let all: Vec<&Path> = folder.ancestors().take(DEPTH_MAX).collect();
    let Some(top) = all.iter().position(|one| one.join(".git").exists()) else { return here };
    let is_source = |one: &&Path| MARKS.iter().any(|name| one.join(name).exists());
    let found = all[..=top].iter().position(is_source).unwrap_or(0);
    if found == 0 { here } else { [".."].repeat(found).iter().collect() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn source_is_found_from_any_folder_of_the_working_tree() {
        let outside = TempDir::new().unwrap();
        let repository = outside.path().join("repository");
        let work = repository.join("fleet/clusters/edge-1/web");
        fs::create_dir_all(&work).unwrap();
        fs::create_dir(outside.path().join("clusters")).unwrap();
        assert_eq!(top_of_source(&work), Path::new("."), "no Git repository");
        fs::create_dir(repository.join(".git")).unwrap();
        assert_eq!(top_of_source(&work), Path::new("../../.."));
        assert_eq!(top_of_source(&repository.join("fleet")), Path::new("."));
        assert_eq!(top_of_source(&repository), Path::new("."), "not above the repository");
        fs::write(repository.join("gitwork.yaml"), "").unwrap();
        fs::create_dir(repository.join("docs")).unwrap();
        assert_eq!(top_of_source(&repository.join("docs")), Path::new(".."));
    }
}
