//! Sending writes together, and knowing what became of each.
//!
//! There is no artificial delay: idle means send now, busy means collect until the flight returns. A caller that goes away
//! must not tear a write in the middle, so flights run in tasks of their own; a member whose row is locked, or that was
//! refused together with others, travels alone, so that nobody waits or fails for it. How one flight learns its outcome is in
//! [`plane`](crate::write::sender).

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pg::Database;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout};

use crate::error::{Error, Result, broken};
use crate::metrics::WriterMetrics;
use crate::notify::dispatcher::Dispatcher;
use crate::options::LONGEST;
use crate::underway::{Passage, Underway};
use crate::write::batch::BatchedWrite;
use crate::write::log::Log;
use crate::write::pending::{NextBatch, PendingWrites, SenderId};
use crate::write::sender::{BatchSender, Manner};

/// How flights of one kind travel.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// Members per flight at most.
    pub max_writes: usize,
    /// Bytes of members per flight at most, as [`BatchedWrite::bytes`] counts them.
    pub max_bytes: usize,
    /// Members that may wait for their outcome; further ones wait to be let in.
    pub max_waiting: usize,
    /// Writer in the air at a time, beside members that travel alone.
    pub concurrency: usize,
    /// How long after boarding a member is told that the database is unavailable, or its outcome unknown. An attempt under way
    /// by then is waited for, up to `attempt_timeout`; and if an outcome cannot be learnt, all members of its flight are told when
    /// the first one's time is up.
    pub give_up_after: Duration,
    /// How long one attempt may take before its connection counts as dead.
    pub attempt_timeout: Duration,
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions {
            max_writes: 500,
            max_bytes: 8 << 20,
            max_waiting: 10_000,
            concurrency: 1,
            give_up_after: Duration::from_secs(60),
            attempt_timeout: Duration::from_secs(30),
        }
    }
}

/// How long a lane that finds nobody keeps its connection for the next: getting one costs the pool a round trip and a task switch.
const LINGER: Duration = Duration::from_millis(20);

/// Sends one kind of write. Cheap to clone; made by [`Wake::flights`](crate::Wake::flights).
pub struct Writer<F: BatchedWrite> {
    inner: Arc<Inner<F>>,
}

impl<F: BatchedWrite> Clone for Writer<F> {
    fn clone(&self) -> Self {
        Writer { inner: self.inner.clone() }
    }
}

pub(crate) struct Inner<F: BatchedWrite> {
    pub(crate) name: Arc<str>,
    pub(crate) batched_write: F,
    pub(crate) db: Database,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) options: WriterOptions,
    pub(crate) log: Log,
    pub(crate) metrics: WriterMetrics,
    runtime: Handle,
    room: Arc<Semaphore>,
    pending: Mutex<PendingWrites<PendingWrite<F>>>,
    /// Members whose outcome is not known yet.
    underway: Underway,
}

/// A member on its way to its outcome.
pub(crate) struct PendingWrite<F: BatchedWrite> {
    pub(crate) write: F::Write,
    bytes: usize,
    /// When it must know its outcome.
    pub(crate) deadline: Instant,
    reply: oneshot::Sender<Result<F::Outcome>>,
    _underway: Passage,
    _room: OwnedSemaphorePermit,
}

impl<F: BatchedWrite> PendingWrite<F> {
    pub(crate) fn tell(self, outcome: Result<F::Outcome>) {
        drop(self.reply.send(outcome));
    }
}

impl<F: BatchedWrite> Writer<F> {
    pub(crate) fn start(
        name: &str,
        batched_write: F,
        db: &Database,
        dispatcher: &Arc<Dispatcher>,
        options: WriterOptions,
    ) -> Self {
        Writer {
            inner: Arc::new(Inner {
                name: name.into(),
                batched_write,
                db: db.clone(),
                dispatcher: dispatcher.clone(),
                log: Log::new(db, &dispatcher.schema),
                metrics: WriterMetrics::new(name),
                runtime: Handle::current(),
                room: Arc::new(Semaphore::new(options.max_waiting.clamp(1, Semaphore::MAX_PERMITS))),
                pending: Mutex::new(PendingWrites::new(
                    options.concurrency,
                    options.max_writes,
                    options.max_bytes,
                    |p| p.bytes,
                )),
                underway: Underway::new(),
                options,
            }),
        }
    }

