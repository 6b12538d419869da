//! The library's own consumer: batches that are acked as a whole, and a handler that is run for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use reveille_pg::testing::eventually;
use reveille_queue::{Error, Message};
use tokio::sync::{Notify, Semaphore, oneshot};

use crate::fixture::{Fixture, now, of, push, soon, transactions};

/// A batch can be failed, released and acked; a retry is charged for the first only, and a second ack of a lease that
/// is over is an error.
#[tokio::test]
async fn a_batch_is_failed_released_and_acked() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2"]).await;
    soon(&queues, of("q", "g", 2)).await.fail("broken").await.expect("failed");
    let batch = soon(&queues, of("q", "g", 2)).await;
    assert_eq!((transactions(&batch), batch.messages[0].retries), (vec!["1", "2"], 1));
    batch.release().await.expect("released");
    let batch = soon(&queues, of("q", "g", 2)).await;
    assert_eq!((transactions(&batch), batch.messages[0].retries), (vec!["1", "2"], 1));
    queues.set("q", "charge_expired_leases = false").await;
    let lease = batch.lease_id.expect("a lease");
    let sql = queues.db.schema().sql("update {schema}.cursor set due_at = now() where lease_id = $1");
    sqlx::query(&sql).bind(lease).execute(queues.db.database().pool()).await.expect("expired");
    let again = soon(&queues, of("q", "g", 2)).await;
    assert!(matches!(batch.ack().await, Err(Error::AckRejected(_))), "another consumer has the messages");
    again.ack().await.expect("acked");
    assert!(now(&queues, of("q", "g", 2)).await.is_none(), "everything is acked");
}

/// The messages of a handler that succeeds are acked; those of one that fails or panics are delivered again, charged.
/// The first delivery of `2` fails and the first of `3` panics; the consumer stops when all have succeeded.
#[tokio::test]
async fn a_consumer_acks_on_success_and_redelivers_on_failure() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2", "3"]).await;
    let deliveries: Arc<Mutex<Vec<(String, u32)>>> = Arc::default();
    let done = Arc::new(Notify::new());
    let handler = {
        let (deliveries, done) = (deliveries.clone(), done.clone());
        move |messages: Vec<Message>| {
            let (deliveries, done) = (deliveries.clone(), done.clone());
            async move {
                let message = &messages[0];
                deliveries.lock().push((message.transaction_id.clone(), message.retries));
                match (message.transaction_id.as_str(), message.retries) {
                    ("2", 0) => Err("broken"),
                    ("3", 0) => panic!("as intended"),
                    ("3", _) => {
                        done.notify_one();
                        Ok(())
                    }
                    _ => Ok(()),
                }
            }
        }
    };
    let shutdown = async move { done.notified().await };
    queues.consumer(of("q", "g", 1)).run(shutdown, handler).await.expect("ran");
    let expected = [("1", 0), ("2", 0), ("2", 1), ("3", 0), ("3", 1)].map(|(id, retries)| (id.to_owned(), retries));
    assert_eq!(*deliveries.lock(), expected);
    assert!(now(&queues, of("q", "g", 1)).await.is_none(), "the last message was acked before run returned");
}

/// No more handlers run at the same time than allowed, and shutdown waits for those that do.
/// Four partitions, two handlers, which wait for a permit; the shutdown comes while both run.
#[tokio::test]
async fn a_consumer_bounds_its_handlers_and_waits_for_them_at_shutdown() {
    let queues = Fixture::new().await;
    for partition in ["1", "2", "3", "4"] {
        push(&queues, "q", partition, &["x"]).await;
    }
    let (running, finished) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let gate = Arc::new(Semaphore::new(0));
    let handler = {
        let (running, finished, gate) = (running.clone(), finished.clone(), gate.clone());
        move |_: Vec<Message>| {
            let (running, finished, gate) = (running.clone(), finished.clone(), gate.clone());
            async move {
                running.fetch_add(1, Ordering::SeqCst);
                gate.acquire().await.map_err(|_| "closed")?.forget();
                finished.fetch_add(1, Ordering::SeqCst);
                Ok::<(), &str>(())
            }
        }
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let consumer = queues.consumer(of("q", "g", 1)).concurrency(2);
    let run = tokio::spawn(consumer.run(async { drop(stopped.await) }, handler));
    eventually("two handlers run", async || running.load(Ordering::SeqCst) == 2).await;
    tokio::time::sleep(crate::fixture::SHORT_TIME).await;
    assert_eq!(running.load(Ordering::SeqCst), 2, "not a third");
    stop.send(()).expect("it runs");
    tokio::time::sleep(crate::fixture::SHORT_TIME).await;
    assert!(!run.is_finished(), "it waits for its handlers");
    gate.add_permits(2);
    run.await.expect("no panic").expect("ran");
    assert_eq!((running.load(Ordering::SeqCst), finished.load(Ordering::SeqCst)), (2, 2));
    let left = now(&queues, of("q", "g", 10)).await.expect("the other partitions");
    assert_eq!(left.messages.len(), 1);
}
