//! Values against structural schemas.

use serde_json::{Map, Number, Value};

use super::patterns::Patterns;
use crate::checker::Checker;
use crate::finding::{
    Correction, Expected, Problem, described, is_unquoted, length_problem, quotes_hint, shown,
};
use crate::scalars;
use crate::suggest::{certain, did_you_mean, did_you_mean_field};

/// The fields that every object has.
const OBJECT_FIELDS: &[&str] = &["apiVersion", "kind", "metadata"];

/// Compares the values of one object with schemas.
pub(super) struct Validator<'c, 'a> {
    checker: &'c mut Checker<'a>,
    patterns: Patterns,
}

/// What is allowed in a value besides its schema.
#[derive(Clone, Copy, Default)]
struct Place {
    /// `apiVersion`, `kind` and `metadata`.
    is_object: bool,
    /// Within `anyOf` and the like, which know not all fields.
    is_partial: bool,
}

impl<'c, 'a> Validator<'c, 'a> {
    pub(super) fn new(checker: &'c mut Checker<'a>) -> Self {
        Self { checker, patterns: Patterns::default() }
    }

    /// Checks a whole object.
    pub(super) fn root(&mut self, schema: &Value, object: &Value) {
        self.value(schema, object, Place { is_object: true, is_partial: false });
    }

    fn value(&mut self, schema: &Value, value: &Value, place: Place) {
        if !self.checker.may_go_on() {
            return;
        }
        let Value::Object(schema) = schema else { return };
        if value.is_null() {
            return self.null(schema, place);
        }
        if !self.has_type(schema, value) {
            return;
        }
        match value {
            Value::Object(fields) => self.fields(schema, fields, place),
            Value::Array(items) => self.items(schema, items, place),
            Value::String(text) => self.text(schema, text),
            Value::Number(number) => self.number(schema, number),
            Value::Null | Value::Bool(_) => {}
        }
        self.allowed_values(schema, value);
        self.combinations(schema, value, place);
    }

    /// Reports that the current value has a problem; `said` reads after its name.
    fn report(&mut self, problem: Problem, said: &str) {
        let message = format!("{} {said}", self.checker.name());
        self.checker.report(problem, message);
    }

    fn null(&mut self, schema: &Map<String, Value>, place: Place) {
        let is_true = |name: &str| schema.get(name) == Some(&Value::Bool(true));
        let takes_null = is_true("nullable") || schema.contains_key("default");
        if !takes_null && schema.contains_key("type") && !place.is_partial {
            self.report(Problem::WrongType, "must not be null; remove the field");
        }
    }

    fn has_type(&mut self, schema: &Map<String, Value>, value: &Value) -> bool {
        if is_true(schema, "x-kubernetes-int-or-string") {
            let is_good = value.is_string() || is_whole(value);
            if !is_good {
                self.wrong_type("a whole number or text", Expected::Other, value);
            }
            return is_good;
        }
        let (is_good, expected, quotes) = match schema.get("type").and_then(Value::as_str) {
            Some("string") => (value.is_string(), "text", Expected::Text),
            Some("integer") => (is_whole(value), "a whole number", Expected::Whole),
            Some("number") => (value.is_number(), "a number", Expected::Number),
            Some("boolean") => (value.is_boolean(), "true or false", Expected::Boolean),
            Some("array") => (value.is_array(), "a list", Expected::Other),
            Some("object") => (value.is_object(), "a mapping", Expected::Other),
            _ => return true,
        };
        if !is_good {
            self.wrong_type(expected, quotes, value);
        }
        is_good
    }

    fn wrong_type(&mut self, expected: &str, quotes: Expected, value: &Value) {
        let (name, found) = (self.checker.name(), described(value));
        let hint = quotes_hint(value, quotes);
        let message = format!("{name} must be {expected}, not {found}{hint}");
        let quote = is_unquoted(value, quotes).then_some(Correction::Quote);
        self.checker.correcting(quote, |checker| checker.report(Problem::WrongType, message));
    }

    fn fields(&mut self, schema: &Map<String, Value>, fields: &Map<String, Value>, place: Place) {
        let embedded = is_true(schema, "x-kubernetes-embedded-resource");
        let is_object = place.is_object || embedded;
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        let keeps_others = is_true(schema, "x-kubernetes-preserve-unknown-fields")
            || others == Some(&Value::Bool(true))
            || place.is_partial;
        let below = Place { is_object: false, ..place };
        for (key, value) in fields {
            if is_object && OBJECT_FIELDS.contains(&key.as_str()) {
                continue;
            }
            let of_key = properties.and_then(|all| all.get(key));
            match of_key.or(others.filter(|one| one.is_object())) {
                Some(schema) => self.below(key, schema, value, below),
                None if keeps_others => {}
                None => self.unknown_field((key, value), fields, properties, below),
            }
        }
        self.required(schema, fields, properties);
        if embedded && !place.is_partial {
            let lacks = |name: &&str| !fields.contains_key(*name);
            for name in ["apiVersion", "kind"].into_iter().filter(lacks) {
                let of = self.checker.name();
                let message = format!("{of} is an object of its own, which needs `{name}`");
                self.checker.report_missing(name, message);
            }
        }
        self.count(schema, fields.len(), ("minProperties", "maxProperties"), "field");
    }

