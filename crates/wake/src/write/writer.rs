//! The writer: collects writes into batches and reports the outcome of each.
//!
//! There is no artificial delay: if no batch is being sent a write is sent at once, otherwise it is collected for the
//! next batch. A caller that goes away must not interrupt a write, so batches are sent by tasks of their own. A write
//! whose row is locked, or whose batch the database refused, is sent alone, so that no other waits or fails because of
//! it. [`sender`](crate::write::sender) has how one batch learns its outcome.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reveille_pg::Database;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout};

use crate::error::{Error, Result, broken};
use crate::in_progress::{InProgress, InProgressGuard};
use crate::metrics::WriterMetrics;
use crate::notify::dispatcher::Dispatcher;
use crate::options::LONGEST;
use crate::write::batch::BatchedWrite;
use crate::write::log::BatchLog;
use crate::write::pending::{NextBatch, PendingWrites, SenderId};
use crate::write::sender::{BatchSender, SendMode};

/// How writes of one kind are batched.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// Writes per batch at most.
    pub max_writes: usize,
    /// Bytes per batch at most, as [`BatchedWrite::bytes`] counts them.
    pub max_bytes: usize,
    /// Writes that may wait for their outcome; further callers wait to be admitted.
    pub max_waiting: usize,
    /// Batches sent at a time, besides writes that are sent alone.
    pub concurrency: usize,
    /// How long after its admission a write fails as unavailable, or as unknown. An attempt that is running by then is
    /// waited for, up to `attempt_timeout`; and if an outcome stays unknown, all writes of the batch fail at the
    /// deadline of the first.
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

/// How long an idle batch sender keeps its connection for the next write: getting one costs the pool a round trip and a
/// task switch.
const IDLE: Duration = Duration::from_millis(20);

/// Sends one kind of write. Cheap to clone; made by [`Wake::writer`](crate::Wake::writer).
pub struct Writer<B: BatchedWrite> {
    inner: Arc<Inner<B>>,
}

impl<B: BatchedWrite> Clone for Writer<B> {
    fn clone(&self) -> Self {
        Writer { inner: self.inner.clone() }
    }
}

pub(crate) struct Inner<B: BatchedWrite> {
    pub(crate) name: Arc<str>,
    pub(crate) kind: B,
    pub(crate) db: Database,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) options: WriterOptions,
    pub(crate) log: BatchLog,
    pub(crate) metrics: WriterMetrics,
    runtime: Handle,
    room: Arc<Semaphore>,
    pending: Mutex<PendingWrites<PendingWrite<B>>>,
    /// Writes whose outcome is not known yet.
    in_progress: InProgress,
}

/// A write whose outcome is not known yet.
pub(crate) struct PendingWrite<B: BatchedWrite> {
    pub(crate) write: B::Write,
    bytes: usize,
    /// When its caller must have an outcome.
    pub(crate) deadline: Instant,
    reply: oneshot::Sender<Result<B::Outcome>>,
    _in_progress: InProgressGuard,
    _room: OwnedSemaphorePermit,
}

impl<B: BatchedWrite> PendingWrite<B> {
    pub(crate) fn reply(self, outcome: Result<B::Outcome>) {
        drop(self.reply.send(outcome));
    }
}

impl<B: BatchedWrite> Writer<B> {
    pub(crate) fn start(
        name: &str,
        kind: B,
        db: &Database,
        dispatcher: &Arc<Dispatcher>,
        options: WriterOptions,
    ) -> Self {
        let WriterOptions { concurrency, max_writes, max_bytes, .. } = options;
        let pending = PendingWrites::new(concurrency, max_writes, max_bytes, |pending: &PendingWrite<B>| pending.bytes);
        Writer {
            inner: Arc::new(Inner {
                name: name.into(),
                kind,
                db: db.clone(),
                dispatcher: dispatcher.clone(),
                log: BatchLog::new(db, &dispatcher.schema),
                metrics: WriterMetrics::new(name),
                runtime: Handle::current(),
                room: Arc::new(Semaphore::new(options.max_waiting.clamp(1, Semaphore::MAX_PERMITS))),
                pending: Mutex::new(pending),
                in_progress: InProgress::new(),
                options,
            }),
        }
    }

    /// Sends a write with the next batch and returns its outcome.
    ///
    /// Waits to be admitted while `max_waiting` others are in progress.
    ///
    /// # Errors
    /// [`Error::Refused`] if the database refuses this write; [`Error::Unavailable`] if it could not be sent in time
    /// and has not happened; [`Error::Unknown`] if it was sent and its outcome could not be learnt in time;
    /// [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Once admitted, dropping the future changes nothing: the write happens, and its outcome is discarded.
    pub async fn submit(&self, write: B::Write) -> Result<B::Outcome> {
        let room = self.inner.room.clone().acquire_owned().await.map_err(|_| self.inner.closed())?;
        self.inner.admit(write, room)?.await
    }

