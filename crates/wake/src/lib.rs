//! Knows when to look for work in PostgreSQL.
//!
//! A product has rows that know when they are next due. It says how to claim them ([`Claim`]: one statement) and how to write
//! them ([`BatchedWrite`]: one statement for many writes); this crate does the rest. Waiters cost nothing while they wait and look
//! within a millisecond or two when there is something, in this process or another; timers, retries, delayed work and the
//! leases of crashed workers come due by the same mechanism; nothing is missed when a notification, a connection or the
//! server is lost, because a notification only says "look sooner".
//!
//! ```no_run
//! # use std::time::Duration;
//! # use tokio::time::Instant;
//! # async fn example<C: wake::Claim>(
//! #     db: pg::Database, schema: pg::Schema, my_claim: impl Fn(wake::Channel) -> C, key: C::Key, args: C::Args,
//! # ) -> wake::Result<()> {
//! let wake = wake::Wake::start(&db, &schema, wake::Options::default());
//! let jobs = wake.consumer("jobs", my_claim(wake.channel("jobs", wake::Payload::Empty)));
//! if let Some(claimed) = jobs.claim(key, 1, args, Instant::now() + Duration::from_secs(30)).await? {
//!     for job in claimed.accept() { /* … */ }
//! }
//! # Ok(()) }
//! ```
//!
//! `examples/jobs` is a complete product: a job queue with delayed jobs, retries and crash recovery.
//!
//! Where to read on: the loop that waits is in `look.rs`; what it decides in `group.rs`; what happens by the clock in
//! `alarm.rs`; how rings travel in `dispatcher.rs`, `listener.rs` and `notifier.rs`; how writes travel in `flights.rs` and `plane.rs`.

mod error;
mod metrics;
mod notify;
mod options;
mod snapshot;
mod underway;
mod wait;
mod write;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pg::migrate::{Component, Function, Migration};
use pg::{Database, Schema};
use tokio::time::Instant;

pub use error::{Error, Result};
pub use metrics::{Counts, METRICS, Metric};
pub use notify::channel::{Channel, Payload, SUFFIX_MAX, Topic, WakeUp, channel_name, topic_key};
pub use notify::dispatcher::ListenerState;
pub use notify::rate::TRAILING;
pub use options::{AggressiveOn, BROADCAST_CAP, Listening, Options, Strategy};
pub use snapshot::{Aged, READ_WITHIN, Snapshot};
pub use wait::claim::{Claim, Claimed, PollRequest, PollResult, Waiter};
pub use wait::consumer::{Consumer, ConsumerHealth};
pub use wait::scan_bound::{RECENT, Scan, ScanBounds};
pub use write::batch::{BatchResult, BatchedWrite, WriteBatch};
pub use write::writer::{Writer, WriterOptions};

use notify::dispatcher::Dispatcher;

/// The engine of one database and schema. Cheap to clone; several on the same database and schema in one process share their
/// listener. Everything ends when the last clone and the last consumer and flight made from it are dropped.
#[derive(Clone)]
pub struct Wake {
    dispatcher: Arc<Dispatcher>,
    db: Database,
    options: Arc<Options>,
}

/// How the engine is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// What became of the listener.
    pub listener: ListenerState,
    /// Every consumer of this database and schema in this process.
    pub consumers: Vec<ConsumerHealth>,
}

impl Health {
    /// Whether work of other processes is noticed without polling.
    pub fn is_connected(&self) -> bool {
        self.listener == ListenerState::Connected
    }
}

impl Wake {
    /// Starts the engine. Returns at once: the listener connects by itself. When it hears, and after every time it was lost,
    /// everybody looks once; when it cannot be had, consumers poll until it can.
    ///
    /// Where several engines share a database and schema in a process, the first one's heartbeat and `notify_window` count.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(db: &Database, schema: &Schema, options: Options) -> Wake {
        let options = Arc::new(options.sane());
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

    /// Somebody who claims one kind of work. The name appears in metrics and messages.
    pub fn consumer<C: Claim>(&self, name: &str, claim: C) -> Consumer<C> {
        Consumer::start(name, claim, &self.db, &self.dispatcher, &self.options)
    }

    /// Somebody who sends one kind of write. The name appears in metrics and messages.
    pub fn writer<F: BatchedWrite>(&self, name: &str, batched_write: F, options: WriterOptions) -> Writer<F> {
        Writer::start(name, batched_write, &self.db, &self.dispatcher, options)
    }

    /// Rings for work that has been committed by other means than a flight: waiters here at once, other processes within
    /// `notify_window`. A process that dies in between has rung nobody elsewhere; [`notifications`](Self::notifications) in the
    /// transaction itself cannot be lost.
    pub fn wake_up(&self, wake_ups: &[WakeUp]) {
        self.dispatcher.wake_local(wake_ups, Instant::now());
        self.dispatcher.notify_others(wake_ups);
    }

    /// Rings the waiters of this process only: what is true for others they find out themselves.
    pub fn wake_local(&self, wake_ups: &[WakeUp]) {
        self.dispatcher.wake_local(wake_ups, Instant::now());
    }

    /// Channels and payloads to pass to `{schema}.notify` inside the caller's own transaction, which rings exactly if that
    /// transaction commits.
    pub fn notifications(wake_ups: &[WakeUp]) -> (Vec<String>, Vec<String>) {
        notify::dispatcher::payloads(wake_ups)
            .into_iter()
            .map(|(channel, payload)| (channel.to_string(), payload))
            .unzip()
    }

    /// Returns when every ring for other processes has been sent: before a process ends. Whoever waits for a server that is
    /// away should bound it.
    pub async fn flush(&self) {
        self.dispatcher.flush().await;
    }

    /// A number that grows with every statement of this process and every notification of another one. While it stays the
    /// same nothing has changed that this process could know of: what was read from the database can be answered from memory.
    ///
    /// Observers read through [`Database::observer`], so that they do not count as activity themselves. A process that cannot
    /// hear polls, and every poll counts.
    pub fn activity(&self) -> u64 {
        self.db.activity() + self.dispatcher.heard.load(Ordering::Relaxed)
    }

    /// How the engine is doing.
    pub fn health(&self) -> Health {
        Health { listener: self.dispatcher.listener_state(), consumers: self.dispatcher.consumers() }
    }

    /// What this crate needs in a schema: the kept outcomes of flights, and the functions that ring and land.
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
