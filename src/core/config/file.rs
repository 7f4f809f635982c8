//! Reads one configuration file: YAML, then the schema, then the rules of OCM's fields; every
//! problem with its line and column.

use gitwork_api::escape::pointer_name;
use gitwork_api::names::check_label;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::file_kind::FileKind;
use super::ocm_rules;
use super::ocm_rules::OCM_FIELDS;
use super::schema::{self, SchemaProblem, SchemaProblems};
use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::diagnostic_sink::DiagnosticSink;
use crate::model::name::RepoPath;
use crate::text::yaml;
use gitwork_yaml::Document;

/// One document of a configuration file, with what is needed to point into it.
#[derive(Debug)]
pub struct Config<T> {
    /// The content.
    pub value: T,
    /// The YAML that it was read from, with positions. A manifest sidecar's has no value.
    pub document: Document,
    /// The file, for messages.
    pub file: RepoPath,
}

impl<T> Config<T> {
    /// The place of the value at `pointer`.
    pub fn location(&self, pointer: &str) -> Location {
        Location::at(&self.file, self.document.span_of(pointer))
    }
}

/// Reads a file of one document; an empty file gives the type's default.
pub fn read_one<T: DeserializeOwned + Default>(
    file: &RepoPath,
    bytes: &[u8],
    kind: FileKind,
    scope: &Scope,
) -> (Option<Config<T>>, Vec<Diagnostic>) {
    let (mut all, mut diagnostics) = read_all(file, bytes, kind, scope);
    if let Some(second) = all.get(1) {
        let at = second.location("");
        diagnostics.push(Diagnostic::new(
            Code::UnexpectedShape,
            at,
            scope.clone(),
            "this file holds one document only, and this is a second one",
        ));
    }
    (if all.is_empty() { None } else { Some(all.swap_remove(0)) }, diagnostics)
}

/// Reads every document of a file. A document with an error is left out.
pub fn read_all<T: DeserializeOwned + Default>(
    file: &RepoPath,
    bytes: &[u8],
    kind: FileKind,
    scope: &Scope,
) -> (Vec<Config<T>>, Vec<Diagnostic>) {
    let read = yaml::read(file, bytes, scope);
    let mut diagnostics = DiagnosticSink::new(limits::FILE_DIAGNOSTICS_MAX);
    diagnostics.extend(read.diagnostics);
    let mut all = Vec::new();
    let schema = kind.cached_schema();
    for mut document in read.documents {
        let problems = problems(&document.value, kind, schema);
        diagnostics
            .extend(problems.iter().map(|problem| diagnostic(problem, &document, file, scope)));
        let read = match kind {
            // Its rules may be large: they are not in memory twice.
            FileKind::Manifest => T::deserialize(std::mem::take(&mut document.value)),
            _ => T::deserialize(&document.value),
        };
        match read {
            Ok(value) => all.push(Config { value, document, file: file.clone() }),
            Err(why) if problems.is_empty() => {
                let at = Location::at(file, document.span());
                diagnostics.push(Diagnostic::new(
                    Code::WrongType,
                    at,
                    scope.clone(),
                    why.to_string(),
                ));
            }
            Err(_) => {}
        }
    }
    (all, diagnostics.into_all())
}

/// The diagnostic for a problem in a document.
pub fn diagnostic(
    problem: &SchemaProblem,
    document: &Document,
    file: &RepoPath,
    scope: &Scope,
) -> Diagnostic {
    let span = if problem.code == Code::UnknownField {
        document.key_span_of(&problem.pointer)
    } else {
        document.span_of(&problem.pointer)
    };
    let mut diagnostic = Diagnostic::new(
        problem.code,
        Location::at(file, span),
        scope.clone(),
        problem.message.clone(),
    );
    diagnostic.hint.clone_from(&problem.hint);
    if let Some(fix) = &problem.fix {
        diagnostic = diagnostic.with_text_fix(span, fix.clone());
    }
    let field = dotted(&problem.pointer);
    if !field.is_empty() {
        diagnostic = diagnostic.with_field(field);
    }
    diagnostic
}

