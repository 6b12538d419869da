//! Listing messages, and deleting, dead-lettering and retrying one.

use std::time::Duration;

use reveille_queue::PushStatus::{Duplicate, Queued};
use reveille_queue::{AckStatus, MessageFilter, MessageStatus, Options, Page, Pop, Retried, Source};
use time::OffsetDateTime;

use crate::fixture::{Elsewhere, Fixture, end, message, now, of, push, soon, statuses, transactions, until_waiting};

const ALL: Page = Page { limit: 200, offset: 0 };

fn any() -> MessageFilter {
    MessageFilter::default()
}

async fn listed(queues: &Fixture, filter: MessageFilter, page: Page) -> Vec<(String, String, MessageStatus)> {
    let rows = queues.messages(&filter, page).await.expect("listed");
    rows.into_iter().map(|row| (row.message.partition, row.message.transaction_id, row.status)).collect()
}

fn names(rows: &[(String, String, MessageStatus)]) -> Vec<&str> {
    rows.iter().map(|(_, transaction, _)| transaction.as_str()).collect()
}

/// Messages are listed newest first, page by page, and found by every filter.
#[tokio::test]
async fn messages_are_listed_newest_first() {
    let queues = Fixture::new().await;
    push(&queues, "shop.orders", "a", &["1", "2"]).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    push(&queues, "shop.orders", "b", &["3"]).await;
    let middle = OffsetDateTime::now_utc();
    tokio::time::sleep(Duration::from_millis(10)).await;
    push(&queues, "shop.orders", "a", &["4"]).await;
    push(&queues, "bank.loans", "a", &["5"]).await;
    assert_eq!(names(&listed(&queues, any(), ALL).await), ["5", "4", "3", "2", "1"]);
    assert_eq!(names(&listed(&queues, any(), Page { limit: 2, offset: 1 }).await), ["4", "3"]);
    let of_queue = || MessageFilter { queue: Some("shop.orders".to_owned()), ..any() };
    assert_eq!(names(&listed(&queues, of_queue(), ALL).await), ["4", "3", "2", "1"]);
    let of_partition = MessageFilter { partition: Some("a".to_owned()), ..of_queue() };
    assert_eq!(names(&listed(&queues, of_partition, ALL).await), ["4", "2", "1"]);
    let of_space = MessageFilter { namespace: Some("bank".to_owned()), ..any() };
    assert_eq!(names(&listed(&queues, of_space, ALL).await), ["5"]);
    let of_task = MessageFilter { task: Some("orders".to_owned()), ..any() };
    assert_eq!(listed(&queues, of_task, ALL).await.len(), 4);
    let late = MessageFilter { from: Some(middle), ..any() };
    assert_eq!(names(&listed(&queues, late, ALL).await), ["5", "4"]);
    let early = MessageFilter { before: Some(middle), ..any() };
    assert_eq!(names(&listed(&queues, early, ALL).await), ["3", "2", "1"]);
    let nothing = MessageFilter { queue: Some("none".to_owned()), ..any() };
    assert!(listed(&queues, nothing, ALL).await.is_empty());
}

/// A message is pending until every group has ended it, and processing while it is leased.
#[tokio::test]
async fn messages_are_found_by_status() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2"]).await;
    push(&queues, "q", "p", &["3", "4"]).await;
    let with = |status| MessageFilter { status: Some(status), ..any() };
    assert_eq!(listed(&queues, with(MessageStatus::Pending), ALL).await.len(), 4, "no group reads");
    end(&queues, &soon(&queues, of("q", "g", 1)).await, AckStatus::Completed).await;
    soon(&queues, of("q", "g", 2)).await;
    assert_eq!(names(&listed(&queues, with(MessageStatus::Completed), ALL).await), ["1"]);
    assert_eq!(names(&listed(&queues, with(MessageStatus::Processing), ALL).await), ["3", "2"]);
    assert_eq!(names(&listed(&queues, with(MessageStatus::Pending), ALL).await), ["4"]);
    end(&queues, &soon(&queues, of("q", "other", 3)).await, AckStatus::Completed).await;
    let rows = queues.messages(&any(), ALL).await.expect("listed");
    let consumed: Vec<_> = rows.iter().map(|row| (row.consumed_by, row.groups, row.leased_until.is_some())).collect();
    assert_eq!(consumed, [(0, 2, false), (1, 2, true), (1, 2, true), (2, 2, false)]);
    let mode = queues.reading_mode(&any()).await.expect("asked");
    assert_eq!((mode.without_group, mode.groups), (false, 2));
    assert!(now(&queues, Pop::new(Source::queue("q"))).await.is_some());
    assert!(queues.reading_mode(&any()).await.expect("asked").without_group);
}

