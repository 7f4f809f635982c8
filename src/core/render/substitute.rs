//! Variables in manifests, where a work asks for it. Strict: a name without a value is an error.
//!
//! A text that is nothing but one variable becomes the value with its own type, so `replicas:
//! ${REPLICAS}` gives a number where cluster.yaml has a number. Inside a longer text a value is
//! inserted as text. `$${` stands for `${` itself. Keys are left alone.
//!
//! What a managed cluster can set itself never gets into a field that says which object it is, or
//! where: a cluster must not choose the namespace or kind that its labels are written to.

use std::borrow::Cow;
use std::collections::BTreeSet;

use gitwork_api::escape::pointer_token;
use serde_json::{Map, Value};

use crate::config::schema::{SchemaProblem, SchemaProblems};
use crate::limits;
use crate::model::diagnostic::Code;
use crate::render::values::{
    CLUSTER_NAME, ClusterValues, Placeholder, Resolved, Variable, inserted_bytes,
};
use crate::text::closest;
use crate::text::truncate::truncate_chars;

/// Leaves out what stands between the braces: it may be a part of the Secret.
fn hide_names(problem: &mut SchemaProblem) {
    let message = match problem.code {
        Code::UnknownVariable => {
            "a variable in this Secret has no value for this cluster (its name is hidden)"
        }
        Code::UnknownFacts => {
            "a variable in this Secret needs facts of this cluster (its name is hidden)"
        }
        Code::ReportedValue => {
            "a variable in this Secret may not set this field: a managed cluster can change it \
             (its name is hidden)"
        }
        Code::BadVariable => {
            "this text of a Secret has a malformed variable; write $${ for ${ itself"
        }
        _ => return,
    };
    problem.hint = None;
    problem.message = message.into();
}

/// Whether an object is a Secret, has one in a list, or has a kind that is not known yet.
fn may_be_secret(object: &Value) -> bool {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let items = object.get("items").and_then(Value::as_array);
    matches!(kind, "Secret" | "SecretList")
        || kind.contains("${")
        || items.into_iter().flatten().any(|item| item.get("kind").is_some_and(|k| k == "Secret"))
}

/// Fields that say which object a manifest is, and where it is applied, at any depth.
const PROTECTED_FIELDS: [&str; 3] = ["apiVersion", "kind", "namespace"];

/// Replaces the variables of one work, and counts how much they may still add to it.
#[derive(Debug)]
pub struct Substitution<'a> {
    values: &'a ClusterValues<'a>,
    bytes_left: usize,
    used: BTreeSet<Variable>,
}

/// What may be inserted below a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldProtection {
    /// Any value.
    Open,
    /// Only values that no managed cluster can set.
    Protected,
    /// The metadata of a Namespace, whose name is protected.
    NamespaceMetadata,
}

impl FieldProtection {
    /// The place of a field of an object.
    fn of_field(self, name: &str, object: &Map<String, Value>) -> Self {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        match name {
            _ if PROTECTED_FIELDS.contains(&name) => Self::Protected,
            "name" if self == Self::NamespaceMetadata => Self::Protected,
            "metadata" if kind == "Namespace" || kind.contains("${") => Self::NamespaceMetadata,
            _ => Self::Open,
        }
    }
}

impl<'a> Substitution<'a> {
    /// Nothing is replaced yet.
    pub fn new(values: &'a ClusterValues<'a>) -> Self {
        Self { values, bytes_left: limits::SUBSTITUTED_BYTES_MAX, used: BTreeSet::new() }
    }

    /// The bytes that variables have added.
    pub fn added_bytes(&self) -> usize {
        limits::SUBSTITUTED_BYTES_MAX - self.bytes_left
    }

    /// All variables that were asked for. Manifests without a problem have the same ones for every
    /// cluster.
    pub fn into_used(self) -> Vec<Variable> {
        self.used.into_iter().collect()
    }

    /// Replaces every variable in the texts of `object`; answers what could not be replaced.
    pub fn apply(&mut self, object: &mut Value) -> Vec<SchemaProblem> {
        let mut problems = SchemaProblems::default();
        let is_secret = may_be_secret(object);
        self.walk(object, FieldProtection::Open, &mut String::new(), &mut problems);
        let mut problems = problems.into_all();
        if is_secret || may_be_secret(object) {
            problems.iter_mut().for_each(hide_names);
        }
        problems
    }

