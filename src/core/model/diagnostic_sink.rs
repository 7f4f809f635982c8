//! Collects diagnostics within a bound.

use std::collections::BTreeMap;

use super::diagnostic::{Code, Diagnostic, Location, Scope};
use super::name::RepoPath;
use crate::limits;

/// The first diagnostics of a file or a work, and the number of the others.
///
/// Keeps at least one of each code: an error behind many warnings still freezes its scope.
#[derive(Debug)]
pub struct DiagnosticSink {
    kept: Vec<Diagnostic>,
    max: usize,
    /// Bytes of the kept texts.
    bytes: usize,
    omitted: usize,
    /// Of the first one that was omitted.
    omitted_at: Option<(Location, Scope)>,
}

impl DiagnosticSink {
    /// Keeps `max` diagnostics, or as many as have [`limits::DIAGNOSTICS_BYTES_MAX`].
    pub fn new(max: usize) -> Self {
        Self { kept: Vec::new(), max, bytes: 0, omitted: 0, omitted_at: None }
    }

    /// Adds a diagnostic.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if self.is_full() && self.kept.iter().any(|known| known.code == diagnostic.code) {
            self.omitted += 1;
            self.omitted_at.get_or_insert((diagnostic.location, diagnostic.scope));
            return;
        }
        let texts =
            [&diagnostic.field, &diagnostic.hint, &diagnostic.snippet].into_iter().flatten();
        self.bytes += diagnostic.message.len() + texts.map(String::len).sum::<usize>();
        self.kept.push(diagnostic);
    }

    fn is_full(&self) -> bool {
        self.kept.len() >= self.max || self.bytes >= limits::DIAGNOSTICS_BYTES_MAX
    }

    /// Whether one of the kept diagnostics is an error. There is one if any was added.
    pub fn has_error(&self) -> bool {
        self.kept.iter().any(Diagnostic::is_error)
    }

    /// Whether one of the kept diagnostics freezes a work. There is one if any was added.
    pub fn freezes_work(&self) -> bool {
        self.kept.iter().any(Diagnostic::freezes_work)
    }

    /// The diagnostics in the order in which they were added. A last one says how many more there
    /// are.
    pub fn into_all(mut self) -> Vec<Diagnostic> {
        if let Some((location, scope)) = self.omitted_at {
            self.kept.push(omitted(self.omitted, location, scope));
        }
        self.kept
    }
}

impl Extend<Diagnostic> for DiagnosticSink {
    fn extend<T: IntoIterator<Item = Diagnostic>>(&mut self, diagnostics: T) {
        diagnostics.into_iter().for_each(|diagnostic| self.push(diagnostic));
    }
}

/// Says that more diagnostics were found than are kept. Of a file with very many, not all may have
/// been counted.
fn omitted(count: usize, location: Location, scope: Scope) -> Diagnostic {
    let message = format!("at least {count} more problems are not listed");
    Diagnostic::new(Code::Omitted, Location { span: None, ..location }, scope, message)
}

/// Cuts the diagnostics of a whole source, which are sorted, to [`limits::DIAGNOSTICS_MAX`]. Every
/// scope keeps as many of its own as fit, errors first, so that no tenant hides those of another.
pub fn cut_fairly(diagnostics: &mut Vec<Diagnostic>) {
    let max = limits::DIAGNOSTICS_MAX;
    if diagnostics.len() <= max {
        return;
    }
    let mut counts: BTreeMap<&Scope, usize> = BTreeMap::new();
    diagnostics.iter().for_each(|one| *counts.entry(&one.scope).or_default() += 1);
    let total = |share: usize| counts.values().map(|count| share.min(*count)).sum::<usize>();
    // The largest share with which all fit, found by halves; at least one each.
    let (mut share, mut above) = (1, max);
    while above - share > 1 {
        let middle = share.midpoint(above);
        if total(middle) < max { share = middle } else { above = middle }
    }
    let mut kept: BTreeMap<(Scope, bool), usize> = BTreeMap::new();
    let mut errors: BTreeMap<Scope, usize> = BTreeMap::new();
    for one in diagnostics.iter().filter(|one| one.is_error()) {
        *errors.entry(one.scope.clone()).or_default() += 1;
    }
    let before = diagnostics.len();
    diagnostics.retain(|one| {
        let first = share.min(errors.get(&one.scope).copied().unwrap_or_default());
        let most = if one.is_error() { first } else { share - first };
        let count = kept.entry((one.scope.clone(), one.is_error())).or_default();
        *count += 1;
        *count <= most
    });
    diagnostics.truncate(max.saturating_sub(1));
    let at = Location::file(&RepoPath::root());
    diagnostics.push(omitted(before - diagnostics.len(), at, Scope::Source));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::name::ClusterName;

    fn one(code: Code, cluster: &str, message: &str) -> Diagnostic {
        let scope = Scope::Cluster(ClusterName::parse(cluster).unwrap());
        Diagnostic::new(code, Location::file(&RepoPath::root()), scope, message)
    }

    #[test]
    fn error_behind_many_warnings_is_kept_and_the_last_one_counts_the_others() {
        let mut sink = DiagnosticSink::new(10);
        sink.extend((0..50).map(|n| one(Code::NoEffect, "a", &n.to_string())));
        assert!(!sink.has_error());
        sink.push(one(Code::BadValue, "a", "late"));
        assert!(sink.has_error());
        let all = sink.into_all();
        assert_eq!(all.len(), 12);
        assert_eq!(all[10].message, "late");
        assert_eq!(all[11].message, "at least 40 more problems are not listed");
        assert!(!all[11].is_error(), "it freezes nothing itself");
    }

    #[test]
    fn long_texts_fill_the_sink_too() {
        let mut sink = DiagnosticSink::new(100);
        let long = "x".repeat(limits::DIAGNOSTICS_BYTES_MAX);
        sink.extend((0..50).map(|_| one(Code::BadValue, "a", &long)));
        assert_eq!(sink.into_all().len(), 2);
    }

    #[test]
    fn one_scope_does_not_hide_the_problems_of_another() {
        let mut all: Vec<Diagnostic> = (0..3 * limits::DIAGNOSTICS_MAX)
            .map(|n| one(Code::NoEffect, "a", &n.to_string()))
            .collect();
        all.push(one(Code::BadValue, "a", "error of a"));
        all.push(one(Code::BadValue, "z", "error of z"));
        let before = all.len();
        all.sort();
        cut_fairly(&mut all);
        assert!(all.len() <= limits::DIAGNOSTICS_MAX);
        for message in ["error of a", "error of z"] {
            assert!(all.iter().any(|one| one.message == message), "{message}");
        }
        let left = before - (all.len() - 1);
        let last = format!("at least {left} more problems are not listed");
        assert_eq!(all.last().unwrap().message, last);
    }
}
