//! Two states of a repository side by side.

use std::collections::BTreeMap;
use std::sync::Arc;

use gitwork::core::desired::{Desired, Frozen};
use gitwork::core::name::{ClusterName, ObjectId, RepoPath, WorkKey, WorkName};
use gitwork::core::report::Style;
use gitwork::core::review::{Review, markdown, text};
use gitwork::core::work::{DeleteOption, DesiredWork, WorkBody};
use gitwork::limits;
use serde_json::{Value, json};

use crate::memory::{File, files, render, source};

fn map(name: &str, data: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: shop}}\ndata: {data}\n"
    )
}

fn deployment(image: &str, replicas: u32) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: shop}}\nspec:\n  replicas: {replicas}\n  selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    spec: {{containers: [{{name: web, image: \"{image}\"}}, {{name: log, image: \"log:1\"}}]}}\n"
    )
}

fn tree(pairs: &[(&str, &str)]) -> BTreeMap<String, File> {
    files(pairs)
}

/// A change with one of everything.
fn everything() -> (Desired, Desired) {
    let (a, b) = (map("a", "{x: one}"), map("b", "{}"));
    let web = deployment("web:1", 1);
    let base = tree(&[
        ("clusters/edge-1/web/web.yaml", &web),
        ("clusters/edge-1/web/a.yaml", &a),
        ("clusters/edge-1/web/old.yaml", &map("old", "{}")),
        ("clusters/edge-2/web/web.yaml", &web),
        ("clusters/edge-2/web/a.yaml", &a),
        ("clusters/edge-2/web/old.yaml", &map("old", "{}")),
        ("clusters/edge-1/same/b.yaml", &map("same", "{}")),
        ("clusters/edge-1/broken/b.yaml", &map("broken", "{}")),
        ("clusters/edge-1/gone/b.yaml", &b),
        ("clusters/edge-1/gone/c.yaml", &map("c", "{}")),
        ("clusters/edge-1/gone/b.config.yaml", "orphan: true\n"),
        ("clusters/edge-1/let-go/b.yaml", &map("let-go", "{}")),
        ("clusters/edge-1/let-go/work.yaml", "prune: false\n"),
        ("clusters/edge-1/labels/b.yaml", &map("labels", "{}")),
        ("clusters/edge-2/orphan/b.yaml", &map("o", "{}")),
        ("clusters/edge-2/orphan/work.yaml", "deleteOption: {propagationPolicy: Orphan}\n"),
        ("clusters/edge-2/pause/b.yaml", &map("pause", "{}")),
        ("clusters/edge-2/named/b.yaml", &map("named", "{}")),
        ("clusters/edge-3/still/b.yaml", &map("still", "{}")),
    ]);
    let web = deployment("web:2", 3);
    let head = tree(&[
        ("clusters/edge-1/web/web.yaml", &web),
        ("clusters/edge-1/web/a.yaml", &a),
        ("clusters/edge-1/web/new.yaml", &map("new", "{}")),
        ("clusters/edge-2/web/web.yaml", &web),
        ("clusters/edge-2/web/a.yaml", &a),
        ("clusters/edge-2/web/new.yaml", &map("new", "{}")),
        ("clusters/edge-1/same/b.yaml", &map("same", "{}")),
        ("clusters/edge-1/broken/b.yaml", "a: [\n"),
        ("clusters/edge-1/extra/c.yaml", &map("c", "{}")),
        ("clusters/edge-1/extra/work.yaml", "deleteOption: {propagationPolicy: Orphan}\n"),
        ("clusters/edge-1/labels/b.yaml", &map("labels", "{}")),
        ("clusters/edge-1/labels/work.yaml", "labels: {team: shop}\n"),
        ("clusters/edge-2/pause/b.yaml", &map("pause", "{x: y}")),
        ("clusters/edge-2/pause/work.yaml", "suspend: true\n"),
        ("clusters/edge-2/named/b.yaml", &map("named", "{}")),
        ("clusters/edge-2/named/work.yaml", "name: other\n"),
        ("clusters/edge-3/still/b.yaml", &map("still", "{}")),
    ]);
    (render(&base), render(&head))
}

#[test]
fn every_kind_of_change_is_told() {
    let (base, head) = everything();
    let review = Review::new(&base, &head);
    insta::assert_snapshot!("review_text", text(&review, Style::Plain));
    insta::assert_snapshot!("review_markdown", markdown(&review));
    insta::assert_snapshot!("review_json", review.json());
}

#[test]
fn equal_states_have_no_changes() {
    let (base, _) = everything();
    let review = Review::new(&base, &base.clone());
    assert!(review.is_empty());
    assert_eq!(text(&review, Style::Plain), "no changes; 11 unchanged\n");
    assert_eq!(review.counts.works_unchanged, base.works.len());
}

#[test]
fn an_unreadable_side_is_not_taken_for_an_empty_one() {
    let good = render(&tree(&[("clusters/a/web/x.yaml", &map("a", "{}"))]));
    let unreadable = render(&tree(&[("README.md", "")]));
    let review = Review::new(&good, &unreadable);
    assert!(review.is_empty() && review.source_frozen);
    assert_eq!((review.counts.works_frozen, review.counts.works_deleted), (1, 0));
    assert!(text(&review, Style::Plain).contains("The source cannot be read: every work stays"));
    let groups =
        render(&tree(&[("clusters/a/db/x.yaml", &map("b", "{}")), ("groups/x/y.yaml", "")]));
    let review = Review::new(&good, &groups);
    assert_eq!((review.counts.works_frozen, review.counts.works_added), (1, 1));
    let review = Review::new(&unreadable, &good);
    assert!(text(&review, Style::Plain).contains("can be read again, 1 object"), "{review:?}");
}

#[test]
fn a_read_only_object_stays_when_its_work_goes() {
    let base = render(&tree(&[
        ("clusters/a/web/x.yaml", &map("a", "{}")),
        ("clusters/a/web/x.config.yaml", "updateStrategy: {type: ReadOnly}\n"),
        ("clusters/a/other/y.yaml", &map("b", "{}")),
    ]));
    let head = render(&tree(&[("clusters/a/other/y.yaml", &map("b", "{}"))]));
    let shown = text(&Review::new(&base, &head), Style::Plain);
    assert!(shown.contains("- ConfigMap shop/a: stays on the cluster"), "{shown}");
}

#[test]
fn secrets_stay_secret() {
    let secret = |value: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: shop}}\nstringData: {{password: {value}}}\n"
        )
    };
    let base = render(&tree(&[("clusters/a/web/x.yaml", &secret("canary1"))]));
    let head = render(&tree(&[("clusters/a/web/x.yaml", &secret("canary2"))]));
    let review = Review::new(&base, &head);
    let all = [text(&review, Style::Plain), markdown(&review), review.json()].concat();
    assert!(all.contains("stringData.password") && !all.contains("canary"), "{all}");
}

