//! Creating, configuring, deleting and clearing queues.

use std::time::Duration;

use reveille_pg::testing::eventually;
use reveille_queue::{AckStatus, Change, Error, Options, Pop, PushStatus, Queues, Seek, Source};
use tokio::time::Instant;

use crate::fixture::{
    Elsewhere, Fixture, PATIENCE, end, message, now, of, push, soon, statuses, transactions, until_blocked,
    until_waiting,
};

async fn configure(queues: &Queues, queue: &str, change: &Change) -> reveille_queue::Configured {
    queues.configure(queue, None, None, change).await.expect("configured")
}

/// A new queue has the documented defaults; two options have none. Its namespace and task come from its name unless the
/// caller sets them.
#[tokio::test]
async fn a_new_queue_has_the_defaults() {
    let queues = Fixture::new().await;
    let made = configure(&queues, "shop.orders.eu", &Change::default()).await;
    assert_eq!((made.namespace.as_str(), made.task.as_str()), ("shop", "orders"));
    let set = &made.settings;
    assert_eq!((set.lease_seconds, set.retry_limit, set.retry_delay_ms, set.ttl_seconds), (300, 3, None, None));
    assert_eq!((set.max_size, set.priority, set.max_wait_time_seconds), (0, 0, 0));
    assert_eq!((set.delayed_processing_seconds, set.window_buffer_seconds), (0, 0));
    assert_eq!((set.retention_seconds, set.completed_retention_seconds), (0, 0));
    assert!(!set.dead_letter_queue && !set.dlq_after_max_retries && !set.retention_enabled && !set.encryption_enabled);
    assert!(set.charge_expired_leases);
    assert_eq!(set.consumed_retention_seconds, 86_400);
    let pushed = push(&queues, "shop.orders.eu", "Default", &["1"]).await;
    assert_eq!(pushed[0].partition_id, made.partition_id);
    let named = queues.configure("a.b", Some(""), Some("t"), &Change::default()).await.expect("configured");
    assert_eq!((named.namespace.as_str(), named.task.as_str()), ("", "t"));
}

/// An option that is not sent keeps its value; one that is sent is applied and returned.
#[tokio::test]
async fn options_that_are_not_sent_keep_their_values() {
    let queues = Fixture::new().await;
    let all = Change {
        lease_seconds: Some(1),
        retry_limit: Some(2),
        retry_delay_ms: Some(3),
        max_size: Some(4),
        ttl_seconds: Some(5),
        dead_letter_queue: Some(true),
        dlq_after_max_retries: Some(true),
        priority: Some(-6),
        delayed_processing_seconds: Some(7),
        window_buffer_seconds: Some(8),
        retention_seconds: Some(9),
        completed_retention_seconds: Some(10),
        retention_enabled: Some(true),
        encryption_enabled: Some(false),
        max_wait_time_seconds: Some(11),
        charge_expired_leases: Some(false),
        consumed_retention_seconds: Some(12),
    };
    let first = queues.configure("q", Some("n"), Some("t"), &all).await.expect("configured");
    let set = &first.settings;
    assert_eq!((set.lease_seconds, set.retry_limit, set.retry_delay_ms, set.max_size), (1, 2, Some(3), 4));
    assert_eq!((set.ttl_seconds, set.priority, set.delayed_processing_seconds), (Some(5), -6, 7));
    assert_eq!((set.window_buffer_seconds, set.retention_seconds, set.completed_retention_seconds), (8, 9, 10));
    assert!(set.dead_letter_queue && set.dlq_after_max_retries && set.retention_enabled && !set.encryption_enabled);
    assert_eq!((set.max_wait_time_seconds, set.charge_expired_leases, set.consumed_retention_seconds), (11, false, 12));
    let again = configure(&queues, "q", &Change { priority: Some(0), ..Change::default() }).await;
    let mut expected = first.clone();
    expected.settings.priority = 0;
    assert_eq!(again, expected);
}

/// An invalid option is rejected by name, and no queue is created; so is encryption without a key.
#[tokio::test]
async fn invalid_options_are_rejected_and_change_nothing() {
    let queues = Fixture::new().await;
    let absurd = [
        ("leaseTime", Change { lease_seconds: Some(0), ..Change::default() }),
        ("retryLimit", Change { retry_limit: Some(-1), ..Change::default() }),
        ("retryDelay", Change { retry_delay_ms: Some(i64::MAX), ..Change::default() }),
        ("maxSize", Change { max_size: Some(-5), ..Change::default() }),
        ("ttl", Change { ttl_seconds: Some(i64::from(i32::MAX) + 1), ..Change::default() }),
        ("windowBuffer", Change { window_buffer_seconds: Some(-1), ..Change::default() }),
    ];
    for (option, change) in absurd {
        let refused = queues.configure("q", None, None, &change).await;
        assert!(matches!(&refused, Err(Error::Invalid { what, .. }) if *what == option), "{option}: {refused:?}");
    }
    let sealed = Change { encryption_enabled: Some(true), ..Change::default() };
    assert!(matches!(queues.configure("q", None, None, &sealed).await, Err(Error::NoKey { .. })));
    assert!(matches!(
        queues.configure("", None, None, &Change::default()).await,
        Err(Error::Invalid { what: "queue", .. })
    ));
    assert_eq!(queues.count("select count(*) from {schema}.queue").await, 0);
}

