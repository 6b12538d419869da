//! The one task of a worker: what it claims, begins, hears and says.
//!
//! It owns everything and shares nothing, so there is no lock. It waits for many things at once: for one claim, which asks for as many steps as there is room for; for the handlers; for
//! the words that are on their way, which go out side by side so that flights group them; for one heartbeat.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::counts::{Tally, count};
use super::handler::Carry;
use super::heartbeat::{Heard, Heartbeat};
use super::step::{Link, Over, Signal};
use super::stranger::Strangers;
use crate::claim::token::Token;
use crate::claim::{ClaimRequest, ClaimedStep, WANT_MAX};
use crate::complete::{AttemptResult, Failure, Refused, ReportedStep, StepReport};
use crate::error::{Error, Result};
use crate::flow::Flow;

/// How long one claim waits; it is only begun again.
const WAIT: Duration = Duration::from_secs(86_400);
/// The pause after a failure of the database, which the log tells.
const PAUSE: Duration = Duration::from_millis(500);
/// Words that may be on their way before more is claimed, if the handlers at a time are fewer.
const WORDS: usize = 64;
/// How long handlers that were told to end may take to do so before their steps are given back all the same.
const ENDING: Duration = Duration::from_secs(1);
/// How long before the step's timeout a handler is ended, so that this can be said while the step is still its worker's: a tenth of it, and no more than this.
const MARGIN: Duration = Duration::from_secs(1);

/// A step that is this worker's.
struct Open {
    name: String,
    /// Until when it is, as far as it is known here.
    until: Instant,
    /// What ends its handler; `None` when that has ended and its word is on the way.
    handler: Option<AbortHandle>,
}

/// A word that was sent, and what came of it.
type Word = Pin<Box<dyn Future<Output = (StepReport, Result<Result<ReportedStep, Refused>>)> + Send>>;
type Claiming = Pin<Box<dyn Future<Output = Result<Vec<ClaimedStep>>> + Send>>;

/// How far a worker is in stopping.
enum Stage {
    Working,
    /// Handlers may go on until then.
    Stopping(Instant),
    /// They were told to end, and may take until then.
    Ending(Instant),
    /// Only words are waited for.
    Leaving,
}

pub(super) struct Run {
    flow: Flow,
    claimant: ClaimRequest,
    registry: HashMap<String, Arc<dyn Carry>>,
    concurrency: usize,
    tally: Arc<Tally>,
    stage: Stage,
    stopping: watch::Sender<bool>,
    claim: Option<Claiming>,
    handlers: JoinSet<Result<AttemptResult, Failure>>,
    /// Whose each of them is.
    tasks: HashMap<Id, Token>,
    open: HashMap<Token, Open>,
    words: FuturesUnordered<Word>,
    heartbeat: Heartbeat,
    strangers: Strangers,
}

impl Run {
    pub(super) fn new(
        flow: Flow,
        claimant: ClaimRequest,
        registry: HashMap<String, Arc<dyn Carry>>,
        concurrency: usize,
        tally: Arc<Tally>,
    ) -> Run {
        Run {
            heartbeat: Heartbeat::new(claimant.lease, Instant::now()),
            flow,
            claimant,
            registry,
            concurrency,
            tally,
            stage: Stage::Working,
            stopping: watch::Sender::new(false),
            claim: None,
            handlers: JoinSet::new(),
            tasks: HashMap::new(),
            open: HashMap::new(),
            words: FuturesUnordered::new(),
            strangers: Strangers::default(),
        }
    }

    /// Works until it is told to end, or nobody is left to tell it, and everything is said.
    pub(super) async fn until(mut self, mut end: oneshot::Receiver<Duration>) {
        loop {
            let now = Instant::now();
            self.look_at_the_clock(now);
            if !matches!(self.stage, Stage::Working) && self.open.is_empty() {
                return;
            }
            self.begin_claim(now);
            self.heartbeat.begin(&self.flow, now, self.open.keys().copied());
            let alarm = self.alarm(now);
            tokio::select! {
                grace = &mut end, if matches!(self.stage, Stage::Working) => self.stop(grace.unwrap_or_default()),
                Some(ended) = self.handlers.join_next_with_id() => self.handlers_ended(ended),
                Some((ended, answer)) = self.words.next() => self.answered(ended, answer),
                claimed = some(&mut self.claim) => self.claimed(claimed),
                heard = self.heartbeat.heard() => self.heard(heard),
                () = sleep_until(alarm) => {}
            }
        }
    }

    /// When something is to be done by the clock.
    fn alarm(&self, now: Instant) -> Instant {
        let stage = match self.stage {
            Stage::Stopping(until) | Stage::Ending(until) => Some(until),
            Stage::Working | Stage::Leaving => None,
        };
        let alarms = [stage, self.heartbeat.next()];
        alarms.into_iter().flatten().min().unwrap_or(now + WAIT)
    }

