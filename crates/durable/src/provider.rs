//! The provider: constructors, parts, schema.

use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use duroxide::providers::{QueueDepths, SystemMetrics};

use reveille_pg::{Component, Database, Function, Migration, Migrator, Schema};
use reveille_wake::{Channel, Consumer, Payload, Wake, Writer, WriterOptions};
use sqlx::PgPool;

use crate::admin::{Activity, Cached, Retention};
use crate::claim::{ActivityClaim, Blocked, Leases, Sessions, TurnClaim};
use crate::config::{HISTORY_CACHE_BYTES, LongPollConfig, Migrations, Options};
use crate::error::{Error, Result};
use crate::queries::Queries;
use crate::read::{ClaimedActivities, HistoryCache, ReadInstances, Watch};
use crate::write::{Abandon, Commit, EnqueueActivities, PIPELINED_ACKS, Pipeline};

/// The schema if none is given.
const DEFAULT_SCHEMA: &str = "public";
/// The variable that sets the size of the pool.
const POOL_MAX: &str = "DUROXIDE_PG_POOL_MAX";
/// The default size: one connection for each kind of statement that may run at once, and some for the application.
const POOL_DEFAULT: u32 = 10;
/// How long a write is retried while the database is unavailable; acks continue to retry.
const GIVE_UP_AFTER: Duration = Duration::from_secs(10);

/// A duroxide provider on PostgreSQL. Cheap to clone; clones share everything.
///
/// ```no_run
/// # async fn example() -> reveille_durable::Result<()> {
/// let provider = reveille_durable::PostgresProvider::new_with_long_poll("postgres://localhost/app").await?;
/// let runtime = duroxide::runtime::Runtime::start_with_store(
///     std::sync::Arc::new(provider),
///     duroxide::runtime::registry::ActivityRegistry::builder().build(),
///     duroxide::OrchestrationRegistry::builder().build(),
/// )
/// .await;
/// # runtime.shutdown(None).await; Ok(()) }
/// ```
#[derive(Clone)]
pub struct PostgresProvider {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) db: Database,
    pub(crate) schema: Schema,
    pub(crate) config: LongPollConfig,
    pub(crate) wake: Wake,
    pub(crate) channels: Channels,
    pub(crate) turns: Consumer<TurnClaim>,
    pub(crate) activities: Consumer<ActivityClaim>,
    pub(crate) watch: Consumer<Watch>,
    pub(crate) commits: Writer<Commit>,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) enqueued_activities: Writer<EnqueueActivities>,
    pub(crate) turn_abandons: Writer<Abandon>,
    pub(crate) activity_abandons: Writer<Abandon>,
    pub(crate) instance_reads: Writer<ReadInstances>,
    pub(crate) histories: Arc<HistoryCache>,
    pub(crate) claimed_activities: ClaimedActivities,
    pub(crate) leases: Arc<Leases>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) queries: Queries,
    pub(crate) system_metrics: Cached<SystemMetrics>,
    pub(crate) queue_depths: Cached<QueueDepths>,
    /// The number of writes of this process.
    writes: AtomicU64,
    /// Set if [`Options::retention`] is.
    retention: OnceLock<Retention>,
}

/// The channels of wake-ups.
#[derive(Clone)]
pub(crate) struct Channels {
    /// Messages to instances, with their due times.
    pub(crate) orchestrations: Channel,
    /// Activities.
    pub(crate) workers: Channel,
    /// Instances whose status or custom status has changed, by name.
    pub(crate) instances: Channel,
}

impl Channels {
    fn of(wake: &Wake) -> Channels {
        Channels {
            orchestrations: wake.channel("orch_work", Payload::Due),
            workers: wake.channel("worker_work", Payload::Empty),
            instances: wake.channel("instances", Payload::Keys),
        }
    }
}

impl PostgresProvider {
    /// Connects without long polling: a fetch that finds nothing returns at once. The schema is `public`.
    ///
    /// Like every constructor with a URL, it migrates the schema and reads the size of its pool from the environment
    /// variable `DUROXIDE_PG_POOL_MAX`.
    ///
    /// # Errors
    /// If the database cannot be reached or the schema cannot be migrated.
    pub async fn new(url: &str) -> Result<PostgresProvider> {
        Self::new_with_options(url, None, LongPollConfig::default()).await
    }

