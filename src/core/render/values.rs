//! Variables in manifests, and their values for one cluster.
//!
//! ```text
//! ${NAME}                          values of cluster.yaml, then of group.yaml
//! ${cluster.name}                  the cluster's name
//! ${cluster.labels["tier"]}        labels of cluster.yaml, then of the ManagedCluster
//! ${cluster.claims["region"]}      claims of the ManagedCluster
//! ${NAME:-text}                    `text` where there is no value, or an empty text
//! ```

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};

use crate::config::values::is_variable_name;
use crate::model::digest::Digest;
use crate::model::facts::{KnownFact, KnownFacts};
use crate::model::name::{ClusterName, RepoPath};

/// What a variable names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variable {
    /// A value of `values`.
    Value(Box<str>),
    /// The cluster's name.
    ClusterName,
    /// A label of the cluster.
    Label(Box<str>),
    /// A claim of the cluster.
    Claim(Box<str>),
}

/// The name of the variable that every cluster has: its own name.
pub const CLUSTER_NAME: &str = "cluster.name";

/// A variable as it is written, with its default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholder<'t> {
    /// What it names.
    pub variable: Variable,
    /// The text after `:-`.
    pub default: Option<&'t str>,
}

impl<'t> Placeholder<'t> {
    /// Reads the text between `${` and `}`; `None` if it is no variable.
    pub fn parse(text: &'t str) -> Option<Self> {
        // A key in brackets may have the characters of `:-`, and a default those of a bracket.
        let has_key = text.starts_with("cluster.");
        let at = text.find(']').filter(|_| has_key).unwrap_or_default();
        let (name, default) = match text.get(at..)?.find(":-") {
            Some(end) => (text.get(..at + end)?, Some(text.get(at + end + 2..)?)),
            None => (text, None),
        };
        Some(Self { variable: Variable::parse(name)?, default })
    }

    /// The default as a value: a number, `true`, `false`, or text. Text in double quotes is text in
    /// any case.
    pub fn default_value(&self) -> Option<Value> {
        let text = self.default?;
        let read: Option<Value> = serde_json::from_str(text).ok();
        let typed =
            read.filter(|value| value.is_number() || value.is_boolean() || value.is_string());
        Some(typed.unwrap_or_else(|| text.into()))
    }
}

impl Variable {
    fn parse(text: &str) -> Option<Self> {
        if text == CLUSTER_NAME {
            return Some(Self::ClusterName);
        }
        if is_variable_name(text) {
            return Some(Self::Value(text.into()));
        }
        let key = |rest: &str| {
            let inside = rest.strip_prefix('[')?.strip_suffix(']')?;
            let quoted = |quote| inside.strip_prefix(quote)?.strip_suffix(quote);
            let key = quoted('"').or_else(|| quoted('\''))?;
            (!key.is_empty() && !key.contains(['"', '\''])).then(|| key.into())
        };
        let labels = text.strip_prefix("cluster.labels").and_then(key).map(Self::Label);
        labels.or_else(|| text.strip_prefix("cluster.claims").and_then(key).map(Self::Claim))
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(name) => f.write_str(name),
            Self::ClusterName => f.write_str(CLUSTER_NAME),
            Self::Label(key) => write!(f, "cluster.labels[\"{key}\"]"),
            Self::Claim(name) => write!(f, "cluster.claims[\"{name}\"]"),
        }
    }
}

/// The value of a variable for one cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolved<'a> {
    /// It has this value.
    Set {
        /// The value.
        value: Cow<'a, Value>,
        /// Whether the managed cluster itself can set it.
        is_reported: bool,
    },
    /// Nothing sets it.
    Unset {
        /// Whether the managed cluster itself can set it.
        is_reported: bool,
    },
    /// The cluster's facts are unknown.
    Unknown,
    /// It differs between the clusters of a ManifestWorkReplicaSet, which have one content.
    PerCluster,
}

/// `values` of one file. Works of many clusters are compared by them, so the digests of large ones
/// are computed once.
#[derive(Debug, Default)]
pub struct FileValues {
    values: BTreeMap<String, Value>,
    large: BTreeMap<String, Digest>,
}

/// A value of more bytes is compared by its digest.
const LARGE_VALUE_BYTES: usize = 256;

impl From<BTreeMap<String, Value>> for FileValues {
    fn from(values: BTreeMap<String, Value>) -> Self {
        let is_large = |value: &Value| inserted_bytes(value) > LARGE_VALUE_BYTES;
        let large = values.iter().filter(|(_, value)| is_large(value));
        let large = large.map(|(name, value)| (name.clone(), Digest::of_json(value)));
        Self { large: large.collect(), values }
    }
}

impl FileValues {
    /// The values by name.
    pub fn all(&self) -> &BTreeMap<String, Value> {
        &self.values
    }
}

