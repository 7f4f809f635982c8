//! Compares a value with its shape.

use gitwork_api::escape::{pointer_name, pointer_token};
use serde_json::{Map, Number, Value};

use crate::finding::{Correction, Finding, Problem, described, is_unquoted, quote_hint, shown};
use crate::formats::Format;
use crate::limits;
use crate::rules::{Choice, FieldRules};
use crate::scalars;
use crate::shape::Shape;
use crate::suggest::{certain, closest};
use crate::table::{Field, Minors, Table, Type};

/// Checks the fields of a value of a type, by its name, with each other.
pub(crate) type FieldsCheck = fn(&mut Checker<'_>, &str, &Map<String, Value>);

/// The state of the check of one object.
pub(crate) struct Checker<'a> {
    check_fields: FieldsCheck,
    pub(crate) table: &'a Table,
    /// The minors that the cluster may run.
    pub(crate) wanted: Minors,
    /// Whether the cluster may run a minor that the table does not have.
    pub(crate) is_uncertain: bool,
    /// "edge-7 runs 1.31", or empty.
    pub(crate) runs: String,
    /// Whether values must not be in messages.
    pub(crate) is_secret: bool,
    pub(crate) found: Vec<Finding>,
    pointer: String,
    depth: usize,
    steps: usize,
    /// The types that the current value is in.
    parents: Vec<usize>,
    /// Whether the value is in a `status`, which the API server decodes and drops.
    is_dropped: bool,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(table: &'a Table, wanted: Minors, check_fields: FieldsCheck) -> Self {
        Self {
            check_fields,
            table,
            wanted,
            is_uncertain: false,
            runs: String::new(),
            is_secret: false,
            found: Vec::new(),
            pointer: String::new(),
            depth: 0,
            steps: 0,
            parents: Vec::new(),
            is_dropped: false,
        }
    }

    /// Reports a problem of the current value.
    pub(crate) fn report(&mut self, problem: Problem, message: impl Into<String>) {
        self.add(problem, "", false, message.into());
    }

    /// Reports a problem of a value below the current one, by a relative pointer.
    pub(crate) fn report_at(&mut self, problem: Problem, below: &str, message: impl Into<String>) {
        self.add(problem, below, false, message.into());
    }

    /// Reports a problem of a key of the current mapping.
    pub(crate) fn report_key(&mut self, problem: Problem, key: &str, message: impl Into<String>) {
        self.add(problem, &format!("/{}", pointer_token(key)), true, message.into());
    }

    fn add(&mut self, problem: Problem, below: &str, is_key: bool, message: String) {
        if self.is_full() {
            return;
        }
        let pointer = format!("{}{below}", self.pointer);
        self.found.push(Finding {
            problem,
            pointer,
            is_key,
            message,
            is_uncertain: false,
            correction: None,
        });
    }

    /// Reports problems with what corrects the last one of them.
    pub(crate) fn correcting(
        &mut self,
        correction: Option<Correction>,
        report: impl FnOnce(&mut Self),
    ) {
        let before = self.found.len();
        report(self);
        if let Some(last) = self.found.get_mut(before..).and_then(<[Finding]>::last_mut) {
            last.correction = correction;
        }
    }

    /// Whether a value has no problem but some that are certainly corrected.
    pub(crate) fn would_accept(&mut self, check: impl FnOnce(&mut Self)) -> bool {
        let before = self.found.len();
        check(self);
        let found = self.found.get(before..).unwrap_or_default();
        let is_accepted = !self.is_full() && found.iter().all(|one| one.correction.is_some());
        self.found.truncate(before);
        is_accepted
    }

    /// Whether the current value is in a value of a type.
    pub(crate) fn is_in(&self, name: &str) -> bool {
        let is_it = |of: &usize| self.table.types.get(*of).is_some_and(|one| one.name == name);
        self.parents.iter().any(is_it)
    }

    fn is_full(&self) -> bool {
        self.found.len() >= limits::FINDINGS_MAX
    }

    /// Counts a step. `false` if no more may be done.
    pub(crate) fn may_go_on(&mut self) -> bool {
        self.steps += 1;
        self.steps < limits::STEPS_MAX && self.depth < limits::DEPTH_MAX && !self.is_full()
    }

    /// Does something with a value below the current one.
    pub(crate) fn below(&mut self, token: &str, act: impl FnOnce(&mut Self)) {
        let length = self.pointer.len();
        self.pointer.push('/');
        if token.contains(['~', '/']) {
            self.pointer.push_str(&pointer_token(token));
        } else {
            self.pointer.push_str(token);
        }
        self.depth += 1;
        act(self);
        self.depth -= 1;
        self.pointer.truncate(length);
    }

    /// The last token of the pointer, for messages.
    fn name(&self) -> String {
        let tokens = self.pointer.rsplit('/').filter(|one| one.parse::<usize>().is_err());
        let name = tokens.into_iter().next().unwrap_or_default();
        shown(&pointer_name(name))
    }

    /// A value as messages show it.
    pub(crate) fn value_text(&self, text: &str) -> String {
        if self.is_secret { "the value".to_owned() } else { format!("{:?}", shown(text)) }
    }

    /// Checks a value. Of `rules`, those of the value itself.
    pub(crate) fn value(&mut self, value: &Value, shape: &Shape, rules: &FieldRules) {
        // Go's decoders leave the default in place of a null.
        if value.is_null() || !self.may_go_on() {
            return;
        }
        match (shape, value) {
            (Shape::List(item), Value::Array(items)) => self.list(items, item, rules),
            (Shape::Map(inner), Value::Object(fields)) => self.map(fields, inner, rules),
            (Shape::Type(of), Value::Object(fields)) => self.object(fields, *of),
            (Shape::SchemaOrArray, Value::Array(items)) => {
                self.list(items, &Shape::Type(self.table.json_schema), rules);
            }
            (Shape::SchemaOrStrings, Value::Array(items)) => {
                self.list(items, &Shape::String, rules);
            }
            (Shape::SchemaOrArray | Shape::SchemaOrBool | Shape::SchemaOrStrings, value) => {
                if !(value.is_boolean() && *shape == Shape::SchemaOrBool) {
                    self.value(value, &Shape::Type(self.table.json_schema), rules);
                }
            }
            (Shape::Any | Shape::Object, _) => {}
            _ => self.scalar(value, shape, rules),
        }
    }

    fn list(&mut self, items: &[Value], item: &Shape, rules: &FieldRules) {
        let is_of_numbers = matches!(item, Shape::Int32 | Shape::Int64);
        if !is_of_numbers {
            self.check_length(items.len(), rules);
        }
        let of_item = FieldRules {
            values: rules.values.clone(),
            format: rules.each,
            range: rules.range.filter(|_| is_of_numbers),
            ..FieldRules::default()
        };
        for (index, one) in items.iter().enumerate() {
            self.below(&index.to_string(), |checker| checker.value(one, item, &of_item));
        }
        for keys in &rules.unique {
            self.check_unique(items, keys);
        }
    }

    fn check_length(&mut self, length: usize, rules: &FieldRules) {
        let Some((least, most)) = rules.range else { return };
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        if length > most {
            let name = self.name();
            self.report(
                Problem::InvalidValue,
                format!("`{name}` has {length} items; at most {most} are allowed"),
            );
        } else if length < least {
            let name = self.name();
            self.report(
                Problem::InvalidValue,
                format!("`{name}` has {length} items; at least {least} are needed"),
            );
        }
    }

    /// No two items are equal in all of the keys.
    fn check_unique(&mut self, items: &[Value], keys: &[&str]) {
        let mut known = std::collections::HashMap::new();
        for (index, item) in items.iter().enumerate() {
            let value = |key: &&str| if *key == "." { Some(item) } else { item.get(*key) };
            let of_item: Vec<Option<&Value>> = keys.iter().map(value).collect();
            let is_set = |one: &&&Value| !one.is_null() && ***one != "";
            if of_item.iter().flatten().filter(is_set).count() == 0 {
                continue;
            }
            let texts: Vec<String> = of_item
                .iter()
                .map(|one| one.map_or_else(String::new, ToString::to_string))
                .collect();
            let Some(first) = known.insert(texts.clone(), index) else { continue };
            let what: Vec<String> = keys
                .iter()
                .zip(&texts)
                .map(|(key, text)| match *key {
                    "." => shown(text),
                    key => format!("{key} {}", shown(text)),
                })
                .collect();
            let what = if self.is_secret { keys.join(", ") } else { what.join(", ") };
            let message =
                format!("items {first} and {index} of `{}` have the same {what}", self.name());
            self.report_at(Problem::InvalidValue, &format!("/{index}"), message);
        }
    }

    fn map(&mut self, fields: &Map<String, Value>, inner: &Shape, rules: &FieldRules) {
        let of_value = FieldRules { format: rules.map_values, ..FieldRules::default() };
        for (key, value) in fields {
            if let Some(why) = rules.keys.and_then(|format| format.problem(key)) {
                let message = format!("the key {:?} {why}", shown(key));
                self.report_key(Problem::InvalidValue, key, message);
            }
            self.below(key, |checker| checker.value(value, inner, &of_value));
        }
    }

    fn object(&mut self, fields: &Map<String, Value>, of: usize) {
        let table = self.table;
        let Some(of_type) = table.types.get(of) else { return };
        self.parents.push(of);
        for (key, value) in fields {
            match of_type.field(key, self.wanted) {
                Some(field) => self.field(key, value, field),
                None => self.unknown_field((key, value), fields, of_type),
            }
        }
        if self.is_dropped {
            self.parents.pop();
            return;
        }
        let wanted = self.wanted;
        for field in of_type.fields.iter().filter(|field| field.at & wanted != 0) {
            self.check_required(fields, field);
        }
        for choice in &of_type.rules.choices {
            self.check_choice(fields, choice, of_type);
        }
        (self.check_fields)(self, of_type.name, fields);
        self.parents.pop();
    }

    fn field(&mut self, key: &str, value: &Value, field: &Field) {
        let is_dropped = self.is_dropped;
        self.is_dropped |= self.depth == 0 && key == "status";
        let none = FieldRules::default();
        let rules = if self.is_dropped { &none } else { &field.rules };
        self.below(key, |checker| checker.value(value, &field.shape, rules));
        self.is_dropped = is_dropped;
    }

    fn check_required(&mut self, fields: &Map<String, Value>, field: &Field) {
        if field.rules.is_required && is_missing(fields.get(field.name)) {
            let message = format!("the required field `{}` is missing", field.name);
            let is_new = !fields.contains_key(field.name) && !fields.is_empty();
            let add = match field.rules.values.as_slice() {
                [value] if is_new => {
                    Some(Correction::Add(field.name.to_owned(), (*value).to_owned()))
                }
                _ => None,
            };
            self.correcting(add, |checker| checker.missing(fields, field.name, message));
        }
    }

    /// Reports a field that is missing, or empty.
    pub(crate) fn missing(&mut self, fields: &Map<String, Value>, name: &str, message: String) {
        let below = if fields.contains_key(name) { format!("/{name}") } else { String::new() };
        self.report_at(Problem::MissingField, &below, message);
    }

    fn check_choice(&mut self, fields: &Map<String, Value>, choice: &Choice, of: &Type) {
        let is_set = |name: &&&str| fields.get(**name).is_some_and(|value| !is_unset(value));
        let set: Vec<&str> = choice.fields.iter().filter(is_set).copied().collect();
        let exists = |name: &&&str| of.field(name, self.wanted).is_some();
        let names: Vec<&str> = choice.fields.iter().filter(exists).copied().collect();
        let of = of.short_name();
        if set.len() < choice.least {
            let message = format!("a {of} needs one of {}", quoted(&names));
            self.report(Problem::MissingField, message);
        } else if set.len() > choice.most {
            let message = format!("a {of} has only one of {}", quoted(&set));
            self.report_at(Problem::InvalidValue, &format!("/{}", set[1]), message);
        }
    }

    fn unknown_field(
        &mut self,
        (key, value): (&str, &Value),
        fields: &Map<String, Value>,
        of: &'a Type,
    ) {
        let forms = of.forms(key);
        let message = if forms.is_empty() {
            let hint = self.hint(key, of);
            format!("{} has no field `{}`{hint}", of.short_name(), shown(key))
        } else {
            let at = forms.iter().fold(0, |all, field| all | field.at);
            let when = crate::kinds::when(self.table, at);
            format!("{} has the field `{key}` {when}{}", of.short_name(), self.runs)
        };
        let meant = self.meant(key, of).filter(|_| forms.is_empty());
        let rename = meant
            .filter(|field| !fields.contains_key(field.name))
            .filter(|field| self.would_accept(|checker| checker.field(field.name, value, field)));
        let rename = rename.map(|field| Correction::Rename(field.name.to_owned()));
        self.correcting(rename, |checker| {
            checker.report_key(Problem::UnknownField, key, message);
        });
        if self.is_uncertain
            && let Some(last) = self.found.last_mut()
        {
            last.is_uncertain = true;
        }
    }

    /// The field that a misspelt one is meant to be, without a doubt.
    fn meant(&self, key: &str, of: &'a Type) -> Option<&'a Field> {
        let known = || of.fields.iter().filter(|field| field.at & self.wanted != 0);
        let name = certain(key, known().map(|field| field.name))?;
        known().find(|field| field.name == name)
    }

    /// Where a field may belong.
    fn hint(&self, key: &str, of: &Type) -> String {
        let is_known = |field: &&Field| field.at & self.wanted != 0;
        let names = of.fields.iter().filter(is_known).map(|field| field.name);
        if let Some(near) = closest(key, names) {
            return format!("; did you mean `{near}`?");
        }
        for field in of.fields.iter().filter(is_known) {
            let inner = field.shape.inner_type().and_then(|of| self.table.types.get(of));
            if inner.is_some_and(|inner| inner.field(key, self.wanted).is_some()) {
                return format!("; it belongs in `{}`", field.name);
            }
        }
        let parents = self.parents.iter().rev().skip(1);
        let mut parents = parents.filter_map(|of| self.table.types.get(*of));
        let owner = parents.find(|one| one.field(key, self.wanted).is_some());
        owner.map_or_else(String::new, |one| format!("; it belongs in {}", one.short_name()))
    }

    fn scalar(&mut self, value: &Value, shape: &Shape, rules: &FieldRules) {
        let wrong = match (shape, value) {
            (Shape::String, Value::String(text)) => return self.text(text, rules),
            (Shape::Boolean, Value::Bool(_)) | (Shape::Double, Value::Number(_)) => return,
            (Shape::Int32, Value::Number(number)) => {
                return self.integer(number, (i32::MIN.into(), i32::MAX.into()), rules);
            }
            (Shape::Int64, Value::Number(number)) => {
                return self.integer(number, (i64::MIN, i64::MAX), rules);
            }
            (Shape::IntOrString, Value::String(text)) => return self.text(text, rules),
            (Shape::IntOrString, Value::Number(number)) => {
                return self.integer(number, (i32::MIN.into(), i32::MAX.into()), rules);
            }
            (Shape::Quantity, Value::Number(number)) => {
                return self.quantity(&number.to_string(), rules);
            }
            (Shape::Quantity, Value::String(text)) => return self.quantity(text, rules),
            (Shape::Bytes, Value::String(text)) => !scalars::is_base64(text),
            (Shape::Bytes, Value::Array(items)) => items.iter().any(|one| !is_byte(one)),
            (Shape::Time, Value::String(text)) => !scalars::is_time(text),
            (Shape::MicroTime, Value::String(text)) => !scalars::is_micro_time(text),
            (Shape::Duration, Value::String(text)) => !scalars::is_duration(text),
            _ => true,
        };
        if wrong {
            self.wrong_type(value, shape);
        }
    }

    fn wrong_type(&mut self, value: &Value, shape: &Shape) {
        let expected = expected(shape);
        let found = match value {
            Value::String(text) => self.value_text(text),
            Value::Number(_) | Value::Bool(_) if self.is_secret => "the value".to_owned(),
            other => described(other),
        };
        let quote = quote_hint(value, *shape == Shape::String);
        let message = format!("`{}` must be {expected}, not {found}{quote}", self.name());
        let is_unquoted = is_unquoted(value, *shape == Shape::String);
        let quote = is_unquoted.then_some(Correction::Quote);
        self.correcting(quote, |checker| checker.report(Problem::WrongType, message));
    }

    fn text(&mut self, text: &str, rules: &FieldRules) {
        // Empty is as good as missing, which is checked where it matters.
        if text.is_empty() {
            return;
        }
        if !rules.values.is_empty() && !rules.values.contains(&text) {
            let near = closest(text, rules.values.iter().copied());
            let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            let all = rules.values.join(", ");
            let message = format!(
                "`{}` is {}, and must be one of {all}{hint}",
                self.name(),
                self.value_text(text)
            );
            self.report(Problem::InvalidValue, message);
        }
        if let Some(why) = rules.format.and_then(|format| format.problem(text)) {
            let message = format!("`{}` is {}, which {why}", self.name(), self.value_text(text));
            self.report(Problem::InvalidValue, message);
        }
    }

    fn integer(&mut self, number: &Number, bounds: (i64, i64), rules: &FieldRules) {
        let whole = number.as_i64().or_else(|| whole(number));
        let Some(whole) = whole.filter(|whole| (bounds.0..=bounds.1).contains(whole)) else {
            let bits = if bounds.1 == i64::MAX { 64 } else { 32 };
            let message =
                format!("`{}` must be a whole number of {bits} bits, not {number}", self.name());
            return self.report(Problem::WrongType, message);
        };
        let Some((least, most)) = rules.range else { return };
        if !(least..=most).contains(&whole) {
            let message =
                format!("`{}` is {whole}, and must be {}", self.name(), range_text(least, most));
            self.report(Problem::InvalidValue, message);
        }
    }

    fn quantity(&mut self, text: &str, rules: &FieldRules) {
        let Some(value) = scalars::quantity_value(text) else {
            let what = self.value_text(text);
            let message =
                format!("`{}` must be a quantity, such as 500m or 1Gi, not {what}", self.name());
            return self.report(Problem::WrongType, message);
        };
        let wanted = match rules.format {
            Some(Format::Positive) if value <= 0.0 => "positive",
            Some(Format::Quantity) if value < 0.0 => "zero or positive",
            _ => return,
        };
        let message = format!("`{}` is {}, and must be {wanted}", self.name(), shown(text));
        self.report(Problem::InvalidValue, message);
    }
}

/// A number such as `3.0`, which YAML writes for a whole one.
fn whole(number: &Number) -> Option<i64> {
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e15)?;
    format!("{float:.0}").parse().ok()
}

