//! The folder that is read if the arguments name no repository.

use std::path::{Path, PathBuf};

use gitwork_git::LocalRepository;

/// Folders of which the top of a source has at least one. A work can have such a name, too.
const FOLDERS: [&str; 2] = ["clusters", "groups"];

/// The top of a source, from `folder` upwards, as a path relative to `folder`: the folder itself if
/// it looks like one; else the nearest one with `gitwork.yaml`, and without such a file the nearest
/// one with `clusters/` or `groups/`. It looks no further than the top of the Git working tree, and
/// outside of one not at all: then it is `.`, as without such a folder.
pub fn top_of_source(folder: &Path) -> PathBuf {
    let in_tree = LocalRepository::discover(folder).map(|found| found.path().clone());
    let depth = in_tree.map_or(0, |path| Path::new(path.as_str()).components().count());
    let above = || (1..=depth).map(|levels| [".."].repeat(levels).iter().collect::<PathBuf>());
    let has_file = |up: &PathBuf| folder.join(up).join("gitwork.yaml").exists();
    let has_folder = |up: &PathBuf| FOLDERS.iter().any(|name| folder.join(up).join(name).is_dir());
    let here = PathBuf::from(".");
    if has_file(&here) || has_folder(&here) {
        return here;
    }
    above().find(has_file).or_else(|| above().find(has_folder)).unwrap_or(here)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

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
        let init = Command::new("git").args(["init", "-q"]).current_dir(&repository).status();
        assert!(init.unwrap().success());
        assert_eq!(top_of_source(&work), Path::new("../../.."));
        assert_eq!(top_of_source(&repository.join("fleet")), Path::new("."));
        assert_eq!(top_of_source(&repository), Path::new("."), "not above the repository");
        fs::write(repository.join("gitwork.yaml"), "").unwrap();
        fs::create_dir(work.with_file_name("groups")).unwrap();
        assert_eq!(top_of_source(&work), Path::new("../../../.."), "not a work named groups");
        assert_eq!(top_of_source(&repository.join("fleet")), Path::new("."));
        fs::create_dir(repository.join("docs")).unwrap();
        assert_eq!(top_of_source(&repository.join("docs")), Path::new(".."));
    }
}
