//! The rules for the manifests of a work or of a template.

use std::collections::BTreeMap;

use crate::json_text::JsonText;
use crate::limits;
use crate::verdict::{FieldError, FieldErrors, quoted};

/// Checks all manifests. `field` is the path of their list, and `nothing` OCM's message for none.
pub(crate) fn check_manifests(
    manifests: Option<JsonText<'_>>,
    (field, nothing): (&str, &str),
    bytes_max: usize,
    errors: &mut FieldErrors,
) {
    let error = |reason, message: String| FieldError { field: field.to_owned(), reason, message };
    let Some(manifests) = manifests else {
        return errors.add(|| error("FieldValueRequired", nothing.to_owned()));
    };
    let Some(items) = manifests.items() else {
        return errors.add(|| error("FieldValueTypeInvalid", "manifests must be a list".into()));
    };
    let mut rules = ManifestRules { field, first: BTreeMap::new(), errors };
    let (mut bytes, mut largest) = (0, Vec::new());
    for (index, manifest) in items.enumerate() {
        let size = counted_size(manifest);
        bytes += size;
        // Past the limit the size is the error. The number of manifests has no other bound.
        if bytes <= bytes_max {
            rules.check(index, manifest);
        }
        keep_largest(&mut largest, (size, index, manifest));
    }
    if largest.is_empty() {
        errors.add(|| error("FieldValueRequired", nothing.to_owned()));
    }
    if bytes > bytes_max {
        let largest: Vec<String> = largest
            .iter()
            .map(|(size, index, manifest)| format!("{} ({size} bytes)", shown(*index, *manifest)))
            .collect();
        let largest = largest.join(", ");
        errors.add(|| {
            let message = format!(
                "the size of manifests is {bytes} bytes which exceeds the {bytes_max} limit; \
                 split the work; its largest manifests are {largest}"
            );
            error("FieldValueTooLong", message)
        });
    }
}

/// The size of a manifest as OCM counts it: that of its field in protobuf, with a tag and a length.
fn counted_size(manifest: JsonText<'_>) -> usize {
    let length = manifest.text().len();
    let bits = (usize::BITS - length.leading_zeros()).max(1);
    1 + bits.div_ceil(7) as usize + length
}

fn keep_largest<'a>(
    largest: &mut Vec<(usize, usize, JsonText<'a>)>,
    manifest: (usize, usize, JsonText<'a>),
) {
    let at = largest.partition_point(|(size, ..)| *size >= manifest.0);
    if at < limits::LARGEST_MAX {
        largest.insert(at, manifest);
        largest.truncate(limits::LARGEST_MAX);
    }
}

/// A manifest in a message: `Deployment shop/web`, or its place.
fn shown(index: usize, manifest: JsonText<'_>) -> String {
    let Identity { kind, namespace, name, .. } = ManifestHead::read(manifest).identity;
    if kind.is_empty() || name.is_empty() {
        return format!("manifests[{index}]");
    }
    let name = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
    format!("{} {}", quoted(&kind), quoted(&name))
}

/// What the rules are about.
struct ManifestHead {
    identity: Identity,
    generate_name: String,
}

/// What makes two manifests the same object, for OCM.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
}

impl ManifestHead {
    fn read(manifest: JsonText<'_>) -> Self {
        let text = JsonText::text_or_empty;
        let [api_version, kind, metadata] = manifest.fields(["apiVersion", "kind", "metadata"]);
        let [namespace, name, generate_name] = metadata
            .map_or([None; 3], |metadata| metadata.fields(["namespace", "name", "generateName"]));
        let identity = Identity {
            api_version: text(api_version),
            kind: text(kind),
            namespace: text(namespace),
            name: text(name),
        };
        Self { identity, generate_name: text(generate_name) }
    }
}

struct ManifestRules<'a> {
    field: &'a str,
    /// The first manifest of each object.
    first: BTreeMap<Identity, usize>,
    errors: &'a mut FieldErrors,
}

impl ManifestRules<'_> {
    fn check(&mut self, index: usize, manifest: JsonText<'_>) {
        let depth = manifest.depth();
        if depth > limits::MANIFEST_DEPTH_MAX {
            let message = format!(
                "the manifest has {depth} levels of lists and objects; at most {} are allowed, as \
                 clients cannot read deeper ones",
                limits::MANIFEST_DEPTH_MAX
            );
            self.add(index, "", "FieldValueInvalid", &message);
        }
        let ManifestHead { identity, generate_name } = ManifestHead::read(manifest);
        let (has_kind, has_name) = (!identity.kind.is_empty(), !identity.name.is_empty());
        if !has_kind {
            let message = "Object 'Kind' is missing: kind must be set in manifest";
            self.add(index, ".kind", "FieldValueRequired", message);
        }
        if !has_name {
            let message = "name must be set in manifest";
            self.add(index, ".metadata.name", "FieldValueRequired", message);
        }
        if !generate_name.is_empty() {
            let message = "generateName must not be set in manifest; set name";
            self.add(index, ".metadata.generateName", "FieldValueForbidden", message);
        }
        if has_kind && has_name {
            self.check_first(index, identity);
        }
    }

    fn check_first(&mut self, index: usize, identity: Identity) {
        if let Some(first) = self.first.get(&identity) {
            let message = format!(
                "duplicate manifest for resource {}/{} with resource type {}.{}; \
                 it is also {}[{first}]",
                quoted(&identity.namespace),
                quoted(&identity.name),
                quoted(&identity.api_version),
                quoted(&identity.kind),
                self.field
            );
            self.add(index, "", "FieldValueDuplicate", &message);
        } else {
            self.first.insert(identity, index);
        }
    }

    fn add(&mut self, index: usize, below: &str, reason: &'static str, message: &str) {
        let list = self.field;
        self.errors.add(|| FieldError {
            field: format!("{list}[{index}]{below}"),
            reason,
            message: message.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_count_as_in_ocm() {
        // The length of a JSON string is that of its text and two quotes.
        for (length, expected) in
            [(2, 4), (127, 129), (128, 131), (16_383, 16_386), (16_384, 16_388)]
        {
            let text = format!("\"{}\"", "x".repeat(length - 2));
            let manifest = JsonText::check(text.as_bytes()).unwrap();
            assert_eq!(counted_size(manifest), expected, "{length}");
        }
    }
}
