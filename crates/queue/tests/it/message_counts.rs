//! The counters of a process: every message counts once for each outcome, by any route.

use std::time::Duration;

use reveille_queue::{AckStatus, Change, GroupCounts, MessageCounts, Operation, Pop, Queues, Source};

use crate::fixture::{Elsewhere, Fixture, end, message, now, of, push, say, soon};

fn pushed(queues: &Queues, queue: &str) -> u64 {
    let MessageCounts { queues, .. } = queues.message_counts(10);
    queues.iter().find(|one| one.queue.as_deref() == Some(queue)).map_or(0, |one| one.pushed)
}

fn moved(queues: &Queues, queue: &str, group: &str) -> GroupCounts {
    let (wanted, MessageCounts { groups, .. }) = ((queue.to_owned(), group.to_owned()), queues.message_counts(10));
    groups.iter().find(|one| one.group.as_ref() == Some(&wanted)).map(|one| one.counts).unwrap_or_default()
}

/// A push counts the messages that it stored, by itself, in a transaction, or from the maintenance buffer; duplicates
/// and rolled-back messages do not count. The same message is pushed twice, and a transaction fails because of its ack.
#[tokio::test]
async fn a_push_counts_once_for_each_message_that_is_stored() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2", "2"]).await;
    push(&queues, "q", "p", &["1", "3"]).await;
    assert_eq!(pushed(&queues, "q"), 3);

    queues.transaction(vec![Operation::Push(vec![message("q", "p", "4")])], &[]).await.expect("committed");
    assert_eq!(pushed(&queues, "q"), 4);
    let batch = soon(&queues, of("q", "g", 1)).await;
    let mut ack = say(&batch, &batch.messages, AckStatus::Completed).remove(0);
    ack.transaction_id = "unknown".to_owned();
    let operations = vec![Operation::Push(vec![message("q", "p", "5")]), Operation::Ack(ack)];
    queues.transaction(operations, &[]).await.expect_err("rolled back");
    assert_eq!((pushed(&queues, "q"), moved(&queues, "q", "g").acked), (4, 0));

    queues.set_push_maintenance(true).await.expect("maintenance");
    push(&queues, "q", "p", &["6"]).await;
    assert_eq!(pushed(&queues, "q"), 4);
    queues.set_push_maintenance(false).await.expect("its end");
    assert_eq!(pushed(&queues, "q"), 5);
}

/// An ack ends the messages before it, and each of them is counted once: acks of the last message alone, of some and
/// then the rest, repeated acks, acks in a transaction, and `autoAck`.
/// Each way reads two or more messages of a queue of its own.
#[tokio::test]
async fn an_ack_counts_every_message_that_it_ends() {
    let queues = Fixture::new().await;
    for queue in ["last", "some", "within", "auto"] {
        push(&queues, queue, "p", &["1", "2", "3", "4"]).await;
    }
    let all = GroupCounts { delivered: 4, acked: 4, ..GroupCounts::default() };

    let batch = soon(&queues, of("last", "g", 4)).await;
    let last = || say(&batch, &batch.messages[3..], AckStatus::Completed);
    queues.ack(last()).await.expect("acked");
    assert_eq!(moved(&queues, "last", "g"), all);
    queues.ack(last()).await.expect("acked again");
    assert_eq!(moved(&queues, "last", "g"), all);

    let batch = soon(&queues, of("some", "g", 4)).await;
    queues.ack(say(&batch, &batch.messages[1..2], AckStatus::Completed)).await.expect("acked");
    assert_eq!(moved(&queues, "some", "g").acked, 2);
    end(&queues, &batch, AckStatus::Completed).await;
    assert_eq!(moved(&queues, "some", "g"), all);

    let batch = soon(&queues, of("within", "g", 4)).await;
    let acks = say(&batch, &batch.messages[3..], AckStatus::Completed);
    queues.transaction(acks.into_iter().map(Operation::Ack).collect(), &[]).await.expect("committed");
    assert_eq!(moved(&queues, "within", "g"), all);

    soon(&queues, Pop { auto_ack: true, ..of("auto", "g", 4) }).await;
    assert_eq!(moved(&queues, "auto", "g"), all);
}

/// A failed message counts as failed while it is redelivered, and as a dead letter when it is not; so does one whose
/// leases expire, by either way to claim it.
/// One message fails up to the limit, one becomes a dead letter at once, and one is never acked: by any partition of
/// the queue, and by one partition.
#[tokio::test]
async fn failures_and_dead_letters_are_counted() {
    let queues = Fixture::new().await;
    let limit = Change { retry_limit: Some(1), ..Change::default() };
    queues.configure("q", None, None, &limit).await.expect("configured");
    push(&queues, "q", "p", &["1", "2", "3"]).await;
    end(&queues, &soon(&queues, of("q", "g", 1)).await, AckStatus::Failed).await;
    assert_eq!(moved(&queues, "q", "g"), GroupCounts { delivered: 1, failed: 1, ..GroupCounts::default() });
    end(&queues, &soon(&queues, of("q", "g", 1)).await, AckStatus::Failed).await;
    assert_eq!(
        moved(&queues, "q", "g"),
        GroupCounts { delivered: 2, failed: 1, dead_lettered: 1, ..GroupCounts::default() }
    );
    end(&queues, &soon(&queues, of("q", "g", 1)).await, AckStatus::DeadLetter).await;
    assert_eq!(moved(&queues, "q", "g").dead_lettered, 2);

    for (group, source) in [("any", Source::queue("q")), ("one", Source::partition("q", "p"))] {
        let short = || Pop { source: source.clone(), lease: Some(Duration::from_millis(1)), ..of("q", group, 1) };
        for _ in 0..3 {
            soon(&queues, short()).await;
        }
        assert_eq!(
            moved(&queues, "q", group),
            GroupCounts { delivered: 3, dead_lettered: 1, ..GroupCounts::default() }
        );
    }
}

/// Each process counts the messages that it handled, also if another granted the lease; an empty pop is not counted.
/// One process pops, the other acks each message.
#[tokio::test]
async fn a_process_counts_the_messages_it_handled() {
    let queues = Fixture::new().await;
    let elsewhere = Elsewhere::start(&queues.db).await;
    push(&queues, "q", "p", &["1", "2"]).await;
    let batch = soon(&queues, of("q", "g", 2)).await;
    end(&elsewhere.queues, &batch, AckStatus::Completed).await;
    assert!(now(&queues, of("q", "g", 2)).await.is_none());
    assert_eq!(moved(&queues, "q", "g"), GroupCounts { delivered: 2, ..GroupCounts::default() });
    assert_eq!(moved(&elsewhere.queues, "q", "g"), GroupCounts { acked: 2, ..GroupCounts::default() });
    assert_eq!((pushed(&queues, "q"), pushed(&elsewhere.queues, "q")), (2, 0));
}
