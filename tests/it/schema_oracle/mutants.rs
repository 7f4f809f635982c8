//! Documents with one mistake each, of the kinds that people make. Nothing here knows the schemas
//! of gitwork.

use fastrand::Rng;
use serde_json::{Map, Value, json};

/// The kind of mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// None, or some fields are missing.
    Document,
    Type,
    MisspeltField,
    MisplacedField,
    Name,
    Metadata,
    Version,
    Missing,
    Value,
}

impl Class {
    pub const MUTANTS: &'static [Self] = &[
        Self::Type,
        Self::MisspeltField,
        Self::MisplacedField,
        Self::Name,
        Self::Metadata,
        Self::Version,
        Self::Missing,
        Self::Value,
    ];

    /// How many of those that the API server refuses must be found, in percent.
    pub fn least_percent(self) -> usize {
        95
    }
}

/// The document without some of its fields.
pub fn without_some_fields(object: &Value, rng: &mut Rng) -> Value {
    fn reduce(value: &mut Value, depth: usize, rng: &mut Rng) {
        match value {
            Value::Object(fields) => {
                // A workload consists of what is in it: deeper fields go more often.
                let often = if depth < 2 { 0.03 } else { 0.08 };
                let keep = |name: &str| depth == 0 || ["name", "namespace"].contains(&name);
                fields.retain(|name, _| keep(name) || rng.f64() > often);
                fields.values_mut().for_each(|one| reduce(one, depth + 1, rng));
            }
            Value::Array(items) => items.iter_mut().for_each(|one| reduce(one, depth + 1, rng)),
            _ => {}
        }
    }
    let mut object = object.clone();
    reduce(&mut object, 0, rng);
    object
}

/// A mutant and what was changed; `None` if the document has nothing to change in this way.
pub fn mutant(class: Class, object: &Value, rng: &mut Rng) -> Option<(Value, String)> {
    let mut changed = object.clone();
    let what = match class {
        Class::Document => None,
        Class::Type => change_type(&mut changed, rng),
        Class::MisspeltField => misspell_field(&mut changed, rng),
        Class::MisplacedField => misplace_field(&mut changed, rng),
        Class::Name => change_name(&mut changed, rng),
        Class::Metadata => change_metadata(&mut changed, rng),
        Class::Version => change_version(&mut changed, rng),
        Class::Missing => remove_field(&mut changed, rng),
        Class::Value => change_value(&mut changed, rng),
    }?;
    Some((changed, what))
}

/// The pointers of all values below a document, but for those that identify it.
fn pointers(object: &Value) -> Vec<String> {
    fn walk(value: &Value, at: &str, found: &mut Vec<String>) {
        let children: Vec<(String, &Value)> = match value {
            Value::Object(fields) => {
                let token = |name: &str| name.replace('~', "~0").replace('/', "~1");
                fields.iter().map(|(name, one)| (token(name), one)).collect()
            }
            Value::Array(items) => {
                items.iter().enumerate().map(|(index, one)| (index.to_string(), one)).collect()
            }
            _ => return,
        };
        for (token, child) in children {
            let pointer = format!("{at}/{token}");
            if !["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"]
                .contains(&pointer.as_str())
            {
                found.push(pointer.clone());
            }
            walk(child, &pointer, found);
        }
    }
    let mut found = Vec::new();
    walk(object, "", &mut found);
    found
}

fn pick<'a, T>(all: &'a [T], rng: &mut Rng) -> Option<&'a T> {
    if all.is_empty() { None } else { all.get(rng.usize(..all.len())) }
}

fn change_type(object: &mut Value, rng: &mut Rng) -> Option<String> {
    let all = pointers(object);
    let pointer = pick(&all, rng)?;
    let value = object.pointer_mut(pointer)?;
    let others = match value {
        Value::String(_) => vec![json!(8080), json!(true), json!(["x"]), json!({"a": "b"})],
        Value::Number(number) => {
            vec![json!(number.to_string()), json!("many"), json!(true), json!({}), json!(1.5)]
        }
        Value::Bool(truth) => vec![json!(truth.to_string()), json!(1), json!("yes"), json!([])],
        Value::Array(items) => {
            vec![items.first().cloned().unwrap_or(json!("x")), json!("x"), json!({"a": 1})]
        }
        Value::Object(_) => vec![json!("x"), json!([value.clone()]), json!(1)],
        Value::Null => return None,
    };
    let other = pick(&others, rng)?.clone();
    let what = format!("{pointer} {value} to {other}");
    *value = other;
    Some(what)
}

/// The pointers of mappings with fields.
fn mappings(object: &Value) -> Vec<String> {
    let has_fields = |pointer: &String| {
        object.pointer(pointer).and_then(Value::as_object).is_some_and(|one| !one.is_empty())
    };
    let mut all: Vec<String> = pointers(object).into_iter().filter(has_fields).collect();
    all.push(String::new());
    all
}

