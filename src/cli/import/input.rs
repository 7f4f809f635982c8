//! What to import: ManifestWorks of a hub, or the objects in files.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::cleaned_object::{cleaned, made_by, object_name};
use super::foreign_work::{ForeignWork, NotImported};
use super::import_error::ImportError;
use crate::error::CommandError;
use crate::hub::{connect, runtime};
use crate::limits;
use crate::output;
use crate::source_args::{Filter, FilterArgs, HubArgs};
use gitwork_core::model::diagnostic::{Diagnostic, Scope};
use gitwork_core::model::name::{ClusterName, RepoPath, WorkKey, WorkName};
use gitwork_core::text::style::count;
use gitwork_core::text::yaml;
use gitwork_hub::fleet;
use gitwork_hub::retry_transient;

/// What to import.
#[derive(Debug, Default)]
pub(super) struct Input {
    pub works: Vec<ForeignWork>,
    /// Works and objects that others own, each with the reason.
    pub skipped: Vec<String>,
    /// Invalid works, each with the reason.
    pub refused: Vec<String>,
}

impl Input {
    /// The selected ManifestWorks of a hub.
    pub fn of_hub(
        hub: &HubArgs,
        filter_args: &FilterArgs,
        filter: &Filter,
    ) -> Result<Self, CommandError> {
        let cluster = filter_args.one_cluster();
        let listed = runtime()?.block_on(async {
            let client = connect(hub).await?;
            let list = |cluster| {
                let client = &client;
                retry_transient(move || list_selected(client, cluster, filter))
            };
            match list(cluster.as_ref()).await? {
                // All names, of which one may have been meant.
                listed if listed.is_empty() && cluster.is_some() => {
                    Ok::<_, CommandError>(list(None).await.unwrap_or_default())
                }
                listed => Ok(listed),
            }
        })?;
        let (mut input, mut others) = (Self::default(), Vec::new());
        for (key, object) in listed {
            match object {
                Some(object) => input.add_work(object),
                None => others.push(key),
            }
        }
        let is_empty = input.works.is_empty() && input.skipped.is_empty();
        if is_empty && input.refused.is_empty() {
            if let Some(error) = filter_args.no_match(filter, || others.iter()) {
                return Err(error);
            }
            output::note("the hub has no ManifestWorks");
        }
        Ok(input)
    }

    /// The ManifestWorks in files, and the other objects as the work `into`.
    pub fn of_files(
        files: &[PathBuf],
        into: Option<&WorkKey>,
        filter: &Filter,
    ) -> Result<Self, CommandError> {
        let (mut input, mut objects) = (Self::default(), Vec::new());
        for (file, object) in read_all_objects(files)? {
            if is_manifest_work(&object) {
                if work_key(&object).is_none_or(|key| filter.matches(&key)) {
                    input.add_work(object);
                }
            } else if let Some(owner) = made_by(&object) {
                input.skipped.push(format!("{}: {owner}", object_name(&object)));
            } else {
                objects.push((file, cleaned(object)));
            }
        }
        input.add_objects(objects, into)?;
        Ok(input)
    }

    fn add_work(&mut self, object: Value) {
        let name = match work_key(&object) {
            Some(key) => format!("{key}"),
            None => object_name(&object),
        };
        match ForeignWork::of_manifest_work(object) {
            Ok(work) => self.works.push(work),
            Err(why) => self.leave(&name, &why),
        }
    }

    fn leave(&mut self, name: &str, why: &NotImported) {
        match why.is_error() {
            true => self.refused.push(format!("{name} is not imported: {why}")),
            false => self.skipped.push(format!("{name}: {why}")),
        }
    }

    /// Adds the objects that are no ManifestWorks.
    fn add_objects(
        &mut self,
        objects: Vec<(&PathBuf, Value)>,
        into: Option<&WorkKey>,
    ) -> Result<(), CommandError> {
        let Some((file, first)) = objects.first() else { return Ok(()) };
        let Some(key) = into else {
            let number = count(objects.len(), "object");
            return Err(CommandError::usage(format!(
                "{}: {number} of the input are no ManifestWorks, such as {}; name the work for \
                 them with --into CLUSTER/WORK",
                file.display(),
                object_name(first)
            )));
        };
        let objects = objects.into_iter().map(|(_, object)| object).collect();
        self.works.push(ForeignWork::of_objects(key.clone(), objects));
        Ok(())
    }
}

