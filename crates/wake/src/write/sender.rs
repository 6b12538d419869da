//! Sends one batch, from its first attempt until its outcome is known.
//!
//! A connection that breaks around the commit leaves the outcome unknown. The danger is to guess: sending again may
//! write twice, not sending again may lose the write. So every attempt records its id with its outcomes in its own
//! transaction, and if the answer is lost the id is *resolved*
//! ([`BatchLog::resolve`](crate::write::log::BatchLog::resolve)): either its outcomes are recorded, or an empty record
//! takes the id, after which that attempt can never commit. Then sending again is safe. A lease token presented by a
//! *second* call is still an error, because that call is another batch.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reveille_pg::retry::Backoff;
use reveille_pg::{Session, shortage, within};
use tokio::time::{Instant, sleep};

use crate::error::{Error, broken, is_about_connecting};
use crate::notify::channel::{WakeUp, merge};
use crate::notify::dispatcher::{NotifyPlan, Subscriber};
use crate::notify::rate::OVERDUE;
use crate::wait::attached::{ATTACHED_FOR, Detachable};
use crate::write::batch::{BatchResult, BatchedWrite, UnknownOutcome, WriteBatch};
use crate::write::log::LogEntry;
use crate::write::writer::{Inner, PendingWrite};

/// The pause between attempts grows from the first to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_LONGEST: Duration = Duration::from_secs(1);

/// How writes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendMode {
    /// Together; writes whose row is locked are left out.
    Batch,
    /// Alone, because the database refused its batch.
    Alone,
    /// Alone, waiting for its row lock.
    Patient,
}

/// How the attempts of a batch ended.
struct Sent<O> {
    outcome: SendOutcome<O>,
    /// How the attempt that counts notifies.
    plan: Option<NotifyPlan>,
}

enum SendOutcome<O> {
    /// It has committed with this result.
    Committed(BatchResult<O>),
    /// The database refused it, and would again.
    Refused(reveille_pg::Error),
    /// It could not be sent in time and has not happened.
    Unavailable(reveille_pg::Error),
    /// The server lacks a resource, for longer than the engine waits for that; it has not happened.
    Shortage(reveille_pg::Error),
    /// It was sent, and its outcome could not be learnt in time.
    Unknown(reveille_pg::Error),
}

/// How one attempt is made.
struct Attempt<'a> {
    mode: SendMode,
    /// Where its outcomes are recorded.
    entry: Option<&'a LogEntry>,
    /// It must not notify in its transaction.
    muted: bool,
    /// The wake-ups of whose waiters the statement may claim for; `None`: it must not claim.
    claims_for: Option<&'a [WakeUp]>,
}

/// How one attempt ended.
struct Attempted<O> {
    result: reveille_pg::Result<BatchResult<O>>,
    attached: AttachedPolls,
}

/// The polls that a statement makes. When its outcome is known, they are dropped: without a result they are abandoned.
type AttachedPolls = Vec<Arc<dyn Detachable>>;

/// Sends batches one after another, on one connection while they follow each other closely.
pub(crate) struct BatchSender<B: BatchedWrite> {
    inner: Arc<Inner<B>>,
    session: Option<Session>,
}

impl<B: BatchedWrite> BatchSender<B> {
    pub(crate) fn new(inner: Arc<Inner<B>>) -> Self {
        BatchSender { inner, session: None }
    }

    pub(crate) async fn release_connection(&mut self) {
        if let Some(session) = self.session.take() {
            // No statement is running on it, so an error loses nothing.
            let _ = session.finish().await;
        }
    }