fn fields_at<'a>(object: &'a mut Value, pointer: &str) -> Option<&'a mut Map<String, Value>> {
    object.pointer_mut(pointer)?.as_object_mut()
}

/// A field that does not identify the document.
fn pick_field(fields: &Map<String, Value>, rng: &mut Rng) -> Option<String> {
    let names: Vec<&String> = fields
        .keys()
        .filter(|name| !["apiVersion", "kind", "metadata", "name"].contains(&name.as_str()))
        .collect();
    pick(&names, rng).map(|name| (*name).clone())
}

fn misspelt(text: &str, rng: &mut Rng) -> Option<String> {
    let mut chars: Vec<char> = text.chars().collect();
    if chars.len() < 2 {
        return None;
    }
    let at = rng.usize(..chars.len() - 1);
    match rng.usize(..6) {
        0 => drop(chars.remove(at)),
        1 => chars.insert(at, chars[at]),
        2 => chars.swap(at, at + 1),
        3 => chars[at] = 'x',
        4 => chars.push('s'),
        _ => {
            let first = chars[0];
            chars[0] = if first.is_uppercase() {
                first.to_ascii_lowercase()
            } else {
                first.to_ascii_uppercase()
            };
        }
    }
    let changed: String = chars.into_iter().collect();
    (changed != text).then_some(changed)
}

fn misspell_field(object: &mut Value, rng: &mut Rng) -> Option<String> {
    let all = mappings(object);
    let pointer = pick(&all, rng)?;
    let fields = fields_at(object, pointer)?;
    let name = pick_field(fields, rng)?;
    let wrong = misspelt(&name, rng)?;
    let value = fields.remove(&name)?;
    let what = format!("{pointer}/{name} to {wrong}");
    fields.insert(wrong, value);
    Some(what)
}

/// Moves a field up, or down into a sibling.
fn misplace_field(object: &mut Value, rng: &mut Rng) -> Option<String> {
    let all = mappings(object);
    let pointer = pick(&all, rng)?;
    let name = pick_field(fields_at(object, pointer)?, rng)?;
    let value = fields_at(object, pointer)?.remove(&name)?;
    let others: Vec<&String> = all
        .iter()
        .filter(|one| {
            let is_parent = pointer.rsplit_once('/').is_some_and(|(up, _)| up == one.as_str());
            let is_child = one.rsplit_once('/').is_some_and(|(up, _)| up == pointer.as_str());
            (is_parent || is_child) && object.pointer(one).is_some_and(Value::is_object)
        })
        .collect();
    let to = (*pick(&others, rng)?).clone();
    let fields = fields_at(object, &to)?;
    if fields.contains_key(&name) {
        return None;
    }
    fields.insert(name.clone(), value);
    Some(format!("{pointer}/{name} into {to}"))
}

fn change_name(object: &mut Value, rng: &mut Rng) -> Option<String> {
    let name = object.pointer_mut("/metadata/name")?;
    let old = name.as_str()?.to_owned();
    let long = "a".repeat(254);
    let names = [
        old.to_uppercase(),
        format!("{old}_1"),
        format!("{old}-"),
        format!("-{old}"),
        format!(".{old}"),
        format!("{old}..a"),
        format!("{old} a"),
        format!("{old}/a"),
        format!("{old}%"),
        format!("{old}é"),
        format!("1{old}"),
        format!("{old}.a"),
        long[..53].to_owned(),
        long[..64].to_owned(),
        long[..200].to_owned(),
        long,
        String::new(),
    ];
    let new = pick(&names, rng)?.clone();
    let shown: String = new.chars().take(40).collect();
    *name = json!(new);
    Some(format!("name {old} to {shown}"))
}

