//! Rendering with workers: the same result, and no large folder before its turn.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::ahead::Workers;
use super::*;
use crate::render::test_repository::{TestFiles, TestRepository, files};

/// Runs the last task first, on two threads, and counts the tasks.
#[derive(Debug, Default)]
struct Reversed(AtomicUsize);

impl Workers for Reversed {
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.0.fetch_add(tasks, Ordering::Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..tasks).rev().step_by(2).for_each(task));
            (0..tasks).rev().skip(1).step_by(2).for_each(task);
        });
    }
}

fn renderer() -> Renderer {
    Renderer::new(SourceId::parse("fleet").unwrap())
}

fn config_map(name: &str, value: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: x}}, data: \
         {{v: '{value}'}}}}"
    )
}

/// All that a pass gives, as text.
fn rendered(renderer: &mut Renderer, files: &TestFiles) -> String {
    let mut repository = TestRepository::default();
    let root = repository.add(files);
    let found = renderer.render(&Snapshot { commit: None, root, objects: &repository }).unwrap();
    format!("{found:#?}")
}

/// Several commits, each rendered after the one before.
fn check(commits: &[TestFiles]) -> Result<usize, TestCaseError> {
    let workers = Arc::new(Reversed::default());
    let mut with = renderer().with_workers(workers.clone());
    let mut without = renderer();
    for files in commits {
        let [with, without] = [&mut with, &mut without].map(|one| rendered(one, files));
        prop_assert_eq!(with, without);
    }
    Ok(workers.0.load(Ordering::Relaxed))
}

#[derive(Debug, Clone)]
struct Edit {
    cluster: u8,
    work: u8,
    content: u8,
}

fn apply(edit: &Edit, all: &mut TestFiles) {
    let Edit { cluster, work, content } = edit;
    let at = format!("clusters/c{cluster}/w{work}");
    let text = match content {
        0..4 => config_map("shared", &content.to_string()),
        4..8 => config_map(&format!("w{work}"), &format!("{cluster}-{content}")),
        8 => "broken: [".to_owned(),
        9 => "{apiVersion: x.io/v1, kind: Widget, metadata: {name: a, namespace: x}}".to_owned(),
        10 => "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: \
               {name: widgetz.x.io}, spec: {group: x.io, scope: Namespaced, names: {kind: Widget, \
               plural: widgetz}}}"
            .to_owned(),
        _ => {
            let group = "{clusters: [c0, c1, c2], values: {}}";
            all.insert("groups/g/group.yaml".to_owned(), group.into());
            let text = config_map("group", "of ${cluster.name}");
            all.insert(format!("groups/g/v{work}/x.yaml"), text.as_str().into());
            all.insert(format!("groups/g/v{work}/work.yaml"), "substitute: true".into());
            return;
        }
    };
    all.insert(format!("{at}/x.yaml"), text.as_str().into());
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit = (0..3u8, 0..4u8, 0..12u8);
    let edit = edit.prop_map(|(cluster, work, content)| Edit { cluster, work, content });
    prop::collection::vec(edit, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn workers_change_nothing(commits in prop::collection::vec(edits(), 1..4)) {
        let mut files = files(&[("clusters/c0/base/x.yaml", &config_map("base", "0"))]);
        let mut all = Vec::new();
        for commit in &commits {
            commit.iter().for_each(|edit| apply(edit, &mut files));
            all.push(files.clone());
        }
        prop_assert!(check(&all)? > 0);
    }
}

/// The files that were read for the folders of these many bytes, each in its cluster.
fn tasks(bytes: &[usize]) -> usize {
    let mut all = TestFiles::new();
    for (number, bytes) in bytes.iter().enumerate() {
        let text = config_map("large", &format!("{number}{}", "x".repeat(*bytes)));
        all.insert(format!("clusters/c{number:03}/web/x.yaml"), text.as_str().into());
    }
    check(&[all]).unwrap()
}

#[test]
fn folders_of_any_size_and_number_are_rendered_once() {
    // The second one is left to its turn, and so is what exceeds the bytes of one go.
    assert_eq!(tasks(&[10, 400_000, 10]), 3);
    assert_eq!(tasks(&[200_000; 30]), 30);
    assert_eq!(tasks(&[10; 100]), 100, "several goes");
}

#[test]
fn equal_folders_are_rendered_once() {
    let map = config_map("web", "1");
    let all: TestFiles =
        (0..50).map(|n| (format!("clusters/c{n}/web/x.yaml"), map.as_str().into())).collect();
    let before: BTreeMap<_, _> = all.clone();
    assert_eq!(check(&[all, before]).unwrap(), 1);
}
