//! The queues of one database and schema: opening them, and what they hold in memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use reveille_pg::{Component, Database, Migrator, Schema};
use reveille_wake::{Channel, Consumer, Payload, Wake, Writer, WriterOptions};

use crate::admin::figures::Figures;
use crate::admin::message_counters::MessageCounters;
use crate::consume::ack::Acks;
use crate::consume::claim::Pops;
use crate::consume::lease_cache::LeaseCache;
use crate::error::Result;
use crate::id::Ids;
use crate::produce::append::Push;
use crate::produce::balance::Balance;
use crate::produce::dedup_cache::DedupCache;
use crate::storage::encryption::{Encryption, KeyId};
use crate::storage::partition_ref::PartitionCache;
use crate::storage::statements::{FUNCTIONS, MIGRATIONS, Statements};

/// The options of [`Queues`].
///
/// ```
/// let options = reveille_queue::Options::default().encryption_keys(vec![[7; 32]]);
/// assert_eq!(options.encryption_keys.len(), 1);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The options of the engine: the number of waiters, polling and notification.
    pub wake: reveille_wake::Options,
    /// The keys of encrypted queues. The first encrypts, all decrypt, so that a key can be replaced while messages need
    /// the old one.
    pub encryption_keys: Vec<[u8; 32]>,
    /// Memory for the hashes of transaction ids, 24 bytes each. It should hold those of all partitions that are pushed
    /// to: the hashes of a partition that is not in memory are read again.
    pub dedup_cache_bytes: usize,
    /// How long a write is retried while the database is not reachable.
    pub give_up_after: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            wake: reveille_wake::Options::default(),
            encryption_keys: Vec::new(),
            dedup_cache_bytes: 128 << 20,
            give_up_after: Duration::from_secs(30),
        }
    }
}

impl Options {
    /// Sets [`wake`](Self::wake).
    pub fn wake(self, wake: reveille_wake::Options) -> Options {
        Options { wake, ..self }
    }

    /// Sets [`encryption_keys`](Self::encryption_keys).
    pub fn encryption_keys(self, encryption_keys: Vec<[u8; 32]>) -> Options {
        Options { encryption_keys, ..self }
    }

    /// Sets [`dedup_cache_bytes`](Self::dedup_cache_bytes).
    pub fn dedup_cache_bytes(self, dedup_cache_bytes: usize) -> Options {
        Options { dedup_cache_bytes, ..self }
    }

    /// Sets [`give_up_after`](Self::give_up_after).
    pub fn give_up_after(self, give_up_after: Duration) -> Options {
        Options { give_up_after, ..self }
    }
}

/// The message queues of one database and schema. Cheap to clone: clones share everything.
///
/// ```no_run
/// # use std::time::Duration;
/// # use reveille_queue::{NewMessage, Options, Pop, Queues, Source};
/// # use serde_json::value::to_raw_value;
/// # async fn example(db: reveille_pg::Database, schema: reveille_pg::Schema) -> reveille_queue::Result<()> {
/// let queues = Queues::open(db, schema, Options::default()).await?;
/// let order = to_raw_value(&42).expect("a number is JSON");
/// queues.push(vec![NewMessage::new("orders", order)]).await?;
///
/// let soon = tokio::time::Instant::now() + Duration::from_secs(30);
/// if let Some(batch) = queues.pop(Pop::new(Source::queue("orders")), Some(soon)).await? {
///     assert_eq!(batch.messages[0].payload.get(), "42");
///     batch.ack().await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Queues {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) db: Database,
    pub(crate) schema: Schema,
    pub(crate) wake: Wake,
    pub(crate) channel: Channel,
    pub(crate) ids: Ids,
    pub(crate) encryption: Arc<Encryption>,
    pub(crate) partitions: PartitionCache,
    dedup_cache: Arc<Mutex<DedupCache>>,
    pub(crate) balance: Arc<Balance>,
    pub(crate) push: Push,
    pub(crate) pushes: Writer<Push>,
    pub(crate) pops: Consumer<Pops>,
    pub(crate) ack: Acks,
    pub(crate) acks: Writer<Acks>,
    pub(crate) sql: Statements,
    pub(crate) started: Instant,
    pub(crate) figures: reveille_wake::Snapshot<Figures>,
    pub(crate) counters: Arc<MessageCounters>,
}