    /// Adds a write to the next batch at once and returns a future of its outcome. Writes are added in the order of the
    /// calls. `None`: `max_waiting` others are in progress, or the writer is closed; the write does not happen.
    ///
    /// The future has the errors of [`submit`](Self::submit).
    ///
    /// # Cancel safety
    /// The write happens whether or not the future is polled.
    pub fn submit_now(&self, write: B::Write) -> Option<impl Future<Output = Result<B::Outcome>> + Send + use<B>> {
        let room = self.inner.room.clone().try_acquire_owned().ok()?;
        self.inner.admit(write, room).ok()
    }

    /// Rejects new writes, and returns when the outcome of every admitted one is known.
    pub async fn close(&self) {
        self.inner.pending.lock().close();
        self.inner.room.close();
        self.inner.in_progress.ended().await;
    }
}

impl<B: BatchedWrite> Inner<B> {
    fn closed(&self) -> Error {
        Error::Closed { what: self.name.clone() }
    }

    fn panicked(&self) -> Error {
        let source = Arc::new(broken(io::ErrorKind::Other, "the batched write panicked"));
        Error::Unknown { what: self.name.clone(), source }
    }

    /// Adds a write to the next batch.
    fn admit(
        self: &Arc<Self>,
        write: B::Write,
        room: OwnedSemaphorePermit,
    ) -> Result<impl Future<Output = Result<B::Outcome>> + Send + use<B>> {
        let (reply, outcome) = oneshot::channel();
        let deadline = Instant::now() + self.options.give_up_after.min(LONGEST);
        let (bytes, in_progress) = (self.kind.bytes(&write), self.in_progress.begin());
        let pending = PendingWrite { write, bytes, deadline, reply, _in_progress: in_progress, _room: room };
        let started = self.pending.lock().add(pending).map_err(|_| self.closed())?;
        self.run_sender(started);
        let me = self.clone();
        Ok(async move { outcome.await.unwrap_or_else(|_| Err(me.panicked())) })
    }

    fn run_sender(self: &Arc<Self>, sender: Option<SenderId>) {
        if let Some(id) = sender {
            self.runtime.spawn(SenderTask { inner: self.clone(), id, state: SenderState::New }.run());
        }
    }

    /// Whether an idle connection may be kept for a short time without another task waiting for it.
    fn pool_has_room(&self) -> bool {
        let pool = self.db.pool();
        pool.num_idle() > 0 || pool.size() < pool.options().get_max_connections()
    }

    /// Sends each of these writes alone, without delaying the next batch; `patient`: waiting for its row. A later write
    /// of the same key may overtake it: the order of concurrent writes is not guaranteed.
    pub(crate) fn send_alone(self: &Arc<Self>, writes: Vec<PendingWrite<B>>, patient: bool) {
        self.metrics.single.increment(writes.len() as u64);
        for write in writes {
            let me = self.clone();
            self.runtime.spawn(async move {
                let (permits, mode) = match patient {
                    true => (&me.dispatcher.patient_permits, SendMode::Patient),
                    false => (&me.dispatcher.single_permits, SendMode::Alone),
                };
                let _permit = permits.acquire().await;
                let mut sender = BatchSender::new(me.clone());
                let mut batch = vec![write];
                while !batch.is_empty() {
                    batch = sender.send(batch, mode).await;
                }
                sender.release_connection().await;
            });
        }
    }
}

/// Sends batches while writes are pending, and ends after it was [`IDLE`] for some time.
struct SenderTask<B: BatchedWrite> {
    inner: Arc<Inner<B>>,
    id: SenderId,
    state: SenderState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SenderState {
    /// Never polled: its runtime is shutting down.
    New,
    Running,
    Ended,
}

impl<B: BatchedWrite> SenderTask<B> {
    async fn run(mut self) {
        self.state = SenderState::Running;
        let mut sender = BatchSender::new(self.inner.clone());
        loop {
            // Writes submitted in the same tick of the runtime go into the same batch.
            tokio::task::yield_now().await;
            let next = self.inner.pending.lock().next_batch(self.id);
            match next {
                NextBatch::Writes(mut batch) => {
                    batch.sort_by_cached_key(|pending| self.inner.kind.key(&pending.write));
                    let unsent = sender.send(batch, SendMode::Batch).await;
                    self.inner.pending.lock().put_back(unsent);
                }
                NextBatch::Idle(resumed) => {
                    if !self.inner.pool_has_room() {
                        sender.release_connection().await;
                    }
                    if timeout(IDLE, resumed).await.is_err() && self.inner.pending.lock().end_if_idle(self.id) {
                        self.state = SenderState::Ended;
                        return sender.release_connection().await;
                    }
                }
            }
        }
    }
}

impl<B: BatchedWrite> Drop for SenderTask<B> {
    fn drop(&mut self) {
        if self.state == SenderState::Ended || self.inner.pending.lock().end_if_idle(self.id) {
            return;
        }
        let replacement = self.inner.pending.lock().sender_ended();
        if self.state == SenderState::Running && std::thread::panicking() {
            // The product's code panicked; the remaining writes need another sender.
            self.inner.run_sender(replacement);
        } else if replacement.is_some() {
            // The runtime is shutting down: no sender can run any more.
            let abandoned = self.inner.pending.lock().abandon();
            drop(abandoned);
        }
    }
}
