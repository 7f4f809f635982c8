//! Composes scalars, and checks the tags of all nodes.

use granit_parser::{ScalarStyle, Tag};
use serde_json::Value;

use super::{Composer, yaml_tag};
use crate::problem::ProblemKind;
use crate::scalar::{self, AmbiguousReading, Scalar, TagError};
use crate::span::Span;

impl Composer<'_> {
    pub(super) fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: Span,
    ) -> Value {
        let resolved = match tag {
            Some(tag) => tagged(tag, text),
            None if style == ScalarStyle::Plain => Ok(self.plain(text, span)),
            None => Ok(Scalar::Value(text.into())),
        };
        match resolved {
            Ok(Scalar::Value(value)) => value,
            Ok(Scalar::NoJson) => {
                let message = "JSON has no infinite numbers and no NaN";
                self.report(ProblemKind::Number, span, message);
                Value::Null
            }
            Err(error) => {
                self.report(ProblemKind::Tag, span, error.to_string());
                Value::Null
            }
        }
    }

    fn plain(&mut self, text: &str, span: Span) -> Scalar {
        let (scalar, ambiguous) = scalar::plain(text);
        if let (Some(reading), Scalar::Value(value)) = (ambiguous, &scalar) {
            let message = match reading {
                AmbiguousReading::Word => format!("{text} is read as the boolean {value}"),
                AmbiguousReading::Digits => format!("{text} is read as the number {value}"),
            };
            self.report(ProblemKind::AmbiguousScalar, span, message);
        }
        scalar
    }

    pub(super) fn check_collection_tag(&mut self, tag: Option<&Tag>, expected: &str, span: Span) {
        if let Some(tag) = tag
            && yaml_tag(tag).as_deref() != Some(expected)
        {
            self.report(ProblemKind::Tag, span, TagError::Unknown(tag.original()).to_string());
        }
    }
}

fn tagged(tag: &Tag, text: &str) -> Result<Scalar, TagError> {
    match yaml_tag(tag).as_deref() {
        Some(name) => scalar::tagged(name, text),
        // `!` alone means: text.
        None if tag.suffix().is_empty() || tag.original() == "!" => Ok(Scalar::Value(text.into())),
        None => Err(TagError::Unknown(tag.original())),
    }
}
