//! Whether the API server takes two values for different ones.
//!
//! It fills in defaults, reads quantities by their amount, and takes what is empty for absent. So
//! texts of two manifests can differ where their objects do not.

use serde_json::{Map, Value};

/// Maps of users' keys: no key of them has a default.
const USER_MAPS: [&str; 5] = ["annotations", "labels", "limits", "matchLabels", "nodeSelector"];

/// Relative error of amounts that are compared as floating-point numbers.
const ROUNDING: f64 = 1e-9;

/// Whether nothing is left of a value without its empty parts.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Whether two values differ in more than empty parts. For values without defaults inside.
pub(super) fn differ(was: &Value, is: &Value) -> bool {
    differ_unless(was, is, |_, _| false)
}

/// As [`differ`]. `is_same` says of which other scalars the API server sees no difference.
fn differ_unless(was: &Value, is: &Value, is_same: fn(&Value, &Value) -> bool) -> bool {
    match (was, is) {
        (Value::Object(was), Value::Object(is)) => {
            fields(was, is).any(|(_, values)| match values {
                (Some(was), Some(is)) => differ_unless(was, is, is_same),
                (one, other) => one.or(other).is_some_and(|value| !is_empty(value)),
            })
        }
        (Value::Array(was), Value::Array(is)) => {
            let differs = |(was, is)| differ_unless(was, is, is_same);
            was.len() != is.len() || was.iter().zip(is).any(differs)
        }
        _ => was != is && !(is_empty(was) && is_empty(is)) && !is_same(was, is),
    }
}

/// A field of two objects, in each of them.
type Field<'a> = (&'a String, (Option<&'a Value>, Option<&'a Value>));

/// Each field of two objects once: a field of both that was compared twice would be compared
/// exponentially often in its depth.
fn fields<'a>(
    was: &'a Map<String, Value>,
    is: &'a Map<String, Value>,
) -> impl Iterator<Item = Field<'a>> {
    let before = was.iter().map(|(name, value)| (name, (Some(value), is.get(name))));
    let added = is.iter().filter(|(name, _)| !was.contains_key(*name));
    before.chain(added.map(|(name, value)| (name, (None, Some(value)))))
}

/// Whether two values differ whatever defaults the API server fills in: it fills in no lists, and
/// nothing into the maps of users.
pub(super) fn certainly_differ(was: &Value, is: &Value) -> bool {
    match (was, is) {
        (Value::Object(was), Value::Object(is)) => {
            fields(was, is).any(|(name, values)| match values {
                (Some(was), Some(is)) if is_user_map(name) => {
                    differ_unless(was, is, is_same_amount)
                }
                (Some(was), Some(is)) => certainly_differ(was, is),
                (one, other) => one.or(other).is_some_and(|value| has_no_default(name, value)),
            })
        }
        (Value::Array(was), Value::Array(is)) => {
            was.len() != is.len() || was.iter().zip(is).any(|(was, is)| certainly_differ(was, is))
        }
        (Value::Null, _) | (_, Value::Null) => false,
        _ => was != is && !(is_empty(was) && is_empty(is)) && !is_same_amount(was, is),
    }
}

fn is_user_map(name: &str) -> bool {
    USER_MAPS.contains(&name)
}

/// Whether the API server never fills in this value of a field.
fn has_no_default(name: &str, value: &Value) -> bool {
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(_) if is_user_map(name) => !is_empty(value),
        Value::Object(fields) => fields.iter().any(|(name, value)| has_no_default(name, value)),
        _ => false,
    }
}

/// Whether two values are the same quantity, as `1Gi` and `1024Mi`.
fn is_same_amount(was: &Value, is: &Value) -> bool {
    match (amount(was), amount(is)) {
        (Some(was), Some(is)) => (was - is).abs() <= ROUNDING * was.abs().max(is.abs()),
        _ => false,
    }
}

/// Whether a quantity is less than before.
pub(super) fn is_less(was: &Value, is: &Value) -> bool {
    match (amount(was), amount(is)) {
        (Some(was), Some(is)) => is < was - ROUNDING * was.abs(),
        _ => false,
    }
}

/// The amount of a number or of a quantity; `None` of any other value.
fn amount(value: &Value) -> Option<f64> {
    let text = match value {
        Value::Number(number) => return number.as_f64(),
        Value::String(text) => text,
        _ => return None,
    };
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.');
    let (number, suffix) = text.split_at(text.find(|c| !is_number(c)).unwrap_or(text.len()));
    let number: f64 = number.parse().ok()?;
    Some(number * factor(suffix)?)
}

