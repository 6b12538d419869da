//! One flight, from its first attempt to its known outcome.
//!
//! A connection that breaks around the commit leaves the outcome unknown. The danger is to guess: sending again may do it
//! twice, not sending again may lose it. So every attempt writes its id with its outcomes in its own transaction, and when
//! the answer is lost the id is *settled* ([`Log::settle`](crate::write::log::Log::settle)): either it is there, with the
//! outcomes, or its place is taken, after which that attempt can never commit. Then sending again is safe. A token presented
//! by a *second* call is still an error, because that call is another flight.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pg::retry::Backoff;
use pg::{Session, shortage, within};
use tokio::time::{Instant, sleep};

use crate::error::{Error, broken, is_about_connecting};
use crate::notify::channel::{WakeUp, merge};
use crate::notify::dispatcher::Announcement;
use crate::notify::rate::OVERDUE;
use crate::write::batch::{BatchResult, BatchedWrite, UnknownOutcome, WriteBatch};
use crate::write::log::Entry;
use crate::write::writer::{Inner, PendingWrite};

/// The pause between attempts grows from this to that.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_LONGEST: Duration = Duration::from_secs(1);

/// How members travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Together; a member whose row is locked is left behind.
    Together,
    /// Alone, because a flight it was in was refused.
    Alone,
    /// Alone, waiting for its row.
    Patient,
}

/// How the sending of a batch ended.
struct Sent<O> {
    fate: Fate<O>,
    /// What the attempt that counts announced.
    announcement: Option<Announcement>,
}

enum Fate<O> {
    /// It happened, and this is its answer.
    Committed(BatchResult<O>),
    /// The database refused it, and would again.
    Refused(pg::Error),
    /// It could not be sent in time; it has not happened.
    Unavailable(pg::Error),
    /// The server is short of something, and has been for longer than it is worth waiting; it has not happened.
    Short(pg::Error),
    /// It was sent, and the answer could not be had in time.
    Unknown(pg::Error),
}

/// Makes flights one after another, on one connection while they follow each other closely.
pub(crate) struct BatchSender<F: BatchedWrite> {
    inner: Arc<Inner<F>>,
    session: Option<Session>,
}

impl<F: BatchedWrite> BatchSender<F> {
    pub(crate) fn new(inner: Arc<Inner<F>>) -> Self {
        BatchSender { inner, session: None }
    }

    /// Gives the connection back.
    pub(crate) async fn park(&mut self) {
        if let Some(session) = self.session.take() {
            // Nothing is under way on it: whatever this says, nothing is lost.
            let _ = session.finish().await;
        }
    }

    /// Sends members and tells each what became of it. Answers those whose flight did not leave and who have time for another.
    pub(crate) async fn send(&mut self, load: Vec<PendingWrite<F>>, manner: Manner) -> Vec<PendingWrite<F>> {
        let inner = self.inner.clone();
        inner.metrics.writes.record(load.len() as f64);
        let possible =
            merge(load.iter().flat_map(|pending_write| inner.batched_write.wake_ups(&pending_write.write, None)));
        let Sent { fate, announcement } = self.until_known(&load, manner, &possible).await;
        let ended = match &fate {
            Fate::Committed(_) => &inner.metrics.result,
            Fate::Refused(_) | Fate::Unavailable(_) | Fate::Short(_) => &inner.metrics.failed,
            Fate::Unknown(_) => &inner.metrics.unknown,
        };
        ended.increment(1);
        match fate {
            Fate::Committed(result) if result.outcomes.len() == load.len() => {
                self.deliver(load, manner, result, announcement);
            }
            Fate::Committed(_) => {
                self.ring_in_case(announcement, &possible);
                let source = broken(io::ErrorKind::InvalidData, "the statement did not answer for every member");
                tell_all(load, Arc::new(source), |source| Error::Unknown { what: inner.name.clone(), source });
            }
            // Somebody holds a row that a statement cannot pass by: only whose it is may wait for it.
            Fate::Unavailable(error) if manner == Manner::Together && error.is_lock_timeout() => {
                inner.send_alone(load, true);
            }
            Fate::Refused(error) if load.len() > 1 && !is_about_connecting(&error) => inner.send_alone(load, false),
            Fate::Refused(error) => {
                tell_all(load, Arc::new(error), |source| Error::refused(&inner.name, source));
            }
            Fate::Unavailable(error) => {
                let now = Instant::now();
                let (late, again): (Vec<_>, Vec<_>) =
                    load.into_iter().partition(|pending_write| pending_write.deadline <= now);
                tell_all(late, Arc::new(error), |source| Error::Unavailable { what: inner.name.clone(), source });
                return again;
            }
            Fate::Short(error) => {
                tell_all(load, Arc::new(error), |source| Error::Unavailable { what: inner.name.clone(), source });
            }
            Fate::Unknown(error) => {
                self.ring_in_case(announcement, &possible);
                tell_all(load, Arc::new(error), |source| Error::Unknown { what: inner.name.clone(), source });
            }
        }
        Vec::new()
    }

