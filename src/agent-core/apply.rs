//! One manifest against what the cluster has: what to do next, by its update strategy.

use gitwork_api::work::{ServerSideApplyConfig, UpdateStrategy, UpdateStrategyType};
use serde_json::Value;

use super::identity::{FIELD_MANAGER, SPEC_HASH_ANNOTATION};
use super::ignore::{IgnoreError, PreparedManifest, drop_null_creation_timestamps, ignore};
use super::object::{Object, at};
use super::owner::{for_create, owner_patch};
use super::update::{Update, UpdateError, prepare_create, update};

/// What is known of the live object.
#[derive(Debug, Clone, Copy)]
pub enum LiveObject<'a> {
    /// It was not there when last heard of; nobody has looked just now.
    Unseen,
    /// It is not there.
    Absent,
    /// The object as the API server has it.
    Found(&'a Object),
}

/// The next thing to do for one manifest.
#[derive(Debug, Clone, PartialEq)]
pub enum ApplyStep {
    /// Read the live object first.
    Read,
    /// It is as it should be; read it only for the status.
    UpToDate,
    /// POST; if it exists after all, read it and decide again.
    Create(Object),
    /// PUT, bound to the version that was read.
    Replace(Object),
    /// DELETE, then POST.
    Recreate(Object),
    /// Merge patch of the owner references, bound to the version that was read.
    PatchOwner(Value),
    /// Server-side apply. Owner references are no part of it: they follow by a patch.
    Apply {
        /// What to send: the manifest, or the part of it that is not ignored.
        object: Object,
        /// `work-agent`, or a name with that prefix from `serverSideApply.fieldManager`.
        field_manager: String,
        /// Whether to take fields from other field managers (`serverSideApply.force`).
        force: bool,
    },
}

/// Why there is no next step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// A path of `serverSideApply.ignoreFields` cannot be removed.
    #[error(transparent)]
    Ignore(#[from] IgnoreError),
    /// The strategy `Update` cannot apply the manifest.
    #[error(transparent)]
    Unsupported(#[from] UpdateError),
    /// The manifest has managed fields, which server-side apply rejects.
    #[error("metadata.managedFields must be nil; remove it from the manifest")]
    ManagedFields,
}

/// A manifest with all that decides how it is applied.
#[derive(Debug, Clone)]
pub struct DesiredObject<'a> {
    /// The manifest, with a name and without a uid.
    pub manifest: &'a Object,
    /// From `spec.manifestConfigs`; `None`: `Update`.
    pub strategy: Option<&'a UpdateStrategy>,
    /// [`super::owner::Owner::reference`].
    pub owner: &'a Value,
    /// See [`update`].
    pub content_unchanged: bool,
}

/// Whether the strategy never writes the object.
pub fn is_read_only(strategy: Option<&UpdateStrategy>) -> bool {
    strategy.is_some_and(|strategy| strategy.type_ == UpdateStrategyType::ReadOnly)
}

/// Decides the next step.
pub fn next_step(wanted: &DesiredObject, live: LiveObject) -> Result<ApplyStep, StepError> {
    match wanted.strategy.map(|strategy| &strategy.type_) {
        Some(UpdateStrategyType::ReadOnly) => Ok(ApplyStep::UpToDate),
        Some(UpdateStrategyType::CreateOnly) => Ok(match live {
            LiveObject::Unseen | LiveObject::Absent => {
                ApplyStep::Create(for_create(wanted.manifest, wanted.owner))
            }
            LiveObject::Found(live) => owned(live, wanted.owner),
        }),
        Some(UpdateStrategyType::ServerSideApply) => server_side(wanted, live),
        None | Some(UpdateStrategyType::Update | UpdateStrategyType::Other(_)) => match live {
            LiveObject::Unseen | LiveObject::Absent => {
                Ok(ApplyStep::Create(for_create(&prepare_create(wanted.manifest), wanted.owner)))
            }
            LiveObject::Found(live) => in_place(wanted, live),
        },
    }
}

fn owned(live: &Object, owner: &Value) -> ApplyStep {
    owner_patch(live, owner).map_or(ApplyStep::UpToDate, ApplyStep::PatchOwner)
}

fn in_place(wanted: &DesiredObject, live: &Object) -> Result<ApplyStep, StepError> {
    Ok(match update(wanted.manifest, live, wanted.owner, wanted.content_unchanged) {
        Update::Nothing => ApplyStep::UpToDate,
        Update::Replace(object) => ApplyStep::Replace(object),
        Update::Recreate => {
            ApplyStep::Recreate(for_create(&prepare_create(wanted.manifest), wanted.owner))
        }
        Update::Unsupported(error) => return Err(error.into()),
    })
}

