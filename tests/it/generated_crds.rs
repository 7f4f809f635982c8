//! The generated CRDs are OCM's, field by field. `tests/wire` has one table for each kind, taken
//! from OCM's own CRDs: a line for each field with its type, whether it is required, and every rule
//! on its value.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use gitwork_api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

/// Rules that a schema has under other names than the tables.
const RULES: &[(&str, &str)] = &[
    ("enum", "enum"),
    ("default", "default"),
    ("pattern", "pattern"),
    ("minLength", "minLength"),
    ("maxLength", "maxLength"),
    ("minimum", "minimum"),
    ("maximum", "maximum"),
    ("minItems", "minItems"),
    ("maxItems", "maxItems"),
    ("nullable", "nullable"),
    ("x-kubernetes-list-type", "list-type"),
    ("x-kubernetes-list-map-keys", "list-map-keys"),
    ("x-kubernetes-map-type", "map-type"),
    ("x-kubernetes-int-or-string", "int-or-string"),
    ("x-kubernetes-preserve-unknown-fields", "preserve-unknown-fields"),
    ("x-kubernetes-embedded-resource", "embedded-resource"),
];

/// What else a schema may have: what the flattening itself reads, and what is for people.
const STRUCTURE: &[&str] = &[
    "type",
    "format",
    "required",
    "properties",
    "items",
    "additionalProperties",
    "x-kubernetes-validations",
    "description",
    "title",
];

/// A field's type, whether it is required, and its rules.
type Field = (String, bool, BTreeMap<String, Value>);

#[derive(Debug, Default, PartialEq)]
struct Kind {
    /// Names, scope, subresources, columns.
    facts: BTreeMap<String, Value>,
    fields: BTreeMap<String, Field>,
}

/// Numbers compare by value: the CRD type of k8s-openapi has bounds as floats.
fn number(value: Value) -> Value {
    match value.as_f64() {
        Some(number) => json!(number),
        None => value,
    }
}

fn table(text: &str) -> Kind {
    let mut kind = Kind::default();
    let mut lines = text.lines();
    let head = lines.next().unwrap().strip_prefix("# ").unwrap();
    let (words, columns) = head.split_once(" printerColumns=").unwrap();
    kind.facts.insert("printerColumns".into(), serde_json::from_str(columns).unwrap());
    for word in words.split(' ') {
        let (name, value) = word.split_once('=').unwrap();
        kind.facts.insert(name.into(), json!(value));
    }
    for line in lines.filter(|line| !line.starts_with('#')) {
        let [path, kind_of, required, rules] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("a line has four columns: {line:?}");
        };
        let rules = rules.split("; ").filter(|rule| *rule != "-").map(|rule| {
            let (name, value) = rule.split_once('=').unwrap();
            (name.to_owned(), number(serde_json::from_str(value).unwrap()))
        });
        let field = (kind_of.to_owned(), required == "required", rules.collect());
        assert!(kind.fields.insert(path.to_owned(), field).is_none(), "{path} is there twice");
    }
    kind
}

fn flatten(path: &str, schema: &Value, required: bool, fields: &mut BTreeMap<String, Field>) {
    let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut rules = BTreeMap::new();
    for (key, value) in schema.as_object().unwrap() {
        if let Some((_, name)) = RULES.iter().find(|(known, _)| known == key) {
            if value != &json!(false) {
                rules.insert((*name).to_owned(), number(value.clone()));
            }
        } else if key == "x-kubernetes-validations" {
            let [rule] = value.as_array().unwrap().as_slice() else {
                panic!("{path}: the tables have one validation for a field");
            };
            rules.insert("validation".into(), rule.clone());
        } else {
            assert!(STRUCTURE.contains(&key.as_str()), "{path}: no table has {key}");
        }
    }
    let kind = match (text("type"), text("format")) {
        _ if rules.contains_key("int-or-string") => "int-or-string".to_owned(),
        (kind, format) if format.is_empty() => kind,
        (kind, format) => format!("{kind}:{format}"),
    };
    if !path.is_empty() {
        fields.insert(path.to_owned(), (kind, required, rules));
    }
    let needed: BTreeSet<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, property) in
        schema.get("properties").and_then(Value::as_object).into_iter().flatten()
    {
        let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        flatten(&inner, property, needed.contains(name.as_str()), fields);
    }
    if let Some(items) = schema.get("items") {
        flatten(&format!("{path}[]"), items, false, fields);
    }
    if let Some(values) = schema.get("additionalProperties") {
        flatten(&format!("{path}{{}}"), values, false, fields);
    }
}

