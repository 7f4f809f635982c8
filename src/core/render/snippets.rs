//! The source lines that diagnostics show.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::diagnostic::{Diagnostic, Severity};
use crate::model::name::RepoPath;
use crate::text::yaml;

/// The texts of the files that diagnostics are about.
pub type Texts = BTreeMap<RepoPath, Arc<[u8]>>;

/// Puts the source line under every diagnostic that has a place and no line yet.
pub fn add_snippets(diagnostics: &mut [Diagnostic], texts: &Texts) {
    let mut lines: BTreeMap<&RepoPath, Option<yaml::Lines<'_>>> = BTreeMap::new();
    for diagnostic in
        diagnostics.iter_mut().filter(|d| d.snippet.is_none() && d.severity != Severity::Info)
    {
        if let (Some(span), Some((file, text))) =
            (diagnostic.location.span, texts.get_key_value(&diagnostic.location.file))
        {
            let lines = lines.entry(file).or_insert_with(|| yaml::Lines::new(text));
            diagnostic.snippet = lines.as_ref().and_then(|lines| lines.snippet(span));
        }
    }
}
