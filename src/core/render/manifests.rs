//! One manifest file into manifests: `List`s flattened, every object checked, kinds resolved.

use gitwork_api::names::check_label;
use std::collections::BTreeMap;

use serde_json::Value;

use super::substitute::substitute;
use crate::config::SecretPolicy;
use crate::config::file;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope, Severity, Span};
use crate::model::kinds::{Found, KindIndex};
use crate::model::manifest::{Identity, Manifest, Origin};
use crate::model::name::RepoPath;
use crate::text::yaml;
use gitwork_yaml::Document;

/// Git LFS, binary files and so on are judged by the YAML reader; this is what holds for objects.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    pub kinds: &'a KindIndex,
    /// The values of `${NAME}`; `None` where the work does not ask for them.
    pub values: Option<&'a BTreeMap<String, Value>>,
    pub secrets: SecretPolicy,
    pub scope: &'a Scope,
}

/// What a file holds.
#[derive(Debug, Default)]
pub struct Read {
    pub manifests: Vec<Manifest>,
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a manifest file.
pub fn read(file: &RepoPath, bytes: &[u8], rules: &Rules<'_>) -> Read {
    let yaml::Read { documents, diagnostics } = yaml::read(file, bytes, rules.scope);
    let mut reader = Reader { file, rules, read: Read { manifests: Vec::new(), diagnostics } };
    for mut document in documents {
        let mut value = std::mem::take(&mut document.value);
        if let Some(values) = rules.values {
            for problem in substitute(&mut value, values) {
                reader.read.diagnostics.push(file::diagnostic(
                    &problem,
                    &document,
                    file,
                    rules.scope,
                ));
            }
        }
        reader.objects(value, &document);
    }
    reader.read
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
    read: Read,
}

impl Reader<'_> {
    fn say(&mut self, code: Code, span: Span, field: &str, message: impl Into<String>) {
        let diagnostic = Diagnostic::new(
            code,
            Location::at(self.file, span),
            self.rules.scope.clone(),
            message.into(),
        );
        self.read.diagnostics.push(if field.is_empty() {
            diagnostic
        } else {
            diagnostic.with_field(field)
        });
    }

