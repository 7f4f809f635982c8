//! The limits that the pages of `docs/` name are those of the code.

use std::path::Path;
use std::time::Duration;

use gitwork_admission::limits as admission;
use gitwork_admission_rules::limits as rules_of_admission;
use gitwork_agent_core::feedback::FEEDBACK_BYTES_MAX;
use gitwork_core::limits as core;
use gitwork_core::plan::budget::Budget;
use gitwork_core::plan::drift_backoff::{CALM, LONGEST_WAIT};
use gitwork_daemon::limits as daemon;
use gitwork_forge::limits as forge;
use gitwork_git::{MirrorLimits, limits as git};
use gitwork_rules::limits as rules;
use gitwork_yaml::limits as yaml;

/// A page of `docs/`.
fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// A number as the pages write it: 5,000.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let places = digits.chars().enumerate().flat_map(|(at, digit)| {
        let comma = at > 0 && (digits.len() - at).is_multiple_of(3);
        comma.then_some(',').into_iter().chain([digit])
    });
    places.collect()
}

/// Bytes as a whole number of the largest unit.
fn size(bytes: usize) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let (unit, name) = units.into_iter().find(|(unit, _)| bytes.is_multiple_of(*unit)).unwrap();
    format!("{} {name}", bytes / unit)
}

/// A small number as a word.
fn word(number: u64) -> &'static str {
    let words =
        ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    words[usize::try_from(number).unwrap()]
}

fn seconds(time: Duration) -> u64 {
    assert_eq!(time.subsec_nanos(), 0, "{time:?}");
    time.as_secs()
}

fn minutes(time: Duration) -> u64 {
    assert!(seconds(time).is_multiple_of(60), "{time:?}");
    seconds(time) / 60
}

/// The times in a second that a wait allows.
fn per_second(wait: Duration) -> u64 {
    u64::try_from(Duration::from_secs(1).as_nanos() / wait.as_nanos()).unwrap()
}

/// Each sentence stands on the page, on one line or on several.
fn check(name: &str, sentences: &[String]) {
    let text: Vec<String> = page(name).split_whitespace().map(str::to_owned).collect();
    let text = text.join(" ");
    for sentence in sentences {
        assert!(text.contains(sentence.as_str()), "docs/{name} does not say: {sentence}");
    }
}

