//! A run: which queues there are, which servers, until when, and what was seen.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::fixture::BASE;
use super::log::{Dead, Log, Moment, Span};
use crate::http::Answer;
use crate::kept::Kept;
use crate::process::PATIENCE;

/// How long to wait before a request is repeated that nobody answered.
const PAUSE: Duration = Duration::from_millis(100);
/// Dead letters of one page.
const PAGE: usize = 1_000;

/// A queue of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// All begin with `checker.`, so that a pop of the namespace means all.
    pub(crate) name: &'static str,
    pub(crate) lanes: u64,
    pub(crate) lease: Duration,
    pub(crate) retry_limit: u32,
    /// Whether leases are left to end by themselves.
    pub(crate) expires: bool,
    /// Whether producers push here; else only transactions do.
    pub(crate) fed: bool,
}

/// What all who take part know.
pub(crate) struct Stage {
    pub(crate) queues: Vec<Plan>,
    pub(crate) seed: u64,
    /// Requests may stay unanswered. Else that ends the run.
    pub(crate) faults: bool,
    servers: Vec<SocketAddr>,
    began: Instant,
    over: AtomicBool,
    log: Mutex<Log>,
    numbers: AtomicU64,
    unanswered: AtomicU64,
}

impl Stage {
    /// Makes the queues, and begins.
    pub(crate) async fn set(queues: &[Plan], servers: &[SocketAddr], faults: bool) -> std::sync::Arc<Stage> {
        let given = std::env::var("REVEILLE_CHECKER_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| fastrand::u64(..));
        let mut client = Kept::new(BASE, servers, 0);
        for queue in queues {
            // The judge counts what consumers say; which leases have expired it cannot know.
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

    /// Everybody finishes what they are at.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// How many requests nobody answered.
    pub(crate) fn unanswered(&self) -> u64 {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Waits until so much more was pushed and said.
    pub(crate) async fn busy(&self, more: usize) {
        let done = || {
            let log = self.log();
            log.pushes.len().min(log.words.len())
        };
        let (before, since) = (done(), Instant::now());
        while done() < before + more {
            assert!(since.elapsed() < PATIENCE, "hardly anything happens: {} of {more}", done() - before);
            tokio::time::sleep(PAUSE).await;
        }
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("nobody panics while writing")
    }

    /// Does something to the database that it does not survive.
    pub(crate) async fn crash(&self, deed: impl Future<Output = ()>) {
        let asked = self.began.elapsed();
        deed.await;
        let heard = Some(self.began.elapsed());
        self.log().crashes.push(Span { asked, heard });
    }

    /// A number that nobody else has.
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

    /// Notes what the list of dead letters says.
    pub(crate) async fn note_dead_letters(&self) {
        let mut client = Kept::new(BASE, &self.servers, 0);
        for queue in &self.queues {
            for page in 0.. {
                let path = format!("dlq?queue={}&limit={PAGE}&offset={}", queue.name, page * PAGE);
                let listed = client.ask("GET", &path, None).await.expect("an answer").json();
                let letters = listed["messages"].as_array().expect("messages");
                let text = |letter: &Value, key: &str| letter[key].as_str().expect("text").to_owned();
                self.log().dead.extend(letters.iter().map(|letter| Dead {
                    group: text(letter, "consumerGroup"),
                    lane: format!("{}/{}", text(letter, "queue"), text(letter, "partition")),
                    id: text(letter, "id"),
                }));
                if letters.len() < PAGE {
                    break;
                }
            }
        }
    }
}

/// Somebody who takes part.
pub(crate) struct Player {
    pub(crate) stage: std::sync::Arc<Stage>,
    pub(crate) rng: fastrand::Rng,
    client: Kept,
}

impl Player {
    pub(crate) fn new(stage: &std::sync::Arc<Stage>, number: u64) -> Player {
        let rng = fastrand::Rng::with_seed(stage.seed.wrapping_add(number));
        let client = Kept::new(BASE, &stage.servers, number as usize);
        Player { stage: stage.clone(), rng, client }
    }

    /// Asks once, and says from when to when that took.
    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> (Span, Option<Answer>) {
        let asked = self.now();
        let answer = self.client.ask(method, path, body).await;
        let heard = answer.is_some().then(|| self.now());
        if answer.is_none() {
            let told = self.client.told();
            // On a machine that stands still for a second a pop is told to come again, and that is all it is told.
            let later = path.starts_with("pop") && told.is_some_and(|told| told.status == 503);
            assert!(later || self.stage.faults, "{method} {path} was not answered, and nothing is broken: {told:?}");
            self.stage.unanswered.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(PAUSE).await;
        }
        (Span { asked, heard }, answer)
    }

    fn now(&self) -> Moment {
        self.stage.began.elapsed()
    }

    /// True once in so many times.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.rng.u64(..times) == 0
    }

    pub(crate) async fn rest(&mut self, at_most: Duration) {
        tokio::time::sleep(at_most.mul_f64(self.rng.f64())).await;
    }
}
