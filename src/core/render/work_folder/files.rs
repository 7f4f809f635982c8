//! Reads a work folder's files, each within its limits.

use std::sync::Arc;

use super::diagnostics::WorkDiagnostics;
use super::sidecar::Sidecar;
use crate::config::file;
use crate::config::file::Config;
use crate::config::{FileKind, WorkFile};
use crate::limits;
use crate::model::diagnostic::{Code, Location};
use crate::model::manifest::Manifest;
use crate::model::name::RepoPath;
use crate::model::snapshot::{ObjectError, Objects};
use crate::render::layout::WorkFolderFile;
use crate::render::manifests::{self, ParsedManifests};
use crate::render::parsed_files::{ParsedFiles, ParsedManifestFile};
use crate::render::relations::Relations;
use crate::render::snippets::Texts;
use crate::render::substitute::Substitution;

/// Reads the files of one work folder.
pub struct FolderFiles<'a> {
    objects: &'a dyn Objects,
    /// Files that other members of its group have, too.
    parsed: Option<&'a ParsedFiles>,
    /// Bytes read so far.
    pub bytes: usize,
    /// The files read so far.
    pub texts: Texts,
    /// What their objects look for, and what they offer.
    pub relations: Relations,
    /// What was wrong with them.
    pub diagnostics: WorkDiagnostics<'a>,
}

impl<'a> FolderFiles<'a> {
    /// Nothing is read yet.
    pub fn new(
        objects: &'a dyn Objects,
        parsed: Option<&'a ParsedFiles>,
        diagnostics: WorkDiagnostics<'a>,
    ) -> Self {
        let relations = Relations::default();
        Self { objects, parsed, bytes: 0, texts: Texts::new(), relations, diagnostics }
    }

    /// The bytes of a file; `None` where it is too large, which is reported.
    fn read(&mut self, file: &WorkFolderFile) -> Result<Option<Arc<[u8]>>, ObjectError> {
        let at = || Location::file(&file.path);
        let most = limits::WORK_INPUT_BYTES_MAX;
        // What follows the file that is one too many is not read.
        if self.bytes > most {
            return Ok(None);
        }
        let bytes = match self.objects.blob(file.id, gitwork_yaml::limits::FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(ObjectError::TooLarge { size, limit, .. }) => {
                let message = format!("the file has {size} bytes; the limit is {limit}");
                self.diagnostics.add(Code::FileTooLarge, at(), message);
                return Ok(None);
            }
            Err(why) if why.is_of_object() => {
                self.diagnostics.add(Code::BadObject, at(), why.to_string());
                return Ok(None);
            }
            Err(why) => return Err(why),
        };
        self.bytes += bytes.len();
        if self.bytes > most {
            let message = format!("the work's files have more than {most} bytes");
            self.diagnostics.add(Code::TooManyFiles, at(), message);
            return Ok(None);
        }
        self.texts.insert(file.path.clone(), bytes.clone());
        Ok(Some(bytes))
    }

    /// Reads work.yaml, where there is one.
    pub fn work_file(
        &mut self,
        file: Option<&WorkFolderFile>,
    ) -> Result<Option<Config<WorkFile>>, ObjectError> {
        let Some(file) = file else { return Ok(None) };
        let Some(bytes) = self.read(file)? else { return Ok(None) };
        let scope = self.diagnostics.scope();
        let (config, found) = file::read_one(&file.path, &bytes, FileKind::Work, scope);
        self.diagnostics.extend(found);
        Ok(config)
    }

    /// Reads the manifests, in the order in which they are applied. None where there are too many.
    pub fn manifests(
        &mut self,
        files: &[WorkFolderFile],
        rules: &manifests::Rules<'_>,
        mut values: Option<&mut Substitution<'_>>,
    ) -> Result<Vec<Manifest>, ObjectError> {
        let mut all = Vec::new();
        for file in files {
            let (path, read) = (&file.path, self.read(file)?);
            let Some(bytes) = read else { continue };
            let file = match self.parsed {
                Some(known) => known.parse(file.id, path, &bytes),
                None => ParsedManifestFile::parse(path, &bytes),
            };
            let ParsedManifests { manifests, relations, diagnostics } =
                manifests::read(file, rules, values.as_deref_mut());
            all.extend(manifests);
            self.relations.extend(relations);
            self.diagnostics.extend(diagnostics);
            if all.len() > limits::WORK_MANIFESTS_MAX {
                let message =
                    format!("more than {} manifests in one work", limits::WORK_MANIFESTS_MAX);
                let at = Location::file(path);
                self.diagnostics.add(Code::TooManyManifests, at, message);
                return Ok(Vec::new());
            }
        }
        all.sort_by(|a, b| manifests::order(a).cmp(&manifests::order(b)));
        Ok(all)
    }

    /// Reads the sidecars, each given with its manifest file.
    pub fn sidecars(
        &mut self,
        files: &[(WorkFolderFile, RepoPath)],
    ) -> Result<Vec<Sidecar>, ObjectError> {
        let mut all = Vec::new();
        for (file, manifest_file) in files {
            let Some(bytes) = self.read(file)? else { continue };
            let scope = self.diagnostics.scope();
            let (configs, found) = file::read_all(&file.path, &bytes, FileKind::Manifest, scope);
            self.diagnostics.extend(found);
            let of_file = |config| Sidecar { config, manifest_file: manifest_file.clone() };
            all.extend(configs.into_iter().map(of_file));
        }
        Ok(all)
    }
}