    /// Asks for as many steps as there is room for; one claim at a time.
    fn begin_claim(&mut self, now: Instant) {
        let words = self.concurrency.max(WORDS).saturating_sub(self.words.len());
        let want = self.concurrency.saturating_sub(self.handlers.len()).min(words).min(WANT_MAX);
        if want == 0 || self.claim.is_some() || !matches!(self.stage, Stage::Working) {
            return;
        }
        let (flow, claimant, left_out) = (self.flow.clone(), self.claimant.clone(), self.strangers.left_out(now));
        // Those that are left out come back.
        let until = self.strangers.next(now).unwrap_or(now + WAIT);
        self.claim = Some(Box::pin(async move { flow.claim_except(&claimant, left_out, want, Some(until)).await }));
    }

    fn claimed(&mut self, claimed: Result<Vec<ClaimedStep>>) {
        self.claim = None;
        match claimed {
            Ok(steps) => steps.into_iter().for_each(|step| self.begin(step)),
            Err(Error::Wake(wake::Error::Closed { .. })) => self.claim = Some(Box::pin(std::future::pending())),
            Err(error) => {
                tracing::warn!(worker = self.claimant.name, error = pg::causes(&error), "steps could not be claimed");
                self.claim = Some(Box::pin(async {
                    sleep(PAUSE).await;
                    Ok(Vec::new())
                }));
            }
        }
    }

    /// Begins with a step, or gives it back if nobody here can do it.
    fn begin(&mut self, step: ClaimedStep) {
        count(&self.tally.claimed);
        let now = Instant::now();
        let token = step.token;
        let mut open = Open { name: step.name.clone(), until: now + step.lease, handler: None };
        let Some(handler) = self.registry.get(&step.callable) else {
            if let Some(pause) = self.strangers.met(&step.definition, now) {
                let ClaimedStep { namespace, definition, callable, .. } = &step;
                tracing::warn!(
                    worker = self.claimant.name,
                    namespace,
                    step = definition,
                    callable,
                    ?pause,
                    "no handler is registered for this callable: the step is given back, and steps of its name are left alone for a while",
                );
            }
            self.open.insert(token, open);
            return self.say(token, AttemptResult::GivenBack);
        };
        let over = Arc::new(AtomicBool::new(false));
        let signal = Signal { over: over.clone(), stopping: self.stopping.subscribe() };
        let limit = step.timeout.map(|timeout| timeout - MARGIN.min(timeout / 10));
        let work = handler.clone().carry(step, Link { flow: self.flow.clone(), lease: self.claimant.lease, signal });
        let task = self.handlers.spawn(async move {
            let _over = Over(over);
            let Some(limit) = limit else { return work.await };
            timeout(limit, work).await.unwrap_or_else(|_| {
                let message =
                    format!("the handler took longer than {limit:?}, which is as long as the template allows");
                Err(Failure::new(message).of_kind("timeout"))
            })
        });
        self.tasks.insert(task.id(), token);
        open.handler = Some(task);
        self.open.insert(token, open);
        self.tally.running.fetch_add(1, Ordering::Relaxed);
    }

    /// A handler has ended; so may others have, whose room is claimed for together.
    fn handlers_ended(&mut self, first: std::result::Result<(Id, Result<AttemptResult, Failure>), JoinError>) {
        let mut next = Some(first);
        while let Some(ended) = next {
            self.handler_ended(ended);
            next = self.handlers.try_join_next_with_id();
        }
    }

    fn handler_ended(&mut self, ended: std::result::Result<(Id, Result<AttemptResult, Failure>), JoinError>) {
        self.tally.running.fetch_sub(1, Ordering::Relaxed);
        let (id, said) = match ended {
            Ok((id, Ok(said))) => (id, said),
            Ok((id, Err(failure))) => (id, AttemptResult::Failed(failure)),
            Err(error) if error.is_panic() => (error.id(), AttemptResult::Failed(panicked(error))),
            Err(error) => (error.id(), AttemptResult::GivenBack),
        };
        let Some(token) = self.tasks.remove(&id) else { return };
        // What was lost, or given back before its handler had ended, has had its word.
        let Some(open) = self.open.get_mut(&token) else { return };
        if open.handler.take().is_none() {
            return;
        }
        if let AttemptResult::Failed(failure) = &said {
            let Failure { message, retryable, .. } = failure;
            tracing::warn!(worker = self.claimant.name, task = %token.task, step = open.name, retryable, message, "an attempt failed");
        }
        self.say(token, said);
    }

    fn say(&self, token: Token, result: AttemptResult) {
        self.send(StepReport { token, result }, Duration::ZERO);
    }

