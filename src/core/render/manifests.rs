//! One manifest file into manifests: `List`s flattened, every object checked, kinds resolved.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use gitwork_api::names::check_label;
use serde_json::Value;

use super::object_checks::{ObjectChecks, ObjectProblem, object_name};
use super::parsed_files::ParsedManifestFile;
use super::relations::{Place, RelatedObject, Relations};
use super::substitute::Substitution;
use super::template;
use crate::config::SecretPolicy;
use crate::config::file;
use crate::config::file_names::{WORK_FILE, is_misnamed};
use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, FixKind, Location, Scope, Severity, Span};
use crate::model::diagnostic_sink::DiagnosticSink;
use crate::model::kinds::{Found, KindIndex};
use crate::model::manifest::{Identity, Manifest, Origin};
use crate::model::name::RepoPath;
use crate::model::value_path::value_at;
use crate::text::truncate::truncate_chars;
use crate::text::yaml;
use gitwork_schemas::Correction;
use gitwork_yaml::{Document, ParsedYaml};

/// What the objects of a file are checked against. Files that are no YAML text, such as Git LFS
/// pointers, are reported by the YAML reader.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// The plurals and scopes of kinds.
    pub kinds: &'a KindIndex,
    /// What becomes of Secrets with data.
    pub secrets: SecretPolicy,
    /// What an error freezes.
    pub scope: &'a Scope,
    /// How objects are checked.
    pub checks: &'a ObjectChecks,
    /// The namespace of objects that need one and have none.
    pub namespace: Option<&'a str>,
    /// The work names a namespace for them, which is wrong.
    pub has_bad_namespace: bool,
}

/// What a file holds.
#[derive(Debug, Default)]
pub struct ParsedManifests {
    /// The objects that could be identified, in the file's order.
    pub manifests: Vec<Manifest>,
    /// What the objects look for, and what they offer.
    pub relations: Relations,
    /// What is wrong with the file and its objects.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a manifest file. `values` replaces variables; it is `None` where the work does not ask for
/// that. Reads one manifest more than a work may have, and none after that.
pub fn read(
    ParsedManifestFile { path: file, bytes, mut parsed }: ParsedManifestFile<'_>,
    rules: &Rules<'_>,
    mut values: Option<&mut Substitution<'_>>,
) -> ParsedManifests {
    let mut diagnostics = DiagnosticSink::new(limits::FILE_DIAGNOSTICS_MAX);
    diagnostics.extend(yaml::diagnostics(file, parsed.problems.clone(), rules.scope));
    let (manifests, relations) = (Vec::new(), Relations::default());
    let has_variables = rules.checks.relations && values.is_none() && bytes.contains(&b'$');
    let of_unknown_scope = BTreeSet::new();
    let mut reader =
        Reader { file, rules, has_variables, of_unknown_scope, manifests, relations, diagnostics };
    for at in 0..parsed.documents.len() {
        let Some((mut value, document)) = document(&mut parsed, at) else { continue };
        if let Some(values) = &mut values {
            let problems = values.apply(&mut value);
            for problem in &problems {
                let found = file::diagnostic(problem, document, file, rules.scope);
                reader.diagnostics.push(found);
            }
            // Without these facts, nothing can be said of its objects.
            if problems.iter().any(|problem| problem.code == Code::UnknownFacts) {
                continue;
            }
        }
        reader.objects(value, document);
    }
    let mut diagnostics = reader.diagnostics.into_all();
    template::add_hints(&mut diagnostics, bytes);
    let Reader { manifests, relations, .. } = reader;
    ParsedManifests { manifests, relations, diagnostics }
}

/// A document and its value. Copies the value only if other works need it, too.
fn document(parsed: &mut Arc<ParsedYaml>, at: usize) -> Option<(Value, &Document)> {
    let taken = Arc::get_mut(parsed)
        .map(|own| own.documents.get_mut(at).map(|one| std::mem::take(&mut one.value)));
    let document = parsed.documents.get(at)?;
    Some((taken.unwrap_or_else(|| Some(document.value.clone()))?, document))
}

/// Namespaces and CRDs first, as what follows may need them; then as the files stand.
pub fn order(manifest: &Manifest) -> (u8, &Origin, &Identity) {
    let rank = match (manifest.identity.group.as_str(), manifest.kind.as_str()) {
        ("", "Namespace") => 0,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => 1,
        _ => 2,
    };
    (rank, &manifest.origin, &manifest.identity)
}

struct Reader<'a> {
    file: &'a RepoPath,
    rules: &'a Rules<'a>,
    /// The file may have variables, and the work does not replace them.
    has_variables: bool,
    /// The kinds of which a note says that their scope is unknown.
    of_unknown_scope: BTreeSet<(String, String)>,
    manifests: Vec<Manifest>,
    relations: Relations,
    diagnostics: DiagnosticSink,
}

