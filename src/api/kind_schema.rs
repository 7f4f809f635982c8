//! The schemas of whole kinds, for their CRDs.

use schemars::{Schema, json_schema};
use serde_json::{Map, Value};

/// The schema of a whole kind. kube's derive would ask for `spec` on every object and let every
/// optional field be null; OCM's CRDs do neither.
macro_rules! kind_schema {
    (
        $kind:ident,
        $description:literal,
        {$($part:literal: $type:ty),+},
        required: $required:expr
    ) => {
        impl ::schemars::JsonSchema for $kind {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($kind).into()
            }
            fn json_schema(generator: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                let parts = [$(($part, generator.subschema_for::<$type>())),+];
                $crate::kind_schema::root($description, parts, $required)
            }
        }
    };
}
pub(super) use kind_schema;

/// The schema of a kind made of `parts`.
pub(super) fn root<const N: usize>(
    description: &str,
    parts: [(&str, Schema); N],
    required: &[&str],
) -> Schema {
    let properties: Map<String, Value> = parts
        .into_iter()
        .map(|(name, part)| {
            let mut part = part.to_value();
            never_null(&mut part);
            (name.to_owned(), part)
        })
        .collect();
    let mut schema = json_schema!({
        "description": description,
        "type": "object",
        "properties": properties,
    });
    if !required.is_empty() {
        schema.insert("required".into(), required.into());
    }
    schema
}

/// Takes `null` out of every type. `Option` in Rust means that a field may be absent: the
/// Kubernetes API has no use for null, and OCM's CRDs refuse it. A field that may be null says
/// `nullable` itself.
fn never_null(schema: &mut Value) {
    let Value::Object(fields) = schema else {
        if let Value::Array(items) = schema {
            items.iter_mut().for_each(never_null);
        }
        return;
    };
    if let Some(Value::Array(types)) = fields.get_mut("type") {
        types.retain(|name| name != "null");
        if let [single] = types.as_slice() {
            let single = single.clone();
            fields.insert("type".into(), single);
        }
    }
    if let Some(Value::Array(values)) = fields.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(choices)) = fields.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
        if let [Value::Object(single)] = choices.as_slice() {
            let single = single.clone();
            fields.remove("anyOf");
            for (key, value) in single {
                fields.entry(key).or_insert(value);
            }
        }
    }
    fields.iter_mut().filter(|(key, _)| *key != "default").for_each(|(_, part)| never_null(part));
}
