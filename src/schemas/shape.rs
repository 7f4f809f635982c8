//! Shapes of values.

/// The shape of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    String,
    Boolean,
    Int32,
    Int64,
    Double,
    /// Base64.
    Bytes,
    Time,
    /// With exactly six digits after the second.
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    /// Anything.
    Any,
    /// A mapping with any fields.
    Object,
    /// `JSONSchemaProps`, or a list of them.
    SchemaOrArray,
    /// `JSONSchemaProps`, or a boolean.
    SchemaOrBool,
    /// `JSONSchemaProps`, or a list of strings.
    SchemaOrStrings,
    List(Box<Shape>),
    Map(Box<Shape>),
    /// A type of the table.
    Type(usize),
}

impl Shape {
    /// Reads a shape as `kubernetes.txt` has it. `index` finds a type by its name.
    pub(crate) fn parse(text: &str, index: &impl Fn(&str) -> Option<usize>) -> Option<Self> {
        if let Some(item) = text.strip_prefix("list ") {
            return Some(Self::List(Box::new(Self::parse(item, index)?)));
        }
        if let Some(value) = text.strip_prefix("map ") {
            return Some(Self::Map(Box::new(Self::parse(value, index)?)));
        }
        Some(match text {
            "string" => Self::String,
            "boolean" => Self::Boolean,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "double" => Self::Double,
            "bytes" => Self::Bytes,
            "time" => Self::Time,
            "micro-time" => Self::MicroTime,
            "duration" => Self::Duration,
            "quantity" => Self::Quantity,
            "int-or-string" => Self::IntOrString,
            "any" | "JSON" => Self::Any,
            "object" => Self::Object,
            "JSONSchemaPropsOrArray" => Self::SchemaOrArray,
            "JSONSchemaPropsOrBool" => Self::SchemaOrBool,
            "JSONSchemaPropsOrStringArray" => Self::SchemaOrStrings,
            name => Self::Type(index(name)?),
        })
    }

    /// The type of the values, of the items of a list, or of the values of a map.
    pub(crate) fn inner_type(&self) -> Option<usize> {
        match self {
            Self::List(inner) | Self::Map(inner) => inner.inner_type(),
            Self::Type(index) => Some(*index),
            _ => None,
        }
    }
}
