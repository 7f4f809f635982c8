//! `spec.manifestConfigs`: the rules of sidecars, work.yaml and the levels above it, one entry for
//! each object.

use serde_json::{Map, Value};

use super::diagnostics::WorkDiagnostics;
use super::folder_config::FolderConfig;
use super::sidecar::{Sidecar, sidecar_fields};
use crate::config::file;
use crate::config::{RULE_FIELDS, WorkSettings, ocm_rules};
use crate::model::diagnostic::Code;
use crate::model::manifest::{Identity, Manifest};

/// One entry for each manifest that has a rule, in the manifests' order. Every level's wildcards
/// are resolved here: OCM's agent takes the first match for some fields and the last for others
/// (OCM work agent, gotcha 14), and one exact entry an object leaves nothing to that.
pub fn manifest_configs(
    manifests: &[Manifest],
    sidecars: &[Sidecar],
    folder: &FolderConfig<'_>,
    levels: [&WorkSettings; 2],
    diagnostics: &mut WorkDiagnostics<'_>,
) -> Vec<Value> {
    let entries = folder.work_file.map_or(&[][..], |config| &config.value.manifest_configs);
    let mut rules = WorkRules {
        entries: entries.iter().map(|entry| (entry, false)).collect(),
        sidecars: sidecars.iter().map(|sidecar| (sidecar, false)).collect(),
        levels,
    };
    let mut configs = Vec::new();
    for manifest in manifests {
        let mut fields = rules.of(manifest, diagnostics);
        if !fields.is_empty() {
            fields.insert("resourceIdentifier".into(), manifest.identity.to_value());
            configs.push(Value::Object(fields));
        }
    }
    // Where a manifest could not be read, a rule may have been meant for it.
    if !diagnostics.has_error() {
        rules.report_unused(folder, diagnostics);
    }
    configs
}

/// The rules for a work's objects.
struct WorkRules<'a> {
    /// The entries of work.yaml, each with whether it is about any object.
    entries: Vec<(&'a Value, bool)>,
    /// The sidecars, each with whether it covers any object.
    sidecars: Vec<(&'a Sidecar, bool)>,
    /// Lowest precedence first.
    levels: [&'a WorkSettings; 2],
}

impl WorkRules<'_> {
    /// The rules of one object. A sidecar's precede those of work.yaml, and these those of the
    /// levels above.
    fn of(
        &mut self,
        manifest: &Manifest,
        diagnostics: &mut WorkDiagnostics<'_>,
    ) -> Map<String, Value> {
        let mut fields = Map::new();
        for (sidecar, used) in self.sidecars.iter_mut().filter(|(one, _)| one.covers(manifest)) {
            *used = true;
            for (name, value) in sidecar_fields(&sidecar.config.value) {
                if fields.insert(name.to_owned(), value.clone()).is_some() {
                    sidecar.report_second(name, manifest, diagnostics);
                }
            }
        }
        let identity = &manifest.identity;
        for (entry, used) in self.entries.iter_mut().filter(|(one, _)| is_about(one, identity)) {
            *used = true;
            fill(&mut fields, entry);
        }
        for level in self.levels.iter().rev() {
            for entry in level.manifest_configs.iter().filter(|one| is_about(one, identity)) {
                fill(&mut fields, entry);
            }
        }
        fields
    }

    /// Reports the work's own rules that are about none of its objects.
    fn report_unused(&self, folder: &FolderConfig<'_>, diagnostics: &mut WorkDiagnostics<'_>) {
        for (index, _) in self.entries.iter().enumerate().filter(|(_, (_, used))| !used) {
            let pointer = format!("/manifestConfigs/{index}/resourceIdentifier");
            let Some(config) = folder.work_file else { continue };
            let message = "no object of this work has this resourceIdentifier";
            let diagnostic =
                diagnostics.of(Code::MatchesNothing, config.location(&pointer), message);
            diagnostics.push(diagnostic.with_field(file::dotted(&pointer)));
        }
        for (sidecar, _) in self.sidecars.iter().filter(|(_, used)| !used) {
            let message = format!("no object of {} matches", sidecar.manifest_file);
            let at = sidecar.config.location("/match");
            let diagnostic = diagnostics.of(Code::MatchesNothing, at, message);
            diagnostics.push(diagnostic.with_field("match"));
        }
    }
}

/// Takes the rules of `entry` that a higher level has not set.
fn fill(fields: &mut Map<String, Value>, entry: &Value) {
    for name in RULE_FIELDS {
        if let Some(value) = entry.get(name)
            && !fields.contains_key(name)
        {
            fields.insert(name.into(), value.clone());
        }
    }
}

/// Whether an entry of `manifestConfigs` is about this object.
pub fn is_about(entry: &Value, identity: &Identity) -> bool {
    let part = |name| {
        entry
            .pointer(&format!("/resourceIdentifier/{name}"))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    part("group") == identity.group
        && part("resource") == identity.resource
        && ocm_rules::wildcard(part("namespace"), &identity.namespace)
        && ocm_rules::wildcard(part("name"), &identity.name)
}
