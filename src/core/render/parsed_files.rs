//! Manifest files as parsed YAML. The members of a group have the same files: these are parsed once
//! in a pass, as far as they fit into a bound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gitwork_yaml::{ParsedYaml, YamlProblem};

use crate::limits;
use crate::model::name::{ObjectId, RepoPath};

/// A manifest file and its YAML.
#[derive(Debug)]
pub struct ParsedManifestFile<'a> {
    /// From the source's path.
    pub path: &'a RepoPath,
    /// As it is in Git.
    pub bytes: &'a [u8],
    /// What the YAML says. Works of other members may have it as well.
    pub parsed: Arc<ParsedYaml>,
}

impl<'a> ParsedManifestFile<'a> {
    /// Parses a file.
    pub fn parse(path: &'a RepoPath, bytes: &'a [u8]) -> Self {
        Self { path, bytes, parsed: Arc::new(gitwork_yaml::read(bytes)) }
    }
}

/// The files that a pass has parsed for works of groups. Threads share it.
#[derive(Debug, Default)]
pub struct ParsedFiles(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    files: HashMap<ObjectId, Arc<ParsedYaml>>,
    memory: usize,
}

impl ParsedFiles {
    /// Parses a file, unless another member's work has needed it just before.
    pub fn parse<'a>(
        &self,
        id: ObjectId,
        path: &'a RepoPath,
        bytes: &'a [u8],
    ) -> ParsedManifestFile<'a> {
        let known = self.known().files.get(&id).cloned();
        let file = match known {
            Some(parsed) => return ParsedManifestFile { path, bytes, parsed },
            // Other threads go on meanwhile.
            None => ParsedManifestFile::parse(path, bytes),
        };
        self.known().keep(id, &file.parsed);
        file
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Keeps a file if it is not too large. Drops all others where they are too large together.
    fn keep(&mut self, id: ObjectId, parsed: &Arc<ParsedYaml>) {
        let bytes = bytes(parsed);
        if bytes > limits::PARSED_FILES_BYTES_MAX {
            return;
        }
        if self.memory + bytes > limits::PARSED_FILES_BYTES_MAX {
            *self = Self::default();
        }
        if self.files.insert(id, parsed.clone()).is_none() {
            self.memory += bytes;
        }
    }
}

/// What a file takes, and its entry: there may be many with nothing but problems.
fn bytes(parsed: &ParsedYaml) -> usize {
    let problem = |one: &YamlProblem| {
        let related = one.related.iter().map(|(span, why)| size_of_val(span) + 32 + why.len());
        let snippet = one.snippet.as_ref().map_or(0, String::len);
        size_of::<YamlProblem>() + one.message.len() + snippet + related.sum::<usize>()
    };
    let problems: usize = parsed.problems.iter().map(problem).sum();
    2 * size_of::<(ObjectId, ParsedYaml)>() + parsed.memory + problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_files_are_parsed_once_within_a_bound() {
        let (known, path) = (ParsedFiles::default(), RepoPath::parse("x.yaml").unwrap());
        let parse = |number: u8, text: &str| {
            let id = ObjectId::parse(&format!("{number:040x}")).unwrap();
            known.parse(id, &path, text.as_bytes()).parsed
        };
        let first = parse(1, "a: 1");
        assert!(Arc::ptr_eq(&first, &parse(1, "a: 1")));
        let large = format!("[{}]", "0,".repeat(limits::PARSED_FILES_BYTES_MAX / 150));
        let second = parse(2, &large);
        assert!(Arc::ptr_eq(&second, &parse(2, &large)), "{}", second.memory);
        assert!(Arc::ptr_eq(&first, &parse(1, "a: 1")), "there is room for both");
        let third = parse(3, &large);
        assert!(Arc::ptr_eq(&third, &parse(3, &large)));
        assert_eq!(Arc::strong_count(&second), 1, "the third took its room");
        let too_large = format!("[{}]", "0,".repeat(limits::PARSED_FILES_BYTES_MAX / 90));
        assert_eq!(Arc::strong_count(&parse(4, &too_large)), 1);
        assert_eq!(Arc::strong_count(&third), 2);
    }

    #[test]
    fn files_with_problems_only_count_as_well() {
        let (known, path) = (ParsedFiles::default(), RepoPath::parse("x.yaml").unwrap());
        let text = "a: !x 1\n".repeat(200);
        let all: Vec<Arc<ParsedYaml>> = (0..800)
            .map(|number| {
                let id = ObjectId::parse(&format!("{number:040x}")).unwrap();
                known.parse(id, &path, text.as_bytes()).parsed
            })
            .collect();
        let kept = all.iter().filter(|one| Arc::strong_count(one) > 1);
        let held: usize = kept.map(|one| bytes(one)).sum();
        assert!(held <= limits::PARSED_FILES_BYTES_MAX, "{held} bytes");
        assert!(all.iter().map(|one| bytes(one)).sum::<usize>() > held);
    }
}
