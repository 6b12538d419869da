//! Claiming a little ahead: a crowd is served from memory, and nothing that was taken for nobody stays away.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use pg::testing::TestDb;
use pg::{Database, Migrator, Sql};
use sqlx::PgConnection;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::Instant;
use wake::{Channel, Claim, Consumer, Payload, PollRequest, PollResult, Topic, Wake};

use crate::fixture::{PATIENCE, Stranger, eventually, options};

/// More than anybody takes in these tests.
const TICKETS: i64 = 100_000;
/// How many a crowd takes.
const ENOUGH: i64 = 2_000;

/// Tickets, each for one person.
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

    async fn poll(&self, conn: &mut PgConnection, poll: &PollRequest<(), ()>) -> pg::Result<PollResult<i64>> {
        let wanted = (poll.wanted() + poll.prefetch) as i64;
        let taken: Vec<i64> = sqlx::query_scalar(&self.take).bind(wanted).fetch_all(conn).await?;
        let more = (taken.len() as i64 == wanted).then_some(std::time::Duration::ZERO);
        Ok(PollResult::new(more).deal(poll, taken, None))
    }

    async fn give_back(&self, conn: &mut PgConnection, tickets: &[i64]) -> pg::Result<()> {
        sqlx::query(&self.give_back).bind(tickets).execute(conn).await?;
        Ok(())
    }

    async fn sweep(&self, _: &mut PgConnection, _: &[()]) -> pg::Result<Vec<usize>> {
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
    Migrator::new(db.schema(), vec![Wake::component()]).run(database).await.expect("make the engine's tables");
    let table = format!(
        "create table {{schema}}.ticket (id bigint primary key, taken integer not null default 0); \
         insert into {{schema}}.ticket select generate_series(1, {TICKETS}); \
         create index on {{schema}}.ticket (id) where taken = 0"
    );
    Stranger::of(db).await.run(&table).await;
    let wake = Wake::start(database, db.schema(), options());
    let take = "update {schema}.ticket set taken = taken + 1 where id in ( \
                  select id from {schema}.ticket where taken = 0 order by id limit $1 for update skip locked) returning id";
    let give_back = "update {schema}.ticket set taken = taken - 1 where id = any ($1::bigint[])";
    let channel = wake.channel("tickets", Payload::Keys);
    let claim = Tickets { channel, take: db.schema().sql(take), give_back: db.schema().sql(give_back) };
    let consumer = wake.consumer("tickets", claim);
    (wake, consumer)
}

/// Eight take tickets as fast as they can, until [`ENOUGH`] are taken. Answers how many that were.
pub(crate) async fn crowd(consumer: &Consumer<Tickets>) -> i64 {
    let taken = Arc::new(AtomicI64::new(0));
    let mut people = JoinSet::new();
    for _ in 0..8 {
        let (consumer, taken) = (consumer.clone(), taken.clone());
        people.spawn(async move {
            while taken.load(Ordering::Relaxed) < ENOUGH {
                let registration = consumer.claim((), 1, (), Instant::now() + PATIENCE).await.expect("a claim");
                taken.fetch_add(registration.expect("a ticket").accept().len() as i64, Ordering::Relaxed);
            }
        });
    }
    people.join_all().await;
    assert!(consumer.counts().prefetch > 0, "nobody was expected");
    taken.load(Ordering::Relaxed)
}

/// How many tickets are out, of which none twice.
async fn out(db: &TestDb) -> i64 {
    let mut stranger = Stranger::of(db).await;
    let twice = "select count(*) from {schema}.ticket where taken not in (0, 1)";
    let twice: i64 = sqlx::query_scalar(db.schema().sql(twice)).fetch_one(&mut stranger.conn).await.expect("a count");
    assert_eq!(twice, 0);
    let out = "select count(*) from {schema}.ticket where taken = 1";
    sqlx::query_scalar(db.schema().sql(out)).fetch_one(&mut stranger.conn).await.expect("a count")
}

/// A crowd gets each ticket once, most of them without waiting for a look; what is left over when it disperses goes back by itself.
#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_came_for_goes_back() {
    let db = TestDb::new().await;
    let (_wake, consumer) = tickets(&db).await;
    let taken = crowd(&consumer).await;
    eventually("the rest is back", async || out(&db).await == taken).await;
    assert!(consumer.counts().polls < taken as u64 / 2, "{:?}", consumer.counts());
}

/// Closing gives back what was taken ahead before it returns.
#[tokio::test(flavor = "multi_thread")]
async fn closing_gives_back_what_was_taken_ahead() {
    let db = TestDb::new().await;
    let (_wake, consumer) = tickets(&db).await;
    let taken = crowd(&consumer).await;
    consumer.close().await;
    assert_eq!(out(&db).await, taken);
}

/// A consumer that is dropped while it keeps something gives it back all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_consumer_gives_back_what_was_taken_ahead() {
    let db = TestDb::new().await;
    let (wake, consumer) = tickets(&db).await;
    let taken = crowd(&consumer).await;
    drop((wake, consumer));
    eventually("the rest is back", async || out(&db).await == taken).await;
}

/// A runtime that ends at once, with something taken ahead, leaves nothing of the consumer behind: its connections are closed.
#[test]
fn a_runtime_that_ends_leaves_nothing_behind() {
    let here = Runtime::new().expect("a runtime");
    let db = here.block_on(TestDb::new());
    let name = format!("ahead-{}", std::process::id());
    let ends = Runtime::new().expect("a runtime");
    ends.block_on(async {
        let options = pg::Options { application_name: name.clone(), ..pg::Options::default() };
        let database = Database::connect(db.url(), options).await.expect("connect");
        let (_wake, consumer) = tickets_of(&db, &database).await;
        crowd(&consumer).await;
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

/// Who takes one ticket after the other, alone, is given what it asks for: the next one is somebody else's as well.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_taken_ahead_of_one_who_is_alone() {
    let db = TestDb::new().await;
    let (_wake, consumer) = tickets(&db).await;
    for taken in 1..=300 {
        let registration = consumer.claim((), 1, (), Instant::now() + PATIENCE).await.expect("a claim");
        assert_eq!(registration.expect("a ticket").accept(), [taken]);
    }
    assert_eq!((consumer.counts().prefetch, out(&db).await), (0, 300));
}