impl<'a> Reader<'a> {
    fn report(&mut self, code: Code, span: Span, field: &str, message: impl Into<String>) {
        let diagnostic = Diagnostic::new(
            code,
            Location::at(self.file, span),
            self.rules.scope.clone(),
            message.into(),
        );
        self.diagnostics.push(if field.is_empty() {
            diagnostic
        } else {
            diagnostic.with_field(field)
        });
    }

    /// Reports a problem that quotes correct.
    fn report_unquoted(&mut self, code: Code, span: Span, field: &str, message: String) {
        let (at, scope) = (Location::at(self.file, span), self.rules.scope.clone());
        let found = Diagnostic::new(code, at, scope, message).with_field(field);
        self.diagnostics.push(found.with_hint(TEXT_HINT).with_text_fix(span, FixKind::Quote));
    }

    /// The objects of a document: one, or the items of a list kind.
    fn objects(&mut self, value: Value, document: &Document) {
        let Value::Object(mut fields) = value else {
            self.report(Code::UnexpectedShape, document.span(), "", "a manifest must be a mapping");
            return;
        };
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
        let Some(item_kind) = kind.strip_suffix("List").map(str::to_owned) else {
            self.object(Value::Object(fields), document, "");
            return;
        };
        let version = fields.get("apiVersion").cloned();
        let items = match fields.get_mut("items") {
            Some(Value::Array(items)) => std::mem::take(items),
            // A custom kind may well end in "List".
            _ => return self.object(Value::Object(fields), document, ""),
        };
        for (index, mut item) in items.into_iter().enumerate() {
            let at = format!("/items/{index}");
            let Value::Object(fields) = &mut item else {
                self.report(
                    Code::UnexpectedShape,
                    document.span_of(&at),
                    &format!("items[{index}]"),
                    "an item must be a mapping",
                );
                continue;
            };
            // The items of a typed list may leave their type to the list, as the API server's own
            // answers do.
            if !item_kind.is_empty() && !fields.contains_key("kind") {
                fields.insert("kind".into(), item_kind.clone().into());
                fields.extend(version.clone().map(|version| ("apiVersion".into(), version)));
            }
            self.object(item, document, &at);
        }
    }

    /// Checks one object, and keeps it if it can be identified.
    fn object(&mut self, mut value: Value, document: &Document, pointer: &str) {
        if self.manifests.len() > limits::WORK_MANIFESTS_MAX {
            return;
        }
        let object = DocumentObject { value: &value, document, pointer };
        let span = object.span("");
        let Some(ObjectNames { api_version, kind, name }) = self.names(&object) else { return };
        let Some(mut namespace) = self.namespace(&object) else { return };
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
        let found = self.rules.kinds.lookup(&group, &kind);
        let (resource, is_namespaced) = (found.resource().to_owned(), found.namespaced());
        let is_custom = !matches!(found, Found::BuiltIn { .. });
        let what = format!("{} {name}", shortened(&kind));
        let default = self.default_namespace(&object, &what, (is_namespaced, &namespace));
        if let Some(default) = default {
            default.clone_into(&mut namespace);
        }
        self.check_scope(&object, &what, is_namespaced, &namespace);
        if is_namespaced.is_none() && namespace.is_empty() {
            self.say_of_unknown_scope(&object, &what, (&group, &kind));
        }
        self.check_status(&object, &kind, &what);
        self.check_template(&object, &kind, &what);
        if group.is_empty() && kind == "Secret" {
            self.check_secret(&object, &what);
        }
        let identity = Identity { group, resource, namespace, name };
        self.check_schema(&object, &kind, &identity);
        if self.has_variables {
            let place_of = |pointer: &str| Place {
                file: self.file.clone(),
                span: object.span(pointer),
                pointer: pointer.to_owned(),
            };
            self.relations.add_variables(&value, &place_of);
        }
        drop_nulls(&mut value);
        let metadata = value.get_mut("metadata").and_then(Value::as_object_mut);
        if let (Some(default), Some(metadata)) = (default, metadata) {
            metadata.insert("namespace".to_owned(), default.into());
        }
        let origin = Origin { file: self.file.clone(), document: document.index, span };
        let manifest = Manifest { object: value, api_version, kind, identity, origin };
        if self.rules.checks.relations {
            let span_of = |field: &str| document.span_of(&format!("{pointer}{field}"));
            let (manifest, kinds, span_of) = (&manifest, self.rules.kinds, &span_of);
            let (what, is_custom) = (&*what, is_custom);
            let object = RelatedObject { manifest, what, is_custom, kinds, span_of };
            self.relations.add(object);
        }
        self.manifests.push(manifest);
    }

