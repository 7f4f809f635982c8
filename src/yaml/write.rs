//! Writes JSON values as YAML that every reader reads as the same value: kubectl, this crate and
//! readers of YAML 1.2. The style is that of `kubectl get -o yaml`: block style, keys in the
//! value's own order.

use std::fmt::Write as _;

use serde_json::Value;

use gitwork_api::escape::is_dangerous;

use crate::scalar::{self, Scalar};

/// Writes the value as one YAML document that ends with a line feed.
pub fn write(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(fields) if !fields.is_empty() => block(value, 0, &mut out),
        Value::Array(items) if !items.is_empty() => block(value, 0, &mut out),
        _ => {
            inline(value, 0, &mut out);
            out.push('\n');
        }
    }
    out
}

/// Writes a mapping or list that is not empty, each entry on its own line at `indent`.
fn block(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                pad(indent, out);
                entry(key, value, indent, out);
            }
        }
        Value::Array(items) => {
            for item in items {
                pad(indent, out);
                list_item(item, indent, out);
            }
        }
        scalar => inline(scalar, indent, out),
    }
}

fn entry(key: &str, value: &Value, indent: usize, out: &mut String) {
    text(key, out);
    out.push(':');
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            out.push('\n');
            block(value, indent + 2, out);
        }
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            block(value, indent, out);
        }
        _ => {
            out.push(' ');
            inline(value, indent + 2, out);
            out.push('\n');
        }
    }
}

fn list_item(item: &Value, indent: usize, out: &mut String) {
    out.push_str("- ");
    match item {
        Value::Object(fields) if !fields.is_empty() => {
            for (index, (key, value)) in fields.iter().enumerate() {
                if index > 0 {
                    pad(indent + 2, out);
                }
                entry(key, value, indent + 2, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    pad(indent + 2, out);
                }
                list_item(item, indent + 2, out);
            }
        }
        _ => {
            inline(item, indent + 2, out);
            out.push('\n');
        }
    }
}

fn inline(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::String(string) => match literal_header(string) {
            Some(header) => literal(string, header, indent, out),
            None => text(string, out),
        },
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        other => {
            // Numbers, booleans and null are the same in JSON and YAML.
            let _infallible = write!(out, "{other}");
        }
    }
}

/// Writes a string on one line: plain if every reader reads it as that string, else quoted.
fn text(string: &str, out: &mut String) {
    if is_plain(string) {
        out.push_str(string);
        return;
    }
    out.push('"');
    for c in string.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if must_escape(c) && u32::from(c) > 0xffff => {
                // YAML has no surrogates.
                let _infallible = write!(out, "\\U{:08x}", u32::from(c));
            }
            c if must_escape(c) => {
                let _infallible = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Whether a character is not allowed in YAML, or is a line break for some readers.
fn must_escape(c: char) -> bool {
    is_dangerous(c) || matches!(c, '\u{fffe}' | '\u{ffff}')
}

fn is_plain(string: &str) -> bool {
    let Some(first) = string.bytes().next() else { return false };
    let safe_start = first.is_ascii_alphanumeric() || matches!(first, b'/' | b'_' | b'$');
    let safe = |b: u8| {
        b.is_ascii_alphanumeric()
            || matches!(
                b,
                b'/' | b'_'
                    | b'-'
                    | b'.'
                    | b' '
                    | b'+'
                    | b'='
                    | b'@'
                    | b'$'
                    | b'('
                    | b')'
                    | b';'
                    | b'~'
                    | b'^'
                    | b'<'
                    | b'>'
                    | b'?'
                    | b'!'
                    | b'&'
                    | b'*'
                    | b'%'
                    | b'|'
            )
    };
    let colons_inside = string.match_indices(':').all(|(at, _)| {
        string.as_bytes().get(at + 1).is_some_and(|next| !matches!(next, b' ' | b':'))
    });
    safe_start
        && colons_inside
        && string.bytes().all(|b| safe(b) || b == b':')
        && !string.ends_with(' ')
        && !looks_like_a_number(string)
        && matches!(scalar::plain(string), (Scalar::Value(Value::String(_)), None))
}

/// Whether any reader might read the text as a number, date or time: everything that starts with a
/// digit, except digits with a unit.
fn looks_like_a_number(string: &str) -> bool {
    let digits = string.bytes().take_while(u8::is_ascii_digit).count();
    let unit = string.get(digits..).unwrap_or_default();
    let is_quantity = !string.starts_with('0')
        && !unit.is_empty()
        && unit.bytes().all(|b| b.is_ascii_alphabetic())
        && !unit.starts_with(['e', 'E']);
    digits > 0 && !is_quantity
}

/// Returns the header of a literal block, if the block can represent the string exactly.
fn literal_header(string: &str) -> Option<&'static str> {
    let body = string.trim_end_matches('\n');
    let fits = body.contains('\n')
        && !body.starts_with([' ', '\t', '\n'])
        && !string.chars().any(|c| must_escape(c) && !matches!(c, '\n' | '\t'))
        // A line of blanks only would be ambiguous.
        && body.split('\n').all(|line| line.is_empty() || !line.trim().is_empty());
    fits.then(|| match string.len() - body.len() {
        0 => "|-",
        1 => "|",
        _ => "|+",
    })
}

fn literal(string: &str, header: &str, indent: usize, out: &mut String) {
    out.push_str(header);
    let lines = string.strip_suffix('\n').unwrap_or(string);
    for line in lines.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            pad(indent.max(2), out);
            out.push_str(line);
        }
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read_back(text: &str) -> Value {
        let mut read = crate::read(text.as_bytes());
        assert!(read.problems.is_empty(), "{text}\n{:?}", read.problems);
        assert_eq!(read.documents.len(), 1, "{text}");
        read.documents.remove(0).value
    }

    #[test]
    fn reads_like_kubectls_output() {
        let value = json!({
            "kind": "ConfigMap",
            "data": {
                "a.conf": "one\ntwo\n",
                "b": "x\n\ny",
                "on": "yes",
                "mode": "0644",
                "size": "10Mi",
            },
            "list": [{ "name": "web", "args": ["-v", "a: b"], "nested": [[1, 2], []] }, {}, null],
            "number": 1.5,
            "empty": "",
        });
        let expected = "\
data:
  a.conf: |
    one
    two
  b: |-
    x

    y
  mode: \"0644\"
  \"on\": \"yes\"
  size: 10Mi
empty: \"\"
kind: ConfigMap
list:
- args:
  - \"-v\"
  - \"a: b\"
  name: web
  nested:
  - - 1
    - 2
  - []
- {}
- null
number: 1.5
";
        assert_eq!(write(&value), expected);
        assert_eq!(read_back(expected), value);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            any::<String>(),
            "[a-z:# |>&*!%@`'\"{}\\[\\],?.~\n\t-]{0,12}",
            "[0-9.eExob_:+-]{1,8}",
            "(yes|no|on|off|null|true|~|y|n|<<|=|---|\\.\\.\\.)",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(text.clone(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_the_same(value in any_value()) {
            // A document that is null is none to the reader.
            let value = json!({ "value": value });
            let text = write(&value);
            prop_assert_eq!(read_back(&text), value, "{}", text);
        }
    }
}
