//! What the derived schemas lack to be OCM's CRDs: the schemas of types of Kubernetes' own, open
//! enumerations, and fields that may be absent but never null.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::Value;

/// DNS subdomain, as OCM's CRDs ask of namespaces and names of service accounts.
pub(super) const SUBDOMAIN: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$";
/// DNS label: a namespace's name.
pub(super) const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// Key of a label or a taint: an optional DNS subdomain and a name. Also the type of a condition.
pub(super) const QUALIFIED_NAME: &str = concat!(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
);
/// As [`QUALIFIED_NAME`], in the form that OCM has for the topology key of a Placement.
pub(super) const TOPOLOGY_KEY: &str = concat!(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
    r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
);
/// Kubernetes' quantity: a number with a binary, decimal or exponent suffix.
const QUANTITY: &str = concat!(
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))",
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
);

/// An enumeration of texts that stays readable when OCM adds a value: that is `Other`.
/// The schema has the known values in the order they are written.
macro_rules! text_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
            /// A value that a newer OCM has; kept as it is.
            Other(String),
        }

        impl $name {
            /// The value of a required field that is missing: an empty `Other`. It keeps an
            /// object readable that the API server would not accept.
            pub fn unset() -> Self {
                Self::Other(String::new())
            }

            /// The value as it is on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => stringify!($variant),)+
                    Self::Other(text) => text,
                }
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                match text.as_str() {
                    $(stringify!($variant) => Self::$variant,)+
                    _ => Self::Other(text),
                }
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D>(deserializer: D) -> Result<Self, D::Error>
            where
                D: ::serde::Deserializer<'de>,
            {
                String::deserialize(deserializer).map(Self::from)
            }
        }

        impl ::schemars::JsonSchema for $name {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::schemars::json_schema!({"type": "string", "enum": [$(stringify!($variant)),+]})
            }
        }
    };
}
pub(super) use text_enum;

/// `metav1.Condition`, with the bounds that Kubernetes gives it.
fn condition() -> Value {
    serde_json::json!({
        "type": "object",
        "description": "One aspect of the state of the object.",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "lastTransitionTime": {
                "type": "string",
                "format": "date-time",
                "description": "When status last changed.",
            },
            "message": {
                "type": "string",
                "maxLength": 32768,
                "description": "Details for people; may be empty.",
            },
            "observedGeneration": {
                "type": "integer",
                "format": "int64",
                "minimum": 0,
                "description": "The metadata.generation that the condition is about.",
            },
            "reason": {
                "type": "string",
                "minLength": 1,
                "maxLength": 1024,
                "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                "description": "Why the status is what it is, as a CamelCase word for programs.",
            },
            "status": {
                "type": "string",
                "enum": ["True", "False", "Unknown"],
                "description": "Whether the condition holds.",
            },
            "type": {
                "type": "string",
                "maxLength": 316,
                "pattern": QUALIFIED_NAME,
                "description": "What the condition is about.",
            },
        },
    })
}

/// Conditions, one for each type.
pub(super) fn conditions_by_type(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": condition(),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

/// Conditions as a plain list, as the kinds of cluster sets have them.
pub(super) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": condition()})
}

/// One object of any kind: kept as it is, but it has apiVersion, kind and metadata.
pub(super) fn embedded_resources(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        },
    })
}

pub(super) fn date_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time"})
}

/// A time that OCM's Go types write as null where it is unset.
pub(super) fn date_time_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "date-time", "nullable": true})
}

/// Bytes in base64.
pub(super) fn bytes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "byte"})
}

/// A whole number of Go's `int`, which a CRD gives no format.
pub(super) fn integer(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer"})
}

/// A number or a text such as a percentage. It says that it is not nullable because kube's derive
/// makes it so where nothing is said.
pub(super) fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-int-or-string": true, "nullable": false})
}

/// Resource quantities by name.
pub(super) fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {"x-kubernetes-int-or-string": true, "pattern": QUANTITY},
    })
}

fn requirement() -> Value {
    serde_json::json!({
        "type": "object",
        "required": ["key", "operator"],
        "properties": {
            "key": {"type": "string", "description": "The key that is looked at."},
            "operator": {
                "type": "string",
                "description": "In, NotIn, Exists or DoesNotExist.",
            },
            "values": {
                "type": "array",
                "items": {"type": "string"},
                "x-kubernetes-list-type": "atomic",
                "description": "The values to compare with: some for In and NotIn, none for the \
                                others.",
            },
        },
    })
}

/// Requirements on keys, all of which must hold.
pub(super) fn requirements(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": requirement()})
}

/// `metav1.LabelSelector`.
pub(super) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchExpressions": {
                "type": "array",
                "items": requirement(),
                "x-kubernetes-list-type": "atomic",
                "description": "Requirements on labels, all of which must hold.",
            },
            "matchLabels": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "description": "Labels that must have these values.",
            },
        },
    })
}
