//! Acks: the outcome of each message.

use std::time::Duration;

use reveille_queue::{Ack, AckError, AckStatus, Pop};
use tokio::time::Instant;

use crate::fixture::{Elsewhere, Fixture, end, message, now, of, push, say, soon, transactions};

fn outcomes(acked: &[reveille_queue::Acked]) -> Vec<Result<(), AckError>> {
    acked.iter().map(|acked| acked.outcome).collect()
}

/// An ack ends all messages before it; the rest stays leased until it is acked.
#[tokio::test]
async fn an_ack_is_cumulative() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2", "3"]).await;
    let batch = now(&queues, of("q", "g", 3)).await.expect("messages");
    let acked = queues.ack(say(&batch, &batch.messages[1..2], AckStatus::Completed)).await.expect("acked");
    assert_eq!((outcomes(&acked), acked[0].lease_released), (vec![Ok(())], false));
    assert_eq!((acked[0].queue.as_deref(), acked[0].partition.as_deref()), (Some("q"), Some("p")));
    assert!(now(&queues, of("q", "g", 3)).await.is_none(), "still leased");
    let late = queues.ack(say(&batch, &batch.messages[..1], AckStatus::Completed)).await.expect("acked");
    assert_eq!(outcomes(&late), [Ok(())], "it was acked already");
    let last = queues.ack(say(&batch, &batch.messages[2..], AckStatus::Completed)).await.expect("acked");
    assert_eq!((outcomes(&last), last[0].lease_released), (vec![Ok(())], true));
    assert!(now(&queues, of("q", "g", 3)).await.is_none(), "everything is done");
}

/// Within one call a completed message never skips an earlier failed one, whatever the order of the acks.
#[tokio::test]
async fn no_message_is_skipped_after_a_failure() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2", "3", "4"]).await;
    let batch = now(&queues, of("q", "g", 4)).await.expect("messages");
    let mut acks = say(&batch, &batch.messages, AckStatus::Completed);
    acks[1].status = AckStatus::Failed;
    acks.reverse();
    let acked = queues.ack(acks).await.expect("acked");
    let behind = Err(AckError::BehindFailure);
    assert_eq!(outcomes(&acked), [behind, behind, Ok(()), Ok(())]);
    assert!(acked[3].lease_released);
    let again = soon(&queues, of("q", "g", 4)).await;
    assert_eq!((transactions(&again), again.messages[0].retries), (vec!["2", "3", "4"], 1));
}

/// A message that fails once more than the queue's limit becomes a dead letter with all its fields, and the next is
/// delivered.
#[tokio::test]
async fn a_message_beyond_the_retry_limit_is_a_dead_letter() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["bad", "good"]).await;
    queues.set("q", "retry_limit = 2").await;
    for delivery in 0..3 {
        let batch = soon(&queues, of("q", "g", 1)).await;
        assert_eq!((transactions(&batch), batch.messages[0].retries), (vec!["bad"], delivery));
        let acked = end(&queues, &batch, AckStatus::Failed).await;
        assert_eq!(acked[0].dead_lettered, delivery == 2);
    }
    let next = soon(&queues, of("q", "g", 1)).await;
    assert_eq!((transactions(&next), next.messages[0].retries), (vec!["good"], 0));
    let dead =
        "select count(*) from {schema}.dead_letter where transaction_id = 'bad' and consumer = 'g' and retries = 2
                and error = 'broken' and convert_from(payload, 'UTF8') = '\"bad\"'";
    assert_eq!(queues.count(dead).await, 1);
    assert_eq!(transactions(&soon(&queues, of("q", "other", 9)).await), ["bad", "good"], "a dead letter of g only");
}

/// A message may become a dead letter at once, and may be retried without a charge.
#[tokio::test]
async fn dead_letters_at_once_and_retries_without_a_charge() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2"]).await;
    let batch = now(&queues, of("q", "g", 2)).await.expect("messages");
    let mut acks = say(&batch, &batch.messages, AckStatus::Retry);
    acks[0].status = AckStatus::DeadLetter;
    let acked = queues.ack(acks).await.expect("acked");
    assert_eq!(acked.iter().map(|acked| acked.dead_lettered).collect::<Vec<_>>(), [true, false]);
    let again = soon(&queues, of("q", "g", 2)).await;
    assert_eq!((transactions(&again), again.messages[0].retries), (vec!["2"], 0));
    assert_eq!(queues.count("select count(*) from {schema}.dead_letter").await, 1);
}

/// A failed message is delivered after the queue's `retryDelay`, to a pop that waits.
#[tokio::test]
async fn a_retry_waits_for_its_delay() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1"]).await;
    queues.set("q", "retry_delay_ms = 1000").await;
    let batch = soon(&queues, of("q", "g", 1)).await;
    let since = Instant::now();
    end(&queues, &batch, AckStatus::Failed).await;
    assert!(now(&queues, of("q", "g", 1)).await.is_none());
    soon(&queues, of("q", "g", 1)).await;
    let waited = since.elapsed();
    assert!(waited >= Duration::from_millis(990) && waited < Duration::from_secs(20), "{waited:?}");
}

