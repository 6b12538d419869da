//! A job queue: delayed jobs, retries with backoff, recovery from crashes. The engine does all the waiting.
//!
//! A job is a row with the time it is next due. A claim moves that time to the end of the lease and writes a token;
//! finishing is fenced by the token. So a worker that dies needs no recovery code: the end of its lease is the job's
//! next due time.

use std::time::Duration;

use reveille_pg::migrate::{Component, Function, Migration, Migrator};
use reveille_pg::{Database, Schema, Sql};
use reveille_wake::{
    BatchResult, BatchedWrite, Channel, Claim, Consumer, Payload, PollRequest, PollResult, Topic, Wake, WakeUp,
    WriteBatch, Writer, WriterOptions,
};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};
use tokio::time::Instant;
use uuid::Uuid;

/// Attempts after which a failing job is not retried.
pub const ATTEMPTS: i32 = 5;

/// A claimed job.
#[derive(Debug)]
pub struct Job {
    pub id: i64,
    pub token: Uuid,
    pub attempt: i32,
    pub body: String,
}

/// The queue, as an application uses it.
#[derive(Clone)]
pub struct Jobs {
    /// Its engine.
    pub wake: Wake,
    pub claims: Consumer<Claims>,
    enqueues: Writer<Enqueue>,
    finishes: Writer<Finish>,
}

impl Jobs {
    pub async fn start(db: &Database, schema: &Schema, options: reveille_wake::Options) -> reveille_pg::Result<Jobs> {
        let wake = Wake::start(db, schema, options);
        let channel = wake.channel("jobs", Payload::Keys);
        let quoted = format!("'{}'", channel.name().replace('\'', "''"));
        Migrator::new(schema, vec![Wake::component(), component(quoted)]).run(db).await?;
        let sql = |text| schema.sql(text);
        let claims = Claims {
            channel: channel.clone(),
            claim: sql("select * from {schema}.claim($1, $2, $3, in_write => false)"),
            give_back: sql("select {schema}.give_back($1, $2)"),
            sweep: sql(include_str!("sql/sweep.sql")),
        };
        let claims = wake.consumer("jobs", claims);
        let enqueue = Enqueue {
            channel: channel.clone(),
            claims: claims.clone(),
            sql: sql("select * from {schema}.enqueue($1, $2, $3, $4, $5, $6, $7)"),
            and_claim: sql(include_str!("sql/enqueue_and_claim.sql")),
        };
        let finish = Finish { channel, sql: sql("select * from {schema}.finish($1, $2, $3, $4, $5, $6, $7)") };
        Ok(Jobs {
            claims,
            enqueues: wake.writer("enqueue", enqueue, WriterOptions::default()),
            finishes: wake.writer("finish", finish, WriterOptions::default()),
            wake,
        })
    }

    /// Adds a job that is due after `delay` and returns its id.
    pub async fn enqueue(&self, queue: &str, body: &str, delay: Duration) -> reveille_wake::Result<i64> {
        self.enqueues.submit(NewJob { queue: queue.into(), body: body.into(), delay }).await
    }

    /// Claims the next job; `None` if there is none before the deadline.
    pub async fn claim(&self, queue: &str, lease: Duration, deadline: Instant) -> reveille_wake::Result<Option<Job>> {
        let claimed = self.claims.claim(queue.into(), 1, lease, deadline).await?;
        Ok(claimed.and_then(|claimed| claimed.accept().pop()))
    }

    /// Completes a job. `false` if its lease has ended and another worker may have it.
    pub async fn done(&self, queue: &str, job: &Job) -> reveille_wake::Result<bool> {
        self.finishes.submit(Ended { queue: queue.into(), id: job.id, token: job.token, retry_ms: None }).await
    }

    /// Schedules another attempt after a pause that doubles, or none after the last.
    pub async fn failed(&self, queue: &str, job: &Job) -> reveille_wake::Result<bool> {
        let pause_ms = if job.attempt < ATTEMPTS { 100 << job.attempt } else { -1 };
        self.finishes
            .submit(Ended { queue: queue.into(), id: job.id, token: job.token, retry_ms: Some(pause_ms) })
            .await
    }
}

fn component(channel: String) -> Component {
    Component {
        name: "jobs",
        migrations: &[Migration { number: 1, name: "job", sql: include_str!("sql/0001_job.sql") }],
        functions: &[
            Function { name: "claim", sql: include_str!("sql/claim.sql") },
            Function { name: "give_back", sql: include_str!("sql/give_back.sql") },
            Function { name: "enqueue", sql: include_str!("sql/enqueue.sql") },
            Function { name: "finish", sql: include_str!("sql/finish.sql") },
        ],
        vars: vec![("channel".into(), channel)],
    }
}

/// How jobs are claimed: waiters of one queue are equal except for their lease time.
pub struct Claims {
    channel: Channel,
    claim: Sql,
    give_back: Sql,
    sweep: Sql,
}

impl Claim for Claims {
    type Key = String;
    type Args = Duration;
    type Item = Job;

    fn topics(&self, queue: &String) -> Vec<Topic> {
        vec![self.channel.topic_of(queue)]
    }

    async fn poll(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<String, Duration>,
    ) -> reveille_pg::Result<PollResult<Job>> {
        Ok(claimed(&bind_claim(sqlx::query(&self.claim), poll).fetch_all(conn).await?, poll))
    }

