//! Consumer groups: lag, seeking, deleting.

use std::time::Duration;

use reveille_queue::{AckError, AckStatus, Pop, Queues, Seek, Source, Subscription};
use time::OffsetDateTime;
use tokio::time::Instant;

use crate::fixture::{Fixture, PATIENCE, end, now, of, push, say, soon, transactions, until_waiting};

/// A time between the messages pushed before and those pushed after.
async fn between(queues: &Fixture) -> OffsetDateTime {
    let clock = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint from pg_sleep(0.005)";
    let micros = queues.count(clock).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000).expect("a time")
}

async fn lag(queues: &Queues, group: &str, queue: &str) -> (u64, u64) {
    let groups = queues.groups(Some(group), Some(queue)).await.expect("listed");
    let [group] = &groups[..] else { panic!("one group: {groups:?}") };
    (group.lag, group.lagging_partitions)
}

/// Lag counts the messages that were pushed and not ended, and their age, also if older messages were removed; a group
/// that has acked all has none.
#[tokio::test]
async fn lag_counts_messages_that_are_not_ended() {
    let queues = Fixture::new().await;
    push(&queues, "q", "a", &["1", "2", "3"]).await;
    push(&queues, "q", "b", &["1"]).await;
    let first = soon(&queues, Pop { source: Source::partition("q", "a"), ..of("q", "g", 2) }).await;
    assert_eq!(lag(&queues, "g", "q").await, (4, 2), "leased messages count");
    end(&queues, &first, AckStatus::Completed).await;
    let groups = queues.groups(None, None).await.expect("listed");
    let [group] = &groups[..] else { panic!("one group: {groups:?}") };
    assert_eq!((group.name.as_str(), group.queue.as_str(), group.subscription), ("g", "q", Subscription::All));
    assert_eq!((group.partitions, group.lag, group.lagging_partitions, group.leases), (2, 2, 2, 0));
    assert!(group.lag_seconds > 0.0 && group.lag_seconds < 60.0, "{group:?}");
    assert!(group.read_at.is_some());
    let behind = queues.lagging(None, Duration::ZERO, 10).await.expect("listed");
    let lags: Vec<_> =
        behind.iter().map(|part| (part.partition.as_str(), part.lag, part.position, part.head)).collect();
    assert_eq!(lags, [("a", 1, 2, 3), ("b", 1, 0, 1)], "longest first");
    assert!(queues.lagging(Some("g"), Duration::from_secs(60), 10).await.expect("listed").is_empty());
    assert!(queues.lagging(None, Duration::MAX, 10).await.expect("listed").is_empty(), "longer than any interval");
    queues.clear("q", Some("b")).await.expect("cleared");
    assert_eq!(lag(&queues, "g", "q").await, (1, 1));
    end(&queues, &soon(&queues, of("q", "g", 9)).await, AckStatus::Completed).await;
    let done = queues.groups(Some("g"), None).await.expect("listed");
    assert_eq!((done[0].lag, done[0].lag_seconds), (0, 0.0));
    assert!(queues.groups(Some("unknown"), None).await.expect("listed").is_empty());
}

