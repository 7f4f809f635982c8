//! A work folder and all below it: which files are manifests, and which sidecars.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::entries::{MANIFEST_ENDINGS, bad_object, gitlink, is_manifest, link, shortened};
use crate::config::file_names::WORK_FILE;
use crate::config::path_patterns::PathPatterns;
use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::diagnostic_sink::DiagnosticSink;
use crate::model::name::{ObjectId, RepoPath};
use crate::model::snapshot::{Entry, EntryKind, ObjectError, Objects, Tree};

/// Files by which other tools mark a folder as theirs to render.
const LATER: [(&str, &str); 4] = [
    ("kustomization.yaml", "kustomize"),
    ("kustomization.yml", "kustomize"),
    ("Kustomization", "kustomize"),
    ("Chart.yaml", "Helm"),
];

/// Entries that a link counts as: its blob is read.
const LINK_ENTRIES: usize = 20;

/// One file of a work folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkFolderFile {
    /// Its path, from the source's path.
    pub path: RepoPath,
    /// Its blob; that of the target for a symbolic link.
    pub id: ObjectId,
}

/// The files of one work folder that matter.
#[derive(Debug, Default)]
pub struct WorkFolder {
    /// `work.yaml`.
    pub work_file: Option<WorkFolderFile>,
    /// Sorted by path.
    pub manifests: Vec<WorkFolderFile>,
    /// The sidecars, each with the manifest file that it belongs to.
    pub sidecars: Vec<(WorkFolderFile, RepoPath)>,
    /// What is wrong with the files and folders themselves.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a work folder and all below it.
pub fn work_folder(
    at: &RepoPath,
    tree: ObjectId,
    objects: &dyn Objects,
    ignore: &PathPatterns,
    scope: &Scope,
) -> Result<WorkFolder, ObjectError> {
    let mut walk = FolderWalk {
        root: at,
        root_tree: tree,
        objects,
        ignore,
        scope,
        files: Vec::new(),
        problems: DiagnosticSink::new(limits::FILE_DIAGNOSTICS_MAX),
        trees: BTreeMap::new(),
        entries: 0,
    };
    walk.folder(at, tree, 1)?;
    let FolderWalk { mut files, problems, .. } = walk;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let mut folder = WorkFolder { diagnostics: problems.into_all(), ..WorkFolder::default() };
    if files.len() > limits::WORK_FILES_MAX {
        let message =
            format!("{} files in one work; the limit is {}", files.len(), limits::WORK_FILES_MAX);
        folder.diagnostics.push(Diagnostic::new(
            Code::TooManyFiles,
            Location::file(at),
            scope.clone(),
            message,
        ));
        return Ok(folder);
    }
    let work_file = at.join(WORK_FILE);
    for file in &files {
        if file.path == work_file {
            folder.work_file = Some(file.clone());
        } else if let Some(stem) = sidecar_stem(file.path.as_str()) {
            let named = |end: &str| {
                let path = format!("{stem}{end}");
                files.binary_search_by(|file| file.path.as_str().cmp(&path)).ok()
            };
            match MANIFEST_ENDINGS.iter().find_map(|end| files.get(named(end)?)) {
                Some(manifest) => folder.sidecars.push((file.clone(), manifest.path.clone())),
                None => folder.diagnostics.push(lonely_sidecar(file, stem, scope)),
            }
        } else {
            folder.manifests.push(file.clone());
        }
    }
    Ok(folder)
}

/// `deployment` for `deployment.config.yaml`.
fn sidecar_stem(path: &str) -> Option<&str> {
    MANIFEST_ENDINGS.iter().find_map(|end| path.strip_suffix(end)?.strip_suffix(".config"))
}

fn lonely_sidecar(file: &WorkFolderFile, stem: &str, scope: &Scope) -> Diagnostic {
    let name = stem.rsplit('/').next().unwrap_or_default();
    Diagnostic::new(
        Code::MatchesNothing,
        Location::file(&file.path),
        scope.clone(),
        format!(
            "there is no manifest file {name}.yaml, {name}.yml or {name}.json for this sidecar"
        ),
    )
    .with_hint("a name that ends in .config.yaml is a sidecar; rename the file if it is a manifest")
}

struct FolderWalk<'a> {
    root: &'a RepoPath,
    root_tree: ObjectId,
    objects: &'a dyn Objects,
    ignore: &'a PathPatterns,
    scope: &'a Scope,
    files: Vec<WorkFolderFile>,
    problems: DiagnosticSink,
    /// Those read so far: a link needs the trees on its way again.
    trees: BTreeMap<ObjectId, Arc<Tree>>,
    /// Entries visited so far.
    entries: usize,
}