fn server_side(wanted: &DesiredObject, live: LiveObject) -> Result<ApplyStep, StepError> {
    if at(wanted.manifest, &["metadata", "managedFields"]).is_some() {
        return Err(StepError::ManagedFields);
    }
    let options = wanted.strategy.and_then(|strategy| strategy.server_side_apply.as_ref());
    let mut manifest = wanted.manifest.clone();
    drop_null_creation_timestamps(&mut manifest);
    let Some(rules) = options.map(|o| &o.ignore_fields).filter(|rules| !rules.is_empty()) else {
        return Ok(match live {
            LiveObject::Found(live) if wanted.content_unchanged => owned(live, wanted.owner),
            _ => apply(manifest, options),
        });
    };
    let PreparedManifest { original, reduced, hash } = ignore(&manifest, rules)?;
    Ok(match live {
        // What is sent depends on whether the object is there.
        LiveObject::Unseen => ApplyStep::Read,
        LiveObject::Absent => apply(original, options),
        LiveObject::Found(live) => {
            let applied = at(live, &["metadata", "annotations", SPEC_HASH_ANNOTATION]);
            if applied.and_then(Value::as_str) == Some(&hash) {
                owned(live, wanted.owner)
            } else {
                apply(reduced, options)
            }
        }
    })
}

fn apply(object: Object, options: Option<&ServerSideApplyConfig>) -> ApplyStep {
    let field_manager = options
        .and_then(|options| options.field_manager.as_deref())
        .filter(|name| !name.is_empty())
        .unwrap_or(FIELD_MANAGER)
        .to_owned();
    ApplyStep::Apply {
        object,
        field_manager,
        force: options.and_then(|options| options.force).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::object::tests::object;
    use super::super::owner::Owner;
    use super::*;

    fn strategy(value: Value) -> UpdateStrategy {
        serde_json::from_value(value).unwrap()
    }

    fn step(strategy: &UpdateStrategy, live: LiveObject) -> Result<ApplyStep, StepError> {
        let manifest =
            object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
            "data": {"x": "1", "y": "1"}}));
        let owner = Owner { name: "hash-web".into(), uid: "u1".into() }.reference(true);
        next_step(
            &DesiredObject {
                manifest: &manifest,
                strategy: Some(strategy),
                owner: &owner,
                content_unchanged: false,
            },
            live,
        )
    }

    #[test]
    fn create_only_never_changes_content() {
        let create_only = strategy(json!({"type": "CreateOnly"}));
        assert!(matches!(step(&create_only, LiveObject::Absent), Ok(ApplyStep::Create(_))));
        let live = object(json!({"metadata": {"name": "a", "resourceVersion": "1", "uid": "2"},
                "data": {"x": "2"}}));
        let Ok(ApplyStep::PatchOwner(patch)) = step(&create_only, LiveObject::Found(&live)) else {
            panic!()
        };
        assert_eq!(patch["metadata"]["resourceVersion"], "1");
        assert_eq!(patch["metadata"]["ownerReferences"][0]["uid"], "u1");
        let mut owned = live;
        owned.insert("metadata".into(), patch["metadata"].clone());
        assert_eq!(step(&create_only, LiveObject::Found(&owned)), Ok(ApplyStep::UpToDate));
    }

    #[test]
    fn read_only_does_nothing() {
        let read_only = strategy(json!({"type": "ReadOnly"}));
        assert!(is_read_only(Some(&read_only)));
        for live in [LiveObject::Unseen, LiveObject::Absent] {
            assert_eq!(step(&read_only, live), Ok(ApplyStep::UpToDate));
        }
    }

    #[test]
    fn server_side_apply_carries_no_owner() {
        let options = json!({"type": "ServerSideApply",
            "serverSideApply": {"force": true, "fieldManager": "work-agent-x"}});
        let Ok(ApplyStep::Apply { object, field_manager, force }) =
            step(&strategy(options), LiveObject::Unseen)
        else {
            panic!()
        };
        assert_eq!((field_manager.as_str(), force), ("work-agent-x", true));
        assert_eq!(object["metadata"], json!({"name": "a"}));
    }

    #[test]
    fn ignored_fields_are_sent_at_creation_and_then_left_alone() {
        let options = strategy(json!({"type": "ServerSideApply", "serverSideApply":
            {"ignoreFields": [{"condition": "OnSpokePresent", "jsonPaths": [".data.y"]}]}}));
        assert_eq!(step(&options, LiveObject::Unseen), Ok(ApplyStep::Read));
        let Ok(ApplyStep::Apply { object: created, .. }) = step(&options, LiveObject::Absent)
        else {
            panic!()
        };
        assert_eq!(created["data"], json!({"x": "1", "y": "1"}));
        let hash = created["metadata"]["annotations"][SPEC_HASH_ANNOTATION].clone();
        let drifted = object(json!({"metadata": {"annotations": {SPEC_HASH_ANNOTATION: hash}},
                "data": {"x": "drift"}}));
        assert!(matches!(
            step(&options, LiveObject::Found(&drifted)),
            Ok(ApplyStep::PatchOwner(_))
        ));
        let older = object(json!({"metadata": {}, "data": {}}));
        let Ok(ApplyStep::Apply { object: reduced, .. }) =
            step(&options, LiveObject::Found(&older))
        else {
            panic!()
        };
        assert_eq!(reduced["data"], json!({"x": "1"}));
    }

    #[test]
    fn managed_fields_are_refused() {
        let manifest = object(json!({"metadata": {"managedFields": []}}));
        let options = strategy(json!({"type": "ServerSideApply"}));
        let wanted = DesiredObject {
            manifest: &manifest,
            strategy: Some(&options),
            owner: &Value::Null,
            content_unchanged: false,
        };
        assert_eq!(next_step(&wanted, LiveObject::Absent), Err(StepError::ManagedFields));
    }
}
