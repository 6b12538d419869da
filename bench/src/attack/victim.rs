//! The server under attack, and how its health and memory are observed.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::raw::{self, Answer};
use super::{HEALTH_WITHIN, PROBE_EVERY};
use crate::Result;
use crate::serve::Serve;
use crate::server::Server;

/// How long to wait for a health response: twice the allowed time, to distinguish a failure from a late response.
const PROBE_WITHIN: Duration = HEALTH_WITHIN.saturating_mul(2);

/// A server of its own for one attack.
pub(super) struct Victim {
    serve: Serve,
    pid: u32,
}

impl Victim {
    pub(super) async fn start(program: &PathBuf, server: &Server) -> Result<Victim> {
        let serve = Serve::start(program, server, &server.new_schema()?).await?;
        let pid = serve.pid().ok_or("the server has ended")?;
        Ok(Victim { serve, pid })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.serve.address()
    }

    /// Sends one request on a new connection.
    pub(super) async fn ask(&self, method: &str, path: &str, body: &[u8]) -> Result<Answer> {
        let json = [("content-type", "application/json")];
        raw::ask(self.address(), method, path, if body.is_empty() { &[] } else { &json }, body).await
    }

    /// Requests health until the probe is ended.
    pub(super) fn probe(&self) -> Probe {
        let worst = Arc::new(AtomicU64::new(0));
        let (address, seen) = (self.address(), worst.clone());
        let task = tokio::spawn(async move {
            loop {
                let asked = Instant::now();
                let answer = timeout(PROBE_WITHIN, raw::ask(address, "GET", "/health/live", &[], b"")).await;
                // A failed request counts as the longest wait.
                let took = match answer {
                    Ok(Ok(answer)) if answer.status == 200 => asked.elapsed(),
                    _ => PROBE_WITHIN,
                };
                seen.fetch_max(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
                sleep(PROBE_EVERY).await;
            }
        });
        Probe { worst, task }
    }

    /// Whether the process that was started is still running.
    pub(super) fn is_alive(&self) -> bool {
        self.status("State:").is_some_and(|state| !state.starts_with('Z'))
    }

    /// Its peak memory, in megabytes. `None` if that cannot be read.
    pub(super) fn peak_mb(&self) -> Option<f64> {
        self.megabytes("VmHWM:")
    }

    /// Its memory now, in megabytes.
    pub(super) fn resident_mb(&self) -> Option<f64> {
        self.megabytes("VmRSS:")
    }

    pub(super) async fn end(self) -> Result<()> {
        self.serve.end().await
    }

    fn megabytes(&self, field: &str) -> Option<f64> {
        let kilobytes: f64 = self.status(field)?.split_whitespace().next()?.parse().ok()?;
        Some(kilobytes / 1024.0)
    }

    fn status(&self, field: &str) -> Option<String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        Some(line.trim().to_owned())
    }
}

/// The health requests during an attack.
pub(super) struct Probe {
    worst: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Probe {
    /// Ends the requests and returns the slowest response time.
    pub(super) async fn end(self) -> Duration {
        self.task.abort();
        Duration::from_micros(self.worst.load(Ordering::Relaxed))
    }
}
