//! Manifest sidecars: which objects they are about, and what they set.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::diagnostics::WorkDiagnostics;
use super::rule_index::{RuleIndex, RuleSteps, RuleTarget, TooManySteps};
use crate::config::file::Config;
use crate::config::ocm_rules;
use crate::config::{ManifestFile, ManifestMatch, RULE_FIELDS};
use crate::model::diagnostic::Code;
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
    /// Whether it is about every object of its file.
    fn covers_file(&self) -> bool {
        let select = self.config.value.select.as_ref();
        select.is_none_or(|select| *select == ManifestMatch::default())
    }

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

/// The same, to take them.
pub fn sidecar_fields_mut(
    file: &mut ManifestFile,
) -> impl Iterator<Item = (&'static str, &mut Option<Value>)> {
    [
        &mut file.feedback_rules,
        &mut file.update_strategy,
        &mut file.condition_rules,
        &mut file.feedback_scrape_type,
    ]
    .into_iter()
    .zip(RULE_FIELDS)
    .filter_map(|(value, name)| value.is_some().then_some((name, value)))
}

/// The sidecars that set anything for each object of a work, by their numbers.
///
/// Of those without a `match`, one file may have as many as objects. So they are compared once for
/// the file, and what is left of them is what each sets first: no object has more than one for each
/// field.
#[derive(Debug, Default)]
pub struct Covering {
    of: Vec<Vec<u32>>,
    used: Vec<bool>,
}

impl Covering {
    /// Finds them. Reports those that set a field for a whole file again.
    pub fn find(
        manifests: &[Manifest],
        sidecars: &[Sidecar],
        steps: &mut RuleSteps,
        diagnostics: &mut WorkDiagnostics<'_>,
    ) -> Result<Self, TooManySteps> {
        let mut first_objects: BTreeMap<&RepoPath, &Manifest> = BTreeMap::new();
        for manifest in manifests {
            first_objects.entry(&manifest.origin.file).or_insert(manifest);
        }
        let mut index = RuleIndex::default();
        let mut of_files: BTreeMap<&RepoPath, FileSidecars> = BTreeMap::new();
        let mut used = vec![false; sidecars.len()];
        for ((number, sidecar), used) in sidecars.iter().enumerate().zip(&mut used) {
            if sidecar.covers_file() {
                let Some(first) = first_objects.get(&sidecar.manifest_file) else { continue };
                let of_file = of_files.entry(&sidecar.manifest_file).or_default();
                of_file.add(number, sidecar, first, diagnostics);
                *used = true;
                continue;
            }
            let select = sidecar.config.value.select.as_ref();
            let target = RuleTarget {
                namespace: select.and_then(|select| select.namespace.as_deref()),
                name: select.and_then(|select| select.name.as_deref()),
            };
            index.add(number, [sidecar.manifest_file.as_str(), ""], target);
        }
        let mut of = Vec::with_capacity(manifests.len());
        for manifest in manifests {
            let fits = |number: usize| sidecars.get(number).is_some_and(|one| one.covers(manifest));
            let class = [manifest.origin.file.as_str(), ""];
            let mut found = index.find(class, &manifest.identity, steps, fits)?;
            for number in &found {
                used.get_mut(*number as usize).into_iter().for_each(|used| *used = true);
            }
            if let Some(of_file) = of_files.get(&manifest.origin.file) {
                found.extend(&of_file.setting);
                found.sort_unstable();
            }
            of.push(found);
        }
        Ok(Self { of, used })
    }

    /// The sidecars that set anything for the object with this number.
    pub fn of(&self, manifest: usize) -> &[u32] {
        self.of.get(manifest).map_or(&[], Vec::as_slice)
    }

    /// For how many objects each sidecar sets anything.
    pub fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.used.len()];
        for number in self.of.iter().flatten() {
            counts.get_mut(*number as usize).into_iter().for_each(|count| *count += 1);
        }
        counts
    }

    /// Whether a sidecar is about any object.
    pub fn is_used(&self, sidecar: usize) -> bool {
        self.used.get(sidecar).copied().unwrap_or_default()
    }
}

/// The sidecars without a `match` of one file.
#[derive(Debug, Default)]
struct FileSidecars {
    /// Those that set a field first.
    setting: Vec<u32>,
    /// The fields that are set.
    fields: BTreeSet<&'static str>,
    resource: Option<String>,
    is_orphaned: bool,
}

