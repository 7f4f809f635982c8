//! Files that a command makes in a folder of the user. A file that is there is never changed.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use super::output::OutputError;
use gitwork_core::model::name::RepoPath;

/// Writes a file below `folder`, and makes the folders above it. Returns `false` and changes
/// nothing if the file is there already.
pub(super) fn create(folder: &Path, file: &RepoPath, text: &str) -> Result<bool, OutputError> {
    let path = folder.join(file.as_str());
    let failed = |source| OutputError::File { path: path.clone(), source };
    if let Some(above) = path.parent() {
        fs::create_dir_all(above).map_err(failed)?;
    }
    match OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map(|()| true).map_err(failed),
        Err(why) if why.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(why) => Err(failed(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_is_there_is_left_even_if_it_is_a_broken_link() {
        let folder = tempfile::tempdir().unwrap();
        let file = RepoPath::root().join("a").join("b.yaml");
        assert!(create(folder.path(), &file, "one").unwrap());
        assert!(!create(folder.path(), &file, "two").unwrap());
        assert_eq!(fs::read_to_string(folder.path().join("a/b.yaml")).unwrap(), "one");
        let link = folder.path().join("link.yaml");
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &link).unwrap();
        assert!(!create(folder.path(), &RepoPath::root().join("link.yaml"), "two").unwrap());
        assert!(!folder.path().join("elsewhere").exists());
    }
}
