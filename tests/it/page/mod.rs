//! The status page: over HTTP, and as a real browser shows it.

mod display;
mod interaction;
mod live;
mod server;

use crate::browser::Tab;
use crate::browser::fleet::Stage;

/// The state of a cell as the page shows it, as a JavaScript expression.
fn cell(cluster: &str, work: &str) -> String {
    format!("document.querySelector('[aria-label^=\"{cluster}, {work}: \"]')?.dataset.state")
}

/// Nothing went wrong in the browser, and it asked nobody else.
#[track_caller]
fn assert_clean(tab: &Tab<'_>, stage: &Stage) {
    assert_eq!(tab.complaints(), Vec::<String>::new());
    let requests = tab.requests();
    assert!(requests.len() > 5, "{requests:?}");
    for request in requests {
        assert!(request.starts_with(&stage.url()), "{request}");
    }
}