/// The bytes that a value adds to a manifest. Values are nested up to the depth of a YAML file.
pub fn inserted_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| 8 + inserted_bytes(item)).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| 8 + name.len() + inserted_bytes(field)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// `values` of one file.
#[derive(Debug, Clone)]
pub struct ValueLevel<'a> {
    /// The file, for messages; it may be absent.
    pub file: RepoPath,
    /// Its values.
    pub values: &'a FileValues,
}

/// The values of all variables for the works of one cluster.
#[derive(Debug, Clone)]
pub struct ClusterValues<'a> {
    /// The cluster.
    pub cluster: &'a ClusterName,
    /// Highest precedence first: `cluster.yaml`, then `group.yaml`.
    pub levels: Vec<ValueLevel<'a>>,
    /// Labels of cluster.yaml.
    pub labels: &'a BTreeMap<String, String>,
    /// What the hub says of the cluster.
    pub facts: &'a KnownFacts,
}

impl<'a> ClusterValues<'a> {
    /// The value of a variable.
    pub fn resolve(&self, variable: &Variable) -> Resolved<'a> {
        let set =
            |text: &str, is_reported| Resolved::Set { value: Cow::Owned(text.into()), is_reported };
        let reported = |fact: KnownFact<'_>| match fact {
            KnownFact::Value(value) => set(value, true),
            KnownFact::Absent => Resolved::Unset { is_reported: true },
            KnownFact::Unknown => Resolved::Unknown,
        };
        let is_replica_set = self.cluster.replica_set_namespace().is_some();
        match variable {
            Variable::ClusterName | Variable::Label(_) | Variable::Claim(_) if is_replica_set => {
                Resolved::PerCluster
            }
            Variable::ClusterName => set(self.cluster.as_str(), false),
            Variable::Value(name) => {
                let mut levels = self.levels.iter();
                match levels.find_map(|level| level.values.values.get(&**name)) {
                    Some(value) => {
                        Resolved::Set { value: Cow::Borrowed(value), is_reported: false }
                    }
                    None => Resolved::Unset { is_reported: false },
                }
            }
            Variable::Label(key) => match self.labels.get(&**key) {
                Some(value) => set(value, false),
                None => reported(self.facts.label(key)),
            },
            Variable::Claim(name) => reported(self.facts.claim(name)),
        }
    }

    /// The names of all `values`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.levels.iter().flat_map(|level| level.values.values.keys()).map(String::as_str)
    }

    /// Where a variable could be set.
    pub fn places(&self, variable: &Variable) -> String {
        let mut files = self.levels.iter().map(|level| level.file.as_str());
        let own = files.next().unwrap_or_default();
        let cluster = self.cluster;
        let is_replica_set = cluster.replica_set_namespace().is_some();
        match variable {
            // The same text for each member of a group, so that it is printed once.
            Variable::Value(_) | Variable::ClusterName => match files.next() {
                Some(group) if is_replica_set => format!("set it in `values` of {group}"),
                Some(group) => format!("set it in `values` of {group} or of the cluster.yaml"),
                None => format!("set it in `values` of {own}"),
            },
            Variable::Label(_) => {
                format!("set it in `labels` of {own} or on the ManagedCluster {cluster}")
            }
            Variable::Claim(_) => format!("the ManagedCluster {cluster} does not report it"),
        }
    }

    /// A digest of the values of some variables. Equal digests give equal manifests.
    pub fn digest(&self, variables: &[Variable]) -> Digest {
        let values = variables.iter().map(|variable| {
            if let Some(digest) = self.large_value(variable) {
                // No other variable gives an object.
                return json!({ "digest": digest.to_string() });
            }
            match self.resolve(variable) {
                Resolved::Set { value, is_reported } => json!([value, is_reported]),
                Resolved::Unset { is_reported } => json!([is_reported]),
                Resolved::Unknown => Value::Null,
                Resolved::PerCluster => Value::from("per cluster"),
            }
        });
        Digest::of_json(&values.collect::<Value>())
    }

    /// The digest of a large value.
    fn large_value(&self, variable: &Variable) -> Option<Digest> {
        let Variable::Value(name) = variable else { return None };
        let level = self.levels.iter().find(|level| level.values.values.contains_key(&**name))?;
        level.values.large.get(&**name).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::facts::ClusterFacts;

    #[test]
    fn large_values_are_compared_by_digests_that_are_known() {
        let cluster = ClusterName::parse("a").unwrap();
        let of = |value: Value| {
            let values = FileValues::from(BTreeMap::from([("V".to_owned(), value)]));
            let is_large = values.large.contains_key("V");
            let levels = vec![ValueLevel { file: RepoPath::root(), values: &values }];
            let (labels, facts) = (&BTreeMap::new(), &KnownFacts::Absent);
            let values = ClusterValues { cluster: &cluster, levels, labels, facts };
            (is_large, values.digest(&[Variable::Value("V".into())]))
        };
        let text = |length: usize| Value::from("x".repeat(length));
        let (small, large) = (of(text(LARGE_VALUE_BYTES)), of(text(LARGE_VALUE_BYTES + 1)));
        assert_eq!((small.0, large.0), (false, true));
        assert_eq!(large, of(text(LARGE_VALUE_BYTES + 1)));
        let digests = [small.1, large.1, of(text(LARGE_VALUE_BYTES + 2)).1];
        let distinct: std::collections::BTreeSet<String> =
            digests.iter().map(ToString::to_string).collect();
        assert_eq!(distinct.len(), 3);
        // A value that looks like the digest of another one is another value.
        let lookalike =
            json!({ "digest": Digest::of_json(&text(LARGE_VALUE_BYTES + 1)).to_string() });
        assert_ne!(of(lookalike).1, large.1);
    }

    #[test]
    fn variables_read_what_they_print() {
        for (text, variable) in [
            ("NAME_2", Variable::Value("NAME_2".into())),
            ("cluster.name", Variable::ClusterName),
            ("cluster.labels[\"example.com/a-b\"]", Variable::Label("example.com/a-b".into())),
            ("cluster.claims[\"x:-y\"]", Variable::Claim("x:-y".into())),
        ] {
            let read = Placeholder::parse(text).unwrap();
            assert_eq!((&read.variable, read.default), (&variable, None), "{text}");
            assert_eq!(variable.to_string(), text);
            let with_default = format!("{text}:-a:-b");
            let read = Placeholder::parse(&with_default).unwrap();
            assert_eq!((read.variable, read.default), (variable, Some("a:-b")));
        }
        let single = Placeholder::parse("cluster.labels['a']").unwrap();
        assert_eq!(single.variable, Variable::Label("a".into()));
        for bad in [
            "",
            "1A",
            "a-b",
            "cluster.label[\"a\"]",
            "cluster.labels[a]",
            "cluster.labels[\"\"]",
            "cluster.labels[\"a']",
            "cluster.labels[\"a\"]x",
            "cluster.labels.a",
            "cluster.names",
            ":-x",
        ] {
            assert_eq!(Placeholder::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn defaults_have_types() {
        for (text, expected) in [
            ("A:-3", json!(3)),
            ("A:-2.5", json!(2.5)),
            ("A:-true", json!(true)),
            ("A:-\"3\"", json!("3")),
            ("A:-three", json!("three")),
            ("A:-", json!("")),
            ("A:-[1]", json!("[1]")),
            ("A:-null", json!("null")),
        ] {
            assert_eq!(Placeholder::parse(text).unwrap().default_value(), Some(expected), "{text}");
        }
    }

    #[test]
    fn git_overrides_the_hub_and_the_cluster_the_group() {
        let map = |pairs: &[(&str, Value)]| -> BTreeMap<String, Value> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
        };
        let (own, group) = (map(&[("A", json!(1))]), map(&[("A", json!(2)), ("B", json!([3]))]));
        let level = |values, file| ValueLevel { file: RepoPath::parse(file).unwrap(), values };
        let labels = [("x".to_owned(), "git".to_owned())].into();
        let text = |key: &str| (key.to_owned(), "hub".to_owned());
        let facts = ClusterFacts {
            labels: [text("x"), text("y")].into(),
            claims: [text("x")].into(),
            ..ClusterFacts::default()
        };
        let facts = KnownFacts::Known(Arc::new(facts));
        let cluster = ClusterName::parse("edge-1").unwrap();
        let (own, group) = (FileValues::from(own), FileValues::from(group));
        let levels = vec![level(&own, "clusters/edge-1/cluster.yaml"), level(&group, "groups/g/a")];
        let values = ClusterValues { cluster: &cluster, levels, labels: &labels, facts: &facts };
        let of = |text: &str| match values.resolve(&Placeholder::parse(text).unwrap().variable) {
            Resolved::Set { value, is_reported } => format!("{value} {is_reported}"),
            other => format!("{other:?}"),
        };
        assert_eq!(of("A"), "1 false");
        assert_eq!(of("B"), "[3] false");
        assert_eq!(of("C"), "Unset { is_reported: false }");
        assert_eq!(of("cluster.name"), "\"edge-1\" false");
        assert_eq!(of("cluster.labels['x']"), "\"git\" false");
        assert_eq!(of("cluster.labels['y']"), "\"hub\" true");
        assert_eq!(of("cluster.labels['z']"), "Unset { is_reported: true }");
        assert_eq!(of("cluster.claims['x']"), "\"hub\" true");
        let unknown = ClusterValues { facts: &KnownFacts::Unknown, ..values.clone() };
        assert_eq!(unknown.resolve(&Variable::Label("y".into())), Resolved::Unknown);
        assert_eq!(unknown.resolve(&Variable::Claim("x".into())), Resolved::Unknown);
        let of =
            |values: &ClusterValues<'_>, key: &str| values.digest(&[Variable::Label(key.into())]);
        assert_eq!(of(&values, "x"), of(&unknown, "x"));
        assert_ne!(of(&values, "y"), of(&unknown, "y"));
        // One that the cluster can set is another one.
        assert_ne!(of(&values, "y"), values.digest(&[Variable::Value("y".into())]));
    }
}
