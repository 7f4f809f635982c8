//! The JSON output of commands against its documented schemas (`docs/schema/*-output.json`): those
//! of the repository cases, and those of the built program.

use gitwork_report::outputs::OutputKind;
use serde_json::{Map, Value};

use crate::cases;
use crate::cli::{clone, code, err, gitwork, write};
use crate::sync::fixture::config_map;

/// Keywords that say nothing of a value.
const WORDS: [&str; 7] =
    ["$schema", "$defs", "title", "description", "default", "format", "deprecated"];

/// Where a value differs from its schema. Fields that the schema does not name are found, too: the
/// schemas document every field.
pub fn problems(schema: &Value, value: &Value) -> Vec<String> {
    let mut check = SchemaCheck { root: schema, found: Vec::new() };
    check.value(schema, value, "");
    check.found
}

/// Fails with what differs.
#[track_caller]
pub fn assert_documented(kind: OutputKind, value: &Value, what: &str) {
    let found = problems(&kind.schema(), value);
    assert!(found.is_empty(), "{what}: {found:#?}\n{value:#}");
}

struct SchemaCheck<'a> {
    root: &'a Value,
    found: Vec<String>,
}

impl<'a> SchemaCheck<'a> {
    fn resolve(&self, schema: &'a Value) -> &'a Value {
        match schema.get("$ref").and_then(Value::as_str) {
            Some(to) => self.root.pointer(to.strip_prefix('#').unwrap()).unwrap(),
            None => schema,
        }
    }

    fn value(&mut self, schema: &'a Value, value: &Value, at: &str) {
        let fields = match self.resolve(schema) {
            Value::Bool(true) => return,
            schema => schema.as_object().unwrap(),
        };
        for (word, rule) in fields {
            self.keyword((word, rule), value, at);
        }
        // A reference may stand beside other keywords.
        for (word, rule) in schema.as_object().into_iter().flatten() {
            if schema.get("$ref").is_some() {
                self.keyword((word, rule), value, at);
            }
        }
        let known = self.known(schema);
        if let (Some(known), Value::Object(object)) = (known, value) {
            let is_known = |name: &&String| known.contains(name);
            let unknown = object.keys().filter(|name| !is_known(name));
            let unknown: Vec<String> =
                unknown.map(|name| format!("{at}: unknown {name}")).collect();
            self.found.extend(unknown);
        }
    }

    fn keyword(&mut self, (word, rule): (&str, &'a Value), value: &Value, at: &str) {
        match word {
            "type" => {
                let names = rule.as_array().map_or(vec![rule], |all| all.iter().collect());
                let is_it = |name: &&Value| is_of_type(value, name.as_str().unwrap());
                if !names.iter().any(is_it) {
                    self.found.push(format!("{at}: {value} is not {rule}"));
                }
            }
            "const" if value != rule => self.found.push(format!("{at}: {value} is not {rule}")),
            "enum" if !rule.as_array().unwrap().contains(value) => {
                self.found.push(format!("{at}: {value} is none of {rule}"));
            }
            "required" => {
                let names = rule.as_array().unwrap().iter().filter_map(Value::as_str);
                let lacks = names.filter(|name| value.get(name).is_none());
                let lacks: Vec<String> = lacks.map(|name| format!("{at}: no {name}")).collect();
                self.found.extend(lacks);
            }
            "properties" => {
                for (name, schema) in rule.as_object().unwrap() {
                    if let Some(field) = value.get(name) {
                        self.value(schema, field, &format!("{at}/{name}"));
                    }
                }
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    self.value(rule, item, &format!("{at}/{index}"));
                }
            }
            "allOf" => rule.as_array().unwrap().iter().for_each(|one| self.part(one, value, at)),
            "anyOf" | "oneOf" => self.choice(rule.as_array().unwrap(), value, at),
            "minimum" => assert!(value.as_f64().is_none_or(|it| it >= rule.as_f64().unwrap())),
            "maximum" => assert!(value.as_f64().is_none_or(|it| it <= rule.as_f64().unwrap())),
            "uniqueItems" | "additionalProperties" | "$ref" | "const" | "enum" => {}
            word => assert!(WORDS.contains(&word), "{at}: the test does not know {word}"),
        }
    }

    /// A schema of which the value has more fields than it names.
    fn part(&mut self, schema: &'a Value, value: &Value, at: &str) {
        let resolved = self.resolve(schema);
        let beside = Some(schema).filter(|_| schema.get("$ref").is_some());
        for fields in [Some(resolved), beside].into_iter().flatten() {
            let fields = fields.as_object().unwrap();
            fields.iter().for_each(|(word, rule)| self.keyword((word, rule), value, at));
        }
    }

    fn choice(&mut self, all: &'a [Value], value: &Value, at: &str) {
        let mut nearest: Option<Vec<String>> = None;
        for one in all {
            let mut check = SchemaCheck { root: self.root, found: Vec::new() };
            check.part(one, value, at);
            if nearest.as_ref().is_none_or(|known| check.found.len() < known.len()) {
                nearest = Some(check.found);
            }
        }
        self.found.extend(nearest.into_iter().flatten());
    }

    /// The names of the fields that an object may have; `None` if it may have any.
    fn known(&self, schema: &'a Value) -> Option<Vec<&'a String>> {
        let mut known = Vec::new();
        let resolved = self.resolve(schema);
        for fields in [schema, resolved].into_iter().filter_map(Value::as_object) {
            if fields.get("additionalProperties").is_some_and(|rest| *rest != false) {
                return None;
            }
            known.extend(
                fields
                    .get("properties")
                    .and_then(Value::as_object)
                    .map(Map::keys)
                    .into_iter()
                    .flatten(),
            );
            for word in ["allOf", "anyOf", "oneOf"] {
                for one in fields.get(word).and_then(Value::as_array).into_iter().flatten() {
                    known.extend(self.known(one)?);
                }
            }
        }
        // A value of any shape.
        let is_object = resolved.get("type").is_some_and(|one| *one == "object");
        (is_object || !known.is_empty()).then_some(known)
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("the test does not know the type {other}"),
    }
}

#[test]
fn outputs_of_all_cases_are_as_documented() {
    let (mut plans, mut reviews) = (0, 0);
    for (case, outputs) in cases::json_outputs() {
        for (kind, value) in outputs {
            plans += usize::from(kind == OutputKind::Plan);
            reviews += usize::from(kind == OutputKind::PlanBase);
            assert_documented(kind, &value, &case);
        }
    }
    assert!(plans > 50 && reviews > 10, "{plans} plans and {reviews} reviews");
}

#[test]
fn output_that_differs_from_its_schema_is_found() {
    let schema = OutputKind::Plan.schema();
    let good = serde_json::json!({
        "counts": {"create": 1, "update": 0, "adopt": 0, "setDeleteOption": 0, "delete": 0,
                   "release": 0, "wait": 0, "hold": 0, "keep": 0},
        "steps": [{"cluster": "a", "work": "b", "action": "create", "reason": "NewInGit",
                   "message": "m"}],
    });
    assert_eq!(problems(&schema, &good), Vec::<String>::new());
    for (pointer, bad) in [
        ("/steps/0/action", serde_json::json!("destroy")),
        ("/steps/0", serde_json::json!({"cluster": "a"})),
        ("/counts/create", serde_json::json!("1")),
        ("/counts", serde_json::json!({"more": 1})),
    ] {
        let mut value = good.clone();
        *value.pointer_mut(pointer).unwrap() = bad;
        assert!(!problems(&schema, &value).is_empty(), "{pointer}");
    }
}

#[test]
fn outputs_without_a_hub_are_as_documented() {
    let clone = clone();
    let folder = clone.path();
    write(
        folder,
        "clusters/edge-1/cluster.yaml",
        "defaults: {namespace: shop, createNamespace: true}\n",
    );
    write(
        folder,
        "clusters/edge-1/web/cm.yaml",
        &config_map("web", "two").replace("  namespace: default\n", ""),
    );
    write(folder, "clusters/edge-2/bad/cm.yaml", "kind: [");
    let output = |arguments: &[&str]| -> Value {
        let output =
            gitwork(arguments).env("KUBECONFIG", "/dev/null").current_dir(folder).output().unwrap();
        assert!(code(&output) < Some(2), "{arguments:?}: {}", err(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let found = output(&["validate", "-o", "json"]);
    assert_documented(OutputKind::Validate, &found, "validate");
    let review = output(&["plan", "--base", "HEAD", "-o", "json"]);
    assert_documented(OutputKind::PlanBase, &review, "plan --base");
    let work = output(&["explain", "edge-1/web", "-o", "json"]);
    assert_documented(OutputKind::Explain, &work, "explain");
    let names: Vec<&str> = work["git"]["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["object"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["Namespace shop", "ConfigMap shop/web"]);
    let setting = |name: &str| {
        let all = work["git"]["settings"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap().clone()
    };
    assert_eq!(setting("namespace")["value"], "shop");
    assert_eq!(setting("namespace")["setBy"]["file"], "clusters/edge-1/cluster.yaml");
    assert_eq!(setting("createNamespace")["value"], true);
    let object = output(&["explain", "edge-1/web/configmap/web", "-o", "json"]);
    assert_documented(OutputKind::Explain, &object, "explain an object");
    for kind in OutputKind::ALL {
        let printed = output(&["schema", kind.schema_name()]);
        assert_eq!(printed, kind.schema());
    }
}
