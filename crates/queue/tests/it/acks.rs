//! What becomes of messages.

use std::time::Duration;

use reveille_queue::{Ack, AckRefusal, AckStatus, Pop};
use tokio::time::Instant;

use crate::fixture::{Elsewhere, Fixture, end, message, now, of, push, say, soon, transactions};

fn outcomes(acked: &[reveille_queue::Acked]) -> Vec<Result<(), AckRefusal>> {
    acked.iter().map(|acked| acked.outcome).collect()
}

/// An ack ends all messages before it; the rest stays leased until it is ended too.
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
    assert_eq!(outcomes(&late), [Ok(())], "it was covered");
    let last = queues.ack(say(&batch, &batch.messages[2..], AckStatus::Completed)).await.expect("acked");
    assert_eq!((outcomes(&last), last[0].lease_released), (vec![Ok(())], true));
    assert!(now(&queues, of("q", "g", 3)).await.is_none(), "everything is done");
}

/// Within one call a later completed message never skips an earlier failed one, whatever order they are named in.
#[tokio::test]
async fn nothing_is_skipped_behind_a_failure() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2", "3", "4"]).await;
    let batch = now(&queues, of("q", "g", 4)).await.expect("messages");
    let mut acks = say(&batch, &batch.messages, AckStatus::Completed);
    acks[1].status = AckStatus::Failed;
    acks.reverse();
    let acked = queues.ack(acks).await.expect("acked");
    let behind = Err(AckRefusal::BehindFailure);
    assert_eq!(outcomes(&acked), [behind, behind, Ok(()), Ok(())]);
    assert!(acked[3].lease_released);
    let again = soon(&queues, of("q", "g", 4)).await;
    assert_eq!((transactions(&again), again.messages[0].retries), (vec!["2", "3", "4"], 1));
}

/// A message that fails once more than the queue's limit goes to the dead letters with all it had, and the next comes.
#[tokio::test]
async fn who_fails_too_often_is_a_dead_letter() {
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
    assert_eq!(transactions(&soon(&queues, of("q", "other", 9)).await), ["bad", "good"], "dead to g only");
}

/// A message may be sent to the dead letters at once, and be asked for again without being charged.
#[tokio::test]
async fn dead_at_once_and_again_for_free() {
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

/// A failed message comes after the queue's `retryDelay`, and wakes who waits for it then.
#[tokio::test]
async fn a_retry_waits_for_its_delay() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1"]).await;
    queues.set("q", "retry_delay_ms = 1000").await;
    end(&queues, &soon(&queues, of("q", "g", 1)).await, AckStatus::Failed).await;
    let since = Instant::now();
    assert!(now(&queues, of("q", "g", 1)).await.is_none());
    soon(&queues, of("q", "g", 1)).await;
    let waited = since.elapsed();
    assert!(waited > Duration::from_millis(900) && waited < Duration::from_secs(20), "{waited:?}");
}

/// An ack under a lease that is over changes nothing and says so; one that was heard before is heard again.
#[tokio::test]
async fn acks_are_fenced_and_may_be_repeated() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2", "3"]).await;
    queues.set("q", "charge_expired_leases = false").await;
    let short = Pop { lease: Some(Duration::from_millis(50)), ..of("q", "g", 2) };
    let lost = now(&queues, short).await.expect("messages");
    let held = soon(&queues, of("q", "g", 2)).await;
    assert_eq!(transactions(&held), ["1", "2"]);
    let over = Err(AckRefusal::LeaseOver);
    let say_lost = || say(&lost, &lost.messages, AckStatus::Completed);
    let unheard = queues.ack(say_lost()).await.expect("answered");
    assert_eq!(outcomes(&unheard).iter().filter(|outcome| outcome.is_ok()).count(), 0, "{unheard:?}");
    end(&queues, &held, AckStatus::Completed).await;
    end(&queues, &held, AckStatus::Completed).await;
    assert_eq!(outcomes(&queues.ack(say_lost()).await.expect("answered")), [over, over]);
    let third = soon(&queues, of("q", "g", 2)).await;
    assert_eq!(transactions(&third), ["3"]);
}

