//! Prefetching: frequent waiters are served from memory, and prefetched items that no waiter takes are given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use reveille_pg::testing::TestDb;
use reveille_pg::{Database, Migrator, Sql};
use reveille_wake::{Channel, Claim, Consumer, Payload, PollRequest, PollResult, Topic, Wake};
use sqlx::PgConnection;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::fixture::{OtherProgram, PATIENCE, eventually, options};

/// More than these tests take.
const TICKETS: i64 = 100_000;
/// How many the workers take.
const ENOUGH: i64 = 2_000;

/// Tickets, each to be taken once.
pub(crate) struct Tickets {
    channel: Channel,
    take: Sql,
    give_back: Sql,
}

impl Claim for Tickets {
    type Key = ();
    type Args = ();
    type Item = i64;

    fn topics(&self, (): &()) -> Vec<Topic> {
        vec![self.channel.topic()]
    }

    async fn poll(&self, conn: &mut PgConnection, poll: &PollRequest<(), ()>) -> reveille_pg::Result<PollResult<i64>> {
        let wanted = (poll.wanted() + poll.prefetch) as i64;
        let taken: Vec<i64> = sqlx::query_scalar(&self.take).bind(wanted).fetch_all(conn).await?;
        let more = (taken.len() as i64 == wanted).then_some(std::time::Duration::ZERO);
        Ok(PollResult::new(more).deal(poll, taken, None))
    }

    async fn give_back(&self, conn: &mut PgConnection, tickets: &[i64]) -> reveille_pg::Result<()> {
        sqlx::query(&self.give_back).bind(tickets).execute(conn).await?;
        Ok(())
    }

    async fn sweep(&self, _: &mut PgConnection, _: &[()]) -> reveille_pg::Result<Vec<usize>> {
        Ok(vec![0])
    }

    fn fits(&self, _: &i64, (): &()) -> bool {
        true
    }

    fn prefetches(&self) -> bool {
        true
    }
}

pub(crate) async fn tickets(db: &TestDb) -> (Wake, Consumer<Tickets>) {
    tickets_of(db, db.database()).await
}

async fn tickets_of(db: &TestDb, database: &Database) -> (Wake, Consumer<Tickets>) {
    Migrator::new(db.schema(), vec![Wake::component()]).run(database).await.expect("create the tables");
    let table = format!(
        "create table {{schema}}.ticket (id bigint primary key, taken integer not null default 0); \
         insert into {{schema}}.ticket select generate_series(1, {TICKETS}); \
         create index on {{schema}}.ticket (id) where taken = 0"
    );
    OtherProgram::of(db).await.run(&table).await;
    let wake = Wake::start(database, db.schema(), options());
    let take = "update {schema}.ticket set taken = taken + 1 where id in ( \
                  select id from {schema}.ticket where taken = 0 order by id limit $1 for update skip locked \
                ) returning id";
    let give_back = "update {schema}.ticket set taken = taken - 1 where id = any ($1::bigint[])";
    let channel = wake.channel("tickets", Payload::Keys);
    let claim = Tickets { channel, take: db.schema().sql(take), give_back: db.schema().sql(give_back) };
    let consumer = wake.consumer("tickets", claim);
    (wake, consumer)
}

/// Eight workers take tickets as fast as they can, until [`ENOUGH`] are taken. Returns how many.
pub(crate) async fn take_many(consumer: &Consumer<Tickets>) -> i64 {
    let taken = Arc::new(AtomicI64::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..8 {
        let (consumer, taken) = (consumer.clone(), taken.clone());
        workers.spawn(async move {
            while taken.load(Ordering::Relaxed) < ENOUGH {
                let claimed = consumer.claim((), 1, (), Instant::now() + PATIENCE).await.expect("a claim");
                taken.fetch_add(claimed.expect("a ticket").accept().len() as i64, Ordering::Relaxed);
            }
        });
    }
    workers.join_all().await;
    assert!(consumer.counts().prefetch > 0, "nothing was prefetched");
    taken.load(Ordering::Relaxed)
}

/// How many tickets are taken; none may be taken twice.
async fn taken_tickets(db: &TestDb) -> i64 {
    let mut other = OtherProgram::of(db).await;
    let twice = "select count(*) from {schema}.ticket where taken not in (0, 1)";
    let twice: i64 = sqlx::query_scalar(db.schema().sql(twice)).fetch_one(&mut other.conn).await.expect("a count");
    assert_eq!(twice, 0);
    let out = "select count(*) from {schema}.ticket where taken = 1";
    sqlx::query_scalar(db.schema().sql(out)).fetch_one(&mut other.conn).await.expect("a count")
}

/// Workers get each ticket once, most of them without waiting for a poll; the tickets left over at the end are given
/// back.
#[tokio::test(flavor = "multi_thread")]
async fn prefetched_items_without_a_waiter_are_given_back() {
    let db = TestDb::new().await;
    let (_wake, consumer) = tickets(&db).await;
    let taken = take_many(&consumer).await;
    eventually("the rest is given back", async || taken_tickets(&db).await == taken).await;
    assert!(consumer.counts().polls < taken as u64 / 2, "{:?}", consumer.counts());
}

/// Closing gives prefetched items back before it returns.
#[tokio::test(flavor = "multi_thread")]
async fn closing_gives_back_prefetched_items() {
    let db = TestDb::new().await;
    let (_wake, consumer) = tickets(&db).await;
    let taken = take_many(&consumer).await;
    consumer.close().await;
    assert_eq!(taken_tickets(&db).await, taken);
}

/// A consumer that is dropped with prefetched items gives them back.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_consumer_gives_back_prefetched_items() {
    let db = TestDb::new().await;
    let (wake, consumer) = tickets(&db).await;
    let taken = take_many(&consumer).await;
    drop((wake, consumer));
    eventually("the rest is given back", async || taken_tickets(&db).await == taken).await;
}

/// A runtime that shuts down with prefetched items closes all connections of the consumer.
#[test]
fn a_runtime_that_shuts_down_closes_all_connections() {
    let here = Runtime::new().expect("a runtime");
    let db = here.block_on(TestDb::new());
    let name = format!("prefetch-{}", std::process::id());
    let ends = Runtime::new().expect("a runtime");
    ends.block_on(async {
        let options = reveille_pg::Options::default().application_name(name.clone());
        let database = Database::connect(db.url(), options).await.expect("connect");
        let (_wake, consumer) = tickets_of(&db, &database).await;
        take_many(&consumer).await;
    });
    ends.shutdown_background();
    here.block_on(async {
        let open = "select count(*) from pg_stat_activity where application_name = $1";
        eventually("its connections are closed", async || {
            let open: i64 =
                sqlx::query_scalar(open).bind(&name).fetch_one(db.database().pool()).await.expect("a count");
            open == 0
        })
        .await;
    });
}

/// A single worker that takes one ticket after another causes no prefetching: the next ticket stays available to
/// others.
#[tokio::test(flavor = "multi_thread")]
async fn a_single_worker_causes_no_prefetching() {
    let db = TestDb::new().await;
    let (_wake, consumer) = tickets(&db).await;
    for taken in 1..=300 {
        let claimed = consumer.claim((), 1, (), Instant::now() + PATIENCE).await.expect("a claim");
        assert_eq!(claimed.expect("a ticket").accept(), [taken]);
    }
    assert_eq!((consumer.counts().prefetch, taken_tickets(&db).await), (0, 300));
}
