//! The number of threads changes nothing of the result.

use crate::model::diagnostic::Code;
use crate::model::name::{ObjectId, SourceId};
use crate::model::snapshot::{ObjectError, Snapshot};
use crate::render::desired::Desired;
use crate::render::renderer::Renderer;
use crate::render::test_repository::{TestFile, TestFiles, TestRepository, files};

fn map(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: x, name: {name}}}\n\
         data: {{value: \"{value}\"}}\n"
    )
}

/// Forty clusters with works of their own and of groups, equal ones, variables and problems.
fn fleet() -> TestFiles {
    let mut all = files(&[
        ("groups/all/group.yaml", "clusters: [\"edge-*\"]\n"),
        ("groups/all/agent/work.yaml", "substitute: true\n"),
        ("groups/all/agent/x.yaml", &map("agent", "${cluster.name}")),
        ("groups/all/zone/work.yaml", "substitute: true\n"),
        ("groups/all/zone/x.yaml", &map("zone", "${ZONE:-none}")),
        ("groups/all/same/x.yaml", &map("same", "one")),
    ]);
    for cluster in 0..40 {
        let mut add = |file: &str, text: String| {
            all.insert(format!("clusters/edge-{cluster:02}/{file}"), TestFile::Text(text));
        };
        add("cluster.yaml", format!("values: {{ZONE: {}}}\n", ["a", "b", "c"][cluster % 3]));
        add("copy/x.yaml", map("copy", "the same everywhere"));
        for work in 0..5 {
            add(&format!("own-{work}/x.yaml"), map(&format!("own-{work}"), &cluster.to_string()));
        }
        match cluster % 8 {
            1 => add("own-1/y.yaml", "broken: [".into()),
            2 => add("own-1/y.yaml", map("own-2", "twice")),
            3 => {
                add("zone/work.yaml", "replaces: group\n".into());
                add("zone/x.yaml", map("zone", "own"));
            }
            _ => {}
        }
    }
    all
}

/// What so many threads make of two states, one after the other.
fn rendered(
    repository: &TestRepository,
    roots: [ObjectId; 2],
    (threads, content_bytes_max): (usize, usize),
) -> Result<[Desired; 2], ObjectError> {
    let source = SourceId::parse("fleet").unwrap();
    let mut renderer = Renderer::new(source).with_content_bytes_max(content_bytes_max);
    renderer.set_threads(threads);
    let [first, second] =
        roots.map(|root| renderer.render(&Snapshot { commit: None, root, objects: repository }));
    Ok([first?, second?])
}

#[test]
fn number_of_threads_changes_nothing() {
    let mut repository = TestRepository::default();
    let mut files = fleet();
    let first = repository.add(&files);
    files.insert("groups/all/same/x.yaml".into(), TestFile::Text(map("same", "two")));
    files.insert("clusters/edge-07/own-3/x.yaml".into(), TestFile::Text(map("own-3", "new")));
    let roots = [first, repository.add(&files)];
    // The second bound is reached in the middle.
    for content_bytes_max in [usize::MAX, 150_000] {
        let one = rendered(&repository, roots, (1, content_bytes_max)).unwrap();
        let is_cut = one[0].diagnostics.iter().any(|found| found.code == Code::TooManyFiles);
        assert_eq!(is_cut, content_bytes_max < usize::MAX);
        assert!(is_cut || one[0].works.len() > 200, "{}", one[0].works.len());
        for threads in [2, 3, 8, 100] {
            let several = rendered(&repository, roots, (threads, content_bytes_max)).unwrap();
            assert_eq!(format!("{several:?}"), format!("{one:?}"), "{threads} threads");
        }
    }
    // An object that cannot be read is an error, whoever reads it.
    repository.lose_blob(&map("own-4", "20"));
    let one = rendered(&repository, roots, (1, usize::MAX)).unwrap_err();
    for threads in [2, 8] {
        assert_eq!(rendered(&repository, roots, (threads, usize::MAX)).unwrap_err(), one);
    }
}

#[test]
fn equal_folders_are_read_once_by_several_threads() {
    let mut repository = TestRepository::default();
    let root = repository.add(&fleet());
    for threads in [1, 4] {
        repository.forget_manifest_reads();
        rendered(&repository, [root, root], (threads, usize::MAX)).unwrap();
        // `agent` differs for each cluster, `zone` has three values, `copy` and `same` one.
        let own = 40 * 5 + 40;
        let reads = repository.manifest_reads();
        assert!(reads >= own && reads < own + 80, "{reads} reads by {threads} threads");
    }
}

/// Works whose texts are dropped have the same problems, and reach the bound of the source at the
/// same work.
#[test]
fn dropped_texts_count_as_kept_ones() {
    let mut repository = TestRepository::default();
    let root = repository.add(&fleet());
    let snapshot = Snapshot { commit: None, root, objects: &repository };
    for content_bytes_max in [usize::MAX, 100_000, 150_000, 170_000] {
        let renderer = || {
            let source = SourceId::parse("fleet").unwrap();
            Renderer::new(source).with_content_bytes_max(content_bytes_max)
        };
        let kept = renderer().render(&snapshot).unwrap();
        let mut without_texts = renderer();
        without_texts.drop_texts();
        let dropped = without_texts.render(&snapshot).unwrap();
        assert_eq!(dropped.diagnostics, kept.diagnostics);
        assert!(dropped.works.keys().eq(kept.works.keys()));
        let mut texts = dropped.works.values().map(|work| work.body.spec.value());
        assert!(texts.all(|text| text.is_null()));
    }
}
