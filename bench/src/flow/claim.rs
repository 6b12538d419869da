//! The latency of a waiting claim, measured twice: from the response to the call that makes a step ready, which is sent
//! after the commit; and from the call itself, which includes the commit.

use std::time::{Duration, Instant};

use reveille_flow::{AttemptResult, ClaimRequest, ClaimedStep, EventDrivenOrchestrator, Flow, StepReport, Submission};
use serde_json::json;
use tasks::{Latencies, Outcome, Round, Shape};
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::{sleep, timeout};

use super::arena::{Arena, Played, line};
use super::contender::{Entry, Library};
use super::piece::Piece;
use super::template::{NAME, NAMESPACE, VERSION, context, text};
use crate::Result;
use crate::comparison::Comparison;
use crate::report::{Goal, Report};

/// The name of this workload.
pub(super) const TITLE: &str = "claim latency";
/// The pause before the next step is made ready: after it, the claim waits again.
const PAUSE: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures Reveille.
pub(super) async fn run(arena: &Arena<'_>, report: &mut Report) -> Result<()> {
    let piece = Piece::Claim { samples: arena.choose(100, 1_000) };
    let entries = vec![Entry { title: TITLE.into(), contender: Library, workload: piece }];
    let play = async |entry: &Entry| {
        let Played { outcome, .. } = arena.play(entry.contender, &entry.workload).await?;
        Ok(line(
            &outcome,
            &[
                "next_p50_ms",
                "next_p99_ms",
                "next_from_call_p50_ms",
                "next_from_call_p99_ms",
                "first_p50_ms",
                "first_p99_ms",
                "first_from_call_p50_ms",
                "first_from_call_p99_ms",
            ],
        ))
    };
    let comparison = Comparison::run(entries, arena.rounds(1, 3), play).await;
    comparison.report(report);
    let figure = |name| comparison.rounds(TITLE, Library, name).median();
    for (name, p50, p99) in
        [("next step", "next_p50_ms", "next_p99_ms"), ("first step", "first_p50_ms", "first_p99_ms")]
    {
        report.target(&format!("state change to claim, {name}: p50 ms"), Goal::AtMost(2.0), figure(p50));
        report.target(&format!("state change to claim, {name}: p99 ms"), Goal::AtMost(10.0), figure(p99));
    }
    Ok(())
}

/// A tokio task that claims steps, and the calls that make steps ready.
pub(super) struct Claims {
    flow: Flow,
    samples: usize,
    claimed: Receiver<(ClaimedStep, Instant)>,
    _orchestrator: EventDrivenOrchestrator,
}

impl Claims {
    pub(super) async fn start(flow: Flow, samples: usize) -> Result<Claims> {
        flow.register(&text(Shape::Chain, NAMESPACE)).await?;
        let (sender, claimed) = mpsc::channel(16);
        let claims = flow.clone();
        tokio::spawn(async move {
            let namespaces = vec![NAMESPACE.to_owned()];
            let who = ClaimRequest { name: "one".to_owned(), namespaces, steps: None, lease: PATIENCE };
            loop {
                let until = tokio::time::Instant::now() + PATIENCE;
                let steps = claims.claim(&who, 1, Some(until)).await.unwrap_or_else(|error| {
                    eprintln!("  a claim failed: {error}");
                    Vec::new()
                });
                let now = Instant::now();
                for step in steps {
                    if sender.send((step, now)).await.is_err() {
                        return;
                    }
                }
            }
        });
        let _orchestrator = flow.orchestrate();
        let mut claims = Claims { flow, samples, claimed, _orchestrator };
        claims.task(&mut Spans::default(), &mut Spans::default()).await?;
        Ok(claims)
    }

    /// The next step that is claimed, and when.
    async fn next(&mut self) -> Result<(ClaimedStep, Instant)> {
        let next = timeout(PATIENCE, self.claimed.recv()).await.map_err(|_| "no step was claimed in time")?;
        next.ok_or_else(|| "the claimer has ended".into())
    }

    async fn task(&mut self, first: &mut Spans, next: &mut Spans) -> Result<()> {
        sleep(PAUSE).await;
        let called = Instant::now();
        self.flow.submit(Submission::new(NAMESPACE, NAME, VERSION, context())).await?;
        let answered = Instant::now();
        let (mut step, at) = self.next().await?;
        first.add(called, answered, at);
        for _ in 1..Shape::Chain.size() {
            sleep(PAUSE).await;
            let ended = StepReport { token: step.token, result: AttemptResult::Complete(json!(true).into()) };
            let called = Instant::now();
            let outcomes = self.flow.report(vec![ended]).await?;
            let answered = Instant::now();
            outcomes.into_iter().next().ok_or("no outcome")?.map_err(|refused| format!("{refused:?}"))?;
            let at;
            (step, at) = self.next().await?;
            next.add(called, answered, at);
        }
        self.flow
            .report(vec![StepReport { token: step.token, result: AttemptResult::Complete(json!(true).into()) }])
            .await?;
        Ok(())
    }
}

#[derive(Default)]
struct Spans {
    from_answer: Vec<Duration>,
    from_call: Vec<Duration>,
}

impl Spans {
    fn add(&mut self, called: Instant, answered: Instant, claimed: Instant) {
        // The response to the claim may have arrived first.
        self.from_answer.push(claimed.saturating_duration_since(answered));
        self.from_call.push(claimed.saturating_duration_since(called));
    }
}

impl Round for Claims {
    async fn measure(&mut self) -> Result<Outcome> {
        let (mut first, mut next) = (Spans::default(), Spans::default());
        while first.from_call.len() < self.samples {
            self.task(&mut first, &mut next).await?;
        }
        let mut figures = Vec::new();
        for (p50, p99, spans) in [
            ("first_p50_ms", "first_p99_ms", first.from_answer),
            ("first_from_call_p50_ms", "first_from_call_p99_ms", first.from_call),
            ("next_p50_ms", "next_p99_ms", next.from_answer),
            ("next_from_call_p50_ms", "next_from_call_p99_ms", next.from_call),
        ] {
            let latencies = Latencies::of(spans);
            figures.extend([(p50, latencies.p50_ms), (p99, latencies.p99_ms)]);
        }
        Ok(Outcome::of(figures.into_iter().map(|(name, figure)| (name, figure.unwrap_or(0.0)))))
    }
}
