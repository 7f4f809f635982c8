//! A work that another one depends on, as `dependsOn` in work.yaml names it.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// An entry of `dependsOn`: the name of a work, or a mapping with `cluster` and `work`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "Entry")]
pub struct DependencyEntry {
    /// The cluster of the other work; `None` for the cluster of the work itself.
    pub cluster: Option<String>,
    /// The name of the other work.
    pub work: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Name(String),
    Mapping { cluster: Option<String>, work: String },
}

impl From<Entry> for DependencyEntry {
    fn from(entry: Entry) -> Self {
        match entry {
            Entry::Name(work) => Self { cluster: None, work },
            Entry::Mapping { cluster, work } => Self { cluster, work },
        }
    }
}

impl JsonSchema for DependencyEntry {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "DependencyEntry".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "object"],
            "properties": {
                "cluster": {
                    "description": "Cluster of the other work. Default: the cluster of this work.",
                    "type": "string",
                },
                "work": { "description": "Name of the other work.", "type": "string" },
            },
            "required": ["work"],
            "additionalProperties": false,
        })
    }
}
