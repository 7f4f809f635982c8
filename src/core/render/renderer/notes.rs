//! What is odd about a work only beside the other works of its cluster: objects that look for
//! others in vain, and variables that are not replaced.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::cluster::RenderedCluster;
use super::work_inputs::WorkInputs;
use crate::config::file;
use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::diagnostic_sink::DiagnosticSink;
use crate::model::manifest::Identity;
use crate::model::name::ClusterName;
use crate::render::relations::{Place, Pods, Seeker, Sought, Unreplaced};
use crate::render::values::{Resolved, Variable};
use crate::render::work_folder::Rendered;
use crate::text::closest;
use crate::text::truncate::truncate_chars;

/// Notes on the works of a cluster that it gets for sure. There are none on what is looked for
/// while anything of the cluster is unknown.
pub(super) fn notes(
    cluster: &RenderedCluster,
    name: &ClusterName,
    inputs: WorkInputs<'_>,
) -> Vec<Diagnostic> {
    let mut found = DiagnosticSink::new(limits::FILE_DIAGNOSTICS_MAX);
    for folder in cluster.certain_works().map(|folder| &*folder.rendered) {
        let Some(relations) = &folder.relations else { continue };
        if relations.unreplaced.is_empty() {
            continue;
        }
        let inherited = inputs.inherited(name, cluster.membership_of(&folder.path), cluster);
        for one in &relations.unreplaced {
            let is_own = !matches!(one.variable, Variable::Value(_));
            let value = inherited.values.resolve(&one.variable);
            if is_own || matches!(value, Resolved::Set { .. }) {
                found.extend([unreplaced(folder, one)]);
            }
        }
    }
    let is_known = |folder: &Rendered| {
        folder.work.is_some() && folder.relations.as_ref().is_none_or(|one| !one.is_cut)
    };
    if cluster.works.values().all(|folder| is_known(&folder.rendered)) {
        found.extend(Offers::of(cluster, name).in_vain(cluster));
    }
    found.into_all()
}

fn unreplaced(folder: &Rendered, one: &Unreplaced) -> Diagnostic {
    let message = format!(
        "${{{}}} reaches the cluster as it is: the work does not replace variables",
        one.variable
    );
    at_place(Code::NoEffect, folder, &one.at, message).with_hint(
        "Set `substitute: true` in work.yaml, or in `defaults` above it; or rename the variable, \
         if another program replaces it.",
    )
}

fn at_place(code: Code, folder: &Rendered, at: &Place, message: String) -> Diagnostic {
    let location = Location::at(&folder.path.join_path(&at.file), at.span);
    let scope = folder.key.clone().map_or_else(|| folder.scope.clone(), Scope::Work);
    Diagnostic::new(code, location, scope, message).with_field(file::dotted(&at.pointer))
}

/// What the objects of a cluster's works offer.
struct Offers<'a> {
    cluster: &'a ClusterName,
    /// By namespace, label and value.
    pods: HashMap<(&'a str, &'a str, &'a str), Vec<&'a Pods>>,
    by_namespace: BTreeMap<&'a str, Vec<&'a Pods>>,
    objects: HashSet<&'a Identity>,
    /// The namespaces with custom objects.
    opaque: HashSet<&'a str>,
    /// Comparisons that may still be made.
    steps: usize,
}

impl<'a> Offers<'a> {
    fn of(cluster: &'a RenderedCluster, name: &'a ClusterName) -> Self {
        let mut offers = Self {
            cluster: name,
            pods: HashMap::new(),
            by_namespace: BTreeMap::new(),
            objects: HashSet::new(),
            opaque: HashSet::new(),
            steps: limits::RELATION_STEPS_MAX,
        };
        let folders = || cluster.works.values().map(|folder| &*folder.rendered);
        let mut relations = folders().filter_map(|folder| folder.relations.as_ref());
        if relations.all(|one| one.seekers.is_empty()) {
            return offers;
        }
        for folder in folders() {
            offers.objects.extend(folder.objects.iter().map(|(identity, _)| identity));
            let Some(relations) = &folder.relations else { continue };
            offers.opaque.extend(relations.opaque.iter().map(String::as_str));
            for pods in &relations.pods {
                let namespace = pods.namespace.as_str();
                offers.by_namespace.entry(namespace).or_default().push(pods);
                for (label, value) in &pods.labels {
                    offers.pods.entry((namespace, label, value)).or_default().push(pods);
                }
            }
        }
        offers
    }

