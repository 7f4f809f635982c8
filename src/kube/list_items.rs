//! Cuts the text of a list into its items while it arrives, so that it need not be in memory as a
//! whole.

use memchr::memchr2;

/// The name of the field with the items, to its closing quote.
const ITEMS: &[u8] = b"items\"";
/// Bytes of a list besides its items: kind and metadata.
const ENVELOPE_BYTES_MAX: usize = 64 * 1024;
/// Open brackets between two items: those of the list and of its items.
const BETWEEN_ITEMS: usize = 2;

/// Why the text cannot be cut.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListItemsError {
    /// One item is larger than the limit, or what is besides the items is.
    #[error("a part of the list is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// An item is no object.
    #[error("an item of the list is no object")]
    NoObject,
}

/// Items of a list, and the begin of the next one.
#[derive(Debug, Default)]
pub struct ItemBatch {
    text: Vec<u8>,
    /// Where each item ends in the text.
    ends: Vec<usize>,
}

impl ItemBatch {
    /// The bytes of the items.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// The JSON text of each item.
    pub fn items(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).filter_map(|(start, end)| self.text.get(start..*end))
    }

    /// Takes the items, and leaves the begin of the next one.
    pub fn take(&mut self) -> Self {
        let rest = self.text.split_off(self.begin());
        Self { text: std::mem::replace(&mut self.text, rest), ends: std::mem::take(&mut self.ends) }
    }

    /// Where the next item begins.
    fn begin(&self) -> usize {
        self.ends.last().copied().unwrap_or_default()
    }
}

/// A list that is read.
#[derive(Debug)]
pub struct ListItems {
    item_bytes_max: usize,
    /// The list without its items.
    envelope: Vec<u8>,
    /// The begin of the last text in the list itself: the name of a field, or its value.
    name: Vec<u8>,
    /// Open brackets.
    depth: usize,
    is_in_items: bool,
    is_in_string: bool,
    is_escaped: bool,
}

impl ListItems {
    /// A list whose items have at most so many bytes each.
    pub fn new(item_bytes_max: usize) -> Self {
        Self {
            item_bytes_max,
            envelope: Vec::new(),
            name: Vec::new(),
            depth: 0,
            is_in_items: false,
            is_in_string: false,
            is_escaped: false,
        }
    }

    /// Reads the next part of the text, and adds its items to the batch of the part before.
    ///
    /// # Errors
    /// An item is too large or no object. Whether the text is JSON shows in the envelope and in
    /// each item.
    pub fn read(&mut self, mut part: &[u8], batch: &mut ItemBatch) -> Result<(), ListItemsError> {
        while let Some(first) = part.first() {
            let length = if self.is_in_string {
                self.string(part, batch)?
            } else {
                self.byte(*first, batch)?;
                1
            };
            part = part.get(length..).unwrap_or_default();
        }
        Ok(())
    }

    /// The list without its items: JSON with an empty list of items, if the text was complete.
    pub fn into_envelope(self) -> Vec<u8> {
        self.envelope
    }

    /// Reads the next piece of a text in quotes, and returns its length.
    fn string(&mut self, part: &[u8], batch: &mut ItemBatch) -> Result<usize, ListItemsError> {
        let length = if std::mem::take(&mut self.is_escaped) {
            1
        } else if let Some(at) = memchr2(b'"', b'\\', part) {
            self.is_escaped = part.get(at) == Some(&b'\\');
            self.is_in_string = self.is_escaped;
            at + 1
        } else {
            part.len()
        };
        let piece = part.get(..length).unwrap_or(part);
        if !self.is_in_items {
            let missing = (ITEMS.len() + 1).saturating_sub(self.name.len());
            self.name.extend(piece.iter().take(missing));
        }
        self.keep(piece, batch)?;
        Ok(length)
    }