/// What is limited, and the limit of the code.
type Limit = (&'static str, String);

/// The first rows of the table of docs/layout.md.
fn limits_of_a_work() -> [Limit; 7] {
    let count = grouped;
    [
        ("one ManifestWork, as the hub's webhook counts it", size(core::WORK_BYTES_MAX)),
        ("manifests of one work", count(core::WORK_MANIFESTS_MAX)),
        (
            "files of one work",
            format!(
                "{}, in {} levels of folders, {} in all",
                count(core::WORK_FILES_MAX),
                core::WORK_FOLDER_DEPTH_MAX,
                size(core::WORK_INPUT_BYTES_MAX)
            ),
        ),
        (
            "files and folders in one work folder, hidden and ignored ones included. A symbolic \
             link in place of a manifest counts as 20 more, because gitwork must read its target",
            count(core::WORK_ENTRIES_MAX),
        ),
        (
            "one file",
            format!(
                "{}, and {} in memory with its YAML aliases expanded",
                size(yaml::FILE_BYTES_MAX),
                size(yaml::YAML_MEMORY_MAX)
            ),
        ),
        ("bytes that variables insert into one work", size(core::SUBSTITUTED_BYTES_MAX)),
        (
            "rules with wildcards, multiplied by the objects that they are compared with",
            count(core::RULE_STEPS_MAX),
        ),
    ]
}

/// The other rows of that table.
fn limits_of_a_source() -> [Limit; 11] {
    let count = grouped;
    [
        ("clusters of one source, with those that groups name", count(core::CLUSTERS_MAX)),
        ("groups of one source", count(core::GROUPS_MAX)),
        (
            "conditions of groups, multiplied by the clusters that they are compared with",
            count(core::MEMBERSHIP_STEPS_MAX),
        ),
        ("members of all groups together", count(core::MEMBERSHIPS_MAX)),
        ("works of one source", count(core::WORKS_MAX)),
        (
            "memory of the rendered works of one source. Equal contents count once",
            format!(
                "{}, or [`maxContentMib`](daemon-config.md#repository)",
                size(core::CONTENT_BYTES_MAX)
            ),
        ),
        (
            "files of one folder of a group, which are read for each member with values of its own",
            format!("{}, or `maxContentMib`", size(core::CONTENT_BYTES_MAX)),
        ),
        (
            "files of all works of one source that are read for one commit",
            format!("{} times as much", word(core::INPUT_FACTOR as u64)),
        ),
        (
            "labels and claims of one ManagedCluster, 64 bytes more for each. Of a larger one, \
             they are unknown",
            size(core::CLUSTER_FACTS_BYTES_MAX),
        ),
        (
            "`facts.json`",
            format!("{} and {} values", size(core::FACTS_BYTES_MAX), count(core::FACTS_VALUES_MAX)),
        ),
        (
            "approvals in `approvals/`",
            format!(
                "{}, and together {} and {} works. With more, gitwork warns and reads none of them",
                count(core::APPROVALS_MAX),
                size(core::APPROVALS_BYTES_MAX),
                count(core::WORKS_MAX)
            ),
        ),
    ]
}

#[test]
fn memory_for_notes_is_as_documented() {
    let bytes = size(core::RELATIONS_BYTES_MAX);
    check("object-checks.md", &[format!("After {bytes} of it, they say nothing of the other")]);
}

#[test]
fn table_of_limits_is_that_of_the_code() {
    let layout = page("layout.md");
    let table = layout.split("\n| what | at most |\n|---|---|\n").nth(1).unwrap();
    let found: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
    let expected = limits_of_a_work().into_iter().chain(limits_of_a_source());
    let expected: Vec<String> =
        expected.map(|(what, most)| format!("| {what} | {most} |")).collect();
    assert_eq!(found, expected);
    check(
        "layout.md",
        &[format!(
            "gitwork lists {} problems of a file, {} of a work and {} of a source",
            core::FILE_DIAGNOSTICS_MAX,
            core::WORK_DIAGNOSTICS_MAX,
            grouped(core::DIAGNOSTICS_MAX)
        )],
    );
}

#[test]
fn limits_of_expressions_are_those_of_the_code() {
    assert_eq!(rules::CEL_OBJECT_EXPRESSIONS, 10, "docs/agent.md says ten");
    check(
        "agent.md",
        &[
            format!(
                "One expression may take {} loop steps. It may create, compare and search {} in \
                 total.",
                grouped(usize::try_from(rules::CEL_STEPS_MAX).unwrap()),
                size(usize::try_from(rules::CEL_VALUE_BYTES_MAX).unwrap())
            ),
            "All expressions of one manifest together may take ten times as much.".into(),
            format!(
                "An expression longer than {} bytes does not compile. Neither does one whose \
                 brackets, calls and conditions nest deeper than {} levels.",
                grouped(rules::CEL_BYTES_MAX),
                rules::CEL_DEPTH_MAX
            ),
            format!(
                "An expression tree deeper than {} levels does not compile.",
                rules::CEL_TREE_DEPTH_MAX
            ),
            format!(
                "an expression has at most {} bytes and {} nested brackets. Its evaluation takes \
                 at most {} steps, nests at most {} calls, and selects at most {} locations.",
                grouped(rules::JQ_BYTES_MAX),
                rules::JQ_NESTING_MAX,
                grouped(rules::JQ_WORK_MAX),
                rules::JQ_DEPTH_MAX,
                grouped(rules::JQ_PATHS_MAX)
            ),
            format!(
                "{} steps of all paths together, and {} of values",
                grouped(rules::JSONPATH_OBJECT_STEPS_MAX),
                size(FEEDBACK_BYTES_MAX)
            ),
        ],
    );
}

#[test]
fn limits_of_memory_and_disk_are_those_of_the_code() {
    let content = size(core::CONTENT_BYTES_MAX);
    let mirror = MirrorLimits::default().mirror_bytes_max;
    let mirror = size(usize::try_from(mirror).unwrap());
    let mib = core::CONTENT_BYTES_MAX >> 20;
    check(
        "operations.md",
        &[
            format!("The rendered works of one source take at most {content}, or `maxContentMib`"),
            format!("two sources with the default of {content} and 10,000 works"),
            format!("2 x {mib} + {mib} + 128 + 39 = {} MiB", 3 * mib + 128 + 39),
            format!("a mirror may have {mirror}"),
        ],
    );
    check(
        "daemon-config.md",
        &[
            format!("in [memory](operations.md#memory). Default: {mib} |"),
            format!("The mirror's limit of {mirror} counts for all its sources together."),
        ],
    );
    check(
        "threat-model.md",
        &[
            format!("The works of a source together may hold {content}, or what the operator sets"),
            format!(
                "commits that change more than {} million files and folders",
                git::COMPARED_ENTRIES_MAX / 1_000_000
            ),
            format!("A count of more than {} is ignored.", grouped(u32::MAX as usize)),
        ],
    );
    check(
        "explain.md",
        &[format!(
            "An explanation has at most about {}. gitwork leaves out values of settings with more \
             than {}",
            size(core::EXPLANATION_BYTES_MAX),
            size(core::EXPLANATION_SETTING_BYTES_MAX)
        )],
    );
    check("terminal.md", &[format!("A report has at most {}.", size(core::REPORT_BYTES_MAX))]);
}

#[test]
fn limits_of_connections_and_events_are_those_of_the_code() {
    let body = size(daemon::WEBHOOK_BODY_BYTES_MAX);
    check(
        "webhooks.md",
        &[
            format!("the body is over {body}, or it is incomplete"),
            format!(
                "It accepts bodies of at most {body}, and {} connections of at most {} seconds \
                 each.",
                daemon::WEBHOOK_CONNECTIONS_MAX,
                seconds(daemon::WEBHOOK_CALL)
            ),
        ],
    );
    check(
        "status-page.md",
        &[
            format!("At most {} browsers can have the page open", daemon::PAGE_FOLLOWERS_MAX),
            format!("transfers nothing for {} seconds", seconds(daemon::PAGE_IDLE)),
        ],
    );
    check(
        "status.md",
        &[
            format!(
                "One work gets at most {} Events at once and then {} a minute. One source gets at \
                 most {} at once and then {} a second",
                word(core::EVENTS_OF_WORK_AT_ONCE.into()),
                word(minutes(core::EVENT_OF_WORK_EVERY)),
                core::EVENTS_AT_ONCE,
                word(per_second(core::EVENT_EVERY))
            ),
            format!("For more than {} works at once, gitwork logs", daemon::WORK_LINES_MAX),
            format!("The first {} failed ones still have a line each", daemon::WORK_LINES_MAX),
        ],
    );
    check(
        "commit-status.md",
        &[
            format!("A source has at most {} of them.", forge::FORGE_CONTEXTS_MAX),
            format!(
                "If the hub does not answer within {} seconds",
                word(seconds(forge::OPEN_STATUS_NOTED))
            ),
        ],
    );
}

#[test]
fn waits_and_budgets_are_those_of_the_code() {
    let budget = Budget::default();
    check(
        "guards.md",
        &[
            format!(
                "more than {} works **and** more than {}% of the works",
                budget.works, budget.percent
            ),
            format!("The daemon reads it within {} seconds.", seconds(core::DIRECTIVES_POLL)),
        ],
    );
    check(
        "daemon-config.md",
        &[format!("Default: {}, {} and {}.", budget.works, budget.percent, budget.cluster)],
    );
    check(
        "drift.md",
        &[
            format!("and so on up to {} minutes", minutes(LONGEST_WAIT)),
            format!("ends after {} minutes without a revert", word(minutes(CALM))),
        ],
    );
    check("replicas.md", &[format!("waits up to {} seconds before", seconds(daemon::LEASE_RETRY))]);
    check(
        "scaling.md",
        &[format!(
            "the pause after it is at least {} s and at least {} times what it took, up to a \
             minute",
            daemon::STATUS_PAUSE.as_secs_f64(),
            daemon::STATUS_PAUSE_FACTOR
        )],
    );
    assert_eq!(minutes(daemon::STATUS_PAUSE_MAX), 1, "docs/scaling.md says a minute");
}

#[test]
fn limits_of_the_admission_webhooks_are_those_of_the_code() {
    let row = |what: &str, limit: String| format!("| {what} | {limit} |");
    let time = |time| format!("{} s", seconds(time));
    check(
        "admission.md",
        &[
            row("connections", format!("{}; others wait", admission::CONNECTIONS_MAX)),
            row("from the connection to the first request", time(admission::CONNECTION_SETUP)),
            row(
                "head of a request",
                format!("{}, {} fields", size(admission::HEAD_BYTES_MAX), admission::HEADERS_MAX),
            ),
            row(
                "body of a request",
                format!(
                    "twice the manifest limit and {}; all bodies together {}",
                    size(admission::body_bytes_max(0)),
                    size(admission::BODIES_BYTES_MAX)
                ),
            ),
            row("time for a body", time(admission::BODY_READ)),
            row("time for a request", time(admission::REQUEST)),
            row(
                "requests at once",
                format!(
                    "{}, and {} questions to the API server; others wait",
                    admission::REQUESTS_AT_ONCE,
                    admission::ACCESS_REVIEWS_AT_ONCE
                ),
            ),
            row(
                "errors in one answer",
                format!("{}; others are counted", rules_of_admission::ERRORS_MAX),
            ),
            format!("none has more than {} levels", rules_of_admission::MANIFEST_DEPTH_MAX),
            format!("The limit is {};", size(rules_of_admission::MANIFESTS_BYTES_MAX)),
            format!("gitwork reads changed files within {} s", seconds(admission::FILES_CHECK)),
            format!("They look every {} s", seconds(rules_of_admission::CHECK_INTERVAL_MAX)),
            format!("default: {} days", seconds(admission::CERTIFICATE_LIFETIME) / (24 * 3600)),
        ],
    );
}