    /// `apiVersion`, `kind` and `metadata.name`; `None` where one of them is unusable, which is
    /// reported.
    fn names(&mut self, object: &DocumentObject<'_>) -> Option<ObjectNames> {
        let generate_name = value_at(object.value, "/metadata/generateName");
        let is_generated = generate_name.is_some_and(|name| !name.is_null() && name != "");
        if is_generated {
            let (at, message) =
                (object.span("/metadata/generateName"), "generateName is not allowed");
            self.report(Code::GenerateName, at, "metadata.generateName", message);
            // That its name is missing, too, follows from this.
            value_at(object.value, "/metadata/name").filter(|name| !name.is_null())?;
        }
        if self.is_misnamed_config(object.value) {
            let found = Diagnostic::misnamed(self.file, WORK_FILE, self.rules.scope.clone());
            self.diagnostics.push(Diagnostic { severity: Severity::Error, ..found });
            return None;
        }
        let fields = ["/apiVersion", "/kind", "/metadata/name"];
        let [Some(api_version), Some(kind), Some(name)] =
            fields.map(|field| self.required_text(object, field))
        else {
            return None;
        };
        if !is_object_name(&name) {
            let message = format!(
                "{:?} cannot be the name of an object: at most 253 characters, no '/' and no '%'",
                shortened(&name)
            );
            self.report(
                Code::BadObjectName,
                object.span("/metadata/name"),
                "metadata.name",
                message,
            );
            return None;
        }
        if api_version.matches('/').count() > 1 {
            let message = format!("{:?} is not GROUP/VERSION", shortened(&api_version));
            self.report(Code::BadValue, object.span("/apiVersion"), "apiVersion", message);
            return None;
        }
        Some(ObjectNames { api_version, kind, name })
    }

    /// Whether the file is meant to be the work.yaml of its work folder, and no manifest.
    fn is_misnamed_config(&self, value: &Value) -> bool {
        let is_in_work_folder = self.file.parts().count() == 4;
        let is_manifest = ["apiVersion", "kind"].iter().any(|field| value.get(field).is_some());
        is_in_work_folder && !is_manifest && is_misnamed(self.file.name(), WORK_FILE)
    }

    /// The text of a field that every object has; `None` where it is missing or no text, which is
    /// reported.
    fn required_text(&mut self, object: &DocumentObject<'_>, field: &str) -> Option<String> {
        let (code, what) = match value_at(object.value, field) {
            Some(Value::String(text)) if !text.is_empty() => return Some(text.clone()),
            None | Some(Value::Null) => (Code::MissingField, "is missing"),
            Some(Value::String(_)) => (Code::MissingField, "is empty"),
            Some(value) => {
                self.report_no_text(object, field, value);
                return None;
            }
        };
        let dotted = file::dotted(field);
        self.report(code, object.span(field), &dotted, format!("{dotted} {what}"));
        None
    }

    /// Reports a field that must be text.
    fn report_no_text(&mut self, object: &DocumentObject<'_>, field: &str, value: &Value) {
        let (dotted, at) = (file::dotted(field), object.span(field));
        let what = match value {
            Value::Object(_) => "must be text, not a mapping",
            Value::Array(_) => "must be text, not a list",
            _ => {
                let message = format!("{dotted} must be text; quote it");
                self.report_unquoted(Code::WrongType, at, &dotted, message);
                return;
            }
        };
        let (at, scope) = (Location::at(self.file, at), self.rules.scope.clone());
        let found = Diagnostic::new(Code::WrongType, at, scope, format!("{dotted} {what}"));
        self.diagnostics.push(found.with_field(dotted).with_hint(TEXT_HINT));
    }

