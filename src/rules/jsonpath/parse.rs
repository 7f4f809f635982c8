//! Text into steps, in client-go's grammar (`util/jsonpath/parser.go`).

use serde_json::{Number, Value};

use super::{End, Node, Operator, Part, Slice};
use crate::limits::{JSONPATH_BYTES_MAX, JSONPATH_DEPTH_MAX};

/// A path that does not parse, or cannot give a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} (character {column} of the path)")]
pub struct JsonPathError {
    /// Character of the path where the problem is, from 1.
    pub column: usize,
    pub problem: JsonPathProblem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathProblem {
    #[error("the path is longer than {JSONPATH_BYTES_MAX} bytes")]
    TooLong,
    #[error("the path nests deeper than {JSONPATH_DEPTH_MAX} levels")]
    TooDeep,
    #[error("the path breaks off here: a line break or a final backslash is in the way")]
    Unfinished,
    #[error("{0:?} has no meaning here: fields start with '.', texts stand in quotes")]
    UnexpectedCharacter(char),
    #[error("'{{' has no meaning here: write the path without braces")]
    Brace,
    #[error("the path ends at this '}}': write the path without braces")]
    EndsHere,
    #[error("'[' is never closed by ']'")]
    UnclosedBracket,
    #[error("'[?(' is never closed by ')'; a ')' within quotes does not count")]
    UnclosedFilter,
    #[error("the filter must end with ')]'")]
    FilterWithoutBracket,
    #[error("the quote is never closed")]
    UnclosedQuote,
    #[error("the quoted text {0} holds an escape that is not known")]
    BadEscape(String),
    #[error("[{0}] is no index: write a number, a slice a:b:c, '*', or a key in single quotes")]
    BadIndex(String),
    #[error("{0} is no number, or one that is too large")]
    BadNumber(String),
    #[error("'..' may not follow '..'")]
    RepeatedDescent,
    #[error("{0:?} is neither field nor text: a field is .{0}, a text is \"{0}\"")]
    BareWord(String),
    #[error("{0:?} is no comparison: use ==, !=, <, <=, > or >=")]
    UnknownOperator(String),
    #[error("{0:?} has no meaning here: a filter knows no && and no ||")]
    LogicalOperator(char),
    #[error("a '.' in a quoted key separates fields: write '\\.' where the key itself has a dot")]
    DottedKey,
    #[error("a step must be greater than 0")]
    BadStep,
}

/// A problem and its byte in the template.
type Failure = (usize, JsonPathProblem);

/// Parses a path into the parts of the template `{path}`.
pub fn path(path: &str) -> Result<Vec<Part>, JsonPathError> {
    scan(path).map(|(parts, _)| parts)
}

/// Refuses what parses but cannot work.
pub fn check(path: &str) -> Result<(), JsonPathError> {
    match scan(path)?.1 {
        Some(failure) => Err(located(path, failure)),
        None => Ok(()),
    }
}

/// The parts, and the first thing in them that cannot work.
fn scan(path: &str) -> Result<(Vec<Part>, Option<Failure>), JsonPathError> {
    if path.len() > JSONPATH_BYTES_MAX {
        return Err(JsonPathError { column: 1, problem: JsonPathProblem::TooLong });
    }
    let mut parser = Parser::of(path, -1, 0);
    let parts = parser.template().map_err(|failure| located(path, failure))?;
    if parts.len() > 1 {
        let first_end = parser.first_end;
        parser.doubt(first_end, JsonPathProblem::EndsHere);
    }
    Ok((parts, parser.doubt))
}

fn located(path: &str, (at, problem): Failure) -> JsonPathError {
    let before = path.char_indices().take_while(|(index, _)| *index < at).count();
    JsonPathError { column: before + 1, problem }
}

struct Parser {
    /// The template of this level: an expression between braces.
    input: String,
    position: usize,
    /// What to add to a byte of `input` to get a byte of the whole path.
    origin: isize,
    depth: usize,
    first_end: usize,
    /// The first thing that parses and cannot work.
    doubt: Option<Failure>,
}

impl Parser {
    /// A parser for `text` between braces, whose first byte is at `origin + 1` of the whole path.
    fn of(text: &str, origin: isize, depth: usize) -> Self {
        let input = format!("{{{text}}}");
        Self { input, position: 0, origin, depth, first_end: 0, doubt: None }
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

    fn doubt(&mut self, position: usize, problem: JsonPathProblem) {
        let failure = (self.at(position), problem);
        self.doubt.get_or_insert(failure);
    }

    /// Texts and expressions to the end of the input.
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

    /// The steps up to and with the closing brace.
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

    /// A field up to the next character that ends a name; a backslash takes the next one in.
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

    /// A bare word or a boolean, whose first character is read already.
    fn word(&mut self, start: usize) -> Node {
        while self.peek().is_some_and(|c| !ends_name(c)) {
            self.next();
        }
        let word = self.since(start);
        match word.as_str() {
            "true" => Node::Literal(Value::Bool(true)),
            "false" => Node::Literal(Value::Bool(false)),
            _ => {
                self.doubt(start, JsonPathProblem::BareWord(word.clone()));
                Node::Word(word)
            }
        }
    }

    /// A number, whose first character is read already.
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

    /// A quoted text, whose opening quote is read already.
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

    /// What stands in brackets and is no filter; the opening bracket is read already.
    fn bracket(&mut self, nodes: &mut Vec<Node>) -> Result<(), Failure> {
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
                self.doubt(start, JsonPathProblem::DottedKey);
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
                    self.doubt(start, JsonPathProblem::BadStep);
                }
                nodes.push(Node::Slice(slice));
                Ok(())
            }
            None => self.fail(start, JsonPathProblem::BadIndex(text)),
        }
    }

    /// The steps of an expression within this one: `text`, of which the byte `skip` of its template
    /// stands at `position` of ours.
    fn inner(&mut self, text: &str, position: usize, skip: usize) -> Result<Vec<Node>, Failure> {
        if self.depth >= JSONPATH_DEPTH_MAX {
            return self.fail(position, JsonPathProblem::TooDeep);
        }
        let origin = self.origin.saturating_add_unsigned(position).saturating_sub_unsigned(skip);
        let mut parser = Parser::of(text, origin, self.depth + 1);
        let parts = parser.template()?;
        if parts.len() > 1 {
            let first_end = parser.first_end;
            parser.doubt(first_end, JsonPathProblem::EndsHere);
        }
        if self.doubt.is_none() {
            self.doubt = parser.doubt;
        }
        match parts.into_iter().next() {
            Some(Part::Expression(nodes)) => Ok(nodes),
            // Our own opening brace comes first.
            _ => Ok(Vec::new()),
        }
    }

    fn filter(&mut self) -> Result<Node, Failure> {
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
        if let Operator::Unknown(text) = &operator {
            self.doubt(operator_at, JsonPathProblem::UnknownOperator(text.clone()));
        }
        Ok(Node::Compare { left, operator, right })
    }

    /// Reads to behind `)]`; answers where the `)` stands. One quoted text is stepped over; in a
    /// second one a `)` would end the filter.
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