/// A message is returned with its payload and its groups, whichever process pushed it; encrypted payloads are
/// decrypted.
#[tokio::test]
async fn one_message_is_found_by_its_transaction_id() {
    let key = Options::default().encryption_keys(vec![[3; 32]]);
    let queues = Fixture::with(key).await;
    let there = Elsewhere::start(&queues.db).await;
    push(&queues, "q", "p", &["0", "1", "2"]).await;
    let sealed = reveille_queue::Change { encryption_enabled: Some(true), ..reveille_queue::Change::default() };
    queues.configure("q", None, None, &sealed).await.expect("configured");
    let partition = push(&queues, "q", "p", &["sealed"]).await[0].partition_id;
    end(&queues, &soon(&queues, of("q", "g", 1)).await, AckStatus::Completed).await;
    soon(&queues, of("q", "g", 1)).await;
    let detail = queues.message(partition, "1").await.expect("asked").expect("a message");
    assert_eq!((detail.message.offset, detail.payload.get(), detail.readers.len()), (1, "\"1\"", 1));
    assert_eq!((detail.status(), detail.readers[0].group.as_str()), (MessageStatus::Processing, "g"));
    let elsewhere = there.queues.message(partition, "0").await.expect("asked").expect("a message");
    assert_eq!(elsewhere.status(), MessageStatus::Completed);
    let opened = queues.message(partition, "sealed").await.expect("asked").expect("a message");
    assert_eq!(opened.payload.get(), "\"sealed\"");
    assert!(matches!(there.queues.message(partition, "sealed").await, Err(reveille_queue::Error::WrongKey { .. })));
    assert!(queues.message(partition, "none").await.expect("asked").is_none());
    let others = Fixture::new().await;
    let foreign = push(&others, "q", "p", &["1"]).await[0].partition_id;
    assert!(queues.message(foreign, "1").await.expect("asked").is_none());
}

/// A deleted message is not delivered, and pops skip it without an empty answer; a consumer that holds it may ack it;
/// its transaction id is free, in every process.
#[tokio::test]
async fn a_deleted_message_is_gone() {
    let queues = Fixture::new().await;
    let there = Elsewhere::start(&queues.db).await;
    let partition = push(&queues, "q", "p", &["1", "2", "3"]).await[0].partition_id;
    push(&queues, "q", "p", &["4"]).await;
    push(&there.queues, "q", "p", &["5"]).await;
    for gone in ["1", "2", "4"] {
        assert!(queues.delete_message(partition, gone).await.expect("deleted"));
        assert!(!queues.delete_message(partition, gone).await.expect("asked"), "once");
    }
    let first = now(&queues, of("q", "g", 1)).await.expect("the message after the deleted ones");
    assert_eq!(transactions(&first), ["3"]);
    assert!(there.queues.delete_message(partition, "3").await.expect("deleted"));
    end(&queues, &first, AckStatus::Completed).await;
    let second = now(&queues, of("q", "g", 1)).await.expect("the message after a deleted segment");
    assert_eq!(transactions(&second), ["5"]);
    assert_eq!(names(&listed(&queues, any(), ALL).await), ["5"]);
    assert_eq!(queues.count("select count(*) from {schema}.segment where '\"1\"' = any (payloads)").await, 0, "erased");
    assert_eq!(statuses(&push(&queues, "q", "p", &["1", "5"]).await), [Queued, Duplicate]);
    assert_eq!(statuses(&push(&there.queues, "q", "p", &["2", "1"]).await), [Queued, Duplicate]);
    assert_eq!(transactions(&soon(&queues, of("q", "other", 9)).await), ["5", "1", "2"]);
}

/// A message that keeps failing after deleted ones must still become a dead letter, and only for its own failures.
#[tokio::test]
async fn a_failure_behind_deleted_messages_counts() {
    let queues = Fixture::new().await;
    let partition = push(&queues, "q", "p", &["1", "2"]).await[0].partition_id;
    queues.set("q", "retry_limit = 1").await;
    end(&queues, &soon(&queues, of("q", "g", 1)).await, AckStatus::Failed).await;
    queues.delete_message(partition, "1").await.expect("deleted");
    for delivery in 0..2 {
        let batch = soon(&queues, of("q", "g", 1)).await;
        assert_eq!((transactions(&batch), batch.messages[0].retries), (vec!["2"], delivery));
        let acked = end(&queues, &batch, AckStatus::Failed).await;
        assert_eq!(acked[0].dead_lettered, delivery == 1);
    }
}

