//! Checks a configuration file against the JSON Schema generated from its Rust type, and finds
//! every problem at once, each with a pointer to its place.

use std::fmt::Write as _;

use gitwork_api::count::{count, is_or_are};
use gitwork_api::escape::pointer_token;
use serde_json::{Map, Value};

use super::schema_bounds::broken_bounds;
use crate::limits;
use crate::model::diagnostic::{Code, FixKind};
use crate::text::truncate::truncate_chars;
use crate::text::{certain, closest};

/// One problem of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaProblem {
    /// JSON pointer from the checked value to the place.
    pub pointer: String,
    /// Which problem it is.
    pub code: Code,
    /// What is wrong, as a clause after the field's name.
    pub message: String,
    /// What to do, where there is more to say than the code's own help.
    pub hint: Option<String>,
    /// What certainly corrects it. A field is added to the mapping at the pointer.
    pub fix: Option<FixKind>,
}

impl SchemaProblem {
    fn bytes(&self) -> usize {
        self.pointer.len() + self.message.len() + self.hint.as_ref().map_or(0, String::len)
    }
}

/// The first problems of a document, and the number of the others. Keeps at least one of each code,
/// so that an error is an error also behind many warnings.
#[derive(Debug, Default)]
pub struct SchemaProblems {
    kept: Vec<SchemaProblem>,
    bytes: usize,
    omitted: usize,
}

impl SchemaProblems {
    /// Adds a problem. Calls `describe` only if it is kept.
    pub fn add(&mut self, code: Code, describe: impl FnOnce() -> SchemaProblem) {
        let is_full = self.kept.len() >= limits::FILE_DIAGNOSTICS_MAX
            || self.bytes >= limits::DIAGNOSTICS_BYTES_MAX;
        if is_full && self.kept.iter().any(|known| known.code == code) {
            self.omitted += 1;
            return;
        }
        let problem = describe();
        self.bytes += problem.bytes();
        self.kept.push(problem);
    }

    /// The problems in the order in which they were found. A last one says how many more there are.
    pub fn into_all(mut self) -> Vec<SchemaProblem> {
        if self.omitted > 0 {
            let (more, verb) = (count(self.omitted, "more problem"), is_or_are(self.omitted));
            self.kept.push(SchemaProblem {
                pointer: String::new(),
                code: Code::Omitted,
                message: format!("at least {more} {verb} not listed"),
                hint: None,
                fix: None,
            });
        }
        self.kept
    }
}

impl Extend<SchemaProblem> for SchemaProblems {
    fn extend<T: IntoIterator<Item = SchemaProblem>>(&mut self, problems: T) {
        problems.into_iter().for_each(|problem| self.add(problem.code, || problem));
    }
}

/// Checks `value` against `schema`, but for the places in `elsewhere` (pointers), which other rules
/// judge.
pub fn check(value: &Value, schema: &Value, elsewhere: &[&str]) -> Vec<SchemaProblem> {
    let mut check = Check { elsewhere, at: String::new(), problems: SchemaProblems::default() };
    check.value(value, schema);
    check.problems.into_all()
}

/// A check under way.
struct Check<'a> {
    elsewhere: &'a [&'a str],
    /// JSON pointer to the place that is checked now.
    at: String,
    problems: SchemaProblems,
}

