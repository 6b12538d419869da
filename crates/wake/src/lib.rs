//! Waits for work in PostgreSQL without polling, and writes in batches.
//!
//! A product has rows with a due time. It defines how to claim them ([`Claim`]: one statement) and how to write them
//! ([`BatchedWrite`]: one statement for many writes); this crate does the rest. Waiters cost nothing while they wait,
//! and poll within a millisecond or two when there is work, written by this process or another. Timers, retries,
//! delayed work and the leases of crashed workers become due by the same mechanism. A lost notification, connection or
//! server loses no work, because a notification only means "poll now".
//!
//! ```no_run
//! # use std::time::Duration;
//! # use tokio::time::Instant;
//! # async fn example<C: reveille_wake::Claim>(
//! #     db: reveille_pg::Database, schema: reveille_pg::Schema,
//! #     my_claim: impl Fn(reveille_wake::Channel) -> C, key: C::Key, args: C::Args,
//! # ) -> reveille_wake::Result<()> {
//! let wake = reveille_wake::Wake::start(&db, &schema, reveille_wake::Options::default());
//! let jobs = wake.consumer("jobs", my_claim(wake.channel("jobs", reveille_wake::Payload::Empty)));
//! if let Some(claimed) = jobs.claim(key, 1, args, Instant::now() + Duration::from_secs(30)).await? {
//!     for job in claimed.accept() { /* … */ }
//! }
//! # Ok(()) }
//! ```
//!
//! `examples/jobs` is a complete product: a job queue with delayed jobs, retries and crash recovery.
//!
//! The modules:
//!
//! - `wait`: `poll.rs` is the loop that polls, `group.rs` decides when, `schedule.rs` has what happens by the clock;
//! - `notify`: `dispatcher.rs` delivers wake-ups, `listener.rs` and `received.rs` receive notifications, `notifier.rs`
//!   sends them;
//! - `write`: `writer.rs` collects writes into batches, `sender.rs` sends a batch until its outcome is known.

mod changes;
mod error;
mod in_progress;
mod metrics;
mod notify;
mod options;
mod server_state;
mod snapshot;
mod wait;
mod write;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reveille_pg::migrate::{Component, Function, Migration};
use reveille_pg::{Database, Schema};
use tokio::time::Instant;

pub use reveille_pg::observing;

pub use changes::{Changes, Subscription};
pub use error::{Error, Result};
pub use metrics::{Counts, METRICS, Metric};
pub use notify::channel::{Channel, Payload, SUFFIX_MAX, Topic, WakeUp, channel_name, topic_key};
pub use notify::dispatcher::ListenerState;
pub use notify::rate::TRAILING;
pub use options::{AggressiveOn, Listening, Options, Strategy};
pub use server_state::{ServerState, ServerWatch};
pub use snapshot::{Aged, READ_WITHIN, Snapshot};
pub use wait::attached::AttachedPoll;
pub use wait::claim::{Claim, Claimed, PollRequest, PollResult, Waiter};
pub use wait::consumer::{Consumer, ConsumerHealth};
pub use wait::scan_bound::{RECENT, Scan, ScanBounds};
pub use wait::unanswered::{SentClaims, UnansweredClaims};
pub use wait::waiting::{LATENCY_BOUNDS_US, Latency, WaitingGroup};
pub use write::batch::{BatchResult, BatchedWrite, WriteBatch};
pub use write::writer::{Writer, WriterOptions};

use notify::dispatcher::Dispatcher;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Planner settings of the functions that run often: products render them in as `{index_plans}`.
///
/// A function's plans are made once per connection and kept, perhaps while the tables are empty; they are used when the
/// tables are full. So plans that are good only for small tables are switched off: scans of whole tables, bitmap scans
/// (which read everything due to return a few rows), and hash and merge joins. What remains are lookups by index, the
/// right plan for every statement of these functions. A custom plan per call would cost more than the call.
pub const INDEX_PLANS: &str = "\
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off";

/// The engine of one database and schema. Cheap to clone; several on the same database and schema in one process share
/// their listener. It ends when the last clone and the last consumer and writer made from it are dropped.
#[derive(Clone)]
pub struct Wake {
    dispatcher: Arc<Dispatcher>,
    db: Database,
    options: Arc<Options>,
}

/// The state of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// The state of the listener.
    pub listener: ListenerState,
    /// All consumers of this database and schema in this process.
    pub consumers: Vec<ConsumerHealth>,
}

impl Health {
    /// Whether notifications of other processes are received.
    pub fn is_connected(&self) -> bool {
        self.listener == ListenerState::Connected
    }
}