    /// Sends a batch and replies to each of its writes. Returns those that were not sent and have time for another
    /// attempt.
    pub(crate) async fn send(&mut self, batch: Vec<PendingWrite<B>>, mode: SendMode) -> Vec<PendingWrite<B>> {
        let inner = self.inner.clone();
        inner.metrics.batch_size.record(batch.len() as f64);
        let possible = merge(batch.iter().flat_map(|pending| inner.kind.wake_ups(&pending.write, None)));
        let Sent { outcome, plan } = self.send_until_known(&batch, mode, &possible).await;
        let ended = match &outcome {
            SendOutcome::Committed(_) => &inner.metrics.committed,
            SendOutcome::Refused(_) | SendOutcome::Unavailable(_) | SendOutcome::Shortage(_) => &inner.metrics.failed,
            SendOutcome::Unknown(_) => &inner.metrics.unknown,
        };
        ended.increment(1);
        match outcome {
            SendOutcome::Committed(result) if result.outcomes.len() == batch.len() => {
                self.apply_result(batch, mode, result, plan);
            }
            SendOutcome::Committed(_) => {
                self.wake_possible(plan, &possible);
                let source = broken(io::ErrorKind::InvalidData, "the statement did not return one outcome per write");
                fail_all(batch, Arc::new(source), |source| Error::Unknown { what: inner.name.clone(), source });
            }
            // A row is locked that the statement cannot skip: only the writes to that row may wait for it.
            SendOutcome::Unavailable(error) if mode == SendMode::Batch && error.is_lock_timeout() => {
                inner.send_alone(batch, true);
            }
            SendOutcome::Refused(error) if batch.len() > 1 && !is_about_connecting(&error) => {
                inner.send_alone(batch, false);
            }
            SendOutcome::Refused(error) => {
                fail_all(batch, Arc::new(error), |source| Error::refused(&inner.name, source));
            }
            SendOutcome::Unavailable(error) => {
                let now = Instant::now();
                let (late, again): (Vec<_>, Vec<_>) = batch.into_iter().partition(|pending| pending.deadline <= now);
                fail_all(late, Arc::new(error), |source| Error::Unavailable { what: inner.name.clone(), source });
                return again;
            }
            SendOutcome::Shortage(error) => {
                fail_all(batch, Arc::new(error), |source| Error::Unavailable { what: inner.name.clone(), source });
            }
            SendOutcome::Unknown(error) => {
                self.wake_possible(plan, &possible);
                fail_all(batch, Arc::new(error), |source| Error::Unknown { what: inner.name.clone(), source });
            }
        }
        Vec::new()
    }

    /// The batch may have committed: wakes every waiter that it may concern.
    fn wake_possible(&self, plan: Option<NotifyPlan>, possible: &[WakeUp]) {
        if let Some(plan) = plan {
            self.inner.dispatcher.committed(plan, possible, None, &[]);
        }
    }

    /// Applies the effects of each outcome in this process, wakes the waiters, and replies to the writes.
    fn apply_result(
        &self,
        batch: Vec<PendingWrite<B>>,
        mode: SendMode,
        result: BatchResult<B::Outcome>,
        plan: Option<NotifyPlan>,
    ) {
        let inner = &self.inner;
        let (mut wake_ups, mut replies, mut locked) = (Vec::new(), Vec::new(), Vec::new());
        for (pending, outcome) in batch.into_iter().zip(result.outcomes) {
            match outcome {
                Some(Ok(outcome)) => {
                    inner.kind.committed(&pending.write, &outcome);
                    wake_ups.extend(inner.kind.wake_ups(&pending.write, Some(&outcome)));
                    replies.push((pending, Ok(outcome)));
                }
                Some(Err(UnknownOutcome)) => {
                    // Without the text, which may hold a client's data.
                    tracing::error!(writer = &*inner.name, "unknown outcome recorded");
                    wake_ups.extend(inner.kind.wake_ups(&pending.write, None));
                    let source = Arc::new(broken(io::ErrorKind::InvalidData, "the recorded outcome cannot be read"));
                    replies.push((pending, Err(Error::Unknown { what: inner.name.clone(), source })));
                }
                None => locked.push(pending),
            }
        }
        // Before the replies, so that a caller that acts on its outcome finds the waiters awake.
        if let Some(plan) = plan {
            let covered: Vec<Subscriber> = result.claims.iter().filter_map(|claim| claim.covers()).collect();
            inner.dispatcher.committed(plan, &wake_ups, result.backend, &covered);
        }
        result.claims.into_iter().for_each(|claim| claim.deliver());
        for (pending, outcome) in replies {
            pending.reply(outcome);
        }
        if mode == SendMode::Patient {
            let source = broken(io::ErrorKind::WouldBlock, "a patient statement must wait for its row");
            fail_all(locked, Arc::new(source), |source| Error::Unavailable { what: inner.name.clone(), source });
        } else {
            inner.send_alone(locked, true);
        }
    }

