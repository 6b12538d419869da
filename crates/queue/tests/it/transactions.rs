//! Pushes and acks that take effect together or not at all.

use std::time::Duration;

use reveille_pg::Database;
use reveille_pg::testing::Proxy;
use reveille_queue::{Ack, AckStatus, Batch, Done, Error, NewMessage, Operation, Options, PushStatus, Queues};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::fixture::{Elsewhere, Fixture, PATIENCE, end, json, message, now, of, push, say, soon, transactions};

/// The acks of all messages of a batch.
fn acks(batch: &Batch) -> Vec<Operation> {
    say(batch, &batch.messages, AckStatus::Completed).into_iter().map(Operation::Ack).collect()
}

fn pushed(queue: &str, partition: &str, transactions: &[&str]) -> Operation {
    Operation::Push(transactions.iter().map(|transaction| message(queue, partition, transaction)).collect())
}

fn reason(error: Error) -> String {
    match error {
        Error::RolledBack { reason } => reason,
        other => panic!("not rolled back: {other}"),
    }
}

/// An ack and a push to the same partition must both take effect, and the group continues there.
#[tokio::test]
async fn a_partition_is_acked_and_pushed_to_at_once() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1"]).await;
    let batch = now(&queues, of("q", "g", 9)).await.expect("a message");
    let mut operations = acks(&batch);
    operations.insert(0, pushed("q", "p", &["2", "2"]));
    let done = queues.transaction(operations, &[]).await.expect("committed");
    let [Done::Pushed(first), Done::Pushed(second), Done::Acked(acked)] = done.as_slice() else { panic!("{done:?}") };
    assert_eq!((&first.status, &second.status), (&PushStatus::Queued, &PushStatus::Duplicate));
    assert_eq!((first.message_id, acked.outcome), (second.message_id, Ok(())));
    assert_eq!(transactions(&soon(&queues, of("q", "g", 9)).await), ["2"]);
}

/// A push in a transaction must wake waiting pops, here and in another process, when it commits and not before.
#[tokio::test]
async fn a_commit_wakes_waiting_pops() {
    let here = Fixture::new().await;
    let there = Elsewhere::start(&here.db).await;
    push(&here, "q", "p", &["0"]).await;
    let waiting = [here.queues.clone(), there.queues.clone()].into_iter().enumerate().map(|(number, queues)| {
        let group = format!("g{number}");
        tokio::spawn(async move { transactions(&soon(&queues, of("other", &group, 9)).await).join(",") })
    });
    let waiting: Vec<_> = waiting.collect();
    let refused = here.transaction(vec![pushed("other", "p", &["lost"])], &[Uuid::now_v7()]).await;
    assert!(reason(refused.expect_err("no such lease")).contains("has expired or was released"));
    here.transaction(vec![pushed("other", "p", &["1"])], &[]).await.expect("committed");
    for waiting in waiting {
        assert_eq!(timeout(PATIENCE, waiting).await.expect("woken").expect("no panic"), "1");
    }
}

/// A required lease must be current: with an expired one the transaction is rejected, even if its messages are not
/// leased again yet.
#[tokio::test]
async fn a_required_lease_must_last() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1"]).await;
    let batch = now(&queues, of("q", "g", 9)).await.expect("a message");
    let lease = batch.lease_id.expect("a lease");
    let end_it = "with ended as (update {schema}.cursor set due_at = now(), version = version + 1 returning 1) \
                  select count(*) from ended";
    assert_eq!(queues.count(end_it).await, 1);
    let mut operations = acks(&batch);
    operations.push(pushed("out", "p", &["2"]));
    let refused = queues.transaction(operations, &[lease]).await.expect_err("the lease is over");
    assert!(reason(refused).contains(&lease.to_string()));
    assert!(now(&queues, of("out", "g", 9)).await.is_none());
    assert_eq!(transactions(&soon(&queues, of("q", "g", 9)).await), ["1"]);
}

/// An ack without a lease is fenced by the required lease on its partition: if that has expired, another consumer may
/// have the message.
#[tokio::test]
async fn an_ack_is_fenced_by_the_required_lease() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1"]).await;
    let first = now(&queues, of("q", "g", 9)).await.expect("a message");
    queues.ack(say(&first, &first.messages, AckStatus::Retry)).await.expect("given back");
    let second = soon(&queues, of("q", "g", 9)).await;
    let bare = |batch: &Batch| {
        let acks = say(batch, &batch.messages, AckStatus::Completed).into_iter();
        acks.map(|ack| Operation::Ack(Ack { lease_id: None, group: None, ..ack })).collect::<Vec<_>>()
    };
    let late = queues.transaction(bare(&first), &[first.lease_id.expect("a lease")]).await;
    assert!(reason(late.expect_err("over")).contains("has expired or was released"));
    queues.transaction(bare(&second), &[second.lease_id.expect("a lease")]).await.expect("committed");
    assert!(now(&queues, of("q", "g", 9)).await.is_none(), "acked for the group of the lease");
    assert!(now(&queues, of("q", "other", 9)).await.is_some(), "and for no other");
}