/// Encryption may be switched on at any time; processes with the old settings notice, and all messages can be read.
#[tokio::test]
async fn encryption_may_be_switched_on_later() {
    let key = Options::default().encryption_keys(vec![[7; 32]]);
    let queues = Fixture::with(key.clone()).await;
    let other = Queues::open(queues.db.database().clone(), queues.db.schema().clone(), key).await.expect("opened");
    push(&queues, "q", "p", &["plain"]).await;
    push(&other, "q", "p", &["plain too"]).await;
    configure(&queues, "q", &Change { encryption_enabled: Some(true), ..Change::default() }).await;
    push(&other, "q", "p", &["sealed"]).await;
    push(&queues, "q", "p", &["sealed too"]).await;
    let batch = soon(&queues, of("q", "g", 10)).await;
    let payloads: Vec<&str> = batch.messages.iter().map(|message| message.payload.get()).collect();
    assert_eq!(payloads, ["\"plain\"", "\"plain too\"", "\"sealed\"", "\"sealed too\""]);
    assert_eq!(queues.count("select count(*) from {schema}.segment where encrypted").await, 2);
}

/// A shorter delay applies to messages that wait already: a waiting pop gets them at once.
#[tokio::test]
async fn a_shorter_delay_applies_at_once() {
    let queues = Fixture::new().await;
    configure(&queues, "q", &Change { delayed_processing_seconds: Some(3_600), ..Change::default() }).await;
    assert!(now(&queues, of("q", "g", 1)).await.is_none());
    push(&queues, "q", "p", &["1"]).await;
    assert!(now(&queues, of("q", "g", 1)).await.is_none(), "delayed");
    let changed = async {
        until_waiting(&queues, 1).await;
        configure(&queues, "q", &Change { delayed_processing_seconds: Some(0), ..Change::default() }).await;
    };
    let (batch, ()) = tokio::join!(soon(&queues, of("q", "g", 1)), changed);
    assert_eq!(transactions(&batch), ["1"]);
}

/// A shorter delay must apply to a concurrent push, too.
/// A push with the old delay is in an open transaction; it commits while the queue is being configured.
#[tokio::test]
async fn a_shorter_delay_applies_to_a_concurrent_push() {
    let queues = Fixture::new().await;
    configure(&queues, "q", &Change { delayed_processing_seconds: Some(3_600), ..Change::default() }).await;
    push(&queues, "q", "p", &["0"]).await;
    assert!(now(&queues, of("q", "g", 1)).await.is_none());
    assert_eq!(queues.seek("g", "q", None, Seek::End).await.expect("moved"), Some(2));
    let mut transaction = queues.db.database().begin().await.expect("a transaction");
    queues.push_in(&mut transaction, vec![message("q", "p", "1")]).await.expect("pushed");
    let shorter = Change { delayed_processing_seconds: Some(0), ..Change::default() };
    let (_, ()) = tokio::join!(configure(&queues, "q", &shorter), async {
        until_blocked(&queues, &mut transaction).await;
        transaction.commit().await.expect("committed");
    });
    assert_eq!(transactions(&soon(&queues, of("q", "g", 1)).await), ["1"]);
}

/// A failed message waits for its `retryDelay`, even if the delay of messages changes.
#[tokio::test]
async fn another_delay_does_not_end_a_retry_delay() {
    let queues = Fixture::new().await;
    let retry = Change { retry_delay_ms: Some(60_000), delayed_processing_seconds: Some(1), ..Change::default() };
    configure(&queues, "q", &retry).await;
    push(&queues, "q", "p", &["1"]).await;
    end(&queues, &soon(&queues, of("q", "g", 1)).await, AckStatus::Failed).await;
    configure(&queues, "q", &Change { delayed_processing_seconds: Some(0), ..Change::default() }).await;
    assert!(now(&queues, of("q", "g", 1)).await.is_none());
}

/// A full queue rejects messages until some are consumed, whether or not consumed ones were removed.
#[tokio::test]
async fn a_full_queue_rejects_messages() {
    let queues = Fixture::new().await;
    configure(&queues, "q", &Change { max_size: Some(2), ..Change::default() }).await;
    push(&queues, "q", "p", &["1"]).await;
    assert!(now(&queues, of("q", "g", 1)).await.is_some());
    push(&queues, "q", "p", &["2"]).await;
    let refused = push(&queues, "q", "p", &["3"]).await;
    assert!(matches!(&refused[0].status, PushStatus::Failed(why) if why.contains("maxSize")), "{refused:?}");
    assert_eq!(queues.clear("q", None).await.expect("cleared"), Some(2));
    assert_eq!(statuses(&push(&queues, "q", "p", &["3", "4"]).await), [PushStatus::Queued, PushStatus::Queued]);
    assert!(matches!(push(&queues, "q", "p", &["5"]).await[0].status, PushStatus::Failed(_)));
}