    /// Attempts the batch until its outcome is known, or the deadline of a write has passed.
    async fn send_until_known(
        &mut self,
        batch: &[PendingWrite<B>],
        mode: SendMode,
        possible: &[WakeUp],
    ) -> Sent<B::Outcome> {
        let inner = self.inner.clone();
        let now = Instant::now();
        let give_up_at = batch.iter().map(|pending| pending.deadline).min().unwrap_or(now);
        let mut backoff = Backoff::new(PAUSE_FIRST, PAUSE_LONGEST);
        let mut may_have_happened = false;
        let mut muted = false;
        let mut short_since: Option<Instant> = None;
        let mut may_claim = mode == SendMode::Batch && !inner.db.has_pooler();
        // Polls of attempts that may still commit: the names of their claims are unanswered when a later attempt, which
        // locks the same rows, has ended.
        let mut uncertain: Vec<AttachedPolls> = Vec::new();
        loop {
            let entry = B::RECORDS_OUTCOMES.then(|| inner.log.open());
            let how = Attempt { mode, entry: entry.as_ref(), muted, claims_for: may_claim.then_some(possible) };
            let (Attempted { result, attached }, plan) = self.attempt(batch, how, possible).await;
            may_claim = false;
            let error = match result {
                Ok(result) => {
                    shortage::write_succeeded();
                    return Sent { outcome: SendOutcome::Committed(result), plan };
                }
                Err(error) => error,
            };
            tracing::debug!(writer = &*inner.name, %error, "attempt failed");
            // Without a plan there was no connection, and nothing was sent.
            let is_unknown = plan.is_some() && error.is_ambiguous();
            match entry.filter(|_| is_unknown) {
                None if is_unknown => {
                    self.wake_possible(plan, possible);
                    may_have_happened = true;
                    attached.iter().for_each(|poll| poll.detach());
                    uncertain.push(attached.clone());
                }
                None => attached.iter().for_each(|poll| poll.nothing_claimed()),
                Some(entry) => match self.resolve(&entry, &attached, &mut backoff, give_up_at).await {
                    Ok(Some(outcomes)) => {
                        let recorded = WriteBatch {
                            writes: batch.iter().map(|pending| &pending.write).collect(),
                            patient: mode == SendMode::Patient,
                            id: Some(entry.id),
                            channels: &[],
                            payloads: &[],
                            claims_for: None,
                            attached: Mutex::default(),
                        };
                        let result = recorded.decoded(&inner.kind, outcomes, None);
                        return Sent { outcome: SendOutcome::Committed(result), plan };
                    }
                    Ok(None) => attached.iter().for_each(|poll| poll.nothing_claimed()),
                    Err(unresolved) => return Sent { outcome: SendOutcome::Unknown(unresolved), plan },
                },
            }
            if error.is_notification_queue_full() && !muted {
                // A lost notification costs latency; a lost write would be lost.
                tracing::error!(
                    writer = &*inner.name,
                    "the server's notification queue is full: a session listens and does not read"
                );
                muted = true;
                continue;
            }
            let claimed = !attached.is_empty();
            drop(attached);
            if claimed && !is_unknown && (!error.is_transient() || error.is_lock_timeout()) {
                // The claim may have been refused, or waited for a lock, and not the writes.
                continue;
            }
            if !error.is_transient() {
                return Sent { outcome: SendOutcome::Refused(error), plan: None };
            }
            if error.is_lock_timeout() && mode == SendMode::Batch {
                return Sent { outcome: SendOutcome::Unavailable(error), plan: None };
            }
            let patience = error.shortage().map(|short| (short, *short_since.get_or_insert_with(Instant::now)));
            let is_over = patience.is_some_and(|(short, since)| since.elapsed() >= short.patience());
            let is_short = is_over || shortage::is_lasting();
            if is_short && !may_have_happened {
                return Sent { outcome: SendOutcome::Shortage(error), plan: None };
            }
            if is_short || Instant::now() >= give_up_at {
                let outcome =
                    if may_have_happened { SendOutcome::Unknown(error) } else { SendOutcome::Unavailable(error) };
                return Sent { outcome, plan: None };
            }
            sleep(backoff.pause()).await;
        }
    }

