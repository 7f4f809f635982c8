//! Git's last word on a work: the folder as it last stood, under what the commit that removed it says.

use gitwork::core::departed::{Removal, brought, last_stood};
use gitwork::core::desired::Renderer;
use gitwork::core::name::{ClusterName, ObjectId, RepoPath, WorkKey, WorkName};
use gitwork::core::plan::LastStood;
use gitwork::core::snapshot::{ObjectError, Snapshot};
use gitwork::core::work::DeleteOption;

use crate::memory::{MemoryObjects, files, source};

const CONFIG_MAP: (&str, &str) = (
    "clusters/a/web/x.yaml",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n",
);

/// What is told of `a/web`, which the second state no longer has.
fn told(before: &[(&str, &str)], after: Option<&[(&str, &str)]>) -> Option<LastStood> {
    told_of(&mut MemoryObjects::default(), before, after).unwrap()
}

fn told_of(
    objects: &mut MemoryObjects,
    before: &[(&str, &str)],
    after: Option<&[(&str, &str)]>,
) -> Result<Option<LastStood>, ObjectError> {
    let before = objects.add(&files(before));
    let after = after.map(|after| objects.add(&files(after)));
    let key = WorkKey {
        cluster: ClusterName::parse("a").unwrap(),
        work: WorkName::parse("web").unwrap(),
    };
    let folder = RepoPath::parse("clusters/a/web").unwrap();
    let removed_by = ObjectId([7; 20]);
    let (key, folder, objects) = (&key, &folder, &*objects);
    last_stood(&source(), &Removal { key, folder, removed_by, before, after, objects })
}

#[test]
fn the_works_own_word_counts_as_it_last_was_and_its_surroundings_as_they_are_now() {
    let own = ("clusters/a/web/work.yaml", "deleteOption: {propagationPolicy: Orphan}\n");
    let default = "defaults: {deleteOption: {propagationPolicy: Orphan}, prune: false}\n";
    let neighbour = ("clusters/a/other/x.yaml", "{}");
    for (before, after, orphan, prune) in [
        (vec![CONFIG_MAP], Some(vec![]), false, true),
        (vec![CONFIG_MAP, own], Some(vec![neighbour]), true, true),
        (vec![CONFIG_MAP], Some(vec![("gitwork.yaml", default)]), true, false),
        (vec![CONFIG_MAP], Some(vec![("clusters/a/cluster.yaml", default)]), true, false),
        // A file that goes together with the work does not change its last word.
        (vec![CONFIG_MAP, ("clusters/a/cluster.yaml", default)], Some(vec![]), true, false),
        (vec![CONFIG_MAP, ("gitwork.yaml", default)], None, true, false),
        (
            vec![CONFIG_MAP, ("gitwork.yaml", default)],
            Some(vec![("gitwork.yaml", "{}")]),
            false,
            true,
        ),
    ] {
        let last = told(&before, after.as_deref()).unwrap();
        let is_orphan = last.delete_option == DeleteOption::Orphan;
        assert_eq!((is_orphan, last.prune), (orphan, prune), "{before:?} {after:?}");
        assert_eq!(last.removed_by, Some(ObjectId([7; 20])));
    }
}

#[test]
fn an_orphaning_rule_has_the_plural_that_a_crd_elsewhere_tells() {
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: \
               octopodes.sea.example}\nspec:\n  group: sea.example\n  scope: Namespaced\n  names: {kind: Octopus, plural: \
               octopodes, singular: octopus}\n  versions: [{name: v1, served: true, storage: true, schema: \
               {openAPIV3Schema: {type: object}}}]\n";
    let object = (
        "clusters/a/web/x.yaml",
        "apiVersion: sea.example/v1\nkind: Octopus\nmetadata: {name: o, namespace: default}\n",
    );
    let sidecar = ("clusters/a/web/x.config.yaml", "orphan: true\n");
    let elsewhere = ("clusters/b/crds/crd.yaml", crd);
    let last = told(&[object, sidecar, elsewhere], Some(&[elsewhere])).unwrap();
    let DeleteOption::SelectivelyOrphan(stay) = last.delete_option else {
        panic!("{:?}", last.delete_option)
    };
    assert_eq!(stay.iter().map(|rule| rule.resource.as_str()).collect::<Vec<_>>(), ["octopodes"]);
}

#[test]
fn the_budgets_are_those_before_the_removal() {
    let strict = ("gitwork.yaml", "budgets: {works: 3}\n");
    let loose = ("gitwork.yaml", "budgets: {works: 900}\n");
    let last = told(&[CONFIG_MAP, strict], Some(&[loose])).unwrap();
    assert_eq!(last.budgets.unwrap().works, Some(3));
    let last = told(&[CONFIG_MAP, ("gitwork.yaml", "budgets: [")], None);
    assert_eq!(last, None, "a file that cannot be read freezes the source: the hub's word stands");
}

#[test]
fn what_a_commit_brings_is_what_the_one_before_had_no_folder_for() {
    let text = |name: &str| CONFIG_MAP.1.replace("name: a", &format!("name: {name}"));
    let (kept, mended, new, file, far) =
        (text("kept"), text("mended"), text("new"), text("file"), text("far"));
    let mut objects = MemoryObjects::default();
    let now = objects.add(&files(&[
        ("clusters/a/kept/x.yaml", &kept),
        ("clusters/a/mended/x.yaml", &mended),
        ("clusters/a/new/x.yaml", &new),
        ("clusters/a/was-a-file/x.yaml", &file),
        ("clusters/b/web/x.yaml", &far),
    ]));
    let snapshot = Snapshot { commit: None, root: now, objects: &objects };
    let desired = Renderer::new(source()).render(&snapshot).unwrap();
    let told = |before: &[(&str, &str)]| {
        let mut objects = objects.clone();
        let before = objects.add(&files(before));
        let brought = brought(&desired, before, &objects).unwrap();
        brought.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let before = [
        ("clusters/a/kept/x.yaml", "{}"),
        ("clusters/a/mended/x.yaml", "a: ["),
        ("clusters/a/was-a-file", ""),
        CONFIG_MAP,
    ];
    assert_eq!(told(&before), ["a/new", "a/was-a-file", "b/web"]);
    assert_eq!(told(&[("README.md", "")]).len(), 5);
}

#[test]
fn a_work_that_was_not_readable_has_no_last_word_and_a_damaged_store_is_an_error() {
    assert_eq!(told(&[("clusters/a/web/x.yaml", "a: [")], Some(&[])), None);
    assert_eq!(told(&[("clusters/a/other/x.yaml", "{}")], Some(&[])), None);
    let mut objects = MemoryObjects::default();
    let web = objects.add(&files(&[("x.yaml", CONFIG_MAP.1)]));
    told_of(&mut objects, &[CONFIG_MAP], Some(&[])).unwrap().unwrap();
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
    let removal =
        Removal { key: &key, folder: &folder, removed_by, before, after: None, objects: &objects };
    assert_eq!(last_stood(&source(), &removal).unwrap_err(), ObjectError::Missing(web));
}
