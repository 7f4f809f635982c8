//! Chromium over the DevTools protocol: JSON messages, each ended by a zero byte, on the browser's
//! file descriptors 3 and 4. The browser ends when this pipe closes, so it outlives no test.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The timeout of one response. It takes milliseconds, but compilers may run beside the tests.
const ANSWER: Duration = Duration::from_secs(300);
/// The timeout of a wait for a page.
const DEADLINE: Duration = Duration::from_secs(300);

/// The program's names. Debian's package has `chromium`.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

const INSTALL: &str = "the status page is tested in a real browser: install Chromium (Debian and \
    Ubuntu: \
    apt-get install chromium), so that `chromium` is on the PATH";

/// Moves the pipes to the descriptors that Chromium uses.
const ON_3_AND_4: &str = r#"exec "$@" 3<&0 4>&1 0</dev/null 1>&2"#;

type Answers = Arc<Mutex<HashMap<u64, mpsc::Sender<Value>>>>;
type Events = Arc<Mutex<Vec<Value>>>;

/// A running browser.
pub struct Browser {
    child: Child,
    input: Mutex<ChildStdin>,
    next: AtomicU64,
    answers: Answers,
    events: Events,
    _profile: TempDir,
}

/// One page of the browser.
pub struct Tab<'a> {
    browser: &'a Browser,
    session: String,
}

fn program() -> &'static str {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    let found = NAMES.into_iter().find(|name| folders.iter().any(|f| f.join(name).is_file()));
    found.unwrap_or_else(|| panic!("{INSTALL}"))
}

impl Browser {
    /// # Panics
    /// If there is no browser; the message lists what to install.
    pub fn start() -> Browser {
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", ON_3_AND_4, "sh", program()])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--remote-debugging-pipe", "--no-first-run", "--disable-background-networking"])
            .args(["--disable-component-update", "--hide-scrollbars", "--lang=en-US"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = Mutex::new(child.stdin.take().unwrap());
        let (answers, events) = (Answers::default(), Events::default());
        let output = child.stdout.take().unwrap();
        let (to, seen) = (answers.clone(), events.clone());
        thread::spawn(move || listen(output, &to, &seen));
        Browser { child, input, next: AtomicU64::new(1), answers, events, _profile: profile }
    }

    /// Calls the browser, or one of its tabs.
    fn ask(&self, session: Option<&str>, method: &str, params: &Value) -> Result<Value, String> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = mpsc::channel();
        self.answers.lock().unwrap().insert(id, answer);
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.lock().unwrap().write_all(&bytes).map_err(|why| format!("{method}: {why}"))?;
        let answer = answered.recv_timeout(ANSWER).map_err(|why| format!("{method}: {why}"))?;
        match answer.get("error") {
            Some(error) => Err(format!("{method}: {error}")),
            None => Ok(answer["result"].clone()),
        }
    }

    /// A new page of this size in pixels. It shares nothing with other pages.
    pub fn tab(&self, width: u32, height: u32) -> Tab<'_> {
        let ask = |method, params| self.ask(None, method, &params).unwrap();
        let context = ask("Target.createBrowserContext", json!({}))["browserContextId"].clone();
        let target = ask(
            "Target.createTarget",
            json!({ "url": "about:blank", "browserContextId": context }),
        );
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = ask("Target.attachToTarget", attach);
        let tab =
            Tab { browser: self, session: attached["sessionId"].as_str().unwrap().to_owned() };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            tab.ask(&format!("{domain}.enable"), &json!({}));
        }
        tab.resize(width, height);
        tab
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Reads the browser's messages until it ends.
fn listen(output: ChildStdout, answers: &Answers, events: &Events) {
    for message in BufReader::new(output).split(0) {
        let Ok(message) = message else { return };
        let Ok(message) = serde_json::from_slice::<Value>(&message) else { continue };
        match message["id"].as_u64() {
            Some(id) => {
                if let Some(answer) = answers.lock().unwrap().remove(&id) {
                    // The caller of a late response has gone.
                    let _sent = answer.send(message);
                }
            }
            None => events.lock().unwrap().push(message),
        }
    }
}