    /// The outcomes of an attempt whose answer was lost; `None`: it has not committed and never will.
    async fn resolve(
        &self,
        entry: &LogEntry,
        attached: &AttachedPolls,
        backoff: &mut Backoff,
        give_up_at: Instant,
    ) -> reveille_pg::Result<Option<Vec<Option<String>>>> {
        loop {
            match self.inner.log.resolve(entry.id).await {
                Err(error) if Instant::now() < give_up_at => {
                    tracing::debug!(writer = &*self.inner.name, %error, "cannot resolve an unknown outcome; retrying");
                    // Their waiters do not wait for that.
                    attached.iter().for_each(|poll| poll.detach());
                    sleep(backoff.pause()).await;
                }
                resolved => return resolved,
            }
        }
    }

    /// One attempt. How it notifies is decided once it has its connection, because an earlier notification covers one
    /// after the commit only for so long.
    async fn attempt(
        &mut self,
        batch: &[PendingWrite<B>],
        how: Attempt<'_>,
        possible: &[WakeUp],
    ) -> (Attempted<B::Outcome>, Option<NotifyPlan>) {
        let inner = self.inner.clone();
        let limit = inner.options.attempt_timeout;
        let session = match self.session.take() {
            Some(session) => Ok(session),
            None => within(limit, inner.db.session()).await,
        };
        let mut session = match session {
            Ok(session) => session,
            Err(error) => return (Attempted { result: Err(error), attached: Vec::new() }, None),
        };
        let plan = inner.dispatcher.plan_notify(possible, how.muted);
        let batch = WriteBatch {
            writes: batch.iter().map(|pending| &pending.write).collect(),
            patient: how.mode == SendMode::Patient,
            id: how.entry.map(|entry| entry.id),
            channels: &plan.channels,
            payloads: &plan.payloads,
            claims_for: how.claims_for,
            attached: Mutex::default(),
        };
        let keeps_session = !inner.db.has_pooler();
        let attempt = within(limit, async {
            let result = inner.kind.send(&mut session, &batch).await;
            match &result {
                Ok(_) if keeps_session => self.session = Some(session),
                // Through a pooler the session is a transaction, and this is its commit.
                Ok(_) => session.finish().await?,
                // After an error reported by the server the connection is still usable.
                Err(error) if keeps_session && !error.is_ambiguous() => session.finish().await?,
                Err(_) => drop(session),
            }
            result
        });
        let result = {
            let mut attempt = pin!(attempt);
            let (mut overdue, mut detach) = (pin!(sleep(OVERDUE)), pin!(sleep(ATTACHED_FOR)));
            let mut is_attached = how.claims_for.is_some();
            loop {
                tokio::select! {
                    biased;
                    result = &mut attempt => break result,
                    () = &mut overdue, if !plan.after_commit.is_empty() => {
                        inner.dispatcher.notify_early(&plan);
                        overdue.as_mut().reset(Instant::now() + OVERDUE);
                    }
                    () = &mut detach, if is_attached => {
                        is_attached = false;
                        batch.detach();
                    }
                }
            }
        };
        let attached = batch.attached.into_inner();
        (Attempted { result, attached }, Some(plan))
    }
}

fn fail_all<B: BatchedWrite>(
    writes: Vec<PendingWrite<B>>,
    source: Arc<reveille_pg::Error>,
    error: impl Fn(Arc<reveille_pg::Error>) -> Error,
) {
    for pending in writes {
        pending.reply(Err(error(source.clone())));
    }
}