    async fn give_back(&self, conn: &mut PgConnection, jobs: &[Job]) -> reveille_pg::Result<()> {
        let ids: Vec<i64> = jobs.iter().map(|job| job.id).collect();
        let tokens: Vec<Uuid> = jobs.iter().map(|job| job.token).collect();
        sqlx::query(&self.give_back).bind(ids).bind(tokens).execute(conn).await?;
        Ok(())
    }

    async fn sweep(&self, conn: &mut PgConnection, queues: &[String]) -> reveille_pg::Result<Vec<usize>> {
        let due: Vec<i32> = sqlx::query_scalar(&self.sweep).bind(queues).fetch_all(conn).await?;
        Ok(due.into_iter().filter_map(|index| usize::try_from(index).ok()).collect())
    }
}

/// One lease time for all waiters: the longest requested.
fn lease_of(poll: &PollRequest<String, Duration>) -> Duration {
    poll.waiters.iter().map(|waiter| *waiter.args).max().unwrap_or_default()
}

fn bind_claim<'q>(
    query: Query<'q, Postgres, PgArguments>,
    poll: &'q PollRequest<String, Duration>,
) -> Query<'q, Postgres, PgArguments> {
    query.bind(&poll.key).bind(poll.wanted().min(1_000) as i32).bind(lease_of(poll).as_millis() as i64)
}

/// The jobs in the rows of a claim.
fn claimed(rows: &[PgRow], poll: &PollRequest<String, Duration>) -> PollResult<Job> {
    let has_job = |row: &&PgRow| row.get::<Option<i64>, _>("id").is_some();
    let job = |row: &PgRow| Job {
        id: row.get("id"),
        token: row.get("token"),
        attempt: row.get("attempt"),
        body: row.get("body"),
    };
    let jobs = rows.iter().filter(has_job).map(job).collect();
    let next_due_ms = rows.first().and_then(|row| row.get("next_due_ms"));
    PollResult::next_due_ms(next_due_ms).deal(poll, jobs, Some(lease_of(poll)))
}

/// Adds jobs, and claims for workers that wait for them. A job must not be added twice, so outcomes are recorded.
struct Enqueue {
    channel: Channel,
    claims: Consumer<Claims>,
    sql: Sql,
    and_claim: Sql,
}

struct NewJob {
    queue: String,
    body: String,
    delay: Duration,
}

impl BatchedWrite for Enqueue {
    type Write = NewJob;
    type Key = ();
    type Outcome = i64;
    const RECORDS_OUTCOMES: bool = true;

    fn key(&self, _: &NewJob) {}

    fn wake_ups(&self, job: &NewJob, _: Option<&i64>) -> Vec<WakeUp> {
        vec![self.channel.wake_up_keys([job.queue.as_str()]).after(job.delay)]
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, NewJob>,
    ) -> reveille_pg::Result<BatchResult<Self::Outcome>> {
        let queues: Vec<&str> = batch.writes.iter().map(|job| job.queue.as_str()).collect();
        let bodies: Vec<&str> = batch.writes.iter().map(|job| job.body.as_str()).collect();
        let delays: Vec<i64> = batch.writes.iter().map(|job| job.delay.as_millis() as i64).collect();
        let Some(poll) = batch.attach(&self.claims) else {
            let query = batch.query(&self.sql).bind(queues).bind(bodies).bind(delays);
            return batch.result(self, &query.fetch_one(conn).await?);
        };
        let query = batch.query(&self.and_claim).bind(queues).bind(bodies).bind(delays);
        let rows = bind_claim(query, poll.request()).fetch_all(conn).await?;
        let claimed = claimed(&rows, poll.request());
        let first = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        Ok(batch.result(self, first)?.with_claims(poll, claimed))
    }

    fn decode(&self, _: &NewJob, id: &str) -> Option<i64> {
        id.parse().ok()
    }
}

/// Ends attempts, fenced by their tokens.
struct Finish {
    channel: Channel,
    sql: Sql,
}

struct Ended {
    queue: String,
    id: i64,
    token: Uuid,
    retry_ms: Option<i64>,
}

impl BatchedWrite for Finish {
    type Write = Ended;
    type Key = i64;
    type Outcome = bool;
    const RECORDS_OUTCOMES: bool = true;

    fn key(&self, ended: &Ended) -> i64 {
        ended.id
    }

    fn wake_ups(&self, ended: &Ended, is_current: Option<&bool>) -> Vec<WakeUp> {
        let pause = ended.retry_ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
        let wake_up = pause.map(|pause| self.channel.wake_up_keys([ended.queue.as_str()]).after(pause));
        wake_up.filter(|_| is_current != Some(&false)).into_iter().collect()
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, Ended>,
    ) -> reveille_pg::Result<BatchResult<Self::Outcome>> {
        let ids: Vec<i64> = batch.writes.iter().map(|ended| ended.id).collect();
        let tokens: Vec<Uuid> = batch.writes.iter().map(|ended| ended.token).collect();
        let retries: Vec<Option<i64>> = batch.writes.iter().map(|ended| ended.retry_ms).collect();
        batch.result(self, &batch.query(&self.sql).bind(ids).bind(tokens).bind(retries).fetch_one(conn).await?)
    }

    fn decode(&self, _: &Ended, is_current: &str) -> Option<bool> {
        is_current.parse().ok()
    }
}
