//! What the fast reader returns equals what the parser and the composer make of the text.
#![expect(clippy::disallowed_methods, reason = "a test reads the YAML files of this repository")]

use std::path::Path;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use super::block;
use super::compose::stream::compose;

/// Whether the fast reader takes the text. It must return what the parser does, then.
fn is_taken(text: &str) -> bool {
    let Some(fast) = block::compose(text) else { return false };
    let whole = compose(text);
    assert!(whole.problems.is_empty(), "{text}: {}", whole.problems[0].message);
    assert_eq!(fast.documents.len(), whole.documents.len(), "{text}");
    for (one, other) in fast.documents.iter().zip(&whole.documents) {
        assert_eq!((one.index, &one.value), (other.index, &other.value), "{text}");
        assert_eq!(one.spans, other.spans, "{text}");
    }
    assert_eq!(fast.memory, whole.memory, "{text}");
    true
}

#[test]
fn usual_manifests_are_taken() {
    for text in [
        "a: 1\n",
        "a: 1\nb: two words\nc: -1\nd: 1.5\n",
        "a:\n  b: c\n",
        "a:\n- b\n- c: d\n  e: f\n- g\nh: i\n",
        "a:\n  - b\n  - c: d\n    e:\n      - f\n",
        "---\na: 1\n---\n# nothing\n---\nb: 2\n",
        "# first\n\na: 1 # one\n\n# last\n",
        "a: \"quoted: # text\"\nb: 'it'\n\"c/d\": e\n",
        "a: |\n  one\n    two\n\n  three\nb: |-\n  end\n\nc: 1\n",
        "a:\n- |\n  text\n- x\n",
        "a: {}\nb: []\nc: [\"a\", b, 'c']\nd: [ 1 ]\n",
        "a: http://x/y#z\nb: a,b[c]{d}\nc: --flag=x\n",
        "- a\n- b: c\n  d: e\n",
        "a: {} # none\nb: true\n",
        "a: {b: c, \"d\": [e, {f: 1}], g: {}} # h\n",
        "- {image: nginx:1.2, args: [a=b, 'c']}\n",
    ] {
        assert!(is_taken(text), "{text}");
    }
}

#[test]
fn everything_else_is_left_to_the_parser() {
    for text in [
        "",
        "a: 1",
        "a:\n",
        "a: yes\n",
        "y: 1\n",
        "8080: 1\n",
        "a: 0644\n",
        "a: 1\na: 2\n",
        "a: one\n  two\n",
        "a: \"one\n  two\"\n",
        "a: \"\\n\"\n",
        "a: 'it''s'\n",
        "a: >\n  folded\n",
        "a: |2\n   x\n",
        "a: |+\n  x\n\n",
        "a: |\n\n  x\n",
        "a: |\n",
        "a: &b c\n",
        "a: *b\n",
        "a: !!str 1\n",
        "? a\n: b\n",
        "{a: b}\n",
        "a: {b}\n",
        "a: {b: c,}\n",
        "a: {b: c, b: d}\n",
        "a: {b:c}\n",
        "a: {\"b\":c}\n",
        "a: [b, two words]\n",
        "a: [b:]\n",
        "a: [\n  b]\n",
        "a:\n  b\n",
        "a: b: c\n",
        "a: b:\n",
        "a:\tb\n",
        "a: é\n",
        "a: 1\r\n",
        "--- a\n",
        "--- \na: 1\n",
        "a: 1\n...\n",
        "%YAML 1.1\n---\na: 1\n",
        "a: 1\n b: 2\n",
        "  a: 1\n b: 2\n",
        "a:\n  - b\n c: d\n",
        "- a\nb: c\n",
        "-\n  a\n",
        "- - a\n",
        "<<: 1\n",
        "a: .inf\n",
        "a: 'x' y\n",
        "a: [b]c\n",
        "text\n",
    ] {
        assert!(!is_taken(text), "{text}");
    }
}

/// Every YAML file of this repository.
#[test]
fn files_of_this_repository_read_the_same() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut taken, mut all) = (0, 0);
    let mut folders: Vec<_> =
        ["examples", "tests", "deploy"].iter().map(|folder| root.join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
            if path.is_dir() {
                folders.push(path);
            } else if is_yaml && let Ok(text) = std::fs::read_to_string(&path) {
                all += 1;
                taken += u32::from(is_taken(&text));
            }
        }
    }
    assert!(all > 100 && taken * 2 > all, "the fast reader takes {taken} of {all} files");
}

