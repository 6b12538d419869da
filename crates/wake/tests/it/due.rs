//! Channels whose payload is a due time: other processes learn when to poll, by the database's clock.

use std::time::Duration;

use reveille_pg::testing::TestDb;
use reveille_pg::{Migrator, Sql};
use reveille_wake::{Channel, Claim, Consumer, Payload, PollRequest, PollResult, Topic, Wake, channel_name};
use sqlx::{PgConnection, Row};
use tokio::time::Instant;

use crate::fixture::{OtherProgram, PATIENCE, eventually, options};

/// How far in the future the timers of these tests are.
const AHEAD: Duration = Duration::from_millis(1_500);
/// How late a timer may be on a busy machine. Without its due time nothing would poll for an hour.
const LATE: Duration = Duration::from_secs(20);

/// A table of timers, each claimed by deleting it.
struct Timers {
    channel: Channel,
    take: Sql,
    due: Sql,
}

impl Claim for Timers {
    type Key = ();
    type Args = ();
    type Item = i64;

    fn topics(&self, (): &()) -> Vec<Topic> {
        vec![self.channel.topic()]
    }

    async fn poll(&self, conn: &mut PgConnection, poll: &PollRequest<(), ()>) -> reveille_pg::Result<PollResult<i64>> {
        let row = sqlx::query(&self.take).bind(poll.wanted() as i64).fetch_one(conn).await?;
        let taken: Vec<i64> = row.get(0);
        Ok(PollResult::next_due_ms(row.get(1)).deal(poll, taken, None))
    }

    async fn give_back(&self, _: &mut PgConnection, _: &[i64]) -> reveille_pg::Result<()> {
        Ok(())
    }

    async fn sweep(&self, conn: &mut PgConnection, _: &[()]) -> reveille_pg::Result<Vec<usize>> {
        let due: bool = sqlx::query_scalar(&self.due).fetch_one(conn).await?;
        Ok(if due { vec![0] } else { Vec::new() })
    }

    fn fits(&self, _: &i64, (): &()) -> bool {
        true
    }
}

async fn timers(db: &TestDb) -> (Wake, Consumer<Timers>) {
    Migrator::new(db.schema(), vec![Wake::component()]).run(db.database()).await.expect("create the tables");
    OtherProgram::of(db).await.run("create table {schema}.timer (id bigint primary key, due_at timestamptz)").await;
    let wake = Wake::start(db.database(), db.schema(), options());
    let channel = wake.channel("timers", Payload::Due);
    let take = "with taken as (delete from {schema}.timer where id in ( \
                  select id from {schema}.timer where due_at <= now() order by due_at limit $1 for update skip locked) \
                returning id) \
                select array(select id from taken), \
                  (select extract(epoch from min(due_at) - now())::float8 * 1000 from {schema}.timer \
                   where id not in (select id from taken))";
    let due = "select exists (select from {schema}.timer where due_at <= now())";
    let timers = Timers { channel, take: db.schema().sql(take), due: db.schema().sql(due) };
    let consumer = wake.consumer("timers", timers);
    eventually("the listener is connected", async || wake.health().is_connected()).await;
    (wake, consumer)
}

/// Waits for a timer, while another program sets one that is due after [`AHEAD`] and notifies with `payload`. Returns
/// how many polls were made before it was due, and how late it was.
async fn waits_for(db: &TestDb, consumer: &Consumer<Timers>, id: i64, payload: &str) -> (u64, Duration) {
    let waits = tokio::spawn({
        let consumer = consumer.clone();
        async move { consumer.claim((), 1, (), Instant::now() + PATIENCE).await }
    });
    eventually("it has polled", async || {
        consumer.health().waiters == 1 && consumer.counts().empty_polls == consumer.counts().polls - (id as u64 - 1)
    })
    .await;
    let before = consumer.counts().polls;
    let channel = channel_name(db.schema().name(), "timers");
    let set = format!(
        "insert into {{schema}}.timer values ({id}, now() + {} * interval '1 ms'); \
         select {{schema}}.notify(array['{channel}'], array['{payload}'])",
        AHEAD.as_millis()
    );
    let asked = Instant::now();
    OtherProgram::of(db).await.run(&set).await;
    let set = Instant::now();
    tokio::time::sleep_until(asked + AHEAD / 2).await;
    let early = consumer.counts().polls - before;
    let had = waits.await.expect("no panic").expect("a claim").expect("a timer").accept();
    assert_eq!(had, [id]);
    assert!(asked.elapsed() >= AHEAD, "it was early");
    (early, set.elapsed().saturating_sub(AHEAD))
}

/// A waiter sleeps until a due time received from another program: no poll at once, and none late.
/// The notification contains the delay, which the server turns into a time of its own clock.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_sleep_until_a_received_due_time() {
    let db = TestDb::new().await;
    let (_wake, consumer) = timers(&db).await;
    let (early, late) = waits_for(&db, &consumer, 1, &format!("+{}", AHEAD.as_millis())).await;
    assert_eq!(early, 0, "it polled before the timer was due");
    assert!(late < LATE, "{late:?} late");
}

/// A payload that is no due time means now: the poll returns the next due time.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_due_time_causes_a_poll_now() {
    let db = TestDb::new().await;
    let (_wake, consumer) = timers(&db).await;
    let (early, late) = waits_for(&db, &consumer, 1, "soon").await;
    assert!(early >= 1, "it did not poll");
    assert!(late < LATE, "{late:?} late");
}

/// An item whose waiter went away is handed to the next waiter it fits.
/// A claimed timer is deleted and cannot be given back, and one poll claims one timer at a time, so the second waiter
/// cannot get it from the table.
#[tokio::test(flavor = "multi_thread")]
async fn an_item_whose_waiter_is_gone_is_handed_to_the_next() {
    let db = TestDb::new().await;
    let (_wake, consumer) = timers(&db).await;
    OtherProgram::of(&db).await.run("insert into {schema}.timer values (1, now())").await;
    let first = consumer.claim((), 1, (), Instant::now() + PATIENCE).await.expect("a claim").expect("the timer");
    let second = tokio::spawn({
        let consumer = consumer.clone();
        async move { consumer.claim((), 1, (), Instant::now() + PATIENCE).await }
    });
    eventually("the second waits", async || consumer.health().waiters == 1).await;
    drop(first);
    let had = second.await.expect("no panic").expect("a claim").expect("the timer").accept();
    assert_eq!(had, [1]);
    assert_eq!(consumer.counts().given_back, 1);
}

/// Of two timers due at once, a poll that claims one reports the other: the next waiter gets it without a wake-up.
#[tokio::test(flavor = "multi_thread")]
async fn the_rest_of_a_full_claim_reaches_the_next_waiter() {
    let db = TestDb::new().await;
    let (_wake, consumer) = timers(&db).await;
    OtherProgram::of(&db).await.run("insert into {schema}.timer values (1, now()), (2, now() + interval '1 ms')").await;
    for id in [1, 2] {
        let had = consumer.claim((), 1, (), Instant::now() + PATIENCE).await.expect("a claim").expect("a timer");
        assert_eq!(had.accept(), [id]);
    }
}
