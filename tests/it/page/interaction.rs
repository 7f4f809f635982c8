//! Somebody works with the page: keyboard, mouse, filter, and a daemon that goes away.

use gitwork_core::model::name::RepoPath;
use gitwork_core::plan::rollout_progress::{GroupProgress, WaveProgress};
use gitwork_report::status::State;
use gitwork_report::status::source::WorkState;

use super::{assert_clean, cell};
use crate::browser::fleet::{Stage, cluster_name, fleet, hold, key, work};
use crate::browser::{Browser, Tab};

#[tokio::test(flavor = "multi_thread")]
async fn page_is_usable_with_the_keyboard_alone() {
    let stage = Stage::start(&["fleet"], 0).await;
    let mut status = fleet(60);
    let one = key(&cluster_name(0), "logging");
    status.works.insert(one.clone(), work(&one, State::Failed, 7));
    stage.publish(&status);
    let browser = Browser::start();
    let tab = browser.tab(1280, 700);
    tab.open(&stage.url());
    tab.until("document.querySelectorAll('[role=gridcell]').length > 100").await;

    reach_matrix_by_tab(&tab);
    assert_eq!(tab.eval(ACTIVE), "edge-berlin-001, cert-manager: no such work");
    tab.key("Enter");
    assert_eq!(
        tab.eval("document.getElementById('panel').hidden"),
        true,
        "there is nothing to open"
    );
    for _ in 0..3 {
        tab.key("ArrowRight");
    }
    assert_eq!(tab.eval(ACTIVE), "edge-berlin-001, logging: failed");
    let outline = "getComputedStyle(document.querySelector('.cell.active')).outlineStyle";
    assert_eq!(tab.eval(outline), "solid", "one can see where one is");

    open_and_close_panel(&tab).await;
    walk_to_far_cells(&tab).await;

    // Into the filter and out again.
    tab.key("/");
    assert_eq!(tab.eval("document.activeElement.id"), "cluster");
    tab.write("zurich-003");
    tab.until("document.querySelectorAll('[role=rowheader]').length === 1").await;
    tab.key("Escape");
    assert_eq!(tab.eval("document.activeElement.id"), "grid");
    tab.until(&format!("({ACTIVE}).startsWith('edge-zurich-003, ')")).await;
    assert_clean(&tab, &stage);
}

/// The label of the cell that the keyboard is at.
const ACTIVE: &str = "document.getElementById(\
    document.activeElement.getAttribute('aria-activedescendant')).ariaLabel";

/// From the top of the page by Tab to the matrix.
fn reach_matrix_by_tab(tab: &Tab<'_>) {
    for _ in 0..40 {
        tab.key("Tab");
        if tab.eval("document.activeElement.id") == "grid" {
            break;
        }
    }
    assert_eq!(tab.eval("document.activeElement.id"), "grid");
    assert_eq!(tab.eval("document.activeElement.matches(':focus-visible')"), true);
}

/// Opens the panel of the active cell with Enter, and closes it with Escape.
async fn open_and_close_panel(tab: &Tab<'_>) {
    tab.key("Enter");
    tab.until("document.getElementById('panel').innerText.includes('has no signature')").await;
    assert_eq!(tab.eval("document.activeElement.id"), "panel-title");
    let address = "source=fleet&cluster=edge-berlin-001&work=logging";
    assert_eq!(tab.eval("location.hash.slice(1)"), address, "it can be sent to somebody");
    tab.key("Escape");
    assert_eq!(tab.eval("document.getElementById('panel').hidden"), true);
    assert_eq!(tab.eval("document.activeElement.id"), "grid");
    assert_eq!(tab.eval("location.hash"), "");
}