impl FileSidecars {
    /// Adds the next one. `first`: the first object of the file, for messages.
    fn add(
        &mut self,
        number: usize,
        sidecar: &Sidecar,
        first: &Manifest,
        diagnostics: &mut WorkDiagnostics<'_>,
    ) {
        let file = &sidecar.config.value;
        let mut sets = false;
        for (field, _) in sidecar_fields(file) {
            match self.fields.insert(field) {
                true => sets = true,
                false => sidecar.report_second(field, first, diagnostics),
            }
        }
        match (&self.resource, &file.resource) {
            (None, Some(resource)) => {
                self.resource = Some(resource.clone());
                sets = true;
            }
            (Some(before), Some(resource)) if before != resource => {
                sidecar.report_second("resource", first, diagnostics);
            }
            _ => {}
        }
        if file.orphan == Some(true) && !self.is_orphaned {
            self.is_orphaned = true;
            sets = true;
        }
        if sets {
            self.setting.push(u32::try_from(number).unwrap_or(u32::MAX));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FileKind, SecretPolicy, file};
    use crate::model::diagnostic::Scope;
    use crate::model::kinds::KindIndex;
    use crate::render::manifests;
    use crate::render::parsed_files::ParsedManifestFile;

    /// The sidecars of each object, whether each sidecar is used, and what is reported.
    fn covering(manifest_text: &str, sidecar_text: &str) -> (Vec<Vec<u32>>, Vec<bool>, usize) {
        let path = RepoPath::parse("clusters/a/web/x.yaml").unwrap();
        let (kinds, scope) = (KindIndex::default(), Scope::Source);
        let checks = crate::render::object_checks::ObjectChecks::none();
        let (secrets, checks) = (SecretPolicy::Allow, &checks);
        let rules = manifests::Rules {
            kinds: &kinds,
            secrets,
            scope: &scope,
            checks,
            namespace: None,
            has_bad_namespace: false,
        };
        let file = ParsedManifestFile::parse(&path, manifest_text.as_bytes());
        let read = manifests::read(file, &rules, None);
        let (configs, problems) =
            file::read_all(&path, sidecar_text.as_bytes(), FileKind::Manifest, &scope);
        assert_eq!((read.diagnostics, problems), (vec![], vec![]));
        let of_file = |config| Sidecar { config, manifest_file: path.clone() };
        let sidecars: Vec<Sidecar> = configs.into_iter().map(of_file).collect();
        let mut diagnostics = WorkDiagnostics::new(&scope, Vec::new());
        let mut steps = RuleSteps::default();
        let found = Covering::find(&read.manifests, &sidecars, &mut steps, &mut diagnostics);
        let Covering { of, used } = found.unwrap();
        (of, used, diagnostics.into_all().len())
    }

    fn objects(count: usize) -> String {
        let object = |n| {
            let metadata = format!("{{namespace: x, name: n{n}}}");
            format!("---\n{{apiVersion: x.io/v1, kind: Mouse, metadata: {metadata}}}\n")
        };
        (0..count).map(object).collect()
    }

    #[test]
    fn objects_have_one_sidecar_of_their_file_for_each_field() {
        let rest = "orphan: true\n---\nfeedbackScrapeType: Poll\n---\norphan: true\n---\n{}\n";
        let text = "resource: mice\n---\n".repeat(1_000) + rest;
        let (of, used, reported) = covering(&objects(3), &text);
        assert_eq!(of, vec![vec![0, 1_000, 1_001]; 3]);
        assert_eq!((used, reported), (vec![true; 1_004], 0));
    }

    #[test]
    fn sidecars_that_set_a_field_of_a_file_again_are_reported_once() {
        let twice = "resource: mice\nfeedbackScrapeType: Poll\n---\n".repeat(5);
        let text = twice
            + "resource: rats\n---\nmatch: {name: n1}\nfeedbackScrapeType: Poll\n\
             ---\nmatch: {name: none}\nfeedbackScrapeType: Poll\n";
        let (of, used, reported) = covering(&objects(3), &text);
        assert_eq!(of, [vec![0], vec![0, 6], vec![0]]);
        assert_eq!(used, [true, true, true, true, true, true, true, false]);
        // Four of `feedbackScrapeType`, and one of `resource`.
        assert_eq!(reported, 5);
        assert_eq!(covering("", "resource: mice\n").1, [false]);
    }
}
