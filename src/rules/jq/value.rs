//! Values of jq. Copies are cheap: lists, maps and texts are shared.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

/// The fields of a map, in the order of their keys.
pub type Fields = BTreeMap<Rc<str>, JqValue>;

/// A list or map, and how deep it nests.
#[derive(Debug)]
pub struct Nested<T> {
    pub content: T,
    depth: usize,
}

/// A value of jq.
#[derive(Debug, Clone)]
pub enum JqValue {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(Rc<str>),
    List(Rc<Nested<Vec<JqValue>>>),
    Map(Rc<Nested<Fields>>),
}

/// A value that would nest deeper than [`DEPTH_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueTooDeep;

/// Values nest no deeper: serde_json reads no more either.
const DEPTH_MAX: usize = 130;

impl JqValue {
    pub fn text(text: impl AsRef<str>) -> Self {
        Self::Text(Rc::from(text.as_ref()))
    }

    pub fn integer(number: usize) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// A number that is an integer if it can be.
    pub fn number(number: f64) -> Self {
        // Integers up to 2^53 are exact.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if number.fract() == 0.0 && number.abs() <= EXACT {
            format!("{number:.0}").parse().map_or(Self::Float(number), Self::Integer)
        } else {
            Self::Float(number)
        }
    }

    pub fn list(items: Vec<Self>) -> Result<Self, ValueTooDeep> {
        let depth = items.iter().map(Self::depth).max().unwrap_or(0) + 1;
        if depth > DEPTH_MAX {
            return Err(ValueTooDeep);
        }
        Ok(Self::List(Rc::new(Nested { content: items, depth })))
    }

    pub fn map(fields: Fields) -> Result<Self, ValueTooDeep> {
        let depth = fields.values().map(Self::depth).max().unwrap_or(0) + 1;
        if depth > DEPTH_MAX {
            return Err(ValueTooDeep);
        }
        Ok(Self::Map(Rc::new(Nested { content: fields, depth })))
    }

    fn depth(&self) -> usize {
        match self {
            Self::List(list) => list.depth,
            Self::Map(map) => map.depth,
            _ => 0,
        }
    }

    pub fn of_json(value: &Value) -> Result<Self, ValueTooDeep> {
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(boolean) => Self::Boolean(*boolean),
            Value::Number(number) => number
                .as_i64()
                .map_or_else(|| Self::Float(number.as_f64().unwrap_or(f64::NAN)), Self::Integer),
            Value::String(text) => Self::text(text),
            Value::Array(items) => {
                Self::list(items.iter().map(Self::of_json).collect::<Result<_, _>>()?)?
            }
            Value::Object(fields) => {
                let fields = fields
                    .iter()
                    .map(|(key, value)| Ok((Rc::from(key.as_str()), Self::of_json(value)?)));
                Self::map(fields.collect::<Result<_, _>>()?)?
            }
        })
    }

    pub fn to_json(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Boolean(boolean) => Value::Bool(*boolean),
            Self::Integer(integer) => (*integer).into(),
            // JSON has no NaN: it is null, as in jq.
            Self::Float(float) => (*float).into(),
            Self::Text(text) => Value::String(text.to_string()),
            Self::List(list) => list.content.iter().map(Self::to_json).collect(),
            Self::Map(map) => {
                let fields = map.content.iter();
                Value::Object(fields.map(|(k, v)| (k.to_string(), v.to_json())).collect())
            }
        }
    }

    /// Everything but null and false.
    pub fn is_true(&self) -> bool {
        !matches!(self, Self::Null | Self::Boolean(false))
    }

    /// The name of the type, as `type` gives it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "boolean",
            Self::Integer(_) | Self::Float(_) => "number",
            Self::Text(_) => "string",
            Self::List(_) => "array",
            Self::Map(_) => "object",
        }
    }

    pub fn as_float(&self) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "jq computes with floats, too")]
            Self::Integer(integer) => Some(*integer as f64),
            Self::Float(float) => Some(*float),
            _ => None,
        }
    }

    /// A number without its fraction.
    pub fn as_index(&self) -> Option<i64> {
        match self {
            Self::Integer(integer) => Some(*integer),
            Self::Float(float) => match Self::number(float.floor()) {
                Self::Integer(integer) => Some(integer),
                _ => None,
            },
            _ => None,
        }
    }

    /// How many values are in a list or map.
    pub fn children_count(&self) -> usize {
        match self {
            Self::List(list) => list.content.len(),
            Self::Map(map) => map.content.len(),
            _ => 0,
        }
    }

    /// The values in a list or map.
    pub fn children(&self) -> Vec<Self> {
        match self {
            Self::List(list) => list.content.clone(),
            Self::Map(map) => map.content.values().cloned().collect(),
            _ => Vec::new(),
        }
    }

    pub fn is_nan(&self) -> bool {
        matches!(self, Self::Float(float) if float.is_nan())
    }

    /// The integer of a number that has no fraction.
    #[expect(clippy::cast_possible_truncation, reason = "floats beyond its range saturate")]
    fn as_exact(&self) -> Option<i128> {
        match self {
            Self::Integer(integer) => Some(i128::from(*integer)),
            Self::Float(float) => Some(*float as i128),
            _ => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Boolean(false) => 1,
            Self::Boolean(true) => 2,
            Self::Integer(_) | Self::Float(_) => 3,
            Self::Text(_) => 4,
            Self::List(_) => 5,
            Self::Map(_) => 6,
        }
    }

    /// How much a comparison with this value may cost, at most `room`.
    pub fn weight(&self, room: usize) -> usize {
        let mut weight = 1;
        match self {
            Self::Text(text) => weight += text.len() / 16,
            Self::List(list) => {
                for item in &list.content {
                    if weight >= room {
                        break;
                    }
                    weight += item.weight(room - weight);
                }
            }
            Self::Map(map) => {
                for (key, value) in &map.content {
                    if weight >= room {
                        break;
                    }
                    weight += key.len() / 16 + value.weight(room - weight);
                }
            }
            _ => {}
        }
        weight
    }
}

impl Ord for JqValue {
    /// The order of jq: null, false, true, numbers, texts, lists, maps.
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => one.cmp(other),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::List(one), Self::List(other)) => one.content.cmp(&other.content),
            (Self::Map(one), Self::Map(other)) => {
                let keys = one.content.keys().cmp(other.content.keys());
                keys.then_with(|| one.content.values().cmp(other.content.values()))
            }
            (_, right) => match (self.as_float(), right.as_float()) {
                (Some(one), Some(other)) => match one.partial_cmp(&other) {
                    // As floats, integers beyond 2^53 equal others.
                    Some(Ordering::Equal) => self.as_exact().cmp(&right.as_exact()),
                    Some(order) => order,
                    // NaN is below every number. A sort needs an order of all values.
                    None => other.is_nan().cmp(&one.is_nan()),
                },
                _ => self.rank().cmp(&right.rank()),
            },
        }
    }
}

impl PartialOrd for JqValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for JqValue {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for JqValue {}
