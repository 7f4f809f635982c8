//! The parts of a parsed path.

use serde_json::Value;

/// One part of a template: text outside braces, or the steps of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    Text(Value),
    Expression(Vec<Node>),
}

/// One step: maps a list of values to a list of values.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// Quoted text: one value, whatever the input.
    Text(Value),
    /// A number or a boolean: once for each input value.
    Literal(Value),
    Field(String),
    Slice(Slice),
    Exists(Vec<Node>),
    Compare {
        left: Vec<Node>,
        operator: ComparisonOperator,
        right: Vec<Node>,
    },
    Wildcard,
    Descent,
    Union(Vec<Vec<Node>>),
    /// A bare word: it parses, but its evaluation fails.
    Word(String),
}

/// A comparison in a filter.
#[derive(Debug, Clone, PartialEq)]
pub enum ComparisonOperator {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// Other runs of `!`, `<`, `>` and `=`: they parse, but the first comparison fails.
    Unknown(String),
}

/// `[start:end:step]`, or `[start]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slice {
    pub start: Option<i64>,
    pub end: End,
    pub step: Option<i64>,
}

/// The end of a slice; that item is not part of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    Open,
    At(i64),
    /// The index after a single index.
    AfterStart(i64),
}
