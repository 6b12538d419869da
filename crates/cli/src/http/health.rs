//! Whether the process is alive, and whether it can do its work.
//!
//! Live means that the process responds: a restart would not help if the database is not reachable. Ready means that it
//! accepts work: it has started, it is not stopping, and every [`Check`] passes. Reasons are readable by every client
//! that can reach the port: they contain no address, no password and no text of the database.
//!
//! Probes must not load the database: checks run on request, one round at a time, and the result of a round is reused
//! for [`FRESH_FOR`]. Without a request there is no query.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
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
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::{Instant, timeout};
use utoipa::ToSchema;

/// How long the result of a round is reused: short compared with probe intervals, long compared with a flood of probes.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// How long one check may take before it counts as failed: less than the timeout of usual probes.
const CHECK_DEADLINE: Duration = Duration::from_secs(2);

/// A condition for the process to be ready.
pub trait Check: Send + Sync {
    /// What is checked, in one word: `database`.
    fn name(&self) -> &'static str;

    /// Checks now. Dropped after `CHECK_DEADLINE`, or when the client disconnects.
    fn check(&self) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>>;
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Passed.
    Good,
    /// Works with restrictions: the process stays ready and reports the reason.
    Degraded(String),
    /// Failed: the process is not ready.
    Down(String),
}

/// The health of the process.
pub struct Health {
    phase: Mutex<Phase>,
    checks: Vec<Arc<dyn Check>>,
    last_round: tokio::sync::Mutex<Option<(Instant, Findings)>>,
    /// Whether the last finished round passed. A scrape reads it without waiting for a round in progress.
    last_passed: AtomicBool,
}

/// The phase of the process.
#[derive(Clone, Debug)]
enum Phase {
    Starting(String),
    Started,
    Stopping,
}

/// The results of a round of checks, as reported.
#[derive(Clone, Debug, Default)]
struct Findings {
    reasons: Vec<String>,
    degraded: Vec<String>,
}

/// The body of `/health` and `/health/ready`.
#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
pub(super) struct HealthBody {
    /// `ready`, `starting`, `unready` or `stopping`; `/health/live` reports `live`.
    status: &'static str,
    version: &'static str,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    reasons: Vec<String>,
    /// What works with restrictions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    degraded: Vec<String>,
}

impl Health {
    pub(super) fn new(checks: Vec<Arc<dyn Check>>) -> Self {
        let phase = Mutex::new(Phase::Starting("starting".into()));
        Self { phase, checks, last_round: tokio::sync::Mutex::new(None), last_passed: AtomicBool::new(true) }
    }

    /// Not ready yet, because of `reason`.
    pub fn starting(&self, reason: impl Into<String>) {
        *self.phase.lock() = Phase::Starting(reason.into());
    }

    /// Started: from now on the checks decide.
    pub fn started(&self) {
        *self.phase.lock() = Phase::Started;
    }

    /// Stopping: not ready, whatever the checks report.
    pub fn stopping(&self) {
        *self.phase.lock() = Phase::Stopping;
    }

    /// Why no request can be served yet; `None` once started. A stopping process still serves requests.
    pub(super) fn not_started(&self) -> Option<String> {
        match &*self.phase.lock() {
            Phase::Starting(reason) => Some(format!("not ready: {reason}")),
            Phase::Started | Phase::Stopping => None,
        }
    }

    /// The phase in one word, and what a start is waiting for. Runs no check.
    pub(super) fn phase(&self) -> (&'static str, Option<String>) {
        match &*self.phase.lock() {
            Phase::Starting(reason) => ("starting", Some(reason.clone())),
            Phase::Started => ("running", None),
            Phase::Stopping => ("stopping", None),
        }
    }

    /// Whether the process was ready in the last round. Runs no check.
    pub(super) fn last_known_ready(&self) -> bool {
        matches!(&*self.phase.lock(), Phase::Started) && self.last_passed.load(Ordering::Relaxed)
    }

    async fn report(&self) -> HealthBody {
        let phase = self.phase.lock().clone();
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
        HealthBody {
            status,
            version: env!("CARGO_PKG_VERSION"),
            reasons: findings.reasons,
            degraded: findings.degraded,
        }
    }

