//! The static facts of a source on the page.

use gitwork_git::Reference;
use gitwork_report::forge::WebPages;
use gitwork_report::page::SourceInfo;
use gitwork_source::{SourceConfig, SourceLocation};

use crate::reporters::Reporting;

/// The static facts of a source. `namespace` is set if gitwork's own objects are not in the default
/// namespace.
pub fn source_info(
    config: &SourceConfig,
    reporting: &Reporting,
    namespace: Option<&str>,
) -> SourceInfo {
    let (repository, reference, flag) = match &config.repository {
        SourceLocation::Directory(folder) => (folder.display().to_string(), String::new(), None),
        SourceLocation::Git { remote, reference, .. } => {
            let (words, flag) = reference_words(reference);
            (remote.url.clone(), words, flag)
        }
    };
    let mut arguments = vec!["--repo".to_owned(), repository.clone()];
    arguments.extend(flag.into_iter().flatten());
    if !config.path.is_root() {
        arguments.extend(["--path".to_owned(), config.path.to_string()]);
    }
    arguments.extend(["--source-id".to_owned(), config.id.to_string()]);
    arguments
        .extend(namespace.iter().flat_map(|name| ["--namespace".to_owned(), name.to_string()]));
    let provider = reporting.commit_status.as_ref().map(|status| status.provider);
    let pages = WebPages::of(provider, &repository);
    SourceInfo { id: config.id.clone(), repository, reference, arguments, pages }
}

/// A ref for people, and as command-line arguments.
fn reference_words(reference: &Reference) -> (String, Option<[String; 2]>) {
    let (word, name) = match reference {
        Reference::Head => return ("HEAD".into(), None),
        Reference::Branch(name) => ("branch", name.clone()),
        Reference::Tag(name) => ("tag", name.clone()),
        Reference::Semver(range) => ("semver", range.to_string()),
        Reference::Commit(commit) => ("commit", commit.to_string()),
    };
    (format!("{word} {name}"), Some([format!("--{word}"), name]))
}