impl Check<'_> {
    /// Reports a problem at the present place.
    fn report(&mut self, code: Code, message: String, hint: Option<String>) {
        self.report_with_fix(code, (message, hint), None);
    }

    fn report_with_fix(
        &mut self,
        code: Code,
        (message, hint): (String, Option<String>),
        fix: Option<FixKind>,
    ) {
        let pointer = &self.at;
        self.problems.add(code, || SchemaProblem {
            pointer: pointer.clone(),
            code,
            message,
            hint,
            fix,
        });
    }

    /// Does `inner` at the place of the field `part` below the present one.
    fn below(&mut self, part: &str, inner: impl FnOnce(&mut Self)) {
        let length = self.at.len();
        self.at.push('/');
        self.at.push_str(&pointer_token(part));
        inner(self);
        self.at.truncate(length);
    }

    fn is_elsewhere(&self) -> bool {
        self.elsewhere.contains(&self.at.as_str())
    }

    fn value(&mut self, value: &Value, schema: &Value) {
        if self.is_elsewhere() {
            return;
        }
        let schema = without_null(value, schema);
        let allowed = types(schema);
        if !allowed.is_empty() && !allowed.iter().any(|name| is_of_type(value, name)) {
            let message = format!("must be {}, not {}", spoken(&allowed), describe(value));
            let is_unquoted = value.is_number() || value.is_boolean();
            let quote = (is_unquoted && allowed.contains(&"string")).then_some(FixKind::Quote);
            self.report_with_fix(Code::WrongType, (message, None), quote);
            return;
        }
        self.choice(value, schema);
        for message in broken_bounds(value, schema) {
            self.report(Code::BadValue, message, None);
        }
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    self.below(name, |check| check.field(name, field, (fields, schema)));
                }
                self.required(fields, schema);
            }
            Value::Array(items) => {
                let Some(item_schema) = schema.get("items") else { return };
                let length = self.at.len();
                for (index, item) in items.iter().enumerate() {
                    let _ = write!(self.at, "/{index}");
                    self.value(item, item_schema);
                    self.at.truncate(length);
                }
            }
            _ => {}
        }
    }

    /// Checks that a value is one of those that an enum allows.
    fn choice(&mut self, value: &Value, schema: &Value) {
        let Some(choices) = choices(schema) else { return };
        if value.is_null() || choices.contains(&value) {
            return;
        }
        let names: Vec<String> =
            choices.iter().map(|c| c.as_str().map_or(c.to_string(), str::to_owned)).collect();
        let hint = value.as_str().and_then(|text| closest(text, names.iter().map(String::as_str)));
        let hint = hint.map(|name| format!("did you mean {name:?}?"));
        self.report(Code::BadValue, format!("must be one of {}", names.join(", ")), hint);
    }

    /// Checks a field against its own schema, or against that of all others.
    fn field(&mut self, name: &str, field: &Value, of: (&Map<String, Value>, &Value)) {
        let (fields, schema) = of;
        let properties = schema.get("properties");
        let known = properties.and_then(|all| all.get(name));
        match (known, schema.get("additionalProperties")) {
            (Some(known), _) => self.value(field, known),
            (None, Some(rest @ Value::Object(_))) => self.value(field, rest),
            // A CRD's schema leaves it out and still means it: the API server would drop the field.
            (None, Some(Value::Bool(false)) | None)
                if properties.is_some() && !self.is_elsewhere() =>
            {
                let at = &self.at;
                let of = (fields, schema);
                self.problems.add(Code::UnknownField, || unknown_field(name, field, of, at));
            }
            _ => {}
        }
    }

    /// Checks that each required field without a default is there.
    fn required(&mut self, fields: &Map<String, Value>, schema: &Value) {
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            let default = schema.pointer(&format!("/properties/{name}/default"));
            if !fields.contains_key(name) && default.is_none() {
                let of_field = schema.pointer(&format!("/properties/{name}"));
                let only = match of_field.and_then(choices).as_deref() {
                    Some([Value::String(only)]) if !fields.is_empty() => Some(only),
                    _ => None,
                };
                let add = only.map(|only| FixKind::AddField(name.to_owned(), only.clone()));
                self.report_with_fix(Code::BadValue, (format!("{name} is missing"), None), add);
            }
        }
    }
}