/// The active cell stays in sight, far down and back at the top.
async fn walk_to_far_cells(tab: &Tab<'_>) {
    tab.key_with("End", 2);
    tab.until(&format!("({ACTIVE}).startsWith('edge-zurich-007, ')")).await;
    let in_sight = "(() => { \
                    const c = document.querySelector('.cell.active').getBoundingClientRect(); \
                    const g = document.getElementById('grid').getBoundingClientRect(); \
                    return c.top > g.top + 30 && c.bottom <= g.bottom && \
                    c.left > g.left + 100 && c.right <= g.right; })()";
    assert_eq!(tab.eval(in_sight), true);
    tab.key("PageUp");
    tab.key("Home");
    tab.key("ArrowUp");
    tab.until(in_sight).await;
    tab.key_with("Home", 2);
    tab.until(&format!("({ACTIVE}).startsWith('edge-berlin-001, cert-manager')")).await;
    tab.until(in_sight).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn matrix_has_accessible_names() {
    let stage = Stage::start(&["fleet"], 0).await;
    let mut status = fleet(200);
    status.unreachable.insert(key("edge-berlin-002", "shop").cluster);
    stage.publish(&status);
    let browser = Browser::start();
    let tab = browser.tab(1280, 700);
    tab.open(&stage.url());
    tab.until("document.querySelectorAll('[role=gridcell]').length > 100").await;
    assert_eq!(
        tab.eval(
            "(() => { const g = document.getElementById('grid'); return [g.role, \
            g.ariaRowCount, g.ariaColCount]; })()"
        ),
        serde_json::json!(["grid", "201", "11"])
    );
    let rows = "[...document.querySelectorAll('[role=row]')].every((r) => Number(r.ariaRowIndex) \
        > 0 && r.children.length > 3)";
    assert_eq!(tab.eval(rows), true);
    // Every cell has its state as its name, and shows it by a symbol as well as by colour.
    let cells = "[...document.querySelectorAll('[role=gridcell]')]";
    let reported =
        "c.ariaLabel.includes(c.dataset.state === 'none' ? 'no such work' : c.dataset.state)";
    assert_eq!(tab.eval(&format!("{cells}.every((c) => {reported})")), true);
    let symbol = "c.dataset.state === 'none' || c.querySelector('use').getAttribute('href') === \
        '#i-' + c.dataset.state";
    assert_eq!(tab.eval(&format!("{cells}.every((c) => {symbol})")), true);
    let symbols = "new Set([...document.querySelectorAll('symbol')].map((s) => s.innerHTML)).size";
    assert!(tab.eval(symbols).as_u64().unwrap() >= 14, "symbols differ in form");
    let lost = "[...document.querySelectorAll('.row.lost')].map((r) => \
        r.innerText.includes('unreachable'))";
    assert_eq!(tab.eval(lost), serde_json::json!([true]));
    let unnamed = "[...document.querySelectorAll('button, input, select')].filter((e) => \
                   !e.ariaLabel && !e.innerText && !e.labels?.length).length";
    assert_eq!(tab.eval(unnamed), 0);
    assert_clean(&tab, &stage);
}

#[tokio::test(flavor = "multi_thread")]
async fn search_finds_clusters_works_and_states() {
    let stage = Stage::start(&["fleet", "monitoring"], 0).await;
    let mut status = fleet(40);
    hold(&mut status, &[cluster_name(3)]);
    stage.publish(&status);
    let one = key("edge-oslo-001", "grafana");
    let mut other = fleet(0);
    other.works.insert(one.clone(), work(&one, State::Progressing, 2));
    stage.feeds[1].send_replace(Some(std::sync::Arc::new(other)));
    let browser = Browser::start();
    let tab = browser.tab(1280, 700);
    tab.open(&stage.url());
    tab.until("document.querySelectorAll('[role=gridcell]').length > 100").await;
    tab.until("document.querySelectorAll('#sources li').length === 2").await;
    let count = "document.getElementById('count').innerText";
    let fill = |id: &str, text: &str| {
        tab.eval(&format!(
            "(() => {{ const e = document.getElementById('{id}'); e.value = '{text}'; \
             e.dispatchEvent(new Event(e.tagName === 'SELECT' ? 'change' : 'input')); }})()"
        ));
        tab.eval(count)
    };
    let works = |is_one: &dyn Fn(&str) -> bool| {
        status.works.keys().filter(|key| is_one(&key.to_string())).count()
    };
    let oslo = works(&|name| name.starts_with("edge-oslo-")) + 1;
    assert_eq!(fill("cluster", "edge-oslo-*"), format!("{oslo} works on 5 clusters"));
    assert_eq!(fill("work", "graf"), "1 work on 1 cluster");
    tab.until(&format!("{} === 'progressing'", cell("edge-oslo-001", "grafana"))).await;
    let two = works(&|name| {
        name.starts_with("edge-oslo-") && (name.ends_with("/shop") || name.ends_with("/dns"))
    });
    assert_eq!(fill("work", "shop, dns"), format!("{two} works on 5 clusters"));
    assert_eq!(
        fill("cluster", "oslo-00?"),
        "0 works on 0 clusters",
        "a pattern is for the whole name"
    );
    tab.until("document.getElementById('empty').innerText.includes('Nothing matches the filter')")
        .await;
    tab.click("#empty-clear");
    let all = tab.eval(count);
    assert!(all.as_str().unwrap().ends_with("works on 40 clusters"), "{all}");

    tab.click("#chip-held");
    let held = status.held[0].works;
    assert_eq!(tab.eval(count), format!("{held} works on 1 cluster"));
    assert_eq!(tab.eval("document.getElementById('chip-held').ariaPressed"), "true");
    tab.until("document.querySelectorAll('[role=rowheader]').length === 1").await;
    tab.click("#chip-held");
    assert_eq!(tab.eval(count), all);
    assert_eq!(fill("source", "1"), "1 work on 1 cluster");
    fill("source", "");
    // Works that need attention come first.
    fill("order", "worst");
    let states = status.works.values().map(|work| work.state);
    let worst = states.min().unwrap();
    tab.until(&format!(
        "[...document.querySelectorAll('[aria-rowindex=\"2\"] [role=gridcell]')].some((c) => \
            c.dataset.state === '{worst}')"
    ))
    .await;
    assert_clean(&tab, &stage);
}

#[tokio::test(flavor = "multi_thread")]
async fn held_plan_is_shown_with_its_approve_command() {
    let stage = Stage::start(&["fleet"], 0).await;
    let mut status = fleet(10);
    hold(&mut status, &[cluster_name(3)]);
    let hash = status.held[0].hash.to_string();
    stage.publish(&status);
    let browser = Browser::start();
    let tab = browser.tab(1280, 700);
    tab.open(&format!("{}#source=fleet&cluster=edge-oslo-001&work=dns", stage.url()));
    let command = format!(
        "gitwork approve {hash} --repo https://github.com/acme/fleet.git --branch main \
            --source-id fleet"
    );
    tab.until(&format!(
        "document.querySelector('#panel .command code')?.innerText === '{command}'"
    ))
    .await;
    let links = "[...document.querySelectorAll('#panel a')].map((a) => a.href)";
    let links = tab.eval(links);
    let commit = status.works.get(&key("edge-oslo-001", "dns")).unwrap().commit.unwrap();
    assert_eq!(links[0], format!("https://github.com/acme/fleet/commit/{commit}"));
    let folder = format!("https://github.com/acme/fleet/tree/{commit}/clusters/edge-oslo-001/dns");
    assert_eq!(links[1], folder);
    assert_eq!(
        tab.eval(
            "[...document.querySelectorAll('#panel a')].every((a) => \
            a.rel.includes('noopener') && a.target === '_blank')"
        ),
        true
    );
    tab.click("#sources summary");
    assert_eq!(tab.eval("document.querySelector('#sources .command code').innerText"), command);
    // Once it is approved, both say so.
    let mut status = fleet(10);
    status.errors = 0;
    stage.publish(&status);
    tab.until("document.querySelectorAll('.note.held').length === 0").await;
    assert_clean(&tab, &stage);
}

#[tokio::test(flavor = "multi_thread")]
async fn rollouts_are_bands_with_a_part_for_each_wave() {
    let stage = Stage::start(&["fleet"], 0).await;
    let mut status = fleet(10);
    let wave = |name: &str, clusters, done| WaveProgress {
        name: name.into(),
        clusters,
        done,
        waiting: clusters - done,
        ..WaveProgress::default()
    };
    let waves = vec![wave("lab", 2, 2), wave("bonn", 10, 4), wave("*", 30, 0)];
    let (group, content) = ("tills".to_owned(), "0".repeat(64));
    let open = GroupProgress { group, content, waves, ..GroupProgress::default() };
    let why = "waits for wave bonn of group tills, which nobody has approved";
    let held = GroupProgress {
        wave: Some("bonn".into()),
        waits_for: Some(why.into()),
        held: true,
        ..open.clone()
    };
    status.rollouts = vec![held, GroupProgress { group: "ended".into(), ..open }];
    stage.publish(&status);
    let browser = Browser::start();
    let tab = browser.tab(1280, 700);
    tab.open(&stage.url());
    tab.until("document.querySelectorAll('.rollout').length === 1").await;
    let line = tab.eval("document.querySelector('.rollout p').innerText");
    assert_eq!(line, format!("group tills: wave 2/3 bonn, 6/42 clusters; {why}"));
    let waves = "[...document.querySelectorAll('.waves li')].map((one) => one.innerText)";
    let shown: Vec<String> = serde_json::from_value(tab.eval(waves)).unwrap();
    let shown: Vec<&str> = shown.iter().flat_map(|one| one.split_whitespace()).collect();
    let shown = shown.join(" ");
    assert_eq!(shown, "lab 2 done bonn 4 done, 6 waiting last wave 30 waiting");
    let now = "document.querySelector('.waves [aria-current=step] .wave').innerText";
    assert_eq!(tab.eval(now), "bonn");
    let widths = "[...document.querySelectorAll('[aria-current=step] .part')].map((one) => \
                  Math.round(one.getBoundingClientRect().width))";
    let widths: Vec<f64> = serde_json::from_value(tab.eval(widths)).unwrap();
    assert!((widths[1] / widths[0] - 1.5).abs() < 0.1, "4 and 6 clusters: {widths:?}");
    assert_clean(&tab, &stage);

    status.rollouts.clear();
    stage.publish(&status);
    tab.until("document.querySelectorAll('.rollout').length === 0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn page_shows_lost_connection_and_reconnects() {
    let stage = Stage::start(&["fleet"], 0).await;
    stage.publish(&fleet(10));
    let browser = Browser::start();
    let tab = browser.tab(1280, 700);
    tab.open(&stage.url());
    tab.until("document.getElementById('live').innerText === 'Live'").await;
    tab.until("document.querySelectorAll('[role=gridcell]').length > 50").await;
    let (port, url) = (stage.address.port(), stage.url());
    stage.stop().await;
    tab.until("document.getElementById('live').innerText === 'Disconnected'").await;
    assert_eq!(tab.eval("document.getElementById('old').hidden"), false);
    let reported = tab.eval("document.getElementById('old').innerText");
    assert!(reported.as_str().unwrap().contains("Last update: "), "{reported}");
    assert_eq!(
        tab.eval("document.querySelectorAll('[role=gridcell]').length > 50"),
        true,
        "it stays"
    );

    let stage = Stage::start(&["fleet"], port).await;
    assert_eq!(stage.url(), url);
    let one = key("edge-berlin-001", "dns");
    let mut status = fleet(10);
    status.works.insert(one.clone(), work(&one, State::Failed, 0));
    stage.publish(&status);
    tab.until("document.getElementById('live').innerText === 'Live'").await;
    tab.until(&format!("{} === 'failed'", cell("edge-berlin-001", "dns"))).await;
    assert_eq!(tab.eval("document.getElementById('old').hidden"), true);
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_of_a_group_share_a_row_until_they_differ() {
    let stage = Stage::start(&["fleet"], 0).await;
    let mut status = fleet(0);
    let of_group = |cluster: &str, state| {
        let one = key(cluster, "till");
        let path = RepoPath::parse("groups/stores/till");
        (one.clone(), WorkState { path, ..work(&one, state, 0) })
    };
    let names: Vec<String> = (1..=20).map(|number| format!("store-{number}")).collect();
    status.works = names.iter().map(|name| of_group(name, State::Applied)).collect();
    stage.publish(&status);
    let browser = Browser::start();
    let tab = browser.tab(1280, 760);
    tab.open(&stage.url());
    let rows =
        "[...document.querySelectorAll('[role=rowheader]')].map((one) => one.innerText).sort()";
    let are = |names: &str| format!("JSON.stringify({rows}) === '{names}'");
    tab.until(&are(r#"["20 of stores"]"#)).await;
    let count = "document.getElementById('count').innerText";
    assert_eq!(tab.eval(count), "20 works on 20 clusters");
    let title = "document.querySelector('[role=rowheader]').title";
    assert!(tab.eval(title).as_str().unwrap().starts_with("store-1, store-2, store-3"));

    // One of them fails, and is seen.
    let (failed, state) = of_group("store-7", State::Failed);
    status.works.insert(failed, state);
    stage.publish(&status);
    tab.until(&are(r#"["19 of stores","store-7"]"#)).await;
    assert_eq!(tab.eval(&cell("store-7", "till")), "failed");
    assert_eq!(tab.eval(&cell("19 of stores", "till")), "applied");

    // Each one can be seen.
    let type_cluster = |text: &str| {
        format!(
            "(() => {{ const field = document.getElementById('cluster'); field.value = '{text}'; \
             field.dispatchEvent(new Event('input')); }})()"
        )
    };
    tab.eval(&type_cluster("store-1*"));
    tab.until(&format!("{rows}.length === 11")).await;
    tab.eval(&type_cluster(""));
    tab.until(&are(r#"["19 of stores","store-7"]"#)).await;
    tab.eval("document.getElementById('fold').click()");
    tab.until(&format!("{rows}.length > 15")).await;
    assert_clean(&tab, &stage);
}
