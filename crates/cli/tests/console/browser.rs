//! A browser, as a test uses it.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::process::PATIENCE;
use crate::webdriver::{Driver, ELEMENT};

/// Between two looks at a page that a test waits for.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The theme that the system asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theme {
    Dark,
    Light,
}

/// A window of a fresh browser.
pub(crate) struct Browser {
    driver: Driver,
}

/// Widths: a laptop, and a small phone.
pub(crate) const LAPTOP: (u32, u32) = (1280, 860);
pub(crate) const PHONE: (u32, u32) = (375, 780);

impl Browser {
    /// A browser; `None` if there is none here, which is reported.
    pub(crate) async fn start() -> Option<Browser> {
        let browser = Browser { driver: Driver::start().await? };
        browser.resize(LAPTOP).await;
        Some(browser)
    }

    /// Goes to an address and waits until it is loaded.
    pub(crate) async fn open(&self, url: &str) {
        self.driver.command("POST", "/url", json!({"url": url})).await;
    }

    /// The address of the page.
    pub(crate) async fn address(&self) -> String {
        self.driver.command("GET", "/url", Value::Null).await.as_str().unwrap_or_default().to_owned()
    }

    /// Runs a script in the page: `return document.title`.
    pub(crate) async fn run(&self, script: &str) -> Value {
        self.driver.command("POST", "/execute/sync", json!({"script": script, "args": []})).await
    }

    /// Waits until an expression is true in the page.
    pub(crate) async fn until(&self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        let script = format!("return Boolean({expression});");
        loop {
            // While a page loads there is none to ask.
            let asked = json!({"script": script, "args": []});
            if self.driver.try_command("POST", "/execute/sync", asked).await == Ok(Value::Bool(true)) {
                return;
            }
            if Instant::now() > deadline {
                panic!("never became true: {expression}\n{}", self.text("body").await);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until an element matches.
    pub(crate) async fn appears(&self, selector: &str) {
        self.until(&format!("document.querySelector({})", json!(selector))).await;
    }

    /// The visible text of the first element that matches; empty if there is none.
    pub(crate) async fn text(&self, selector: &str) -> String {
        let text = self.run(&format!("return document.querySelector({})?.innerText ?? ''", json!(selector))).await;
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the visible text of an element contains `part`.
    pub(crate) async fn says(&self, selector: &str, part: &str) {
        self.until(&format!("document.querySelector({})?.innerText.includes({})", json!(selector), json!(part))).await;
    }

    async fn element(&self, selector: &str) -> String {
        self.appears(selector).await;
        let found = json!({"using": "css selector", "value": selector});
        self.driver.command("POST", "/element", found).await[ELEMENT].as_str().expect("an element").to_owned()
    }

    /// Clicks the first element that matches, as a visitor does: it must be visible.
    pub(crate) async fn click(&self, selector: &str) {
        self.act(selector, "click", json!({})).await;
    }

    /// A command to the first element that matches. It is found again if a live part was exchanged meanwhile.
    async fn act(&self, selector: &str, command: &str, body: Value) {
        loop {
            let element = self.element(selector).await;
            let path = format!("/element/{element}/{command}");
            match self.driver.try_command("POST", &path, body.clone()).await {
                Ok(_) => return,
                Err(error) if error.contains("stale element reference") => {}
                Err(error) => panic!("{command} of {selector}: {error}"),
            }
        }
    }

    /// Replaces the text of a field.
    pub(crate) async fn fill(&self, selector: &str, text: &str) {
        self.act(selector, "clear", json!({})).await;
        self.act(selector, "value", json!({"text": text})).await;
    }

    /// Types keys, one after the other; the first `held` of them is held down meanwhile (`\u{e009}` is Control).
    pub(crate) async fn press(&self, keys: &str, held: Option<char>) {
        let step = |kind: &str, key: char| json!({"type": kind, "value": key});
        let down = held.map(|key| step("keyDown", key));
        let typed = keys.chars().flat_map(|key| [step("keyDown", key), step("keyUp", key)]);
        let up = held.map(|key| step("keyUp", key));
        let steps: Vec<Value> = down.into_iter().chain(typed).chain(up).collect();
        let actions = json!({"actions": [{"type": "key", "id": "keyboard", "actions": steps}]});
        self.driver.command("POST", "/actions", actions).await;
    }

    /// The size of the page, without the frame of the window.
    pub(crate) async fn resize(&self, (width, height): (u32, u32)) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// What `prefers-color-scheme` says.
    pub(crate) async fn theme(&self, theme: Theme) {
        let value = if theme == Theme::Dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        self.devtools("Emulation.setEmulatedMedia", features).await;
    }

    /// Whether pages may run scripts, from the next one on.
    pub(crate) async fn scripts(&self, allowed: bool) {
        self.devtools("Emulation.setScriptExecutionDisabled", json!({"value": !allowed})).await;
    }

    async fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.driver.command("POST", "/goog/cdp/execute", json!({"cmd": command, "params": parameters})).await
    }

    /// Writes a picture of the window.
    pub(crate) async fn picture(&self, file: &Path) {
        let shot = self.driver.command("GET", "/screenshot", Value::Null).await;
        let bytes = base64(shot.as_str().unwrap_or_default());
        std::fs::write(file, bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }

    /// What the browser has logged since the last call: errors of scripts, requests that failed, violations of the
    /// policy.
    pub(crate) async fn log(&self) -> Vec<String> {
        let entries = self.driver.command("POST", "/se/log", json!({"type": "browser"})).await;
        let bad = |entry: &&Value| matches!(entry["level"].as_str(), Some("SEVERE" | "WARNING"));
        let entries = entries.as_array().cloned().unwrap_or_default();
        entries.iter().filter(bad).map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Checks the page as it is: nothing was logged, axe finds no fault, nothing is wider than the window.
    pub(crate) async fn check(&self) {
        let at = self.address().await;
        let log = self.log().await;
        assert!(log.is_empty(), "{at} logged:\n{}", log.join("\n"));
        let wide = self.run("return document.documentElement.scrollWidth - innerWidth").await;
        assert!(wide.as_i64().is_some_and(|by| by <= 0), "{at} is {wide} pixels wider than its window");
        let faults = self.faults().await;
        assert!(faults.is_empty(), "{at} is hard to use for some:\n{}", faults.join("\n"));
    }

    /// What axe finds; nothing if there is no axe here, which is reported.
    async fn faults(&self) -> Vec<String> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
            |folder| Path::new(&folder).to_owned(),
        );
        let Ok(axe) = std::fs::read_to_string(target.join("axe/axe.min.js")) else {
            reveille_pg::testing::skip::<()>("axe-core: scripts/chromium.sh fetches it");
            return Vec::new();
        };
        let script = format!(
            "const done = arguments[arguments.length - 1];\n{axe}\n;axe.run(document, {{resultTypes: ['violations']}})\
             .then((found) => done(found.violations.map((it) => `${{it.id}} (${{it.impact}}): ${{it.help}}: ` + \
             it.nodes.map((node) => node.html.slice(0, 200) + ' ' + node.failureSummary).join('; '))), (error) => done([String(error)]));"
        );
        let found = self.driver.command("POST", "/execute/async", json!({"script": script, "args": []})).await;
        found.as_array().into_iter().flatten().map(|it| it.as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// Decodes base64, without a crate for one use.
fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u8> = text.bytes().filter_map(digit).collect();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let word = group.iter().enumerate().fold(0u32, |word, (at, digit)| word | u32::from(*digit) << (18 - 6 * at));
        bytes.extend_from_slice(&word.to_be_bytes()[1..group.len()]);
    }
    bytes
}
