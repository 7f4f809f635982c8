//! How many persons have signed: keys do not count, people do.

use std::collections::BTreeSet;

use super::Signer;
use super::pattern::fits_any;

/// Different persons. Two keys are one person's where they have a name in common.
#[derive(Debug, Default)]
pub(super) struct Persons(Vec<BTreeSet<String>>);

impl Persons {
    /// Counts a signer of whom a name fits one of the patterns, or whoever where there are none.
    pub(super) fn add(&mut self, signer: &Signer, patterns: &[String]) {
        let fits = |name: &String| patterns.is_empty() || fits_any(name, patterns);
        if !signer.names.iter().any(fits) {
            return;
        }
        let mut all = signer.names.clone();
        let overlaps = |person: &mut BTreeSet<String>| !person.is_disjoint(&signer.names);
        for person in self.0.extract_if(.., overlaps) {
            all.extend(person);
        }
        self.0.push(all);
    }

    /// How many they are.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether a signer is one of them.
    pub(super) fn has(&self, signer: &Signer) -> bool {
        self.0.iter().any(|person| !person.is_disjoint(&signer.names))
    }

    /// One name of each.
    pub(super) fn names(&self) -> String {
        let first = self.0.iter().filter_map(|person| person.first().map(String::as_str));
        first.collect::<Vec<_>>().join(", ")
    }
}