/// The names of the works on a hub, with the selected works themselves.
async fn list_selected(
    client: &kube::Client,
    cluster: Option<&ClusterName>,
    filter: &Filter,
) -> Result<Vec<(WorkKey, Option<Value>)>, ImportError> {
    let bytes = Cell::new(0);
    let read = |object: Value| {
        let key = work_key(&object)?;
        if !filter.matches(&key) {
            return Some((key, None));
        }
        bytes.set(bytes.get() + object.to_string().len() as u64);
        // Past the bound nothing more is kept.
        Some((key, (bytes.get() <= limits::IMPORT_BYTES_MAX).then_some(object)))
    };
    let listed = fleet::manifest_works(client, cluster, read).await?;
    if bytes.get() > limits::IMPORT_BYTES_MAX {
        return Err(ImportError::TooLarge { limit: limits::IMPORT_BYTES_MAX });
    }
    Ok(listed.into_iter().flatten().collect())
}

pub(crate) fn is_manifest_work(object: &Value) -> bool {
    let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default();
    text("kind") == "ManifestWork"
        && text("apiVersion").starts_with("work.open-cluster-management.io/")
}

/// The name of a ManifestWork, if it is valid.
pub(crate) fn work_key(object: &Value) -> Option<WorkKey> {
    let text = |pointer| object.pointer(pointer).and_then(Value::as_str);
    let cluster = ClusterName::parse(text("/metadata/namespace")?).ok()?;
    Some(WorkKey { cluster, work: WorkName::parse(text("/metadata/name")?).ok()? })
}

/// The objects of files, each with its file.
pub(crate) fn read_all_objects(files: &[PathBuf]) -> Result<Vec<(&PathBuf, Value)>, CommandError> {
    let mut objects = Vec::new();
    let mut bytes_left = limits::IMPORT_BYTES_MAX;
    for file in files {
        let found = read_objects(file, &mut bytes_left)?;
        objects.extend(found.into_iter().map(|object| (file, object)));
        if objects.len() > limits::IMPORT_OBJECTS_MAX {
            let limit = limits::IMPORT_OBJECTS_MAX;
            return Err(ImportError::TooMany { what: "objects", limit }.into());
        }
    }
    Ok(objects)
}

/// The objects of a file; those of stdin for `-`. Lists are split.
fn read_objects(path: &Path, bytes_left: &mut u64) -> Result<Vec<Value>, CommandError> {
    let bytes = read_bytes(path, *bytes_left)?;
    *bytes_left = bytes_left
        .checked_sub(bytes.len() as u64)
        .ok_or(ImportError::TooLarge { limit: limits::IMPORT_BYTES_MAX })?;
    // The path is for messages only, and not one in a repository.
    let shown = RepoPath::root().join(&path.display().to_string());
    let read = yaml::read(&shown, &bytes, &Scope::Source);
    output::diagnostics(&read.diagnostics);
    if read.diagnostics.iter().any(Diagnostic::is_error) {
        return Err(ImportError::Invalid { path: path.to_owned() }.into());
    }
    Ok(read.documents.into_iter().flat_map(|document| items(document.value)).collect())
}

fn read_bytes(path: &Path, most: u64) -> Result<Vec<u8>, ImportError> {
    let failed = |source: io::Error| ImportError::Read { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let read = match path == Path::new("-") {
        true => io::stdin().lock().take(most + 1).read_to_end(&mut bytes),
        false => File::open(path).map_err(failed)?.take(most + 1).read_to_end(&mut bytes),
    };
    read.map(|_| bytes).map_err(failed)
}

/// The items of a list, or the object itself.
fn items(mut object: Value) -> Vec<Value> {
    let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let Some(item_kind) = kind.strip_suffix("List") else { return vec![object] };
    let all = match object.get_mut("items") {
        Some(Value::Array(items)) => std::mem::take(items),
        _ => return vec![object],
    };
    let with_kind = |mut item: Value| {
        // The items of a typed list may leave their type to the list.
        if !item_kind.is_empty()
            && let Value::Object(fields) = &mut item
            && !fields.contains_key("kind")
        {
            fields.insert("kind".to_owned(), item_kind.into());
            fields.insert("apiVersion".to_owned(), api_version.clone().into());
        }
        item
    };
    all.into_iter().map(with_kind).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_are_split_and_their_items_get_its_kind() {
        let item = json!({"metadata": {"name": "a"}});
        let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "items": [item]});
        let expected = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        assert_eq!(items(list), std::slice::from_ref(&expected));
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [expected, expected]});
        assert_eq!(items(list), [expected.clone(), expected.clone()]);
        // A custom kind may well end in "List".
        for other in [json!(null), json!({"a": 1})] {
            let custom = json!({"apiVersion": "x.io/v1", "kind": "PriceList", "items": other});
            assert_eq!(items(custom.clone()), [custom]);
        }
    }
}