#[test]
fn nothing_of_the_repository_gets_out_of_its_place_in_a_comment() {
    let value = "\"````\\n</details><script>@octocat #1 | x\\n```\\n# head\\e[2J\"";
    let base = render(&tree(&[("clusters/a/web/x.yaml", &map("a", "{x: plain}"))]));
    let head = render(&tree(&[
        ("clusters/a/web/x.yaml", &map("a", &format!("{{x: {value}}}"))),
        ("clusters/b/bad|@octocat<b>/x.yaml", &map("b", "{}")),
    ]));
    let comment = markdown(&Review::new(&base, &head));
    let mut fence: Option<String> = None;
    let mut tags = Vec::new();
    for line in comment.lines() {
        let ticks: String = line.chars().take_while(|c| *c == '`').collect();
        match &fence {
            Some(open) if line == *open => fence = None,
            Some(open) => assert!(ticks.len() < open.len(), "{line}"),
            None if ticks.len() >= 3 => fence = Some(ticks),
            None => {
                assert!(!line.contains("@octocat") && !line.contains("<script"), "{line}");
                tags.extend(line.match_indices("</details>"));
            }
        }
    }
    assert_eq!((fence, tags.len()), (None, 1), "{comment}");
    assert!(!comment.contains('\u{1b}'));
}

/// Many works without the time to render them.
fn many(works: usize, replicas: impl Fn(usize) -> usize) -> Desired {
    let spec = |number: usize| -> Value {
        json!({"workload": {"manifests": [{
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": format!("w{number}"), "namespace": "shop"},
            "spec": {"replicas": replicas(number), "text": "x".repeat(1_800)},
        }]}})
    };
    let works = (0..works).map(|number| {
        let key = WorkKey {
            cluster: ClusterName::parse(&format!("c{}", number / 10)).unwrap(),
            work: WorkName::parse(&format!("w{}", number % 10)).unwrap(),
        };
        let path = RepoPath::parse(&format!("clusters/{}/{}", key.cluster, key.work)).unwrap();
        let body = WorkBody::new(&source(), &path, spec(number), [].into(), [].into(), true);
        let work = DesiredWork {
            key: key.clone(),
            path,
            body: Arc::new(body),
            delete_option: DeleteOption::Foreground,
            prune: true,
            suspend: false,
        };
        (key, work)
    });
    Desired {
        source: source(),
        commit: Some(ObjectId([7; 20])),
        works: works.collect(),
        frozen: Frozen::default(),
        rules: Default::default(),
        approved: Default::default(),
        suspended: Default::default(),
        diagnostics: Vec::new(),
    }
}

#[test]
fn one_change_among_ten_thousand_works_is_found() {
    let base = many(10_000, |_| 1);
    let head = many(10_000, |number| 1 + usize::from(number == 5_432));
    let review = Review::new(&base, &head);
    let comment = markdown(&review);
    assert_eq!((review.counts.works_changed, review.counts.works_unchanged), (1, 9_999));
    assert!(comment.contains("!         spec.replicas: 1 -> 2"), "{comment}");
}

#[test]
fn a_comment_about_a_large_change_stays_within_its_limit() {
    let base = many(3_000, |_| 1);
    let head = many(3_000, |number| 2 + number);
    let comment = markdown(&Review::new(&base, &head));
    assert!(comment.len() <= limits::COMMENT_CHARS_MAX, "{}", comment.len());
    assert!(comment.len() > limits::COMMENT_CHARS_MAX / 2, "the room is used");
    assert!(comment.contains("| | and 2950 more |"));
    assert!(comment.contains("changes are left out: this comment would be too long"));
    // One work with more than fits.
    let big = |to: usize| {
        let texts: Vec<String> =
            (0..400).map(|n| map(&format!("m{n}"), &format!("{{k: \"{}\"}}", n * to))).collect();
        render(&tree(&[("clusters/a/web/x.yaml", &texts.join("---\n"))]))
    };
    let comment = markdown(&Review::new(&big(1), &big(2)));
    assert!(comment.contains("lines more") && comment.len() < 20_000, "{comment}");
}
