//! Collects diagnostics within a bound.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use gitwork_api::count::{count, is_or_are};

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
fn omitted(number: usize, location: Location, scope: Scope) -> Diagnostic {
    let more = count(number, "more problem");
    let message = format!("at least {more} {} not listed", is_or_are(number));
    Diagnostic::new(Code::Omitted, Location { span: None, ..location }, scope, message)
}

/// A diagnostic with the scope that it has in one place: the folders of several clusters share
/// their diagnostics.
#[derive(Debug, Clone, Copy)]
pub struct ScopedDiagnostic<'a> {
    /// What an error freezes.
    pub scope: &'a Scope,
    /// The diagnostic. Its own scope is that of any of the places.
    pub diagnostic: &'a Diagnostic,
}

impl<'a> ScopedDiagnostic<'a> {
    /// A diagnostic with its own scope.
    pub fn new(diagnostic: &'a Diagnostic) -> Self {
        Self { scope: &diagnostic.scope, diagnostic }
    }

    /// In the order of diagnostics.
    fn order(self, other: Self) -> Ordering {
        let (one, two) = (self.diagnostic, other.diagnostic);
        let place = |one: &'a Diagnostic| (&one.location, one.code, one.severity);
        let texts =
            |one: &'a Diagnostic| (&one.field, &one.message, &one.hint, &one.related, &one.snippet);
        let by_place = place(one).cmp(&place(two));
        by_place.then_with(|| self.scope.cmp(other.scope)).then_with(|| texts(one).cmp(&texts(two)))
    }

    fn to_diagnostic(self) -> Diagnostic {
        Diagnostic { scope: self.scope.clone(), ..self.diagnostic.clone() }
    }
}

/// The diagnostics of a whole source, sorted, each once, and at most
/// [`limits::DIAGNOSTICS_MAX`]. Every scope keeps as many of its own as fit, errors first, so that
/// no tenant hides those of another.
pub fn cut_fairly(mut all: Vec<ScopedDiagnostic<'_>>) -> Vec<Diagnostic> {
    all.sort_unstable_by(|one, other| one.order(*other));
    all.dedup_by(|one, other| one.order(*other).is_eq());
    let max = limits::DIAGNOSTICS_MAX;
    let found = all.len();
    if found > max {
        keep_shares(&mut all, max);
    }
    let mut diagnostics: Vec<Diagnostic> =
        all.into_iter().map(ScopedDiagnostic::to_diagnostic).collect();
    if found > max {
        let at = Location::file(&RepoPath::root());
        diagnostics.push(omitted(found - diagnostics.len(), at, Scope::Source));
    }
    diagnostics
}

/// Keeps fewer than `max`, the same share of each scope.
fn keep_shares(all: &mut Vec<ScopedDiagnostic<'_>>, max: usize) {
    let mut counts: BTreeMap<&Scope, usize> = BTreeMap::new();
    all.iter().for_each(|one| *counts.entry(one.scope).or_default() += 1);
    let total = |share: usize| counts.values().map(|count| share.min(*count)).sum::<usize>();
    // The largest share with which all fit, found by halves; at least one each.
    let (mut share, mut above) = (1, max);
    while above - share > 1 {
        let middle = share.midpoint(above);
        if total(middle) < max { share = middle } else { above = middle }
    }
    let mut kept: BTreeMap<(&Scope, bool), usize> = BTreeMap::new();
    let mut errors: BTreeMap<&Scope, usize> = BTreeMap::new();
    for one in all.iter().filter(|one| one.diagnostic.is_error()) {
        *errors.entry(one.scope).or_default() += 1;
    }
    all.retain(|one| {
        let first = share.min(errors.get(one.scope).copied().unwrap_or_default());
        let is_error = one.diagnostic.is_error();
        let most = if is_error { first } else { share - first };
        let count = kept.entry((one.scope, is_error)).or_default();
        *count += 1;
        *count <= most
    });
    all.truncate(max.saturating_sub(1));
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
        let all = cut_fairly(all.iter().map(ScopedDiagnostic::new).collect());
        assert!(all.len() <= limits::DIAGNOSTICS_MAX);
        for message in ["error of a", "error of z"] {
            assert!(all.iter().any(|one| one.message == message), "{message}");
        }
        let left = before - (all.len() - 1);
        let last = format!("at least {left} more problems are not listed");
        assert_eq!(all.last().unwrap().message, last);
    }
}