/// What ends a name.
fn ends_name(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// Left side, operator and right side; nothing when there is no operator between two sides.
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

fn operator_of(text: &str) -> Operator {
    match text {
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterEqual,
        other => Operator::Unknown(other.to_owned()),
    }
}

/// `start:end:step`, every part optional.
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

/// A text without its quotes and with Go's escapes replaced; nothing for an escape that Go does not
/// know.
fn unquote(text: &str, quote: char) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == quote {
            return None;
        }
        if c == '\\' {
            escape(&mut chars, quote, &mut out)?;
        } else {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    // \xff may build what is no UTF-8; Go replaces it when it writes JSON.
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// One escape of Go's `strconv.UnquoteChar`, behind its backslash.
fn escape(chars: &mut std::str::Chars<'_>, quote: char, out: &mut Vec<u8>) -> Option<()> {
    let byte = match chars.next()? {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' => b'\\',
        c if c == quote => u8::try_from(c).ok()?,
        'x' => u8::try_from(digits(chars, 2, 16)?).ok()?,
        'u' => return unicode(digits(chars, 4, 16)?, out),
        'U' => return unicode(digits(chars, 8, 16)?, out),
        c => {
            let first = c.to_digit(8)?;
            u8::try_from(first * 64 + digits(chars, 2, 8)?).ok()?
        }
    };
    out.push(byte);
    Some(())
}

fn unicode(code: u32, out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut [0; 4]).as_bytes());
    Some(())
}

fn digits(chars: &mut std::str::Chars<'_>, count: usize, radix: u32) -> Option<u32> {
    let mut value = 0_u32;
    for _ in 0..count {
        value = value.checked_mul(radix)?.checked_add(chars.next()?.to_digit(radix)?)?;
    }
    Some(value)
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
