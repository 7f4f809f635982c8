//! Walks two values side by side and collects the fields that differ.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use similar::DiffTag;

use super::change::{ChangeKind, FieldChange, FieldDiff};
use super::secrets::{hides, shown};
use super::sequence::{operations, unified};
use crate::limits;

/// Compares two values. Equal values give no changes.
pub fn diff(before: &Value, after: &Value) -> FieldDiff {
    let mut walk = Walk::default();
    walk.value(before, after, false);
    walk.found
}

/// By what an item of a list is known, the first that all items have and none shares. The order is
/// that of what people call things by: a container port has a name and a number.
const ITEM_KEYS: [&str; 13] = [
    "name",
    "resourceIdentifier",
    "mountPath",
    "key",
    "containerPort",
    "port",
    "type",
    "ip",
    "host",
    "path",
    "topologyKey",
    "devicePath",
    "uid",
];

#[derive(Default)]
struct Walk {
    path: String,
    found: FieldDiff,
}

impl Walk {
    fn push(&mut self, change: ChangeKind) {
        if self.found.changes.len() < limits::DIFF_FIELDS_MAX {
            self.found.changes.push(FieldChange { path: self.path.clone(), change });
        } else {
            self.found.left_out += 1;
        }
    }

    /// Does `inner` with `part` at the path's end.
    fn below(&mut self, part: &str, inner: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(part);
        inner(self);
        self.path.truncate(length);
    }

    fn added(&mut self, value: &Value, hidden: bool) {
        match value {
            Value::Object(fields) if hidden => self.fields(&Map::new(), fields, true),
            _ if hidden => self.push(ChangeKind::SecretAdded),
            _ => self.push(ChangeKind::Added { after: shown(value) }),
        }
    }

    fn removed(&mut self, value: &Value, hidden: bool) {
        match value {
            Value::Object(fields) if hidden => self.fields(fields, &Map::new(), true),
            _ if hidden => self.push(ChangeKind::SecretRemoved),
            _ => self.push(ChangeKind::Removed { before: shown(value) }),
        }
    }

    fn value(&mut self, before: &Value, after: &Value, hidden: bool) {
        if before == after {
            return;
        }
        match (before, after) {
            (Value::Object(before), Value::Object(after)) => self.fields(before, after, hidden),
            _ if hidden => self.push(ChangeKind::SecretChanged),
            (Value::Array(before), Value::Array(after)) => self.list(before, after),
            (Value::String(before), Value::String(after))
                if before.contains('\n') || after.contains('\n') =>
            {
                self.push(ChangeKind::Text { lines: unified(before, after) });
            }
            _ => self.push(ChangeKind::Changed { before: shown(before), after: shown(after) }),
        }
    }

    fn fields(&mut self, before: &Map<String, Value>, after: &Map<String, Value>, hidden: bool) {
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for name in names {
            let hidden = hidden || hides(&[before, after], name);
            let part = field_part(name, self.path.is_empty());
            self.below(&part, |walk| match (before.get(name), after.get(name)) {
                (Some(before), Some(after)) => walk.value(before, after, hidden),
                (Some(before), None) => walk.removed(before, hidden),
                (None, Some(after)) => walk.added(after, hidden),
                (None, None) => {}
            });
        }
    }

    fn list(&mut self, before: &[Value], after: &[Value]) {
        let keyed = ITEM_KEYS
            .iter()
            .find_map(|key| Some((*key, labels(before, key)?, labels(after, key)?)));
        match keyed {
            Some((key, old, new)) => self.keyed_list(key, (before, &old), (after, &new)),
            None => self.plain_list(before, after),
        }
    }

    fn keyed_list(
        &mut self,
        key: &str,
        (before, old): (&[Value], &[String]),
        (after, new): (&[Value], &[String]),
    ) {
        let new_by_label: BTreeMap<&String, &Value> = new.iter().zip(after).collect();
        let old_by_label: BTreeMap<&String, &Value> = old.iter().zip(before).collect();
        for (label, item) in old.iter().zip(before) {
            self.below(&item_part(key, label), |walk| match new_by_label.get(label) {
                Some(now) => walk.value(item, now, false),
                None => walk.removed(item, false),
            });
        }
        for (label, item) in new.iter().zip(after) {
            if !old_by_label.contains_key(label) {
                self.below(&item_part(key, label), |walk| walk.added(item, false));
            }
        }
        let kept_old = old.iter().filter(|label| new_by_label.contains_key(label));
        let kept_new = new.iter().filter(|label| old_by_label.contains_key(label));
        if !kept_old.eq(kept_new) {
            self.push(ChangeKind::Reordered);
        }
    }

    /// A list whose items have no key: what is equal is matched, what stands in its place is
    /// compared.
    fn plain_list(&mut self, before: &[Value], after: &[Value]) {
        for op in operations(before, after) {
            if op.tag() == DiffTag::Equal {
                continue;
            }
            let (old, new) = (op.old_range(), op.new_range());
            let pairs = old.len().min(new.len());
            for (was, is) in old.clone().zip(new.clone()) {
                let (Some(was), Some(now)) = (before.get(was), after.get(is)) else { continue };
                self.below(&format!("[{is}]"), |walk| walk.value(was, now, false));
            }
            for index in old.skip(pairs) {
                let Some(item) = before.get(index) else { continue };
                self.below(&format!("[{index}]"), |walk| walk.removed(item, false));
            }
            for index in new.skip(pairs) {
                let Some(item) = after.get(index) else { continue };
                self.below(&format!("[{index}]"), |walk| walk.added(item, false));
            }
        }
    }
}

/// The items' labels, if every item has one of its own under `key`.
fn labels(items: &[Value], key: &str) -> Option<Vec<String>> {
    let labels: Vec<String> =
        items.iter().map(|item| label(item.get(key)?)).collect::<Option<_>>()?;
    let distinct: BTreeSet<&String> = labels.iter().collect();
    (distinct.len() == labels.len()).then_some(labels)
}

/// The label of an item: the text of its key, or the parts of OCM's `resourceIdentifier`.
fn label(key: &Value) -> Option<String> {
    match key {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Object(identifier) => {
            let parts = ["group", "resource", "namespace", "name"];
            let text: Vec<&str> =
                parts.iter().filter_map(|part| identifier.get(*part)?.as_str()).collect();
            Some(text.join("/"))
        }
        _ => None,
    }
}

/// `.image`, or `["app.kubernetes.io/name"]` where the name is no plain word.
fn field_part(name: &str, first: bool) -> String {
    let plain = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '$'));
    match (plain, first) {
        (true, true) => name.to_owned(),
        (true, false) => format!(".{name}"),
        (false, _) => format!("[{name:?}]"),
    }
}

fn item_part(key: &str, label: &str) -> String {
    let plain = !label.is_empty()
        && label.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:*".contains(c));
    // OCM's word for the key is long and says no more than the label does.
    match (key, plain) {
        ("resourceIdentifier", true) => format!("[{label}]"),
        ("resourceIdentifier", false) => format!("[{label:?}]"),
        (_, true) => format!("[{key}={label}]"),
        (_, false) => format!("[{key}={label:?}]"),
    }
}
