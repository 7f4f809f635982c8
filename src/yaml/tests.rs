use serde_json::{Value, json};

use super::*;

fn read_text(text: &str) -> ParsedYaml {
    read(text.as_bytes())
}

fn codes(read: &ParsedYaml) -> Vec<ProblemKind> {
    read.problems.iter().map(|d| d.kind).collect()
}

/// What kubectl 1.33 (sigs.k8s.io/yaml 1.4 over its go-yaml v2) makes of each.
#[test]
fn as_kubectl() {
    for (text, expected) in [
        ("v: yes", json!(true)),
        ("v: on", json!(true)),
        ("v: y", json!(true)),
        ("v: NO", json!(false)),
        ("v: off", json!(false)),
        ("v: N", json!(false)),
        ("v: yEs", json!("yEs")),
        ("v: 'yes'", json!("yes")),
        ("v: 0644", json!(420)),
        ("v: 0o644", json!(420)),
        ("v: 0x1F", json!(31)),
        ("v: 0X1f", json!(31)),
        ("v: -0B101", json!(-5)),
        ("v: 0O17", json!(15)),
        ("v: 0xFg", json!("0xFg")),
        ("v: 00012first", json!("00012first")),
        ("v: 12ab34", json!("12ab34")),
        ("v: 0b11", json!(3)),
        ("v: -0b11", json!(-3)),
        ("v: 1_000", json!(1000)),
        ("v: 08", json!(8)),
        ("v: +5", json!(5)),
        ("v: -017", json!(-15)),
        ("v: 1.0", json!(1)),
        ("v: 1.5", json!(1.5)),
        ("v: .5", json!(0.5)),
        ("v: 1e3", json!(1000)),
        ("v: 1e999", json!("1e999")),
        ("v: 1:30", json!("1:30")),
        ("v: 1.2.3", json!("1.2.3")),
        ("v: 0x1p4", json!("0x1p4")),
        ("v: 2001-01-01", json!("2001-01-01")),
        ("v: ~", json!(null)),
        ("v:", json!(null)),
        ("v: Null", json!(null)),
        ("v: \"~\"", json!("~")),
        ("v: !!str 5", json!("5")),
        ("v: !!int \"5\"", json!(5)),
        ("v: !!binary aGVsbG8=", json!("hello")),
        ("v: 9223372036854775807", json!(9_223_372_036_854_775_807_i64)),
        ("v: 18446744073709551615", json!(18_446_744_073_709_551_615.0)),
        ("v: 1.", json!(1)),
        ("v: {a: b}", json!({"a": "b"})),
        ("v: |\n  a\n  b\n", json!("a\nb\n")),
        ("v: >-\n  a\n  b\n", json!("a b")),
        ("v: \"\\u00e9\"", json!("é")),
        ("v: \"\\uD83D\\uDE00\"", json!("😀")),
        ("{\"v\":\t1}", json!(1)),
        ("{\n\t\"v\": [\n\t\t1\n\t]\n}", json!([1])),
    ] {
        let read = read_text(text);
        let errors: Vec<&YamlProblem> =
            read.problems.iter().filter(|p| p.kind.is_error()).collect();
        assert!(errors.is_empty(), "{text}: {errors:?}");
        assert_eq!(read.documents[0].value["v"], expected, "{text}");
    }
}

#[test]
fn merge_keys_are_positional_as_in_kubectl() {
    let base = "x: &b {a: 1, c: 2}\nz: &d {a: 9, e: 3}\n";
    for (text, expected) in [
        ("v:\n  <<: *b\n  a: 5\n", json!({"a": 5, "c": 2})),
        ("v:\n  <<: [*b, *d]\n", json!({"a": 1, "c": 2, "e": 3})),
        ("v:\n  a: 5\n  <<: *b\n", json!({"a": 1, "c": 2})),
        ("v:\n  '<<': text\n", json!({"<<": "text"})),
    ] {
        let read = read_text(&format!("{base}{text}"));
        assert!(
            !read.problems.iter().any(|problem| problem.kind.is_error()),
            "{text}: {:?}",
            read.problems
        );
        assert_eq!(read.documents[0].value["v"], expected, "{text}");
    }
    assert_eq!(
        codes(&read_text(&format!("{base}v:\n  a: 5\n  <<: *b\n"))),
        [ProblemKind::MergeOverrides]
    );
    assert_eq!(codes(&read_text("v:\n  <<: 5\n")), [ProblemKind::Syntax]);
}