    /// The objects of a cluster that look for others in vain.
    fn in_vain(mut self, cluster: &'a RenderedCluster) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        for folder in cluster.certain_works().map(|folder| &*folder.rendered) {
            for seeker in folder.relations.iter().flat_map(|relations| &relations.seekers) {
                let is_opaque = |namespace| self.opaque.contains(namespace);
                if is_opaque(seeker.namespace.as_str()) || is_opaque("") {
                    continue;
                }
                let message = match &seeker.sought {
                    Sought::Pods(labels) => self.without_pods(seeker, labels),
                    Sought::Object(object, kind) => self.without_object(seeker, object, kind),
                };
                let note = |message| at_place(Code::SelectsNothing, folder, &seeker.at, message);
                found.extend(message.map(note));
                // The caller keeps fewer, and says that there are more.
                if found.len() > limits::FILE_DIAGNOSTICS_MAX {
                    return found;
                }
            }
        }
        found
    }

    fn without_pods(
        &mut self,
        seeker: &Seeker,
        labels: &BTreeMap<String, String>,
    ) -> Option<String> {
        let namespace = seeker.namespace.as_str();
        let mut rarest: Option<&[&Pods]> = None;
        for (key, value) in labels {
            let all = self.pods.get(&(namespace, key.as_str(), value.as_str()));
            let all = all.map_or(&[][..], Vec::as_slice);
            if rarest.is_none_or(|rarest| all.len() < rarest.len()) {
                rarest = Some(all);
            }
        }
        let candidates = rarest.unwrap_or_default();
        self.steps = self.steps.checked_sub(candidates.len() * labels.len())?;
        let has =
            |pods: &&Pods| labels.iter().all(|(key, value)| pods.labels.get(key) == Some(value));
        if candidates.iter().any(has) {
            return None;
        }
        let wanted = pairs(labels.iter());
        let near = self.near(namespace, labels);
        let near = near
            .map_or_else(String::new, |(pods, labels)| format!("; {} has {labels}", pods.workload));
        Some(format!(
            "{} selects no pods: in Git, no workload of {} in the namespace {namespace} has the \
             labels {wanted}{near}",
            seeker.object, self.cluster
        ))
    }

    /// The workload with the same labels but for some values, and what it has in their place.
    fn near(
        &mut self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
    ) -> Option<(&'a Pods, String)> {
        let all = self.by_namespace.get(namespace)?;
        self.steps = self.steps.checked_sub(all.len() * labels.len())?;
        let has_keys = |pods: &&&Pods| labels.keys().all(|key| pods.labels.contains_key(key));
        let shared = |pods: &&Pods| {
            labels.iter().filter(|(key, value)| pods.labels.get(*key) == Some(*value)).count()
        };
        let near = *all.iter().filter(has_keys).max_by_key(|pods| shared(pods))?;
        let other = near
            .labels
            .iter()
            .filter(|(key, value)| labels.get(*key).is_some_and(|wanted| wanted != *value));
        Some((near, pairs(other)))
    }

    fn without_object(&mut self, seeker: &Seeker, object: &Identity, kind: &str) -> Option<String> {
        if self.objects.contains(object) {
            return None;
        }
        let names = self.objects.iter().filter(|one| {
            (&one.group, &one.resource, &one.namespace)
                == (&object.group, &object.resource, &object.namespace)
        });
        // Each name costs some ten comparisons.
        let steps = self.steps.checked_sub(10 * self.objects.len());
        self.steps = steps.unwrap_or(self.steps);
        let near = steps.and_then(|_| closest(&object.name, names.map(|one| one.name.as_str())));
        let hint = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
        Some(format!(
            "{} names {kind} {}, and in Git, no work of {} has it in the namespace {}{hint}",
            seeker.object, object.name, self.cluster, seeker.namespace
        ))
    }
}

/// `app=web, tier=front`.
fn pairs<'a>(labels: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    let all: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
    truncate_chars(&all.join(", "), limits::MESSAGE_TEXT_CHARS_MAX).into_owned()
}
