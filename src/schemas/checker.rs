//! Compares a value with its shape.

use gitwork_api::escape::{pointer_name, pointer_token};
use serde_json::{Map, Number, Value};

use crate::finding::{
    Correction, Expected, Finding, Problem, described, is_unquoted, length_problem, quotes_hint,
    shown, type_of,
};
use crate::formats::Format;
use crate::limits;
use crate::rules::{Choice, FieldRules};
use crate::scalars;
use crate::shape::Shape;
use crate::suggest::did_you_mean;
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
    /// ` (edge-7 runs 1.31)`, or empty.
    pub(crate) runs: String,
    /// What messages call the object as a whole.
    pub(crate) object: String,
    /// Whether values must not be in messages.
    pub(crate) is_secret: bool,
    pub(crate) found: Vec<Finding>,
    pointer: String,
    /// Where the name of the last field stands in the pointer; the start is 0 without one.
    name_at: (usize, usize),
    depth: usize,
    steps: usize,
    /// Steps of the search for the places of unknown fields.
    pub(crate) search_steps: usize,
    /// Whether nobody reads the messages of the current check.
    pub(crate) is_trial: bool,
    /// The types that the current value is in.
    pub(crate) parents: Vec<usize>,
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
            object: "the object".to_owned(),
            is_secret: false,
            found: Vec::new(),
            pointer: String::new(),
            name_at: (0, 0),
            depth: 0,
            steps: 0,
            search_steps: 0,
            is_trial: false,
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
            is_key: is_key || problem == Problem::MissingField,
            message,
            help: None,
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
        self.changing_last(report, |last| last.correction = correction);
    }

    /// Reports problems, and changes the last one of them.
    pub(crate) fn changing_last(
        &mut self,
        report: impl FnOnce(&mut Self),
        change: impl FnOnce(&mut Finding),
    ) {
        let before = self.found.len();
        report(self);
        if let Some(last) = self.found.get_mut(before..).and_then(<[Finding]>::last_mut) {
            change(last);
        }
    }

    /// Whether a value has no problem but some that are certainly corrected.
    pub(crate) fn would_accept(&mut self, check: impl FnOnce(&mut Self)) -> bool {
        let before = self.found.len();
        let was_trial = std::mem::replace(&mut self.is_trial, true);
        check(self);
        self.is_trial = was_trial;
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

    pub(crate) fn is_full(&self) -> bool {
        self.found.len() >= limits::FINDINGS_MAX
    }

    /// Counts a step. `false` if no more may be done.
    pub(crate) fn may_go_on(&mut self) -> bool {
        self.steps += 1;
        self.steps < limits::STEPS_MAX && self.depth < limits::DEPTH_MAX && !self.is_full()
    }

    /// Does something with the value of a field of the current mapping.
    pub(crate) fn below(&mut self, key: &str, act: impl FnOnce(&mut Self)) {
        let token = pointer_token(key);
        let start = self.pointer.len() + 1;
        let before = std::mem::replace(&mut self.name_at, (start, start + token.len()));
        self.below_token(&token, act);
        self.name_at = before;
    }

    /// Does something with an item of the current list.
    pub(crate) fn below_item(&mut self, index: usize, act: impl FnOnce(&mut Self)) {
        self.below_token(&index.to_string(), act);
    }

    fn below_token(&mut self, token: &str, act: impl FnOnce(&mut Self)) {
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(token);
        self.depth += 1;
        act(self);
        self.depth -= 1;
        self.pointer.truncate(length);
    }

    /// What messages call the current value: the field that it is, or is an item of.
    pub(crate) fn name(&self) -> String {
        let (start, end) = self.name_at;
        match self.pointer.get(start..end).filter(|_| start > 0) {
            Some(token) => format!("`{}`", shown(&pointer_name(token))),
            None => self.object.clone(),
        }
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
            self.below_item(index, |checker| checker.value(one, item, &of_item));
        }
        for keys in &rules.unique {
            self.check_unique(items, keys);
        }
    }

    fn check_length(&mut self, length: usize, rules: &FieldRules) {
        let Some((least, most)) = rules.range else { return };
        let bound = |bound: i64| usize::try_from(bound.max(0)).unwrap_or(usize::MAX);
        if let Some(why) = length_problem(length, (bound(least), bound(most)), "item") {
            self.report(Problem::InvalidValue, format!("{} {why}", self.name()));
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
                format!("items {first} and {index} of {} have the same {what}", self.name());
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

    pub(crate) fn field(&mut self, key: &str, value: &Value, field: &Field) {
        let is_dropped = self.is_dropped;
        self.is_dropped |= self.depth == 0 && key == "status";
        let none = FieldRules::default();
        let rules = if self.is_dropped { &none } else { &field.rules };
        self.below(key, |checker| checker.value(value, &field.shape, rules));
        self.is_dropped = is_dropped;
    }

    fn check_required(&mut self, fields: &Map<String, Value>, field: &Field) {
        if field.rules.is_required && is_missing(fields.get(field.name)) {
            let is_there = fields.contains_key(field.name);
            let what = if is_there { "is empty" } else { "is missing" };
            let message = format!("the required field `{}` {what}", field.name);
            let is_new = !is_there && !fields.is_empty();
            let add = match field.rules.values.as_slice() {
                [value] if is_new => {
                    Some(Correction::Add(field.name.to_owned(), (*value).to_owned()))
                }
                _ => None,
            };
            self.correcting(add, |checker| checker.report_missing(field.name, message));
        }
    }

    /// Reports that a field of the current mapping is missing, or empty.
    pub(crate) fn report_missing(&mut self, name: &str, message: impl Into<String>) {
        let below = format!("/{}", pointer_token(name));
        self.report_at(Problem::MissingField, &below, message);
    }

    fn check_choice(&mut self, fields: &Map<String, Value>, choice: &Choice, of: &Type) {
        let is_set = |name: &&&str| fields.get(**name).is_some_and(|value| !is_unset(value));
        let set: Vec<&str> = choice.fields.iter().filter(is_set).copied().collect();
        let exists = |name: &&&str| of.field(name, self.wanted).is_some();
        let names: Vec<&str> = choice.fields.iter().filter(exists).copied().collect();
        let of = of.short_name();
        if set.len() < choice.least {
            let message = format!("{} {of} needs one of {}", article(of), quoted(&names));
            self.report(Problem::MissingField, message);
        } else if set.len() > choice.most {
            let message = format!("{} {of} has only one of {}", article(of), quoted(&set));
            self.report_at(Problem::InvalidValue, &format!("/{}", set[1]), message);
        }
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
        let not = match value {
            // The type says nothing, and the text must not be in messages.
            Value::String(_) if self.is_secret && is_written_as_text(shape) => String::new(),
            other if self.is_secret => format!(", not {}", type_of(other)),
            Value::String(text) if is_written_as_text(shape) => format!(", not {:?}", shown(text)),
            other => format!(", not {}", described(other)),
        };
        let of = of_quotes(shape);
        let hint = match shape {
            Shape::Bytes => self.plain_text_hint(),
            _ => quotes_hint(value, of),
        };
        let message = format!("{} must be {}{not}{hint}", self.name(), expected(shape));
        let quote = is_unquoted(value, of).then_some(Correction::Quote);
        self.correcting(quote, |checker| checker.report(Problem::WrongType, message));
    }

    /// Where the text belongs that is not base64.
    fn plain_text_hint(&self) -> &'static str {
        if self.is_in("core.v1.Secret") {
            "; put plain text under `stringData`"
        } else if self.is_in("core.v1.ConfigMap") {
            "; put plain text under `data`"
        } else {
            ""
        }
    }

    fn text(&mut self, text: &str, rules: &FieldRules) {
        // Empty is as good as missing, which is checked where it matters.
        if text.is_empty() {
            return;
        }
        if !rules.values.is_empty() && !rules.values.contains(&text) {
            let (name, all) = (self.name(), rules.values.join(", "));
            let near = did_you_mean(text, rules.values.iter().copied());
            let message = match self.is_secret {
                true => format!("{name} must be one of {all}"),
                false => format!("{name} is {:?}, and must be one of {all}{near}", shown(text)),
            };
            self.report(Problem::InvalidValue, message);
        }
        if let Some(why) = rules.format.and_then(|format| format.problem(text)) {
            let name = self.name();
            let message = match self.is_secret {
                true => format!("the value of {name} {why}"),
                false => format!("{name} is {:?}, which {why}", shown(text)),
            };
            self.report(Problem::InvalidValue, message);
        }
    }

    fn integer(&mut self, number: &Number, bounds: (i64, i64), rules: &FieldRules) {
        let whole = number.as_i64().or_else(|| whole(number));
        let Some(whole) = whole.filter(|whole| (bounds.0..=bounds.1).contains(whole)) else {
            let is_fraction = number.as_f64().is_some_and(|number| number.fract() != 0.0);
            let range = match is_fraction {
                true => String::new(),
                false => format!(" between {} and {}", bounds.0, bounds.1),
            };
            let message = format!("{} must be a whole number{range}, not {number}", self.name());
            return self.report(Problem::WrongType, message);
        };
        let Some((least, most)) = rules.range else { return };
        if !(least..=most).contains(&whole) {
            let range = range_text(least, most);
            let message = format!("{} is {whole}, and must be {range}", self.name());
            self.report(Problem::InvalidValue, message);
        }
    }

    fn quantity(&mut self, text: &str, rules: &FieldRules) {
        let Some(value) = scalars::quantity_value(text) else {
            return self.wrong_type(&Value::from(text), &Shape::Quantity);
        };
        let wanted = match rules.format {
            Some(Format::Positive) if value <= 0.0 => "positive",
            Some(Format::Quantity) if value < 0.0 => "zero or positive",
            _ => return,
        };
        let message = format!("{} is {}, and must be {wanted}", self.name(), shown(text));
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

/// The article of the name of a type.
fn article(name: &str) -> &'static str {
    if name.starts_with(['A', 'E', 'I', 'O']) { "an" } else { "a" }
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Whether values of a shape are texts of a form of their own.
fn is_written_as_text(shape: &Shape) -> bool {
    matches!(
        shape,
        Shape::Bytes | Shape::Time | Shape::MicroTime | Shape::Duration | Shape::Quantity
    )
}

/// What quotes can make of a value of a shape.
fn of_quotes(shape: &Shape) -> Expected {
    match shape {
        Shape::String => Expected::Text,
        Shape::Int32 | Shape::Int64 => Expected::Whole,
        Shape::Double => Expected::Number,
        Shape::Boolean => Expected::Boolean,
        _ => Expected::Other,
    }
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
