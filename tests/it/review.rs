//! Reviews of two commits that the cases in `tests/cases` cannot hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use gitwork_core::limits;
use gitwork_core::model::name::{ClusterName, CommitId, ObjectId, RepoPath, WorkKey, WorkName};
use gitwork_core::model::work::{DeletionPolicy, DesiredWork, WorkBody};
use gitwork_core::render::desired::{Desired, Frozen};
use gitwork_core::text::style::ColorMode;
use gitwork_report::forge::WebPages;
use gitwork_report::review::{Review, markdown, text};
use serde_json::{Value, json};

use crate::cases;
use crate::memory_repository::{File, files, render, source};

fn map(name: &str, data: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: shop}}\ndata: \
            {data}\n"
    )
}

fn tree(pairs: &[(&str, &str)]) -> BTreeMap<String, File> {
    files(pairs)
}

#[test]
fn equal_states_have_no_changes() {
    let base = render(&cases::before("review"));
    let review = Review::new(&base, &base.clone());
    assert!(review.is_empty());
    assert_eq!(text(&review, ColorMode::Plain), "no changes; 11 unchanged\n");
    assert_eq!(review.counts.works_unchanged, base.works.len());
}

#[test]
fn change_of_dependencies_is_shown_once_for_all_members() {
    let group = ("groups/stores/group.yaml", "clusters: [a, b]");
    let base = ("groups/stores/base/x.yaml", &*map("base", "{x: y}"));
    let web = ("groups/stores/web/x.yaml", &*map("web", "{x: y}"));
    let before = render(&tree(&[group, base, web]));
    let order = ("groups/stores/web/work.yaml", "dependsOn: [base]");
    let after = render(&tree(&[group, base, web, order]));
    let shown = |base, head| text(&Review::new(base, head), ColorMode::Plain);
    let added = shown(&before, &after);
    assert!(
        added.starts_with(
            "~ a/web: changes what it depends on (103 B, 1% of the hub's limit)\n    ~ depends on \
             base\n    the same on b\n"
        ),
        "{added}"
    );
    let removed = shown(&after, &before);
    assert!(removed.contains("\n    ~ depends on nothing\n    the same on b\n"), "{removed}");
    assert!(shown(&after, &after.clone()).ends_with("\nno changes; 4 unchanged\n"));
}

#[test]
fn repository_text_is_escaped_in_comments() {
    let value = "\"````\\n</details><script>@octocat #1 | x\\n```\\n# head\\e[2J\"";
    let base = render(&tree(&[("clusters/a/web/x.yaml", &map("a", "{x: plain}"))]));
    let head = render(&tree(&[
        ("clusters/a/web/x.yaml", &map("a", &format!("{{x: {value}}}"))),
        ("clusters/b/bad|@octocat<b>/x.yaml", &map("b", "{}")),
    ]));
    let comment = markdown(&Review::new(&base, &head), None);
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

#[test]
fn works_and_problems_are_links_to_the_forge() {
    let [was, is] = ["ab", "cd"].map(|pair| CommitId::parse(&pair.repeat(20)).unwrap());
    let base = render(&tree(&[
        ("clusters/a/web/x.yaml", &map("a", "{x: one}")),
        ("clusters/a/old/x.yaml", &map("o", "{x: one}")),
    ]));
    let head = render(&tree(&[
        ("clusters/a/web/x.yaml", &map("a", "{x: two}")),
        ("clusters/b/bad name<b>/x.yaml", "a: 1\na: 2\n"),
    ]));
    let review = Review { base: Some(was), head: Some(is), ..Review::new(&base, &head) };
    let pages = WebPages::of(None, "git@github.com:acme/fleet.git").unwrap();
    let comment = markdown(&review, Some(&pages));
    let to = "<a href=\"https://github.com/acme/fleet";
    let changed = format!("{to}/tree/{is}/clusters/a/web\"><code>web</code></a>");
    let deleted = format!("{to}/tree/{was}/clusters/a/old\"><code>old</code></a>");
    let line = format!("{to}/blob/{is}/clusters/b/bad%20name%3Cb%3E/x.yaml#L2\"><code>clusters");
    for part in [changed, deleted, line] {
        assert!(comment.contains(&part), "{part}\n{comment}");
    }
    let uncommitted = Review { head: None, ..review };
    let comment = markdown(&uncommitted, Some(&pages));
    assert!(!comment.contains("/blob/") && !comment.contains(&is.to_string()), "{comment}");
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
            delete_option: DeletionPolicy::Foreground,
            prune: true,
            suspend: false,
            objects: Arc::default(),
            depends_on: Default::default(),
            group_content: None,
            is_earlier: false,
        };
        (key, Arc::new(work))
    });
    Desired {
        delivered: BTreeMap::new(),
        source: source(),
        commit: Some(ObjectId([7; 20])),
        works: works.collect(),
        frozen: Frozen::default(),
        rules: Default::default(),
        approved: Default::default(),
        suspended: Default::default(),
        needed_facts: None,
        rollouts: BTreeMap::new(),
        later: BTreeMap::new(),
        facts: None,
        diagnostics: Vec::new(),
    }
}

#[test]
fn one_change_among_ten_thousand_works_is_found() {
    let base = many(10_000, |_| 1);
    let head = many(10_000, |number| 1 + usize::from(number == 5_432));
    let review = Review::new(&base, &head);
    let comment = markdown(&review, None);
    assert_eq!((review.counts.works_changed, review.counts.works_unchanged), (1, 9_999));
    assert!(comment.contains("!         spec.replicas: 1 -> 2"), "{comment}");
}

#[test]
fn large_comment_stays_within_its_limit() {
    let base = many(3_000, |_| 1);
    let head = many(3_000, |number| 2 + number);
    let comment = markdown(&Review::new(&base, &head), None);
    assert!(comment.len() <= limits::COMMENT_CHARS_MAX, "{}", comment.len());
    assert!(comment.len() > limits::COMMENT_CHARS_MAX / 2, "the room is used");
    assert!(comment.contains("| | and 2950 more |"));
    assert!(comment.contains("changes are left out: this comment would be too long"));
    // Links to long paths.
    let files: Vec<(String, String)> = (0..60)
        .map(|n| (format!("clusters/a/web/{n}{}.yaml", "é".repeat(110)), "a: 1\na: 2\n".into()))
        .collect();
    let pairs: Vec<(&str, &str)> =
        files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let head = CommitId::parse(&"cd".repeat(20)).unwrap();
    let review = Review::new(&render(&tree(&[])), &render(&tree(&pairs)));
    let review = Review { head: Some(head), ..review };
    let pages = WebPages::of(None, "https://github.com/acme/fleet").unwrap();
    let comment = markdown(&review, Some(&pages));
    assert!(comment.len() <= limits::COMMENT_CHARS_MAX / 2, "{}", comment.len());
    assert!(comment.contains("GW102") && !comment.contains("<a href"), "{comment}");
    // One work with more than fits.
    let big = |to: usize| {
        let texts: Vec<String> =
            (0..400).map(|n| map(&format!("m{n}"), &format!("{{k: \"{}\"}}", n * to))).collect();
        render(&tree(&[("clusters/a/web/x.yaml", &texts.join("---\n"))]))
    };
    let comment = markdown(&Review::new(&big(1), &big(2)), None);
    assert!(comment.contains("lines more") && comment.len() < 20_000, "{comment}");
}
