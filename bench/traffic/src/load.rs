//! Senders and receivers of one queue.
//!
//! If senders are faster than receivers, the backlog grows; if they are slower, receivers mostly wait. Either way only
//! one side would be measured. So senders wait while the backlog is large: the throughput is that of both together.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::{Broker, Note, Queue, Receiver, Result, Sender};

/// The most batches of each sender that are sent and not yet received.
const UNRECEIVED_BATCHES: usize = 25;
/// The same limit in messages, for small batches.
const UNRECEIVED_MIN: usize = 1_000;
/// A sender at a given rate makes up for a delay of at most this.
const CATCH_UP: Duration = Duration::from_millis(500);
/// How long to wait for sent messages after the senders have stopped.
const ARRIVES_WITHIN: Duration = Duration::from_secs(30);
/// How often to check whether they have arrived.
const GLANCE: Duration = Duration::from_millis(5);

/// The rate of senders.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rate {
    /// Nothing is sent.
    Still,
    /// As fast as possible, with a limited backlog.
    Full,
    /// As fast as possible, without a limit of the backlog.
    Flood,
    /// This many messages per second, all senders together.
    PerSecond(f64),
}

/// The counts of a load.
#[derive(Default)]
struct Counts {
    /// Messages whose sending has begun.
    begun: AtomicU64,
    /// Messages received and acked, by group.
    received: Vec<AtomicU64>,
    /// Notified when messages were received and acked.
    arrived: Notify,
    /// Whether latencies are recorded.
    keeps: AtomicBool,
    latencies: Mutex<Vec<Duration>>,
}

impl Counts {
    fn slowest(&self) -> u64 {
        self.received.iter().map(|count| count.load(Ordering::Relaxed)).min().unwrap_or(0)
    }
}

/// Running senders and receivers of one queue. Dropping this ends them.
pub(crate) struct Load {
    counts: Arc<Counts>,
    rate: watch::Sender<Rate>,
    tasks: JoinSet<Result<()>>,
}

impl Load {
    /// Opens the queue and connects all senders and receivers. The receivers wait; nothing is sent yet.
    pub(crate) async fn start<B: Broker>(broker: &B, queue: &Queue) -> Result<Load> {
        broker.open(queue).await?;
        let received = (0..queue.groups).map(|_| AtomicU64::default()).collect();
        let counts = Arc::new(Counts { received, ..Counts::default() });
        let (rate, rates) = watch::channel(Rate::Still);
        let mut tasks = JoinSet::new();
        for group in 0..queue.groups {
            for number in 0..queue.receivers {
                tasks.spawn(receive(broker.receiver(queue, group, number).await?, Arc::clone(&counts), group));
            }
        }
        for _ in 0..queue.senders {
            let sender = broker.sender(queue).await?;
            tasks.spawn(send(sender, queue.clone(), Arc::clone(&counts), rates.clone()));
        }
        Ok(Load { counts, rate, tasks })
    }

    pub(crate) fn set(&self, rate: Rate) {
        self.rate.send_replace(rate);
    }

    /// Messages that every group has received so far.
    pub(crate) fn received(&self) -> u64 {
        self.counts.slowest()
    }

    /// Messages whose sending has begun so far.
    pub(crate) fn begun(&self) -> u64 {
        self.counts.begun.load(Ordering::Relaxed)
    }

    /// Waits for `period`. Returns the messages per second that every group has received in it.
    pub(crate) async fn watch(&mut self, period: Duration) -> Result<f64> {
        let (began, before) = (Instant::now(), self.received());
        sleep(period).await;
        let rate = (self.received() - before) as f64 / began.elapsed().as_secs_f64();
        self.check()?;
        Ok(rate)
    }

    /// Records the time from sending to receiving of every message from now on.
    pub(crate) fn keep_latencies(&self) {
        self.counts.keeps.store(true, Ordering::Relaxed);
    }

    /// Stops recording, and returns the recorded times.
    pub(crate) fn latencies(&self) -> Vec<Duration> {
        self.counts.keeps.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.counts.latencies.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Stops sending and waits until all messages have arrived. Returns the number of messages that a group did not
    /// receive.
    pub(crate) async fn drain(&mut self) -> Result<u64> {
        self.set(Rate::Still);
        let missing = |counts: &Counts| counts.begun.load(Ordering::Relaxed).saturating_sub(counts.slowest());
        let arrival = async {
            while missing(&self.counts) > 0 {
                sleep(GLANCE).await;
            }
        };
        // After a timeout the result is not 0.
        let _ = timeout(ARRIVES_WITHIN, arrival).await;
        self.check()?;
        Ok(missing(&self.counts))
    }

    /// Fails if a sender or receiver has ended: they run until the end of the load.
    fn check(&mut self) -> Result<()> {
        match self.tasks.try_join_next() {
            Some(ended) => Err(ended?.err().unwrap_or_else(|| "a sender or receiver ended early".into())),
            None => Ok(()),
        }
    }
}

async fn receive(mut receiver: impl Receiver, counts: Arc<Counts>, group: usize) -> Result<()> {
    loop {
        let notes = receiver.receive().await?;
        if notes.is_empty() {
            continue;
        }
        if counts.keeps.load(Ordering::Relaxed) {
            let ages = notes.iter().map(Note::age);
            counts.latencies.lock().unwrap_or_else(PoisonError::into_inner).extend(ages);
        }
        receiver.end().await?;
        counts.received[group].fetch_add(notes.len() as u64, Ordering::Relaxed);
        counts.arrived.notify_waiters();
    }
}

async fn send(
    mut sender: impl Sender,
    queue: Queue,
    counts: Arc<Counts>,
    mut rates: watch::Receiver<Rate>,
) -> Result<()> {
    let limit = UNRECEIVED_MIN.max(UNRECEIVED_BATCHES * queue.batch * queue.senders) as u64;
    let mut next = Instant::now();
    'batch: loop {
        let rate = *rates.borrow_and_update();
        match rate {
            Rate::Still => {
                if rates.changed().await.is_err() {
                    return Ok(());
                }
                continue;
            }
            Rate::Full | Rate::Flood => {}
            Rate::PerSecond(rate) => {
                let step = Duration::from_secs_f64((queue.batch * queue.senders) as f64 / rate.max(0.001));
                next = (next + step.mul_f64(0.5 + fastrand::f64())).max(Instant::now() - CATCH_UP);
                sleep_until(next).await;
            }
        }
        loop {
            let arrived = counts.arrived.notified();
            if rate == Rate::Flood || counts.begun.load(Ordering::Relaxed) < counts.slowest() + limit {
                break;
            }
            // If the receivers have failed, the wait has no end; the caller detects the failure.
            tokio::select! {
                () = arrived => {}
                changed = rates.changed() => if changed.is_err() { return Ok(()) } else { continue 'batch },
            }
        }
        let notes: Vec<Note> = (0..queue.batch).map(|_| Note::now()).collect();
        counts.begun.fetch_add(notes.len() as u64, Ordering::Relaxed);
        sender.send(&queue, fastrand::usize(..queue.partitions), &notes).await?;
    }
}