    /// The checks' findings, at most [`FRESH_FOR`] old.
    async fn findings(&self) -> Findings {
        let mut last_round = self.last_round.lock().await;
        if let Some((at, findings)) = &*last_round
            && at.elapsed() < FRESH_FOR
        {
            return findings.clone();
        }
        let mut findings = Findings::default();
        for check in &self.checks {
            let verdict = timeout(CHECK_DEADLINE, check.check())
                .await
                .unwrap_or_else(|_| Verdict::Down(format!("no report within {} s", CHECK_DEADLINE.as_secs())));
            match verdict {
                Verdict::Good => {}
                Verdict::Degraded(reason) => findings.degraded.push(format!("{}: {reason}", check.name())),
                Verdict::Down(reason) => findings.reasons.push(format!("{}: {reason}", check.name())),
            }
        }
        self.last_passed.store(findings.reasons.is_empty(), Ordering::Relaxed);
        *last_round = Some((Instant::now(), findings.clone()));
        findings
    }
}

/// `GET /health`, `GET /health/ready`: 200 when ready, else 503 with the reasons.
pub(super) async fn ready(State(health): State<Arc<Health>>) -> Response {
    let report = health.report().await;
    let status = if report.status == "ready" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(report)).into_response()
}

/// `GET /health/live`: 200 while the process responds.
pub(super) async fn live() -> Response {
    let report =
        HealthBody { status: "live", version: env!("CARGO_PKG_VERSION"), reasons: Vec::new(), degraded: Vec::new() };
    Json(report).into_response()
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

    /// Not ready before the start whatever the checks report, then as they report, and never while stopping.
    #[tokio::test]
    async fn readiness_follows_the_phases_of_the_process() {
        let health = Health::new(vec![Fixed::new(Verdict::Degraded("slow".into()))]);
        health.starting("waiting for the database");
        let report = health.report().await;
        assert_eq!((report.status, report.reasons), ("starting", vec!["waiting for the database".to_owned()]));
        assert_eq!(health.not_started().as_deref(), Some("not ready: waiting for the database"));

        health.started();
        let report = health.report().await;
        assert_eq!((report.status, report.degraded), ("ready", vec!["thing: slow".to_owned()]));
        assert!(health.last_known_ready());

        health.stopping();
        assert_eq!(health.report().await.status, "stopping");
        assert_eq!(health.not_started(), None);
    }

    /// A failed check reports its name and reason; one that hangs is dropped at the deadline. Time is paused, so that
    /// the deadline passes at once.
    #[tokio::test(start_paused = true)]
    async fn a_failing_or_hanging_check_is_a_reason() {
        let health = Health::new(vec![Fixed::new(Verdict::Down("away".into())), Arc::new(Stuck)]);
        health.started();
        let report = health.report().await;
        assert_eq!(report.status, "unready");
        assert_eq!(report.reasons, ["thing: away", "stuck: no report within 2 s"]);
        assert!(!health.last_known_ready());
    }

    /// A scrape during a round reports the result of the last finished round. The test holds the lock of a round.
    #[tokio::test]
    async fn a_scrape_during_a_round_reports_the_last_one() {
        for (verdict, well) in [(Verdict::Good, true), (Verdict::Down("away".into()), false)] {
            let health = Health::new(vec![Fixed::new(verdict)]);
            health.started();
            health.report().await;
            let _in_progress = health.last_round.lock().await;
            assert_eq!(health.last_known_ready(), well);
        }
    }

    /// A hundred probes at once cost one check; a later probe checks again. Time is paused and advanced explicitly.
    #[tokio::test(start_paused = true)]
    async fn a_flood_of_probes_is_one_check() {
        let check = Fixed::new(Verdict::Good);
        let health = Health::new(vec![Arc::clone(&check) as Arc<dyn Check>]);
        health.started();
        for _ in 0..100 {
            health.report().await;
        }
        assert_eq!(check.1.load(Ordering::Relaxed), 1);
        tokio::time::advance(FRESH_FOR).await;
        health.report().await;
        assert_eq!(check.1.load(Ordering::Relaxed), 2);
    }
}