impl FolderWalk<'_> {
    fn tree(&mut self, id: ObjectId) -> Result<Arc<Tree>, ObjectError> {
        if let Some(tree) = self.trees.get(&id) {
            return Ok(tree.clone());
        }
        let tree = self.objects.tree(id)?;
        self.trees.insert(id, tree.clone());
        Ok(tree)
    }

    /// Whether the walk ends here. One past a limit is enough to report it; a hostile tree must not
    /// be walked to its end.
    fn is_full(&self) -> bool {
        self.files.len() > limits::WORK_FILES_MAX || self.entries > limits::WORK_ENTRIES_MAX
    }

    /// Counts entries.
    fn visit(&mut self, entries: usize) {
        let was_full = self.entries > limits::WORK_ENTRIES_MAX;
        self.entries += entries;
        if self.entries > limits::WORK_ENTRIES_MAX && !was_full {
            let most = limits::WORK_ENTRIES_MAX;
            let message = format!("more than {most} files and folders in one work");
            self.report(Code::TooManyFiles, self.root, message);
        }
    }

    fn report(&mut self, code: Code, path: &RepoPath, message: impl Into<String>) {
        self.problems.push(Diagnostic::new(
            code,
            Location::file(path),
            self.scope.clone(),
            message,
        ));
    }

    fn folder(&mut self, at: &RepoPath, tree: ObjectId, depth: usize) -> Result<(), ObjectError> {
        if depth > limits::WORK_FOLDER_DEPTH_MAX {
            let message =
                format!("more than {} folder levels in one work", limits::WORK_FOLDER_DEPTH_MAX);
            self.report(Code::TooManyFiles, at, message);
            return Ok(());
        }
        let tree = match self.tree(tree) {
            Ok(tree) => tree,
            Err(why) if why.is_of_object() => {
                self.problems.push(bad_object(at, self.scope.clone(), &why));
                return Ok(());
            }
            Err(why) => return Err(why),
        };
        for (name, entry) in tree.iter() {
            self.visit(1);
            if self.is_full() {
                return Ok(());
            }
            let path = at.join(name);
            if name.starts_with('.') || self.ignore.is_match(&path, entry.kind == EntryKind::Tree) {
                continue;
            }
            if path.as_str().len() > limits::PATH_BYTES_MAX
                || name.chars().any(|c| c.is_control() || c == '\u{fffd}')
            {
                self.report(
                    Code::UnsafePath,
                    &path,
                    "a path that is too long, not UTF-8 or has control characters",
                );
                continue;
            }
            if let Some((_, tool)) = LATER.iter().find(|(marker, _)| marker == name) {
                self.report(
                    Code::NotSupported,
                    &path,
                    format!("rendering with {tool} is not supported by this version"),
                );
                continue;
            }
            match entry.kind {
                EntryKind::Tree => self.folder(&path, entry.id, depth + 1)?,
                EntryKind::Blob if is_manifest(name) => {
                    self.files.push(WorkFolderFile { path, id: entry.id });
                }
                EntryKind::Blob => {}
                EntryKind::Symlink if is_manifest(name) => self.symlink(&path, entry.id)?,
                EntryKind::Symlink => {}
                EntryKind::Gitlink => self.problems.push(gitlink(&path, self.scope.clone())),
            }
        }
        Ok(())
    }

    /// A link is followed inside the work folder, one file to another.
    fn symlink(&mut self, path: &RepoPath, target: ObjectId) -> Result<(), ObjectError> {
        self.visit(LINK_ENTRIES);
        let target = match self.objects.blob(target, limits::PATH_BYTES_MAX) {
            Ok(target) => target,
            Err(ObjectError::TooLarge { size, limit, .. }) => {
                let message =
                    format!("the target of the link has {size} bytes; the limit is {limit}");
                self.report(Code::SymlinkOutside, path, message);
                return Ok(());
            }
            Err(why) if why.is_of_object() => {
                self.problems.push(bad_object(path, self.scope.clone(), &why));
                return Ok(());
            }
            Err(why) => return Err(why),
        };
        let found =
            std::str::from_utf8(&target).ok().and_then(|text| resolve(path, text, self.root));
        let Some(inside) = found else {
            self.problems.push(link(path, self.scope.clone()));
            return Ok(());
        };
        match self.lookup(&inside)? {
            Some(Entry { kind: EntryKind::Blob, id }) => {
                self.files.push(WorkFolderFile { path: path.clone(), id });
            }
            Some(_) => self.report(
                Code::SymlinkOutside,
                path,
                format!(
                    "the link points to {}, which is no plain file",
                    shortened(inside.as_str())
                ),
            ),
            None => self.report(
                Code::SymlinkOutside,
                path,
                format!("the link points to {}, which does not exist", shortened(inside.as_str())),
            ),
        }
        Ok(())
    }

    fn lookup(&mut self, path: &RepoPath) -> Result<Option<Entry>, ObjectError> {
        let mut entry = Entry { kind: EntryKind::Tree, id: self.root_tree };
        for part in path.parts().skip(self.root.parts().count()) {
            if entry.kind != EntryKind::Tree {
                return Ok(None);
            }
            self.visit(1);
            let tree = match self.tree(entry.id) {
                Ok(tree) => tree,
                // The walk reports it when it comes there.
                Err(why) if why.is_of_object() => return Ok(None),
                Err(why) => return Err(why),
            };
            match tree.get(part) {
                Some(next) => entry = next.clone(),
                None => return Ok(None),
            }
        }
        Ok(Some(entry))
    }
}

