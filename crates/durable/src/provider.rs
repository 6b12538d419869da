//! The provider itself: how it is made, and what it holds.

use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use duroxide::providers::{QueueDepths, SystemMetrics};

use pg::{Component, Database, Function, Migration, Migrator, Schema};
use sqlx::PgPool;
use wake::{Channel, Consumer, Payload, Wake, Writer, WriterOptions};

use crate::blocked::Blocked;
use crate::config::{HISTORY_CACHE_BYTES, LongPollConfig, Migrations, Options};
use crate::error::{Error, Result};
use crate::gauge::{Gauge, Stir};
use crate::history::Histories;
use crate::lease::Leases;
use crate::queries::Queries;
use crate::retention::Retention;
use crate::session::Sessions;
use crate::turn::TurnClaim;
use crate::wait::Watch;
use crate::work::WorkClaim;
use crate::write::{Abandon, Commit, LookUp, SendWork};

/// The schema if none is named.
const DEFAULT_SCHEMA: &str = "public";
/// The variable that sets the size of the pool.
const POOL_MAX: &str = "DUROXIDE_PG_POOL_MAX";
/// Connections by default: one for each kind of statement that may be in the air, and some for the application.
const POOL_DEFAULT: u32 = 10;
/// How long a write is tried before it is told that the database is away; acks go on by themselves.
const GIVE_UP_AFTER: Duration = Duration::from_secs(10);

/// A provider for duroxide on PostgreSQL. Cheap to clone; all clones are one.
///
/// ```no_run
/// # async fn example() -> durable::Result<()> {
/// let provider = durable::PostgresProvider::new_with_long_poll("postgres://localhost/app").await?;
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
    pub(crate) work: Consumer<WorkClaim>,
    pub(crate) watch: Consumer<Watch>,
    pub(crate) commits: Writer<Commit>,
    pub(crate) work_sends: Writer<SendWork>,
    pub(crate) abandons: Writer<Abandon>,
    pub(crate) work_abandons: Writer<Abandon>,
    pub(crate) look_ups: Writer<LookUp>,
    pub(crate) histories: Arc<Histories>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) queries: Queries,
    pub(crate) system_metrics: Gauge<SystemMetrics>,
    pub(crate) queue_depths: Gauge<QueueDepths>,
    /// Writes begun here.
    writes: AtomicU64,
    /// Deletes instances that ended long ago, if it is asked for.
    retention: OnceLock<Retention>,
}

/// Where rings go.
#[derive(Clone)]
pub(crate) struct Channels {
    /// Messages for instances, with their due times.
    pub(crate) orchestrations: Channel,
    /// Activities.
    pub(crate) workers: Channel,
    /// Instances whose status or custom status changed, by name.
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
    /// Like every constructor that takes a URL, it brings the schema up to date and reads the size of its pool from the environment variable
    /// `DUROXIDE_PG_POOL_MAX`.
    ///
    /// # Errors
    /// If the database cannot be reached or the schema not brought up to date; the message says what to do.
    pub async fn new(url: &str) -> Result<PostgresProvider> {
        Self::new_with_options(url, None, LongPollConfig::default()).await
    }