    /// Like [`new`](Self::new), with a schema.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub async fn new_with_schema(url: &str, schema: Option<&str>) -> Result<PostgresProvider> {
        Self::new_with_options(url, schema, LongPollConfig::default()).await
    }

    /// Connects with long polling and its defaults: recommended. The schema is `public`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub async fn new_with_long_poll(url: &str) -> Result<PostgresProvider> {
        Self::new_with_options(url, None, LongPollConfig::enabled()).await
    }

    /// Like [`new_with_long_poll`](Self::new_with_long_poll), with a schema.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub async fn new_with_long_poll_and_schema(url: &str, schema: Option<&str>) -> Result<PostgresProvider> {
        Self::new_with_options(url, schema, LongPollConfig::enabled()).await
    }

    /// Connects with all options of waiting.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub async fn new_with_options(
        url: &str,
        schema: Option<&str>,
        long_poll: LongPollConfig,
    ) -> Result<PostgresProvider> {
        let mut options = Options { schema: schema.map(str::to_owned), long_poll, ..Options::default() };
        options.pool.max_connections = pool_max(std::env::var_os(POOL_MAX))?;
        Self::connect(url, options).await
    }

    /// Connects with all options. Reads no environment variables.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub async fn connect(url: &str, options: Options) -> Result<PostgresProvider> {
        let db = Database::connect(url, options.pool.clone()).await?;
        Self::with_database(db, options).await
    }

    /// Uses the application's own pool; opens only one more connection, for listening.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub async fn from_pool(pool: PgPool, options: Options) -> Result<PostgresProvider> {
        Self::with_database(Database::from_pool(pool), options).await
    }

    /// Uses an existing connection pool of `pg`.
    ///
    /// # Errors
    /// If the schema cannot be migrated.
    pub async fn with_database(db: Database, options: Options) -> Result<PostgresProvider> {
        let schema = Schema::new(options.schema.as_deref().unwrap_or(DEFAULT_SCHEMA))?;
        let migrator = Migrator::new(&schema, Self::components(&schema));
        match options.migrations {
            Migrations::Apply => drop(migrator.run(&db).await?),
            Migrations::Verify => migrator.verify(&db).await?,
        }
        let engine = options.long_poll.engine();
        Ok(Self::start(db, schema, options, engine))
    }

    /// For a process that migrates the schema itself and shares its engine. Returns at once and sends nothing.
    #[cfg(feature = "http")]
    pub(crate) fn without_migrations(db: &Database, schema: &Schema, engine: reveille_wake::Options) -> Self {
        Self::start(db.clone(), schema.clone(), Options::default(), engine)
    }

    fn start(db: Database, schema: Schema, options: Options, engine: reveille_wake::Options) -> PostgresProvider {
        let wake = Wake::start(&db, &schema, engine);
        let channels = Channels::of(&wake);
        let Channels { orchestrations, workers, instances } = channels.clone();
        let histories = Arc::new(HistoryCache::new(options.history_cache_bytes.unwrap_or(HISTORY_CACHE_BYTES)));
        let (leases, sessions) = (Arc::<Leases>::default(), Arc::<Sessions>::default());
        let blocked = Arc::<Blocked>::default();
        let turns = TurnClaim::new(&schema, orchestrations.clone(), histories.clone(), leases.clone(), blocked.clone());
        let activities = ActivityClaim::new(&schema, workers.clone(), leases.clone(), sessions.clone());
        let (turn_bounds, activity_bounds) = (turns.bounds.clone(), activities.bounds.clone());
        let (turns, activities) = (wake.consumer("orchestrations", turns), wake.consumer("activities", activities));
        let [sql, and_claim_turns, and_claim_activities] = Commit::statements(&schema);
        let commit = Commit {
            wake: wake.clone(),
            channels: channels.clone(),
            blocked,
            histories: histories.clone(),
            leases: leases.clone(),
            bounds: turn_bounds.clone(),
            turns: turns.clone(),
            activities: activities.clone(),
            sql,
            and_claim_turns,
            and_claim_activities,
        };
        let writing = || WriterOptions { give_up_after: GIVE_UP_AFTER, ..WriterOptions::default() };
        let keep = options.retention;
        let provider = PostgresProvider {
            inner: Arc::new(Inner {
                turns,
                activities,
                watch: wake.consumer("instances", Watch::new(&schema, instances)),
                commits: wake.writer("commit", commit, writing()),
                pipeline: Arc::new(Pipeline::new(options.pipelined_acks.unwrap_or(PIPELINED_ACKS))),
                claimed_activities: ClaimedActivities::default(),
                enqueued_activities: wake.writer(
                    "enqueue_for_worker",
                    EnqueueActivities::new(&schema, workers.clone()),
                    writing(),
                ),
                turn_abandons: wake.writer(
                    "abandon_orchestration_item",
                    Abandon::turns(&schema, orchestrations, turn_bounds),
                    writing(),
                ),
                activity_abandons: wake.writer(
                    "abandon_work_item",
                    Abandon::activities(&schema, workers, activity_bounds),
                    writing(),
                ),
                instance_reads: wake.writer("read_instances", ReadInstances::new(&schema), writing()),
                queries: Queries::new(&schema),
                system_metrics: Cached::default(),
                queue_depths: Cached::default(),
                writes: AtomicU64::new(0),
                retention: OnceLock::new(),
                config: options.long_poll,
                histories,
                leases,
                sessions,
                channels,
                wake,
                db,
                schema,
            }),
        };
        if let Some(keep) = keep {
            let _ = provider.inner.retention.set(Retention::start(&provider.inner, keep));
        }
        provider
    }

    /// The migrations and functions of this crate and its engine, in order.
    pub fn components(schema: &Schema) -> Vec<Component> {
        let literal = |suffix| format!("'{}'", reveille_wake::channel_name(schema.name(), suffix).replace('\'', "''"));
        let durable = Component {
            name: "durable",
            migrations: MIGRATIONS,
            functions: FUNCTIONS,
            vars: vec![
                ("orch_channel".into(), literal("orch_work")),
                ("worker_channel".into(), literal("worker_work")),
                ("index_plans".into(), reveille_wake::INDEX_PLANS.into()),
            ],
        };
        vec![Wake::component(), durable]
    }

    /// The pool, for statements of the application.
    pub fn pool(&self) -> &PgPool {
        self.inner.db.pool()
    }

    /// The name of the schema, unquoted.
    pub fn schema_name(&self) -> &str {
        self.inner.schema.name()
    }

    /// The health of the engine: whether its listener is connected, and how many waiters wait or poll.
    pub fn health(&self) -> reveille_wake::Health {
        self.inner.wake.health()
    }

    /// Returns when every ack that has begun is committed or has failed, and every notification for other processes has
    /// been sent. Call it before a process exits, after the shutdown of its runtime; otherwise the last turns and activities
    /// may be repeated, and other processes may notice new work a second later.
    pub async fn flush(&self) {
        self.inner.pipeline.all_ended().await;
        self.inner.wake.flush().await;
    }
}

