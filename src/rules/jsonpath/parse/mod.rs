//! Parses a path into steps, by client-go's grammar (`util/jsonpath/parser.go`).

mod bracket;

use serde_json::{Number, Value};

use super::problem::{JsonPathError, JsonPathProblem};
use super::quote::unquote;
use super::types::{Node, Part};
use crate::limits::{JSONPATH_BYTES_MAX, JSONPATH_DEPTH_MAX};

/// A problem and its byte in the template.
type Failure = (usize, JsonPathProblem);

/// Parses a path into the parts of the template `{path}`.
pub fn path(path: &str) -> Result<Vec<Part>, JsonPathError> {
    scan(path).map(|(parts, _)| parts)
}

/// Refuses a path that does not parse, or that parses but cannot have a result.
pub fn check(path: &str) -> Result<(), JsonPathError> {
    match scan(path)?.1 {
        Some(failure) => Err(located(path, failure)),
        None => Ok(()),
    }
}

/// Parses a path into its parts. Returns the first defect as well.
fn scan(path: &str) -> Result<(Vec<Part>, Option<Failure>), JsonPathError> {
    if path.len() > JSONPATH_BYTES_MAX {
        return Err(JsonPathError { column: 1, problem: JsonPathProblem::TooLong });
    }
    let mut parser = Parser::of(path, -1, 0);
    let parts = parser.template().map_err(|failure| located(path, failure))?;
    if parts.len() > 1 {
        let first_end = parser.first_end;
        parser.record_defect(first_end, JsonPathProblem::EndsHere);
    }
    Ok((parts, parser.defect))
}

fn located(path: &str, (at, problem): Failure) -> JsonPathError {
    let before = path.char_indices().take_while(|(index, _)| *index < at).count();
    JsonPathError { column: before + 1, problem }
}

struct Parser {
    /// The template of this level: an expression between braces.
    input: String,
    position: usize,
    /// Offset of `input` in the whole path, in bytes.
    origin: isize,
    depth: usize,
    first_end: usize,
    /// The first defect: a part that parses but cannot have a result.
    defect: Option<Failure>,
}

impl Parser {
    /// Creates a parser for `text` between braces. Its first byte is at `origin + 1` of the whole
    /// path.
    fn of(text: &str, origin: isize, depth: usize) -> Self {
        let input = format!("{{{text}}}");
        Self { input, position: 0, origin, depth, first_end: 0, defect: None }
    }

    fn rest(&self) -> &str {
        self.input.get(self.position..).unwrap_or_default()
    }

    fn since(&self, start: usize) -> String {
        self.input.get(start..self.position).unwrap_or_default().to_owned()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.position += next.len_utf8();
        Some(next)
    }

    fn at(&self, position: usize) -> usize {
        usize::try_from(self.origin.saturating_add_unsigned(position)).unwrap_or_default()
    }

    fn fail<T>(&self, position: usize, problem: JsonPathProblem) -> Result<T, Failure> {
        Err((self.at(position), problem))
    }

    fn record_defect(&mut self, position: usize, problem: JsonPathProblem) {
        let failure = (self.at(position), problem);
        self.defect.get_or_insert(failure);
    }

    /// Parses texts and expressions up to the end of the input.
    fn template(&mut self) -> Result<Vec<Part>, Failure> {
        let mut parts = Vec::new();
        loop {
            let start = self.position;
            self.position += self.rest().find('{').unwrap_or(self.rest().len());
            if self.position > start {
                parts.push(Part::Text(self.since(start).into()));
            }
            if self.next().is_none() {
                return Ok(parts);
            }
            parts.push(Part::Expression(self.expression()?));
            if parts.len() == 1 {
                self.first_end = self.position.saturating_sub(1);
            }
        }
    }

    /// Parses steps up to and including the closing brace.
    fn expression(&mut self) -> Result<Vec<Node>, Failure> {
        let mut nodes = Vec::new();
        loop {
            let start = self.position;
            if self.rest().starts_with("[?(") {
                nodes.push(self.filter()?);
                continue;
            }
            if self.rest().starts_with("..") {
                self.descent(&mut nodes)?;
                continue;
            }
            match self.next() {
                Some('}') => return Ok(nodes),
                None | Some('\r' | '\n') => return self.fail(start, JsonPathProblem::Unfinished),
                // The current object is what every step starts from anyway.
                Some(' ' | '@' | '$') => {}
                Some('[') => self.bracket(&mut nodes)?,
                Some(quote @ ('"' | '\'')) => nodes.push(self.quoted(quote)?),
                Some('.') => nodes.push(self.field()),
                Some(c) if matches!(c, '+' | '-') || c.is_numeric() => {
                    nodes.push(self.number(start)?);
                }
                Some(c) if c == '_' || c.is_alphabetic() => nodes.push(self.word(start)),
                Some(c @ ('&' | '|')) => {
                    return self.fail(start, JsonPathProblem::LogicalOperator(c));
                }
                Some('{') => return self.fail(start, JsonPathProblem::Brace),
                Some(c) => return self.fail(start, JsonPathProblem::UnexpectedCharacter(c)),
            }
        }
    }