#[test]
fn what_is_refused_and_what_is_warned_about() {
    for (text, expected) in [
        ("a: 1\na: 2", &[ProblemKind::DuplicateKey][..]),
        ("a: !foo 1", &[ProblemKind::Tag]),
        ("a: !foo {}", &[ProblemKind::Tag]),
        ("a: .nan", &[ProblemKind::Number]),
        ("a: -.inf", &[ProblemKind::Number]),
        ("a: yes", &[ProblemKind::AmbiguousScalar]),
        ("a: 0644", &[ProblemKind::AmbiguousScalar]),
        ("yes: a", &[ProblemKind::NonStringKey]),
        ("1: a", &[ProblemKind::NonStringKey]),
        ("? [a]\n: b", &[ProblemKind::UnexpectedShape]),
        ("a: [", &[ProblemKind::Syntax]),
        ("a: *b", &[ProblemKind::Syntax]),
        ("a: &a [*a]", &[ProblemKind::Syntax]),
        ("a: b: c", &[ProblemKind::Syntax]),
    ] {
        assert_eq!(codes(&read_text(text)), expected, "{text}");
    }
    assert_eq!(read_text("yes: a").documents[0].value, json!({"true": "a"}));
}

#[test]
fn a_duplicate_key_names_both_places() {
    let read = read_text("a:\n  b: 1\n  c: 2\n  b: 3\n");
    let problem = &read.problems[0];
    assert_eq!(problem.span, Some(Span { line: 4, column: 3, length: 1 }));
    assert_eq!(problem.related[0].0, Span { line: 2, column: 3, length: 1 });
    assert_eq!(problem.snippet.as_deref(), Some("  b: 3"));
}

#[test]
fn streams() {
    let read = read_text("\u{feff}# top\n---\na: 1\r\n---\n# nothing\n---\nb: 2\n...\n");
    let found: Vec<(u32, &Value)> = read.documents.iter().map(|d| (d.index, &d.value)).collect();
    assert_eq!(found, [(1, &json!({"a": 1})), (3, &json!({"b": 2}))]);
    let read = read_text("a: 1\n---\nb: [\n");
    assert_eq!(read.documents.len(), 1, "what stands before an error is kept");
    assert_eq!(codes(&read), [ProblemKind::Syntax]);
    assert_eq!(read_text("").documents.len(), 0);
}

#[test]
fn places() {
    let read = read_text("metadata:\n  name: web\n  labels: {a/b: c}\nlist:\n- x\n- z: 1\n");
    let document = &read.documents[0];
    let at = |pointer: &str| {
        let span = document.span_of(pointer);
        (span.line, span.column, span.length)
    };
    assert_eq!(at("/metadata/name"), (2, 9, 3));
    assert_eq!(at("/metadata/labels/a~1b"), (3, 17, 1));
    assert_eq!(at("/list/1/z"), (6, 6, 1));
    assert_eq!(at("/metadata/missing"), at("/metadata"), "the nearest thing above");
    assert_eq!(document.key_span_of("/metadata/name").column, 3);
}

#[test]
fn bounds() {
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(codes(&read_text(&deep)), [ProblemKind::Limit]);
    assert_eq!(codes(&read_text(&"- ".repeat(5_000))), [ProblemKind::Limit]);
    let mut laughs = String::from("a0: &a0 [x]\n");
    for level in 1..12 {
        let before = vec![format!("*a{}", level - 1); 9].join(",");
        laughs.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }
    assert_eq!(codes(&read_text(&laughs)), [ProblemKind::Limit]);
    let many = "---\na: 1\n".repeat(limits::YAML_DOCUMENTS_MAX + 1);
    assert_eq!(codes(&read_text(&many)), [ProblemKind::Limit]);
    assert_eq!(codes(&read_text(&"---\na: 1\n".repeat(limits::YAML_DOCUMENTS_MAX))), []);
}