fn is_byte(value: &Value) -> bool {
    value.as_u64().is_some_and(|byte| u8::try_from(byte).is_ok())
}

/// Whether a field is missing for the API server: it cannot tell an empty value from none.
pub(crate) fn is_missing(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

/// Whether a value leaves its field as it is by default. An empty mapping does not.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Bool(truth) => !truth,
        value => is_missing(Some(value)),
    }
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

fn range_text(least: i64, most: i64) -> String {
    match (least, most) {
        (least, i64::MAX) => format!("at least {least}"),
        (i64::MIN, most) => format!("at most {most}"),
        (least, most) => format!("between {least} and {most}"),
    }
}

fn expected(shape: &Shape) -> &'static str {
    match shape {
        Shape::String => "text",
        Shape::Boolean => "true or false",
        Shape::Int32 | Shape::Int64 => "a whole number",
        Shape::Double => "a number",
        Shape::Bytes => "base64",
        Shape::Time => "a time, such as 2026-11-25T03:00:00Z",
        Shape::MicroTime => "a time with six digits, such as 2026-11-25T03:00:00.000000Z",
        Shape::Duration => "a duration, such as 1h30m",
        Shape::Quantity => "a quantity, such as 500m or 1Gi",
        Shape::IntOrString => "a whole number or text",
        Shape::List(_) => "a list",
        Shape::Map(_) | Shape::Type(_) | Shape::Object => "a mapping",
        Shape::SchemaOrArray => "a schema or a list of schemas",
        Shape::SchemaOrBool => "a schema, true or false",
        Shape::SchemaOrStrings => "a schema or a list of names",
        Shape::Any => "any value",
    }
}
