//! `spec.manifestConfigs`: the rules of sidecars, work.yaml and the levels above it, one entry for
//! each object.

use serde_json::{Map, Value};

use super::diagnostics::WorkDiagnostics;
use super::folder_config::FolderConfig;
use super::health_rules::condition_rules;
use super::inherited::{Inherited, SettingsLevel};
use super::rule_index::{ConfigIndex, RuleSteps, TooManySteps};
use super::sidecar::{Covering, Sidecar, sidecar_fields_mut};
use crate::config::file;
use crate::config::{RULE_FIELDS, ocm_rules};
use crate::model::diagnostic::Code;
use crate::model::manifest::{Identity, Manifest};

/// The field of an entry with condition rules.
const CONDITION_RULES: &str = "conditionRules";

/// The rules for a work's objects.
#[derive(Debug)]
pub struct WorkRules<'a> {
    /// The entries of work.yaml, each with whether it is about any object.
    entries: Vec<(&'a Value, bool)>,
    index: ConfigIndex,
    sidecars: &'a mut [Sidecar],
    covering: &'a Covering,
    /// For how many objects each sidecar still sets anything.
    uses_left: Vec<usize>,
    /// Lowest precedence first.
    levels: &'a [SettingsLevel<'a>],
    /// Workloads without condition rules get some.
    reports_health: bool,
}

impl<'a> WorkRules<'a> {
    /// The rules of sidecars, of work.yaml and of the levels above it, lowest precedence first.
    /// Those of a sidecar are moved to its last object: they may be large.
    pub fn new(
        sidecars: &'a mut [Sidecar],
        covering: &'a Covering,
        folder: &FolderConfig<'a>,
        inherited: &'a Inherited<'a>,
    ) -> Self {
        let entries = folder.manifest_configs();
        Self {
            entries: entries.iter().map(|entry| (entry, false)).collect(),
            index: ConfigIndex::new(entries),
            sidecars,
            covering,
            uses_left: covering.counts(),
            levels: &inherited.levels,
            reports_health: inherited.reports_health,
        }
    }

    /// One entry for each manifest that has a rule, in the manifests' order. Every level's
    /// wildcards are resolved here, into one exact entry for each object. OCM's agent takes the
    /// first matching entry for some fields, and the last one for others (OCM work agent, config
    /// lookup).
    pub fn manifest_configs(
        mut self,
        manifests: &[Manifest],
        folder: &FolderConfig<'_>,
        steps: &mut RuleSteps,
        diagnostics: &mut WorkDiagnostics<'_>,
    ) -> Result<Vec<Value>, TooManySteps> {
        let mut configs = Vec::new();
        for (number, manifest) in manifests.iter().enumerate() {
            let mut fields = self.of(number, manifest, steps, diagnostics)?;
            if !fields.is_empty() {
                fields.insert("resourceIdentifier".into(), manifest.identity.to_value());
                configs.push(Value::Object(fields));
            }
        }
        // Where a manifest could not be read, a rule may have been meant for it.
        if !diagnostics.freezes_work() {
            self.report_unused(folder, diagnostics);
        }
        Ok(configs)
    }

    /// The rules of one object. A sidecar's precede those of work.yaml, and these those of the
    /// levels above.
    fn of(
        &mut self,
        number: usize,
        manifest: &Manifest,
        steps: &mut RuleSteps,
        diagnostics: &mut WorkDiagnostics<'_>,
    ) -> Result<Map<String, Value>, TooManySteps> {
        let mut fields = Map::new();
        for at in self.covering.of(number) {
            let at = *at as usize;
            let (sidecar, uses) = (self.sidecars.get_mut(at), self.uses_left.get_mut(at));
            let (Some(sidecar), Some(uses)) = (sidecar, uses) else { continue };
            *uses = uses.saturating_sub(1);
            let mut set_before = Vec::new();
            for (name, value) in sidecar_fields_mut(&mut sidecar.config.value) {
                if fields.contains_key(name) {
                    set_before.push(name);
                    continue;
                }
                let value = if *uses == 0 { value.take() } else { value.clone() };
                fields.extend(value.map(|value| (name.to_owned(), value)));
            }
            for name in set_before {
                sidecar.report_second(name, manifest, diagnostics);
            }
        }
        let identity = &manifest.identity;
        for at in self.index.about(identity, steps)? {
            let Some((entry, used)) = self.entries.get_mut(at as usize) else { continue };
            *used = true;
            fill(&mut fields, entry);
        }
        for level in self.levels.iter().rev() {
            for at in level.rules.about(identity, steps)? {
                let entry = level.settings.manifest_configs.get(at as usize);
                entry.into_iter().for_each(|one| fill(&mut fields, one));
            }
        }
        if self.reports_health && !fields.contains_key(CONDITION_RULES) {
            let rules = condition_rules(identity);
            fields.extend(rules.map(|rules| (CONDITION_RULES.to_owned(), rules)));
        }
        Ok(fields)
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
        let sidecars = self.sidecars.iter().enumerate();
        for (_, sidecar) in sidecars.filter(|(number, _)| !self.covering.is_used(*number)) {
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