    fn walk(
        &mut self,
        value: &mut Value,
        place: FieldProtection,
        at: &mut String,
        problems: &mut SchemaProblems,
    ) {
        match value {
            Value::String(text) if text.contains("${") => match self.replaced(text, place) {
                Ok(new) => *value = new,
                Err(invalid) => {
                    problems.add(invalid.code(), || invalid.problem(at.clone(), self.values));
                }
            },
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let length = at.len();
                    at.push_str(&format!("/{index}"));
                    self.walk(item, FieldProtection::Open, at, problems);
                    at.truncate(length);
                }
            }
            Value::Object(fields) => {
                let names = fields.keys().map(|name| place.of_field(name, fields));
                let places: Vec<FieldProtection> = names.collect();
                for ((name, field), place) in fields.iter_mut().zip(places) {
                    let length = at.len();
                    at.push('/');
                    at.push_str(&pointer_token(name));
                    self.walk(field, place, at, problems);
                    at.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn replaced<'t>(
        &mut self,
        text: &'t str,
        place: FieldProtection,
    ) -> Result<Value, InvalidVariable<'t>> {
        if let Some(inside) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'))
            && !inside.contains('}')
            && let Some(placeholder) = Placeholder::parse(inside)
        {
            return self.insert(&placeholder, place).map(Cow::into_owned);
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, from) = rest.split_at(at);
            if let Some(before) = before.strip_suffix('$') {
                out.push_str(before);
                out.push_str("${");
                rest = from.strip_prefix("${").unwrap_or_default();
                continue;
            }
            out.push_str(before);
            let inside = from.strip_prefix("${").unwrap_or_default();
            let (name, after) = inside.split_once('}').ok_or(InvalidVariable::Open)?;
            let placeholder = Placeholder::parse(name).ok_or(InvalidVariable::NoName(name))?;
            match &*self.insert(&placeholder, place)? {
                Value::String(value) => out.push_str(value),
                Value::Array(_) | Value::Object(_) => {
                    return Err(InvalidVariable::NotText(placeholder.variable));
                }
                other => out.push_str(&other.to_string()),
            }
            rest = after;
        }
        out.push_str(rest);
        Ok(Value::String(out))
    }

    /// The value of a variable, which is inserted once.
    fn insert<'t>(
        &mut self,
        placeholder: &Placeholder<'t>,
        place: FieldProtection,
    ) -> Result<Cow<'a, Value>, InvalidVariable<'t>> {
        let variable = &placeholder.variable;
        if !self.used.contains(variable) {
            self.used.insert(variable.clone());
        }
        let default = || placeholder.default_value().map(Cow::Owned);
        let (value, is_reported) = match self.values.resolve(variable) {
            // Whatever the value is.
            Resolved::Unknown if place == FieldProtection::Protected => (None, true),
            Resolved::Unknown => return Err(InvalidVariable::Unknown(variable.clone())),
            // A default would be the value on all clusters, whatever theirs is.
            Resolved::PerCluster => return Err(InvalidVariable::PerCluster(variable.clone())),
            Resolved::Unset { is_reported } => (default(), is_reported),
            Resolved::Set { value, is_reported } => {
                let is_empty = value.as_str().is_some_and(str::is_empty);
                let default = default().filter(|_| is_empty);
                (Some(default.unwrap_or(value)), is_reported)
            }
        };
        if is_reported && place == FieldProtection::Protected {
            return Err(InvalidVariable::Reported(variable.clone()));
        }
        let value = value.ok_or_else(|| InvalidVariable::Unset(variable.clone()))?;
        // Counted before they are copied.
        let left = self.bytes_left.checked_sub(inserted_bytes(&value));
        self.bytes_left = left.unwrap_or_default();
        left.map(|_| value).ok_or(InvalidVariable::TooLarge)
    }
}

