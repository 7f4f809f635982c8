//! Deletions with which clusters delete other objects, and their words.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::name::{ClusterName, WorkName};
use crate::plan::member_changes::first_names;
use crate::text::style::count;
use crate::text::truncate::truncate_chars;

/// Clusters or works named in one line.
const NAMES_MAX: usize = 5;
/// Characters of the deleted object's name in one line.
const NAME_CHARS_MAX: usize = 100;
/// Lines of text; the others are counted.
const LINES_MAX: usize = 10;

const WHAT_TO_DO: &str = "; keep it in Git, or first commit `orphan: true` for it, or first move \
    or remove these objects";

/// The API server never deletes these namespaces (Kubernetes, admission plugin NamespaceLifecycle).
const KEPT_NAMESPACES: [&str; 3] = ["default", "kube-public", "kube-system"];

/// The kind of an object that encloses others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum EnclosingKind {
    /// Encloses all objects in it.
    Namespace,
    /// Encloses all objects of its kind.
    CustomResourceDefinition,
}

/// An object with which the cluster deletes others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct EnclosingObject {
    /// Its kind.
    pub kind: EnclosingKind,
    /// `metadata.name`.
    pub name: String,
}

impl EnclosingObject {
    /// That of a group, kind and name; `None` if its deletion deletes no other object.
    pub fn of(group: &str, kind: &str, name: &str) -> Option<Self> {
        let kind = match (group, kind) {
            ("", "Namespace") if !KEPT_NAMESPACES.contains(&name) => EnclosingKind::Namespace,
            ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                EnclosingKind::CustomResourceDefinition
            }
            _ => return None,
        };
        Some(Self { kind, name: name.to_owned() })
    }
}

/// An object that is deleted, with the work that loses it.
pub type Deleted = (EnclosingObject, WorkName);

/// Objects of one work that go with a deleted one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct LostObjects {
    /// The work.
    pub work: WorkName,
    /// How many objects of it.
    pub objects: usize,
}

/// An object that is deleted, and with it objects that are to stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CascadingDeletion {
    /// The deleted object, as the fields `kind` and `name`.
    #[serde(flatten)]
    pub deleted: EnclosingObject,
    /// The work that loses it.
    pub work: WorkName,
    /// The clusters.
    pub clusters: Vec<ClusterName>,
    /// How many objects go with it on each of these clusters.
    pub objects: usize,
    /// The works that these objects are in.
    pub works: Vec<LostObjects>,
}

impl fmt::Display for CascadingDeletion {
    /// What is deleted where, what goes with it, and what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deleted: EnclosingObject { kind, name }, work, clusters, objects, works } = self;
        let name = truncate_chars(name, NAME_CHARS_MAX);
        let clusters = first_names(clusters.iter(), NAMES_MAX);
        let (kind, place) = match kind {
            EnclosingKind::Namespace => ("Namespace", "in it"),
            EnclosingKind::CustomResourceDefinition => ("CustomResourceDefinition", "of its kind"),
        };
        let (what, stay) = match objects {
            1 => ("1 object".to_owned(), "is to stay"),
            more => (count(*more, "object"), "are to stay"),
        };
        write!(
            f,
            "{kind} {name} of {work} is deleted on {clusters}, and with it {what} {place} that \
             {stay}: "
        )?;
        let some = works.iter().take(NAMES_MAX);
        let some: Vec<String> =
            some.map(|lost| format!("{} of {}", lost.objects, lost.work)).collect();
        f.write_str(&some.join(", "))?;
        match works.len().saturating_sub(NAMES_MAX) {
            0 => {}
            more => write!(f, " and those of {}", count(more, "other work"))?,
        }
        f.write_str(WHAT_TO_DO)
    }
}

impl CascadingDeletion {
    /// One line for each of the first ones, and the number of the others.
    pub fn lines(all: &[Self]) -> Vec<String> {
        let first = all.iter().take(LINES_MAX).map(Self::to_string);
        let left = all.len().saturating_sub(LINES_MAX);
        let rest = (left > 0).then(|| {
            format!("and {} that other objects go with", count(left, "more deleted object"))
        });
        first.chain(rest).collect()
    }
}

/// Collects the deletions of all clusters. Equal ones are one.
#[derive(Debug, Default)]
pub struct CascadingDeletions {
    all: BTreeMap<(Deleted, Vec<LostObjects>), Vec<ClusterName>>,
}

/// How many objects of each work go with deleted objects on one cluster.
#[derive(Debug, Default)]
pub struct ClusterLosses(BTreeMap<Deleted, BTreeMap<WorkName, usize>>);

