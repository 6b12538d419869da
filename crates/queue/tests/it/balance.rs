//! How pushes and consumers share the machine.

use reveille_queue::AckStatus::Completed;

use crate::fixture::{Fixture, end, message, now, of};

/// While consumers are behind, push batches must leave them their share of the time; without a backlog they must not.
/// Counts the batches that owe a pause, which does not depend on time: none before the first ack, one after each ack
/// with a backlog, four without another ack, and none after an ack that leaves no backlog.
#[tokio::test]
async fn pushes_are_held_back_while_consumers_are_behind() {
    let queues = Fixture::new().await;
    let push = async |round: usize| {
        let messages = (0..300).map(|number| message("q", "p", &format!("{round}-{number}"))).collect();
        queues.push(messages).await.expect("pushed");
        queues.held_back()
    };
    let consume = async |batch: usize| {
        let batch = now(&queues, of("q", "g", batch)).await.expect("messages");
        end(&queues, &batch, Completed).await;
    };
    assert_eq!((push(0).await, push(1).await), (0, 0), "no message is consumed");
    consume(100).await;
    assert_eq!((push(2).await, push(3).await), (1, 2), "consumers are behind");
    consume(100).await;
    let held_back = [push(4).await, push(5).await, push(6).await, push(7).await, push(8).await];
    assert_eq!(held_back, [3, 4, 5, 6, 6], "there are no consumers");
    consume(10_000).await;
    assert_eq!(push(9).await, 6, "there is no backlog");
}