impl Wake {
    /// Starts the engine. Returns at once: the listener connects in the background. Whenever it is connected, all
    /// groups poll once; while it is not, consumers poll at `aggressive_poll_interval`.
    ///
    /// If several engines share a database and schema in a process, the heartbeat and `notify_window` of the first are
    /// used.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(db: &Database, schema: &Schema, options: Options) -> Wake {
        let options = Arc::new(options.clamped());
        let dispatcher = Dispatcher::shared(db, schema, &options);
        if options.listening == Listening::WherePossible && db.can_listen() {
            dispatcher.listen();
        }
        Wake { dispatcher, db: db.clone(), options }
    }

    /// A channel of this schema; the same for the same suffix.
    ///
    /// # Panics
    /// If the suffix is longer than [`SUFFIX_MAX`].
    pub fn channel(&self, suffix: &str, payload: Payload) -> Channel {
        self.dispatcher.channel(suffix, payload)
    }

    /// A consumer of one kind of work. The name appears in metrics and messages.
    pub fn consumer<C: Claim>(&self, name: &str, claim: C) -> Consumer<C> {
        Consumer::start(name, claim, &self.db, &self.dispatcher, &self.options)
    }

    /// A writer of one kind of write. The name appears in metrics and messages.
    pub fn writer<B: BatchedWrite>(&self, name: &str, kind: B, options: WriterOptions) -> Writer<B> {
        Writer::start(name, kind, &self.db, &self.dispatcher, options)
    }

    /// Wakes waiters for work that was committed without a [`Writer`]: those of this process at once, other processes
    /// within `notify_window`. If this process dies before that, other processes are not notified;
    /// [`notifications`](Self::notifications) sent in the transaction itself cannot be lost.
    pub fn wake_up(&self, wake_ups: &[WakeUp]) {
        self.dispatcher.wake_local(wake_ups, Instant::now());
        self.dispatcher.notify_others(wake_ups);
    }

    /// Wakes the waiters of this process only.
    pub fn wake_local(&self, wake_ups: &[WakeUp]) {
        self.dispatcher.wake_local(wake_ups, Instant::now());
    }

    /// Channels and payloads to pass to `{schema}.notify` inside the caller's own transaction, which notifies exactly
    /// if that transaction commits.
    pub fn notifications(wake_ups: &[WakeUp]) -> (Vec<String>, Vec<String>) {
        notify::dispatcher::payloads(wake_ups)
            .into_iter()
            .map(|(channel, payload)| (channel.to_string(), payload))
            .unzip()
    }

    /// Returns when all pending notifications for other processes have been sent; to be called before a process ends.
    /// Waits for as long as the server is away, so the caller should set a timeout.
    pub async fn flush(&self) {
        self.dispatcher.flush().await;
    }

    /// A number that grows with every statement of this process and every notification of another one. While it stays
    /// the same, nothing has changed that this process could know of, and values read from the database can be served
    /// from memory.
    ///
    /// Monitoring reads through [`Database::observer`], so that it does not count as activity itself. While the
    /// listener is disconnected consumers poll, and every poll counts.
    pub fn activity(&self) -> u64 {
        self.db.activity() + self.dispatcher.remote_activity.load(Ordering::Relaxed)
    }

    /// Whether notifications of other processes are received.
    pub fn is_connected(&self) -> bool {
        self.dispatcher.listener_state() == ListenerState::Connected
    }

    /// The state of the engine.
    pub fn health(&self) -> Health {
        Health { listener: self.dispatcher.listener_state(), consumers: self.dispatcher.consumers() }
    }

    /// Statements that this process has sent so far, other than for monitoring: connections taken from the pool.
    pub fn statements(&self) -> u64 {
        self.db.activity()
    }

    /// The groups of waiters of all consumers of this database and schema in this process, at most `limit` of each
    /// consumer.
    pub fn waiting(&self, limit: usize) -> Vec<WaitingGroup> {
        self.dispatcher.waiting(limit)
    }

    /// The database objects of this crate: the recorded outcomes of write batches, and the functions that notify.
    pub fn component() -> Component {
        Component {
            name: "wake",
            migrations: &[Migration {
                number: 1,
                name: "write_batches",
                sql: include_str!("../db/migrations/0001_write_batches.sql"),
            }],
            functions: &[
                Function { name: "notify", sql: include_str!("../db/functions/notify.sql") },
                Function { name: "notify_by_trigger", sql: include_str!("../db/functions/notify_by_trigger.sql") },
                Function { name: "age_plans", sql: include_str!("../db/functions/age_plans.sql") },
                Function { name: "finish_batch", sql: include_str!("../db/functions/finish_batch.sql") },
            ],
            vars: Vec::new(),
        }
    }
}
