//! The diagnostics of one work folder.

use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};

/// Collects the diagnostics of one work folder.
#[derive(Debug)]
pub struct WorkDiagnostics<'a> {
    scope: &'a Scope,
    all: Vec<Diagnostic>,
}

impl<'a> WorkDiagnostics<'a> {
    /// Begins with what was found so far. Errors freeze `scope`.
    pub fn new(scope: &'a Scope, all: Vec<Diagnostic>) -> Self {
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

    /// Drops the diagnostics of this code at this place.
    pub fn withdraw(&mut self, code: Code, at: &Location) {
        self.all.retain(|found| found.code != code || found.location != *at);
    }

    /// Whether anything found so far freezes the work.
    pub fn has_error(&self) -> bool {
        self.all.iter().any(Diagnostic::is_error)
    }

    /// All of them, in the order in which they were found.
    pub fn into_all(self) -> Vec<Diagnostic> {
        self.all
    }
}