    /// The objects of a document: one, or the items of a list kind.
    fn objects(&mut self, value: Value, document: &Document) {
        let Value::Object(mut fields) = value else {
            self.say(Code::UnexpectedShape, document.span(), "", "a manifest must be a mapping");
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
                self.say(
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
    fn object(&mut self, mut object: Value, document: &Document, at: &str) {
        let span = document.span_of(at);
        let Some((api_version, kind, name)) = self.names(&object, document, at) else { return };
        let namespace = match object.pointer("/metadata/namespace") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(namespace)) => namespace.clone(),
            Some(_) => {
                let place = document.span_of(&format!("{at}/metadata/namespace"));
                return self.say(Code::WrongType, place, "metadata.namespace", "must be text");
            }
        };
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
        let (resource, known_scope) = self.resource(&group, &kind, span);
        let what = format!("{kind} {name}");
        match known_scope {
            Some(true) if namespace.is_empty() => {
                let place = document.span_of(&format!("{at}/metadata"));
                self.say(
                    Code::MissingNamespace,
                    place,
                    "metadata.namespace",
                    format!("{what} has no namespace"),
                );
            }
            Some(false) if !namespace.is_empty() => {
                let place = document.span_of(&format!("{at}/metadata/namespace"));
                self.say(
                    Code::UnexpectedNamespace,
                    place,
                    "metadata.namespace",
                    format!("{what} is cluster-scoped and has a namespace"),
                );
            }
            _ => {}
        }
        if !namespace.is_empty()
            && let Err(why) = check_label(&namespace, 63)
        {
            let place = document.span_of(&format!("{at}/metadata/namespace"));
            self.say(
                Code::BadObjectName,
                place,
                "metadata.namespace",
                format!("the namespace {namespace:?} {why}"),
            );
        }
        self.check_content(&object, &group, &kind, &what, document, at);
        drop_nulls(&mut object);
        let identity = Identity { group, resource, namespace, name };
        let origin = Origin { file: self.file.clone(), document: document.index, span };
        self.read.manifests.push(Manifest { object, api_version, kind, identity, origin });
    }

    /// `apiVersion`, `kind` and `metadata.name`, or what is wrong with them.
    fn names(
        &mut self,
        object: &Value,
        document: &Document,
        at: &str,
    ) -> Option<(String, String, String)> {
        if object.pointer("/metadata/generateName").is_some_and(|v| !v.is_null() && v != "") {
            let place = document.span_of(&format!("{at}/metadata/generateName"));
            self.say(
                Code::GenerateName,
                place,
                "metadata.generateName",
                "generateName is not allowed",
            );
        }
        let mut found = Vec::new();
        for field in ["/apiVersion", "/kind", "/metadata/name"] {
            let pointer = format!("{at}{field}");
            match object.pointer(field) {
                Some(Value::String(text)) if !text.is_empty() => found.push(text.clone()),
                None | Some(Value::Null | Value::String(_)) => {
                    let dotted = file::dotted(field);
                    self.say(
                        Code::MissingField,
                        document.span_of(&pointer),
                        &dotted,
                        format!("{dotted} is missing"),
                    );
                }
                Some(_) => {
                    let dotted = file::dotted(field);
                    let place = document.span_of(&pointer);
                    self.say(
                        Code::WrongType,
                        place,
                        &dotted,
                        format!("{dotted} must be text; quote it"),
                    );
                }
            }
        }
        let [api_version, kind, name] = <[String; 3]>::try_from(found).ok()?;
        // What every kind's name must hold to (Kubernetes: path segment names); most kinds ask for
        // more.
        if name == "."
            || name == ".."
            || name.contains(['/', '%'])
            || name.len() > 253
            || name.contains(char::is_control)
        {
            let place = document.span_of(&format!("{at}/metadata/name"));
            self.say(
                Code::BadObjectName,
                place,
                "metadata.name",
                format!("{name:?} cannot be the name of an object: at most 253 characters, no '/' and no '%'"),
            );
            return None;
        }
        if api_version.matches('/').count() > 1 {
            let place = document.span_of(&format!("{at}/apiVersion"));
            self.say(
                Code::BadValue,
                place,
                "apiVersion",
                format!("{api_version:?} is not GROUP/VERSION"),
            );
            return None;
        }
        Some((api_version, kind, name))
    }

    /// The plural, and whether the kind is namespaced where that is known.
    fn resource(&mut self, group: &str, kind: &str, span: Span) -> (String, Option<bool>) {
        let found = self.rules.kinds.lookup(group, kind);
        if let Found::Guessed { resource } = &found {
            let message = format!("the plural of {kind} in {group:?} is taken to be {resource:?}");
            self.say(Code::GuessedPlural, span, "", message);
        }
        (found.resource().to_owned(), found.namespaced())
    }

    fn check_content(
        &mut self,
        object: &Value,
        group: &str,
        kind: &str,
        what: &str,
        document: &Document,
        at: &str,
    ) {
        if object.get("status").is_some_and(|status| {
            status.as_object().is_none_or(|s| !s.is_empty()) && !status.is_null()
        }) && kind != "CustomResourceDefinition"
        {
            let place = document.key_span_of(&format!("{at}/status"));
            self.say(Code::StatusInManifest, place, "status", format!("{what} has a status"));
        }
        let holds_data = |field: &str| {
            object.get(field).and_then(Value::as_object).is_some_and(|data| !data.is_empty())
        };
        if group.is_empty() && kind == "Secret" && (holds_data("data") || holds_data("stringData"))
        {
            let severity = match self.rules.secrets {
                SecretPolicy::Allow => return,
                SecretPolicy::Warn => Severity::Warning,
                SecretPolicy::Refuse => Severity::Error,
            };
            let location = Location::at(self.file, document.span_of(at));
            let mut diagnostic = Diagnostic::new(
                Code::PlainSecret,
                location,
                self.rules.scope.clone(),
                format!("{what} holds its data in plain text"),
            );
            diagnostic.severity = severity;
            self.read.diagnostics.push(diagnostic);
        }
    }
}

/// The API server drops nulls in the metadata of embedded objects (`creationTimestamp: null` of
/// generated manifests above all): what is sent must be what is stored.
fn drop_nulls(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.retain(|_, value| !value.is_null());
    }
}
