//! What the page shows of fleets that are large, hostile or empty, in light and dark.

use gitwork_report::status::State;
use gitwork_report::status::view::StatusView;
use serde_json::{Value, json};

use super::{assert_clean, cell};
use crate::browser::fleet::{Stage, fleet, key, work};
use crate::browser::{Browser, Tab};

const NODES: &str = "document.getElementsByTagName('*').length";

#[tokio::test(flavor = "multi_thread")]
async fn thousand_clusters_render_visible_elements_only() {
    let stage = Stage::start(&["fleet"], 0).await;
    let mut status = fleet(1_000);
    stage.publish(&status);
    let browser = Browser::start();
    let tab = browser.tab(1280, 760);
    tab.open(&stage.url());
    tab.until("document.querySelectorAll('[role=gridcell]').length > 100").await;
    let works = status.works.len();
    assert_eq!(
        tab.eval("document.getElementById('count').innerText"),
        format!("{works} works on 1000 clusters")
    );
    let nodes = |tab: &Tab<'_>| tab.eval(NODES).as_u64().unwrap();
    assert!(nodes(&tab) < 2_000, "{}", nodes(&tab));
    // All of it can be got at.
    tab.eval("document.getElementById('grid').scrollTop = 1e9");
    tab.until(&format!("{} !== undefined", cell("edge-zurich-125", "storage"))).await;
    assert!(nodes(&tab) < 2_000, "{}", nodes(&tab));
    // A change is one short message, and touches one cell.
    let before = tab.messages().len();
    let one = key("edge-zurich-125", "storage");
    status.works.insert(one.clone(), work(&one, State::Failed, 0));
    stage.publish(&status);
    tab.until(&format!("{} === 'failed'", cell("edge-zurich-125", "storage"))).await;
    let sent: Vec<_> =
        tab.messages().split_off(before).into_iter().filter(|(name, _)| name != "beat").collect();
    assert!(
        matches!(sent.as_slice(), [(name, size)] if name == "change" && *size < 1_000),
        "{sent:?}"
    );
    assert_clean(&tab, &stage);
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_works_render_visible_columns_only() {
    let stage = Stage::start(&["fleet"], 0).await;
    let mut status = fleet(0);
    for number in 0..1_000 {
        let one = key(&format!("edge-{}", number % 50), &format!("work-{number}"));
        status.works.insert(one.clone(), work(&one, State::Available, 3));
    }
    stage.publish(&status);
    let browser = Browser::start();
    let tab = browser.tab(1280, 760);
    tab.open(&stage.url());
    tab.until("document.querySelectorAll('[role=gridcell]').length > 100").await;
    assert_eq!(tab.eval("document.getElementById('grid').ariaColCount"), "1001");
    assert!(tab.eval(NODES).as_u64().unwrap() < 4_500, "{}", tab.eval(NODES));
    tab.eval("document.getElementById('grid').scrollLeft = 1e9");
    tab.until(&format!("{} === 'none'", cell("edge-0", "work-999"))).await;
    assert!(tab.eval(NODES).as_u64().unwrap() < 4_500, "{}", tab.eval(NODES));
    assert_clean(&tab, &stage);
}

/// Texts that would be markup, code or chaos if they were anything but text.
fn hostile() -> [String; 6] {
    [
        "<img src=x onerror=\"window.hit=1\"><script>window.hit=1</script>".into(),
        "\" onmouseover=\"window.hit=1\" javascript:window.hit=1".into(),
        "\u{202e}gnp.exe \u{2066}abc \u{200f}".into(),
        "\u{1b}[31mred\u{7}\u{0}\r\nsecond line".into(),
        "שלום עולם مرحبا بالعالم".into(),
        "W".repeat(5_000),
    ]
}

/// The status of a work with these texts in every field that an agent sets.
fn hostile_report(texts: &[String]) -> Value {
    let values: Vec<_> = texts
        .iter()
        .map(|text| json!({ "name": text, "fieldValue": { "type": "String", "string": text } }))
        .collect();
    let conditions: Vec<_> = texts
        .iter()
        .map(|text| {
            json!({ "type": text, "status": text, "reason": text, "message": text,
                    "lastTransitionTime": text, "observedGeneration": 1 })
        })
        .collect();
    let mut applied = vec![json!({
        "type": "Applied", "status": "False", "message": texts[0], "observedGeneration": 1,
    })];
    applied.extend(conditions);
    json!({
        "conditions": applied,
        "resourceStatus": { "manifests": [{
            "resourceMeta": { "kind": texts[0], "namespace": texts[2], "name": texts[4] },
            "conditions": [{ "type": "Applied", "status": "False", "message": texts[0] }],
            "statusFeedback": { "values": values },
        }] },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_messages_are_rendered_as_text() {
    let stage = Stage::start(&["fleet"], 0).await;
    let texts = hostile();
    let reported = hostile_report(&texts);
    let one = key("edge-1", "web");
    let mut bad = work(&one, State::Failed, 1);
    bad.view = StatusView::of(&reported, 1, 1).into();
    bad.why = Some(texts.concat().into());
    let mut status = fleet(0);
    status.works = [(one, bad)].into_iter().collect();
    status.errors = 1;
    status.first_error = Some(texts.concat());
    stage.publish(&status);
    stage.source_errors[0].send_replace(Some(texts.concat()));
    let browser = Browser::start();
    let tab = browser.tab(1280, 760);
    tab.open(&format!("{}#source=fleet&cluster=edge-1&work=web", stage.url()));
    tab.until("document.querySelectorAll('#panel .object').length === 1").await;
    tab.until("document.querySelectorAll('#sources .note.bad').length === 2").await;
    let text = tab.eval("document.body.textContent").as_str().unwrap().to_owned();
    for shown in [
        "<img src=x onerror=\"window.hit=1\"><script>window.hit=1</script>",
        "\\u{202e}gnp.exe",
        "\\u{1b}[31mred\\u{7}\\u{0}\\r",
        "שלום",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    assert!(!text.contains(['\u{202e}', '\u{2066}', '\u{1b}', '\u{0}']), "{text}");
    assert_eq!(tab.eval("window.hit === undefined"), true);
    assert_eq!(
        tab.eval(
            "document.querySelectorAll('main img, main script, aside img, aside script').length"
        ),
        0
    );
    // Long words stay where they belong.
    for part in [
        "document.documentElement",
        "document.getElementById('panel-content')",
        "document.querySelector('main')",
    ] {
        assert_eq!(tab.eval(&format!("{part}.scrollWidth <= {part}.clientWidth")), true, "{part}");
    }
    assert_clean(&tab, &stage);
}

#[tokio::test(flavor = "multi_thread")]
async fn content_security_policy_blocks_inline_and_foreign_scripts() {
    let stage = Stage::start(&["fleet"], 0).await;
    let browser = Browser::start();
    let tab = browser.tab(800, 600);
    tab.open(&stage.url());
    tab.until("document.getElementById('live')?.innerText === 'Live'").await;
    tab.until("document.getElementById('empty').innerText.includes('No works yet')").await;
    assert_clean(&tab, &stage);
    let tried = tab.eval(
        "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'done'; } catch (error) { \
            return error.name; } })()",
    );
    assert_eq!(tried, "TypeError", "no text becomes markup");
    tab.eval(
        "(() => { const s = document.createElement('img'); s.src = 'http://127.0.0.2:9/x.png'; \
            document.body.append(s); })()",
    );
    tab.until("document.querySelector('img[src*=\"127.0.0.2\"]').complete").await;
    assert!(tab.complaints().iter().any(|reported| reported.contains("Content Security Policy")));
}

#[tokio::test(flavor = "multi_thread")]
async fn light_and_dark_themes_have_enough_contrast() {
    let stage = Stage::start(&["fleet"], 0).await;
    let mut status = fleet(3);
    // One of each state.
    for (number, state) in State::ALL.into_iter().enumerate() {
        let one = key("edge-all", &format!("work-{number}"));
        status.works.insert(one.clone(), work(&one, state, 3));
    }
    stage.publish(&status);
    let browser = Browser::start();
    let tab = browser.tab(1280, 760);
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        tab.set_scheme(scheme);
        tab.open(&stage.url());
        tab.until("document.querySelectorAll('.chip').length === 11").await;
        tab.until("document.querySelectorAll('[role=gridcell]').length > 20").await;
        let poor = tab.eval(CONTRASTS);
        assert_eq!(poor, json!([]), "{scheme}: too little contrast (WCAG AA asks for 4.5)");
        grounds.push(tab.eval("getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(grounds[0], grounds[1]);
    tab.eval("document.getElementById('count').style.color = '#555'");
    assert_eq!(tab.eval(CONTRASTS).as_array().unwrap().len(), 1, "the measure sees what is poor");
    assert_clean(&tab, &stage);
}

/// Every element with text or a symbol of its own whose ink differs too little from its ground.
const CONTRASTS: &str = r"(() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgb = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const part = (c) => ((c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = rgb(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim() !== '');
    if (!own && !element.matches('.icon')) continue;
    if (!element.checkVisibility() || element.closest('noscript, .sprite, .unseen')) continue;
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio >= 4.5) continue;
    const name = element.className.baseVal ?? element.className;
    poor.push(`${element.parentElement.className}>${name} ${ratio.toFixed(2)}`);
  }
  return [...new Set(poor)];
})()";