/// The factor of a quantity's suffix.
fn factor(suffix: &str) -> Option<f64> {
    let powers = |base: f64, names: &str, name: char| {
        let at = names.find(name)?;
        Some(base.powi(i32::try_from(at).ok()? + 1))
    };
    let mut characters = suffix.chars();
    match (characters.next(), characters.next(), characters.as_str()) {
        (None, ..) => Some(1.0),
        (Some('n'), None, _) => Some(1e-9),
        (Some('u'), None, _) => Some(1e-6),
        (Some('m'), None, _) => Some(1e-3),
        (Some(name), None, _) => powers(1000.0, "kMGTPE", name),
        (Some(name), Some('i'), "") => powers(1024.0, "KMGTPE", name),
        (Some('e' | 'E'), ..) => Some(10_f64.powi(suffix.get(1..)?.parse().ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_compared_by_their_amount() {
        for (was, is, is_same) in [
            (json!("1Gi"), json!("1024Mi"), true),
            (json!("0.5"), json!("500m"), true),
            (json!(1), json!("1"), true),
            (json!("1k"), json!("1e3"), true),
            (json!("1G"), json!("1Gi"), false),
            (json!("2"), json!("1"), false),
            (json!("web:1"), json!("web:1.0"), false),
            (json!("Ki"), json!("Mi"), false),
            (json!("1Kiz"), json!("1Kiz2"), false),
            (json!(true), json!(1), false),
        ] {
            assert_eq!(is_same_amount(&was, &is), is_same, "{was} {is}");
            assert_eq!(certainly_differ(&was, &is), !is_same, "{was} {is}");
        }
        assert!(is_less(&json!("2Gi"), &json!("2000Mi")) && !is_less(&json!("2Gi"), &json!(4e9)));
        assert!(!is_less(&json!("2Gi"), &json!("2048Mi")) && !is_less(&json!("a"), &json!("1")));
    }

    #[test]
    fn only_a_value_that_no_default_gives_differs_for_certain() {
        let container = |fields: Value| json!({"containers": [fields]});
        let image = json!({"name": "a", "image": "a:1"});
        let with = |name: &str, value: Value| {
            let mut fields = image.clone();
            fields[name] = value;
            container(fields)
        };
        let plain = container(image.clone());
        for (other, differs) in [
            (with("imagePullPolicy", json!("IfNotPresent")), false),
            (with("securityContext", json!({})), false),
            (with("env", json!([])), false),
            (with("env", json!([{"name": "A", "value": "1"}])), true),
            (with("resources", json!({"requests": {"cpu": "1"}})), false),
            (with("resources", json!({"limits": {"cpu": "1"}})), true),
            (with("securityContext", json!({"capabilities": {"drop": ["ALL"]}})), true),
            (with("image", json!("a:2")), true),
            (json!({"containers": [image, image]}), true),
        ] {
            assert_eq!(certainly_differ(&plain, &other), differs, "{other}");
            assert_eq!(certainly_differ(&other, &plain), differs, "{other}");
        }
        let labels = |labels: Value| json!({"metadata": {"labels": labels}});
        let differs = |was, is| certainly_differ(&labels(was), &labels(is));
        assert!(differs(json!({"a": "b"}), json!({"a": "b", "c": "d"})));
        assert!(!differs(json!({"a": "b"}), json!({"a": "b"})));
    }

    #[test]
    fn deep_values_are_compared_once() {
        let deep = (0..100).fold(json!("a"), |inner, _| json!({"a": inner, "labels": {"b": "c"}}));
        assert!(!differ(&deep, &deep.clone()) && !certainly_differ(&deep, &deep.clone()));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..3_u8).prop_map(Value::from),
            "[a-b1]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]|labels", inner, 0..3)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    /// A value without its empty parts.
    fn without_empty(value: &Value) -> Value {
        match value {
            Value::Object(fields) => fields
                .iter()
                .filter(|(_, value)| !is_empty(value))
                .map(|(name, value)| (name.clone(), without_empty(value)))
                .collect(),
            Value::Array(items) => items.iter().map(without_empty).collect(),
            other => other.clone(),
        }
    }

    proptest! {
        #[test]
        fn comparisons_are_symmetric_and_ignore_empty_parts(was in values(), is in values()) {
            for compare in [differ, certainly_differ] {
                prop_assert_eq!(compare(&was, &is), compare(&is, &was));
                prop_assert!(!compare(&was, &was));
                prop_assert!(!compare(&was, &without_empty(&was)));
            }
        }

        /// What differs for certain differs.
        #[test]
        fn certain_difference_is_a_difference(was in values(), is in values()) {
            prop_assert!(!certainly_differ(&was, &is) || differ(&was, &is));
        }
    }
}
