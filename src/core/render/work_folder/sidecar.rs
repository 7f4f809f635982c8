//! Manifest sidecars: which objects they are about, and what they set.

use std::collections::BTreeSet;

use serde_json::Value;

use super::diagnostics::WorkDiagnostics;
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

/// Takes the plurals that sidecars name in the place of guessed ones. What Kubernetes or a CRD of
/// the repository says of a kind stands: another plural for it is an error.
pub fn name_resources(
    manifests: &mut [Manifest],
    sidecars: &[Sidecar],
    kinds: &KindIndex,
    diagnostics: &mut WorkDiagnostics<'_>,
) {
    for manifest in manifests {
        let mut named = false;
        for sidecar in sidecars {
            let Some(resource) = &sidecar.config.value.resource else { continue };
            if !sidecar.covers(manifest) {
                continue;
            }
            if named && *resource != manifest.identity.resource {
                sidecar.report_second("resource", manifest, diagnostics);
            }
            named = true;
            match kinds.lookup(&manifest.identity.group, &manifest.kind) {
                Found::Guessed { .. } => {
                    let place = Location::at(&manifest.origin.file, manifest.origin.span);
                    diagnostics.withdraw(Code::GuessedPlural, &place);
                    manifest.identity.resource.clone_from(resource);
                }
                known if known.resource() == resource => {}
                known => {
                    let message =
                        format!("the plural of {} is {}", manifest.kind, known.resource());
                    let at = sidecar.config.location("/resource");
                    let diagnostic = diagnostics.of(Code::BadValue, at, message);
                    diagnostics.push(diagnostic.with_field("resource"));
                }
            }
        }
    }
}

/// The objects that sidecars with `orphan: true` cover.
pub fn orphans(manifests: &[Manifest], sidecars: &[Sidecar]) -> BTreeSet<Identity> {
    let orphaned = |manifest: &&Manifest| {
        sidecars
            .iter()
            .any(|sidecar| sidecar.config.value.orphan == Some(true) && sidecar.covers(manifest))
    };
    manifests.iter().filter(orphaned).map(|manifest| manifest.identity.clone()).collect()
}
