//! `metadata`: names, labels, annotations, owners, and what only the API server sets.

use gitwork_api::escape::pointer_token;
use gitwork_api::names::{check_label_value, check_qualified_name};
use serde_json::{Map, Value};

use crate::checker::{Checker, is_missing};
use crate::finding::{Problem, shown};
use crate::formats::Format;
use crate::limits;

/// The fields that the API server sets, whatever Git says.
const SERVER_FIELDS: &[&str] =
    &["uid", "creationTimestamp", "generation", "selfLink", "managedFields", "deletionTimestamp"];

/// What depends on the kind of the object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MetadataRules {
    /// Whether finalizers need a prefix, as in most built-in kinds.
    pub(crate) finalizers_have_prefix: bool,
    /// Whether it is the metadata of an object, rather than of a template in it.
    pub(crate) is_of_object: bool,
}

/// Checks the metadata of an object, or of a template. The types of its fields are checked
/// elsewhere.
pub(crate) fn check(checker: &mut Checker<'_>, metadata: &Map<String, Value>, of: MetadataRules) {
    if !of.is_of_object {
        check_labels(checker, metadata);
        return check_annotations(checker, metadata);
    }
    check_owners(checker, metadata);
    check_finalizers(checker, metadata, of.finalizers_have_prefix);
    if !is_missing(metadata.get("resourceVersion")) {
        let message = "remove `metadata.resourceVersion`: the API server refuses to create an \
                       object that has it";
        let help = "Remove the field. It is of one state of an object on one cluster.";
        checker.changing_last(
            |checker| checker.report_key(Problem::InvalidMetadata, "resourceVersion", message),
            |last| last.help = Some(help),
        );
    }
    for name in SERVER_FIELDS.iter().filter(|name| !is_missing(metadata.get(**name))) {
        let message = format!("the API server sets `metadata.{name}` and ignores the one in Git");
        checker.report_key(Problem::ServerField, name, message);
    }
}

fn check_labels(checker: &mut Checker<'_>, metadata: &Map<String, Value>) {
    let Some(Value::Object(labels)) = metadata.get("labels") else { return };
    checker.below("labels", |checker| {
        for (key, value) in labels {
            if let Some(why) = check_qualified_name(key) {
                let message = format!("the label {:?} {why}", shown(key));
                checker.report_key(Problem::InvalidMetadata, key, message);
            }
            let value = value.as_str().unwrap_or_default();
            if check_label_value(value).is_some() {
                let message = format!(
                    "the value {:?} of the label {:?} must be at most 63 letters, digits, '-', \
                     '_' or '.', with a letter or digit at both ends",
                    shown(value),
                    shown(key)
                );
                let below = format!("/{}", pointer_token(key));
                checker.report_at(Problem::InvalidMetadata, &below, message);
            }
        }
    });
}

fn check_annotations(checker: &mut Checker<'_>, metadata: &Map<String, Value>) {
    let Some(Value::Object(annotations)) = metadata.get("annotations") else { return };
    let mut bytes = 0;
    checker.below("annotations", |checker| {
        for (key, value) in annotations {
            bytes += key.len() + value.as_str().map_or(0, str::len);
            if let Some(why) = check_qualified_name(&key.to_lowercase()) {
                let message = format!("the annotation {:?} {why}", shown(key));
                checker.report_key(Problem::InvalidMetadata, key, message);
            }
        }
    });
    if bytes > limits::ANNOTATIONS_BYTES_MAX {
        let most = limits::ANNOTATIONS_BYTES_MAX;
        let message = format!("the annotations have {bytes} bytes; the API server allows {most}");
        checker.report_key(Problem::InvalidMetadata, "annotations", message);
    }
}

fn check_owners(checker: &mut Checker<'_>, metadata: &Map<String, Value>) {
    let Some(Value::Array(owners)) = metadata.get("ownerReferences") else { return };
    let is_controller = |owner: &&Value| owner.get("controller") == Some(&Value::Bool(true));
    let mut controllers = owners.iter().filter(is_controller);
    let first = controllers.next();
    // The API server drops an owner that is there twice.
    if controllers.any(|owner| Some(owner) != first) {
        let message = "only one of the `ownerReferences` may be the controller";
        checker.report_at(Problem::InvalidMetadata, "/ownerReferences", message);
    }
    for (index, owner) in owners.iter().enumerate() {
        let at = format!("/ownerReferences/{index}");
        let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        if text("apiVersion").matches('/').count() > 1 {
            let message = format!("{:?} is not GROUP/VERSION", shown(text("apiVersion")));
            checker.report_at(Problem::InvalidMetadata, &format!("{at}/apiVersion"), message);
        }
        if (text("apiVersion"), text("kind")) == ("v1", "Event") {
            let message = "an Event cannot own objects";
            checker.report_at(Problem::InvalidMetadata, &at, message);
        }
    }
}

fn check_finalizers(checker: &mut Checker<'_>, metadata: &Map<String, Value>, have_prefix: bool) {
    let Some(Value::Array(finalizers)) = metadata.get("finalizers") else { return };
    let texts = finalizers.iter().map(|one| one.as_str().unwrap_or_default());
    let format = if have_prefix { Format::Finalizer } else { Format::QualifiedName };
    for (index, text) in texts.enumerate() {
        if let Some(why) = format.problem(text) {
            let message = format!("the finalizer {:?} {why}", shown(text));
            let below = format!("/finalizers/{index}");
            checker.report_at(Problem::InvalidMetadata, &below, message);
        }
    }
    let has = |name: &str| finalizers.iter().any(|one| one == name);
    if has("orphan") && has("foregroundDeletion") {
        let message = "the finalizers orphan and foregroundDeletion exclude each other";
        checker.report_at(Problem::InvalidMetadata, "/finalizers", message);
    }
}
