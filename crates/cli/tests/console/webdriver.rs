//! A client of WebDriver, which is JSON over HTTP, and the driver that it speaks to.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::http;
use crate::process::PATIENCE;

/// How an element is named in WebDriver.
pub(crate) const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A running driver with one browser. Dropping it ends both.
pub(crate) struct Driver {
    process: Child,
    address: SocketAddr,
    session: String,
    profile: PathBuf,
}

impl Driver {
    /// Starts a driver and a browser; `None` if they are not installed.
    pub(crate) async fn start() -> Option<Driver> {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let profile = std::env::temp_dir().join(format!("reveille-browser-{}-{number}", std::process::id()));
        let _ = std::fs::create_dir_all(&profile);
        // A free port: the driver says which one it got, but only on a terminal of its own format.
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let spawned = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .args(["--log-level=SEVERE"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A group of its own, so that the browser ends with the driver.
            .process_group(0)
            .spawn();
        let Ok(process) = spawned else {
            return reveille_pg::testing::skip("chromium and chromium-driver: scripts/chromium.sh installs them");
        };
        let mut driver = Driver { process, address, session: String::new(), profile };
        http::eventually_connected(address).await;
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            &format!("--user-data-dir={}", driver.profile.display()),
        ];
        let capabilities = json!({
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments, "binary": chromium()},
            "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": 60_000, "pageLoad": 60_000},
        });
        let made = driver.ask("POST", "/session", json!({"capabilities": {"alwaysMatch": capabilities}})).await;
        driver.session = made["sessionId"].as_str().expect("a session").to_owned();
        Some(driver)
    }

    /// A command of the session, such as `/url`.
    pub(crate) async fn command(&self, method: &str, command: &str, body: Value) -> Value {
        self.ask(method, &format!("/session/{}{command}", self.session), body).await
    }

    /// The same; the error's message if it fails.
    pub(crate) async fn try_command(&self, method: &str, command: &str, body: Value) -> Result<Value, String> {
        self.try_ask(method, &format!("/session/{}{command}", self.session), body).await
    }

    async fn ask(&self, method: &str, path: &str, body: Value) -> Value {
        self.try_ask(method, path, body).await.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    async fn try_ask(&self, method: &str, path: &str, body: Value) -> Result<Value, String> {
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let asked = timeout(PATIENCE, exchange(self.address, method, path, &body)).await;
        let answer = http::parse(&asked.expect("an answer in time").expect("an answer"));
        let value = answer.json()["value"].take();
        match answer.status {
            200 => Ok(value),
            _ => Err(format!("{} {}", value["error"], value["message"])),
        }
    }
}

/// Sends a request and reads the answer by its length: a driver keeps connections open.
async fn exchange(address: SocketAddr, method: &str, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n");
    stream.write_all(format!("{head}content-length: {length}\r\n\r\n{body}").as_bytes()).await?;
    let mut answer = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&answer);
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
            if length.is_some_and(|length| answer.len() >= head.len() + 4 + length) {
                return Ok(text.into_owned());
            }
        }
        if stream.read_buf(&mut answer).await? == 0 {
            return Ok(String::from_utf8_lossy(&answer).into_owned());
        }
    }
}

/// The browser; a driver would look for Google's.
fn chromium() -> String {
    let found =
        ["/usr/bin/chromium", "/usr/bin/chromium-browser"].into_iter().find(|path| std::path::Path::new(path).exists());
    found.unwrap_or("chromium").to_owned()
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The session first, so that the browser can leave its profile; then the group, in case it does not.
        let end = || -> std::io::Result<()> {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            write!(
                stream,
                "DELETE /session/{} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
                self.session
            )?;
            stream.read_to_end(&mut Vec::new()).map(drop)
        };
        let _ = end();
        if let Some(group) = rustix::process::Pid::from_raw(self.process.id() as i32) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}
