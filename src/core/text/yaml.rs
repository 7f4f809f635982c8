//! Files of a repository as documents, with problems as diagnostics.

pub use gitwork_yaml::{Document, Lines, write};

use gitwork_yaml::{ParsedYaml, YamlProblem};

use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::name::RepoPath;

/// What a file holds, and what is wrong with it.
#[derive(Debug, Default)]
pub struct ParsedFile {
    /// In the file's order, without empty ones.
    pub documents: Vec<Document>,
    /// What is wrong with the YAML, each with the scope that was given.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads all documents of a file. After a syntax error the documents before it are still there.
pub fn read(file: &RepoPath, bytes: &[u8], scope: &Scope) -> ParsedFile {
    let ParsedYaml { documents, problems, .. } = gitwork_yaml::read(bytes);
    ParsedFile { documents, diagnostics: diagnostics(file, problems, scope).collect() }
}

/// What is wrong with the YAML of a file.
pub fn diagnostics(
    file: &RepoPath,
    problems: Vec<YamlProblem>,
    scope: &Scope,
) -> impl Iterator<Item = Diagnostic> {
    problems.into_iter().map(|problem| {
        let location =
            problem.span.map_or_else(|| Location::file(file), |span| Location::at(file, span));
        let code = Code::from(problem.kind);
        let mut diagnostic = Diagnostic::new(code, location, scope.clone(), problem.message);
        for (span, why) in problem.related {
            diagnostic = diagnostic.with_related(Location::at(file, span), why);
        }
        diagnostic.snippet = problem.snippet;
        diagnostic
    })
}

#[cfg(test)]
mod tests {
    use gitwork_yaml::ProblemKind;

    use super::*;

    #[test]
    fn codes_say_what_the_reader_says() {
        for kind in ProblemKind::ALL {
            let code = Code::from(*kind);
            assert_eq!(
                (code.title(), code.severity() == crate::model::diagnostic::Severity::Error),
                (kind.title(), kind.is_error())
            );
        }
    }
}
