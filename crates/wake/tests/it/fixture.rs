//! A job queue for a test, and the other programs that write to its tables.

use std::collections::HashSet;
use std::time::Duration;

use reveille_pg::testing::{CountingRole, Proxy, TestDb};
pub(crate) use reveille_pg::testing::{PATIENCE, eventually};
use reveille_pg::{Database, Schema};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, PgConnection};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::jobs::{Job, Jobs};

/// Longer than any test: an interval that never passes.
pub(crate) const NEVER: Duration = Duration::from_secs(3_600);
/// A lease that does not end during a test: far beyond [`PATIENCE`].
pub(crate) const LEASE: Duration = Duration::from_secs(120);

/// Options under which only wake-ups, due times and resyncs bring work: no fallback, and no aggressive polling because
/// a busy machine polled late.
pub(crate) fn options() -> reveille_wake::Options {
    reveille_wake::Options {
        fallback_poll_interval: NEVER,
        notify_delivery_timeout: NEVER,
        aggressive_poll_interval: Duration::from_millis(50),
        ..reveille_wake::Options::default()
    }
}

/// Options with aggressive polling that ends soon after its reason is gone.
pub(crate) fn briefly_polling() -> reveille_wake::Options {
    reveille_wake::Options {
        aggressive_poll_duration: Duration::from_millis(500),
        aggressive_exit_threshold: 3,
        ..options()
    }
}

/// A queue on a test's schema.
pub(crate) async fn start(db: &Database, schema: &Schema, options: reveille_wake::Options) -> Jobs {
    Jobs::start(db, schema, options).await.expect("start the queue")
}

/// A queue whose listener is connected.
pub(crate) async fn start_connected(db: &Database, schema: &Schema, options: reveille_wake::Options) -> Jobs {
    let jobs = start(db, schema, options).await;
    connected(&jobs).await;
    jobs
}

/// A queue that logs in as a role of its own, which identifies its connections and statements. The tables belong to the
/// owner.
pub(crate) async fn start_as(role: &CountingRole, db: &TestDb, options: reveille_wake::Options) -> Jobs {
    drop(start(db.database(), db.schema(), options.clone()).await);
    start(role.database(), db.schema(), options).await
}

/// Waits until the listener is connected.
pub(crate) async fn connected(jobs: &Jobs) {
    eventually("the listener is connected", async || jobs.wake.health().is_connected()).await;
}

/// Waits until there are this many waiters and no poll is running.
pub(crate) async fn waiting(jobs: &Jobs, waiters: usize) {
    eventually("the waiters wait", async || jobs.claims.health().waiters == waiters).await;
    polls_ended(jobs).await;
}

/// Waits until several checks in a row see no new poll.
pub(crate) async fn polls_ended(jobs: &Jobs) {
    let (mut before, mut calm) = (jobs.claims.counts(), 0);
    eventually("polls end", async || {
        let now = jobs.claims.counts();
        calm = if now == before { calm + 1 } else { 0 };
        before = now;
        calm >= 20
    })
    .await;
}

/// Waits until the recheck after the start is over: a second after the listener was connected, or another process
/// notified, all sleeping groups are swept once. Without sleeping groups there is no sign of its end, so this waits for
/// a fixed time.
pub(crate) async fn rechecked(jobs: &Jobs) {
    sleep(reveille_wake::TRAILING * 3 / 2).await;
    polls_ended(jobs).await;
}

/// The same queue as in another process: the same tables, and nothing shared in memory.
pub(crate) struct OtherProcess {
    pub(crate) jobs: Jobs,
    _proxy: Proxy,
}

impl OtherProcess {
    pub(crate) async fn start(db: &TestDb, options: reveille_wake::Options) -> OtherProcess {
        // Another address makes it another database to everything that exists once per database.
        let proxy = Proxy::start(db).await;
        let database =
            Database::connect_lazy(proxy.url(), reveille_pg::Options::default()).expect("a pool through a proxy");
        OtherProcess { jobs: start(&database, db.schema(), options).await, _proxy: proxy }
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

/// Another program with a connection of its own, which does not use the engine.
pub(crate) struct OtherProgram {
    pub(crate) conn: PgConnection,
    schema: Schema,
}

impl OtherProgram {
    pub(crate) async fn connect(url: &str, schema: &Schema) -> OtherProgram {
        let options: PgConnectOptions = url.parse().expect("the URL of a test server");
        OtherProgram { conn: options.connect().await.expect("connect"), schema: schema.clone() }
    }

    pub(crate) async fn of(db: &TestDb) -> OtherProgram {
        OtherProgram::connect(db.url(), db.schema()).await
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

    /// Adds a job; the trigger notifies.
    pub(crate) async fn insert(&mut self, queue: &str) -> i64 {
        self.insert_due(queue, "now()").await
    }

    /// Adds a job that is due at an SQL expression; the trigger notifies.
    pub(crate) async fn insert_due(&mut self, queue: &str, due_at: &str) -> i64 {
        let insert = format!("insert into {{schema}}.job (queue, body, due_at) values ($1, '', {due_at}) returning id");
        let insert = self.schema.sql(&insert);
        sqlx::query_scalar(&insert).bind(queue).fetch_one(&mut self.conn).await.expect("insert")
    }

    /// Adds a job without a notification, like a sender that dies before it notifies.
    pub(crate) async fn insert_without_notify(&mut self, queue: &str) -> i64 {
        self.run("begin; set local search_path = reveille_own").await;
        let id = self.insert(queue).await;
        self.run("commit").await;
        id
    }

    /// The ids of all jobs.
    pub(crate) async fn ids(&mut self) -> HashSet<i64> {
        let ids = self.schema.sql("select id from {schema}.job");
        sqlx::query_scalar(&ids).fetch_all(&mut self.conn).await.expect("read ids").into_iter().collect()
    }

    /// The number of jobs.
    pub(crate) async fn jobs(&mut self) -> i64 {
        self.ask("select count(*) from {schema}.job").await
    }

    /// The process id of its backend.
    pub(crate) async fn backend(&mut self) -> i32 {
        self.ask("select pg_backend_pid()").await
    }
}
