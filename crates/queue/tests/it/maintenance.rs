//! Maintenance mode: no message is lost or overtaken, and waiters are woken at its end.

use std::collections::HashMap;
use std::time::Duration;

use reveille_queue::PushStatus::{Buffered, Duplicate, Queued};
use reveille_queue::{AckStatus, Change, Error, Options, Pop};

use crate::fixture::{
    Elsewhere, Fixture, PATIENCE, end, message, now, of, push, soon, statuses, transactions, until_waiting,
};

/// During maintenance of pushes every process buffers messages; its end pushes them in order, once each, and wakes the
/// pops that wait for them.
#[tokio::test]
async fn buffered_messages_are_pushed_when_maintenance_ends() {
    let here = Fixture::new().await;
    let there = Elsewhere::start(&here.db).await;
    push(&here, "q", "p", &["1"]).await;
    end(&here, &soon(&here, of("q", "g", 9)).await, AckStatus::Completed).await;
    here.set_push_maintenance(true).await.expect("switched");
    assert_eq!(statuses(&push(&here, "q", "p", &["2", "3"]).await), [Buffered, Buffered]);
    assert_eq!(statuses(&push(&there.queues, "q", "p", &["4", "3", "1"]).await), [Buffered, Buffered, Buffered]);
    assert_eq!(statuses(&push(&there.queues, "new", "p", &["5"]).await), [Buffered]);
    let state = here.maintenance().await.expect("asked");
    assert_eq!((state.push, state.pop, state.buffered), (true, false, 6));
    assert!(state.buffered_bytes >= 18 && state.oldest_at.is_some(), "{state:?}");
    assert!(now(&here, of("q", "g", 9)).await.is_none());
    let (batch, ended) = tokio::join!(soon(&here, of("q", "g", 9)), there.queues.set_push_maintenance(false));
    ended.expect("drained");
    assert_eq!(transactions(&batch), ["2", "3", "4"]);
    assert_eq!(transactions(&soon(&here, of("new", "g", 9)).await), ["5"]);
    let state = here.maintenance().await.expect("asked");
    assert_eq!((state.push, state.buffered, state.oldest_at), (false, 0, None));
    assert_eq!(statuses(&push(&here, "q", "p", &["4", "6"]).await), [Duplicate, Queued]);
    here.set_push_maintenance(false).await.expect("no messages to push");
}

/// Producers of two processes push while maintenance begins and ends repeatedly: every message is delivered once, each
/// producer's in order.
#[tokio::test(flavor = "multi_thread")]
async fn draining_while_producers_push() {
    const EACH: usize = 120;
    let here = Fixture::new().await;
    let there = Elsewhere::start(&here.db).await;
    let producers: Vec<_> = (0..4)
        .map(|producer| {
            let queues = if producer % 2 == 0 { here.queues.clone() } else { there.queues.clone() };
            tokio::spawn(async move {
                let mut kept = 0;
                for number in 0..EACH {
                    let name = format!("{producer}:{number}");
                    let partition = format!("p{}", producer % 3);
                    let pushed = queues.push(vec![message("q", &partition, &name)]).await.expect("pushed");
                    assert!([Queued, Buffered].contains(&pushed[0].status), "{pushed:?}");
                    kept += usize::from(pushed[0].status == Buffered);
                }
                kept
            })
        })
        .collect();
    let switcher = tokio::spawn({
        let queues = there.queues.clone();
        async move {
            for _ in 0..12 {
                queues.set_push_maintenance(true).await.expect("switched");
                tokio::time::sleep(Duration::from_millis(fastrand::u64(5..40))).await;
                queues.set_push_maintenance(false).await.expect("drained");
                tokio::time::sleep(Duration::from_millis(fastrand::u64(1..20))).await;
            }
        }
    });
    let mut kept = 0;
    for producer in producers {
        kept += tokio::time::timeout(PATIENCE, producer).await.expect("in time").expect("no panic");
    }
    tokio::time::timeout(PATIENCE, switcher).await.expect("in time").expect("no panic");
    assert!(kept > 0, "some were buffered");
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut read = 0;
    while let Some(batch) = now(&here, Pop { auto_ack: true, partitions: 3, ..of("q", "g", 1_000) }).await {
        read += batch.messages.len();
        for message in batch.messages {
            let (producer, number) = message.transaction_id.split_once(':').expect("producer and number");
            let expected = numbers.entry(producer.to_owned()).or_default();
            assert_eq!(number, expected.to_string(), "of {producer}");
            *expected += 1;
        }
    }
    assert_eq!(read, 4 * EACH);
}

