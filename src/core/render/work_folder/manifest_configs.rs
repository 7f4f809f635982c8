//! `spec.manifestConfigs`: the rules of sidecars, work.yaml and the levels above it, one entry for
//! each object.

use serde_json::{Map, Value};

use super::diagnostics::WorkDiagnostics;
use super::folder_config::FolderConfig;
use super::health_rules::condition_rules;
use super::inherited::{Inherited, SettingsLevel};
use super::near_objects::NearObjects;
use super::rule_index::{ConfigIndex, RuleSteps, TooManySteps};
use super::sidecar::{Covering, Sidecar, sidecar_fields_mut};
use crate::config::file;
use crate::config::{RULE_FIELDS, ocm_rules};
use crate::model::diagnostic::Code;
use crate::model::manifest::{Identity, Manifest};

/// The field of an entry with condition rules.
const CONDITION_RULES: &str = "conditionRules";

/// Where a field of an entry comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleSource {
    /// The sidecar with this number.
    Sidecar(u32),
    /// This entry of `manifestConfigs` in work.yaml.
    Entry(u32),
    /// The levels above the work, or gitwork itself.
    Above,
}

/// One entry of `spec.manifestConfigs`.
#[derive(Debug)]
pub struct ObjectRules {
    /// The number of the manifest.
    pub manifest: usize,
    /// The fields of [`RULE_FIELDS`].
    pub fields: Map<String, Value>,
    /// Where each comes from.
    sources: [RuleSource; RULE_FIELDS.len()],
}

impl ObjectRules {
    /// No rules, or fields of the levels above.
    pub fn new(manifest: usize, fields: Map<String, Value>) -> Self {
        Self { manifest, fields, sources: [RuleSource::Above; RULE_FIELDS.len()] }
    }

    /// Where a field comes from.
    pub fn source(&self, field: &str) -> RuleSource {
        let mut all = RULE_FIELDS.iter().zip(self.sources);
        all.find(|(name, _)| **name == field).map_or(RuleSource::Above, |(_, source)| source)
    }

    /// Takes the rules of `entry` that a higher level has not set.
    fn fill(&mut self, entry: &Value, source: RuleSource) {
        for name in RULE_FIELDS {
            if let Some(value) = entry.get(name) {
                self.set(name, || value.clone(), source);
            }
        }
    }

    /// Sets a field; false if a higher level has set it.
    fn set(&mut self, name: &str, value: impl FnOnce() -> Value, source: RuleSource) -> bool {
        if self.fields.contains_key(name) {
            return false;
        }
        self.fields.insert(name.to_owned(), value());
        for (_, of_field) in
            RULE_FIELDS.iter().zip(&mut self.sources).filter(|(of, _)| **of == name)
        {
            *of_field = source;
        }
        true
    }

    /// The entry for an object.
    pub fn into_entry(mut self, identity: &Identity) -> Value {
        self.fields.insert("resourceIdentifier".into(), identity.to_value());
        Value::Object(self.fields)
    }
}

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

    /// The rules of each manifest that has one, in the manifests' order. Every level's
    /// wildcards are resolved here, into one exact entry for each object. OCM's agent takes the
    /// first matching entry for some fields, and the last one for others (OCM work agent, config
    /// lookup).
    pub fn manifest_configs(
        mut self,
        manifests: &[Manifest],
        folder: &FolderConfig<'_>,
        steps: &mut RuleSteps,
        diagnostics: &mut WorkDiagnostics<'_>,
    ) -> Result<Vec<ObjectRules>, TooManySteps> {
        let mut all = Vec::new();
        for (number, manifest) in manifests.iter().enumerate() {
            let rules = self.of(number, manifest, steps, diagnostics)?;
            if !rules.fields.is_empty() {
                all.push(rules);
            }
        }
        // Where a manifest could not be read, a rule may have been meant for it.
        if !diagnostics.freezes_work() {
            self.report_unused(manifests, folder, diagnostics);
        }
        Ok(all)
    }

    /// The rules of one object. A sidecar's precede those of work.yaml, and these those of the
    /// levels above.
    fn of(
        &mut self,
        number: usize,
        manifest: &Manifest,
        steps: &mut RuleSteps,
        diagnostics: &mut WorkDiagnostics<'_>,
    ) -> Result<ObjectRules, TooManySteps> {
        let mut rules = ObjectRules::new(number, Map::new());
        for number in self.covering.of(number) {
            let at = *number as usize;
            let (sidecar, uses) = (self.sidecars.get_mut(at), self.uses_left.get_mut(at));
            let (Some(sidecar), Some(uses)) = (sidecar, uses) else { continue };
            *uses = uses.saturating_sub(1);
            let mut set_before = Vec::new();
            for (name, value) in sidecar_fields_mut(&mut sidecar.config.value) {
                let value = || {
                    let taken = if *uses == 0 { value.take() } else { value.clone() };
                    taken.unwrap_or_default()
                };
                if !rules.set(name, value, RuleSource::Sidecar(*number)) {
                    set_before.push(name);
                }
            }
            for name in set_before {
                sidecar.report_second(name, manifest, diagnostics);
            }
        }
        let identity = &manifest.identity;
        for at in self.index.about(identity, steps)? {
            let Some((entry, used)) = self.entries.get_mut(at as usize) else { continue };
            *used = true;
            rules.fill(entry, RuleSource::Entry(at));
        }
        for level in self.levels.iter().rev() {
            for at in level.rules.about(identity, steps)? {
                let entry = level.settings.manifest_configs.get(at as usize);
                entry.into_iter().for_each(|one| rules.fill(one, RuleSource::Above));
            }
        }
        if self.reports_health
            && let Some(of_health) = condition_rules(identity)
        {
            rules.set(CONDITION_RULES, || of_health, RuleSource::Above);
        }
        Ok(rules)
    }

    /// Reports the work's own rules that are about none of its objects.
    fn report_unused(
        &self,
        manifests: &[Manifest],
        folder: &FolderConfig<'_>,
        diagnostics: &mut WorkDiagnostics<'_>,
    ) {
        let mut near = NearObjects::of(manifests);
        for (index, (entry, _)) in self.entries.iter().enumerate().filter(|(_, (_, used))| !used) {
            let pointer = format!("/manifestConfigs/{index}/resourceIdentifier");
            let Some(config) = folder.work_file else { continue };
            let wanted = Identity::of_value(entry.get("resourceIdentifier"));
            let message =
                format!("no object of this work has this resourceIdentifier{}", near.hint(&wanted));
            let diagnostic =
                diagnostics.of(Code::MatchesNothing, config.location(&pointer), message);
            diagnostics.push(diagnostic.with_field(file::dotted(&pointer)));
        }
        let sidecars = self.sidecars.iter().enumerate();
        for (_, sidecar) in sidecars.filter(|(number, _)| !self.covering.is_used(*number)) {
            let file = &sidecar.manifest_file;
            let message = format!("no object of {file} matches{}", near.in_file(file));
            let at = sidecar.config.location("/match");
            let diagnostic = diagnostics.of(Code::MatchesNothing, at, message);
            diagnostics.push(diagnostic.with_field("match"));
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
