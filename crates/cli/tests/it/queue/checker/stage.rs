//! A run: its queues, its servers, its end, and its log.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::fixture::BASE;
use super::log::{Dead, Log, Span, Timestamp};
use crate::failover_client::FailoverClient;
use crate::http::Answer;
use crate::process::PATIENCE;

/// The pause before an unanswered request is repeated.
const PAUSE: Duration = Duration::from_millis(100);
/// Dead letters of one page.
const PAGE: usize = 1_000;

/// A queue of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// All begin with `checker.`, so that a pop of the namespace reads all.
    pub(crate) name: &'static str,
    pub(crate) partitions: u64,
    pub(crate) lease: Duration,
    pub(crate) retry_limit: u32,
    /// Whether consumers let leases expire.
    pub(crate) expires: bool,
    /// Whether producers push here; else only transactions do.
    pub(crate) fed: bool,
}

/// What all clients of a run have in common.
pub(crate) struct Stage {
    pub(crate) queues: Vec<Plan>,
    pub(crate) seed: u64,
    /// Whether requests may stay unanswered; otherwise that fails the run.
    pub(crate) faults: bool,
    servers: Vec<SocketAddr>,
    began: Instant,
    over: AtomicBool,
    log: Mutex<Log>,
    numbers: AtomicU64,
    unanswered: AtomicU64,
}

impl Stage {
    /// Creates the queues, and begins.
    pub(crate) async fn set(queues: &[Plan], servers: &[SocketAddr], faults: bool) -> std::sync::Arc<Stage> {
        let given = std::env::var("REVEILLE_CHECKER_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| fastrand::u64(..));
        let mut client = FailoverClient::new(BASE, servers, 0);
        for queue in queues {
            // The check counts acks; which leases have expired it cannot know.
            let options = json!({"leaseTime": queue.lease.as_secs(), "retryLimit": queue.retry_limit, "chargeExpiredLeases": false});
            let body = json!({"queue": queue.name, "options": options});
            let answer = client.ask("POST", "configure", Some(&body)).await.expect("an answer");
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        std::sync::Arc::new(Stage {
            queues: queues.to_vec(),
            seed,
            faults,
            servers: servers.to_vec(),
            began: Instant::now(),
            over: AtomicBool::new(false),
            log: Mutex::default(),
            numbers: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
        })
    }

    /// All clients finish their current request.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// How many requests were not answered.
    pub(crate) fn unanswered(&self) -> u64 {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Waits until this many more pushes and acks are logged.
    pub(crate) async fn busy(&self, more: usize) {
        let done = || {
            let log = self.log();
            log.pushes.len().min(log.reports.len())
        };
        let (before, since) = (done(), Instant::now());
        while done() < before + more {
            assert!(since.elapsed() < PATIENCE, "hardly anything happens: {} of {more}", done() - before);
            tokio::time::sleep(PAUSE).await;
        }
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("no panic while it is locked")
    }

    /// Crashes the database with this function, and logs it.
    pub(crate) async fn crash(&self, deed: impl Future<Output = ()>) {
        let asked = self.began.elapsed();
        deed.await;
        let heard = Some(self.began.elapsed());
        self.log().crashes.push(Span { asked, heard });
    }

    /// A unique number.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn queue(&self, name: &str) -> Plan {
        *self.queues.iter().find(|queue| queue.name == name).unwrap_or_else(|| panic!("there is no queue {name}"))
    }

    /// The `retryLimit` of each queue.
    pub(crate) fn limits(&self) -> HashMap<String, u32> {
        self.queues.iter().map(|queue| (queue.name.to_owned(), queue.retry_limit)).collect()
    }

    /// Logs the list of dead letters.
    pub(crate) async fn note_dead_letters(&self) {
        let mut client = FailoverClient::new(BASE, &self.servers, 0);
        for queue in &self.queues {
            for page in 0.. {
                let path = format!("dlq?queue={}&limit={PAGE}&offset={}", queue.name, page * PAGE);
                let listed = client.ask("GET", &path, None).await.expect("an answer").json();
                let letters = listed["messages"].as_array().expect("messages");
                let text = |letter: &Value, key: &str| letter[key].as_str().expect("text").to_owned();
                self.log().dead.extend(letters.iter().map(|letter| Dead {
                    group: text(letter, "consumerGroup"),
                    partition: format!("{}/{}", text(letter, "queue"), text(letter, "partition")),
                    id: text(letter, "id"),
                }));
                if letters.len() < PAGE {
                    break;
                }
            }
        }
    }
}

/// A client of a run.
pub(crate) struct Player {
    pub(crate) stage: std::sync::Arc<Stage>,
    pub(crate) rng: fastrand::Rng,
    client: FailoverClient,
}

impl Player {
    pub(crate) fn new(stage: &std::sync::Arc<Stage>, number: u64) -> Player {
        let rng = fastrand::Rng::with_seed(stage.seed.wrapping_add(number));
        let client = FailoverClient::new(BASE, &stage.servers, number as usize);
        Player { stage: stage.clone(), rng, client }
    }

    /// Sends a request, and measures its time.
    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> (Span, Option<Answer>) {
        let asked = self.now();
        let answer = self.client.ask(method, path, body).await;
        let heard = answer.is_some().then(|| self.now());
        if answer.is_none() {
            let failure = self.client.last_failure();
            // On a machine that stalls for a second a pop is rejected as transient; that is the only allowed error.
            let later = path.starts_with("pop") && failure.is_some_and(|failure| failure.status == 503);
            assert!(later || self.stage.faults, "{method} {path} was not answered, and nothing is broken: {failure:?}");
            self.stage.unanswered.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(PAUSE).await;
        }
        (Span { asked, heard }, answer)
    }

    fn now(&self) -> Timestamp {
        self.stage.began.elapsed()
    }

    /// `true` with a probability of one in `times`.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.rng.u64(..times) == 0
    }

    pub(crate) async fn rest(&mut self, at_most: Duration) {
        tokio::time::sleep(at_most.mul_f64(self.rng.f64())).await;
    }
}