/// A transaction with one rejected ack or message must have no effect: the other acks and messages are as before.
#[tokio::test]
async fn a_rejected_transaction_has_no_effect() {
    let queues = Fixture::new().await;
    push(&queues, "q", "a", &["1"]).await;
    push(&queues, "q", "b", &["2"]).await;
    push(&queues, "full", "p", &["x"]).await;
    queues.set("full", "max_size = 1").await;
    let batch = now(&queues, reveille_queue::Pop { partitions: 2, ..of("q", "g", 9) }).await.expect("messages");
    let mut unknown = acks(&batch);
    let Some(Operation::Ack(last)) = unknown.last_mut() else { panic!("two acks") };
    last.transaction_id = "unknown".to_owned();
    let mut full = acks(&batch);
    full.push(pushed("full", "p", &["y"]));
    for (mut operations, why) in [(unknown, "\"unknown\""), (full, "maxSize")] {
        operations.push(pushed("out", "p", &["3"]));
        let refused = queues.transaction(operations, &[]).await.expect_err(why);
        assert!(reason(refused).contains(why));
    }
    assert!(now(&queues, of("out", "g", 9)).await.is_none());
    assert_eq!(queues.count("select count(*) from {schema}.segment").await, 3);
    assert!(end(&queues, &batch, AckStatus::Completed).await.iter().all(|acked| acked.lease_released));
}

/// The outcome of a commit whose response is lost must not be guessed: a committed transaction is reported as such and
/// applied once, one that was not committed is repeated.
/// Messages without transaction ids, so that nothing else detects duplicates; the commit is cut before and after the
/// server has received it.
#[tokio::test]
async fn a_lost_commit_response_is_resolved() {
    let here = Fixture::new().await;
    push(&here, "q", "p", &["1"]).await;
    let proxy = Proxy::start(&here.db).await;
    let database = Database::connect_lazy(proxy.url(), reveille_pg::Options::default()).expect("a pool");
    let there = Queues::start(&database, here.db.schema(), Options::default());
    let new = || Operation::Push(vec![NewMessage::new("out", json("1"))]);
    for (round, after) in [true, false].into_iter().enumerate() {
        // Known partitions and prepared statements: only the commit can fail.
        there.transaction(vec![new()], &[]).await.expect("committed");
        let cut = if after { proxy.cut_reply_to("COMMIT") } else { proxy.cut_request_with("COMMIT") };
        let done = timeout(PATIENCE, there.transaction(vec![new()], &[])).await.expect("in time").expect("committed");
        cut.happened().await;
        let [Done::Pushed(pushed)] = done.as_slice() else { panic!("{done:?}") };
        assert_eq!(pushed.status, PushStatus::Queued);
        let all = soon(&here, of("out", &format!("g{round}"), 99)).await;
        assert_eq!(all.messages.len(), 2 * (round + 1), "each once");
        assert_eq!(all.messages.last().map(|message| message.id), Some(pushed.message_id));
    }
}

/// Transactions that read and write the same partitions in different orders must all succeed: two rings of queues, in
/// opposite directions, with many transactions at once, beside ordinary pushes. Every message goes round once, and none
/// is lost or duplicated.
#[tokio::test(flavor = "multi_thread")]
async fn opposite_transactions_do_not_block_each_other() {
    const MOVES: usize = 20;
    let fixture = Fixture::new().await;
    for (queue, transaction) in [("a", "x"), ("b", "y")] {
        push(&fixture, queue, "p", &[transaction]).await;
    }
    let movers = (0..4).map(|number| {
        let queues = fixture.queues.clone();
        let (from, to) = if number % 2 == 0 { ("a", "b") } else { ("b", "a") };
        tokio::spawn(async move {
            let mut moved = 0;
            while moved < MOVES {
                let idle = Some(Instant::now() + Duration::from_secs(2));
                let Some(batch) = queues.pop(of(from, "g", 5), idle).await.expect("a pop") else { break };
                let mut operations = acks(&batch);
                for message in &batch.messages {
                    operations.push(Operation::Push(vec![NewMessage {
                        partition: Some("p".to_owned()),
                        ..NewMessage::new(to, message.payload.clone())
                    }]));
                }
                queues.transaction(operations, &[batch.lease_id.expect("a lease")]).await.expect("committed");
                moved += 1;
            }
        })
    });
    let movers: Vec<_> = movers.collect();
    for number in 0..40 {
        let queue = if number % 2 == 0 { "a" } else { "b" };
        push(&fixture, queue, "p", &[&format!("noise {number}")]).await;
    }
    for mover in movers {
        timeout(PATIENCE, mover).await.expect("in time").expect("no panic");
    }
    let mut left = Vec::new();
    for queue in ["a", "b"] {
        while let Some(batch) = now(&fixture, of(queue, "g", 1_000)).await {
            left.extend(batch.messages.iter().map(|message| message.payload.get().to_owned()));
            end(&fixture, &batch, AckStatus::Completed).await;
        }
    }
    left.sort();
    let mut expected: Vec<String> = (0..40).map(|number| format!("\"noise {number}\"")).collect();
    expected.extend(["\"x\"".to_owned(), "\"y\"".to_owned()]);
    expected.sort();
    assert_eq!(left, expected);
}

/// A transaction must need a single connection, or transactions that hold all of them would wait for each other.
/// A pool of one connection, and a partition that does not exist yet.
#[tokio::test]
async fn one_connection_is_enough() {
    let fixture = Fixture::new().await;
    let one = reveille_pg::Options::default().max_connections(1);
    let database = Database::connect_lazy(fixture.db.url(), one).expect("a pool");
    let queues = Queues::start(&database, fixture.db.schema(), Options::default());
    let done = timeout(PATIENCE, queues.transaction(vec![pushed("new", "p", &["1"])], &[])).await;
    assert_eq!(done.expect("in time").expect("committed").len(), 1);
}