    fn unknown_field(
        &mut self,
        (key, value): (&str, &Value),
        fields: &Map<String, Value>,
        properties: Option<&Map<String, Value>>,
        place: Place,
    ) {
        if self.checker.is_full() {
            return;
        }
        let names = || properties.into_iter().flat_map(Map::keys).map(String::as_str);
        let hint = did_you_mean_field(key, names());
        let message = format!("{} has no field `{}`{hint}", self.checker.name(), shown(key));
        let meant = certain(key, names()).filter(|name| !fields.contains_key(*name));
        let of = |name: &str| properties.and_then(|all| all.get(name));
        let meant = meant.filter(|name| {
            let before = self.checker.found.len();
            of(name).into_iter().for_each(|of| self.below(name, of, value, place));
            let is_accepted = self.checker.found.len() == before;
            self.checker.found.truncate(before);
            is_accepted
        });
        let rename = meant.map(|name| Correction::Rename(name.to_owned()));
        self.checker.correcting(rename, |checker| {
            checker.report_key(Problem::UnknownField, key, message);
        });
    }

    fn below(&mut self, key: &str, schema: &Value, value: &Value, place: Place) {
        let patterns = std::mem::take(&mut self.patterns);
        let back = &mut self.patterns;
        self.checker.below(key, |checker| {
            let mut validator = Validator { checker, patterns };
            validator.value(schema, value, place);
            *back = validator.patterns;
        });
    }

    fn item(&mut self, index: usize, schema: &Value, value: &Value, place: Place) {
        let patterns = std::mem::take(&mut self.patterns);
        let back = &mut self.patterns;
        self.checker.below_item(index, |checker| {
            let mut validator = Validator { checker, patterns };
            validator.value(schema, value, place);
            *back = validator.patterns;
        });
    }

    fn required(
        &mut self,
        schema: &Map<String, Value>,
        fields: &Map<String, Value>,
        properties: Option<&Map<String, Value>>,
    ) {
        let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in names.filter_map(Value::as_str) {
            let has_default = properties
                .and_then(|all| all.get(name))
                .is_some_and(|one| one.get("default").is_some());
            if !fields.contains_key(name) && !has_default {
                let message = format!("the required field `{}` is missing", shown(name));
                self.checker.report_missing(name, message);
            }
        }
    }

    fn count(
        &mut self,
        schema: &Map<String, Value>,
        count: usize,
        (least, most): (&str, &str),
        noun: &str,
    ) {
        let bound = |name: &str| {
            let bound = schema.get(name).and_then(Value::as_u64);
            bound.map(|bound| usize::try_from(bound).unwrap_or(usize::MAX))
        };
        let bounds = (bound(least).unwrap_or_default(), bound(most).unwrap_or(usize::MAX));
        if let Some(why) = length_problem(count, bounds, noun) {
            self.report(Problem::InvalidValue, &why);
        }
    }

