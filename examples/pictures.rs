//! Makes the pictures of the status page and of the terminal in `docs/pictures`:
//! `cargo run --example pictures`.
//!
//! With `--serve` it serves the page with an invented fleet on 127.0.0.1:8081 until it is
//! interrupted, for work on the page.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a program for developers of gitwork"
)]

#[path = "../tests/browser/mod.rs"]
mod browser;

use std::path::Path;
use std::sync::Arc;

use browser::fleet::{Stage, cluster_name, commit, fleet, hold, key, reported, work};
use browser::{Browser, Tab};
use gitwork_core::text::style::ColorMode;
use gitwork_report::status::print;
use gitwork_report::status::print::Layout;
use gitwork_report::status::source::SourceStatus;
use gitwork_report::status::tree::WorkTree;
use gitwork_report::status::{State, aggregate};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

#[tokio::main]
async fn main() {
    let is_serving = std::env::args().any(|argument| argument == "--serve");
    let stage = Stage::start(&["fleet"], if is_serving { 8081 } else { 0 }).await;
    stage.publish(&fleet_with_problems());
    if is_serving {
        println!("{}", stage.url());
        std::future::pending::<()>().await;
    }
    let browser = Browser::start();
    let tab = browser.tab(1200, 680);
    tab.open(&stage.url());
    tab.until("document.querySelectorAll('[role=gridcell]').length > 100").await;
    take(&tab, "page-light");
    tab.set_scheme("dark");
    take(&tab, "page-dark");
    tab.set_scheme("light");
    open(&tab, "edge-berlin-001", "shop").await;
    take(&tab, "page-work");
    tab.key("Escape");
    tab.resize(390, 780);
    tab.until("document.getElementById('grid').clientWidth < 400").await;
    take(&tab, "page-phone");
    stage.stop().await;
    take_sources(&browser).await;
    terminal(&browser);
}

/// Takes the picture of `gitwork status` and `gitwork tree` with a few works.
fn terminal(browser: &Browser) {
    let now = Timestamp::now();
    let works = [
        ("edge-berlin-001", "metrics", State::Available, 2_900),
        ("edge-berlin-001", "shop", State::Failed, 7),
        ("edge-berlin-002", "metrics", State::Degraded, 42),
        ("edge-berlin-002", "shop", State::Progressing, 1),
        ("edge-rome-001", "metrics", State::Available, 2_900),
        ("edge-rome-001", "shop", State::Available, 2_900),
    ];
    let trees = works.map(|(cluster, work, state, minutes)| {
        let key = key(cluster, work);
        let since = (now - SignedDuration::from_mins(minutes)).to_string();
        let object = json!({
            "metadata": {
                "namespace": cluster, "name": work, "generation": 1,
                "labels": { "gitwork.dev/source": "fleet" },
                "annotations": { "gitwork.dev/commit": commit(work).to_string() },
            },
            "spec": { "workload": { "manifests": [{
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": { "namespace": work, "name": work },
            }] } },
            "status": reported(&key, state, &since),
        });
        WorkTree::of(&object, |cluster| cluster.as_str() == "edge-rome-001")
    });
    let layout = Layout { wide: false, width: Some(130), style: ColorMode::Colored, now };
    let mut lines = vec!["$ gitwork status".to_owned()];
    let mut table = print::work_table(layout.wide);
    print::add_works(&mut table, trees.iter().map(|tree| &tree.work), &layout);
    lines.extend(table.lines(layout.width, layout.style));
    lines.push(aggregate(trees.iter().map(|tree| &tree.work)));
    lines
        .extend([String::new(), "$ gitwork tree --cluster 'edge-berlin-*' --work shop".to_owned()]);
    let shops = trees.iter().filter(|tree| tree.work.work == "shop" && !tree.work.unreachable);
    let mut table = print::tree_table();
    print::add_trees(&mut table, shops, &layout);
    lines.extend(table.lines(layout.width, layout.style));
    let file = tempfile::NamedTempFile::with_suffix(".html").unwrap();
    std::fs::write(file.path(), as_html(&lines.join("\n"))).unwrap();
    let tab = browser.tab(1150, 480);
    tab.open(&format!("file://{}", file.path().display()));
    take(&tab, "terminal");
}