/// Two processes drain several steps at once; a queue that is full by now accepts messages that were buffered before.
#[tokio::test(flavor = "multi_thread")]
async fn two_processes_drain_into_a_full_queue() {
    let here = Fixture::new().await;
    let there = Elsewhere::start(&here.db).await;
    let change = Change { max_size: Some(1), ..Change::default() };
    here.configure("q", None, None, &change).await.expect("configured");
    here.set_push_maintenance(true).await.expect("switched");
    let names: Vec<String> = (0..1_200).map(|n| n.to_string()).collect();
    for few in names.chunks(300) {
        push(&here, "q", "p", &few.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    let (one, other) = tokio::join!(here.set_push_maintenance(false), there.queues.set_push_maintenance(false));
    one.and(other).expect("drained");
    let batch = soon(&here, of("q", "g", 2_000)).await;
    assert_eq!(transactions(&batch), names);
    assert_eq!(here.maintenance().await.expect("asked").buffered, 0);
}

/// A queue that was set to encryption during maintenance gets buffered messages encrypted; a process without the key
/// drains and loses none.
#[tokio::test]
async fn buffered_messages_are_encrypted_if_their_queue_is() {
    let key = Options::default().encryption_keys(vec![[5; 32]]);
    let queues = Fixture::with(key).await;
    let keyless = Elsewhere::start(&queues.db).await;
    queues.set_push_maintenance(true).await.expect("switched");
    push(&queues, "q", "p", &["1", "2"]).await;
    let sealed = Change { encryption_enabled: Some(true), ..Change::default() };
    queues.configure("q", None, None, &sealed).await.expect("configured");
    push(&queues, "q", "p", &["3"]).await;
    assert!(matches!(keyless.queues.set_push_maintenance(false).await, Err(Error::NoKey { .. })));
    let state = queues.maintenance().await.expect("asked");
    assert_eq!((state.push, state.buffered), (true, 3));
    queues.set_push_maintenance(false).await.expect("drained");
    let batch = soon(&queues, of("q", "g", 9)).await;
    let payloads: Vec<&str> = batch.messages.iter().map(|message| message.payload.get()).collect();
    assert_eq!(payloads, ["\"1\"", "\"2\"", "\"3\""]);
    assert_eq!(queues.count("select count(*) from {schema}.segment where not encrypted").await, 0);
}

/// The buffered messages of a deleted queue are deleted with it; a push in a transaction is rejected during
/// maintenance.
#[tokio::test]
async fn maintenance_with_deleted_queues_and_transactions() {
    let queues = Fixture::new().await;
    queues.set_push_maintenance(true).await.expect("switched");
    push(&queues, "gone", "p", &["1"]).await;
    push(&queues, "q", "p", &["2"]).await;
    queues.delete_queue("gone").await.expect("deleted");
    let mut tx = queues.db.database().begin().await.expect("a transaction");
    let refused = queues.push_in(&mut tx, vec![message("q", "p", "3")]).await;
    assert!(matches!(refused, Err(Error::RolledBack { .. })), "{refused:?}");
    tx.rollback().await.expect("rolled back");
    queues.set_push_maintenance(false).await.expect("drained");
    assert!(now(&queues, of("gone", "g", 1)).await.is_none());
    assert_eq!(transactions(&soon(&queues, of("q", "g", 9)).await), ["2"]);
}

/// During maintenance of pops no pop gets a message; its end wakes waiting pops in every process.
#[tokio::test]
async fn pops_wait_for_the_end_of_maintenance() {
    let here = Fixture::new().await;
    let there = Elsewhere::start(&here.db).await;
    push(&here, "q", "p", &["1"]).await;
    here.set_pop_maintenance(true).await.expect("switched");
    assert!(here.maintenance().await.expect("asked").pop);
    assert!(now(&here, of("q", "g", 1)).await.is_none());
    let (batch, ()) = tokio::join!(soon(&there.queues, of("q", "g", 1)), async {
        until_waiting(&there.queues, 1).await;
        push(&here, "q", "p", &["2"]).await;
        here.set_pop_maintenance(false).await.expect("switched");
    });
    assert_eq!(transactions(&batch), ["1"]);
}
