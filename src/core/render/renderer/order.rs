//! Checks of `dependsOn` over all works: each dependency is a work in Git, and none leads back to
//! the work itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Renderer;
use crate::config::file_names::WORK_FILE;
use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::name::WorkKey;
use crate::render::desired::{Frozen, WantedWorks};
use crate::render::work_folder::{Dependency, Rendered};

/// The works that a message about a cycle names at most.
const NAMED_WORKS_MAX: usize = 8;

/// The works whose message names the cycle: one repository may have as many as it may have works.
const FULL_MESSAGES_MAX: usize = 100;

impl Renderer {
    /// The errors in the dependencies of the works.
    pub(super) fn check_order(&self, works: &WantedWorks, frozen: &Frozen) -> Vec<Diagnostic> {
        let dependent = self.folders(|found| found.has_dependencies).map(|(_, rendered)| rendered);
        let dependent = dependent.filter(|one| !one.depends_on.is_empty());
        let dependent = dependent.filter_map(|one| Some((one.work.as_ref()?, one)));
        let dependent: BTreeMap<&WorkKey, &Rendered> = dependent
            .filter(|(work, _)| works.contains_key(&work.key))
            .map(|(work, rendered)| (&work.key, rendered))
            .collect();
        if dependent.is_empty() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (key, rendered) in &dependent {
            for dependency in rendered.depends_on.iter() {
                let other = dependency.key(&key.cluster);
                if !works.contains_key(&other) && !self.may_exist(&other, frozen) {
                    found.push(unknown(key, rendered, dependency));
                    // Each of these works needs one, which freezes it.
                    if found.len() >= limits::DIAGNOSTICS_MAX {
                        break;
                    }
                }
            }
        }
        found.extend(cycles(works).into_iter().enumerate().filter_map(|(index, (key, cycle))| {
            let rendered = dependent.get(key)?;
            Some(in_cycle(key, rendered, &cycle, index < FULL_MESSAGES_MAX))
        }));
        found
    }

    /// Whether Git may have the work in a part that could not be read, or in a group that the
    /// cluster may be in.
    fn may_exist(&self, key: &WorkKey, frozen: &Frozen) -> bool {
        let rendered = self.clusters.get(&key.cluster);
        let mut folders = rendered.into_iter().flat_map(|cluster| cluster.works.values());
        frozen.may_contain(key, None)
            || frozen.folders.iter().any(|(cluster, _)| *cluster == key.cluster)
            || frozen.groups_beside_unnamed.is_some()
            || frozen.groups.values().any(|members| members.contains(&key.cluster))
            || folders.any(|folder| folder.rendered.key.as_ref() == Some(key))
    }
}

fn location(rendered: &Rendered, dependency: &Dependency) -> Location {
    let file = rendered.path.join(WORK_FILE);
    match dependency.span {
        Some(span) => Location::at(&file, span),
        None => Location::file(&file),
    }
}

fn unknown(key: &WorkKey, rendered: &Rendered, dependency: &Dependency) -> Diagnostic {
    let other = dependency.key(&key.cluster);
    let message = format!("{key} depends on {other}, and Git has no such work");
    let (at, scope) = (location(rendered, dependency), Scope::Work(key.clone()));
    Diagnostic::new(Code::UnknownDependency, at, scope, message).with_field("dependsOn")
}

fn in_cycle(key: &WorkKey, rendered: &Rendered, cycle: &[&WorkKey], is_named: bool) -> Diagnostic {
    let at = cycle.iter().position(|one| *one == key);
    let next = at.map_or(cycle.first(), |at| cycle.get(at + 1).or(cycle.first()));
    let mut entries = rendered.depends_on.iter();
    let entry = entries.find(|one| next.is_some_and(|next| one.key(&key.cluster) == **next));
    let at = match entry {
        Some(entry) => location(rendered, entry),
        None => Location::file(&rendered.path.join(WORK_FILE)),
    };
    let message = match is_named {
        true => format!("{key} is in a cycle of dependencies: {}", text_of(cycle)),
        false => format!("{key} is in a cycle of dependencies"),
    };
    let scope = Scope::Work(key.clone());
    Diagnostic::new(Code::DependencyCycle, at, scope, message).with_field("dependsOn")
}

fn text_of(cycle: &[&WorkKey]) -> String {
    let mut names: Vec<String> =
        cycle.iter().take(NAMED_WORKS_MAX).map(ToString::to_string).collect();
    if cycle.len() > names.len() {
        names.push(format!("{} more", cycle.len() - names.len()));
    }
    names.extend(cycle.first().map(ToString::to_string));
    names.join(" -> ")
}

/// The works in cycles of dependencies, each with a cycle that it leads to.
fn cycles(works: &WantedWorks) -> Vec<(&WorkKey, Arc<[&WorkKey]>)> {
    let next = next_in_cycles(works);
    let mut found: BTreeMap<&WorkKey, Arc<[&WorkKey]>> = BTreeMap::new();
    for start in next.keys() {
        let mut way: Vec<&WorkKey> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut at = *start;
        let cycle = loop {
            if let Some(cycle) = found.get(at) {
                break cycle.clone();
            }
            if !seen.insert(at) {
                let begin = way.iter().position(|one| *one == at).unwrap_or_default();
                break way[begin..].into();
            }
            way.push(at);
            at = next[at];
        };
        found.extend(way.into_iter().map(|one| (one, cycle.clone())));
    }
    found.into_iter().collect()
}

/// The works in cycles of dependencies, and those that lead from one cycle to another, each with
/// one dependency that is among them.
fn next_in_cycles(works: &WantedWorks) -> BTreeMap<&WorkKey, &WorkKey> {
    let dependent = works.values().filter(|work| !work.depends_on.is_empty());
    let edges: Vec<(&WorkKey, &WorkKey)> = dependent
        .flat_map(|work| work.depends_on.iter().map(|other| (&work.key, other)))
        .filter(|(_, other)| works.contains_key(other))
        .collect();
    let edges = without_ends(edges, |(key, other)| (key, other));
    let edges = without_ends(edges, |(key, other)| (other, key));
    edges.into_iter().rev().collect()
}

type Edge<'a> = (&'a WorkKey, &'a WorkKey);

/// The edges that lead to another edge, and so on without an end. `in_order`: the two works of an
/// edge, the one that it leads to last.
fn without_ends<'a>(
    edges: Vec<Edge<'a>>,
    in_order: impl Fn(Edge<'a>) -> Edge<'a>,
) -> Vec<Edge<'a>> {
    let mut leading: BTreeMap<&WorkKey, usize> = BTreeMap::new();
    let mut into: BTreeMap<&WorkKey, Vec<&WorkKey>> = BTreeMap::new();
    for (from, to) in edges.iter().map(|edge| in_order(*edge)) {
        *leading.entry(from).or_default() += 1;
        into.entry(to).or_default().push(from);
    }
    let mut ends: Vec<&WorkKey> =
        into.keys().filter(|work| !leading.contains_key(*work)).copied().collect();
    let mut ended: BTreeSet<&WorkKey> = BTreeSet::new();
    while let Some(end) = ends.pop() {
        ended.insert(end);
        for from in into.remove(end).unwrap_or_default() {
            let Some(left) = leading.get_mut(from) else { continue };
            *left -= 1;
            if *left == 0 {
                ends.push(from);
            }
        }
    }
    let mut edges = edges;
    edges.retain(|edge| !ended.contains(in_order(*edge).1));
    edges
}

#[cfg(test)]
mod tests;