/// Where a link at `path` points to; `None` where it leaves `root`.
fn resolve(path: &RepoPath, target: &str, root: &RepoPath) -> Option<RepoPath> {
    if target.starts_with('/') {
        return None;
    }
    let folder = path.parent()?;
    let mut below: Vec<&str> = folder.parts().skip(root.parts().count()).collect();
    for part in target.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            below.pop()?;
        } else {
            below.push(part);
        }
    }
    if below.is_empty() { Some(root.clone()) } else { Some(root.join(&below.join("/"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RepoPath {
        RepoPath::parse(text).unwrap()
    }

    #[test]
    fn links_stay_inside_their_work_folder() {
        let root = path("clusters/a/web");
        for (from, target, expected) in [
            ("clusters/a/web/x.yaml", "base/y.yaml", Some("clusters/a/web/base/y.yaml")),
            ("clusters/a/web/sub/x.yaml", "../y.yaml", Some("clusters/a/web/y.yaml")),
            ("clusters/a/web/x.yaml", "../other/y.yaml", None),
            ("clusters/a/web/x.yaml", "../web/y.yaml", None),
            ("clusters/a/web/x.yaml", "../web2/y.yaml", None),
            ("clusters/a/web/x.yaml", "/etc/passwd", None),
            ("clusters/a/web/x.yaml", "../../../../../../etc/passwd", None),
        ] {
            let found = resolve(&path(from), target, &root);
            assert_eq!(found.as_ref().map(RepoPath::as_str), expected, "{from} -> {target}");
        }
    }

    #[test]
    fn sidecar_names() {
        assert_eq!(sidecar_stem("a/deployment.config.yaml"), Some("a/deployment"));
        assert_eq!(sidecar_stem("a/deployment.config.json"), Some("a/deployment"));
        assert_eq!(sidecar_stem("a/deployment.yaml"), None);
    }
}
