//! The JSON output of commands, and its JSON Schemas.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::Value;

use super::explain::Explanation;
use super::review::Review;
use super::status::WorkStatus;
use super::status::source_report::ReportedSource;
use super::status::tree::WorkTree;
use gitwork_core::config::file_kind::join_lines;
use gitwork_core::plan::PlanSummary;
use gitwork_core::text::diagnostics;

/// The commands whose `-o json` has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputKind {
    /// `gitwork validate`.
    Validate,
    /// `gitwork plan`, against the hub.
    Plan,
    /// `gitwork plan --base`.
    PlanBase,
    /// `gitwork explain CLUSTER/WORK`.
    Explain,
    /// `gitwork status`.
    Status,
    /// `gitwork tree`.
    Tree,
}

/// The works that a command shows, and what the daemon reports of their sources.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WorksOutput<W> {
    /// The works by state, in one line.
    pub summary: String,
    /// The selected works.
    pub works: Vec<W>,
    /// The sources, each with its report but without its works.
    pub sources: Vec<ReportedSource>,
}

impl OutputKind {
    /// Every kind.
    pub const ALL: [OutputKind; 6] =
        [Self::Validate, Self::Plan, Self::PlanBase, Self::Explain, Self::Status, Self::Tree];

    /// The name of its schema, as `gitwork schema` takes it.
    pub fn schema_name(self) -> &'static str {
        match self {
            Self::Validate => "validate-output",
            Self::Plan => "plan-output",
            Self::PlanBase => "plan-base-output",
            Self::Explain => "explain-output",
            Self::Status => "status-output",
            Self::Tree => "tree-output",
        }
    }

    /// The JSON Schema (draft 2020-12) of the output. New versions may add fields.
    pub fn schema(self) -> Value {
        let settings = SchemaSettings::draft2020_12()
            .for_serialize()
            .with_transform(RecursiveTransform(join_lines))
            .with_transform(RecursiveTransform(without_links));
        let generator = settings.into_generator();
        let schema = match self {
            Self::Validate => diagnostics::report_schema(generator),
            Self::Plan => generator.into_root_schema_for::<PlanSummary>(),
            Self::PlanBase => generator.into_root_schema_for::<Review>(),
            Self::Explain => generator.into_root_schema_for::<Explanation>(),
            Self::Status => generator.into_root_schema_for::<WorksOutput<WorkStatus>>(),
            Self::Tree => generator.into_root_schema_for::<WorksOutput<WorkTree>>(),
        };
        let mut schema = schema.to_value();
        if let Some(fields) = schema.as_object_mut() {
            let title = format!("gitwork {} -o json", self.command());
            fields.insert("title".to_owned(), title.into());
        }
        schema
    }

    fn command(self) -> &'static str {
        match self {
            Self::Validate => "validate",
            Self::Plan => "plan",
            Self::PlanBase => "plan --base",
            Self::Explain => "explain",
            Self::Status => "status",
            Self::Tree => "tree",
        }
    }
}

/// Descriptions come from documentation comments. Outside of the code their links lead nowhere.
fn without_links(schema: &mut Schema) {
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.replace("[`", "`").replace("`]", "`");
    }
}
