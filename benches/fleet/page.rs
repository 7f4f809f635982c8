//! The status page in a real browser, headless Chromium, on the same machine.

use std::time::Instant;

use gitwork_report::status::State;

use super::browser::Browser;
use super::browser::fleet::{Stage, key, work};
use super::repository::Layout;
use super::status_branch::available_works;

/// Rows that the page scrolls with each frame, and for how long.
const SCROLL: &str = "(async () => { const grid = document.getElementById('grid'); \
    let frames = 0, longest = 0, last = performance.now(); const end = last + 3000; \
    await new Promise(done => { const step = () => { const now = performance.now(); \
    longest = Math.max(longest, now - last); last = now; frames += 1; grid.scrollTop += 60; \
    if (now < end) requestAnimationFrame(step); else done(); }; requestAnimationFrame(step); }); \
    return [frames / 3, longest]; })()";

/// Measures the page with so many works.
pub async fn page(layout: Layout) {
    let Layout { works, clusters, .. } = layout;
    let stage = Stage::start(&["fleet"], 0).await;
    let mut status = available_works(layout);
    stage.publish(&status);
    let browser = Browser::start();
    let tab = browser.tab(1280, 760);
    tab.open(&stage.url());
    tab.until("document.querySelectorAll('[role=gridcell]').length > 100").await;
    // Counts from the start of the navigation, and is read up to 20 ms late.
    let shown = tab.eval("performance.now()").as_f64().unwrap();
    let sizes = tab.messages();
    let (whole, size) = sizes.iter().max_by_key(|(_, size)| *size).unwrap();
    println!(
        "| page of {works} works on {clusters} clusters, until works are shown | {shown:.0} ms; \
         the largest message, {whole:?}, has {} KB |",
        size / 1_000
    );
    let frames = tab.eval(SCROLL);
    println!(
        "| frames a second while it scrolls | {:.0}, the longest took {:.0} ms |",
        frames[0].as_f64().unwrap(),
        frames[1].as_f64().unwrap()
    );
    tab.eval("document.getElementById('grid').scrollTop = 0");
    let before = tab.messages().len();
    let one = key(&layout.namespace(0), &layout.name(0));
    status.works.insert(one.clone(), work(&one, State::Failed, 0));
    let start = Instant::now();
    stage.publish(&status);
    let label = format!("{}, {}: ", one.cluster, one.work);
    let cell = format!("document.querySelector('[aria-label^=\"{label}\"]')?.dataset.state");
    tab.until(&format!("{cell} === 'failed'")).await;
    let sent: Vec<_> = tab.messages().split_off(before);
    println!(
        "| one changed work of them, until it is shown | {} ms; messages: {sent:?} |",
        start.elapsed().as_millis()
    );
    stage.stop().await;
}