    /// Like [`new`](Self::new), in a schema of its own.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub async fn new_with_schema(url: &str, schema: Option<&str>) -> Result<PostgresProvider> {
        Self::new_with_options(url, schema, LongPollConfig::default()).await
    }

    /// Connects with long polling and its defaults: what you want. The schema is `public`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub async fn new_with_long_poll(url: &str) -> Result<PostgresProvider> {
        Self::new_with_options(url, None, LongPollConfig::enabled()).await
    }

    /// Like [`new_with_long_poll`](Self::new_with_long_poll), in a schema of its own.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub async fn new_with_long_poll_and_schema(url: &str, schema: Option<&str>) -> Result<PostgresProvider> {
        Self::new_with_options(url, schema, LongPollConfig::enabled()).await
    }

    /// Connects with everything that can be set about waiting.
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

    /// Connects with everything that can be set. Reads no environment.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub async fn connect(url: &str, options: Options) -> Result<PostgresProvider> {
        let db = Database::connect(url, options.pool.clone()).await?;
        Self::with_database(db, options).await
    }

    /// Uses the application's own pool: there is no second set of connections, only one more for listening.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub async fn from_pool(pool: PgPool, options: Options) -> Result<PostgresProvider> {
        Self::with_database(Database::from_pool(pool), options).await
    }

    /// Uses a database that is connected already.
    ///
    /// # Errors
    /// If the schema cannot be brought up to date; the message says what to do.
    pub async fn with_database(db: Database, options: Options) -> Result<PostgresProvider> {
        let schema = Schema::new(options.schema.as_deref().unwrap_or(DEFAULT_SCHEMA))?;
        let migrator = Migrator::new(&schema, Self::components(&schema));
        match options.migrations {
            Migrations::Apply => drop(migrator.run(&db).await?),
            Migrations::Verify => migrator.verify(&db).await?,
        }
        Ok(Self::start(db, schema, options))
    }

    fn start(db: Database, schema: Schema, options: Options) -> PostgresProvider {
        let wake = Wake::start(&db, &schema, options.long_poll.engine());
        let channels = Channels::of(&wake);
        let Channels { orchestrations, workers, instances } = channels.clone();
        let histories = Arc::new(Histories::new(options.history_cache_bytes.unwrap_or(HISTORY_CACHE_BYTES)));
        let (leases, sessions) = (Arc::<Leases>::default(), Arc::<Sessions>::default());
        let blocked = Arc::<Blocked>::default();
        let turns = TurnClaim::new(&schema, orchestrations.clone(), histories.clone(), leases.clone(), blocked.clone());
        let work = WorkClaim::new(&schema, workers.clone(), leases.clone(), sessions.clone());
        let (turn_floors, work_floors) = (turns.bounds.clone(), work.bounds.clone());
        let commit = Commit::new(&schema, channels.clone(), blocked, leases.clone(), turn_floors.clone());
        let flying = || WriterOptions { give_up_after: GIVE_UP_AFTER, ..WriterOptions::default() };
        let keep = options.retention;
        let provider = PostgresProvider {
            inner: Arc::new(Inner {
                turns: wake.consumer("orchestrations", turns),
                work: wake.consumer("activities", work),
                watch: wake.consumer("instances", Watch::new(&schema, instances)),
                commits: wake.writer("commit", commit, flying()),
                work_sends: wake.writer("enqueue_for_worker", SendWork::new(&schema, workers.clone()), flying()),
                abandons: wake.writer(
                    "abandon_orchestration_item",
                    Abandon::turns(&schema, orchestrations, turn_floors),
                    flying(),
                ),
                work_abandons: wake.writer("abandon_work_item", Abandon::work(&schema, workers, work_floors), flying()),
                look_ups: wake.writer("look_up", LookUp::new(&schema), flying()),
                queries: Queries::new(&schema),
                system_metrics: Gauge::default(),
                queue_depths: Gauge::default(),
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

    /// What this crate and its engine need in a schema, in order.
    pub fn components(schema: &Schema) -> Vec<Component> {
        let literal = |suffix| format!("'{}'", wake::channel_name(schema.name(), suffix).replace('\'', "''"));
        let durable = Component {
            name: "durable",
            migrations: MIGRATIONS,
            functions: FUNCTIONS,
            vars: vec![
                ("orch_channel".into(), literal("orch_work")),
                ("worker_channel".into(), literal("worker_work")),
            ],
        };
        vec![Wake::component(), durable]
    }

    /// The pool, for the application's own statements beside it.
    pub fn pool(&self) -> &PgPool {
        self.inner.db.pool()
    }

    /// The schema's name as it was given, unquoted.
    pub fn schema_name(&self) -> &str {
        self.inner.schema.name()
    }

    /// How the engine is doing: whether it hears notifications, and who waits or polls.
    pub fn health(&self) -> wake::Health {
        self.inner.wake.health()
    }

    /// Returns when every ring for other processes has been sent. To be called before a process ends that has just started orchestrations:
    /// without it others may notice a second later.
    pub async fn flush(&self) {
        self.inner.wake.flush().await;
    }
}

impl Inner {
    /// Something was written, or is about to be: an answer read before it was committed must not outlast it, so it counts when it has been.
    pub(crate) fn writes(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// How much has happened here, if everything is noticed: what others do makes a dispatcher look that waits, if it is heard.
    pub(crate) fn stir(&self) -> Stir {
        let waits = self.turns.health().waiters > 0 && self.work.health().waiters > 0;
        let polls = self.turns.counts().polls + self.work.counts().polls;
        (waits && self.wake.health().is_connected()).then(|| polls + self.writes.load(Ordering::Relaxed))
    }
}

impl std::fmt::Debug for PostgresProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresProvider").field("db", &self.inner.db).field("schema", &self.inner.schema).finish()
    }
}

const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "tables", sql: include_str!("../db/migrations/0001_tables.sql") },
    Migration { number: 2, name: "ended_executions", sql: include_str!("../db/migrations/0002_ended_executions.sql") },
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
    Function { name: "look_up", sql: include_str!("../db/functions/look_up.sql") },
    Function { name: "delete_instances", sql: include_str!("../db/functions/delete_instances.sql") },
    Function { name: "prune_executions", sql: include_str!("../db/functions/prune_executions.sql") },
];

/// The size of the pool that the environment asks for.
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

    /// A variable that cannot be meant must be said, not ignored.
    #[test]
    fn the_pool_size_is_a_number() {
        assert_eq!(pool_max(None).expect("a default"), POOL_DEFAULT);
        assert_eq!(pool_max(Some(" 25 ".into())).expect("a number"), 25);
        for wrong in ["", "0", "-1", "many", "4294967296"] {
            let error = pool_max(Some(wrong.into())).expect_err(wrong).to_string();
            assert!(error.contains(POOL_MAX) && error.contains(wrong), "{error}");
        }
    }
}