    /// It may have happened: whoever waits for it must look.
    fn ring_in_case(&self, announcement: Option<Announcement>, possible: &[WakeUp]) {
        if let Some(announcement) = announcement {
            self.inner.dispatcher.announced(announcement, possible, None);
        }
    }

    /// Tells each write its outcome, after whatever follows from it in this process.
    fn deliver(
        &self,
        load: Vec<PendingWrite<F>>,
        manner: Manner,
        result: BatchResult<F::Outcome>,
        announcement: Option<Announcement>,
    ) {
        let inner = &self.inner;
        let (mut wake_ups, mut told, mut locked) = (Vec::new(), Vec::new(), Vec::new());
        for (pending_write, outcome) in load.into_iter().zip(result.outcomes) {
            match outcome {
                Some(Ok(outcome)) => {
                    inner.batched_write.committed(&pending_write.write, &outcome);
                    wake_ups.extend(inner.batched_write.wake_ups(&pending_write.write, Some(&outcome)));
                    told.push((pending_write, Ok(outcome)));
                }
                Some(Err(UnknownOutcome(text))) => {
                    tracing::error!(writer = &*inner.name, text, "a recorded outcome cannot be read");
                    wake_ups.extend(inner.batched_write.wake_ups(&pending_write.write, None));
                    let source = Arc::new(broken(io::ErrorKind::InvalidData, "the recorded outcome cannot be read"));
                    told.push((pending_write, Err(Error::Unknown { what: inner.name.clone(), source })));
                }
                None => locked.push(pending_write),
            }
        }
        // Rung before the members hear of it, so that who acts on the outcome finds the waiters awake.
        if let Some(announcement) = announcement {
            inner.dispatcher.announced(announcement, &wake_ups, result.backend);
        }
        for (pending_write, outcome) in told {
            pending_write.tell(outcome);
        }
        if manner == Manner::Patient {
            let source = broken(io::ErrorKind::WouldBlock, "a patient statement must wait for its row");
            tell_all(locked, Arc::new(source), |source| Error::Unavailable { what: inner.name.clone(), source });
        } else {
            inner.send_alone(locked, true);
        }
    }

    /// Attempts the flight until its outcome is known, or the time of a member is up.
    async fn until_known(&mut self, load: &[PendingWrite<F>], manner: Manner, possible: &[WakeUp]) -> Sent<F::Outcome> {
        let inner = self.inner.clone();
        let now = Instant::now();
        let give_up_at = load.iter().map(|pending_write| pending_write.deadline).min().unwrap_or(now);
        let mut backoff = Backoff::new(PAUSE_FIRST, PAUSE_LONGEST);
        let mut may_have_happened = false;
        let mut muted = false;
        let mut short_since: Option<Instant> = None;
        loop {
            let entry = F::RECORDS_OUTCOMES.then(|| inner.log.open());
            let (attempted, announcement) = self.attempt(load, manner, entry.as_ref(), possible, muted).await;
            let error = match attempted {
                Ok(result) => {
                    shortage::write_succeeded();
                    return Sent { fate: Fate::Committed(result), announcement };
                }
                Err(error) => error,
            };
            tracing::debug!(batched_write = &*inner.name, %error, "an attempt failed");
            // Without an announcement there was no connection, and nothing was sent.
            let unknown = announcement.is_some() && error.is_ambiguous();
            match entry.filter(|_| unknown) {
                None if unknown => {
                    // It may have happened: whoever waits for it must look.
                    self.ring_in_case(announcement, possible);
                    may_have_happened = true;
                }
                None => {}
                Some(entry) => match self.settle(&entry, &mut backoff, give_up_at).await {
                    Ok(Some(outcomes)) => {
                        let batch = WriteBatch {
                            writes: load.iter().map(|pending_write| &pending_write.write).collect(),
                            patient: manner == Manner::Patient,
                            id: Some(entry.id),
                            channels: &[],
                            payloads: &[],
                        };
                        let result = batch.decoded(&inner.batched_write, outcomes, None);
                        return Sent { fate: Fate::Committed(result), announcement };
                    }
                    Ok(None) => {}
                    Err(unanswered) => return Sent { fate: Fate::Unknown(unanswered), announcement },
                },
            }
            if error.is_notification_queue_full() && !muted {
                // A lost ring costs latency; a lost write is lost.
                tracing::error!(
                    batched_write = &*inner.name,
                    "the server's notification queue is full: somebody listens and does not read"
                );
                muted = true;
                continue;
            }
            if !error.is_transient() {
                return Sent { fate: Fate::Refused(error), announcement: None };
            }
            if error.is_lock_timeout() && manner == Manner::Together {
                return Sent { fate: Fate::Unavailable(error), announcement: None };
            }
            let patience = error.shortage().map(|short| (short, *short_since.get_or_insert_with(Instant::now)));
            let is_over = patience.is_some_and(|(short, since)| since.elapsed() >= short.patience());
            let is_short = is_over || shortage::is_lasting();
            if is_short && !may_have_happened {
                return Sent { fate: Fate::Short(error), announcement: None };
            }
            if is_short || Instant::now() >= give_up_at {
                let fate = if may_have_happened { Fate::Unknown(error) } else { Fate::Unavailable(error) };
                return Sent { fate, announcement: None };
            }
            sleep(backoff.pause()).await;
        }
    }