fn change_metadata(object: &mut Value, rng: &mut Rng) -> Option<String> {
    let long = "a".repeat(64);
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "1",
        "controller": true,
    });
    let without = |name: &str| {
        let mut owner = owner.clone();
        owner.as_object_mut().unwrap().remove(name);
        json!([owner])
    };
    let changes = [
        ("labels", json!({"a b": "c"})),
        ("labels", json!({"a": "b c"})),
        ("labels", json!({"a": long})),
        ("labels", json!({long.clone(): "a"})),
        ("labels", json!({"a/b/c": "d"})),
        ("labels", json!({"Example.com/a": "d"})),
        ("labels", json!({"a": "-b"})),
        ("labels", json!({"a": 1})),
        ("labels", json!({"a": true})),
        ("labels", json!(["a"])),
        ("labels", json!({"": "a"})),
        ("annotations", json!({"a b": "c"})),
        ("annotations", json!({"a": 1})),
        ("annotations", json!({"a": {"b": "c"}})),
        ("annotations", json!({"a/b/c": "d"})),
        ("annotations", json!({"A.example.com/B": "d"})),
        ("ownerReferences", without("uid")),
        ("ownerReferences", without("name")),
        ("ownerReferences", without("kind")),
        ("ownerReferences", without("apiVersion")),
        ("ownerReferences", json!([owner, owner])),
        ("ownerReferences", json!({"name": "a"})),
        (
            "ownerReferences",
            json!([{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "1"}]),
        ),
        ("finalizers", json!(["a b"])),
        ("finalizers", json!(["noprefix"])),
        ("finalizers", json!("example.com/a")),
        ("finalizers", json!(["orphan", "foregroundDeletion"])),
        ("resourceVersion", json!("12")),
        ("resourceVersion", json!(12)),
        ("creationTimestamp", json!("yesterday")),
        ("creationTimestamp", json!("2026-01-01")),
        ("deletionGracePeriodSeconds", json!("1")),
        ("generation", json!("1")),
        ("uid", json!(5)),
        ("clusterName", json!("a")),
        ("label", json!({"a": "b"})),
        ("managedFields", json!({})),
        ("generateName", json!(["a"])),
    ];
    let (field, value) = pick(&changes, rng)?.clone();
    let what = format!("{field}: {value}");
    fields_at(object, "/metadata")?.insert(field.to_owned(), value);
    Some(what)
}

fn change_version(object: &mut Value, rng: &mut Rng) -> Option<String> {
    let version = object["apiVersion"].as_str()?.to_owned();
    let kind = object["kind"].as_str()?.to_owned();
    let (group, number) = version.rsplit_once('/').unwrap_or(("", &version));
    let in_group = |group: &str, number: &str| {
        if group.is_empty() { number.into() } else { format!("{group}/{number}") }
    };
    let versions = [
        in_group(group, "v1beta1"),
        in_group(group, "v1beta2"),
        in_group(group, "v1alpha1"),
        in_group(group, "v2"),
        in_group(group, "v3"),
        in_group("extensions", "v1beta1"),
        in_group("apps", number),
        in_group("", number),
        in_group(&misspelt(group, rng).unwrap_or("ap".into()), number),
        number.to_uppercase(),
        format!("{version}/a"),
    ];
    let kinds = [
        misspelt(&kind, rng)?,
        kind.to_lowercase(),
        kind.to_uppercase(),
        format!("{kind}s"),
        misspelt(&kind, rng)?,
    ];
    let what = if rng.bool() {
        let new = pick(&versions, rng)?.clone();
        let what = format!("{version} to {new}");
        object["apiVersion"] = json!(new);
        what
    } else {
        let new = pick(&kinds, rng)?.clone();
        let what = format!("{kind} to {new}");
        object["kind"] = json!(new);
        what
    };
    (object["apiVersion"] != version.as_str() || object["kind"] != kind.as_str()).then_some(what)
}

fn remove_field(object: &mut Value, rng: &mut Rng) -> Option<String> {
    let all = mappings(object);
    let pointer = pick(&all, rng)?;
    let fields = fields_at(object, pointer)?;
    let names: Vec<String> = fields.keys().cloned().collect();
    let name = pick(&names, rng)?;
    let identifies = pointer.is_empty() && ["apiVersion", "kind", "metadata"].contains(&&**name)
        || pointer == "/metadata" && ["name", "namespace"].contains(&&**name);
    if identifies {
        return None;
    }
    let value = fields.get_mut(name)?;
    let how = rng.usize(..3);
    match (how, &*value) {
        (0, Value::String(_)) => *value = json!(""),
        (0, Value::Array(_)) => *value = json!([]),
        (0, Value::Object(_)) => *value = json!({}),
        _ => drop(fields.remove(name)),
    }
    Some(format!("{pointer}/{name}"))
}

fn change_value(object: &mut Value, rng: &mut Rng) -> Option<String> {
    let all = pointers(object);
    let pointer = pick(&all, rng)?;
    let value = object.pointer_mut(pointer)?;
    let others = match value {
        Value::String(text) => vec![
            json!(text.to_lowercase()),
            json!(text.to_uppercase()),
            json!(format!("{text} x")),
            json!(format!("{text}_x")),
            json!(misspelt(text, rng)?),
            json!("-1"),
            json!("Other"),
        ],
        Value::Number(_) => vec![json!(-1), json!(0), json!(70_000), json!(10_000_000_000_i64)],
        Value::Array(items) if !items.is_empty() => {
            let mut twice = items.clone();
            twice.push(items[0].clone());
            vec![json!(twice)]
        }
        _ => return None,
    };
    let other = pick(&others, rng)?.clone();
    if other == *value {
        return None;
    }
    let what = format!("{pointer} {value} to {other}");
    *value = other;
    Some(what)
}