    /// `metadata.namespace`, empty where it is not set; `None` where it is no text, which is
    /// reported.
    fn namespace(&mut self, object: &DocumentObject<'_>) -> Option<String> {
        match value_at(object.value, NAMESPACE) {
            None | Some(Value::Null) => Some(String::new()),
            Some(Value::String(namespace)) => Some(namespace.clone()),
            Some(value) => {
                self.report_no_text(object, NAMESPACE, value);
                None
            }
        }
    }

    /// The namespace of the work, for an object that needs one and has none.
    fn default_namespace(
        &mut self,
        object: &DocumentObject<'_>,
        what: &str,
        (is_namespaced, namespace): (Option<bool>, &str),
    ) -> Option<&'a str> {
        let default = self.rules.namespace.filter(|_| namespace.is_empty())?;
        if is_namespaced.is_none() {
            let message = format!(
                "{what} does not get the namespace {default}: gitwork does not know whether its \
                 kind has namespaces"
            );
            let (at, scope) = (object.key_span("/metadata"), self.rules.scope.clone());
            let found =
                Diagnostic::new(Code::NoEffect, Location::at(self.file, at), scope, message);
            self.diagnostics.push(found.with_field("metadata.namespace").with_hint(SCOPE_HINT));
        }
        Some(default).filter(|_| is_namespaced == Some(true))
    }

    /// Checks that an object has a namespace where its kind has one, and a valid one.
    fn check_scope(
        &mut self,
        object: &DocumentObject<'_>,
        what: &str,
        is_namespaced: Option<bool>,
        namespace: &str,
    ) {
        match is_namespaced {
            // The namespace that the work names for it is wrong, which is reported.
            Some(true) if namespace.is_empty() && self.rules.has_bad_namespace => {}
            Some(true) if namespace.is_empty() => {
                let (at, message) =
                    (object.key_span("/metadata"), format!("{what} has no namespace"));
                self.say_of_namespace(Code::MissingNamespace, at, message);
            }
            Some(false) if !namespace.is_empty() => {
                let message = format!("{what} is cluster-scoped and has a namespace");
                self.say_of_namespace(Code::UnexpectedNamespace, object.span(NAMESPACE), message);
            }
            _ => {}
        }
        if !namespace.is_empty()
            && let Err(why) = check_label(namespace, 63)
        {
            let message = format!("the namespace {:?} {why}", shortened(namespace));
            self.say_of_namespace(Code::BadObjectName, object.span(NAMESPACE), message);
        }
    }

    /// Notes once for each kind that nobody knows whether it needs a namespace.
    fn say_of_unknown_scope(
        &mut self,
        object: &DocumentObject<'_>,
        what: &str,
        (group, kind): (&str, &str),
    ) {
        // The schema check knows the others.
        let is_known = self.rules.checks.crds.plural(group, kind).is_some();
        // With a default namespace, a warning says so for each object.
        if is_known || self.rules.namespace.is_some() || self.rules.has_bad_namespace {
            return;
        }
        if self.of_unknown_scope.insert((group.to_owned(), kind.to_owned())) {
            let message = format!(
                "{what} has no namespace, and gitwork does not know whether its kind needs one"
            );
            let (at, scope) = (object.key_span("/metadata"), self.rules.scope.clone());
            let at = Location::at(self.file, at);
            let found = Diagnostic::new(Code::MissingNamespace, at, scope, message);
            let found = found.with_field("metadata.namespace").with_hint(SCOPE_HINT);
            self.diagnostics.push(Diagnostic { severity: Severity::Info, ..found });
        }
    }

    fn say_of_namespace(&mut self, code: Code, span: Span, message: impl Into<String>) {
        self.report(code, span, "metadata.namespace", message);
    }

    /// Warns of a template of Helm in quotes, which is valid YAML.
    fn check_template(&mut self, object: &DocumentObject<'_>, kind: &str, what: &str) {
        if let Some(pointer) = template::quoted_template(object.value, kind) {
            let message = format!("{what} has the text of a Helm template that was not rendered");
            let (at, field) = (object.span(&pointer), file::dotted(&pointer));
            self.report(Code::TemplateText, at, &field, message);
        }
    }

    /// Warns of a status: the cluster reports it, Git does not set it.
    fn check_status(&mut self, object: &DocumentObject<'_>, kind: &str, what: &str) {
        let is_set = match object.value.get("status") {
            None | Some(Value::Null) => false,
            Some(Value::Object(fields)) => !fields.is_empty(),
            Some(_) => true,
        };
        if is_set && kind != "CustomResourceDefinition" {
            let place = object.key_span("/status");
            self.report(Code::StatusInManifest, place, "status", format!("{what} has a status"));
        }
    }

    /// Reports what an API server would reject.
    fn check_schema(&mut self, object: &DocumentObject<'_>, kind: &str, identity: &Identity) {
        let rules = self.rules;
        let problems = rules.checks.problems(object.value, (&identity.group, kind), rules.kinds);
        for ObjectProblem { code, severity, finding } in problems {
            let pointer = &finding.pointer;
            // Its name is checked for all kinds.
            if pointer == "/metadata/name" && code == Code::MissingObjectField {
                continue;
            }
            let value = object.span(pointer);
            let span = if finding.is_key { object.key_span(pointer) } else { value };
            let (at, scope) = (Location::at(self.file, span), rules.scope.clone());
            let field = file::dotted(pointer);
            let message = format!("{}: {}", object_name(kind, identity), finding.message);
            let mut found = Diagnostic::new(code, at, scope, message);
            found = match finding.correction {
                Some(Correction::Quote) => found.with_text_fix(span, FixKind::Quote),
                Some(Correction::Rename(name)) => {
                    found.with_text_fix(span, FixKind::RenameKey(name))
                }
                // The nearest value is the mapping that lacks the field.
                Some(Correction::Add(name, text)) => {
                    found.with_text_fix(value, FixKind::AddField(name, text))
                }
                None => found,
            };
            found.severity = severity;
            found.hint = finding.help.map(str::to_owned);
            found.field = Some(field).filter(|field| !field.is_empty());
            self.diagnostics.push(found);
        }
    }

    /// Reports a Secret with data, as severely as the source's policy says.
    fn check_secret(&mut self, object: &DocumentObject<'_>, what: &str) {
        let holds_data = |field: &str| {
            let data = object.value.get(field).and_then(Value::as_object);
            data.is_some_and(|data| !data.is_empty())
        };
        if !holds_data("data") && !holds_data("stringData") {
            return;
        }
        let severity = match self.rules.secrets {
            SecretPolicy::Allow => return,
            SecretPolicy::Warn => Severity::Warning,
            SecretPolicy::Refuse => Severity::Error,
        };
        let location = Location::at(self.file, object.span(""));
        let message = format!("{what} holds its data in plain text");
        let mut diagnostic =
            Diagnostic::new(Code::PlainSecret, location, self.rules.scope.clone(), message);
        diagnostic.severity = severity;
        self.diagnostics.push(diagnostic);
    }
}

