//! The plurals of custom kinds, as far as the folder itself names them.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::diagnostics::WorkDiagnostics;
use super::rule_index::{ConfigIndex, RuleSteps};
use super::sidecar::{Covering, Sidecar};
use crate::model::diagnostic::{Code, Location};
use crate::model::kinds::{Found, KindIndex};
use crate::model::manifest::{Identity, Manifest};
use crate::render::object_checks::ExtraCrds;

/// What a folder says of its kinds.
#[derive(Debug, Clone, Copy)]
pub struct NamedPlurals<'a> {
    /// All sidecars of the work.
    pub sidecars: &'a [Sidecar],
    /// Which of them are about which objects.
    pub covering: &'a Covering,
    /// `manifestConfigs` of work.yaml.
    pub entries: &'a [Value],
    /// CRDs that are not in the repository. They confirm guesses.
    pub crds: &'a ExtraCrds,
}

/// Takes the plurals that the folder names in the place of guessed ones. What Kubernetes or a CRD
/// of the repository says of a kind stands: another plural for it is an error.
pub fn name_resources(
    manifests: &mut [Manifest],
    named: NamedPlurals<'_>,
    kinds: &KindIndex,
    diagnostics: &mut WorkDiagnostics<'_>,
) {
    let NamedPlurals { sidecars, covering, entries, crds } = named;
    let in_entries = || PluralsInEntries::new(manifests, entries, kinds);
    let mut in_entries = kinds.has_frozen_plurals().then(in_entries);
    let mut reported = HashSet::new();
    for (number, manifest) in manifests.iter_mut().enumerate() {
        let known = kinds.lookup(&manifest.identity.group, &manifest.kind);
        let covering = covering.of(number).iter().filter_map(|at| sidecars.get(*at as usize));
        if name_by_sidecars(manifest, covering, &known, diagnostics) {
            continue;
        }
        let Found::Guessed { resource, frozen } = known else { continue };
        let Manifest { kind, identity, origin, .. } = manifest;
        let named = in_entries.as_mut().and_then(|all| all.plural_of(identity, &frozen));
        if let Some(plural) = named {
            identity.resource = plural;
            continue;
        }
        // One note for each kind, at its first object.
        let group = &identity.group;
        if !reported.insert((group.clone(), kind.clone())) {
            continue;
        }
        let known = crds.plural(group, kind);
        if known == Some(&*resource) {
            continue;
        }
        let known = known.map_or_else(String::new, |known| format!("; its CRD says {known:?}"));
        let message =
            format!("the plural of {kind} in {group:?} is taken to be {resource:?}{known}");
        let at = Location::at(&origin.file, origin.span);
        diagnostics.add(Code::GuessedPlural, at, message);
    }
}

/// Whether a sidecar names the plural. `known`: what is known without sidecars.
fn name_by_sidecars<'a>(
    manifest: &mut Manifest,
    sidecars: impl Iterator<Item = &'a Sidecar>,
    known: &Found,
    diagnostics: &mut WorkDiagnostics<'_>,
) -> bool {
    let mut is_named = false;
    for sidecar in sidecars {
        let Some(resource) = &sidecar.config.value.resource else { continue };
        if is_named && *resource != manifest.identity.resource {
            sidecar.report_second("resource", manifest, diagnostics);
        }
        is_named = true;
        if matches!(known, Found::Guessed { .. }) {
            manifest.identity.resource.clone_from(resource);
        } else if known.resource() != resource {
            let message = format!("the plural of {} is {}", manifest.kind, known.resource());
            let at = sidecar.config.location("/resource");
            let diagnostic = diagnostics.of(Code::BadValue, at, message);
            diagnostics.push(diagnostic.with_field("resource"));
        }
    }
    is_named
}

/// Entries of work.yaml that would be about no object, if a CRD in a frozen work did not have the
/// plural that they name.
struct PluralsInEntries {
    index: ConfigIndex,
    /// The groups and plurals of the work's kinds: an entry for one of these is about that kind.
    taken: HashSet<(String, String)>,
    steps: RuleSteps,
}

impl PluralsInEntries {
    fn new(manifests: &[Manifest], entries: &[Value], kinds: &KindIndex) -> Self {
        let objects: HashSet<(&str, &str)> =
            manifests.iter().map(|one| (&*one.identity.group, &*one.kind)).collect();
        let plural = |(group, kind): (&str, &str)| {
            (group.to_owned(), kinds.lookup(group, kind).resource().to_owned())
        };
        let taken = objects.into_iter().map(plural).collect();
        Self { index: ConfigIndex::new(entries), taken, steps: RuleSteps::default() }
    }

    /// Which of these plurals an entry names for an object.
    fn plural_of(&mut self, object: &Identity, plurals: &BTreeSet<String>) -> Option<String> {
        let Self { index, taken, steps } = self;
        let mut is_named = |plural: &&String| {
            let object = Identity { resource: (*plural).clone(), ..object.clone() };
            let class = (object.group.clone(), object.resource.clone());
            !taken.contains(&class)
                && index.about(&object, steps).is_ok_and(|found| !found.is_empty())
        };
        plurals.iter().find(|plural| is_named(plural)).cloned()
    }
}
