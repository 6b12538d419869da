//! The main task of a worker: claims steps, runs handlers, and sends reports and heartbeats.
//!
//! It owns all state, so there is no lock. It waits for several events at once: for one claim, which asks for as many
//! steps as there are free slots; for handlers; for reports, which are submitted concurrently so that write batches
//! combine them; and for one heartbeat.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::counts::{Tally, count};
use super::handler::RunHandler;
use super::heartbeat::{Heartbeat, HeartbeatResult};
use super::reports::{Progress, Reports};
use super::slots::Slots;
use super::step::{Link, Over, Signal};
use super::unhandled::UnhandledSteps;
use crate::claim::token::Token;
use crate::claim::{ClaimRequest, ClaimedStep, WANT_MAX};
use crate::complete::{AttemptResult, Failure, Refused, ReportAnswer, StepReport};
use crate::error::{Error, Result};
use crate::events::count_failed_report;
use crate::flow::Flow;

/// How long one claim waits before it is repeated.
const WAIT: Duration = Duration::from_secs(86_400);
/// The pause after a database error.
const PAUSE: Duration = Duration::from_millis(500);
/// How long aborted handlers may take to end before their steps are released anyway.
const ENDING: Duration = Duration::from_secs(1);
/// How long before the step's timeout its handler is aborted, so that the failure can be reported while the lease is
/// held: a tenth of the timeout, at most this.
const TIMEOUT_RESERVE: Duration = Duration::from_secs(1);

/// A step that this worker holds.
struct HeldStep {
    name: String,
    /// When its lease ends at the earliest: counted from when the claim or the last heartbeat was sent.
    until: Instant,
    /// When its attempt reaches the timeout at the earliest. Heartbeats do not extend the lease beyond.
    timeout_at: Option<Instant>,
    /// Aborts its handler; `None` when the handler has ended and its report is pending.
    handler: Option<AbortHandle>,
}

impl HeldStep {
    /// Until when the worker surely holds the step.
    fn surely_until(&self) -> Instant {
        self.timeout_at.map_or(self.until, |timeout_at| self.until.min(timeout_at))
    }
}

type Claiming = Pin<Box<dyn Future<Output = Result<Vec<ClaimedStep>>> + Send>>;

/// The stages of stopping.
enum Stage {
    Working,
    /// Handlers may continue until then.
    Stopping(Instant),
    /// Handlers were aborted, and may take until then to end.
    Ending(Instant),
    /// Only pending reports are awaited.
    Leaving,
}

pub(super) struct Run {
    flow: Flow,
    request: ClaimRequest,
    registry: HashMap<String, Arc<dyn RunHandler>>,
    slots: Slots,
    tally: Arc<Tally>,
    stage: Stage,
    stopping: watch::Sender<bool>,
    claim: Option<Claiming>,
    handlers: JoinSet<Result<AttemptResult, Failure>>,
    /// The token of each handler task.
    tasks: HashMap<Id, Token>,
    open: HashMap<Token, HeldStep>,
    reports: Reports,
    heartbeat: Heartbeat,
    unhandled: UnhandledSteps,
}

impl Run {
    pub(super) fn new(
        flow: Flow,
        request: ClaimRequest,
        registry: HashMap<String, Arc<dyn RunHandler>>,
        slots: Slots,
        tally: Arc<Tally>,
    ) -> Run {
        Run {
            heartbeat: Heartbeat::new(request.lease, Instant::now()),
            reports: Reports::new(flow.clone()),
            flow,
            request,
            registry,
            slots,
            tally,
            stage: Stage::Working,
            stopping: watch::Sender::new(false),
            claim: None,
            handlers: JoinSet::new(),
            tasks: HashMap::new(),
            open: HashMap::new(),
            unhandled: UnhandledSteps::default(),
        }
    }

    /// Runs until it is stopped or its handle is dropped, and no report is without an outcome.
    pub(super) async fn until(mut self, mut end: oneshot::Receiver<Duration>) {
        loop {
            let now = Instant::now();
            self.advance_stage(now);
            if !matches!(self.stage, Stage::Working) && self.open.is_empty() {
                return;
            }
            self.begin_claim(now);
            self.heartbeat.begin(&self.flow, now, self.open.keys().copied());
            let alarm = self.alarm(now);
            tokio::select! {
                grace = &mut end, if matches!(self.stage, Stage::Working) => self.stop(grace.unwrap_or_default()),
                Some(ended) = self.handlers.join_next_with_id() => self.handlers_ended(ended),
                progress = self.reports.next() => self.reports_progressed(progress),
                claimed = next_claim(&mut self.claim) => self.claimed(claimed),
                result = self.heartbeat.result() => self.heartbeat_ended(result),
                () = sleep_until(alarm) => {}
            }
        }
    }

    /// When the next timed action is due.
    fn alarm(&self, now: Instant) -> Instant {
        let stage = match self.stage {
            Stage::Stopping(until) | Stage::Ending(until) => Some(until),
            Stage::Working | Stage::Leaving => None,
        };
        let alarms = [stage, self.heartbeat.next()];
        alarms.into_iter().flatten().min().unwrap_or(now + WAIT)
    }

