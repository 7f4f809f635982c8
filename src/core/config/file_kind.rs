//! The kinds of configuration files, and their JSON Schemas.

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde_json::Value;

use super::daemon_file::DaemonFile;
use super::group_file::GroupFile;
use super::repository_files::{ClusterFile, ManifestFile, SourceFile, WorkFile};

/// The configuration files that gitwork reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// `gitwork.yaml`.
    Source,
    /// `cluster.yaml`.
    Cluster,
    /// `group.yaml`.
    Group,
    /// `work.yaml`.
    Work,
    /// `<file>.config.yaml`.
    Manifest,
    /// The file of `gitwork run --config`.
    Daemon,
}

impl FileKind {
    /// Every kind.
    pub const ALL: [FileKind; 6] = [
        FileKind::Source,
        FileKind::Cluster,
        FileKind::Work,
        FileKind::Manifest,
        FileKind::Daemon,
        FileKind::Group,
    ];

    /// The name of its schema, as `gitwork schema` takes it.
    pub fn schema_name(self) -> &'static str {
        match self {
            FileKind::Source => "gitwork",
            FileKind::Cluster => "cluster",
            FileKind::Group => "group",
            FileKind::Work => "work",
            FileKind::Manifest => "manifest-config",
            FileKind::Daemon => "daemon",
        }
    }

    /// The schema, generated once. The daemon's file needs one; all took 3.5 ms more of a start.
    pub(super) fn cached_schema(self) -> &'static Value {
        static SCHEMAS: LazyLock<BTreeMap<FileKind, OnceLock<Value>>> =
            LazyLock::new(|| FileKind::ALL.map(|kind| (kind, OnceLock::new())).into());
        // The table has every kind.
        SCHEMAS.get(&self).map_or(&Value::Null, |cached| cached.get_or_init(|| self.schema()))
    }

    /// The JSON Schema (draft 2020-12) of the file.
    pub fn schema(self) -> Value {
        let settings = SchemaSettings::draft2020_12()
            .with(|settings| settings.inline_subschemas = true)
            .with_transform(RecursiveTransform(join_lines))
            .with_transform(RecursiveTransform(require_no_default));
        let generator = settings.into_generator();
        let schema = match self {
            FileKind::Source => generator.into_root_schema_for::<SourceFile>(),
            FileKind::Cluster => generator.into_root_schema_for::<ClusterFile>(),
            FileKind::Group => generator.into_root_schema_for::<GroupFile>(),
            FileKind::Work => generator.into_root_schema_for::<WorkFile>(),
            FileKind::Manifest => generator.into_root_schema_for::<ManifestFile>(),
            FileKind::Daemon => generator.into_root_schema_for::<DaemonFile>(),
        };
        schema.to_value()
    }
}

/// Removes fields with a default from `required`. The API server sets defaults before it checks a
/// schema of OCM's, and so a file may leave these fields out.
fn require_no_default(schema: &mut Schema) {
    let Some(Value::Object(properties)) = schema.get("properties") else { return };
    let has_default =
        |name: &str| properties.get(name).is_some_and(|field| field.get("default").is_some());
    let Some(Value::Array(names)) = schema.get("required") else { return };
    let names: Vec<Value> =
        names.iter().filter(|name| !name.as_str().is_some_and(has_default)).cloned().collect();
    if names.is_empty() {
        schema.remove("required");
    } else {
        schema.insert("required".to_owned(), Value::Array(names));
    }
}

/// Joins the lines of each paragraph of a description. Doc comments have line breaks within
/// sentences, which editors would show.
pub fn join_lines(schema: &mut Schema) {
    if let Some(Value::String(description)) = schema.get_mut("description") {
        let paragraphs: Vec<String> =
            description.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
        *description = paragraphs.join("\n\n");
    }
}
