//! Parses brackets: indices, slices, keys, unions and filters.

use super::{Failure, Parser};
use crate::jsonpath::problem::JsonPathProblem;
use crate::jsonpath::types::{ComparisonOperator, End, Node, Slice};

impl Parser {
    /// Parses brackets other than filters. The opening bracket is already read.
    pub(super) fn bracket(&mut self, nodes: &mut Vec<Node>) -> Result<(), Failure> {
        let start = self.position;
        let Some(length) = self
            .rest()
            .find([']', '\n'])
            .filter(|at| self.rest().as_bytes().get(*at) == Some(&b']'))
        else {
            return self.fail(start - 1, JsonPathProblem::UnclosedBracket);
        };
        self.position += length;
        let text = self.since(start);
        self.position += 1;
        if text.contains(',') {
            let mut union = Vec::new();
            let mut at = start;
            for choice in text.split(',') {
                let trimmed = choice.trim_matches(' ');
                let lead = choice.len() - choice.trim_start_matches(' ').len();
                // The text in its own brackets and braces starts two bytes in.
                union.push(self.inner(&format!("[{trimmed}]"), at + lead, 2)?);
                at += choice.len() + 1;
            }
            nodes.push(Node::Union(union));
            return Ok(());
        }
        let key = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
        if let Some(key) = key.filter(|key| !key.contains('\'')) {
            // client-go reads the key as a path of its own.
            let fields = self.inner(&format!(".{key}"), start + 1, 2)?;
            if fields.len() > 1 {
                self.record_defect(start, JsonPathProblem::DottedKey);
            }
            nodes.extend(fields);
            return Ok(());
        }
        let slice = match text.as_str() {
            "*" => slice(":"),
            text => slice(text),
        };
        match slice {
            Some(slice) => {
                if slice.step.is_some_and(|step| step <= 0) {
                    self.record_defect(start, JsonPathProblem::BadStep);
                }
                nodes.push(Node::Slice(slice));
                Ok(())
            }
            None => self.fail(start, JsonPathProblem::BadIndex(text)),
        }
    }

    pub(super) fn filter(&mut self) -> Result<Node, Failure> {
        let opening = self.position;
        self.position += "[?(".len();
        let start = self.position;
        let end = self.filter_end(opening)?;
        let text = self.input.get(start..end).unwrap_or_default().to_owned();
        let Some((left, operator, right)) = comparison(&text) else {
            return Ok(Node::Exists(self.inner(&text, start, 1)?));
        };
        let operator_at = start + left.len();
        let right_at = operator_at + operator.len();
        let left = self.inner(left, start, 1)?;
        let right = self.inner(right, right_at, 1)?;
        let operator = operator_of(operator);
        if let ComparisonOperator::Unknown(text) = &operator {
            self.record_defect(operator_at, JsonPathProblem::UnknownOperator(text.clone()));
        }
        Ok(Node::Compare { left, operator, right })
    }

    /// Reads up to and including `)]`. Returns the position of the `)`. Skips one quoted text, like
    /// client-go: in a second one, a `)` ends the filter.
    fn filter_end(&mut self, opening: usize) -> Result<usize, Failure> {
        let mut quote = None;
        let mut closed = false;
        let mut before = '(';
        let end = loop {
            match self.next() {
                None | Some('\n') => return self.fail(opening, JsonPathProblem::UnclosedFilter),
                Some(c @ ('"' | '\'')) => {
                    match quote {
                        None => quote = Some(c),
                        Some(open) => closed |= before != '\\' && c == open,
                    }
                    before = c;
                }
                Some(')') if quote.is_some() == closed => break self.position - 1,
                Some(c) => before = c,
            }
        };
        if self.next() != Some(']') {
            return self.fail(end, JsonPathProblem::FilterWithoutBracket);
        }
        Ok(end)
    }
}

/// Splits into left side, operator and right side. Returns `None` without an operator between two
/// sides.
fn comparison(text: &str) -> Option<(&str, &str, &str)> {
    let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let at = text.find(is_operator).filter(|at| *at > 0)?;
    let (left, rest) = text.split_at_checked(at)?;
    let run = rest.find(|c| !is_operator(c)).unwrap_or(rest.len());
    // With nothing to its right, the last character of the operator is taken for the right side.
    let length = if run == rest.len() { run - 1 } else { run };
    let (operator, right) = rest.split_at_checked(length)?;
    (!operator.is_empty()).then_some((left, operator, right))
}

fn operator_of(text: &str) -> ComparisonOperator {
    match text {
        "==" => ComparisonOperator::Equal,
        "!=" => ComparisonOperator::NotEqual,
        "<" => ComparisonOperator::Less,
        "<=" => ComparisonOperator::LessEqual,
        ">" => ComparisonOperator::Greater,
        ">=" => ComparisonOperator::GreaterEqual,
        other => ComparisonOperator::Unknown(other.to_owned()),
    }
}

/// Parses `start:end:step`. Every part is optional.
fn slice(text: &str) -> Option<Slice> {
    let mut parts = text.split(':');
    let mut part = || -> Option<Option<Option<i64>>> {
        let Some(part) = parts.next() else { return Some(None) };
        let digits = part.strip_prefix('-').unwrap_or(part);
        if part.is_empty() {
            return Some(Some(None));
        }
        digits
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| part.parse().ok().map(|n| Some(Some(n))))?
    };
    let (start, end, step) = (part()?.flatten(), part()?, part()?.flatten());
    let end = match end {
        None => End::AfterStart(start.unwrap_or(0).wrapping_add(1)),
        Some(None) => End::Open,
        Some(Some(end)) => End::At(end),
    };
    parts.next().is_none().then_some(Slice { start, end, step })
}
