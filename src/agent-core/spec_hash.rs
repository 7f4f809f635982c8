//! The hash of the spec of a Service or CSIDriver, as OCM's agent notes it on the live object.
//!
//! OCM's agent decodes the manifest into a struct of `k8s.io/api`, encodes the struct's spec as
//! JSON, and hashes the text. So the order of the fields, the fields that are left out if they are
//! empty, and the fields that are not left out count: with another hash, a swap of the agents
//! would write each Service, and delete and create each CSIDriver. `tests/spec-hash` has the hashes
//! of the Go structs.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::feedback::go_json;
use super::object::Object;
use super::update_rule::{Rule, rule};

/// A field of a Go struct: its name in JSON and how it is encoded.
type Field = (&'static str, Shape);

/// How the encoder of Go writes a field.
enum Shape {
    /// A text, number or boolean; left out if it is empty, zero or false.
    Scalar,
    /// A pointer to a text, number or boolean; left out if it is null.
    Pointer,
    /// A number that is never left out.
    Number,
    /// A text that is never left out.
    Text,
    /// A number or text that is never left out: `0` if there is none.
    NumberOrText,
    /// A list of texts; left out if it is empty.
    Texts,
    /// A map of texts, in the order of its keys; left out if it is empty.
    TextMap,
    /// A pointer to a struct; left out if it is null.
    Struct(&'static [Field]),
    /// A list of structs; left out if it is empty.
    Structs(&'static [Field]),
}

use Shape::{Number, NumberOrText, Pointer, Scalar, Struct, Structs, Text, TextMap, Texts};

const SERVICE_PORT: &[Field] = &[
    ("name", Scalar),
    ("protocol", Scalar),
    ("appProtocol", Pointer),
    ("port", Number),
    ("targetPort", NumberOrText),
    ("nodePort", Scalar),
];
const CLIENT_IP: &[Field] = &[("timeoutSeconds", Pointer)];
const SESSION_AFFINITY: &[Field] = &[("clientIP", Struct(CLIENT_IP))];
const SERVICE: &[Field] = &[
    ("ports", Structs(SERVICE_PORT)),
    ("selector", TextMap),
    ("clusterIP", Scalar),
    ("clusterIPs", Texts),
    ("type", Scalar),
    ("externalIPs", Texts),
    ("sessionAffinity", Scalar),
    ("loadBalancerIP", Scalar),
    ("loadBalancerSourceRanges", Texts),
    ("externalName", Scalar),
    ("externalTrafficPolicy", Scalar),
    ("healthCheckNodePort", Scalar),
    ("publishNotReadyAddresses", Scalar),
    ("sessionAffinityConfig", Struct(SESSION_AFFINITY)),
    ("ipFamilies", Texts),
    ("ipFamilyPolicy", Pointer),
    ("allocateLoadBalancerNodePorts", Pointer),
    ("loadBalancerClass", Pointer),
    ("internalTrafficPolicy", Pointer),
    ("trafficDistribution", Pointer),
];
const TOKEN_REQUEST: &[Field] = &[("audience", Text), ("expirationSeconds", Pointer)];
const CSI_DRIVER: &[Field] = &[
    ("attachRequired", Pointer),
    ("podInfoOnMount", Pointer),
    ("volumeLifecycleModes", Texts),
    ("storageCapacity", Pointer),
    ("fsGroupPolicy", Pointer),
    ("tokenRequests", Structs(TOKEN_REQUEST)),
    ("requiresRepublish", Pointer),
    ("seLinuxMount", Pointer),
    ("nodeAllocatableUpdatePeriodSeconds", Pointer),
    ("serviceAccountTokenInSecrets", Pointer),
];

/// The hash of the spec of a manifest; `None` if OCM's agent notes none for its kind.
pub fn spec_hash(manifest: &Object) -> Option<String> {
    let fields = match rule(manifest) {
        Rule::Service => SERVICE,
        Rule::CsiDriver => CSI_DRIVER,
        _ => return None,
    };
    let spec = manifest.get("spec").unwrap_or(&Value::Null);
    Some(hex::encode(Sha256::digest(encode_struct(fields, spec).as_bytes())))
}

/// Encodes the known fields, in the order of the struct. Others are dropped.
fn encode_struct(fields: &[Field], value: &Value) -> String {
    let encoded: Vec<String> = fields
        .iter()
        .filter_map(|(name, shape)| {
            let value = value.get(name).unwrap_or(&Value::Null);
            Some(format!("\"{name}\":{}", encode(shape, value)?))
        })
        .collect();
    format!("{{{}}}", encoded.join(","))
}

/// `None` if the field is left out.
fn encode(shape: &Shape, value: &Value) -> Option<String> {
    match shape {
        Scalar => (!is_zero(value)).then(|| go_json(value)),
        Pointer => (!value.is_null()).then(|| go_json(value)),
        Number | NumberOrText if value.is_null() => Some("0".into()),
        Text => Some(encode_text(value)),
        Number | NumberOrText => Some(go_json(value)),
        Texts => encode_list(value, encode_text),
        TextMap => {
            let pairs = value.as_object().filter(|pairs| !pairs.is_empty())?;
            let encoded: Vec<String> = pairs
                .iter()
                .map(|(key, value)| {
                    format!("{}:{}", go_json(&Value::String(key.clone())), encode_text(value))
                })
                .collect();
            Some(format!("{{{}}}", encoded.join(",")))
        }
        Struct(fields) => (!value.is_null()).then(|| encode_struct(fields, value)),
        Structs(fields) => encode_list(value, |item| encode_struct(fields, item)),
    }
}

fn encode_list(value: &Value, encode: impl Fn(&Value) -> String) -> Option<String> {
    let items = value.as_array().filter(|items| !items.is_empty())?;
    let encoded: Vec<String> = items.iter().map(encode).collect();
    Some(format!("[{}]", encoded.join(",")))
}

fn encode_text(value: &Value) -> String {
    if value.is_null() { "\"\"".into() } else { go_json(value) }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(boolean) => !boolean,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    /// What `tests/spec-hash/main.go` made of one manifest.
    #[derive(Deserialize)]
    struct Row {
        manifest: Object,
        spec: String,
        hash: String,
    }

    #[test]
    fn hashes_are_those_of_the_go_structs() {
        let table = include_str!("../../tests/spec-hash/table.json");
        let rows: Vec<Row> = serde_json::from_str(table).unwrap();
        assert!(rows.len() > 15);
        for row in rows {
            let spec = row.manifest.get("spec").cloned().unwrap_or_default();
            let fields = if row.manifest["kind"] == "Service" { SERVICE } else { CSI_DRIVER };
            assert_eq!(encode_struct(fields, &spec), row.spec);
            assert_eq!(spec_hash(&row.manifest), Some(row.hash), "{}", row.spec);
        }
    }

    #[test]
    fn other_kinds_have_no_hash() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "spec": {}});
        assert_eq!(spec_hash(map.as_object().unwrap()), None);
    }
}