/// `spec.items[0].name` for `/spec/items/0/name`.
pub fn dotted(pointer: &str) -> String {
    let mut out = String::new();
    for part in pointer.split('/').skip(1) {
        let part = pointer_name(part);
        if part.bytes().all(|b| b.is_ascii_digit()) && !part.is_empty() && !out.is_empty() {
            out.push_str(&format!("[{part}]"));
        } else {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&part);
        }
    }
    out
}

/// The problems of one document of this kind.
#[cfg(test)]
pub(super) fn problems_of(value: &Value, kind: FileKind) -> Vec<SchemaProblem> {
    problems(value, kind, kind.cached_schema())
}

/// Every problem of one document.
fn problems(value: &Value, kind: FileKind, schema: &Value) -> Vec<SchemaProblem> {
    let settings = match kind {
        FileKind::Work | FileKind::Manifest => "",
        FileKind::Source | FileKind::Cluster | FileKind::Group => "/defaults",
        FileKind::Daemon => return schema::check(value, schema, &[]),
    };
    let ours: Vec<String> = OCM_FIELDS.iter().map(|field| format!("{settings}/{field}")).collect();
    let elsewhere: Vec<&str> = ours.iter().map(String::as_str).collect();
    let mut problems = SchemaProblems::default();
    problems.extend(schema::check(value, schema, &elsewhere));
    ocm_problems(value, settings, kind, &mut problems);
    problems.into_all()
}

fn ocm_problems(value: &Value, settings: &str, kind: FileKind, found: &mut SchemaProblems) {
    let Some(value) = value.pointer(settings) else { return };
    let mut add = |at: String, problems: Vec<SchemaProblem>| {
        found.extend(
            problems
                .into_iter()
                .map(|p| SchemaProblem { pointer: format!("{at}{}", p.pointer), ..p }),
        );
    };
    if kind == FileKind::Manifest {
        add(settings.to_owned(), ocm_rules::check_sidecar_rules(value));
        if let Some(Err(why)) =
            value.get("resource").and_then(Value::as_str).map(|t| check_label(t, 63))
        {
            found.add(Code::BadValue, || SchemaProblem {
                pointer: "/resource".into(),
                code: Code::BadValue,
                message: format!("a resource {why}"),
                hint: Some("write the plural, as in kubectl api-resources: gateways".into()),
                fix: None,
            });
        }
        return;
    }
    if let Some(option) = value.get("deleteOption") {
        add(format!("{settings}/deleteOption"), ocm_rules::check_delete_option(option));
    }
    if let Some(executor) = value.get("executor") {
        add(format!("{settings}/executor"), ocm_rules::check_executor(executor));
    }
    match value.get("manifestConfigs") {
        Some(Value::Array(configs)) => {
            for (index, config) in configs.iter().enumerate() {
                add(format!("{settings}/manifestConfigs/{index}"), check_full_config(config));
            }
        }
        None => {}
        Some(_) => add(
            format!("{settings}/manifestConfigs"),
            vec![SchemaProblem {
                pointer: String::new(),
                code: Code::WrongType,
                message: "must be a list".into(),
                hint: None,
                fix: None,
            }],
        ),
    }
}

/// A `manifestConfigs` entry: the identifier, and the rules.
fn check_full_config(config: &Value) -> Vec<SchemaProblem> {
    let mut problems = ocm_rules::check_manifest_config(config);
    let Value::Object(fields) = config else { return problems };
    match fields.get("resourceIdentifier") {
        Some(identifier) => {
            let found = ocm_rules::check_resource_identifier(identifier);
            problems.extend(found.into_iter().map(|p| SchemaProblem {
                pointer: format!("/resourceIdentifier{}", p.pointer),
                ..p
            }));
        }
        None => problems.push(SchemaProblem {
            pointer: String::new(),
            code: Code::BadValue,
            message: "resourceIdentifier is missing".into(),
            hint: Some("name the object: resource (plural), namespace, name".into()),
            fix: None,
        }),
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_read_as_fields() {
        assert_eq!(dotted("/spec/items/0/a~1b"), "spec.items[0].a/b");
        assert_eq!(dotted(""), "");
    }
}
