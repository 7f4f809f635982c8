//! Fields that a type does not have: what they are meant to be, and where they belong.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::checker::Checker;
use crate::finding::{Correction, Problem, shown};
use crate::kinds::when;
use crate::limits::{SEARCH_DEPTH_MAX, SEARCH_STEPS_MAX};
use crate::suggest::{certain, did_you_mean_field};
use crate::table::{Field, Type};

/// What to do about a field that other versions of Kubernetes have.
const OTHER_VERSION: &str = "Remove the field, or run a version of Kubernetes that has it.";

impl<'a> Checker<'a> {
    /// Reports a field that a type does not have in the minors that the cluster may run.
    pub(crate) fn unknown_field(
        &mut self,
        (key, value): (&str, &Value),
        fields: &Map<String, Value>,
        of: &'a Type,
    ) {
        // The search for a place costs more than the field itself.
        if self.is_full() {
            return;
        }
        let forms = of.forms(key);
        let message = if self.is_trial {
            String::new()
        } else if forms.is_empty() {
            let hint = self.hint(key, of);
            let unknown_minor = if self.is_uncertain { &*self.runs } else { "" };
            format!("{} has no field `{}`{unknown_minor}{hint}", of.short_name(), shown(key))
        } else {
            let at = forms.iter().fold(0, |all, field| all | field.at);
            let when = when(self.table, at);
            format!("{} has the field `{key}` {when}{}", of.short_name(), self.runs)
        };
        let meant = self.meant(key, of).filter(|_| forms.is_empty());
        let rename = meant
            .filter(|field| !fields.contains_key(field.name))
            .filter(|field| self.would_accept(|checker| checker.field(field.name, value, field)));
        let rename = rename.map(|field| Correction::Rename(field.name.to_owned()));
        let is_uncertain = self.is_uncertain;
        self.changing_last(
            |checker| checker.report_key(Problem::UnknownField, key, message),
            |last| {
                (last.correction, last.is_uncertain) = (rename, is_uncertain);
                last.help = (!forms.is_empty()).then_some(OTHER_VERSION);
            },
        );
    }

    /// The field that a misspelt one is meant to be, without a doubt.
    fn meant(&self, key: &str, of: &'a Type) -> Option<&'a Field> {
        let known = || of.fields.iter().filter(|field| field.at & self.wanted != 0);
        let name = certain(key, known().map(|field| field.name))?;
        known().find(|field| field.name == name)
    }

    /// What to do about an unknown field; reads after a message.
    fn hint(&mut self, key: &str, of: &'a Type) -> String {
        let is_known = |field: &&Field| field.at & self.wanted != 0;
        let names = of.fields.iter().filter(is_known).map(|field| field.name);
        let near = did_you_mean_field(key, names);
        if !near.is_empty() {
            return near;
        }
        if let Some(place) = self.place_below(key, of, 1..=1) {
            return place;
        }
        let parents = self.parents.iter().rev().skip(1);
        let mut parents = parents.filter_map(|of| self.table.types.get(*of));
        let owner = parents.find(|one| one.field(key, self.wanted).is_some());
        let owner = owner.map(|one| format!("; it belongs in {}", one.short_name()));
        owner.or_else(|| self.place_below(key, of, 2..=SEARCH_DEPTH_MAX)).unwrap_or_default()
    }

    /// The nearest place below a type that has a field, of those in these numbers of levels.
    fn place_below(
        &mut self,
        key: &str,
        of: &'a Type,
        depths: std::ops::RangeInclusive<usize>,
    ) -> Option<String> {
        let mut known: HashSet<&str> = HashSet::from([of.name]);
        let mut level: Vec<(String, &Type)> = vec![(String::new(), of)];
        for depth in 1..=*depths.end() {
            let mut next: Vec<(String, &Type)> = Vec::new();
            for (path, outer) in &level {
                for field in &outer.fields {
                    let Some(inner) = self.inner_type(field, depth) else { continue };
                    if self.search_steps >= SEARCH_STEPS_MAX {
                        return None;
                    }
                    self.search_steps += 1;
                    let dot = if path.is_empty() { "" } else { "." };
                    next.push((format!("{path}{dot}{}", field.name), inner));
                }
            }
            // A field that differs between minors occurs several times.
            next.dedup_by(|one, other| one.0 == other.0);
            let mut owners = next.iter().filter(|(_, one)| one.field(key, self.wanted).is_some());
            if let Some((path, _)) = owners.next().filter(|_| depths.contains(&depth)) {
                let verb = if owners.next().is_none() { "belongs" } else { "may belong" };
                return Some(format!("; it {verb} in `{path}`"));
            }
            next.retain(|(_, one)| known.insert(one.name));
            level = next;
        }
        None
    }

    /// The type of the values of a field in which an unknown field may belong.
    fn inner_type(&self, field: &Field, depth: usize) -> Option<&'a Type> {
        let index = field.shape.inner_type().filter(|_| field.at & self.wanted != 0)?;
        let inner = self.table.types.get(index)?;
        // Metadata deeper in the object are those of other objects, and nobody writes a status.
        let is_likely =
            field.name != "status" && (depth == 1 || inner.name != "meta.v1.ObjectMeta");
        is_likely.then_some(inner)
    }
}
