//! `deploy/alerts.yaml` and `deploy/dashboard.json` ask for what the daemon, the controller and the
//! webhooks serve, and the documentation tells of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use promql_parser::label::METRIC_NAME;
use promql_parser::parser::{self, AggregateExpr, Expr, LabelModifier, VectorSelector};
use promql_parser::util::{ExprVisitor, walk_expr};
use serde_json::{Value, json};

use super::daemon::Daemon;
use super::server::{Forge, config};
use crate::sync::fixture::{Sync, config_map};
use crate::{admission, controller};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn alerts() -> Vec<Value> {
    let file: Value = serde_yaml::from_str(&read("deploy/alerts.yaml")).unwrap();
    let groups = file["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

fn panels() -> Vec<Value> {
    let file: Value = serde_json::from_str(&read("deploy/dashboard.json")).unwrap();
    file["panels"].as_array().unwrap().clone()
}

/// Every expression, with where it stands. Grafana's variables are replaced as Grafana does.
fn expressions() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap();
        found.push((name.to_owned(), alert["expr"].as_str().unwrap().to_owned()));
    }
    for panel in panels() {
        for target in panel["targets"].as_array().unwrap() {
            let text = target["expr"].as_str().unwrap();
            let text = text.replace("$__rate_interval", "5m").replace("$source", ".+");
            found.push((panel["title"].as_str().unwrap().to_owned(), text));
        }
    }
    found
}

/// What an expression asks for: labels of each metric, with the values where they are named.
#[derive(Default)]
struct Asked {
    metrics: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    grouped_by: BTreeSet<String>,
}

impl Asked {
    fn selector(&mut self, selector: &VectorSelector) {
        let labels = self.metrics.entry(selector.name.clone().unwrap()).or_default();
        for matcher in selector.matchers.matchers.iter().filter(|m| m.name != METRIC_NAME) {
            let values = labels.entry(matcher.name.clone()).or_default();
            values.extend(matcher.value.split('|').map(str::to_owned));
        }
    }
}

impl ExprVisitor for Asked {
    type Error = String;

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, String> {
        match expr {
            Expr::VectorSelector(selector) => self.selector(selector),
            Expr::MatrixSelector(matrix) => self.selector(&matrix.vs),
            Expr::Aggregate(AggregateExpr {
                modifier: Some(LabelModifier::Include(labels)),
                ..
            }) => self.grouped_by.extend(labels.labels.iter().cloned()),
            _ => {}
        }
        Ok(true)
    }
}

/// The labels of each metric in a scrape, with their values.
fn served(scrape: &str) -> BTreeMap<String, BTreeMap<String, BTreeSet<String>>> {
    let mut found = BTreeMap::<String, BTreeMap<String, BTreeSet<String>>>::new();
    for line in scrape.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let metric = found.entry(name.to_owned()).or_default();
        for pair in labels.trim_end_matches('}').split("\",").filter(|pair| !pair.is_empty()) {
            let (label, value) = pair.split_once("=\"").unwrap();
            let value = value.trim_end_matches('"').to_owned();
            metric.entry(label.to_owned()).or_default().insert(value);
        }
    }
    found
}