impl ClusterLosses {
    /// Counts an object of a work.
    pub fn add(&mut self, deleted: &Deleted, work: &WorkName) {
        let of_deleted = match self.0.get_mut(deleted) {
            Some(found) => found,
            None => self.0.entry(deleted.clone()).or_default(),
        };
        match of_deleted.get_mut(work) {
            Some(objects) => *objects += 1,
            None => drop(of_deleted.insert(work.clone(), 1)),
        }
    }
}

impl CascadingDeletions {
    /// Adds what a cluster loses.
    pub fn add(&mut self, cluster: &ClusterName, losses: ClusterLosses) {
        for (deleted, works) in losses.0 {
            let works = works.into_iter().map(|(work, objects)| LostObjects { work, objects });
            let mut works: Vec<LostObjects> = works.collect();
            works.sort_by_key(|lost| std::cmp::Reverse(lost.objects));
            self.all.entry((deleted, works)).or_default().push(cluster.clone());
        }
    }

    /// The deletions; those with most objects first.
    pub fn into_vec(self) -> Vec<CascadingDeletion> {
        let deletion = |(((deleted, work), works), clusters): ((Deleted, Vec<LostObjects>), _)| {
            let objects = works.iter().map(|lost| lost.objects).sum();
            CascadingDeletion { deleted, work, clusters, objects, works }
        };
        let mut all: Vec<CascadingDeletion> = self.all.into_iter().map(deletion).collect();
        let size = |one: &CascadingDeletion| one.objects.saturating_mul(one.clusters.len());
        all.sort_by_key(|one| std::cmp::Reverse(size(one)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(number: usize) -> ClusterName {
        ClusterName::parse(&format!("edge-{number}")).unwrap()
    }

    fn work(name: &str) -> WorkName {
        WorkName::parse(name).unwrap()
    }

    fn namespace(name: &str) -> Deleted {
        (EnclosingObject::of("", "Namespace", name).unwrap(), work("base"))
    }

    /// The losses of a cluster: the works that lose one object each.
    fn losses(deleted: &Deleted, works: &[&str]) -> ClusterLosses {
        let mut losses = ClusterLosses::default();
        works.iter().for_each(|name| losses.add(deleted, &work(name)));
        losses
    }

    #[test]
    fn equal_deletions_of_many_clusters_are_one_line() {
        let mut all = CascadingDeletions::default();
        let shop = namespace("shop");
        all.add(&cluster(100), losses(&shop, &["web"]));
        for number in 1..=21 {
            all.add(&cluster(number), losses(&shop, &["db", "web", "web"]));
        }
        all.add(&cluster(200), ClusterLosses::default());
        let lines = CascadingDeletion::lines(&all.into_vec());
        assert_eq!(
            lines,
            [
                format!(
                    "Namespace shop of base is deleted on edge-1, edge-2, edge-3, edge-4, edge-5 \
                     and 16 more, and with it 3 objects in it that are to stay: 2 of web, 1 of \
                     db{WHAT_TO_DO}"
                ),
                format!(
                    "Namespace shop of base is deleted on edge-100, and with it 1 object in it \
                     that is to stay: 1 of web{WHAT_TO_DO}"
                ),
            ]
        );
    }

    #[test]
    fn lines_and_names_are_bounded() {
        let mut all = CascadingDeletions::default();
        let works: Vec<String> = (0..100).map(|number| format!("work-{number}")).collect();
        let works: Vec<&str> = works.iter().map(String::as_str).collect();
        for number in 0..1_000 {
            let deleted = namespace(&format!("{number}{}", "x".repeat(1_000)));
            all.add(&cluster(number), losses(&deleted, &works));
        }
        let all = all.into_vec();
        assert_eq!((all.len(), all[0].works.len(), all[0].objects), (1_000, 100, 100));
        let lines = CascadingDeletion::lines(&all);
        assert_eq!(lines.len(), 11);
        assert_eq!(lines[10], "and 990 more deleted objects that other objects go with");
        assert!(lines.iter().all(|line| line.len() < 500), "{lines:#?}");
        assert!(
            lines[0].contains("1 of work-12 and those of 95 other works; keep it"),
            "{}",
            lines[0]
        );
    }

    #[test]
    fn namespaces_that_the_api_server_keeps_take_nothing_along() {
        for name in KEPT_NAMESPACES {
            assert_eq!(EnclosingObject::of("", "Namespace", name), None);
        }
        for (group, kind) in [("example.com", "Namespace"), ("", "ConfigMap")] {
            assert_eq!(EnclosingObject::of(group, kind, "a"), None);
        }
    }
}
