//! Whether the process is alive, and whether it can do its work.
//!
//! Live means "the process answers": restarting it would not help with a database that is away. Ready means "send work
//! here": it started, it is not stopping, and every [`Check`] is well. Reasons are words for an operator that are fit for
//! anyone who can reach the port: no address, no password, no text from the database.
//!
//! A database must not be loaded by those who ask after it: checks run on request, one round at a time, and a round's
//! result serves everyone for [`FRESH_FOR`]. Nobody asking means no query.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tokio::time::{Instant, timeout};
use utoipa::ToSchema;

/// How long a round of checks answers for. Short against any prober's interval, long against a flood of probes.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// How long one check may take before it counts as failed: less than a usual prober waits.
const CHECK_DEADLINE: Duration = Duration::from_secs(2);

/// One thing that has to be well for the process to be ready.
pub trait Check: Send + Sync {
    /// What is checked, in a word: `database`.
    fn name(&self) -> &'static str;

    /// Looks now. Dropped when it has taken two seconds, or when the client goes away.
    fn check(&self) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>>;
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All is well.
    Good,
    /// Works, worse than it should: the process stays ready and says so.
    Degraded(String),
    /// Does not work: the process is not ready.
    Down(String),
}

/// The health of the process.
pub struct Health {
    phase: Mutex<Phase>,
    checks: Vec<Arc<dyn Check>>,
    round: tokio::sync::Mutex<Option<(Instant, Findings)>>,
    /// What the last finished round found. A scrape reads it, and must not wait for a round under way.
    last_well: AtomicBool,
}

/// Where the process is in its life.
#[derive(Clone, Debug)]
enum Phase {
    Starting(String),
    Started,
    Stopping,
}

/// A round of checks, in the words of the answer.
#[derive(Clone, Debug, Default)]
struct Findings {
    reasons: Vec<String>,
    degraded: Vec<String>,
}

/// The body of `/health` and `/health/ready`.
#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
pub(super) struct Answer {
    /// `ready`, `starting`, `unready`, `stopping`; of a process that is only asked whether it lives, `live`.
    status: &'static str,
    version: &'static str,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    reasons: Vec<String>,
    /// What works worse than it should.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    degraded: Vec<String>,
}

impl Health {
    pub(super) fn new(checks: Vec<Arc<dyn Check>>) -> Self {
        let phase = Mutex::new(Phase::Starting("starting".into()));
        Self { phase, checks, round: tokio::sync::Mutex::new(None), last_well: AtomicBool::new(true) }
    }

    /// Not ready yet, because of `reason`.
    pub fn starting(&self, reason: impl Into<String>) {
        *self.phase() = Phase::Starting(reason.into());
    }

    /// Started: from now on the checks decide.
    pub fn started(&self) {
        *self.phase() = Phase::Started;
    }

    /// Going away: not ready any more, whatever the checks say.
    pub fn stopping(&self) {
        *self.phase() = Phase::Stopping;
    }

    /// Why requests cannot be served at all yet; `None` once started. A stopping process still serves what it has.
    pub(super) fn not_started(&self) -> Option<String> {
        match &*self.phase() {
            Phase::Starting(reason) => Some(format!("not ready: {reason}")),
            Phase::Started | Phase::Stopping => None,
        }
    }

    /// Whether the process is ready, as it was last known; asks nobody.
    pub(super) fn last_known_ready(&self) -> bool {
        matches!(&*self.phase(), Phase::Started) && self.last_well.load(Ordering::Relaxed)
    }

    async fn answer(&self) -> Answer {
        let phase = self.phase().clone();
        let (status, findings) = match phase {
            Phase::Starting(reason) => ("starting", Findings { reasons: vec![reason], ..Findings::default() }),
            Phase::Stopping => {
                ("stopping", Findings { reasons: vec!["the server is stopping".into()], ..Findings::default() })
            }
            Phase::Started => match self.findings().await {
                findings if findings.reasons.is_empty() => ("ready", findings),
                findings => ("unready", findings),
            },
        };
        Answer { status, version: env!("CARGO_PKG_VERSION"), reasons: findings.reasons, degraded: findings.degraded }
    }