/// An ack under an expired lease changes nothing and is rejected; a repeated ack has the same outcome.
#[tokio::test]
async fn acks_are_fenced_and_may_be_repeated() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2", "3"]).await;
    queues.set("q", "charge_expired_leases = false").await;
    let short = Pop { lease: Some(Duration::from_millis(50)), ..of("q", "g", 2) };
    let lost = now(&queues, short).await.expect("messages");
    let held = soon(&queues, of("q", "g", 2)).await;
    assert_eq!(transactions(&held), ["1", "2"]);
    let over = Err(AckError::LeaseOver);
    let say_lost = || say(&lost, &lost.messages, AckStatus::Completed);
    let unheard = queues.ack(say_lost()).await.expect("answered");
    assert_eq!(outcomes(&unheard).iter().filter(|outcome| outcome.is_ok()).count(), 0, "{unheard:?}");
    end(&queues, &held, AckStatus::Completed).await;
    end(&queues, &held, AckStatus::Completed).await;
    assert_eq!(outcomes(&queues.ack(say_lost()).await.expect("answered")), [over, over]);
    let third = soon(&queues, of("q", "g", 2)).await;
    assert_eq!(transactions(&third), ["3"]);
}

/// Invalid acks have different errors: unknown partition, unknown group, a message that was not delivered.
#[tokio::test]
async fn rejected_acks_have_a_reason() {
    let queues = Fixture::new().await;
    let others = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2"]).await;
    let foreign = push(&others, "q", "p", &["1"]).await[0].partition_id;
    let batch = now(&queues, of("q", "g", 1)).await.expect("a message");
    let ack = say(&batch, &batch.messages, AckStatus::Completed).remove(0);
    let acks = vec![
        Ack { partition_id: foreign, ..ack.clone() },
        Ack { group: Some("unknown".to_owned()), lease_id: None, ..ack.clone() },
        Ack { transaction_id: "2".to_owned(), ..ack.clone() },
        Ack { transaction_id: "unknown".to_owned(), ..ack.clone() },
        Ack { group: None, ..ack },
    ];
    let acked = queues.ack(acks).await.expect("answered");
    let expected = [
        Err(AckError::NoPartition),
        Err(AckError::NoGroup),
        Err(AckError::NotDelivered),
        Err(AckError::NotDelivered),
        Ok(()),
    ];
    assert_eq!(outcomes(&acked), expected, "the last is identified by its lease");
}

/// Pushes and acks in the caller's transaction take effect at its commit, or not at all, and wake waiters then.
#[tokio::test]
async fn pushes_and_acks_in_the_callers_transaction() {
    let queues = Fixture::new().await;
    push(&queues, "in", "p", &["1"]).await;
    let pool = queues.db.database().pool().clone();
    for commits in [false, true] {
        let batch = soon(&queues, of("in", "g", 1)).await;
        let mut tx = pool.begin().await.expect("a transaction");
        let acked = queues.ack_in(&mut tx, &say(&batch, &batch.messages, AckStatus::Completed)).await.expect("acked");
        assert_eq!(outcomes(&acked), [Ok(())]);
        queues.push_in(&mut tx, vec![message("out", "p", "done")]).await.expect("pushed");
        assert!(now(&queues, of("out", "g", 1)).await.is_none(), "not yet");
        if commits {
            let (woken, ()) = tokio::join!(soon(&queues, of("out", "g", 1)), async {
                tx.commit().await.expect("committed");
            });
            assert_eq!(transactions(&woken), ["done"]);
            assert!(now(&queues, of("in", "g", 1)).await.is_none(), "acked");
        } else {
            tx.rollback().await.expect("rolled back");
            end(&queues, &batch, AckStatus::Retry).await;
        }
    }
    assert_eq!(
        crate::fixture::statuses(&push(&queues, "out", "p", &["done"]).await),
        [reveille_queue::PushStatus::Duplicate]
    );
}

/// An ack has the same effect in a process that did not grant the lease, and after the lease cache was dropped.
/// Two leases of two partitions, acked in another process: one as a whole, one in two steps.
#[tokio::test]
async fn an_ack_counts_in_any_process() {
    let queues = Fixture::new().await;
    let elsewhere = Elsewhere::start(&queues.db).await;
    push(&queues, "q", "p", &["1", "2", "3"]).await;
    push(&queues, "q", "r", &["4", "5"]).await;
    let (whole, parted) = (soon(&queues, of("q", "g", 2)).await, soon(&queues, of("q", "g", 2)).await);
    assert!(end(&elsewhere.queues, &whole, AckStatus::Completed).await.iter().all(|acked| acked.lease_released));
    let first = elsewhere.queues.ack(say(&parted, &parted.messages[..1], AckStatus::Completed)).await.expect("acked");
    assert!(first[0].outcome.is_ok() && !first[0].lease_released);
    // The lease cache of this process is older than that, and still correct.
    assert!(end(&queues, &parted, AckStatus::Completed).await[1].lease_released);
    // Repeated, as after a lost response.
    end(&queues, &whole, AckStatus::Completed).await;
    let rest = soon(&queues, of("q", "g", 9)).await;
    assert_eq!(transactions(&rest), ["3"]);
    assert!(now(&queues, of("q", "g", 9)).await.is_none());
}

