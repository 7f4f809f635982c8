//! Fixes of the files of a repository. As long as problems have fixes, these are applied in memory
//! and the files are rendered again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::changed_objects::ChangedObjects;
use super::desired::Desired;
use crate::model::diagnostic::{Diagnostic, Fix, TextFix};
use crate::model::name::{ObjectId, RepoPath};
use crate::model::snapshot::{ObjectError, Objects as _, Snapshot};
use crate::text::fix::{TextChange, fixed_text};

/// Rounds of fixes: the fix of one problem may show another one behind it.
const ROUNDS_MAX: usize = 10;

/// A file that fixes change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedFile {
    /// Its name after the fixes.
    pub path: RepoPath,
    /// Its text before.
    pub before: Arc<[u8]>,
    /// Its text after.
    pub after: Arc<[u8]>,
    /// The changes of its text.
    pub changes: Vec<TextChange>,
}

/// The files that fixes change, by their names before.
pub type FixedFiles = BTreeMap<RepoPath, FixedFile>;

/// Applies the fixes of the problems that `is_selected` selects. `render` renders a snapshot.
/// Returns the changed files, and the state that they give.
pub fn fixed_files(
    snapshot: &Snapshot<'_>,
    is_selected: impl Fn(&Diagnostic) -> bool,
    mut render: impl FnMut(&Snapshot<'_>) -> Result<Desired, ObjectError>,
) -> Result<(FixedFiles, Desired), ObjectError> {
    let mut desired = render(snapshot)?;
    let mut repository = FixedRepository {
        objects: ChangedObjects::new(snapshot.objects),
        root: snapshot.root,
        files: FixedFiles::new(),
    };
    for _ in 0..ROUNDS_MAX {
        let mut fixes: BTreeMap<&RepoPath, Vec<&Fix>> = BTreeMap::new();
        for found in desired.diagnostics.iter().filter(|one| is_selected(one)) {
            if let Some(fix) = &found.fix {
                fixes.entry(&found.location.file).or_default().push(fix);
            }
        }
        let mut is_changed = false;
        for (file, fixes) in fixes {
            is_changed |= repository.fix(file, &fixes)?;
        }
        if !is_changed {
            break;
        }
        let FixedRepository { objects, root, .. } = &repository;
        desired = render(&Snapshot { commit: None, root: *root, objects })?;
    }
    Ok((repository.files, desired))
}

/// The files with the fixes so far.
struct FixedRepository<'a> {
    objects: ChangedObjects<'a>,
    root: ObjectId,
    files: FixedFiles,
}

impl FixedRepository<'_> {
    /// Applies the fixes of one file. Returns whether it is changed by them.
    fn fix(&mut self, file: &RepoPath, fixes: &[&Fix]) -> Result<bool, ObjectError> {
        let Some(entry) = self.objects.file(self.root, file)? else { return Ok(false) };
        let limit = gitwork_yaml::limits::FILE_BYTES_MAX;
        let before = match self.objects.blob(entry.id, limit) {
            Ok(text) => text,
            Err(why) if why.is_of_object() => return Ok(false),
            Err(why) => return Err(why),
        };
        let (mut texts, mut name): (Vec<&TextFix>, Option<&String>) = (Vec::new(), None);
        for fix in fixes {
            match fix {
                Fix::Text(fix) => texts.push(fix),
                Fix::RenameFile(meant) => name = Some(meant),
            }
        }
        let fixed = fixed_text(&before, &texts);
        let path = match name {
            Some(name) => self.free_name(file, name)?,
            None => None,
        };
        if fixed.is_none() && path.is_none() {
            return Ok(false);
        }
        let path = path.unwrap_or_else(|| file.clone());
        let after: Arc<[u8]> = match &fixed {
            Some(fixed) => fixed.text.as_bytes().into(),
            None => before.clone(),
        };
        self.root = self.objects.set(self.root, file, None)?;
        self.root = self.objects.set(self.root, &path, Some(&after))?;
        let mut earlier = self.files.iter().filter(|(_, fixed)| fixed.path == *file);
        let known = earlier.next().map(|(name, _)| name.clone());
        let first = known.unwrap_or_else(|| file.clone());
        let all = self.files.entry(first).or_insert_with(|| FixedFile {
            path: path.clone(),
            before,
            after: after.clone(),
            changes: Vec::new(),
        });
        (all.path, all.after) = (path, after);
        all.changes.extend(fixed.into_iter().flat_map(|fixed| fixed.changes));
        Ok(true)
    }

    /// Another name for a file in its folder; `None` if something has it.
    fn free_name(&self, file: &RepoPath, name: &str) -> Result<Option<RepoPath>, ObjectError> {
        let Some(folder) = file.parent() else { return Ok(None) };
        let path = folder.join(name);
        let snapshot = Snapshot { commit: None, root: self.root, objects: &self.objects };
        Ok(if snapshot.entry(&path)?.is_some() { None } else { Some(path) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::name::SourceId;
    use crate::render::renderer::Renderer;
    use crate::render::test_repository::{TestFile, TestFiles, TestRepository, files};

    fn fix(files: &TestFiles) -> (FixedFiles, Desired) {
        let mut repository = TestRepository::default();
        let root = repository.add(files);
        let mut renderer = Renderer::new(SourceId::parse("fleet").unwrap());
        let snapshot = Snapshot { commit: None, root, objects: &repository };
        fixed_files(&snapshot, |_| true, |snapshot| renderer.render(snapshot)).unwrap()
    }

    fn text_of(fixed: &FixedFiles, path: &str) -> (String, String) {
        let fixed = &fixed[&RepoPath::parse(path).unwrap()];
        (fixed.path.to_string(), String::from_utf8(fixed.after.to_vec()).unwrap())
    }

    const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 7, namespace: x}\n";

    #[test]
    fn fixes_behind_other_fixes_are_found() {
        let repository = files(&[
            ("clusters/a/web/Work.yml", "lables: {team: 7} # seven\n"),
            ("clusters/a/web/x.yaml", MAP),
            ("gitwork.yml", "defaults: {prune: false}\n"),
        ]);
        let (fixed, desired) = fix(&repository);
        let (path, text) = text_of(&fixed, "clusters/a/web/Work.yml");
        assert_eq!(path, "clusters/a/web/work.yaml");
        assert_eq!(text, "labels: {team: \"7\"} # seven\n");
        let (_, text) = text_of(&fixed, "clusters/a/web/x.yaml");
        assert_eq!(text, MAP.replace("name: 7", "name: \"7\""));
        assert_eq!(text_of(&fixed, "gitwork.yml").0, "gitwork.yaml");
        assert_eq!(desired.diagnostics, []);
        let work = desired.works.values().next().unwrap();
        assert!(!work.prune, "gitwork.yaml is read under its name");
    }

    #[test]
    fn names_that_are_taken_and_links_stay() {
        let mut repository = files(&[
            ("clusters/a/web/x.txt", MAP),
            ("clusters/a/web/y.yaml", &MAP.replace('7', "why")),
            ("gitwork.yml", "defaults: {prune: false}\n"),
            ("gitwork.yaml", ""),
        ]);
        let link = TestFile::Link("x.txt".to_owned());
        repository.insert("clusters/a/web/x.yaml".to_owned(), link);
        let (fixed, desired) = fix(&repository);
        assert!(fixed.is_empty(), "{fixed:?}");
        assert!(desired.diagnostics.iter().any(|one| one.fix.is_some()));
    }
}