/// An alias is counted before it is copied, so that a small file cannot fill the memory.
#[test]
fn expanded_aliases_are_bounded_in_bytes() {
    let text = |kib: usize, count: usize| {
        format!("a: &a {}\nb: [{}]\n", "x".repeat(kib << 10), "*a,".repeat(count))
    };
    assert_eq!(codes(&read_text(&text(40, 14_000))), [ProblemKind::Limit]);
    assert_eq!(codes(&read_text(&text(200, 500))), [ProblemKind::Limit]);
    let fits = read_text(&text(200, 400));
    assert_eq!(codes(&fits), []);
    assert_eq!(fits.documents[0].value["b"][399], fits.documents[0].value["a"]);
    let keys = format!("a: &a {{{}: 1}}\nb: [{}]\n", "x".repeat(900), "*a,".repeat(300_000));
    assert_eq!(codes(&read_text(&keys)), [ProblemKind::Limit]);
    let fields: String = (0..1_000).map(|n| format!("k{n}: {}, ", "x".repeat(100))).collect();
    let merged = format!("a: &a {{{fields}}}\nb: [{}]\n", "{<<: *a},".repeat(5_000));
    assert_eq!(codes(&read_text(&merged)), [ProblemKind::Limit]);
}

/// The most that the JSON of a ManifestWork, 500 KiB, can need.
#[test]
fn every_document_that_fits_into_a_work_is_within_the_bounds() {
    let bytes = 500 * 1024;
    for (open, close, part) in [("{\"\":", "}", 5), ("{\"a\":", "}", 6), ("[", "]", 2)] {
        let depth = limits::YAML_DEPTH_MAX - 2;
        let one = format!("{}0{},", open.repeat(depth), close.repeat(depth));
        let text = format!("[{}0]", one.repeat(bytes / (part * depth + 2)));
        assert_eq!(codes(&read_text(&text)), [], "{open}");
    }
    assert_eq!(codes(&read_text(&format!("[{}0]", "0,".repeat(bytes / 2)))), []);
}

#[test]
fn problems_of_a_file_are_bounded_and_an_error_behind_warnings_stays() {
    let read = read_text(&format!("[{}{{a: 1, a: 2}}, yes]", "y,".repeat(5_000)));
    let found = codes(&read);
    assert_eq!(found.len(), limits::YAML_PROBLEMS_MAX + 2);
    assert!(found.contains(&ProblemKind::DuplicateKey));
    let last = read.problems.last().unwrap();
    assert_eq!(last.kind, ProblemKind::Omitted);
    assert_eq!(last.message, "4901 more problems in this file are not listed");
    let key = format!("{0}: 1\n{0}: 2\n", "k".repeat(900));
    assert!(read_text(&key).problems[0].message.len() < 300);
}

/// An ambiguous key is one problem, also where no more are kept.
#[test]
fn ambiguous_keys_are_counted_once() {
    let keys: String = (0..500).map(|n| format!("1_{n}: 1\n")).collect();
    let read = read_text(&keys);
    let last = read.problems.last().unwrap();
    assert_eq!(last.message, "400 more problems in this file are not listed");
}

#[test]
fn files_that_are_no_text() {
    for (bytes, expected) in [
        (
            &b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"[..],
            ProblemKind::LfsPointer,
        ),
        (b"a: \xff", ProblemKind::NotText),
        (b"a: \0", ProblemKind::NotText),
    ] {
        assert_eq!(codes(&read(bytes)), [expected]);
    }
}

#[test]
fn secrets_stay_out_of_messages_and_snippets() {
    let texts = [
        "kind: Secret\nstringData:\n  a: canary\n  a: canary\n",
        "{\"kind\":\n \"Secret\", \"stringData\": {\"a\": !canary 1}}",
        "kind: SecretList\nitems:\n- stringData: {b: canary, b: canary}\n",
        "kind: 'Secret'\nstringData:\n  - a: [canary\n",
    ];
    for text in texts {
        let read = read_text(text);
        assert!(!read.problems.is_empty(), "{text}");
        assert!(!format!("{:?}", read.problems).contains("canary"), "{text}: {:?}", read.problems);
    }
}

/// kubectl ends lines there, so that two people would read two values.
#[test]
fn line_breaks_of_yaml_alone_are_refused_but_in_json() {
    for (text, is_read) in [
        ("{\"a\": \"x\u{85}y\u{2028}\"}", true),
        (" {\"a\": \"\u{2029}\"}\n{}\n", true),
        ("a: x\u{85}b: y", false),
        ("\u{85}{\u{85}", false),
        ("{}\n---\na: x\u{85}b: y", false),
        ("{a: x\u{2028}}", false),
        ("a: \"x\\u0085y\"", true),
    ] {
        let found = read_text(text);
        let refused = found.documents.is_empty() && codes(&found) == [ProblemKind::Syntax];
        assert_eq!(refused, !is_read, "{text:?}: {:?}", found.problems);
    }
}