    /// Learns what became of an attempt whose answer was lost; `None`: it has not happened and never will.
    async fn settle(
        &self,
        entry: &Entry,
        backoff: &mut Backoff,
        give_up_at: Instant,
    ) -> pg::Result<Option<Vec<Option<String>>>> {
        loop {
            match self.inner.log.settle(entry.id).await {
                Err(error) if Instant::now() < give_up_at => {
                    tracing::debug!(batched_write = &*self.inner.name, %error, "an outcome could not be asked for");
                    sleep(backoff.pause()).await;
                }
                settled => return settled,
            }
        }
    }

    /// One attempt. How its rings travel is decided when its connection is at hand, because a ring that follows the commit is
    /// covered by an earlier one only for so long.
    async fn attempt(
        &mut self,
        load: &[PendingWrite<F>],
        manner: Manner,
        entry: Option<&Entry>,
        possible: &[WakeUp],
        muted: bool,
    ) -> (pg::Result<BatchResult<F::Outcome>>, Option<Announcement>) {
        let inner = self.inner.clone();
        let limit = inner.options.attempt_timeout;
        let obtained = match self.session.take() {
            Some(session) => Ok(session),
            None => within(limit, inner.db.session()).await,
        };
        let mut session = match obtained {
            Ok(session) => session,
            Err(error) => return (Err(error), None),
        };
        let announcement = inner.dispatcher.announce(possible, muted);
        let batch = WriteBatch {
            writes: load.iter().map(|pending_write| &pending_write.write).collect(),
            patient: manner == Manner::Patient,
            id: entry.map(|entry| entry.id),
            channels: &announcement.channels,
            payloads: &announcement.payloads,
        };
        let keeps = !inner.db.has_pooler();
        let attempt = within(limit, async {
            let result = inner.batched_write.send(&mut session, &batch).await;
            match &result {
                Ok(_) if keeps => self.session = Some(session),
                // Through a pooler the session is a transaction, and this its commit.
                Ok(_) => session.finish().await?,
                // What the server itself said leaves the connection in order.
                Err(error) if keeps && !error.is_ambiguous() => session.finish().await?,
                Err(_) => drop(session),
            }
            result
        });
        let result = {
            let mut attempt = pin!(attempt);
            loop {
                tokio::select! {
                    biased;
                    result = &mut attempt => break result,
                    () = sleep(OVERDUE), if !announcement.later.is_empty() => inner.dispatcher.announce_again(&announcement),
                }
            }
        };
        (result, Some(announcement))
    }
}

fn tell_all<F: BatchedWrite>(
    load: Vec<PendingWrite<F>>,
    source: Arc<pg::Error>,
    error: impl Fn(Arc<pg::Error>) -> Error,
) {
    for pending_write in load {
        pending_write.tell(Err(error(source.clone())));
    }
}