    fn items(&mut self, schema: &Map<String, Value>, items: &[Value], place: Place) {
        self.count(schema, items.len(), ("minItems", "maxItems"), "item");
        if let Some(of_item) = schema.get("items") {
            let below = Place { is_object: false, ..place };
            for (index, item) in items.iter().enumerate() {
                self.item(index, of_item, item, below);
            }
        }
        let keys: Vec<&str> = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => Vec::new(),
            Some("map") => {
                let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                keys.into_iter().flatten().filter_map(Value::as_str).collect()
            }
            _ => return,
        };
        let mut known = std::collections::HashSet::new();
        for (index, item) in items.iter().enumerate() {
            let identity = if keys.is_empty() {
                item.to_string()
            } else {
                let values: Vec<Option<&Value>> = keys.iter().map(|key| item.get(*key)).collect();
                format!("{values:?}")
            };
            if !known.insert(identity) {
                let message = format!("{} has this item twice", self.checker.name());
                self.checker.report_at(Problem::InvalidValue, &format!("/{index}"), message);
            }
        }
    }

    fn text(&mut self, schema: &Map<String, Value>, text: &str) {
        self.count(schema, text.chars().count(), ("minLength", "maxLength"), "character");
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
            && !self.patterns.is_match(pattern, text)
        {
            let (text, pattern) = (shown(text), shown(pattern));
            let said = format!("is {text:?}, which does not match the pattern {pattern}");
            self.report(Problem::InvalidValue, &said);
        }
        let is_ip = |is_v4: bool| {
            text.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_ipv4() == is_v4)
        };
        let (is_good, what) = match schema.get("format").and_then(Value::as_str) {
            Some("date-time") => (scalars::is_time(text), "a time, such as 2026-11-25T03:00:00Z"),
            Some("byte") => (scalars::is_base64(text), "base64"),
            Some("ipv4") => (is_ip(true), "an IPv4 address"),
            Some("ipv6") => (is_ip(false), "an IPv6 address"),
            Some("date") => (text.parse::<jiff::civil::Date>().is_ok(), "a date"),
            _ => return,
        };
        if !is_good {
            let said = format!("is {:?}, and must be {what}", shown(text));
            self.report(Problem::InvalidValue, &said);
        }
    }

    fn number(&mut self, schema: &Map<String, Value>, number: &Number) {
        let Some(value) = number.as_f64() else { return };
        let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
        if let Some(most) = bound("maximum") {
            let exclusive = is_true(schema, "exclusiveMaximum");
            if value > most || (exclusive && value >= most) {
                let than = if exclusive { "less than" } else { "at most" };
                self.bad_number(number, &format!("{than} {most}"));
            }
        }
        if let Some(least) = bound("minimum") {
            let exclusive = is_true(schema, "exclusiveMinimum");
            if value < least || (exclusive && value <= least) {
                let than = if exclusive { "more than" } else { "at least" };
                self.bad_number(number, &format!("{than} {least}"));
            }
        }
        if let Some(step) = bound("multipleOf").filter(|step| *step > 0.0)
            && (value / step).fract() != 0.0
        {
            self.bad_number(number, &format!("a multiple of {step}"));
        }
        let is_int32 = schema.get("format").and_then(Value::as_str) == Some("int32");
        if is_int32 && (value < f64::from(i32::MIN) || value > f64::from(i32::MAX)) {
            self.bad_number(number, &format!("between {} and {}", i32::MIN, i32::MAX));
        }
    }

    fn bad_number(&mut self, number: &Number, wanted: &str) {
        self.report(Problem::InvalidValue, &format!("is {number}, and must be {wanted}"));
    }

    fn allowed_values(&mut self, schema: &Map<String, Value>, value: &Value) {
        let Some(Value::Array(allowed)) = schema.get("enum") else { return };
        if allowed.contains(value) {
            return;
        }
        let texts: Vec<String> = allowed
            .iter()
            .take(20)
            .map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned))
            .collect();
        let hint = value.as_str().map_or_else(String::new, |text| {
            did_you_mean(text, allowed.iter().filter_map(Value::as_str))
        });
        let value = shown(&value.to_string());
        let said = format!("is {value}, and must be one of {}{hint}", shown_list(&texts));
        self.report(Problem::InvalidValue, &said);
    }

    fn combinations(&mut self, schema: &Map<String, Value>, value: &Value, place: Place) {
        let partial = Place { is_partial: true, ..place };
        let all = |name: &str| schema.get(name).and_then(Value::as_array).into_iter().flatten();
        for part in all("allOf") {
            self.value(part, value, partial);
        }
        if schema.contains_key("anyOf") {
            let fits = all("anyOf").any(|part| self.fits(part, value, partial));
            if !fits {
                self.report(Problem::InvalidValue, "fits none of the forms of `anyOf`");
            }
        }
        if schema.contains_key("oneOf") {
            let count = all("oneOf").filter(|part| self.fits(part, value, partial)).count();
            if count != 1 {
                let said = format!("fits {count} of the forms of `oneOf`; it must fit one");
                self.report(Problem::InvalidValue, &said);
            }
        }
        if schema.get("not").is_some_and(|part| self.fits(part, value, partial)) {
            self.report(Problem::InvalidValue, "has a form that `not` excludes");
        }
    }

    /// Whether a value fits a schema, without a report.
    fn fits(&mut self, schema: &Value, value: &Value, place: Place) -> bool {
        let known = std::mem::take(&mut self.checker.found);
        self.value(schema, value, place);
        let found = std::mem::replace(&mut self.checker.found, known);
        found.is_empty()
    }
}

fn is_true(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

fn is_whole(value: &Value) -> bool {
    value.is_i64()
        || value.is_u64()
        || value.as_f64().is_some_and(|number| number.fract() == 0.0 && number.abs() < 1e18)
}

fn shown_list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| shown(text)).collect();
    texts.join(", ")
}