    fn send(&self, ended: StepReport, pause: Duration) {
        let flow = self.flow.clone();
        self.words.push(Box::pin(async move {
            if !pause.is_zero() {
                sleep(pause).await;
            }
            let answer = flow.report_one(&ended).await;
            (ended, answer)
        }));
    }

    /// What the engine answered to a word.
    fn answered(&mut self, ended: StepReport, answer: Result<Result<ReportedStep, Refused>>) {
        let StepReport { token, result } = &ended;
        let Some(open) = self.open.get(token) else { return };
        let (worker, task, step) = (&self.claimant.name, token.task, &open.name);
        match answer {
            Ok(Ok(_)) => count(match result {
                AttemptResult::Complete(_) => &self.tally.completed,
                AttemptResult::Failed(_) => &self.tally.failed,
                AttemptResult::Yielded(_) => &self.tally.yielded,
                AttemptResult::GivenBack => &self.tally.given_back,
            }),
            Ok(Err(Refused::Lost)) => {
                tracing::warn!(worker, %task, step, "the step was not this worker's any more when it ended");
                count(&self.tally.lost);
            }
            Ok(Err(refused @ Refused::Invalid { .. })) => {
                tracing::warn!(worker, %task, step, error = pg::causes(&refused), "what a handler answered is refused");
                if matches!(result, AttemptResult::Complete(_)) {
                    let failure = Failure::permanent(format!("what the handler answered is refused: {refused}"));
                    return self.say(*token, AttemptResult::Failed(failure.of_kind("refused")));
                }
                count(&self.tally.lost);
            }
            Err(error) if error.is_transient() && Instant::now() < open.until => {
                tracing::warn!(worker, %task, step, error = pg::causes(&error), "how a step ended could not be said for now");
                return self.send(ended, PAUSE);
            }
            Err(error)
                if matches!(result, AttemptResult::Complete(_) | AttemptResult::Yielded(_))
                    && !error.is_transient() =>
            {
                tracing::warn!(worker, %task, step, error = pg::causes(&error), "what a handler answered is refused");
                let failure = Failure::permanent(format!("what the handler answered is refused: {error}"));
                return self.say(*token, AttemptResult::Failed(failure.of_kind("refused")));
            }
            Err(error) => {
                tracing::warn!(worker, %task, step, error = pg::causes(&error), "how a step ended could not be said");
                count(&self.tally.lost);
            }
        }
        self.open.remove(&ended.token);
    }

    /// Which steps are still this worker's. Those whose word is on the way are left to its answer: the word may have come first.
    fn heard(&mut self, Heard { since, answers }: Heard) {
        let worker = &self.claimant.name;
        let answers = answers.unwrap_or_else(|error| {
            tracing::warn!(worker, error = pg::causes(&error), "leases could not be made to last for now");
            Vec::new()
        });
        for (token, answer) in answers {
            let Some(open) = self.open.get_mut(&token) else { continue };
            match (answer, &open.handler) {
                (Ok(()), _) => open.until = since + self.claimant.lease,
                (Err(_), None) => {}
                (Err(_), Some(handler)) => {
                    tracing::warn!(worker, task = %token.task, step = open.name, "the step is not this worker's any more: its handler is ended");
                    handler.abort();
                    count(&self.tally.lost);
                    self.open.remove(&token);
                }
            }
        }
    }

    fn stop(&mut self, grace: Duration) {
        // What was being claimed is given back.
        self.claim = None;
        self.stopping.send_replace(true);
        self.stage = Stage::Stopping(Instant::now() + grace.min(WAIT));
    }

    fn look_at_the_clock(&mut self, now: Instant) {
        match self.stage {
            Stage::Stopping(until) if now >= until => {
                self.handlers.abort_all();
                self.stage = Stage::Ending(now + ENDING);
            }
            Stage::Ending(until) if now >= until => {
                let stuck = self.open.iter_mut().filter_map(|(token, open)| open.handler.take().map(|_| *token));
                let stuck: Vec<Token> = stuck.collect();
                stuck.into_iter().for_each(|token| self.say(token, AttemptResult::GivenBack));
                self.stage = Stage::Leaving;
            }
            _ => {}
        }
    }
}

/// What there is of it; never, if there is nothing.
async fn some<T>(claim: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match claim {
        Some(claim) => claim.await,
        None => std::future::pending().await,
    }
}

fn panicked(error: JoinError) -> Failure {
    let said = error.into_panic();
    let text = said.downcast_ref::<&str>().copied().or_else(|| said.downcast_ref::<String>().map(String::as_str));
    Failure::new(format!("the handler panicked: {}", text.unwrap_or("without a word"))).of_kind("panic")
}
