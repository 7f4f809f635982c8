//! The ManifestWork, put together.

use std::sync::Arc;

use serde_json::{Value, json};

use super::dependencies::Dependency;
use super::inherited::Inherited;
use super::settings::Settings;
use crate::model::manifest::Manifest;
use crate::model::name::{RepoPath, WorkKey};
use crate::model::work::{DeletionPolicy, DesiredWork, NamedObject, WorkBody};

/// What a work is made of, after all levels are merged.
#[derive(Debug)]
pub struct WorkParts {
    /// The settings of all levels.
    pub settings: Settings,
    /// `spec.deleteOption`, with the orphaning rules of sidecars.
    pub delete_option: DeletionPolicy,
    /// `spec.manifestConfigs`.
    pub configs: Vec<Value>,
    /// `spec.workload.manifests`.
    pub manifests: Vec<Manifest>,
    /// The works that it depends on.
    pub depends_on: Arc<[Dependency]>,
}

impl WorkParts {
    /// The work of this key, rendered from this folder.
    pub fn into_work(
        self,
        key: WorkKey,
        path: &RepoPath,
        inherited: &Inherited<'_>,
    ) -> DesiredWork {
        let Self { settings, delete_option, configs, manifests, depends_on } = self;
        let depends_on = Dependency::keys(&depends_on, &key.cluster);
        let named = manifests.iter().map(|one| (&one.object, one.identity.resource.as_str()));
        let named = NamedObject::all(named);
        let objects = manifests.into_iter().map(|manifest| manifest.object).collect();
        let mut spec = json!({ "workload": { "manifests": [] } });
        // Moved: `json!` would copy them.
        spec["workload"]["manifests"] = Value::Array(objects);
        if let Value::Object(fields) = &mut spec {
            if settings.delete_option.is_some() || delete_option != DeletionPolicy::Foreground {
                let option = delete_option.to_value(settings.delete_option.as_ref());
                fields.insert("deleteOption".into(), option);
            }
            if let Some(executor) = settings.executor {
                fields.insert("executor".into(), executor);
            }
            if !configs.is_empty() {
                fields.insert("manifestConfigs".into(), configs.into());
            }
        }
        let (labels, annotations) = (settings.labels, settings.annotations);
        if let Some(delivery) = inherited.delivery {
            spec = delivery.spec(spec);
        }
        let (source, prune) = (inherited.source, settings.prune);
        let body = WorkBody::new(source, path, spec, labels, annotations, prune);
        let body = if inherited.keeps_works { body.compressed() } else { body };
        DesiredWork {
            key,
            path: path.clone(),
            body: Arc::new(body),
            delete_option,
            prune: settings.prune,
            suspend: settings.suspend,
            objects: named,
            depends_on,
            group_content: None,
            is_earlier: false,
        }
    }
}