/// A group moves to the end and to a time, also backwards, in all partitions or in one; waiting pops are woken by
/// messages that can be read again.
#[tokio::test]
async fn seeking_moves_in_both_directions() {
    let queues = Fixture::new().await;
    for partition in ["a", "b"] {
        push(&queues, "q", partition, &["1"]).await;
    }
    let middle = between(&queues).await;
    for partition in ["a", "b"] {
        push(&queues, "q", partition, &["2"]).await;
    }
    assert_eq!(queues.seek("g", "q", None, Seek::End).await.expect("asked"), None, "the group does not exist");
    end(&queues, &soon(&queues, Pop { partitions: 2, ..of("q", "g", 9) }).await, AckStatus::Completed).await;
    let (batch, moved) = tokio::join!(soon(&queues, of("q", "g", 9)), async {
        until_waiting(&queues, 1).await;
        queues.seek("g", "q", Some("b"), Seek::Time(middle)).await.expect("moved")
    });
    assert_eq!((moved, batch.messages[0].partition.as_str(), transactions(&batch)), (Some(1), "b", vec!["2"]));
    end(&queues, &batch, AckStatus::Completed).await;
    let early = OffsetDateTime::UNIX_EPOCH;
    assert_eq!(queues.seek("g", "q", None, Seek::Time(early)).await.expect("moved"), Some(2));
    let all = soon(&queues, Pop { partitions: 2, ..of("q", "g", 9) }).await;
    assert_eq!(transactions(&all), ["1", "2", "1", "2"]);
    assert_eq!(queues.seek("g", "q", None, Seek::End).await.expect("moved"), Some(2));
    assert!(now(&queues, of("q", "g", 9)).await.is_none());
    push(&queues, "q", "a", &["3"]).await;
    assert_eq!(transactions(&soon(&queues, of("q", "g", 9)).await), ["3"]);
}

/// A seek ends the leases of its group: acks are rejected, and the messages are delivered again.
#[tokio::test]
async fn a_seek_ends_leases() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2"]).await;
    let lost = soon(&queues, of("q", "g", 2)).await;
    queues.seek("g", "q", None, Seek::Time(OffsetDateTime::UNIX_EPOCH)).await.expect("moved");
    let again = soon(&queues, of("q", "g", 2)).await;
    assert_eq!(transactions(&again), ["1", "2"]);
    let late = queues.ack(say(&lost, &lost.messages, AckStatus::Completed)).await.expect("answered");
    assert!(late.iter().all(|acked| matches!(acked.outcome, Err(AckError::LeaseOver | AckError::NotDelivered))));
    end(&queues, &again, AckStatus::Completed).await;
}

/// While consumers read and producers push, a group is moved to the beginning repeatedly; then it must read every
/// message once more, in order.
#[tokio::test(flavor = "multi_thread")]
async fn seeking_while_consumers_read() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["first"]).await;
    end(&queues, &soon(&queues, of("q", "g", 1)).await, AckStatus::Completed).await;
    let producer = tokio::spawn({
        let queues = queues.queues.clone();
        async move {
            for number in 0..100 {
                push(&queues, "q", "p", &[&number.to_string()]).await;
            }
        }
    });
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let queues = queues.queues.clone();
            tokio::spawn(async move {
                let until = Instant::now() + Duration::from_secs(2);
                while let Some(batch) = queues.pop(of("q", "g", 7), Some(until)).await.expect("a pop") {
                    queues.ack(say(&batch, &batch.messages, AckStatus::Completed)).await.expect("answered");
                }
            })
        })
        .collect();
    for turn in 0..30 {
        let to = if turn % 3 == 0 { Seek::End } else { Seek::Time(OffsetDateTime::UNIX_EPOCH) };
        queues.seek("g", "q", None, to).await.expect("moved");
        tokio::time::sleep(Duration::from_millis(fastrand::u64(1..20))).await;
    }
    for task in readers.into_iter().chain([producer]) {
        tokio::time::timeout(PATIENCE, task).await.expect("in time").expect("no panic");
    }
    queues.seek("g", "q", None, Seek::Time(OffsetDateTime::UNIX_EPOCH)).await.expect("moved");
    let mut read = Vec::new();
    while read.len() < 101 {
        let batch = soon(&queues, of("q", "g", 30)).await;
        read.extend(batch.messages.iter().map(|message| message.offset));
        end(&queues, &batch, AckStatus::Completed).await;
    }
    assert_eq!(read, (0..101).collect::<Vec<i64>>());
    assert_eq!(lag(&queues, "g", "q").await, (0, 0));
}