/// A message that was deleted and pushed again must be ended by its ack, also if the deleted one lies before it in the
/// same lease. A process without the lease in its cache acks all messages, so that each is looked up.
#[tokio::test]
async fn a_message_that_was_pushed_again_can_be_acked() {
    let queues = Fixture::new().await;
    let there = Elsewhere::start(&queues.db).await;
    let partition = push(&queues, "q", "p", &["1", "2", "3"]).await[0].partition_id;
    assert!(queues.delete_message(partition, "2").await.expect("deleted"));
    assert_eq!(statuses(&push(&queues, "q", "p", &["2"]).await), [Queued]);
    let batch = soon(&queues, of("q", "g", 9)).await;
    assert_eq!(transactions(&batch), ["1", "3", "2"]);
    let acked = end(&there.queues, &batch, AckStatus::Completed).await;
    assert!(acked.iter().all(|acked| acked.lease_released), "{acked:?}");
    assert!(now(&queues, of("q", "g", 9)).await.is_none());
}

/// A message that an operator makes a dead letter is not delivered; retried, it is a message with its own id again.
#[tokio::test]
async fn a_dead_lettered_message_can_be_retried() {
    let queues = Fixture::new().await;
    let partition = push(&queues, "q", "p", &["1", "2"]).await[0].partition_id;
    assert!(queues.make_dead_letter(partition, "1", "by\0hand").await.expect("buried"));
    assert!(!queues.make_dead_letter(partition, "1", "twice").await.expect("asked"));
    let letters = queues.dead_letters_of(partition, "1").await.expect("asked");
    assert_eq!((letters.len(), letters[0].error.as_deref()), (1, Some("by\u{fffd}hand")));
    let batch = soon(&queues, of("q", "g", 9)).await;
    assert_eq!(transactions(&batch), ["2"]);
    end(&queues, &batch, AckStatus::Completed).await;
    assert_eq!(queues.retry_message(partition, "1").await.expect("retried"), Some(Retried::Replayed(1)));
    assert_eq!(transactions(&soon(&queues, of("q", "g", 9)).await), ["1"]);
    assert!(queues.dead_letters_of(partition, "1").await.expect("asked").is_empty());
    assert_eq!(queues.retry_message(partition, "1").await.expect("asked"), Some(Retried::Nothing));
    assert_eq!(queues.retry_message(partition, "none").await.expect("asked"), None);
}

/// A message that waits for its retry delay is retried at once.
#[tokio::test]
async fn a_failed_message_can_be_retried_at_once() {
    let queues = Fixture::new().await;
    let partition = push(&queues, "q", "p", &["1"]).await[0].partition_id;
    queues.set("q", "retry_delay_ms = 3600000").await;
    end(&queues, &soon(&queues, of("q", "g", 1)).await, AckStatus::Failed).await;
    assert!(now(&queues, of("q", "g", 1)).await.is_none());
    let (batch, retried) = tokio::join!(soon(&queues, of("q", "g", 1)), async {
        until_waiting(&queues, 1).await;
        queues.retry_message(partition, "1").await.expect("retried")
    });
    assert_eq!((retried, transactions(&batch), batch.messages[0].retries), (Some(Retried::Released(1)), vec!["1"], 0));
}

/// Deleting messages of one segment at the same time loses none of the deletions, and readers see each message or not
/// at all.
#[tokio::test(flavor = "multi_thread")]
async fn deleting_messages_while_consumers_read() {
    let queues = Fixture::new().await;
    let names: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let messages = names.iter().map(|name| message("q", "p", name)).collect();
    let partition = queues.push(messages).await.expect("pushed")[0].partition_id;
    let deleters: Vec<_> = (0..4)
        .map(|which| {
            let (queues, names) = (queues.queues.clone(), names.clone());
            tokio::spawn(async move {
                for name in names.iter().skip(which).step_by(4).filter(|name| name.len() == 1 || name.ends_with('7')) {
                    assert!(queues.delete_message(partition, name).await.expect("deleted"), "{name}");
                }
            })
        })
        .collect();
    let mut read = 0;
    while let Some(batch) = now(&queues, Pop { auto_ack: true, ..of("q", "g", 3) }).await {
        read += batch.messages.len();
    }
    for deleter in deleters {
        deleter.await.expect("no panic");
    }
    assert!((81..=100).contains(&read), "{read}");
    let left = soon(&queues, of("q", "late", 200)).await;
    assert_eq!(left.messages.len(), 81);
}