/// Why a text cannot be replaced.
#[derive(Clone)]
enum InvalidVariable<'t> {
    /// A `${` without its `}`.
    Open,
    /// Between the braces is no variable.
    NoName(&'t str),
    /// A list or a mapping within a longer text.
    NotText(Variable),
    /// Nothing sets it.
    Unset(Variable),
    /// The facts of the cluster are unknown.
    Unknown(Variable),
    /// The clusters of a ManifestWorkReplicaSet have different values.
    PerCluster(Variable),
    /// The managed cluster can set it, and the field is protected.
    Reported(Variable),
    /// All values together are too large.
    TooLarge,
}

impl InvalidVariable<'_> {
    fn code(&self) -> Code {
        match self {
            Self::Open | Self::NoName(_) | Self::NotText(_) => Code::BadVariable,
            Self::Unset(_) | Self::PerCluster(_) => Code::UnknownVariable,
            Self::Unknown(_) => Code::UnknownFacts,
            Self::Reported(_) => Code::ReportedValue,
            Self::TooLarge => Code::TooManyFiles,
        }
    }

    fn problem(&self, pointer: String, values: &ClusterValues<'_>) -> SchemaProblem {
        let shortened =
            |text: &str| truncate_chars(text, limits::MESSAGE_TEXT_CHARS_MAX).into_owned();
        let named = |variable: &Variable| shortened(&variable.to_string());
        let (message, hint) = match self {
            Self::Open => ("a \"${\" has no closing \"}\"".to_owned(), None),
            Self::NoName(name) => (format!("${{{}}} is not a variable", shortened(name)), None),
            Self::NotText(variable) => {
                let name = named(variable);
                let message = format!("${{{name}}} is a list or a mapping, within a longer text");
                (message, Some("make the variable the whole text".to_owned()))
            }
            Self::Unset(variable) => {
                let name = named(variable);
                let near = match variable {
                    Variable::Value(_) => closest(&name, values.names().chain([CLUSTER_NAME])),
                    _ => None,
                };
                let near =
                    near.map_or_else(String::new, |near| format!("did you mean ${{{near}}}? "));
                let hint =
                    format!("{near}{}, or write ${{{name}:-DEFAULT}}", values.places(variable));
                (format!("the variable ${{{name}}} has no value for this cluster"), Some(hint))
            }
            Self::Unknown(variable) => {
                let (name, cluster) = (named(variable), values.cluster);
                (format!("${{{name}}} needs the facts of the cluster {cluster}"), None)
            }
            Self::PerCluster(variable) => {
                let name = named(variable);
                let message = format!(
                    "${{{name}}} differs between clusters, and a ManifestWorkReplicaSet has the \
                     same content for all"
                );
                let hint = "use `values` of the group, or remove `deliver` from group.yaml";
                (message, Some(hint.to_owned()))
            }
            Self::Reported(variable) => {
                let name = named(variable);
                let message =
                    format!("${{{name}}} may not set this field: a managed cluster can change it");
                (message, None)
            }
            Self::TooLarge => {
                let most = limits::SUBSTITUTED_BYTES_MAX;
                (format!("variables add more than {most} bytes to this work"), None)
            }
        };
        SchemaProblem { pointer, code: self.code(), message, hint, fix: None }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::model::facts::{ClusterFacts, KnownFacts};
    use crate::model::name::{ClusterName, RepoPath};
    use crate::render::values::{FileValues, ValueLevel};

    fn values() -> BTreeMap<String, Value> {
        [
            ("N".into(), json!(3)),
            ("ON".into(), json!(true)),
            ("REGION".into(), json!("eu-1")),
            ("PORT".into(), json!("80")),
            ("EMPTY".into(), json!("")),
            ("HOSTS".into(), json!(["a", "b"])),
            ("LIMITS".into(), json!({"cpu": "${N}", "memory": 1})),
        ]
        .into()
    }

    /// Replaces the variables for the cluster `a`, which has the labels `x` in Git and `y` on the
    /// hub, and the claim `z`.
    fn apply(values: &BTreeMap<String, Value>, object: &mut Value) -> Vec<SchemaProblem> {
        let text = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let facts = ClusterFacts {
            labels: [text("y", "hub")].into(),
            claims: [text("z", "claim")].into(),
            ..ClusterFacts::default()
        };
        let facts = KnownFacts::Known(Arc::new(facts));
        apply_with(values, &facts, object)
    }

    fn apply_with(
        values: &BTreeMap<String, Value>,
        facts: &KnownFacts,
        object: &mut Value,
    ) -> Vec<SchemaProblem> {
        let cluster = ClusterName::parse("a").unwrap();
        let file = RepoPath::parse("clusters/a/cluster.yaml").unwrap();
        let labels = [("x".to_owned(), "git".to_owned())].into();
        let own = FileValues::from(values.clone());
        let levels = vec![ValueLevel { file, values: &own }];
        let values = ClusterValues { cluster: &cluster, levels, labels: &labels, facts };
        Substitution::new(&values).apply(object)
    }

    #[test]
    fn a_lone_variable_keeps_its_type_and_others_become_text() {
        for (text, expected) in [
            ("${N}", json!(3)),
            ("${ON}", json!(true)),
            ("${PORT}", json!("80")),
            ("${HOSTS}", json!(["a", "b"])),
            // What is inserted is not replaced again.
            ("${LIMITS}", json!({"cpu": "${N}", "memory": 1})),
            ("x-${N}-${REGION}", json!("x-3-eu-1")),
            ("$${N}", json!("${N}")),
            ("$$${N}", json!("$${N}")),
            ("a $${N} ${N}", json!("a ${N} 3")),
            ("$N", json!("$N")),
            ("${N}${N}", json!("33")),
            ("${MISSING:-5}", json!(5)),
            ("${MISSING:-\"5\"}", json!("5")),
            ("${N:-5}", json!(3)),
            ("${EMPTY:-x y}", json!("x y")),
            ("${EMPTY}", json!("")),
            ("v${MISSING:-\"1\"}.${MISSING:-2}", json!("v1.2")),
            ("${cluster.name}", json!("a")),
            ("${cluster.labels[\"x\"]}-${cluster.labels['y']}", json!("git-hub")),
            ("${cluster.claims[\"z\"]}", json!("claim")),
            ("${cluster.labels[\"none\"]:-small}", json!("small")),
        ] {
            let mut value = json!({"a": [text]});
            assert_eq!(apply(&values(), &mut value), [], "{text}");
            assert_eq!(value, json!({"a": [expected]}), "{text}");
        }
    }

    #[test]
    fn every_problem_is_found_with_its_location() {
        let mut value = json!({
            "a": "${REGIO}",
            "b/c": ["${", "${x-y}", "fine"],
            "d": "all ${HOSTS}",
            "e": "${cluster.labels['none']}",
            "f": "${cluster.nam}",
        });
        let problems = apply(&values(), &mut value);
        let found: Vec<(&str, Code)> =
            problems.iter().map(|p| (p.pointer.as_str(), p.code)).collect();
        assert_eq!(
            found,
            [
                ("/a", Code::UnknownVariable),
                ("/b~1c/0", Code::BadVariable),
                ("/b~1c/1", Code::BadVariable),
                ("/d", Code::BadVariable),
                ("/e", Code::UnknownVariable),
                ("/f", Code::BadVariable),
            ]
        );
        assert_eq!(
            problems[0].hint.as_deref(),
            Some(
                "did you mean ${REGION}? set it in `values` of clusters/a/cluster.yaml, or write \
                 ${REGIO:-DEFAULT}"
            )
        );
        assert_eq!(
            problems[4].hint.as_deref(),
            Some(
                "set it in `labels` of clusters/a/cluster.yaml or on the ManagedCluster a, or \
                 write ${cluster.labels[\"none\"]:-DEFAULT}"
            )
        );
    }

    #[test]
    fn what_a_cluster_can_set_stays_out_of_protected_fields() {
        let label = "${cluster.labels[\"y\"]}";
        for object in [
            json!({"apiVersion": label}),
            json!({"kind": format!("x{label}")}),
            json!({"metadata": {"namespace": "${cluster.claims[\"z\"]:-a}"}}),
            json!({"metadata": {"namespace": "${cluster.labels[\"none\"]:-a}"}}),
            json!({"subjects": [{"kind": "User", "namespace": label}]}),
            json!({"kind": "Namespace", "metadata": {"name": label}}),
            json!({"kind": "List", "items": [{"kind": "Namespace", "metadata": {"name": label}}]}),
            json!({"kind": "${REGION}", "metadata": {"name": label}}),
        ] {
            let mut changed = object.clone();
            let problems = apply(&values(), &mut changed);
            let codes: Vec<Code> = problems.iter().map(|problem| problem.code).collect();
            assert_eq!(codes, [Code::ReportedValue], "{object}");
            assert!(!changed.to_string().contains("hub"), "{changed}");
            let without_facts = apply_with(&values(), &KnownFacts::Unknown, &mut object.clone());
            assert_eq!(without_facts.len(), 1, "{object}");
            assert_eq!(without_facts[0].code, Code::ReportedValue, "{object}");
        }
        for object in [
            json!({"metadata": {"namespace": "${cluster.labels[\"x\"]}", "name": label}}),
            json!({"kind": "Namespace", "metadata": {"name": "${cluster.name}", "labels": {"n":
                label}}}),
            json!({"kind": "CustomResourceDefinition", "spec": {"properties": {"kind":
                {"description": label}}}}),
        ] {
            assert_eq!(apply(&values(), &mut object.clone()), [], "{object}");
        }
    }

    #[test]
    fn unknown_facts_are_no_unknown_variables() {
        let mut value = json!({"a": "${cluster.labels['y']:-x}", "b": "${cluster.labels['x']}"});
        let problems = apply_with(&values(), &KnownFacts::Unknown, &mut value);
        let found: Vec<(&str, Code)> =
            problems.iter().map(|p| (p.pointer.as_str(), p.code)).collect();
        assert_eq!(found, [("/a", Code::UnknownFacts)]);
        assert_eq!(value["b"], "git");
    }

    #[test]
    fn values_are_counted_before_they_are_copied() {
        let large = [("V".to_owned(), json!("x".repeat(900 * 1024)))].into();
        for text in ["${V}".repeat(5_000), format!("{}$${{V}}", "${V}".repeat(10))] {
            let mut value = json!({ "a": text, "b": "${V}" });
            let problems = apply(&large, &mut value);
            let found: Vec<_> = problems.iter().map(|p| (p.pointer.as_str(), p.code)).collect();
            assert_eq!(found[0], ("/a", Code::TooManyFiles));
            assert!(value.to_string().len() < 2 * 1024 * 1024, "the text stays as it was");
        }
        let lists = [("V".to_owned(), json!(vec!["x".repeat(90 * 1024); 10]))].into();
        for values in [&large, &lists] {
            // Nine of them fit.
            let mut fits = json!(vec!["${V}"; 9]);
            assert_eq!(apply(values, &mut fits), []);
            assert_eq!(apply(values, &mut json!(vec!["${V}"; 10])).len(), 1);
        }
        // The bytes count over all documents of a work.
        let cluster = ClusterName::parse("a").unwrap();
        let large = FileValues::from(large);
        let levels = vec![ValueLevel { file: RepoPath::root(), values: &large }];
        let (labels, facts) = (BTreeMap::new(), KnownFacts::Absent);
        let values = ClusterValues { cluster: &cluster, levels, labels: &labels, facts: &facts };
        let mut substitution = Substitution::new(&values);
        assert_eq!(substitution.apply(&mut json!(["${V}", "${V}${V}${V}", "${V}"])), []);
        assert_eq!(substitution.apply(&mut json!("${V}${V}${V}${V}${V}")).len(), 1);
        assert_eq!(substitution.into_used(), [Variable::Value("V".into())]);
    }

    #[test]
    fn problem_in_a_secret_shows_nothing_of_it() {
        for object in [
            json!({"kind": "Secret", "stringData": {"a": "${canary}", "b": "x${canary 1}"}}),
            json!({"kind": "List", "items": [{"kind": "Secret", "data": {"a": "${canary}"}}]}),
            json!({"kind": "${K}", "data": {"a": "${canary}"}}),
            json!({"kind": "Secret", "data": {"namespace": "${cluster.labels['canary']:-a}"}}),
        ] {
            for facts in [KnownFacts::Unknown, KnownFacts::Absent] {
                let problems = apply_with(&values(), &facts, &mut object.clone());
                assert!(!problems.is_empty());
                assert!(!format!("{problems:?}").contains("canary"), "{problems:?}");
            }
        }
    }
}