/// A page that looks like a terminal, from text with a terminal's colour codes.
fn as_html(text: &str) -> String {
    let mut html = String::from(
        "<!doctype html><meta charset=utf-8><style>body{margin:0;background:#15181d;color:#d8dee6}\
         pre{margin:18px;font:14px/1.5 'DejaVu Sans Mono',monospace}\
         .c1{font-weight:bold}.c2{color:#8b94a1}\
         .c31,.c91{color:#ff7b72}.c32,.c92{color:#7ee787}.c33,.c93{color:#e3b341}\
         .c34,.c94,.c36,.c96{color:#79c0ff}\
         </style><pre>",
    );
    let mut open = 0;
    for (index, part) in text.split('\u{1b}').enumerate() {
        let (codes, rest) = match (index, part.split_once('m')) {
            (0, _) | (_, None) => ("", part),
            (_, Some((codes, rest))) => (codes.trim_start_matches('['), rest),
        };
        for code in codes.split(';').filter(|code| !code.is_empty()) {
            if code == "0" {
                html.push_str(&"</span>".repeat(open));
                open = 0;
            } else {
                html.push_str(&format!("<span class=c{code}>"));
                open += 1;
            }
        }
        html.push_str(&rest.replace('&', "&amp;").replace('<', "&lt;"));
    }
    html.push_str("</pre>");
    html
}

/// Takes the picture of three sources, one of which cannot be read, filtered to works with
/// problems.
async fn take_sources(browser: &Browser) {
    let stage = Stage::start(&["fleet", "monitoring", "policies"], 0).await;
    let monitoring = Arc::new(renamed_works(&["grafana", "loki", "prometheus"], &fleet(16)));
    stage.feeds[1].send_replace(Some(monitoring));
    stage.feeds[2].send_replace(Some(Arc::new(renamed_works(&["kyverno"], &fleet(16)))));
    stage.source_errors[2].send_replace(Some(
        "cannot fetch https://github.com/acme/policies.git: the server refuses the credentials \
         (401)"
            .into(),
    ));
    stage.publish(&fleet_with_problems());
    let tab = browser.tab(1200, 680);
    tab.open(&stage.url());
    tab.until("document.querySelectorAll('[role=gridcell]').length > 100").await;
    tab.until("document.querySelectorAll('#sources .note').length > 1").await;
    tab.click("#chip-failed");
    tab.click("#chip-degraded");
    tab.until("document.getElementById('count').innerText.startsWith('8 works')").await;
    take(&tab, "page-sources");
    stage.stop().await;
}

/// Works of another source under these names.
fn renamed_works(names: &[&str], other: &SourceStatus) -> SourceStatus {
    let mut status = fleet(0);
    for (name, first) in names.iter().zip(["dns", "ingress", "logging"]) {
        for (found, there) in other.works.iter().filter(|(key, _)| key.work.as_str() == first) {
            let mut work = there.clone();
            work.state = work.state.max(State::Progressing);
            status.works.insert(key(found.cluster.as_str(), name), work);
        }
    }
    status
}

/// Forty clusters with various problems.
fn fleet_with_problems() -> SourceStatus {
    let mut status = fleet(40);
    let failed = key("edge-berlin-001", "shop");
    status.works.insert(failed.clone(), work(&failed, State::Failed, 7));
    let lost = cluster_name(5);
    status.unreachable.insert(key(&lost, "shop").cluster);
    hold(&mut status, &[cluster_name(3), cluster_name(11)]);
    status
}

async fn open(tab: &Tab<'_>, cluster: &str, work: &str) {
    tab.eval(&format!("location.hash = 'source=fleet&cluster={cluster}&work={work}'"));
    tab.until("document.querySelectorAll('#panel .object').length > 0").await;
}

fn take(tab: &Tab<'_>, name: &str) {
    // Wait for two frames, so that changes are drawn.
    tab.eval(
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))",
    );
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pictures");
    std::fs::create_dir_all(&folder).unwrap();
    let (path, picture) = (folder.join(format!("{name}.png")), tab.picture());
    println!("{} {} kB", path.display(), picture.len() / 1000);
    std::fs::write(path, picture).unwrap();
}
