//! Makes the pictures of the status page in `docs/pictures`: `cargo run --example pictures`. With `--serve` it serves the
//! page with its made-up fleet on 127.0.0.1:8081 until it is interrupted, to be looked at while working on it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a program for those who work on gitwork"
)]

#[path = "../tests/browser/mod.rs"]
mod browser;

use std::path::Path;
use std::sync::Arc;

use browser::fleet::{Stage, cluster_name, fleet, hold, key, work};
use browser::{Browser, Tab};
use gitwork::core::status::State;
use gitwork::core::status::source::SourceStatus;

#[tokio::main]
async fn main() {
    let is_serving = std::env::args().any(|argument| argument == "--serve");
    let stage = Stage::start(&["fleet"], if is_serving { 8081 } else { 0 }).await;
    stage.tell(&busy());
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
    several(&browser).await;
}

/// Three sources, one of which cannot be read; what somebody has to look at is picked out.
async fn several(browser: &Browser) {
    let stage = Stage::start(&["fleet", "monitoring", "policies"], 0).await;
    let monitoring = Arc::new(of(&["grafana", "loki", "prometheus"], &fleet(16)));
    stage.feeds[1].send_replace(Some(monitoring));
    stage.feeds[2].send_replace(Some(Arc::new(of(&["kyverno"], &fleet(16)))));
    stage.troubles[2].send_replace(Some(
        "cannot fetch https://github.com/acme/policies.git: the server refuses the credentials (401)".into(),
    ));
    stage.tell(&busy());
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

/// The first works of another source, under these names.
fn of(names: &[&str], other: &SourceStatus) -> SourceStatus {
    let mut status = fleet(0);
    for (name, first) in names.iter().zip(["dns", "ingress", "logging"]) {
        for (found, there) in other.works.iter().filter(|(key, _)| key.work.as_str() == first) {
            let mut told = there.clone();
            told.state = told.state.max(State::Progressing);
            status.works.insert(key(found.cluster.as_str(), name), told);
        }
    }
    status
}

/// Forty clusters as a team would find them on a busy day.
fn busy() -> SourceStatus {
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
    // Two frames, so that what was changed is drawn.
    tab.eval(
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))",
    );
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/pictures");
    std::fs::create_dir_all(&folder).unwrap();
    let (path, picture) = (folder.join(format!("{name}.png")), tab.picture());
    println!("{} {} kB", path.display(), picture.len() / 1000);
    std::fs::write(path, picture).unwrap();
}
