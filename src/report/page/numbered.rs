//! Names that get numbers, so that changes can be sent as numbers.

use std::collections::BTreeMap;

/// Names and their numbers.
#[derive(Debug)]
pub(super) struct Numbered<T> {
    numbers: BTreeMap<T, usize>,
    names: Vec<T>,
}

impl<T: Ord + Clone> Numbered<T> {
    pub(super) fn new() -> Self {
        Self { numbers: BTreeMap::new(), names: Vec::new() }
    }

    /// The number of a name; a new name gets the next number.
    pub(super) fn number(&mut self, name: &T) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len();
        self.numbers.insert(name.clone(), number);
        self.names.push(name.clone());
        number
    }

    /// The number of a known name.
    pub(super) fn get(&self, name: &T) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// All names by number.
    pub(super) fn names(&self) -> &[T] {
        &self.names
    }

    /// How many names there are.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// The names with numbers from `count` on.
    pub(super) fn added_since(&self, count: usize) -> &[T] {
        self.names.get(count..).unwrap_or_default()
    }
}
