//! The final `deleteOption` of a removed work: its last folder under the settings of the removing
//! commit.

use gitwork_core::model::name::{ClusterName, ObjectId, RepoPath, WorkKey, WorkName};
use gitwork_core::model::snapshot::ObjectError;
use gitwork_core::model::work::DeletionPolicy;
use gitwork_core::plan::LastKnownState;
use gitwork_core::plan::folder_removal::{FolderRemoval, last_known_state};

use crate::memory_repository::{MemoryObjects, files, source};

const CONFIG_MAP: (&str, &str) = (
    "clusters/a/web/x.yaml",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n",
);

/// The last known state of `a/web`, which the second tree no longer has.
fn last_state(before: &[(&str, &str)], after: Option<&[(&str, &str)]>) -> Option<LastKnownState> {
    last_state_of(&mut MemoryObjects::default(), before, after).unwrap()
}

fn last_state_of(
    objects: &mut MemoryObjects,
    before: &[(&str, &str)],
    after: Option<&[(&str, &str)]>,
) -> Result<Option<LastKnownState>, ObjectError> {
    let before = objects.add(&files(before));
    let after = after.map(|after| objects.add(&files(after)));
    let key = WorkKey {
        cluster: ClusterName::parse("a").unwrap(),
        work: WorkName::parse("web").unwrap(),
    };
    let folder = RepoPath::parse("clusters/a/web").unwrap();
    let removed_by = ObjectId([7; 20]);
    let (key, folder, objects) = (&key, &folder, &*objects);
    last_known_state(
        &source(),
        &FolderRemoval { key, folder, removed_by, before, after, objects, facts: None },
    )
}

/// Other removals are `tests/cases/removal-*`.
#[test]
fn removal_of_the_source_path_keeps_the_last_defaults() {
    let default = "defaults: {deleteOption: {propagationPolicy: Orphan}, prune: false}\n";
    let last = last_state(&[CONFIG_MAP, ("gitwork.yaml", default)], None).unwrap();
    assert_eq!((last.delete_option, last.prune), (DeletionPolicy::Orphan, false));
    assert_eq!(last.removed_by, Some(ObjectId([7; 20])));
}

#[test]
fn unreadable_source_file_leaves_no_last_state() {
    let last = last_state(&[CONFIG_MAP, ("gitwork.yaml", "budgets: [")], None);
    assert_eq!(last, None, "the file freezes the source; the hub's deleteOption is used");
}

#[test]
fn unreadable_work_has_no_final_delete_option_and_a_damaged_store_fails() {
    assert_eq!(last_state(&[("clusters/a/web/x.yaml", "a: [")], Some(&[])), None);
    assert_eq!(last_state(&[("clusters/a/other/x.yaml", "{}")], Some(&[])), None);
    let mut objects = MemoryObjects::default();
    let web = objects.add(&files(&[("x.yaml", CONFIG_MAP.1)]));
    last_state_of(&mut objects, &[CONFIG_MAP], Some(&[])).unwrap().unwrap();
    let before = objects.add(&files(&[CONFIG_MAP]));
    objects.lose(web);
    let (key, folder) = (
        WorkKey {
            cluster: ClusterName::parse("a").unwrap(),
            work: WorkName::parse("web").unwrap(),
        },
        RepoPath::parse("clusters/a/web").unwrap(),
    );
    let removed_by = ObjectId([7; 20]);
    let removal = FolderRemoval {
        key: &key,
        folder: &folder,
        removed_by,
        before,
        after: None,
        objects: &objects,
        facts: None,
    };
    assert_eq!(last_known_state(&source(), &removal).unwrap_err(), ObjectError::Missing(web));
}
