//! A job queue for a test, and the other programs that write to its tables.

use std::collections::HashSet;
use std::time::Duration;

use pg::testing::{CountingRole, Proxy, TestDb};
pub(crate) use pg::testing::{PATIENCE, eventually};
use pg::{Database, Schema};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, PgConnection};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::jobs::{Job, Jobs};

/// Longer than any test: what happens by such an interval has not happened at all.
pub(crate) const NEVER: Duration = Duration::from_secs(3_600);
/// The lease of claims that should not end by themselves: far beyond [`PATIENCE`], so that nothing in time can have come by the end of one.
pub(crate) const LEASE: Duration = Duration::from_secs(120);

/// Options under which nothing but rings, due times and resyncs brings work: no fallback, and no polling because a busy machine
/// woke somebody late.
pub(crate) fn options() -> wake::Options {
    wake::Options {
        fallback_poll_interval: NEVER,
        notify_delivery_timeout: NEVER,
        aggressive_poll_interval: Duration::from_millis(50),
        ..wake::Options::default()
    }
}

/// Options with polling that ends soon after its reason is gone.
pub(crate) fn briefly_polling() -> wake::Options {
    wake::Options { aggressive_poll_duration: Duration::from_millis(500), aggressive_exit_threshold: 3, ..options() }
}

/// A queue on a test's schema.
pub(crate) async fn start(db: &Database, schema: &Schema, options: wake::Options) -> Jobs {
    Jobs::start(db, schema, options).await.expect("start the queue")
}

/// A queue that hears notifications.
pub(crate) async fn start_connected(db: &Database, schema: &Schema, options: wake::Options) -> Jobs {
    let jobs = start(db, schema, options).await;
    hearing(&jobs).await;
    jobs
}

/// A queue that logs in as a role of its own, by which its connections and statements are told from others'. The tables are the
/// owner's.
pub(crate) async fn start_as(role: &CountingRole, db: &TestDb, options: wake::Options) -> Jobs {
    drop(start(db.database(), db.schema(), options.clone()).await);
    start(role.database(), db.schema(), options).await
}

/// Waits until notifications are heard.
pub(crate) async fn hearing(jobs: &Jobs) {
    eventually("the listener hears", async || jobs.wake.health().is_connected()).await;
}

/// Waits until so many intentions wait and no look is being made for them.
pub(crate) async fn waiting(jobs: &Jobs, waiters: usize) {
    eventually("they wait", async || jobs.claims.health().waiters == waiters).await;
    settled(jobs).await;
}

/// Waits until nothing has been looked for during a few glances.
pub(crate) async fn settled(jobs: &Jobs) {
    let (mut before, mut calm) = (jobs.claims.counts(), 0);
    eventually("looks come to an end", async || {
        let now = jobs.claims.counts();
        calm = if now == before { calm + 1 } else { 0 };
        before = now;
        calm >= 20
    })
    .await;
}

/// Waits until nothing that happened at the start is in doubt any more: a second after the listener began to hear, or somebody else
/// rang, all groups that sleep are swept once. If there was nobody to sweep for then, nothing tells that it is over.
pub(crate) async fn undoubted(jobs: &Jobs) {
    sleep(wake::TRAILING * 3 / 2).await;
    settled(jobs).await;
}

/// The same queue as another process has it: the same tables, and nothing in common in memory.
pub(crate) struct Elsewhere {
    pub(crate) jobs: Jobs,
    _way: Proxy,
}

impl Elsewhere {
    pub(crate) async fn start(db: &TestDb, options: wake::Options) -> Elsewhere {
        // Another address makes it another database to everything that is kept once per database.
        let way = Proxy::start(db).await;
        let database = Database::connect_lazy(way.url(), pg::Options::default()).expect("a pool through a proxy");
        Elsewhere { jobs: start(&database, db.schema(), options).await, _way: way }
    }
}

/// The next job of a queue, which must come.
pub(crate) async fn take(jobs: &Jobs, queue: &str) -> Job {
    let job = jobs.claim(queue, LEASE, Instant::now() + PATIENCE).await.expect("a claim");
    job.unwrap_or_else(|| panic!("no job of {queue} within {PATIENCE:?}"))
}

/// Waits for the next job of a queue in a task of its own.
pub(crate) fn waiter(jobs: &Jobs, queue: &str) -> JoinHandle<Job> {
    let (jobs, queue) = (jobs.clone(), queue.to_owned());
    tokio::spawn(async move { take(&jobs, &queue).await })
}

/// Another program with a connection of its own, which knows nothing of the engine.
pub(crate) struct Stranger {
    pub(crate) conn: PgConnection,
    schema: Schema,
}

impl Stranger {
    pub(crate) async fn connect(url: &str, schema: &Schema) -> Stranger {
        let options: PgConnectOptions = url.parse().expect("the URL of a test server");
        Stranger { conn: options.connect().await.expect("connect"), schema: schema.clone() }
    }

    pub(crate) async fn of(db: &TestDb) -> Stranger {
        Stranger::connect(db.url(), db.schema()).await
    }

    /// Runs statements.
    pub(crate) async fn run(&mut self, sql: &str) {
        self.try_run(sql).await.expect("run");
    }

    /// Runs statements that may fail.
    pub(crate) async fn try_run(&mut self, sql: &str) -> sqlx::Result<()> {
        let sql = self.schema.sql(sql);
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.as_str().to_owned())).execute(&mut self.conn).await.map(drop)
    }

    /// Asks for one value.
    pub(crate) async fn ask<T>(&mut self, sql: &str) -> T
    where
        T: Send + Unpin + for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        sqlx::query_scalar(self.schema.sql(sql)).fetch_one(&mut self.conn).await.expect("ask")
    }

    /// Adds a job; the trigger rings.
    pub(crate) async fn insert(&mut self, queue: &str) -> i64 {
        self.insert_due(queue, "now()").await
    }

    /// Adds a job that is due at an SQL expression; the trigger rings.
    pub(crate) async fn insert_due(&mut self, queue: &str, due_at: &str) -> i64 {
        let insert = format!("insert into {{schema}}.job (queue, body, due_at) values ($1, '', {due_at}) returning id");
        let insert = self.schema.sql(&insert);
        sqlx::query_scalar(&insert).bind(queue).fetch_one(&mut self.conn).await.expect("insert")
    }

    /// Adds a job as a sender leaves it that dies before it rings.
    pub(crate) async fn insert_unheard(&mut self, queue: &str) -> i64 {
        self.run("begin; set local search_path = reveille_own").await;
        let id = self.insert(queue).await;
        self.run("commit").await;
        id
    }

    /// The ids of all jobs there are.
    pub(crate) async fn ids(&mut self) -> HashSet<i64> {
        let ids = self.schema.sql("select id from {schema}.job");
        sqlx::query_scalar(&ids).fetch_all(&mut self.conn).await.expect("read ids").into_iter().collect()
    }

    /// How many jobs there are.
    pub(crate) async fn jobs(&mut self) -> i64 {
        self.ask("select count(*) from {schema}.job").await
    }

    /// Its backend.
    pub(crate) async fn backend(&mut self) -> i32 {
        self.ask("select pg_backend_pid()").await
    }
}
