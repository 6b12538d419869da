//! Knows when to look for work in PostgreSQL.
//!
//! A product has rows that know when they are next due. It says how to claim them ([`Claim`]: one statement) and how to write
//! them ([`Flight`]: one statement for many writes); this crate does the rest. Waiters cost nothing while they wait and look
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
//! `alarm.rs`; how rings travel in `hub.rs`, `listener.rs` and `ringer.rs`; how writes travel in `flights.rs` and `plane.rs`.

mod ahead;
mod alarm;
mod boarding;
mod channel;
mod claim;
mod consumer;
mod echo;
mod error;
mod flight;
mod flights;
mod floor;
mod group;
mod handover;
mod hub;
mod listener;
mod log;
mod look;
mod metrics;
mod mode;
mod options;
mod pace;
mod plane;
mod reason;
mod ringer;
mod share;
mod snapshot;
mod timer;
mod underway;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pg::migrate::{Component, Function, Migration};
use pg::{Database, Schema};
use tokio::time::Instant;

pub use channel::{Channel, Payload, Ring, SUFFIX_MAX, Topic, channel_name, topic_key};
pub use claim::{Claim, Claimed, Look, Looked, Seat};
pub use consumer::{Consumer, ConsumerHealth};
pub use error::{Error, Result};
pub use flight::{Boarded, Flight, Landed};
pub use flights::{FlightOptions, Flights};
pub use floor::{Floors, RECENT, Reading};
pub use hub::ListenerState;
pub use metrics::{Counts, METRICS, Metric};
pub use options::{AggressiveOn, BROADCAST_CAP, Listening, Options, Strategy};
pub use pace::TRAILING;
pub use snapshot::{Aged, READ_WITHIN, Snapshot};

use hub::Hub;

/// The engine of one database and schema. Cheap to clone; several on the same database and schema in one process share their
/// listener. Everything ends when the last clone and the last consumer and flight made from it are dropped.
#[derive(Clone)]
pub struct Wake {
    hub: Arc<Hub>,
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
    pub fn is_hearing(&self) -> bool {
        self.listener == ListenerState::Hearing
    }
}

impl Wake {
    /// Starts the engine. Returns at once: the listener connects by itself. When it hears, and after every time it was lost,
    /// everybody looks once; when it cannot be had, consumers poll until it can.
    ///
    /// Where several engines share a database and schema in a process, the first one's heartbeat and `ring_window` count.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(db: &Database, schema: &Schema, options: Options) -> Wake {
        let options = Arc::new(options.sane());
        let hub = Hub::shared(db, schema, &options);
        if options.listening == Listening::WherePossible && db.can_listen() {
            hub.listen();
        }
        Wake { hub, db: db.clone(), options }
    }

    /// A channel of this schema; the same for the same suffix.
    ///
    /// # Panics
    /// If the suffix is longer than [`SUFFIX_MAX`].
    pub fn channel(&self, suffix: &str, payload: Payload) -> Channel {
        self.hub.channel(suffix, payload)
    }

    /// Somebody who claims one kind of work. The name appears in metrics and messages.
    pub fn consumer<C: Claim>(&self, name: &str, claim: C) -> Consumer<C> {
        Consumer::start(name, claim, &self.db, &self.hub, &self.options)
    }

    /// Somebody who sends one kind of write. The name appears in metrics and messages.
    pub fn flights<F: Flight>(&self, name: &str, flight: F, options: FlightOptions) -> Flights<F> {
        Flights::start(name, flight, &self.db, &self.hub, options)
    }

    /// Rings for work that has been committed by other means than a flight: waiters here at once, other processes within
    /// `ring_window`. A process that dies in between has rung nobody elsewhere; [`notifications`](Self::notifications) in the
    /// transaction itself cannot be lost.
    pub fn ring(&self, rings: &[Ring]) {
        self.hub.ring_here(rings, Instant::now());
        self.hub.ring_elsewhere(rings);
    }

    /// Rings the waiters of this process only: what is true for others they find out themselves.
    pub fn ring_here(&self, rings: &[Ring]) {
        self.hub.ring_here(rings, Instant::now());
    }

    /// Channels and payloads to pass to `{schema}.ring` inside the caller's own transaction, which rings exactly if that
    /// transaction commits.
    pub fn notifications(rings: &[Ring]) -> (Vec<String>, Vec<String>) {
        hub::payloads(rings).into_iter().map(|(channel, payload)| (channel.to_string(), payload)).unzip()
    }

    /// Returns when every ring for other processes has been sent: before a process ends. Whoever waits for a server that is
    /// away should bound it.
    pub async fn flush(&self) {
        self.hub.flush().await;
    }

    /// A number that grows with every statement of this process and every notification of another one. While it stays the
    /// same nothing has changed that this process could know of: what was read from the database can be answered from memory.
    ///
    /// Observers read through [`Database::observer`], so that they do not count as activity themselves. A process that cannot
    /// hear polls, and every poll counts.
    pub fn activity(&self) -> u64 {
        self.db.activity() + self.hub.heard.load(Ordering::Relaxed)
    }

    /// How the engine is doing.
    pub fn health(&self) -> Health {
        Health { listener: self.hub.listener_state(), consumers: self.hub.consumers() }
    }

    /// What this crate needs in a schema: the kept outcomes of flights, and the functions that ring and land.
    pub fn component() -> Component {
        Component {
            name: "wake",
            migrations: &[Migration {
                number: 1,
                name: "flights",
                sql: include_str!("../migrations/0001_flights.sql"),
            }],
            functions: &[
                Function { name: "ring", sql: include_str!("../functions/ring.sql") },
                Function { name: "ring_by_trigger", sql: include_str!("../functions/ring_by_trigger.sql") },
                Function { name: "age_plans", sql: include_str!("../functions/age_plans.sql") },
                Function { name: "land", sql: include_str!("../functions/land.sql") },
            ],
            vars: Vec::new(),
        }
    }
}