impl Tab<'_> {
    fn ask(&self, method: &str, params: &Value) -> Value {
        self.browser.ask(Some(&self.session), method, params).unwrap()
    }

    fn events(&self, method: &str) -> Vec<Value> {
        let events = self.browser.events.lock().unwrap();
        let ours =
            |event: &&Value| event["sessionId"] == *self.session && event["method"] == method;
        events.iter().filter(ours).map(|event| event["params"].clone()).collect()
    }

    pub fn resize(&self, width: u32, height: u32) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", &size);
    }

    /// `dark` or `light`.
    pub fn set_scheme(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.ask("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    pub fn open(&self, url: &str) {
        self.ask("Page.navigate", &json!({ "url": url }));
    }

    /// The value of a JavaScript expression in the page.
    pub fn eval(&self, expression: &str) -> Value {
        self.try_eval(expression).unwrap_or_else(|why| panic!("{expression}: {why}"))
    }

    fn try_eval(&self, expression: &str) -> Result<Value, String> {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.browser.ask(Some(&self.session), "Runtime.evaluate", &params)?;
        match answer.get("exceptionDetails") {
            Some(thrown) => Err(thrown.to_string()),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// Waits until an expression is true.
    pub async fn until(&self, expression: &str) {
        let mut last = String::new();
        let deadline = tokio::time::Instant::now() + DEADLINE;
        while tokio::time::Instant::now() < deadline {
            // A loading page cannot evaluate the expression yet.
            last = match self.try_eval(expression) {
                Ok(Value::Bool(true)) => return,
                Ok(other) => other.to_string(),
                Err(why) => why,
            };
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let text = self.try_eval("document.body.innerText").unwrap_or_default();
        panic!("waited for {expression}: {last}\nthe page shows: {text}");
    }

    /// Presses and releases a key, by its name in JavaScript.
    pub fn key(&self, key: &str) {
        self.key_with(key, 0);
    }

    /// As `key`, with the modifiers of the DevTools protocol: 2 is Ctrl, 8 is Shift.
    pub fn key_with(&self, key: &str, modifiers: u8) {
        let code = match key {
            "Enter" => 13,
            "Escape" => 27,
            "Tab" => 9,
            "PageUp" => 33,
            "PageDown" => 34,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            other => u32::from(*other.to_ascii_uppercase().as_bytes().first().unwrap()),
        };
        let mut event = json!({
            "type": "keyDown", "key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers,
        });
        if key.len() == 1 {
            event["text"] = key.into();
        } else if key == "Enter" {
            event["text"] = "\r".into();
        }
        self.ask("Input.dispatchKeyEvent", &event);
        event["type"] = "keyUp".into();
        self.ask("Input.dispatchKeyEvent", &event);
    }

    /// Types into the focused element.
    pub fn write(&self, text: &str) {
        self.ask("Input.insertText", &json!({ "text": text }));
    }

    /// Clicks into the middle of the element of the selector.
    pub fn click(&self, selector: &str) {
        let selector = serde_json::to_string(selector).unwrap();
        let place = self.eval(&format!(
            "(() => {{ const r = document.querySelector({selector}).getBoundingClientRect(); \
             return [r.x + r.width / 2, r.y + r.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({
                "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1,
            });
            self.ask("Input.dispatchMouseEvent", &event);
        }
    }

    /// The page as a PNG.
    pub fn picture(&self) -> Vec<u8> {
        let answer = self.ask("Page.captureScreenshot", &json!({ "format": "png" }));
        let text = answer["data"].as_str().unwrap();
        base64::engine::general_purpose::STANDARD.decode(text).unwrap()
    }

    /// The browser's complaints: errors, exceptions, and violations of the page's policy.
    pub fn complaints(&self) -> Vec<String> {
        let logged = self.events("Log.entryAdded").into_iter().map(|event| event["entry"].clone());
        let errors =
            logged.filter(|entry| entry["level"] == "error" || entry["source"] == "security");
        let thrown = self.events("Runtime.exceptionThrown");
        errors.chain(thrown).map(|event| event.to_string()).collect()
    }

    /// The addresses that the page requested.
    pub fn requests(&self) -> Vec<String> {
        let sent = self.events("Network.requestWillBeSent");
        sent.iter().map(|event| event["request"]["url"].as_str().unwrap().to_owned()).collect()
    }

    /// The length in bytes of each received server-sent event, with its name.
    pub fn messages(&self) -> Vec<(String, usize)> {
        let got = self.events("Network.eventSourceMessageReceived");
        let read = |event: &Value| {
            let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
            (text("eventName"), text("data").len())
        };
        got.iter().map(read).collect()
    }
}