    /// Reads a byte outside of quotes.
    fn byte(&mut self, byte: u8, batch: &mut ItemBatch) -> Result<(), ListItemsError> {
        let is_between = self.is_in_items && self.depth == BETWEEN_ITEMS;
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' | b',' if is_between => return Ok(()),
            b'{' | b'[' => {
                if is_between && byte == b'[' {
                    return Err(ListItemsError::NoObject);
                }
                self.depth += 1;
                self.keep(&[byte], batch)?;
                let is_first = byte == b'[' && self.depth == BETWEEN_ITEMS;
                self.is_in_items |= is_first && self.name == ITEMS;
            }
            b'}' | b']' => {
                self.is_in_items &= !is_between;
                self.keep(&[byte], batch)?;
                self.depth = self.depth.saturating_sub(1);
                if self.is_in_items && self.depth == BETWEEN_ITEMS {
                    batch.ends.push(batch.text.len());
                }
            }
            _ if is_between => return Err(ListItemsError::NoObject),
            b'"' => {
                self.is_in_string = true;
                self.name.clear();
                self.keep(&[byte], batch)?;
            }
            _ => self.keep(&[byte], batch)?,
        }
        Ok(())
    }

    /// Keeps a piece of an item, or of the rest.
    fn keep(&mut self, piece: &[u8], batch: &mut ItemBatch) -> Result<(), ListItemsError> {
        let (bytes, limit_bytes) = if self.is_in_items {
            batch.text.extend_from_slice(piece);
            (batch.text.len() - batch.begin(), self.item_bytes_max)
        } else {
            self.envelope.extend_from_slice(piece);
            (self.envelope.len(), ENVELOPE_BYTES_MAX)
        };
        if bytes > limit_bytes { Err(ListItemsError::TooLarge { limit_bytes }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ITEM_BYTES_MAX: usize = 200;

    /// The envelope and the items of a text that comes in parts of this size.
    fn cut(text: &str, size: usize) -> Result<(Vec<u8>, Vec<Value>), ListItemsError> {
        let (mut list, mut batch) = (ListItems::new(ITEM_BYTES_MAX), ItemBatch::default());
        let mut items = Vec::new();
        for part in text.as_bytes().chunks(size) {
            list.read(part, &mut batch)?;
            let taken = batch.take();
            assert_eq!(taken.bytes(), taken.items().map(<[u8]>::len).sum::<usize>());
            items.extend(taken.items().map(|item| serde_json::from_slice::<Value>(item).unwrap()));
        }
        Ok((list.into_envelope(), items))
    }

    #[test]
    fn items_are_independent_of_the_parts_that_carry_them() {
        let items = [
            json!({"a": "]}\"\\", "items": [1, [2]]}),
            json!({}),
            json!({"b": {"c": [{"d": "{["}]}, "e": 1.5}),
        ];
        let list = |items: &[Value]| {
            json!({
                "apiVersion": "v1", "items": items, "kind": "items", "z": [{"items": [3]}],
            })
        };
        for text in [list(&items).to_string(), format!("{:#}\n", list(&items)).to_string()] {
            for size in [1, 2, 3, 7, text.len()] {
                let (envelope, found) = cut(&text, size).unwrap();
                assert_eq!(found, items, "{size}");
                let envelope: Value = serde_json::from_slice(&envelope).unwrap();
                assert_eq!(envelope, list(&[]), "{size}");
            }
        }
    }

    #[test]
    fn a_list_that_ends_early_has_no_valid_envelope() {
        let text = json!({"items": [{"a": 1}, {"b": "c"}], "kind": "List"}).to_string();
        for end in 0..text.len() {
            let (envelope, _) = cut(&text[..end], 5).unwrap();
            assert!(serde_json::from_slice::<Value>(&envelope).is_err(), "{end}");
        }
    }

    #[test]
    fn items_are_bounded_objects() {
        let item = |bytes: usize| json!({"a": "x".repeat(bytes - r#"{"a":""}"#.len())});
        let list = |last: usize| json!({"items": [item(ITEM_BYTES_MAX), item(last)]}).to_string();
        assert_eq!(cut(&list(ITEM_BYTES_MAX), 9).unwrap().1.len(), 2);
        let limit_bytes = ITEM_BYTES_MAX;
        assert_eq!(
            cut(&list(ITEM_BYTES_MAX + 1), 9),
            Err(ListItemsError::TooLarge { limit_bytes })
        );
        let envelope = format!("{{\"a\": \"{}\"", "x".repeat(ENVELOPE_BYTES_MAX));
        let limit_bytes = ENVELOPE_BYTES_MAX;
        assert_eq!(cut(&envelope, 4_096), Err(ListItemsError::TooLarge { limit_bytes }));
        for item in ["1", "null", "\"{}\"", "[]", "{}:"] {
            let text = format!("{{\"items\": [{item}]}}");
            assert_eq!(cut(&text, 4), Err(ListItemsError::NoObject), "{item}");
        }
    }
}
