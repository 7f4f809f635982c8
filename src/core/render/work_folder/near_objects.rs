//! The objects of a work that somebody may have meant who named none of them.

use crate::model::manifest::{Identity, Manifest};
use crate::model::name::RepoPath;
use crate::render::object_checks::object_name;
use crate::text::closest;

/// Searches of similar names that one work makes, and objects that each looks at: a file may have
/// thousands of both.
const SEARCHES_MAX: usize = 10;
const OBJECTS_MAX: usize = 200;

/// Objects of a file that a message lists.
const LISTED_MAX: usize = 3;

/// The objects of a work, for messages.
pub struct NearObjects<'a> {
    manifests: &'a [Manifest],
    searches_left: usize,
}

impl<'a> NearObjects<'a> {
    /// Those of these manifests.
    pub fn of(manifests: &'a [Manifest]) -> Self {
        Self { manifests, searches_left: SEARCHES_MAX }
    }

    /// `; did you mean deployments.apps/web in namespace shop?`, or nothing.
    pub fn hint(&mut self, wanted: &Identity) -> String {
        let near = self.may_search().then(|| self.near(wanted)).flatten();
        near.map_or_else(String::new, |near| format!("; did you mean {near}?"))
    }

    fn may_search(&mut self) -> bool {
        let left = self.searches_left.checked_sub(1);
        self.searches_left = left.unwrap_or_default();
        left.is_some()
    }

    /// An object of the same kind with a similar name, or with this name and of another kind or
    /// namespace.
    fn near(&self, wanted: &Identity) -> Option<&'a Identity> {
        let all = || self.manifests.iter().map(|one| &one.identity);
        let of_kind =
            |one: &&Identity| (&one.group, &one.resource) == (&wanted.group, &wanted.resource);
        let named = all().filter(|one| one.name == wanted.name);
        if let Some(same_kind) = named.clone().find(of_kind) {
            return Some(same_kind);
        }
        let similar = || all().filter(of_kind).take(OBJECTS_MAX);
        let name = closest(&wanted.name, similar().map(|one| one.name.as_str()));
        let similar = name.and_then(|name| similar().find(|one| one.name == name));
        similar.or_else(|| named.clone().next())
    }

    /// `; it has ConfigMap shop/settings and 2 more objects`, or nothing.
    pub fn in_file(&mut self, file: &RepoPath) -> String {
        if !self.may_search() {
            return String::new();
        }
        let objects = || self.manifests.iter().filter(|one| one.origin.file == *file);
        let named = |one: &Manifest| object_name(&one.kind, &one.identity);
        let listed: Vec<String> = objects().take(LISTED_MAX).map(named).collect();
        if listed.is_empty() {
            return String::new();
        }
        let more = match objects().skip(LISTED_MAX).take(OBJECTS_MAX).count() {
            0 => String::new(),
            OBJECTS_MAX => " and many more".to_owned(),
            more => format!(" and {more} more"),
        };
        format!("; it has {}{more}", listed.join(", "))
    }
}
