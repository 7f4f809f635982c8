//! Parts of a JSON text, found without a tree: a small text can be a large tree, and a deep one
//! would overflow the stack of a recursive reader.

use std::borrow::Cow;

use serde::de::IgnoredAny;

/// A value in a text that was checked to be JSON, as it is written there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JsonText<'a>(&'a str);

impl<'a> JsonText<'a> {
    /// Checks that the bytes are one JSON value, whatever its depth. Gives what is wrong otherwise.
    pub fn check(bytes: &'a [u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        // Values that are ignored are read without recursion.
        serde_json::from_str::<IgnoredAny>(text).map_err(|error| error.to_string())?;
        Ok(Self(text.trim_matches(is_blank)))
    }

    /// The text of the value.
    pub fn text(self) -> &'a str {
        self.0
    }

    /// The field of an object, or `None` if there is no such field, it is null, or this is no
    /// object. The last of several fields of one name counts, as for Go.
    pub fn field(self, name: &str) -> Option<JsonText<'a>> {
        let [found] = self.fields([name]);
        found
    }

    /// Several fields of an object, found in one pass over its text.
    pub fn fields<const N: usize>(self, names: [&str; N]) -> [Option<JsonText<'a>>; N] {
        let mut found = [None; N];
        if self.is_object() {
            for (key, value) in Entries::of(self.0) {
                let place = names.iter().position(|name| key_is(key, name));
                if let Some(place) = place.and_then(|place| found.get_mut(place)) {
                    *place = Some(value);
                }
            }
        }
        found.map(|value| value.filter(|value| value.0 != "null"))
    }

    /// The field below several names.
    pub fn at(self, path: &[&str]) -> Option<JsonText<'a>> {
        path.iter().try_fold(self, |value, name| value.field(name))
    }

    /// The items of a list; `None` if this is no list.
    pub fn items(self) -> Option<impl Iterator<Item = JsonText<'a>>> {
        self.0.starts_with('[').then(|| Entries::of(self.0).map(|(_, value)| value))
    }

    /// The text of a string; empty if this is no string.
    pub fn text_or_empty(this: Option<Self>) -> String {
        this.and_then(Self::string).map(Cow::into_owned).unwrap_or_default()
    }

    /// The text of a string; `None` if this is no string.
    pub fn string(self) -> Option<Cow<'a, str>> {
        unquoted(self.0)
    }

    /// Whether this is an object.
    pub fn is_object(self) -> bool {
        self.0.starts_with('{')
    }

    /// How many lists and objects are inside each other, this one included.
    pub fn depth(self) -> usize {
        let (mut depth, mut deepest, mut at) = (0_usize, 0, 0);
        let bytes = self.0.as_bytes();
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => {
                    at = string_end(bytes, at);
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            deepest = depth.max(deepest);
            at += 1;
        }
        deepest
    }
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r')
}

/// Whether the text of a key, with its quotes, is this name.
fn key_is(key: &str, name: &str) -> bool {
    unquoted(key).is_some_and(|key| key == name)
}

fn unquoted(text: &str) -> Option<Cow<'_, str>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(text).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// The entries of an object or a list, in their order. Items have an empty key.
struct Entries<'a> {
    text: &'a str,
    at: usize,
    has_keys: bool,
}

impl<'a> Entries<'a> {
    /// `text` is that of an object or a list.
    fn of(text: &'a str) -> Self {
        Self { text, at: 1, has_keys: text.starts_with('{') }
    }

    fn skip(&mut self, is_skipped: impl Fn(u8) -> bool) {
        let rest = self.text.as_bytes().iter().skip(self.at);
        self.at += rest.take_while(|byte| is_skipped(**byte)).count();
    }

    fn value(&mut self) -> Option<&'a str> {
        self.skip(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':'));
        let end = value_end(self.text.as_bytes(), self.at);
        let value = self.text.get(self.at..end)?;
        self.at = end;
        (!value.is_empty()).then_some(value)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a str, JsonText<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let key = if self.has_keys { self.value()? } else { "" };
        Some((key, JsonText(self.value()?)))
    }
}