/// Lines that are likely to mean something together.
const LINES: &[&str] = &[
    "a: 1",
    "b: text",
    "c:",
    "d: |",
    "e: |-",
    "- a",
    "- b: c",
    "- d:",
    "-",
    "- - a",
    "# x",
    "",
    "f: [a, \"b\"]",
    "g: {}",
    "\"h\": 'i'",
    "---",
    "key: - x",
    "a: b # c",
    "j: 'k' # l",
    "m: \"n\"o",
    "text",
    "p:  q ",
    "a:b",
    "r: s:t",
    "- 'u'",
    "- |",
    "y: n",
    "v: -",
    "w: ~",
    "...",
    "x: >",
    "z: a #b",
    "z: a#b",
    "- [c]",
    "? a",
    "k: \"a: b\"",
    "- \"a\": b",
    "#",
    "l: [a , b ]",
    "o: [a b]",
    "n: 1_0",
    "q: |\n",
    "s: \"",
    "t: '",
    "u: -1",
    "- -1",
    "-a: 1",
    "1: a",
    "- {}",
    "- []",
    ": a",
    "a : b",
    "a: [",
    "a: []x",
    "a: {} x",
    "a: - b",
    "a: {b: c}",
    "a: [[b], {c: d, e: [f]}] ",
    "- {a: b}",
    "a: {b: c,d: e}",
    "a: {b: c:d}",
    "a: { b : c }",
    "a: {\"b\": 'c'}",
    "a: [b:c]",
    "a: {b: }",
    "a: {b: y}",
    "a: [,]",
    "a: [b,]",
    "a: {b: c, b: d}",
    "a: [b]#",
    "a: {b: [c, \"d\"], 'e': {}} # f",
    "a: {b:c}",
    "a: {\"b\":c}",
    "- [a, {b: c}]",
    "{a: b}",
    "[a]",
    "a: [b c]",
    "a: {b: c d}",
    "a: [-b, +c, .d, /e]",
    "a: [b=c, d/e, f-g]",
    "a: [1, 1.5, true, null]",
    "a: {1: b}",
    "a: {y: b}",
    "a: {<<: b}",
    "a: [*b]",
    "a: [b , c]",
    "a: ['b''c']",
    "a: [b, \"c\\n\"]",
    "a: ---",
    "- ---",
    "a: ...",
    "a: b :c",
    "a: -b",
    "a: - ",
    "a:  # b",
    "-  # b",
    "- a:  b  # c",
    "a: \"b\"# c",
    "a: 'b'  ",
    "a: b\\",
    "a/b.c-d_e: f",
    "-: a",
    "--a: b",
    "a: b, c",
    "a: }",
    "a: b]",
    "\"a\" : b",
    "'a': b",
    "- 'a': b",
    "a: 0x1F",
    "a: 1e3",
    "a: 2001-01-01",
    "a: 1:30",
    "on: a",
    "true: b",
    "a.b: c",
    "_a: b",
    ".a: b",
    ".inf: b",
    "a: |  ",
    "a: | # b",
    "a: |-\n",
    "  - a",
    "a: ''",
    "a: \"\"",
    "\"\": a",
];

/// Some of these lines, each with an indentation.
fn text() -> impl Strategy<Value = String> {
    let line = (0_usize..7, prop::sample::select(LINES));
    let line = line.prop_map(|(indent, text)| format!("{}{text}", " ".repeat(indent)));
    prop::collection::vec(line, 0..9).prop_map(|lines| lines.join("\n") + "\n")
}

#[test]
fn what_is_taken_reads_the_same() {
    let (mut runner, strategy) = (TestRunner::deterministic(), text());
    let cases: u32 = std::env::var("PROPTEST_CASES").map_or(20_000, |cases| cases.parse().unwrap());
    let mut taken = 0;
    for _ in 0..cases {
        let tree = strategy.new_tree(&mut runner).unwrap();
        taken += u32::from(is_taken(&tree.current()));
    }
    assert!(taken > cases / 20, "the fast reader takes {taken} of {cases} texts");
}