/// A lease that expired and was granted to another consumer must not be ended by its first holder, although that
/// process has it in its cache. A short lease expires; the same messages are popped again; the first holder acks all of
/// them.
#[tokio::test]
async fn a_cached_lease_of_another_consumer_is_rejected() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2"]).await;
    let short = Pop { lease: Some(Duration::from_millis(1)), ..of("q", "g", 2) };
    let late = soon(&queues, short).await;
    let next = soon(&queues, of("q", "g", 2)).await;
    let refused = queues.ack(say(&late, &late.messages, AckStatus::Completed)).await.expect("answered");
    assert!(refused.iter().all(|acked| acked.outcome == Err(AckError::LeaseOver)), "{refused:?}");
    end(&queues, &next, AckStatus::Completed).await;
}

/// An ack that is repeated after a lost response must have the same outcome, whatever happened to the lease since, and
/// also without a group.
/// A part of a lease is acked, from several segments, then the lease ends and another begins; a whole lease is acked
/// twice without its group; a lease that never existed is rejected. An ended message cannot fail.
#[tokio::test]
async fn a_repeated_ack_has_the_same_outcome() {
    let queues = Fixture::new().await;
    let elsewhere = Elsewhere::start(&queues.db).await;
    push(&queues, "q", "p", &["1"]).await;
    push(&queues, "q", "p", &["2"]).await;
    let anonymous = |mut acks: Vec<Ack>| {
        acks.iter_mut().for_each(|ack| ack.group = None);
        acks
    };
    let short = Pop { lease: Some(Duration::from_secs(1)), ..of("q", "g", 2) };
    let first = soon(&queues, short).await;
    for _ in 0..2 {
        let acked = queues.ack(say(&first, &first.messages[..1], AckStatus::Completed)).await.expect("acked");
        assert_eq!(outcomes(&acked), [Ok(())]);
    }
    let failed = queues.ack(say(&first, &first.messages[..1], AckStatus::Failed)).await.expect("answered");
    assert_eq!(outcomes(&failed), [Err(AckError::NotDelivered)]);
    let second = soon(&queues, of("q", "g", 2)).await;
    assert_eq!(transactions(&second), ["2"]);
    for said in [
        say(&first, &first.messages, AckStatus::Completed),
        anonymous(say(&first, &first.messages, AckStatus::Completed)),
    ] {
        let late = queues.ack(said).await.expect("answered");
        assert_eq!(outcomes(&late), [Ok(()), Err(AckError::LeaseOver)], "an applied ack stays applied");
    }
    for server in [&queues.queues, &queues.queues, &elsewhere.queues] {
        let said = anonymous(say(&second, &second.messages, AckStatus::Completed));
        assert_eq!(outcomes(&server.ack(said).await.expect("acked")), [Ok(())]);
    }
    let mut unknown = anonymous(say(&second, &second.messages, AckStatus::Completed));
    unknown[0].lease_id = Some(uuid::Uuid::new_v4());
    assert_eq!(outcomes(&queues.ack(unknown).await.expect("answered")), [Err(AckError::LeaseOver)]);
}

/// An ack that changes nothing must not write the cursor of a group that has read everything: a concurrent push would
/// miss it, and no waiter would be woken.
/// Such an ack would wait for the push's lock if it wrote; it is answered before the push commits, and the message
/// comes.
#[tokio::test]
async fn an_ack_that_changes_nothing_does_not_wait_for_a_push() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1"]).await;
    let batch = soon(&queues, of("q", "g", 1)).await;
    end(&queues, &batch, AckStatus::Completed).await;
    let version = "select max(version) from {schema}.cursor";
    let before = queues.count(version).await;
    let mut said = say(&batch, &batch.messages, AckStatus::Completed);
    said[0].lease_id = None;
    let acked = queues.ack(said).await.expect("answered");
    assert_eq!((outcomes(&acked), acked[0].lease_released), (vec![Ok(())], false));
    assert_eq!(queues.count(version).await, before);
    push(&queues, "q", "p", &["2"]).await;
    assert_eq!(transactions(&soon(&queues, of("q", "g", 1)).await), ["2"]);
}

/// A failure that is repeated after a lost response must count once, with the same outcome.
/// The same failed ack twice under its lease; then another consumer has the lease.
#[tokio::test]
async fn a_repeated_failure_is_charged_once() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1"]).await;
    let batch = soon(&queues, of("q", "g", 1)).await;
    for _ in 0..2 {
        let acked = queues.ack(say(&batch, &batch.messages, AckStatus::Failed)).await.expect("answered");
        assert_eq!(outcomes(&acked), [Ok(())]);
    }
    let again = soon(&queues, of("q", "g", 1)).await;
    assert_eq!(again.messages[0].retries, 1);
    let late = queues.ack(say(&batch, &batch.messages, AckStatus::Failed)).await.expect("answered");
    assert_eq!(outcomes(&late), [Err(AckError::LeaseOver)]);
}
