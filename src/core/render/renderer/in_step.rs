//! Clusters of two sorted lists, side by side.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::iter::Peekable;

use crate::model::name::ClusterName;

/// Entries sorted by cluster, asked for names that ascend as well. It walks along with the names:
/// with many clusters, a search for each of them costs far more.
pub(super) struct InStep<I: Iterator> {
    entries: Peekable<I>,
}

impl<K: Borrow<ClusterName>, V, I: Iterator<Item = (K, V)>> InStep<I> {
    /// At the first entry.
    pub(super) fn new(entries: impl IntoIterator<IntoIter = I, Item = (K, V)>) -> Self {
        Self { entries: entries.into_iter().peekable() }
    }

    /// The entry of a cluster that comes after all those that were asked for.
    pub(super) fn get(&mut self, name: &ClusterName) -> Option<V> {
        while let Some((key, _)) = self.entries.peek() {
            match key.borrow().cmp(name) {
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
