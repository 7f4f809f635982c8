//! What OpenAPI does not say of built-in types: `rules.txt`.
//!
//! ```text
//! type core.v1.ContainerPort
//!  containerPort 1..65535
//!  name port-name
//! type core.v1.EnvVar
//!  * at-most-one:value,valueFrom
//! ```
//!
//! The words of a field:
//!
//! - `required`, and `optional` where OpenAPI requires what the API server does not;
//! - `A..B`, a range of numbers, also in a list of them, and of lengths for other lists; either end
//!   may be left out;
//! - `=a|b`, the only values, also of the items of a list;
//! - the name of a [`Format`]; `keys:FORMAT` and `values:FORMAT` for maps, `each:FORMAT` for lists;
//! - `unique:a,b`: no two items of the list have equal values in all of these fields; `unique:.`
//!   for items without fields.
//!
//! The words of `*`, the type as a whole, are `exactly-one:`, `at-most-one:` and `at-least-one:`
//! with fields.

use std::collections::HashMap;

use crate::formats::Format;

/// The rules of a field, or of a type as a whole.
#[derive(Debug, Clone, Default)]
pub(crate) struct FieldRules {
    pub(crate) is_required: bool,
    /// OpenAPI requires it, and the API server does not.
    pub(crate) is_optional: bool,
    pub(crate) range: Option<(i64, i64)>,
    pub(crate) values: Vec<&'static str>,
    pub(crate) format: Option<Format>,
    pub(crate) each: Option<Format>,
    pub(crate) keys: Option<Format>,
    pub(crate) map_values: Option<Format>,
    pub(crate) unique: Vec<Vec<&'static str>>,
    pub(crate) choices: Vec<Choice>,
}

/// How many of some fields an object has.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) least: usize,
    pub(crate) most: usize,
    pub(crate) fields: Vec<&'static str>,
}

/// The rules by type and field.
pub(crate) struct Rules {
    by_field: HashMap<(&'static str, &'static str), FieldRules>,
}

impl Rules {
    /// Reads the rules. Words that mean nothing are left out.
    pub(crate) fn parse(text: &'static str) -> Self {
        let mut by_field: HashMap<_, FieldRules> = HashMap::new();
        for (of, field, words) in lines(text) {
            let rules = by_field.entry((of, field)).or_default();
            for word in words {
                let _is_known = rules.add(word);
            }
        }
        Self { by_field }
    }

    /// The rules of a field; `*` for the type as a whole.
    pub(crate) fn of(&self, of: &str, field: &str) -> FieldRules {
        let by_field: &HashMap<(&str, &str), FieldRules> = &self.by_field;
        by_field.get(&(of, field)).cloned().unwrap_or_default()
    }
}

/// The lines about fields, with their type. A type line may name several types.
fn lines(
    text: &'static str,
) -> impl Iterator<Item = (&'static str, &'static str, impl Iterator<Item = &'static str>)> {
    let mut types: Vec<&'static str> = Vec::new();
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(names) = line.strip_prefix("type ") {
            types = names.split(' ').collect();
        } else if let Some(line) = line.strip_prefix(' ') {
            let (field, words) = line.split_once(' ').unwrap_or((line, ""));
            found.extend(types.iter().map(|of| (*of, field, words.split(' '))));
        }
    }
    found.into_iter()
}

impl FieldRules {
    /// Adds a word; `None` if it means nothing.
    fn add(&mut self, word: &'static str) -> Option<()> {
        let list = |text: &'static str| text.split(',').collect::<Vec<_>>();
        let choice = |text, least, most| Choice { least, most, fields: list(text) };
        if let Some(values) = word.strip_prefix('=') {
            self.values = values.split('|').collect();
        } else if let Some((least, most)) = word.split_once("..") {
            let least = if least.is_empty() { i64::MIN } else { least.parse().ok()? };
            let most = if most.is_empty() { i64::MAX } else { most.parse().ok()? };
            self.range = Some((least, most));
        } else if let Some((word, argument)) = word.split_once(':') {
            match word {
                "each" => self.each = Some(Format::parse(argument)?),
                "keys" => self.keys = Some(Format::parse(argument)?),
                "values" => self.map_values = Some(Format::parse(argument)?),
                "unique" => self.unique.push(list(argument)),
                "exactly-one" => self.choices.push(choice(argument, 1, 1)),
                "at-most-one" => self.choices.push(choice(argument, 0, 1)),
                "at-least-one" => self.choices.push(choice(argument, 1, usize::MAX)),
                _ => return None,
            }
        } else {
            match word {
                "required" => self.is_required = true,
                "optional" => self.is_optional = true,
                _ => self.format = Some(Format::parse(word)?),
            }
        }
        Some(())
    }
}

#[cfg(test)]
impl Rules {
    /// The types and fields that rules are about.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.by_field.keys().copied()
    }

    /// The words that mean nothing.
    pub(crate) fn unread(text: &'static str) -> Vec<String> {
        let mut found = Vec::new();
        for (of, field, words) in lines(text) {
            let bad = words.filter(|word| FieldRules::default().add(word).is_none());
            found.extend(bad.map(|word| format!("{of} {field} {word}")));
        }
        found
    }
}
