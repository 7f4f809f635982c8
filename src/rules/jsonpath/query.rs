//! A path, parsed and evaluated.

use serde_json::Value;

use super::evaluate::{self, EvaluateError};
use super::parse;
use super::problem::JsonPathError;
use super::types::Part;
use crate::limits::JSONPATH_STEPS_MAX;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPathQuery {
    /// A path between braces is a template: a stray `}` in it ends the first expression.
    pub(super) parts: Vec<Part>,
}

impl JsonPathQuery {
    /// Parses a path of a rule, without braces.
    ///
    /// # Errors
    /// Fails for a path that client-go does not parse, or that exceeds a limit.
    pub fn parse(path: &str) -> Result<Self, JsonPathError> {
        parse::path(path).map(|parts| Self { parts })
    }

    /// Returns the values that client-go finds with `AllowMissingKeys`. Like OCM's agent, it uses
    /// the first expression only.
    ///
    /// # Errors
    /// Fails where client-go does, or beyond [`crate::limits::JSONPATH_STEPS_MAX`].
    pub fn find<'a>(&'a self, root: &'a Value) -> Result<Vec<&'a Value>, EvaluateError> {
        Ok(self.find_in_parts(root)?.into_iter().next().unwrap_or_default())
    }

    /// As [`Self::find`], for one of several paths. Takes the steps from those that are left for
    /// all of them: 0 are left if they do not suffice.
    ///
    /// # Errors
    /// Fails as [`Self::find`] does, and if no step is left.
    pub fn find_within<'a>(
        &'a self,
        root: &'a Value,
        steps_left: &mut usize,
    ) -> Result<Vec<&'a Value>, EvaluateError> {
        let mut steps = JSONPATH_STEPS_MAX.min(*steps_left);
        let begun_with = steps;
        let found = evaluate::parts(&self.parts, root, &mut steps);
        *steps_left -= begun_with - steps;
        Ok(found?.into_iter().next().unwrap_or_default())
    }

    /// Returns the values of every part of the template.
    pub(super) fn find_in_parts<'a>(
        &'a self,
        root: &'a Value,
    ) -> Result<Vec<Vec<&'a Value>>, EvaluateError> {
        evaluate::parts(&self.parts, root, &mut JSONPATH_STEPS_MAX.clone())
    }
}

/// Checks a path before it reaches a cluster. Refuses a path that does not parse, or that parses
/// but cannot have a result.
///
/// # Errors
/// Returns the first problem, with its location in the path.
pub fn check(path: &str) -> Result<(), JsonPathError> {
    JsonPathQuery::parse(path)?;
    parse::check(path)
}
