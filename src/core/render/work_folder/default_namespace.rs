//! The namespace of objects that have none, and the Namespace that gitwork adds to a work for it.

use gitwork_api::names::check_label;
use gitwork_yaml::Span;
use serde_json::{Value, json};

use super::diagnostics::WorkDiagnostics;
use super::folder_config::FolderConfig;
use super::settings::Settings;
use crate::limits;
use crate::model::diagnostic::Code;
use crate::model::manifest::{Identity, Manifest, Origin};
use crate::model::work::DeletionPolicy;
use crate::render::manifests;
use crate::text::truncate::truncate_chars;

/// Checks the namespace that the settings name; `None` if there is none, or it is invalid.
pub fn checked<'a>(
    settings: &'a Settings,
    folder: &FolderConfig<'_>,
    diagnostics: &mut WorkDiagnostics<'_>,
) -> Option<&'a str> {
    let namespace = settings.namespace.as_deref();
    let mut report = |code, field: &str, message: String| {
        let found = diagnostics.of(code, folder.location(&format!("/{field}")), message);
        diagnostics.push(found.with_field(field));
    };
    if namespace.is_none() && settings.create_namespace {
        let message = "`createNamespace: true` is without effect: the work has no `namespace`";
        report(Code::NoEffect, "createNamespace", message.to_owned());
    }
    let problem = namespace.and_then(|name| check_label(name, 63).err());
    if let (Some(name), Some(why)) = (namespace, &problem) {
        let name = truncate_chars(name, limits::MESSAGE_TEXT_CHARS_MAX);
        let message = format!("{name:?} cannot be the name of a namespace: it {why}");
        report(Code::BadValue, "namespace", message);
    }
    namespace.filter(|_| problem.is_none())
}

/// Adds a Namespace if the settings ask for it and no file of the work has it. Returns what it is.
pub fn add(
    manifests: &mut Vec<Manifest>,
    (settings, namespace): (&Settings, Option<&str>),
    folder: &FolderConfig<'_>,
) -> Option<Identity> {
    // A folder without manifests is an error.
    let name = namespace.filter(|_| settings.create_namespace && !manifests.is_empty())?;
    let location = folder.location("/createNamespace");
    let span = location.span.unwrap_or(Span { line: 1, column: 1, length: 1 });
    let origin = Origin { file: location.file, document: 1, span };
    let added = namespace_of(name, origin);
    let identity = added.identity.clone();
    if manifests.iter().any(|one| one.identity == identity) {
        return None;
    }
    manifests.push(added);
    manifests.sort_by(|a, b| manifests::order(a).cmp(&manifests::order(b)));
    Some(identity)
}

/// The manifest of a Namespace.
pub fn namespace_of(name: &str, origin: Origin) -> Manifest {
    let (api_version, kind) = ("v1".to_owned(), "Namespace".to_owned());
    let object = json!({
        "apiVersion": api_version, "kind": kind, "metadata": { "name": name },
    });
    let (resource, name) = ("namespaces".to_owned(), name.to_owned());
    let identity = Identity { group: String::new(), resource, namespace: String::new(), name };
    Manifest { object, api_version, kind, identity, origin }
}

/// Makes agents create an added Namespace and never change or delete it: other works and other
/// people have objects in it. Returns the deleteOption that does so.
pub fn keep(
    added: Option<&Identity>,
    configs: &mut Vec<Value>,
    delete_option: DeletionPolicy,
) -> DeletionPolicy {
    let Some(added) = added else { return delete_option };
    let identifier = added.to_value();
    let strategy = json!({ "type": "CreateOnly" });
    let mut entries = configs.iter_mut();
    match entries.find(|entry| entry.get("resourceIdentifier") == Some(&identifier)) {
        Some(entry) => {
            if let Some(fields) = entry.as_object_mut() {
                fields.insert("updateStrategy".to_owned(), strategy);
            }
        }
        None => {
            let entry = json!({ "resourceIdentifier": identifier, "updateStrategy": strategy });
            configs.insert(0, entry);
        }
    }
    match delete_option {
        DeletionPolicy::Foreground => DeletionPolicy::SelectivelyOrphan([added.clone()].into()),
        DeletionPolicy::SelectivelyOrphan(mut rules) => {
            rules.insert(added.clone());
            DeletionPolicy::SelectivelyOrphan(rules)
        }
        DeletionPolicy::Orphan => DeletionPolicy::Orphan,
    }
}