/// What cannot be acked is told apart: no such partition, no such group, a message that was not delivered.
#[tokio::test]
async fn refusals_say_why() {
    let queues = Fixture::new().await;
    let others = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2"]).await;
    let foreign = push(&others, "q", "p", &["1"]).await[0].partition_id;
    let batch = now(&queues, of("q", "g", 1)).await.expect("a message");
    let ack = say(&batch, &batch.messages, AckStatus::Completed).remove(0);
    let acks = vec![
        Ack { partition_id: foreign, ..ack.clone() },
        Ack { group: Some("nobody".to_owned()), lease_id: None, ..ack.clone() },
        Ack { transaction_id: "2".to_owned(), ..ack.clone() },
        Ack { transaction_id: "unknown".to_owned(), ..ack.clone() },
        Ack { group: None, ..ack },
    ];
    let acked = queues.ack(acks).await.expect("answered");
    let expected = [
        Err(AckRefusal::NoPartition),
        Err(AckRefusal::NoGroup),
        Err(AckRefusal::NotDelivered),
        Err(AckRefusal::NotDelivered),
        Ok(()),
    ];
    assert_eq!(outcomes(&acked), expected, "the last is known by its lease");
}

/// Pushes and acks in the caller's transaction happen with it, or not at all; and they ring with it.
#[tokio::test]
async fn in_the_callers_transaction() {
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

/// An ack must count the same in a process that did not give the lease out, and after everything of it was forgotten.
/// Two leases of two partitions, acked elsewhere: one as a whole, one in two steps.
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
    // What is known here of the lease is older than that, and right all the same.
    assert!(end(&queues, &parted, AckStatus::Completed).await[1].lease_released);
    // Once more, as if the answer had been lost.
    end(&queues, &whole, AckStatus::Completed).await;
    let rest = soon(&queues, of("q", "g", 9)).await;
    assert_eq!(transactions(&rest), ["3"]);
    assert!(now(&queues, of("q", "g", 9)).await.is_none());
}

/// A lease that ended and was given to somebody else must not be ended by who had it, though it is remembered.
/// A short lease ends; the same messages are popped again; the first holder acks all of it.
#[tokio::test]
async fn a_remembered_lease_that_is_somebody_elses_is_over() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2"]).await;
    let short = Pop { lease: Some(Duration::from_millis(1)), ..of("q", "g", 2) };
    let late = soon(&queues, short).await;
    let next = soon(&queues, of("q", "g", 2)).await;
    let refused = queues.ack(say(&late, &late.messages, AckStatus::Completed)).await.expect("answered");
    assert!(refused.iter().all(|acked| acked.outcome == Err(AckRefusal::LeaseOver)), "{refused:?}");
    end(&queues, &next, AckStatus::Completed).await;
}

/// An ack that is repeated because its answer was lost must count again, whatever has become of the lease since, and also if it says nothing of the group.
/// A part of a lease is acked, of segments of their own, then the lease ends and another begins; a whole lease is acked twice without its group; a lease that never was
/// is over. What is done cannot fail.
#[tokio::test]
async fn a_repeated_ack_counts_again() {
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
    assert_eq!(outcomes(&failed), [Err(AckRefusal::NotDelivered)]);
    let second = soon(&queues, of("q", "g", 2)).await;
    assert_eq!(transactions(&second), ["2"]);
    for said in [
        say(&first, &first.messages, AckStatus::Completed),
        anonymous(say(&first, &first.messages, AckStatus::Completed)),
    ] {
        let late = queues.ack(said).await.expect("answered");
        assert_eq!(outcomes(&late), [Ok(()), Err(AckRefusal::LeaseOver)], "what counted counts");
    }
    for server in [&queues.queues, &queues.queues, &elsewhere.queues] {
        let said = anonymous(say(&second, &second.messages, AckStatus::Completed));
        assert_eq!(outcomes(&server.ack(said).await.expect("acked")), [Ok(())]);
    }
    let mut unknown = anonymous(say(&second, &second.messages, AckStatus::Completed));
    unknown[0].lease_id = Some(uuid::Uuid::new_v4());
    assert_eq!(outcomes(&queues.ack(unknown).await.expect("answered")), [Err(AckRefusal::LeaseOver)]);
}

/// An ack that changes nothing must not touch a cursor that has read everything: a push in the same moment would miss it, and nobody would be told.
/// Such an ack waits behind the push's lock if it wants to write; it is answered before the push commits, and the message comes.
#[tokio::test]
async fn an_ack_that_changes_nothing_lets_a_push_through() {
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

/// A failure that is said again because its answer was lost must count once, and be answered as it was the first time.
/// The same failed ack twice under its lease; then the lease is somebody else's.
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
    assert_eq!(outcomes(&late), [Err(AckRefusal::LeaseOver)]);
}