fn generated(crd: &CustomResourceDefinition) -> Kind {
    let [version] = crd.spec.versions.as_slice() else { panic!("one version of a kind") };
    let names = &crd.spec.names;
    let columns: Vec<Value> = version
        .additional_printer_columns
        .iter()
        .flatten()
        .map(|column| json!([column.name, column.json_path]))
        .collect();
    let has_status = version.subresources.as_ref().is_some_and(|all| all.status.is_some());
    let title = |flag: bool| if flag { "True" } else { "False" };
    let facts = [
        ("kind", json!(names.kind)),
        ("plural", json!(names.plural)),
        ("singular", json!(names.singular)),
        ("shortNames", json!(names.short_names.clone().unwrap_or_default().join(","))),
        ("scope", json!(crd.spec.scope)),
        ("group", json!(crd.spec.group)),
        ("version", json!(version.name)),
        ("served", json!(title(version.served))),
        ("storage", json!(title(version.storage))),
        ("subresources", json!(if has_status { "status" } else { "" })),
        ("printerColumns", json!(columns)),
    ];
    let schema = version.schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
    let mut fields = BTreeMap::new();
    flatten("", &serde_json::to_value(schema).unwrap(), false, &mut fields);
    Kind { facts: facts.map(|(name, value)| (name.to_owned(), value)).into(), fields }
}

/// One line for each difference.
fn differences<T: PartialEq + std::fmt::Debug>(
    kind: &str,
    ours: &BTreeMap<String, T>,
    ocms: &BTreeMap<String, T>,
) -> Vec<String> {
    let names: BTreeSet<&String> = ours.keys().chain(ocms.keys()).collect();
    names
        .into_iter()
        .filter_map(|name| match (ours.get(name), ocms.get(name)) {
            (Some(ours), Some(ocms)) if ours == ocms => None,
            (Some(ours), Some(ocms)) => {
                Some(format!("{kind} {name}: ours is {ours:?}, OCM's is {ocms:?}"))
            }
            (Some(_), None) => Some(format!("{kind} {name}: OCM has no such field")),
            _ => Some(format!("{kind} {name}: missing")),
        })
        .collect()
}

#[test]
fn generated_crds_match_ocm() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire");
    let mut tables = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(path.extension().is_some_and(|e| e == "tsv"), "{name} is no table");
        tables.insert(name.to_owned(), table(&fs::read_to_string(&path).unwrap()));
    }
    let kinds: BTreeMap<String, Kind> = crds::all()
        .iter()
        .map(|crd| {
            let version = &crd.spec.versions[0].name;
            (format!("{}.{version}.tsv", crd.metadata.name.as_ref().unwrap()), generated(crd))
        })
        .collect();
    assert_eq!(
        kinds.keys().collect::<Vec<_>>(),
        tables.keys().collect::<Vec<_>>(),
        "one CRD for each table"
    );
    let mut found = Vec::new();
    for (name, ocms) in &tables {
        assert!(!ocms.fields.is_empty(), "{name} is empty");
        found.extend(differences(name, &kinds[name].facts, &ocms.facts));
        found.extend(differences(name, &kinds[name].fields, &ocms.fields));
    }
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

#[test]
fn crd_comparison_detects_each_kind_of_difference() {
    let ocms = table(
        "# kind=A printerColumns=[]\n# \
            field\ttype\trequired\tvalidation\nspec.a\tstring\trequired\t\
            maxLength=3\nspec.b\tstring\t-\t-\n",
    );
    let mut fields = BTreeMap::new();
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 4.0}, "c": {"type": "integer", "format": "int64"},
    }});
    flatten("spec", &schema, false, &mut fields);
    fields.remove("spec");
    let found = differences("A", &fields, &ocms.fields);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("A spec.a: ours is (\"string\", false"), "{found:?}");
    assert_eq!(found[1..], ["A spec.b: missing", "A spec.c: OCM has no such field"]);
}
