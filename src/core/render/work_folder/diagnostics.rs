//! The diagnostics of one work folder.

use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::diagnostic_sink::DiagnosticSink;

/// Collects the diagnostics of one work folder.
#[derive(Debug)]
pub struct WorkDiagnostics<'a> {
    scope: &'a Scope,
    all: DiagnosticSink,
}

impl<'a> WorkDiagnostics<'a> {
    /// Begins with what was found so far. Errors freeze `scope`.
    pub fn new(scope: &'a Scope, found: Vec<Diagnostic>) -> Self {
        let mut all = DiagnosticSink::new(limits::WORK_DIAGNOSTICS_MAX);
        all.extend(found);
        Self { scope, all }
    }

    /// What an error freezes.
    pub fn scope(&self) -> &'a Scope {
        self.scope
    }

    /// A diagnostic of this work, to be completed and pushed.
    pub fn of(&self, code: Code, at: Location, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(code, at, self.scope.clone(), message)
    }

    /// Adds a diagnostic that needs no more than a message.
    pub fn add(&mut self, code: Code, at: Location, message: impl Into<String>) {
        self.push(self.of(code, at, message));
    }

    /// Adds a diagnostic.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.all.push(diagnostic);
    }

    /// Adds the diagnostics of a file.
    pub fn extend(&mut self, diagnostics: Vec<Diagnostic>) {
        self.all.extend(diagnostics);
    }

    /// Whether anything found so far freezes the work.
    pub fn freezes_work(&self) -> bool {
        self.all.freezes_work()
    }

    /// All of them, in the order in which they were found.
    pub fn into_all(self) -> Vec<Diagnostic> {
        self.all.into_all()
    }
}
