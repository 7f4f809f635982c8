//! Two sorted lists, side by side.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::iter::Peekable;

/// Entries sorted by key, asked for keys that ascend as well. It walks along with the keys: with
/// many of them, a search for each one costs far more.
pub struct InStep<I: Iterator> {
    entries: Peekable<I>,
}

impl<K, V, I: Iterator<Item = (K, V)>> InStep<I> {
    /// At the first entry.
    pub fn new(entries: impl IntoIterator<IntoIter = I, Item = (K, V)>) -> Self {
        Self { entries: entries.into_iter().peekable() }
    }

    /// The entry of a key that comes after all those that were asked for.
    pub fn get<Q: Ord>(&mut self, wanted: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        while let Some((key, _)) = self.entries.peek() {
            match key.borrow().cmp(wanted) {
                Ordering::Less => drop(self.entries.next()),
                Ordering::Equal => return self.entries.next().map(|(_, value)| value),
                Ordering::Greater => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::model::name::ClusterName;

    fn names(all: impl IntoIterator<Item = u8>) -> BTreeMap<ClusterName, u8> {
        let name = |number| ClusterName::parse(&format!("c{number}")).unwrap();
        all.into_iter().map(|number| (name(number), number)).collect()
    }

    proptest! {
        #[test]
        fn it_finds_what_a_search_finds(
            entries in proptest::collection::btree_set(0..20u8, 0..12),
            asked in proptest::collection::btree_set(0..20u8, 0..12),
        ) {
            let (entries, asked) = (names(entries), names(asked));
            let mut borrowed = InStep::new(&entries);
            let mut owned = InStep::new(entries.clone());
            for name in asked.keys() {
                let expected = entries.get(name);
                prop_assert_eq!(borrowed.get(name), expected);
                prop_assert_eq!(owned.get(name), expected.copied());
            }
        }
    }
}