impl Inner {
    /// Counts a write, which invalidates cached answers. Called after the write has committed, so that an answer read
    /// before the commit is not used after it.
    pub(crate) fn count_write(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of writes and polls so far. `None` if changes may go unnoticed: changes by other processes cause a poll
    /// only while both kinds of waiters wait and the listener is connected.
    pub(crate) fn activity(&self) -> Activity {
        let waits = self.turns.health().waiters > 0 && self.activities.health().waiters > 0;
        let polls = self.turns.counts().polls + self.activities.counts().polls;
        (waits && self.wake.health().is_connected()).then(|| polls + self.writes.load(Ordering::Relaxed))
    }
}

impl std::fmt::Debug for PostgresProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresProvider").field("db", &self.inner.db).field("schema", &self.inner.schema).finish()
    }
}

const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "instances", sql: include_str!("../db/migrations/0001_instances.sql") },
    Migration { number: 2, name: "queues", sql: include_str!("../db/migrations/0002_queues.sql") },
    Migration { number: 3, name: "write_types", sql: include_str!("../db/migrations/0003_write_types.sql") },
    Migration { number: 4, name: "instances_by_age", sql: include_str!("../db/migrations/0004_instances_by_age.sql") },
];
const FUNCTIONS: &[Function] = &[
    Function { name: "history_changed", sql: include_str!("../db/functions/history_changed.sql") },
    Function { name: "events", sql: include_str!("../db/functions/events.sql") },
    Function { name: "notify", sql: include_str!("../db/functions/notify.sql") },
    Function { name: "enqueue", sql: include_str!("../db/functions/enqueue.sql") },
    Function { name: "enqueue_work", sql: include_str!("../db/functions/enqueue_work.sql") },
    Function { name: "claim_instances", sql: include_str!("../db/functions/claim_instances.sql") },
    Function { name: "claim_work", sql: include_str!("../db/functions/claim_work.sql") },
    Function { name: "ack_instances", sql: include_str!("../db/functions/ack_instances.sql") },
    Function { name: "ack_work", sql: include_str!("../db/functions/ack_work.sql") },
    Function { name: "commit", sql: include_str!("../db/functions/commit.sql") },
    Function { name: "abandon_instances", sql: include_str!("../db/functions/abandon_instances.sql") },
    Function { name: "abandon_work", sql: include_str!("../db/functions/abandon_work.sql") },
    Function { name: "read_instances", sql: include_str!("../db/functions/read_instances.sql") },
    Function { name: "delete_instances", sql: include_str!("../db/functions/delete_instances.sql") },
    Function { name: "prune_executions", sql: include_str!("../db/functions/prune_executions.sql") },
];

/// The size of the pool as the environment variable sets it.
fn pool_max(value: Option<OsString>) -> Result<u32> {
    let Some(value) = value else { return Ok(POOL_DEFAULT) };
    match value.to_str().map(|value| value.trim().parse()) {
        Some(Ok(max)) if max > 0 => Ok(max),
        _ => {
            let value = value.to_string_lossy().into_owned();
            Err(Error::Environment { name: POOL_MAX, value, expected: "a whole number from 1" })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An invalid value is an error, not ignored.
    #[test]
    fn an_invalid_pool_size_is_rejected() {
        assert_eq!(pool_max(None).expect("a default"), POOL_DEFAULT);
        assert_eq!(pool_max(Some(" 25 ".into())).expect("a number"), 25);
        for wrong in ["", "0", "-1", "many", "4294967296"] {
            let error = pool_max(Some(wrong.into())).expect_err(wrong).to_string();
            assert!(error.contains(POOL_MAX) && error.contains(wrong), "{error}");
        }
    }
}