/// A group is deleted in all its queues or in one, and a later pop reads from the beginning; so does a waiting pop.
#[tokio::test]
async fn a_deleted_group_starts_again() {
    let queues = Fixture::new().await;
    for queue in ["q", "r"] {
        push(&queues, queue, "p", &["1"]).await;
        end(&queues, &soon(&queues, of(queue, "g", 1)).await, AckStatus::Completed).await;
        end(&queues, &soon(&queues, of(queue, "other", 1)).await, AckStatus::Completed).await;
    }
    assert_eq!(queues.delete_group("unknown", None, false).await.expect("asked"), 0);
    assert_eq!(queues.delete_group("g", Some("r"), false).await.expect("deleted"), 1);
    assert!(now(&queues, of("q", "g", 1)).await.is_none(), "deleted in r only");
    let (batch, gone) = tokio::join!(soon(&queues, of("q", "g", 1)), async {
        until_waiting(&queues, 1).await;
        queues.delete_group("g", None, false).await.expect("deleted")
    });
    assert_eq!((gone, transactions(&batch)), (1, vec!["1"]));
    assert_eq!(transactions(&soon(&queues, of("r", "g", 1)).await), ["1"]);
    assert!(now(&queues, of("q", "other", 1)).await.is_none(), "other groups have not moved");
    let orphans = "select count(*) from {schema}.cursor c where not exists (select from {schema}.consumer k where k.id = c.consumer_id)";
    assert_eq!(queues.count(orphans).await, 0);
}

/// A group that keeps its subscription starts again at its position, which can be changed.
#[tokio::test]
async fn a_subscription_may_outlive_the_cursors() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1"]).await;
    let new = Pop { subscription: Subscription::New, ..of("q", "g", 9) };
    assert!(now(&queues, new.clone()).await.is_none());
    push(&queues, "q", "p", &["2"]).await;
    end(&queues, &soon(&queues, new.clone()).await, AckStatus::Completed).await;
    assert_eq!(queues.delete_group("g", Some("q"), true).await.expect("reset"), 1);
    let again = soon(&queues, new.clone()).await;
    assert_eq!(transactions(&again), ["2"]);
    end(&queues, &again, AckStatus::Completed).await;
    let middle = between(&queues).await;
    push(&queues, "q", "p", &["3"]).await;
    assert_eq!(queues.resubscribe("g", middle).await.expect("changed"), 1);
    assert_eq!(queues.resubscribe("unknown", middle).await.expect("asked"), 0);
    queues.delete_group("g", None, true).await.expect("reset");
    assert_eq!(transactions(&soon(&queues, new).await), ["3"]);
    let group = queues.groups(Some("g"), None).await.expect("listed").remove(0);
    assert_eq!(group.subscription, Subscription::Since(middle));
}

/// Groups are deleted while consumers read for them and partitions are created: no error, no cursor without a group,
/// and the group reads all messages in the end.
#[tokio::test(flavor = "multi_thread")]
async fn deleting_groups_while_consumers_read() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["first"]).await;
    let producer = tokio::spawn({
        let queues = queues.queues.clone();
        async move {
            for number in 0..60 {
                push(&queues, "q", &format!("p{}", number % 20), &[&number.to_string()]).await;
            }
        }
    });
    let reader = tokio::spawn({
        let queues = queues.queues.clone();
        async move {
            let until = Instant::now() + Duration::from_secs(2);
            while let Some(batch) =
                queues.pop(Pop { partitions: 5, ..of("q", "g", 20) }, Some(until)).await.expect("a pop")
            {
                queues.ack(say(&batch, &batch.messages, AckStatus::DeadLetter)).await.expect("answered");
            }
        }
    });
    for _ in 0..30 {
        queues.delete_group("g", None, false).await.expect("deleted");
        tokio::time::sleep(Duration::from_millis(fastrand::u64(1..20))).await;
    }
    for task in [producer, reader] {
        tokio::time::timeout(PATIENCE, task).await.expect("in time").expect("no panic");
    }
    let orphans = "select count(*) from {schema}.cursor c where not exists (select from {schema}.consumer k where k.id = c.consumer_id)";
    assert_eq!(queues.count(orphans).await, 0);
    queues.delete_group("g", None, false).await.expect("deleted");
    let all = soon(&queues, Pop { partitions: 100, ..of("q", "g", 100) }).await;
    assert_eq!(all.messages.len(), 61);
}