    /// Sends a write with the next flight and answers what became of it.
    ///
    /// Waits to be let in while `max_waiting` others are underway.
    ///
    /// # Errors
    /// [`Error::Refused`] if the database refuses this member; [`Error::Unavailable`] if it could not be sent in time and
    /// has not happened; [`Error::Unknown`] if it was sent and the outcome could not be learnt in time; [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Once let in, dropping the future changes nothing: the write happens, and nobody hears of it.
    pub async fn submit(&self, write: F::Write) -> Result<F::Outcome> {
        let inner = &self.inner;
        let room = inner.room.clone().acquire_owned().await.map_err(|_| inner.closed())?;
        let (reply, outcome) = oneshot::channel();
        let deadline = Instant::now() + inner.options.give_up_after.min(LONGEST);
        let (bytes, underway) = (inner.batched_write.bytes(&write), inner.underway.begin());
        inner.add(PendingWrite { write, bytes, deadline, reply, _underway: underway, _room: room })?;
        outcome.await.unwrap_or_else(|_| Err(inner.panicked()))
    }

    /// Refuses new members, and returns when the outcome of every other is known.
    pub async fn close(&self) {
        self.inner.pending().close();
        self.inner.room.close();
        self.inner.underway.ended().await;
    }
}

impl<F: BatchedWrite> Inner<F> {
    fn pending(&self) -> MutexGuard<'_, PendingWrites<PendingWrite<F>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closed(&self) -> Error {
        Error::Closed { what: self.name.clone() }
    }

    fn panicked(&self) -> Error {
        let source = Arc::new(broken(io::ErrorKind::Other, "the flight panicked"));
        Error::Unknown { what: self.name.clone(), source }
    }

    fn add(self: &Arc<Self>, pending_write: PendingWrite<F>) -> Result<()> {
        let opened = self.pending().add(pending_write).map_err(|_| self.closed())?;
        self.run_sender(opened);
        Ok(())
    }

    fn run_sender(self: &Arc<Self>, sender_id: Option<SenderId>) {
        if let Some(id) = sender_id {
            self.runtime.spawn(SenderTask { inner: self.clone(), id, state: SenderState::New }.run());
        }
    }

    /// Whether a connection may be kept for a moment without keeping anybody from one.
    fn pool_has_room(&self) -> bool {
        let pool = self.db.pool();
        pool.num_idle() > 0 || pool.size() < pool.options().get_max_connections()
    }

    /// Sends members each alone, without delaying the next flight; `patient`: waiting for its row. A member that is overtaken by
    /// a later one of the same key had no promise of order: both were under way at once.
    pub(crate) fn send_alone(self: &Arc<Self>, pending_writes: Vec<PendingWrite<F>>, patient: bool) {
        self.metrics.lone.increment(pending_writes.len() as u64);
        for pending_write in pending_writes {
            let me = self.clone();
            self.runtime.spawn(async move {
                let turns = if patient { &me.dispatcher.patient } else { &me.dispatcher.alone };
                let _turn = turns.acquire().await;
                let mut sender = BatchSender::new(me.clone());
                let mut load = vec![pending_write];
                while !load.is_empty() {
                    load = sender.send(load, if patient { Manner::Patient } else { Manner::Alone }).await;
                }
                sender.park().await;
            });
        }
    }
}

/// Flies as long as anybody waits, and lingers a moment longer.
struct SenderTask<F: BatchedWrite> {
    inner: Arc<Inner<F>>,
    id: SenderId,
    state: SenderState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SenderState {
    /// Never polled: its runtime takes no more tasks.
    New,
    Running,
    Ended,
}

impl<F: BatchedWrite> SenderTask<F> {
    async fn run(mut self) {
        self.state = SenderState::Running;
        let mut sender = BatchSender::new(self.inner.clone());
        loop {
            // Whoever was woken together with the first member comes along.
            tokio::task::yield_now().await;
            let load = self.inner.pending().load(self.id);
            match load {
                NextBatch::Members(mut load) => {
                    load.sort_by_cached_key(|pending_write| self.inner.batched_write.key(&pending_write.write));
                    let again = sender.send(load, Manner::Together).await;
                    self.inner.pending().put_back(again);
                }
                NextBatch::Nobody(called) => {
                    if !self.inner.pool_has_room() {
                        sender.park().await;
                    }
                    if timeout(LINGER, called).await.is_err() && self.inner.pending().end_lingering(self.id) {
                        self.state = SenderState::Ended;
                        return sender.park().await;
                    }
                }
            }
        }
    }
}

impl<F: BatchedWrite> Drop for SenderTask<F> {
    fn drop(&mut self) {
        if self.state == SenderState::Ended || self.inner.pending().end_lingering(self.id) {
            return;
        }
        let reopened = self.inner.pending().sender_ended();
        if self.state == SenderState::Running && std::thread::panicking() {
            // The product's code panicked, and the next member must find a lane.
            self.inner.run_sender(reopened);
        } else if reopened.is_some() {
            // The runtime is going away: there are no lanes any more.
            let abandoned = self.inner.pending().abandon();
            drop(abandoned);
        }
    }
}