/// An error for a field that the schema does not have, with the nearest one that it has.
fn unknown_field(
    name: &str,
    value: &Value,
    (fields, schema): (&Map<String, Value>, &Value),
    at: &str,
) -> SchemaProblem {
    let properties = schema.get("properties").and_then(Value::as_object);
    let known: Vec<&str> = properties.into_iter().flat_map(Map::keys).map(String::as_str).collect();
    let of = |name: &str| properties.and_then(|all| all.get(name));
    let is_good = |name: &&str| {
        let found = of(name).map(|schema| check(value, schema, &[]));
        !fields.contains_key(*name)
            && found.is_some_and(|found| found.iter().all(|one| one.fix.is_some()))
    };
    let meant = certain(name, known.iter().copied()).filter(is_good);
    let hint = closest(name, known.iter().copied()).map_or_else(
        || format!("the fields here are {}", known.join(", ")),
        |near| format!("did you mean {near:?}?"),
    );
    SchemaProblem {
        pointer: at.to_owned(),
        code: Code::UnknownField,
        message: format!(
            "there is no field {:?} here",
            truncate_chars(name, limits::MESSAGE_TEXT_CHARS_MAX)
        ),
        hint: Some(hint),
        fix: meant.map(|name| FixKind::RenameKey(name.to_owned())),
    }
}

/// The schema of a value that may be null, which schemars writes as `anyOf`.
fn without_null<'a>(value: &Value, schema: &'a Value) -> &'a Value {
    let Some([inner, null]) = schema.get("anyOf").and_then(Value::as_array).map(Vec::as_slice)
    else {
        return schema;
    };
    let is_nullable = null.get("type").and_then(Value::as_str) == Some("null");
    match (is_nullable, value) {
        (true, Value::Null) => null,
        (true, _) => inner,
        (false, _) => schema,
    }
}

fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The values that an enum allows: schemars writes `enum`, or `oneOf` with constants where variants
/// have docs.
fn choices(schema: &Value) -> Option<Vec<&Value>> {
    if let Some(Value::Array(all)) = schema.get("enum") {
        return Some(all.iter().collect());
    }
    let Some(Value::Array(all)) = schema.get("oneOf") else { return None };
    let mut found = Vec::new();
    for one in all {
        match (one.get("const"), one.get("enum")) {
            (Some(constant), _) => found.push(constant),
            (None, Some(Value::Array(some))) => found.extend(some),
            _ => return None,
        }
    }
    Some(found)
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => true,
    }
}

fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

fn spoken(types: &[&str]) -> String {
    let words: Vec<&str> = types
        .iter()
        .filter(|name| **name != "null")
        .map(|name| match *name {
            "object" => "a mapping",
            "array" => "a list",
            "string" => "text",
            "boolean" => "true or false",
            "integer" => "a whole number",
            "number" => "a number",
            other => other,
        })
        .collect();
    words.join(" or ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::file_kind::FileKind;

    #[test]
    fn every_problem_of_a_file_is_found() {
        let value = json!({"substitut": true, "prune": "no", "labels": {"a": 1}, "defaults": {}});
        let problems = check(&value, &FileKind::Work.schema(), &[]);
        let found: Vec<(&str, Code)> =
            problems.iter().map(|p| (p.pointer.as_str(), p.code)).collect();
        assert_eq!(
            found,
            [
                ("/defaults", Code::UnknownField),
                ("/labels/a", Code::WrongType),
                ("/prune", Code::WrongType),
                ("/substitut", Code::UnknownField)
            ]
        );
        assert_eq!(problems[3].hint.as_deref(), Some("did you mean \"substitute\"?"));
        assert_eq!(problems[1].message, "must be text, not a number");
    }

    #[test]
    fn enums_name_their_values() {
        let problems = check(&json!({"secrets": "refus"}), &FileKind::Source.schema(), &[]);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].message, "must be one of allow, warn, refuse");
        assert_eq!(problems[0].hint.as_deref(), Some("did you mean \"refuse\"?"));
    }

    #[test]
    fn nullable_enums_name_their_values() {
        let problems = |verify: Value| {
            let value = json!({"signers": {"verify": verify}});
            check(&value, &FileKind::Source.schema(), &[]).into_iter().map(|found| found.message)
        };
        let message = "must be one of merges, commits".to_owned();
        assert_eq!(problems(json!("commit")).collect::<Vec<_>>(), [message]);
        assert_eq!(problems(Value::Null).count(), 0);
        assert_eq!(problems(json!("merges")).count(), 0);
    }

    #[test]
    fn places_judged_elsewhere_are_left_alone() {
        assert_eq!(check(&json!({"x": 1}), &FileKind::Work.schema(), &["/x"]), []);
    }
}
