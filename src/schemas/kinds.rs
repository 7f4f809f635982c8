//! Which kinds exist in which minors.

mod removed;

use serde_json::Value;

use crate::finding::{Problem, shown};
use crate::suggest::did_you_mean;
use crate::table::{Kind, Minors, Table, table};
use crate::version::KubernetesVersion;
pub(crate) use removed::Deprecation;
use removed::Removed;

/// The cluster that objects are for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Cluster {
    /// Its name, for messages; empty if the objects are for several.
    pub name: String,
    /// Its Kubernetes version. Without one, an object is good if some known minor accepts it.
    pub version: Option<KubernetesVersion>,
}

impl Cluster {
    /// The minors of the table that it may run.
    pub(crate) fn minors(&self, table: &Table) -> Minors {
        let all = Minors::MAX >> (8 - table.minors.len().min(8));
        let Some(version) = self.version else { return all };
        let position = table.minors.iter().rposition(|minor| *minor <= version);
        1 << position.unwrap_or_default()
    }

    /// Whether it runs a minor that the table does not have.
    pub(crate) fn is_uncertain(&self, table: &Table) -> bool {
        self.version.is_some_and(|version| !table.minors.contains(&version))
    }

    /// ` (edge-7 runs 1.31)`, or nothing.
    pub(crate) fn runs(&self) -> String {
        let Some(version) = self.version else { return String::new() };
        let name = if self.name.is_empty() { "the cluster" } else { &self.name };
        let unknown = match self.is_uncertain(table()) {
            true => ", which gitwork does not know",
            false => "",
        };
        format!(" ({name} runs {version}{unknown})")
    }

    /// As [`Self::runs`], if the cluster runs a minor that the table does not have.
    fn runs_unknown(&self) -> String {
        if self.is_uncertain(table()) { self.runs() } else { String::new() }
    }
}

/// What is known of a kind.
pub(crate) enum Lookup<'a> {
    /// A built-in kind, and what speaks against its version.
    BuiltIn(&'a Kind, Option<Deprecation>),
    /// A kind of a group that is not built in.
    Custom,
    /// There is no such kind: the problem, whether it is about `kind` rather than `apiVersion`, and
    /// the message.
    None(Problem, bool, String),
}

/// Whether Kubernetes itself has an API group. Its kinds are not custom kinds.
pub fn is_built_in_group(group: &str) -> bool {
    table().groups.contains(group) || Removed::has_group(group)
}

/// The plural of a built-in kind, and whether its objects have a namespace.
pub fn plural_and_scope(group: &str, kind: &str) -> Option<(&'static str, bool)> {
    table().versions(group, kind).next().map(|one| (one.plural, one.is_namespaced))
}

/// Group and version of `apiVersion`.
pub(crate) fn group_version(api_version: &str) -> (&str, &str) {
    api_version.rsplit_once('/').unwrap_or(("", api_version))
}

/// `apiVersion` and `kind` of an object.
pub(crate) fn names(object: &Value) -> Option<(&str, &str)> {
    Some((object.get("apiVersion")?.as_str()?, object.get("kind")?.as_str()?))
}

pub(crate) fn lookup(api_version: &str, kind: &str, cluster: &Cluster) -> Lookup<'static> {
    let table = table();
    let (group, version) = group_version(api_version);
    let wanted = cluster.minors(table);
    if !is_built_in_group(group) {
        return foreign_group(table, (group, version), kind, cluster);
    }
    let of_kind = || table.versions(group, kind);
    let found = of_kind().find(|one| one.version == version);
    let others = of_kind().filter(|one| one.at & wanted != 0 && one.version != version);
    let is_stable = |one: &Kind| !one.version.contains("alpha") && !one.version.contains("beta");
    let replacement = others.max_by_key(|one| (is_stable(one), one.version));
    let use_other = replacement.map_or_else(String::new, |one| {
        format!("; use {}", api_version_of(one.group, one.version))
    });
    match found {
        Some(found) if found.at & wanted != 0 => {
            let gone = gone_in(table, found.at).filter(|_| !use_other.is_empty());
            let deprecated = gone.map(|minor| {
                // Without a version, nobody knows whether that is in the future.
                let verb = if cluster.version.is_some() { "will be" } else { "is" };
                let runs = cluster.runs();
                let message =
                    format!("{api_version} {kind} {verb} removed in {minor}{runs}{use_other}");
                Deprecation { message, help: None }
            });
            Lookup::BuiltIn(found, deprecated.or_else(|| removed::deprecated(found)))
        }
        Some(found) => {
            // The bits are in the order of the minors.
            let gone = gone_in(table, found.at).filter(|_| wanted > found.at);
            let what = match gone {
                Some(minor) => format!("was removed in {minor}"),
                None => format!("exists {}", when(table, found.at)),
            };
            let message = format!("{api_version} {kind} {what}{}{use_other}", cluster.runs());
            Lookup::None(Problem::RemovedVersion, false, message)
        }
        None => match Removed::find(group, version, kind) {
            Some(removed) => {
                let message = removed.message(api_version, kind, &cluster.runs());
                Lookup::None(Problem::RemovedVersion, false, message)
            }
            None => no_such_kind(table, api_version, kind, cluster),
        },
    }
}