    /// Claims as many steps as there are free slots; one claim at a time.
    fn begin_claim(&mut self, now: Instant) {
        if self.claim.is_some() || !matches!(self.stage, Stage::Working) {
            return;
        }
        let want = self.slots.free(self.handlers.len(), self.reports.len(), now).min(WANT_MAX);
        if want == 0 {
            return;
        }
        let (flow, request, skipped) = (self.flow.clone(), self.request.clone(), self.unhandled.skipped(now));
        // Skipped names are claimed again after their pause.
        let until = self.unhandled.next(now).unwrap_or(now + WAIT);
        self.claim = Some(Box::pin(async move { flow.claim_except(&request, skipped, want, Some(until)).await }));
    }

    fn claimed(&mut self, claimed: Result<Vec<ClaimedStep>>) {
        self.claim = None;
        match claimed {
            Ok(steps) => steps.into_iter().for_each(|step| self.begin(step)),
            Err(Error::Wake(reveille_wake::Error::Closed { .. })) => {
                self.claim = Some(Box::pin(std::future::pending()))
            }
            Err(error) => {
                tracing::warn!(
                    worker = self.request.name,
                    error = reveille_pg::causes(&error),
                    "claiming steps failed"
                );
                self.claim = Some(Box::pin(async {
                    sleep(PAUSE).await;
                    Ok(Vec::new())
                }));
            }
        }
    }

    /// Starts the handler of a step, or releases the step if there is none.
    fn begin(&mut self, step: ClaimedStep) {
        count(&self.tally.claimed);
        let now = Instant::now();
        let token = step.token;
        let mut open = HeldStep {
            name: step.name.clone(),
            until: step.sent_at + step.lease,
            timeout_at: step.timeout.map(|timeout| step.sent_at + timeout),
            handler: None,
        };
        let Some(handler) = self.registry.get(&step.callable) else {
            if let Some(pause) = self.unhandled.claimed(&step.definition, now) {
                let ClaimedStep { namespace, definition, callable, .. } = &step;
                tracing::warn!(
                    worker = self.request.name,
                    namespace,
                    step = definition,
                    callable,
                    ?pause,
                    "unhandled step: no handler is registered for its callable; released, and steps with this name are skipped for a while",
                );
            }
            self.open.insert(token, open);
            return self.report(token, AttemptResult::GivenBack);
        };
        let over = Arc::new(AtomicBool::new(false));
        let signal = Signal { over: over.clone(), stopping: self.stopping.subscribe() };
        let limit = step.timeout.map(|timeout| timeout - TIMEOUT_RESERVE.min(timeout / 10));
        let work = handler.clone().run(step, Link { flow: self.flow.clone(), lease: self.request.lease, signal });
        let task = self.handlers.spawn(async move {
            let _over = Over(over);
            let Some(limit) = limit else { return work.await };
            timeout(limit, work).await.unwrap_or_else(|_| {
                let message = format!("handler timed out after {limit:?}");
                Err(Failure::new(message).of_kind("timeout"))
            })
        });
        self.tasks.insert(task.id(), token);
        open.handler = Some(task);
        self.open.insert(token, open);
        self.tally.running.fetch_add(1, Ordering::Relaxed);
    }

    /// A handler has ended. Others may have ended, too: their slots are filled by one claim.
    fn handlers_ended(&mut self, first: std::result::Result<(Id, Result<AttemptResult, Failure>), JoinError>) {
        let mut next = Some(first);
        while let Some(ended) = next {
            self.handler_ended(ended);
            next = self.handlers.try_join_next_with_id();
        }
    }

    fn handler_ended(&mut self, ended: std::result::Result<(Id, Result<AttemptResult, Failure>), JoinError>) {
        self.tally.running.fetch_sub(1, Ordering::Relaxed);
        let (id, result) = match ended {
            Ok((id, Ok(result))) => (id, result),
            Ok((id, Err(failure))) => (id, AttemptResult::Failed(failure)),
            Err(error) if error.is_panic() => (error.id(), AttemptResult::Failed(panicked(error))),
            Err(error) => (error.id(), AttemptResult::GivenBack),
        };
        let Some(token) = self.tasks.remove(&id) else { return };
        // The step was lost or released before its handler ended: nothing to report.
        let Some(open) = self.open.get_mut(&token) else { return };
        if open.handler.take().is_none() {
            return;
        }
        if let AttemptResult::Failed(failure) = &result {
            let Failure { message, retryable, .. } = failure;
            tracing::warn!(worker = self.request.name, task = %token.task, step = open.name, retryable, message, "attempt failed");
        }
        self.report(token, result);
    }

    fn report(&mut self, token: Token, result: AttemptResult) {
        self.reports.send(StepReport { token, result });
    }

