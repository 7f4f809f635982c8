//! `gitwork render --out`: a folder that is rendered into again and again has the files of the
//! works that there are, and those that are not gitwork's.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Output;

use crate::cli::{clone, code, err, gitwork, write};
use crate::sync::fixture::config_map;

fn render(source: &Path, folder: &Path, flags: &[&str]) -> Output {
    let mut command = gitwork(&["render", "--out"]);
    command.arg(folder).args(flags).current_dir(source).output().unwrap()
}

#[track_caller]
fn renders(source: &Path, folder: &Path, flags: &[&str]) -> String {
    let output = render(source, folder, flags);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    err(&output)
}

/// The files of the folder but for the list.
fn files(folder: &Path) -> Vec<String> {
    let walk = ignore::WalkBuilder::new(folder).hidden(false).build();
    let paths = walk.map(Result::unwrap).filter(|entry| entry.path().is_file());
    let names = paths.map(|entry| entry.path().strip_prefix(folder).unwrap().display().to_string());
    let names: BTreeSet<String> = names.filter(|name| name != ".gitwork-rendered.json").collect();
    names.into_iter().collect()
}

#[test]
fn files_of_removed_works_are_removed_and_no_others() {
    let (source, folder) = (clone(), tempfile::tempdir().unwrap());
    let (source, folder) = (source.path(), folder.path());
    write(folder, "edge-2/notes.yaml", "mine\n");
    write(folder, "edge-3/db.yaml", "mine\n");
    renders(source, folder, &[]);
    let all = ["edge-1/web.yaml", "edge-2/db.yaml", "edge-2/notes.yaml", "edge-3/db.yaml"];
    assert_eq!(files(folder), all);
    fs::remove_dir_all(source.join("clusters/edge-2/db")).unwrap();
    let said = renders(source, folder, &[]);
    assert!(said.contains("edge-2/db.yaml, which is no longer rendered"), "{said}");
    assert_eq!(files(folder), [all[0], all[2], all[3]]);
    // A second time there is nothing to remove.
    let said = renders(source, folder, &[]);
    assert!(!said.contains("no longer rendered"), "{said}");
    // Another format is another file.
    renders(source, folder, &["-o", "json"]);
    assert_eq!(files(folder), ["edge-1/web.json", all[2], all[3]]);
}

#[test]
fn file_that_was_changed_since_is_left_and_named() {
    let (source, folder) = (clone(), tempfile::tempdir().unwrap());
    let (source, folder) = (source.path(), folder.path());
    renders(source, folder, &[]);
    write(folder, "edge-2/db.yaml", "changed\n");
    fs::remove_dir_all(source.join("clusters/edge-2/db")).unwrap();
    for _ in 0..2 {
        let said = renders(source, folder, &[]);
        assert!(said.contains("edge-2/db.yaml is no longer rendered, but was changed"), "{said}");
        assert_eq!(fs::read_to_string(folder.join("edge-2/db.yaml")).unwrap(), "changed\n");
    }
    fs::remove_file(folder.join("edge-2/db.yaml")).unwrap();
    assert!(!renders(source, folder, &[]).contains("no longer rendered"));
}

#[test]
fn works_that_are_not_selected_or_not_readable_stay() {
    let (source, folder) = (clone(), tempfile::tempdir().unwrap());
    let (source, folder) = (source.path(), folder.path());
    renders(source, folder, &[]);
    let both = ["edge-1/web.yaml", "edge-2/db.yaml"];
    renders(source, folder, &["--cluster", "edge-1"]);
    assert_eq!(files(folder), both);
    write(source, "clusters/edge-2/db/cm.yaml", "kind: [");
    assert_eq!(code(&render(source, folder, &[])), Some(1));
    assert_eq!(files(folder), both);
    write(source, "clusters/edge-2/cluster.yaml", "nonsense: true\n");
    fs::remove_dir_all(source.join("clusters/edge-2/db")).unwrap();
    assert_eq!(code(&render(source, folder, &[])), Some(1));
    assert_eq!(files(folder), both);
    // Files of another source are not this one's.
    let other = clone();
    fs::remove_dir_all(other.path().join("clusters/edge-2")).unwrap();
    renders(other.path(), folder, &["--source-id", "other"]);
    assert_eq!(files(folder), both);
    fs::remove_file(source.join("clusters/edge-2/cluster.yaml")).unwrap();
    renders(source, folder, &[]);
    // The other source has written this one last.
    assert_eq!(files(folder), [both[0]]);
}

#[test]
fn list_that_gitwork_did_not_write_is_an_error_before_anything_is_written() {
    let (source, outside) = (clone(), tempfile::tempdir().unwrap());
    write(outside.path(), "victim.yaml", &config_map("a", "b"));
    let folder = outside.path().join("out");
    let digest = "0".repeat(64);
    for (text, problem) in [
        ("[]".to_owned(), "is no list of rendered files"),
        (
            format!(
                "{{\"../victim.yaml\": {{\"source\": \"a\", \"folder\": \"a\", \"sha256\": \
                 \"{digest}\"}}}}"
            ),
            "is not CLUSTER/WORK.yaml",
        ),
    ] {
        write(&folder, ".gitwork-rendered.json", &text);
        let output = render(source.path(), &folder, &[]);
        assert_eq!(code(&output), Some(1), "{}", err(&output));
        assert!(err(&output).contains(problem), "{}", err(&output));
        assert_eq!(files(&folder), Vec::<String>::new());
        assert!(outside.path().join("victim.yaml").exists());
    }
}
