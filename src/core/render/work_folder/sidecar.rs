//! Manifest sidecars: which objects they are about, and what they set.

use std::collections::BTreeSet;

use serde_json::Value;

use super::diagnostics::WorkDiagnostics;
use super::rule_index::{RuleIndex, RuleSteps, RuleTarget, TooManySteps};
use crate::config::file::Config;
use crate::config::ocm_rules;
use crate::config::{ManifestFile, ManifestMatch, RULE_FIELDS};
use crate::model::diagnostic::{Code, Location};
use crate::model::kinds::{Found, KindIndex};
use crate::model::manifest::{Identity, Manifest};
use crate::model::name::RepoPath;

/// One document of a manifest sidecar.
#[derive(Debug)]
pub struct Sidecar {
    /// The document.
    pub config: Config<ManifestFile>,
    /// The file that it is about.
    pub manifest_file: RepoPath,
}

impl Sidecar {
    /// Whether it is about this object.
    pub fn covers(&self, manifest: &Manifest) -> bool {
        manifest.origin.file == self.manifest_file
            && self.config.value.select.as_ref().is_none_or(|select| matches(select, manifest))
    }

    /// Reports that another sidecar has set this field for the object already.
    pub fn report_second(
        &self,
        field: &str,
        manifest: &Manifest,
        diagnostics: &mut WorkDiagnostics<'_>,
    ) {
        let at = self.config.location(&format!("/{field}"));
        let message = format!("{field} is set twice for {}", manifest.identity);
        let diagnostic = diagnostics.of(Code::RuleConflict, at, message);
        diagnostics.push(diagnostic.with_field(field).with_hint("narrow one of the `match`es"));
    }
}

/// Whether an object is one of those that a `match` selects.
fn matches(select: &ManifestMatch, manifest: &Manifest) -> bool {
    let same = |want: &Option<String>, have: &str| want.as_ref().is_none_or(|want| want == have);
    let like = |want: &Option<String>, have: &str| {
        want.as_ref().is_none_or(|want| ocm_rules::wildcard(want, have))
    };
    same(&select.api_version, &manifest.api_version)
        && same(&select.kind, &manifest.kind)
        && like(&select.namespace, &manifest.identity.namespace)
        && like(&select.name, &manifest.identity.name)
}

/// The rules that a sidecar sets.
pub fn sidecar_fields(file: &ManifestFile) -> impl Iterator<Item = (&'static str, &Value)> {
    [&file.feedback_rules, &file.update_strategy, &file.condition_rules, &file.feedback_scrape_type]
        .into_iter()
        .zip(RULE_FIELDS)
        .filter_map(|(value, name)| Some((name, value.as_ref()?)))
}

/// The sidecars that cover each object of a work, by their numbers.
#[derive(Debug, Default)]
pub struct Covering(Vec<Vec<u32>>);

impl Covering {
    /// Finds them.
    pub fn find(
        manifests: &[Manifest],
        sidecars: &[Sidecar],
        steps: &mut RuleSteps,
    ) -> Result<Self, TooManySteps> {
        let mut index = RuleIndex::default();
        for (number, sidecar) in sidecars.iter().enumerate() {
            let select = sidecar.config.value.select.as_ref();
            let target = RuleTarget {
                namespace: select.and_then(|select| select.namespace.as_deref()),
                name: select.and_then(|select| select.name.as_deref()),
            };
            index.add(number, [sidecar.manifest_file.as_str(), ""], target);
        }
        let mut all = Vec::with_capacity(manifests.len());
        for manifest in manifests {
            let fits = |number: usize| sidecars.get(number).is_some_and(|one| one.covers(manifest));
            let class = [manifest.origin.file.as_str(), ""];
            all.push(index.find(class, &manifest.identity, steps, fits)?);
        }
        Ok(Self(all))
    }

    /// The sidecars of the object with this number.
    pub fn of(&self, manifest: usize) -> &[u32] {
        self.0.get(manifest).map_or(&[], Vec::as_slice)
    }
}

/// Takes the plurals that sidecars name in the place of guessed ones. What Kubernetes or a CRD of
/// the repository says of a kind stands: another plural for it is an error.
pub fn name_resources(
    manifests: &mut [Manifest],
    sidecars: &[Sidecar],
    covering: &Covering,
    kinds: &KindIndex,
    diagnostics: &mut WorkDiagnostics<'_>,
) {
    for (number, manifest) in manifests.iter_mut().enumerate() {
        let known = kinds.lookup(&manifest.identity.group, &manifest.kind);
        let mut named = false;
        for sidecar in covering.of(number).iter().filter_map(|at| sidecars.get(*at as usize)) {
            let Some(resource) = &sidecar.config.value.resource else { continue };
            if named && *resource != manifest.identity.resource {
                sidecar.report_second("resource", manifest, diagnostics);
            }
            named = true;
            if matches!(known, Found::Guessed { .. }) {
                if manifest.identity.resource != *resource {
                    manifest.identity.resource.clone_from(resource);
                }
            } else if known.resource() != resource {
                let message = format!("the plural of {} is {}", manifest.kind, known.resource());
                let at = sidecar.config.location("/resource");
                let diagnostic = diagnostics.of(Code::BadValue, at, message);
                diagnostics.push(diagnostic.with_field("resource"));
            }
        }
        if let (Found::Guessed { resource }, false) = (&known, named) {
            let (kind, group) = (&manifest.kind, &manifest.identity.group);
            let message = format!("the plural of {kind} in {group:?} is taken to be {resource:?}");
            let at = Location::at(&manifest.origin.file, manifest.origin.span);
            diagnostics.add(Code::GuessedPlural, at, message);
        }
    }
}

/// The objects that sidecars with `orphan: true` cover.
pub fn orphans(
    manifests: &[Manifest],
    sidecars: &[Sidecar],
    covering: &Covering,
) -> BTreeSet<Identity> {
    let is_orphaned = |number: usize| {
        let mut covering = covering.of(number).iter().filter_map(|at| sidecars.get(*at as usize));
        covering.any(|sidecar| sidecar.config.value.orphan == Some(true))
    };
    let all = manifests.iter().enumerate();
    all.filter(|(number, _)| is_orphaned(*number)).map(|(_, one)| one.identity.clone()).collect()
}