impl Queues {
    /// Opens the queues of a schema and brings it up to date.
    ///
    /// # Errors
    /// If the database cannot be reached or the schema not brought up to date; the message says what to do.
    pub async fn open(db: Database, schema: Schema, options: Options) -> Result<Queues> {
        Migrator::new(&schema, Self::components(&schema)).run(&db).await?;
        Ok(Self::start(&db, &schema, options))
    }

    /// Opens the queues of a schema that is up to date, or will be when they are used. Returns at once.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(db: &Database, schema: &Schema, options: Options) -> Queues {
        let wake = Wake::start(db, schema, options.wake);
        let channel = wake.channel("queue", Payload::Keys);
        let dedup_cache = Arc::new(Mutex::new(DedupCache::new(options.dedup_cache_bytes)));
        let writer = WriterOptions { give_up_after: options.give_up_after, ..WriterOptions::default() };
        let lease_cache: Arc<Mutex<LeaseCache>> = Arc::default();
        let balance: Arc<Balance> = Arc::default();
        let counters: Arc<MessageCounters> = Arc::default();
        let ack = || Acks::new(schema, channel.clone(), lease_cache.clone(), balance.clone(), counters.clone());
        let pops = Pops::new(schema, channel.clone(), lease_cache.clone(), counters.clone());
        let pops = wake.consumer("pop", pops);
        let push = || {
            let (dedup_cache, balance, counters) = (dedup_cache.clone(), balance.clone(), counters.clone());
            Push::new(db, schema, channel.clone(), dedup_cache, balance, counters, pops.clone())
        };
        let inner = Inner {
            ids: Ids::of(schema.name()),
            encryption: Arc::new(Encryption::new(&options.encryption_keys)),
            partitions: PartitionCache::default(),
            pushes: wake.writer("push", push(), writer.clone()),
            pops: pops.clone(),
            acks: wake.writer("ack", ack(), writer),
            ack: ack(),
            push: push(),
            balance: balance.clone(),
            sql: Statements::new(schema),
            started: Instant::now(),
            figures: reveille_wake::Snapshot::default(),
            counters,
            db: db.clone(),
            schema: schema.clone(),
            wake,
            channel,
            dedup_cache,
        };
        Queues { inner: Arc::new(inner) }
    }

    /// The database objects of this crate and its engine, in order.
    pub fn components(_: &Schema) -> Vec<Component> {
        let queue = Component {
            name: "queue",
            migrations: MIGRATIONS,
            functions: FUNCTIONS,
            vars: vec![("index_plans".to_owned(), reveille_wake::INDEX_PLANS.to_owned())],
        };
        vec![Wake::component(), queue]
    }

    /// The state of the engine.
    pub fn health(&self) -> reveille_wake::Health {
        self.inner.wake.health()
    }

    /// The ids of the keys of encrypted queues, the one that encrypts first.
    pub fn encryption_keys(&self) -> Vec<KeyId> {
        self.inner.encryption.ids()
    }

    /// The last failure to encrypt or decrypt within five minutes, as a sentence without any secret. `None`: there was
    /// none.
    pub fn encryption_failure(&self) -> Option<String> {
        self.inner.encryption.failures.current()
    }

    /// Push batches since the start that had to wait because consumers were behind.
    pub fn held_back(&self) -> u64 {
        self.inner.balance.held_back()
    }

    /// The counts of pops since the start.
    pub fn pops(&self) -> reveille_wake::Counts {
        self.inner.pops.counts()
    }

    /// Ends every wait as if its deadline had passed, and rejects new ones. Returns when the leases without a receiver
    /// are released.
    pub async fn close(&self) {
        self.inner.pops.close().await;
    }

    /// Returns when all pending notifications for other processes have been sent.
    pub async fn flush(&self) {
        self.inner.wake.flush().await;
    }
}

impl Inner {
    pub(crate) fn dedup_cache(&self) -> MutexGuard<'_, DedupCache> {
        self.dedup_cache.lock()
    }
}

impl std::fmt::Debug for Queues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queues").field("db", &self.inner.db).field("schema", &self.inner.schema).finish()
    }
}