/// Sends a webhook without a signature, which is refused.
async fn refused_webhook(hook: SocketAddr) {
    let refused = tokio::task::spawn_blocking(move || {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(hook).unwrap();
        stream.write_all(b"POST /hook HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    assert!(refused.await.unwrap().starts_with("HTTP/1.1 401"));
}

/// A scrape of a daemon to which everything has happened that is counted.
async fn scrape_daemon() -> String {
    let sync = Sync::new(1).await;
    let forge = Forge::start().await;
    // The forge and the remote refuse at first.
    forge.answer_next(403, &[], "");
    let url = format!("http://{}", forge.address);
    let (_, token) = config(
        &sync.folder,
        gitwork_core::config::commit_status::Provider::Gitea,
        &url,
        &json!({}),
    );
    let secret = sync.folder.path().join("secret");
    fs::write(&secret, "s").unwrap();
    sync.commit(&[
        (0, "web/a.yaml", Some(&config_map("web", "1"))),
        (0, "old/a.yaml", Some(&config_map("old", "1"))),
        (0, "also-old/a.yaml", Some(&config_map("also-old", "1"))),
    ]);
    let daemon = Daemon::start(
        &sync,
        &json!({
            "listen": "127.0.0.1:0",
            "webhook": { "listen": "127.0.0.1:0", "secretFile": secret },
            "sources": [{
                "id": sync.id.as_str(), "repo": sync.server.url("fleet.git"), "branch": "main",
                "intervalSeconds": 3600,
                "commitStatus": {
                    "provider": "gitea", "repository": "acme/fleet", "apiUrl": url,
                        "tokenFile": token,
                },
                "statusBranch": { "intervalSeconds": 1 },
            }],
        }),
    )
    .await;
    sync.until_value(0, "web", "1").await;
    sync.commit(&[(0, "old", None)]);
    daemon.hang_up();
    sync.until_gone(0, "old").await;
    refused_webhook(daemon.address("listening for webhooks").await).await;
    let of = |labels: &str| format!("{{source=\"{}\",{labels}}}", sync.id);
    let pushed = of(r#"result="pushed""#);
    daemon.until_metric(&format!("gitwork_status_branch_commits_total{pushed}"), |n| n > 0.0).await;
    let forbidden = of(r#"provider="gitea",outcome="blocked""#);
    daemon.until_metric(&format!("gitwork_forge_writes_total{forbidden}"), |n| n == 1.0).await;
    let pruned = of(r#"stage="prune""#);
    daemon.until_metric(&format!("gitwork_sync_duration_seconds_count{pruned}"), |n| n > 0.0).await;
    let source = format!("{{source=\"{}\"}}", sync.id);
    daemon
        .until_metric(&format!("gitwork_synced_commit_timestamp_seconds{source}"), |n| n > 1e9)
        .await
}

/// Labels hold no names but those of sources, which the operator chooses.
const LABELS: &[&str] = &[
    "source",
    "result",
    "effect",
    "action",
    "state",
    "stage",
    "le",
    "verb",
    "outcome",
    "provider",
    "guard",
    "operation",
    "resource",
    "verdict",
    "status",
    "answer",
];

#[tokio::test(flavor = "multi_thread")]
async fn alerts_and_dashboard_use_only_served_and_documented_metrics() {
    let scrapes = [
        ("docs/metrics.md", scrape_daemon().await),
        ("docs/controller.md", controller::scrape().await),
        ("docs/admission.md", admission::scrape().await),
    ];
    let scrape: String = scrapes.iter().map(|(_, scrape)| scrape.as_str()).collect();
    let served = served(&scrape);
    let mut used = BTreeSet::new();
    for (place, text) in expressions() {
        let expr = parser::parse(&text).unwrap_or_else(|why| panic!("{place}: {why}: {text}"));
        let mut asked = Asked::default();
        walk_expr(&mut asked, &expr).unwrap();
        assert!(!asked.metrics.is_empty(), "{place} asks for nothing");
        for (metric, labels) in &asked.metrics {
            let there = served.get(metric).unwrap_or_else(|| panic!("{place}: {metric}\n{scrape}"));
            for label in labels.keys().chain(&asked.grouped_by) {
                assert!(there.contains_key(label), "{place}: {metric} has no {label}: {there:?}");
            }
            // States are served with every value, so a misspelt one would show.
            if let (Some(values), "gitwork_work_states") = (labels.get("state"), metric.as_str()) {
                assert!(values.is_subset(&there["state"]), "{place}: {values:?}");
            }
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| metric.strip_suffix(end))
                .unwrap_or(metric);
            used.insert(base.to_owned());
        }
    }
    for (path, scrape) in &scrapes {
        let page = read(path);
        for line in scrape.lines() {
            let Some(rest) = line.strip_prefix("# TYPE ") else { continue };
            let (name, kind) = rest.split_once(' ').unwrap();
            let name = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
            assert!(page.contains(&format!("`{name}`")), "{path} does not explain {name}");
            assert!(used.contains(&name), "{name} is in neither alerts nor dashboard");
        }
    }
    for (metric, labels) in served {
        for label in labels.keys() {
            assert!(LABELS.contains(&label.as_str()), "{metric} has the label {label}");
        }
    }
}

#[test]
fn every_alert_is_documented_and_has_a_severity() {
    let page = read("docs/metrics.md");
    let mut names = BTreeSet::new();
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap().to_owned();
        assert!(page.contains(&format!("`{name}`")), "docs/metrics.md does not explain {name}");
        let severity = alert["labels"]["severity"].as_str().unwrap();
        assert!(["critical", "warning", "info"].contains(&severity), "{name}: {severity}");
        assert!(alert["annotations"]["summary"].is_string(), "{name}");
        let wait = alert["for"].as_str().unwrap();
        assert!(wait.ends_with(['m', 'h']), "{name}: {wait}");
        assert!(names.insert(name), "each name once");
    }
    let ids: BTreeSet<u64> = panels().iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels().len(), "Grafana wants each id once");
}
