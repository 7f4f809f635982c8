//! The files of one imported work.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::cleaned_object::object_name;
use super::file_names::stems;
use super::foreign_work::ForeignWork;
use super::rules::ImportedRules;
use gitwork_core::config::file_names::{CLUSTERS, WORK_FILE};
use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::{RepoPath, WorkKey};
use gitwork_core::text::yaml;

/// The files of one imported work.
#[derive(Debug)]
pub(crate) struct WorkFiles {
    pub key: WorkKey,
    /// The work folder, from the source's path.
    pub folder: RepoPath,
    /// The texts, by path from the source's path.
    pub files: BTreeMap<RepoPath, String>,
    /// The Secrets with data, for messages.
    pub secrets: Vec<String>,
    /// The files of Secrets, whose text is shown to nobody.
    secret_files: Vec<RepoPath>,
    /// Parts of the ManifestWork that have no place in Git, for messages.
    pub dropped: Vec<String>,
}

impl WorkFiles {
    /// The files of a work.
    pub fn of(work: &ForeignWork) -> Self {
        let key = work.key.clone();
        let clusters = RepoPath::root().join(CLUSTERS);
        let folder = clusters.join(key.cluster.as_str()).join(key.work.as_str());
        let manifests = work.manifests();
        let objects: Vec<Identity> =
            manifests.iter().map(|manifest| work.plurals.identity(manifest)).collect();
        let entries = work.spec.get("manifestConfigs").and_then(Value::as_array);
        let mut rules = ImportedRules::of(entries.map_or(&[], Vec::as_slice), &objects);
        let mut files = BTreeMap::new();
        let (mut secrets, mut secret_files) = (Vec::new(), Vec::new());
        for (number, stem) in stems(manifests).into_iter().enumerate() {
            let (Some(manifest), Some(sidecar)) =
                (manifests.get(number), rules.sidecars.get_mut(number))
            else {
                continue;
            };
            let file = folder.join(&format!("{stem}.yaml"));
            if has_secret_data(manifest) {
                secrets.push(object_name(manifest));
                secret_files.push(file.clone());
            }
            files.insert(file, yaml::write(manifest));
            if let Some(plural) = work.plurals.to_name(manifest) {
                sidecar.insert("resource".to_owned(), plural.into());
            }
            if !sidecar.is_empty() {
                let sidecar = Value::Object(std::mem::take(sidecar));
                files.insert(folder.join(&format!("{stem}.config.yaml")), yaml::write(&sidecar));
            }
        }
        let settings = work_file(work, &rules.entries);
        if !settings.is_empty() {
            files.insert(folder.join(WORK_FILE), yaml::write(&Value::Object(settings)));
        }
        let dropped = [work.dropped.clone(), rules.unused].concat();
        Self { key, folder, files, secrets, secret_files, dropped }
    }

    /// The files as `--dry-run` shows them.
    pub fn shown(&self) -> String {
        let mut text = String::new();
        for (file, content) in &self.files {
            let content = match self.secret_files.contains(file) {
                true => "# a Secret: its values are not shown\n",
                false => content,
            };
            text.push_str(&format!("---\n# {file}\n{content}"));
        }
        text
    }
}

/// Whether an object is a Secret with values.
fn has_secret_data(manifest: &Value) -> bool {
    let is_set = |field: &str| {
        let data = manifest.get(field).and_then(Value::as_object);
        data.is_some_and(|data| !data.is_empty())
    };
    manifest.get("kind").and_then(Value::as_str) == Some("Secret")
        && (is_set("data") || is_set("stringData"))
}

/// What work.yaml has. `entries`: the rules with wildcards.
fn work_file(work: &ForeignWork, entries: &[Value]) -> Map<String, Value> {
    let mut fields = Map::new();
    if !work.labels.is_empty() {
        fields.insert("labels".to_owned(), json!(work.labels));
    }
    if !work.annotations.is_empty() {
        fields.insert("annotations".to_owned(), json!(work.annotations));
    }
    for field in ["deleteOption", "executor"] {
        let value = work.spec.get(field).filter(|value| !value.is_null());
        fields.extend(value.map(|value| (field.to_owned(), value.clone())));
    }
    if !entries.is_empty() {
        fields.insert("manifestConfigs".to_owned(), entries.into());
    }
    // Whatever the settings above the work say, its texts stay as they are.
    if work.manifests().iter().any(|manifest| manifest.to_string().contains("${")) {
        fields.insert("substitute".to_owned(), false.into());
    }
    fields
}