const NAMESPACE: &str = "/metadata/namespace";

/// What is wrong with a field that names the object.
const TEXT_HINT: &str = "Kubernetes has text in this field.";

/// What to do about an object of a kind that may have namespaces.
const SCOPE_HINT: &str = "Set metadata.namespace, unless the kind is cluster-scoped. With the CRD \
                          in the repository, gitwork knows.";

/// An object of a file: a whole document, or an item of a list.
struct DocumentObject<'a> {
    value: &'a Value,
    document: &'a Document,
    /// JSON pointer from the document to the object.
    pointer: &'a str,
}

impl DocumentObject<'_> {
    /// The place of a field, by its JSON pointer from the object.
    fn span(&self, field: &str) -> Span {
        self.document.span_of(&format!("{}{field}", self.pointer))
    }

    /// The place of a field's key.
    fn key_span(&self, field: &str) -> Span {
        self.document.key_span_of(&format!("{}{field}", self.pointer))
    }
}

/// The fields without which no object can be identified.
struct ObjectNames {
    api_version: String,
    kind: String,
    name: String,
}

/// Whether a name is one that some kind may have (Kubernetes: path segment names). Most kinds
/// allow less.
fn is_object_name(name: &str) -> bool {
    name != "."
        && name != ".."
        && name.len() <= 253
        && !name.contains(['/', '%'])
        && !name.contains(char::is_control)
}

/// A text of a file as a message shows it.
fn shortened(text: &str) -> Cow<'_, str> {
    truncate_chars(text, limits::MESSAGE_TEXT_CHARS_MAX)
}

/// The API server drops nulls in the metadata of embedded objects (`creationTimestamp: null` of
/// generated manifests above all): what is sent must be what is stored.
fn drop_nulls(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.retain(|_, value| !value.is_null());
    }
}
