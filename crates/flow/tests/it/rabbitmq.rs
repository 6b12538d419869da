//! A private RabbitMQ, as `scripts/rabbitmq.sh` starts it. It stops when the process that started it ends, in any way.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/rabbitmq.sh");
/// Waits for a process to end, then stops the server and removes its folder.
const UNDERTAKER: &str =
    r#"while kill -0 "$1" 2>/dev/null; do sleep 1; done; "$2" stop "$3" >/dev/null 2>&1; rm -rf "$3""#;

/// The port of `rabbitmqctl`, independent of the server's settings.
const TOOLS: Range<u16> = 35_672..35_683;

pub(crate) struct Rabbit {
    folder: PathBuf,
    port: u16,
    tls: bool,
    pub(crate) url: String,
    /// Outlives this process, to stop the server.
    _undertaker: Child,
}

impl Rabbit {
    /// `None`, with a line that the test is skipped, if it is not installed.
    pub(crate) async fn start() -> Option<Rabbit> {
        Rabbit::start_as(false).await
    }

    /// A server at `amqps://localhost`, with a certificate of an authority of its own.
    pub(crate) async fn start_with_tls() -> Option<Rabbit> {
        Rabbit::start_as(true).await
    }

    async fn start_as(tls: bool) -> Option<Rabbit> {
        if !PathBuf::from("/usr/lib/rabbitmq/bin/rabbitmq-server").exists() {
            return reveille_pg::testing::skip("RabbitMQ, which is not installed");
        }
        let port = ports();
        let folder = std::env::temp_dir().join(format!("reveille-rabbitmq-{}-{port}", std::process::id()));
        let _undertaker = Command::new("sh")
            .args(["-c", UNDERTAKER, "sh", &std::process::id().to_string(), SCRIPT])
            .arg(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the process that stops the server");
        let mut rabbit = Rabbit { folder, port, tls, url: String::new(), _undertaker };
        rabbit.begin().await;
        Some(rabbit)
    }

    /// Starts it again.
    pub(crate) async fn begin(&mut self) {
        let folder = self.folder.to_str().expect("a folder").to_owned();
        let mut start = vec!["start".to_owned(), folder, self.port.to_string()];
        start.extend(self.tls.then(|| "tls".to_owned()));
        let started = run(start).await;
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        self.url = String::from_utf8(started.stdout).expect("an address").trim().to_owned();
    }

    /// Its address without TLS.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The certificate of the authority that signed the server's, in PEM.
    pub(crate) fn ca(&self) -> String {
        std::fs::read_to_string(self.folder.join("tls/ca.pem")).expect("a certificate")
    }

    /// Kills it.
    pub(crate) async fn kill(&self) {
        let pid = run(vec!["pid".to_owned(), self.folder.to_str().expect("a folder").to_owned()]).await;
        let pid = String::from_utf8(pid.stdout).expect("a process").trim().to_owned();
        let killed = Command::new("sh").args(["-c", r#"kill -9 "$1""#, "sh", &pid]).status().expect("kill it");
        assert!(killed.success());
        reveille_pg::testing::eventually("it has ended", async || {
            !Command::new("sh")
                .args(["-c", r#"kill -0 "$1" 2>/dev/null"#, "sh", &pid])
                .status()
                .expect("look")
                .success()
        })
        .await;
    }
}

async fn run(args: Vec<String>) -> Output {
    let run = tokio::task::spawn_blocking(move || Command::new(SCRIPT).args(args).stdin(Stdio::null()).output());
    run.await.expect("no panic").expect("run the script")
}

/// The first of four free ports in a row.
fn ports() -> u16 {
    let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    for _ in 0..100 {
        let Ok(first) = free(0) else { continue };
        let port = first.local_addr().expect("an address").port();
        // The tools of RabbitMQ use ports above.
        let is_of_tools = (TOOLS.start - 3..TOOLS.end).contains(&port);
        if port < u16::MAX - 3 && !is_of_tools && (1..=3).all(|next| free(port + next).is_ok()) {
            return port;
        }
    }
    panic!("there are no four ports in a row")
}
