//! Queues for tests, each in a schema of its own.

use std::time::Duration;

use reveille_pg::Database;
pub(crate) use reveille_pg::testing::PATIENCE;
use reveille_pg::testing::{Proxy, TestDb, eventually};
use reveille_queue::{
    Ack, AckStatus, Acked, Batch, Message, NewMessage, Options, Pop, PushStatus, Pushed, Queues, Source,
};
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::Instant;

/// Queues, and their schema.
pub(crate) struct Fixture {
    pub(crate) db: TestDb,
    pub(crate) queues: Queues,
}

impl std::ops::Deref for Fixture {
    type Target = Queues;

    fn deref(&self) -> &Queues {
        &self.queues
    }
}

impl Fixture {
    pub(crate) async fn new() -> Fixture {
        Fixture::with(Options::default()).await
    }

    pub(crate) async fn with(options: Options) -> Fixture {
        let db = TestDb::new().await;
        let queues = Queues::open(db.database().clone(), db.schema().clone(), options).await.expect("open queues");
        Fixture { db, queues }
    }

    /// Changes an option of a queue that exists.
    pub(crate) async fn set(&self, queue: &str, option: &str) {
        let sql = self.db.schema().sql(&format!("update {{schema}}.queue set {option} where name = $1"));
        let done = sqlx::query(&sql).bind(queue).execute(self.db.database().pool()).await.expect("set an option");
        assert_eq!(done.rows_affected(), 1, "there is a queue {queue}");
    }

    /// A number, read from the database.
    pub(crate) async fn count(&self, sql: &str) -> i64 {
        let sql = self.db.schema().sql(sql);
        sqlx::query_scalar(&sql).fetch_one(self.db.database().pool()).await.expect("a number")
    }
}

/// The queues of another process: the same tables, without shared memory.
pub(crate) struct Elsewhere {
    pub(crate) queues: Queues,
    _way: Proxy,
}

impl Elsewhere {
    pub(crate) async fn start(db: &TestDb) -> Elsewhere {
        Elsewhere::with(db, Options::default()).await
    }

    pub(crate) async fn with(db: &TestDb, options: Options) -> Elsewhere {
        // Another address makes it another database for objects that exist once per database.
        let way = Proxy::start(db).await;
        let database =
            Database::connect_lazy(way.url(), reveille_pg::Options::default()).expect("a pool through a proxy");
        let queues = Queues::open(database, db.schema().clone(), options).await.expect("open queues");
        Elsewhere { queues, _way: way }
    }
}

pub(crate) fn json(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).expect("JSON")
}

/// A message whose payload is its transaction id.
pub(crate) fn message(queue: &str, partition: &str, transaction: &str) -> NewMessage {
    NewMessage {
        partition: Some(partition.to_owned()),
        transaction_id: Some(transaction.to_owned()),
        ..NewMessage::new(queue, to_raw_value(transaction).expect("text is JSON"))
    }
}

/// Pushes messages to a partition, one after another in one call.
pub(crate) async fn push(queues: &Queues, queue: &str, partition: &str, transactions: &[&str]) -> Vec<Pushed> {
    let messages = transactions.iter().map(|transaction| message(queue, partition, transaction)).collect();
    queues.push(messages).await.expect("pushed")
}

pub(crate) fn statuses(pushed: &[Pushed]) -> Vec<PushStatus> {
    pushed.iter().map(|pushed| pushed.status.clone()).collect()
}

/// A pop of any partition of a queue, for a group.
pub(crate) fn of(queue: &str, group: &str, batch: usize) -> Pop {
    Pop { group: Some(group.to_owned()), batch, ..Pop::new(Source::queue(queue)) }
}

/// Pops without a wait.
pub(crate) async fn now(queues: &Queues, pop: Pop) -> Option<Batch> {
    queues.pop(pop, None).await.expect("a pop")
}

/// Pops with a wait.
pub(crate) async fn soon(queues: &Queues, pop: Pop) -> Batch {
    queues.pop(pop, Some(Instant::now() + PATIENCE)).await.expect("a pop").expect("something to pop")
}

pub(crate) fn transactions(batch: &Batch) -> Vec<&str> {
    batch.messages.iter().map(|message| message.transaction_id.as_str()).collect()
}

/// Acks with one status for some messages of a batch.
pub(crate) fn say<'a>(batch: &Batch, messages: impl IntoIterator<Item = &'a Message>, status: AckStatus) -> Vec<Ack> {
    let ack = |message: &Message| Ack {
        transaction_id: message.transaction_id.clone(),
        partition_id: message.partition_id,
        status,
        lease_id: batch.lease_id,
        group: Some(batch.group.clone()),
        error: (status != AckStatus::Completed).then(|| "broken".to_owned()),
    };
    messages.into_iter().map(ack).collect()
}

/// Acks all messages of a batch with one status; all must be applied.
pub(crate) async fn end(queues: &Queues, batch: &Batch, status: AckStatus) -> Vec<Acked> {
    let acked = queues.ack(say(batch, &batch.messages, status)).await.expect("acked");
    assert!(acked.iter().all(|acked| acked.outcome.is_ok()), "{acked:?}");
    acked
}

/// Waits until this many pops wait.
pub(crate) async fn until_waiting(queues: &Queues, count: usize) {
    eventually("so many wait", async || {
        queues.health().consumers.iter().map(|consumer| consumer.waiters).sum::<usize>() == count
    })
    .await;
}

/// Waits until a session waits for a lock of a transaction.
pub(crate) async fn until_blocked(queues: &Fixture, transaction: &mut sqlx::PgConnection) {
    let holder: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(transaction).await.expect("a number");
    let waits = format!("select count(*) from pg_stat_activity where {holder} = any (pg_blocking_pids(pid))");
    eventually("a session waits for the transaction", async || queues.count(&waits).await > 0).await;
}

/// A short time in which no event is expected.
pub(crate) const SHORT_TIME: Duration = Duration::from_millis(300);