    fn reports_progressed(&mut self, Progress { submitted, answered }: Progress) {
        for (token, bytes) in submitted {
            if let Some(open) = self.open.get(&token) {
                self.slots.submitted(token, open.surely_until(), bytes);
            }
        }
        answered.into_iter().for_each(|(report, answer)| self.reported(report, answer));
    }

    /// Handles the response to a report.
    fn reported(&mut self, ended: StepReport, answer: Result<ReportAnswer>) {
        let StepReport { token, result } = &ended;
        let Some(open) = self.open.get(token) else { return };
        self.slots.answered(*token, open.surely_until());
        let (worker, task, step) = (&self.request.name, token.task, &open.name);
        match answer {
            Ok(Ok(_)) => count(match result {
                AttemptResult::Complete(_) => &self.tally.completed,
                AttemptResult::Failed(_) => &self.tally.failed,
                AttemptResult::Yielded(_) => &self.tally.yielded,
                AttemptResult::GivenBack => &self.tally.given_back,
            }),
            Ok(Err(Refused::Lost)) => {
                tracing::warn!(worker, %task, step, "lease lost before the step ended");
                self.report_failed("lost");
            }
            Ok(Err(refused @ Refused::Invalid { .. })) => {
                tracing::warn!(worker, %task, step, error = reveille_pg::causes(&refused), "result of a handler rejected");
                if matches!(result, AttemptResult::Complete(_)) {
                    let failure = Failure::permanent(format!("result rejected: {refused}"));
                    return self.report(*token, AttemptResult::Failed(failure.of_kind("refused")));
                }
                self.report_failed("rejected");
            }
            Err(error) if error.is_transient() && Instant::now() < open.until => {
                tracing::warn!(worker, %task, step, error = reveille_pg::causes(&error), "reporting the end of a step failed; retrying");
                return self.reports.send_again(ended, PAUSE);
            }
            Err(error)
                if matches!(result, AttemptResult::Complete(_) | AttemptResult::Yielded(_))
                    && !error.is_transient() =>
            {
                tracing::warn!(worker, %task, step, error = reveille_pg::causes(&error), "result of a handler rejected");
                let failure = Failure::permanent(format!("result rejected: {error}"));
                return self.report(*token, AttemptResult::Failed(failure.of_kind("refused")));
            }
            Err(error) => {
                tracing::warn!(worker, %task, step, error = reveille_pg::causes(&error), "reporting the end of a step failed");
                self.report_failed("failed");
            }
        }
        self.open.remove(&ended.token);
    }

    /// A report took no effect and is not sent again: the step is claimed again when its lease ends.
    fn report_failed(&self, reason: &'static str) {
        count(&self.tally.lost);
        count_failed_report(reason);
    }

    /// Extends the leases of held steps and aborts the handlers of lost ones. Steps with a pending report are left to
    /// its response: the report may have been applied first.
    fn heartbeat_ended(&mut self, HeartbeatResult { since, answers }: HeartbeatResult) {
        let worker = &self.request.name;
        let answers = answers.unwrap_or_else(|error| {
            tracing::warn!(worker, error = reveille_pg::causes(&error), "heartbeat failed; retrying");
            Vec::new()
        });
        for (token, answer) in answers {
            let Some(open) = self.open.get_mut(&token) else { continue };
            match (answer, &open.handler) {
                (Ok(()), _) => {
                    let before = open.surely_until();
                    open.until = since + self.request.lease;
                    self.slots.extended(token, before, open.surely_until());
                }
                (Err(_), None) => {}
                (Err(_), Some(handler)) => {
                    tracing::warn!(worker, task = %token.task, step = open.name, "lease lost: aborting the handler");
                    handler.abort();
                    count(&self.tally.lost);
                    self.open.remove(&token);
                }
            }
        }
    }

    fn stop(&mut self, grace: Duration) {
        // Dropping the claim releases its steps.
        self.claim = None;
        self.stopping.send_replace(true);
        self.stage = Stage::Stopping(Instant::now() + grace.min(WAIT));
    }

    fn advance_stage(&mut self, now: Instant) {
        match self.stage {
            Stage::Stopping(until) if now >= until => {
                self.handlers.abort_all();
                self.stage = Stage::Ending(now + ENDING);
            }
            Stage::Ending(until) if now >= until => {
                let stuck = self.open.iter_mut().filter_map(|(token, open)| open.handler.take().map(|_| *token));
                let stuck: Vec<Token> = stuck.collect();
                stuck.into_iter().for_each(|token| self.report(token, AttemptResult::GivenBack));
                self.stage = Stage::Leaving;
            }
            _ => {}
        }
    }
}

/// Waits for the claim; forever if there is none.
async fn next_claim<T>(claim: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match claim {
        Some(claim) => claim.await,
        None => std::future::pending().await,
    }
}

fn panicked(error: JoinError) -> Failure {
    let payload = error.into_panic();
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    Failure::new(format!("handler panicked: {}", text.unwrap_or("no message"))).of_kind("panic")
}