/// A deleted queue leaves no rows; a push, here or in another process, creates a new queue; deleting an absent queue
/// succeeds.
#[tokio::test]
async fn a_deleted_queue_leaves_nothing() {
    let here = Fixture::new().await;
    let there = Elsewhere::start(&here.db).await;
    assert!(!here.delete_queue("q").await.expect("asked"));
    for partition in ["a", "b", "c"] {
        push(&here, "q", partition, &["1", "2"]).await;
        push(&there.queues, "q", partition, &["3"]).await;
    }
    push(&here, "other", "a", &["1"]).await;
    let batch = soon(&here, of("q", "g", 1)).await;
    end(&here, &batch, AckStatus::DeadLetter).await;
    assert!(there.queues.delete_queue("q").await.expect("deleted"));
    eventually("what is left is removed", async || {
        here.count("select count(*) from {schema}.removed_partition").await == 0
    })
    .await;
    for (table, left) in
        [("queue", 1), ("partition", 1), ("segment", 1), ("consumer", 0), ("cursor", 0), ("dead_letter", 0)]
    {
        assert_eq!(here.count(&format!("select count(*) from {{schema}}.{table}")).await, left, "{table}");
    }
    assert_eq!(statuses(&push(&here, "q", "a", &["1"]).await), [PushStatus::Queued]);
    assert_eq!(transactions(&soon(&there.queues, of("q", "g", 9)).await), ["1"]);
}

/// While a queue is deleted repeatedly, a push fails only for that reason, with that error, and messages pushed after
/// the last deletion are delivered.
#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_queue_while_pushing() {
    let here = Fixture::new().await;
    let there = Elsewhere::start(&here.db).await;
    let pushers: Vec<_> = (0..4)
        .map(|which| {
            let queues = if which % 2 == 0 { here.queues.clone() } else { there.queues.clone() };
            tokio::spawn(async move {
                for number in 0..40 {
                    let messages =
                        (0..3).map(|p| message("q", &format!("p{p}"), &format!("{which}:{number}"))).collect();
                    let pushed = queues.push(messages).await.expect("pushed");
                    let honest = |status: &PushStatus| match status {
                        PushStatus::Failed(why) => why.contains("is being deleted"),
                        status => *status == PushStatus::Queued,
                    };
                    assert!(pushed.iter().all(|pushed| honest(&pushed.status)), "{pushed:?}");
                }
            })
        })
        .collect();
    let reader = tokio::spawn({
        let queues = here.queues.clone();
        async move {
            let idle = || Some(Instant::now() + Duration::from_secs(1));
            while let Some(batch) = queues.pop(Pop { partitions: 3, ..of("q", "g", 9) }, idle()).await.expect("a pop") {
                let acks = crate::fixture::say(&batch, &batch.messages, AckStatus::Completed);
                queues.ack(acks).await.expect("answered");
            }
        }
    });
    let deleter = tokio::spawn({
        let queues = there.queues.clone();
        async move {
            for _ in 0..20 {
                queues.delete_queue("q").await.expect("deleted");
                tokio::time::sleep(Duration::from_millis(fastrand::u64(1..15))).await;
            }
        }
    });
    for task in pushers.into_iter().chain([reader, deleter]) {
        tokio::time::timeout(PATIENCE, task).await.expect("in time").expect("no panic");
    }
    push(&here, "q", "p0", &["last"]).await;
    let pop = Pop { source: Source::partition("q", "p0"), ..of("q", "late", 1_000) };
    let batch = soon(&there.queues, pop).await;
    assert_eq!(transactions(&batch).last(), Some(&"last"));
}

/// A cleared queue has no messages; leases on them are lost, and all groups continue with later messages. One partition
/// may be cleared alone.
#[tokio::test]
async fn a_cleared_queue_delivers_later_messages() {
    let queues = Fixture::new().await;
    for partition in ["a", "b"] {
        push(&queues, "q", partition, &["1"]).await;
        push(&queues, "q", partition, &["2"]).await;
    }
    let lost = now(&queues, Pop { source: Source::partition("q", "a"), ..of("q", "g", 1) }).await.expect("a message");
    assert_eq!(queues.clear("nothing", None).await.expect("asked"), None);
    assert_eq!(queues.clear("q", Some("a")).await.expect("cleared"), Some(2));
    let rest = soon(&queues, of("q", "g", 9)).await;
    assert_eq!((rest.messages[0].partition.as_str(), transactions(&rest)), ("b", vec!["1", "2"]));
    end(&queues, &rest, AckStatus::Completed).await;
    assert_eq!(statuses(&push(&queues, "q", "a", &["1"]).await), [PushStatus::Queued], "its id is free");
    let next = soon(&queues, of("q", "g", 9)).await;
    assert_eq!((transactions(&next), next.messages[0].offset), (vec!["1"], 2), "offsets continue");
    let late = queues.ack(crate::fixture::say(&lost, &lost.messages, AckStatus::Completed)).await.expect("answered");
    assert!(late[0].outcome.is_err(), "its lease is lost");
}