/// The first minor that lacks a kind that earlier ones have.
fn gone_in(table: &Table, at: Minors) -> Option<KubernetesVersion> {
    let last = (0..table.minors.len()).rev().find(|bit| at & (1 << bit) != 0)?;
    table.minors.get(last + 1).copied()
}

/// In which minors something exists; reads after "exists ".
pub(crate) fn when(table: &Table, at: Minors) -> String {
    let bits: Vec<usize> = (0..table.minors.len()).filter(|bit| at & (1 << bit) != 0).collect();
    let (Some(first), Some(last)) = (bits.first(), bits.last()) else { return String::new() };
    match (*first, *last + 1 == table.minors.len()) {
        (0, true) => "in all versions".into(),
        (0, false) => format!("until {}", table.minors[*last]),
        (first, true) => format!("from {}", table.minors[first]),
        (first, false) if first == *last => format!("in {} only", table.minors[first]),
        (first, false) => format!("from {} until {}", table.minors[first], table.minors[*last]),
    }
}

fn api_version_of(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// A kind that its built-in group does not have.
fn no_such_kind(
    table: &'static Table,
    api_version: &str,
    kind: &str,
    cluster: &Cluster,
) -> Lookup<'static> {
    let (group, version) = group_version(api_version);
    let (wanted, runs) = (cluster.minors(table), cluster.runs_unknown());
    let (shown_version, shown_kind) = (shown(api_version), shown(kind));
    let exists = || table.kinds.iter().filter(|one| one.at & wanted != 0);
    // The stable version comes first.
    if let Some(one) = exists().find(|one| one.group == group && one.kind == kind) {
        let right = api_version_of(one.group, one.version);
        let message = format!("{shown_version} has no kind {shown_kind}{runs}; use {right}");
        return Lookup::None(Problem::UnknownKind, false, message);
    }
    let of_version = || exists().filter(|one| one.group == group && one.version == version);
    let near = did_you_mean(kind, of_version().map(|one| one.kind));
    if !near.is_empty() {
        let message = format!("no such kind {shown_kind:?} in {shown_version}{runs}{near}");
        return Lookup::None(Problem::UnknownKind, true, message);
    }
    if let Some(one) = exists().find(|one| one.kind == kind) {
        let right = api_version_of(one.group, one.version);
        let message = format!("{shown_version} has no kind {shown_kind}{runs}; it is in {right}");
        return Lookup::None(Problem::UnknownKind, false, message);
    }
    let near = did_you_mean(kind, exists().map(|one| one.kind));
    let message = format!("no such kind {shown_kind:?} in {shown_version}{runs}{near}");
    Lookup::None(Problem::UnknownKind, true, message)
}

/// A group that is not built in: custom, unless only a slip can explain it.
fn foreign_group(
    table: &'static Table,
    (group, version): (&str, &str),
    kind: &str,
    cluster: &Cluster,
) -> Lookup<'static> {
    let mut with_kind = table.kinds.iter().filter(|one| one.kind == kind);
    let is_near =
        |one: &&Kind| strsim::damerau_levenshtein(one.group, group) <= 2 && !one.group.is_empty();
    // The groups of CRDs have a dot.
    let near = with_kind.clone().find(is_near);
    if group.contains('.') && near.is_none() {
        return Lookup::Custom;
    }
    let right = near.or_else(|| with_kind.next());
    let hint = match right {
        Some(one) => format!("; did you mean {:?}?", api_version_of(one.group, one.version)),
        None => did_you_mean(group, table.kinds.iter().map(|one| one.group)),
    };
    let api_version = api_version_of(group, version);
    let (shown, runs) = (shown(&api_version), cluster.runs_unknown());
    let message = format!("no such API group in {shown:?}{runs}{hint}");
    Lookup::None(Problem::UnknownKind, false, message)
}