    fn descent(&mut self, nodes: &mut Vec<Node>) -> Result<(), Failure> {
        if nodes.last() == Some(&Node::Descent) {
            return self.fail(self.position, JsonPathProblem::RepeatedDescent);
        }
        self.position += "..".len();
        nodes.push(Node::Descent);
        if self.peek().is_some_and(|c| c == '_' || c.is_alphanumeric()) {
            nodes.push(self.field());
        }
        Ok(())
    }

    /// Parses a field, up to the next character that ends a name and is not escaped by a backslash.
    fn field(&mut self) -> Node {
        let start = self.position;
        while let Some(c) = self.peek() {
            if ends_name(c) {
                break;
            }
            self.next();
            if c == '\\' {
                self.next();
            }
        }
        match self.since(start) {
            name if name == "*" => Node::Wildcard,
            name => Node::Field(name.replace('\\', "")),
        }
    }

    /// Parses a bare word or a boolean. Its first character is already read.
    fn word(&mut self, start: usize) -> Node {
        while self.peek().is_some_and(|c| !ends_name(c)) {
            self.next();
        }
        let word = self.since(start);
        match word.as_str() {
            "true" => Node::Literal(Value::Bool(true)),
            "false" => Node::Literal(Value::Bool(false)),
            _ => {
                self.record_defect(start, JsonPathProblem::BareWord(word.clone()));
                Node::Word(word)
            }
        }
    }

    /// Parses a number. Its first character is already read.
    fn number(&mut self, start: usize) -> Result<Node, Failure> {
        while self.peek().is_some_and(|c| c == '.' || c.is_numeric()) {
            self.next();
        }
        let text = self.since(start);
        if let Ok(whole) = text.parse::<i64>() {
            return Ok(Node::Literal(whole.into()));
        }
        match text.parse::<f64>().ok().and_then(Number::from_f64) {
            Some(number) => Ok(Node::Literal(Value::Number(number))),
            None => self.fail(start, JsonPathProblem::BadNumber(text)),
        }
    }

    /// Parses a quoted text. Its opening quote is already read.
    fn quoted(&mut self, quote: char) -> Result<Node, Failure> {
        let start = self.position;
        let mut before = quote;
        loop {
            match self.next() {
                None | Some('\n') => return self.fail(start - 1, JsonPathProblem::UnclosedQuote),
                // client-go looks one character back, no further: after \\ the quote counts as
                // escaped too.
                Some(c) if c == quote && before != '\\' => break,
                Some(c) => before = c,
            }
        }
        let text = self.input.get(start..self.position - 1).unwrap_or_default();
        match unquote(text, quote) {
            Some(text) => Ok(Node::Text(text.into())),
            None => {
                self.fail(start - 1, JsonPathProblem::BadEscape(format!("{quote}{text}{quote}")))
            }
        }
    }

    /// Parses an expression within this one. The byte `skip` of its template is at `position` of
    /// this template.
    fn inner(&mut self, text: &str, position: usize, skip: usize) -> Result<Vec<Node>, Failure> {
        if self.depth >= JSONPATH_DEPTH_MAX {
            return self.fail(position, JsonPathProblem::TooDeep);
        }
        let origin = self.origin.saturating_add_unsigned(position).saturating_sub_unsigned(skip);
        let mut parser = Parser::of(text, origin, self.depth + 1);
        let parts = parser.template()?;
        if parts.len() > 1 {
            let first_end = parser.first_end;
            parser.record_defect(first_end, JsonPathProblem::EndsHere);
        }
        if self.defect.is_none() {
            self.defect = parser.defect;
        }
        match parts.into_iter().next() {
            Some(Part::Expression(nodes)) => Ok(nodes),
            // Our own opening brace comes first.
            _ => Ok(Vec::new()),
        }
    }
}

/// Whether a character ends a name.
fn ends_name(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two kinds of quotes allow fewer levels than the limit, so the parser starts near it.
    #[test]
    fn expressions_within_expressions_are_refused_at_the_depth_limit() {
        let parse = |path: &str, depth| Parser::of(path, -1, depth).template().map(|_| ());
        for (path, byte) in
            [(".a[?(@.b)]", 5), (".a[?(@.b==1)]", 5), (".a['b']", 4), (".a[0,1]", 3)]
        {
            assert_eq!(parse(path, JSONPATH_DEPTH_MAX - 2), Ok(()), "{path}");
            assert_eq!(
                parse(path, JSONPATH_DEPTH_MAX),
                Err((byte, JsonPathProblem::TooDeep)),
                "{path}"
            );
        }
    }
}
