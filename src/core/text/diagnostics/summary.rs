//! Diagnostics, counted.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::diagnostic::{Diagnostic, Scope, Severity};
use crate::text::style::count;

/// How many problems there are, and of how many works and clusters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DiagnosticSummary {
    /// Diagnostics of severity error.
    pub errors: usize,
    /// Diagnostics of severity warning.
    pub warnings: usize,
    /// Diagnostics of severity info.
    pub notes: usize,
    /// Works that a diagnostic is about.
    pub works: usize,
    /// Clusters that a diagnostic, or the work of one, is about.
    pub clusters: usize,
}

impl DiagnosticSummary {
    /// Counts the diagnostics.
    pub fn of<'a>(diagnostics: impl IntoIterator<Item = &'a Diagnostic>) -> Self {
        let mut summary = Self::default();
        let (mut works, mut clusters) = (BTreeSet::new(), BTreeSet::new());
        for diagnostic in diagnostics {
            match diagnostic.severity {
                Severity::Error => summary.errors += 1,
                Severity::Warning => summary.warnings += 1,
                Severity::Info => summary.notes += 1,
            }
            match &diagnostic.scope {
                Scope::Source | Scope::Group(_) => {}
                Scope::Cluster(cluster) => drop(clusters.insert(cluster)),
                Scope::Work(key) => {
                    works.insert(key);
                    clusters.insert(&key.cluster);
                }
            }
        }
        Self { works: works.len(), clusters: clusters.len(), ..summary }
    }

    /// `3 errors, 1 warning`; empty without problems.
    pub fn counts(&self) -> String {
        let counts = [(self.errors, "error"), (self.warnings, "warning"), (self.notes, "note")];
        let said: Vec<String> =
            counts.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| count(n, what)).collect();
        said.join(", ")
    }
}

impl fmt::Display for DiagnosticSummary {
    /// `3 errors, 1 warning in 2 works of 2 clusters`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts();
        if counts.is_empty() {
            return f.write_str("no problems");
        }
        f.write_str(&counts)?;
        match (self.works, self.clusters) {
            (0, 0) => f.write_str(" in the source"),
            (0, clusters) => write!(f, " in {}", count(clusters, "cluster")),
            (works, clusters) => {
                write!(f, " in {} of {}", count(works, "work"), count(clusters, "cluster"))
            }
        }
    }
}