/// The end of the value that begins at `start`; `start` itself if the container ends there.
fn value_end(bytes: &[u8], start: usize) -> usize {
    let (mut depth, mut at) = (0_usize, start);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = string_end(bytes, at);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' if depth == 1 => return at + 1,
            b'}' | b']' => depth -= 1,
            b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The end of the string that begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn read(text: &str) -> JsonText<'_> {
        JsonText::check(text.as_bytes()).unwrap()
    }

    #[test]
    fn parts_are_found_as_they_are_written() {
        let text = r#" {"a": {"b\"c" : [1, "]x,\\", {"d":null}, true ], "b":2}, "a2":-1.5e3}"#;
        let all = read(text);
        let list = all.at(&["a", "b\"c"]).unwrap();
        let items: Vec<&str> = list.items().unwrap().map(JsonText::text).collect();
        assert_eq!(items, ["1", r#""]x,\\""#, r#"{"d":null}"#, "true"]);
        assert_eq!(all.field("a2").unwrap().text(), "-1.5e3");
        assert_eq!(all.at(&["a", "missing"]), None);
        assert_eq!(all.at(&["a2", "b"]), None);
        assert_eq!(read(r#"{"d": null}"#).field("d"), None, "null is as absent");
        assert_eq!(read(r#"{"d":1,"d":2}"#).field("d").unwrap().text(), "2");
        assert_eq!(read(r#"{"\u0064":"\u0064\n"}"#).field("d").unwrap().string().unwrap(), "d\n");
        assert!(all.items().is_none() && all.string().is_none());
        assert_eq!(read(" [ ] ").items().unwrap().count(), 0);
        assert_eq!(read("{}").field(""), None);
        let [two, none, one] = read(r#"{"a":1,"x":[1],"b":null,"c":"z"}"#).fields(["c", "b", "a"]);
        assert_eq!((two.unwrap().text(), none, one.unwrap().text()), ("\"z\"", None, "1"));
    }

    #[test]
    fn depth_is_counted_without_recursion() {
        for (text, depth) in [
            ("1", 0),
            ("\"[[[\"", 0),
            ("[]", 1),
            (r#"{"a":[{}],"b":[[[]]]}"#, 4),
            ("[[],[],[]]", 2),
        ] {
            assert_eq!(read(text).depth(), depth, "{text}");
        }
        let levels = 1_000_000;
        let deep = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(read(&deep).depth(), levels);
        assert_eq!(read(&deep).items().unwrap().count(), 1);
    }

    #[test]
    fn other_texts_are_no_json() {
        for bytes in [&b""[..], b"{", b"{}x", b"{'a':1}", b"\"\xff\"", b"[1,]", b"nul"] {
            assert!(JsonText::check(bytes).is_err(), "{bytes:?}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(|number| json!(number)),
            any::<f64>().prop_map(|number| json!(number)),
            any::<String>().prop_map(Value::String),
        ];
        leaf.prop_recursive(5, 60, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Every part is what a tree has there.
    fn assert_same(text: JsonText<'_>, value: &Value) {
        assert_eq!(&serde_json::from_str::<Value>(text.text()).unwrap(), value);
        match value {
            Value::Object(fields) => {
                for (name, part) in fields {
                    match text.field(name) {
                        Some(found) => assert_same(found, part),
                        None => assert!(part.is_null(), "{name}"),
                    }
                }
            }
            Value::Array(parts) => {
                let items: Vec<_> = text.items().unwrap().collect();
                assert_eq!(items.len(), parts.len());
                items.into_iter().zip(parts).for_each(|(item, part)| assert_same(item, part));
            }
            Value::String(string) => assert_eq!(&text.string().unwrap(), string),
            _ => assert!(text.string().is_none() && text.items().is_none()),
        }
    }

    proptest! {
        #[test]
        fn parts_are_those_of_a_tree(value in any_json(), is_pretty in any::<bool>()) {
            let text = if is_pretty {
                serde_json::to_string_pretty(&value)
            } else {
                serde_json::to_string(&value)
            };
            let text = text.unwrap();
            assert_same(read(&text), &value);
        }
    }
}