    /// The checks' findings, at most [`FRESH_FOR`] old.
    async fn findings(&self) -> Findings {
        let mut round = self.round.lock().await;
        if let Some((at, findings)) = &*round
            && at.elapsed() < FRESH_FOR
        {
            return findings.clone();
        }
        let mut findings = Findings::default();
        for check in &self.checks {
            let verdict = timeout(CHECK_DEADLINE, check.check())
                .await
                .unwrap_or_else(|_| Verdict::Down(format!("no answer within {} s", CHECK_DEADLINE.as_secs())));
            match verdict {
                Verdict::Good => {}
                Verdict::Degraded(reason) => findings.degraded.push(format!("{}: {reason}", check.name())),
                Verdict::Down(reason) => findings.reasons.push(format!("{}: {reason}", check.name())),
            }
        }
        self.last_well.store(findings.reasons.is_empty(), Ordering::Relaxed);
        *round = Some((Instant::now(), findings.clone()));
        findings
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        // A phase is replaced in one assignment: there is no half-written one to be afraid of.
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `GET /health`, `GET /health/ready`: 200 when ready, else 503 with the reasons.
pub(super) async fn ready(State(health): State<Arc<Health>>) -> Response {
    let answer = health.answer().await;
    let status = if answer.status == "ready" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(answer)).into_response()
}

/// `GET /health/live`: 200 for as long as the process answers.
pub(super) async fn live() -> Response {
    let answer =
        Answer { status: "live", version: env!("CARGO_PKG_VERSION"), reasons: Vec::new(), degraded: Vec::new() };
    Json(answer).into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    struct Fixed(Verdict, AtomicUsize);

    impl Fixed {
        fn new(verdict: Verdict) -> Arc<Self> {
            Arc::new(Self(verdict, AtomicUsize::new(0)))
        }
    }

    impl Check for Fixed {
        fn name(&self) -> &'static str {
            "thing"
        }

        fn check(&self) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { self.0.clone() })
        }
    }

    struct Stuck;

    impl Check for Stuck {
        fn name(&self) -> &'static str {
            "stuck"
        }

        fn check(&self) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
            Box::pin(std::future::pending())
        }
    }

    /// The life of a process: not ready before the start whatever the checks say, then as they say, never while stopping.
    #[tokio::test]
    async fn readiness_follows_the_phases_of_the_process() {
        let health = Health::new(vec![Fixed::new(Verdict::Degraded("slow".into()))]);
        health.starting("waiting for the database");
        let answer = health.answer().await;
        assert_eq!((answer.status, answer.reasons), ("starting", vec!["waiting for the database".to_owned()]));
        assert_eq!(health.not_started().as_deref(), Some("not ready: waiting for the database"));

        health.started();
        let answer = health.answer().await;
        assert_eq!((answer.status, answer.degraded), ("ready", vec!["thing: slow".to_owned()]));
        assert!(health.last_known_ready());

        health.stopping();
        assert_eq!(health.answer().await.status, "stopping");
        assert_eq!(health.not_started(), None);
    }

    /// A failing check names itself and its reason, and one that hangs is cut at the deadline (time is paused, so the
    /// deadline passes at once).
    #[tokio::test(start_paused = true)]
    async fn a_failing_or_hanging_check_is_a_reason() {
        let health = Health::new(vec![Fixed::new(Verdict::Down("away".into())), Arc::new(Stuck)]);
        health.started();
        let answer = health.answer().await;
        assert_eq!(answer.status, "unready");
        assert_eq!(answer.reasons, ["thing: away", "stuck: no answer within 2 s"]);
        assert!(!health.last_known_ready());
    }

    /// A scrape during a round tells what the last round found, not that there is none yet.
    /// The lock that a round holds is held by the test.
    #[tokio::test]
    async fn a_scrape_during_a_round_tells_of_the_last_one() {
        for (verdict, well) in [(Verdict::Good, true), (Verdict::Down("away".into()), false)] {
            let health = Health::new(vec![Fixed::new(verdict)]);
            health.started();
            health.answer().await;
            let _under_way = health.round.lock().await;
            assert_eq!(health.last_known_ready(), well);
        }
    }

    /// A hundred probes within a moment cost one look, and a later probe looks again (time is paused and moved by hand).
    #[tokio::test(start_paused = true)]
    async fn a_flood_of_probes_is_one_look() {
        let check = Fixed::new(Verdict::Good);
        let health = Health::new(vec![Arc::clone(&check) as Arc<dyn Check>]);
        health.started();
        for _ in 0..100 {
            health.answer().await;
        }
        assert_eq!(check.1.load(Ordering::Relaxed), 1);
        tokio::time::advance(FRESH_FOR).await;
        health.answer().await;
        assert_eq!(check.1.load(Ordering::Relaxed), 2);
    }
}
