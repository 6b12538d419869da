//! Dead letters: finding, replaying and purging them.

use reveille_queue::{AckStatus, Change, DeadLetterFilter, Page, Pop, Replayed, Source};
use time::OffsetDateTime;

use crate::fixture::{Fixture, end, now, of, push, say, soon, transactions, until_blocked};

const ALL: Page = Page { limit: 100, offset: 0 };

fn any() -> DeadLetterFilter {
    DeadLetterFilter::default()
}

fn of_queue(queue: &str) -> DeadLetterFilter {
    DeadLetterFilter { queue: Some(queue.to_owned()), ..any() }
}

/// Makes dead letters of all messages that a group can read in a partition.
async fn give_up(queues: &Fixture, queue: &str, partition: &str, group: &str) {
    let pop = Pop { source: Source::partition(queue, partition), ..of(queue, group, 100) };
    end(queues, &soon(queues, pop).await, AckStatus::DeadLetter).await;
}

/// Dead letters are found by every filter, newest first, with their total number, also on a page after the end.
#[tokio::test]
async fn dead_letters_are_found() {
    let queues = Fixture::new().await;
    push(&queues, "q", "a", &["1", "2"]).await;
    push(&queues, "q", "b", &["3"]).await;
    push(&queues, "r", "a", &["4"]).await;
    give_up(&queues, "q", "a", "g").await;
    give_up(&queues, "q", "b", "other").await;
    let middle = OffsetDateTime::now_utc();
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    give_up(&queues, "r", "a", "g").await;
    let found = async |filter: DeadLetterFilter, page: Page| {
        let listed = queues.dead_letters(&filter, page).await.expect("listed");
        let names: Vec<String> = listed.rows.into_iter().map(|letter| letter.transaction_id).collect();
        (names.join(" "), listed.total)
    };
    assert_eq!(found(any(), ALL).await, ("4 3 2 1".to_owned(), 4));
    assert_eq!(found(any(), Page { limit: 2, offset: 1 }).await, ("3 2".to_owned(), 4));
    assert_eq!(found(any(), Page { limit: 2, offset: 9 }).await, (String::new(), 4));
    assert_eq!(found(of_queue("q"), ALL).await, ("3 2 1".to_owned(), 3));
    assert_eq!(found(DeadLetterFilter { partition: Some("a".to_owned()), ..any() }, ALL).await.1, 3);
    assert_eq!(found(DeadLetterFilter { group: Some("other".to_owned()), ..any() }, ALL).await.0, "3");
    assert_eq!(found(DeadLetterFilter { from: Some(middle), ..any() }, ALL).await.0, "4");
    assert_eq!(found(DeadLetterFilter { before: Some(middle), ..any() }, ALL).await.0, "3 2 1");
    let letter = queues.dead_letters(&of_queue("r"), ALL).await.expect("listed").rows.remove(0);
    assert_eq!((letter.group.as_str(), letter.error.as_deref(), letter.retries), ("g", Some("broken"), 0));
    assert_eq!(letter.payload.expect("readable").get(), "\"4\"");
    assert_eq!((letter.queue.as_str(), letter.partition.as_str(), letter.offset), ("r", "a", 0));
    assert!(letter.failed_at > letter.created_at);
}

/// A replayed dead letter is a new message after the others: with its own id if that is free, else with one derived
/// from it. A dead letter of two groups is replayed once.
#[tokio::test]
async fn a_replayed_dead_letter_is_a_new_message() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2"]).await;
    push(&queues, "q", "p", &["3"]).await;
    for group in ["g", "other"] {
        give_up(&queues, "q", "p", group).await;
    }
    let letters = queues.dead_letters(&of_queue("q"), ALL).await.expect("listed").rows;
    let first = letters.iter().map(|letter| letter.id).min().expect("six letters");
    queues.delete_message(letters[0].partition_id, "2").await.expect("deleted");
    let replayed = queues.replay(&of_queue("q")).await.expect("replayed");
    assert_eq!(replayed, Replayed { replayed: 6, skipped: vec![] });
    let batch = soon(&queues, of("q", "g", 9)).await;
    assert_eq!(transactions(&batch), [format!("1~{first}"), "2".to_owned(), format!("3~{}", first + 2)]);
    let payloads: Vec<&str> = batch.messages.iter().map(|message| message.payload.get()).collect();
    assert_eq!(payloads, ["\"1\"", "\"2\"", "\"3\""]);
    assert_eq!(queues.replay(&any()).await.expect("asked"), Replayed::default(), "once");
}

/// A dead letter that a full queue rejects stays one, with the reason; the others are replayed.
#[tokio::test]
async fn rejected_replays_stay_dead_letters() {
    let queues = Fixture::new().await;
    push(&queues, "full", "p", &["1", "2"]).await;
    push(&queues, "free", "p", &["3"]).await;
    give_up(&queues, "full", "p", "g").await;
    give_up(&queues, "free", "p", "g").await;
    push(&queues, "full", "p", &["4"]).await;
    let change = Change { max_size: Some(1), ..Change::default() };
    queues.configure("full", None, None, &change).await.expect("configured");
    let replayed = queues.replay(&any()).await.expect("replayed");
    assert_eq!((replayed.replayed, replayed.skipped.len()), (1, 2), "{replayed:?}");
    assert!(replayed.skipped[0].contains("maxSize"), "{replayed:?}");
    assert_eq!(queues.dead_letters(&any(), ALL).await.expect("listed").total, 2);
    assert_eq!(soon(&queues, of("free", "g", 9)).await.messages.len(), 1);
}

/// Two concurrent replays of the same dead letters share them: each is replayed exactly once.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_replays_share_the_dead_letters() {
    let queues = Fixture::new().await;
    let names: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    push(&queues, "q", "p", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    while let Some(batch) = now(&queues, of("q", "g", 200)).await {
        end(&queues, &batch, AckStatus::DeadLetter).await;
    }
    let filter = any();
    let (one, other) = tokio::join!(queues.replay(&filter), queues.replay(&filter));
    assert_eq!(one.expect("replayed").replayed + other.expect("replayed").replayed, 500);
    let mut back = 0;
    while let Some(batch) = now(&queues, Pop { auto_ack: true, ..of("q", "g", 1_000) }).await {
        back += batch.messages.len();
    }
    assert_eq!(back, 500);
}

/// A purge deletes exactly the dead letters that match its filter, also in several steps.
#[tokio::test]
async fn a_purge_is_bounded_by_its_filter() {
    let queues = Fixture::new().await;
    let names: Vec<String> = (0..450).map(|n| n.to_string()).collect();
    push(&queues, "q", "p", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    push(&queues, "r", "p", &["1"]).await;
    while let Some(batch) = now(&queues, of("q", "g", 200)).await {
        end(&queues, &batch, AckStatus::DeadLetter).await;
    }
    give_up(&queues, "r", "p", "g").await;
    assert_eq!(queues.dead_letters(&of_queue("q"), Page { limit: 0, offset: 0 }).await.expect("listed").total, 450);
    assert_eq!(queues.purge(&of_queue("q")).await.expect("purged"), 450);
    let left = queues.dead_letters(&any(), ALL).await.expect("listed").rows;
    assert_eq!((left.len(), left[0].queue.as_str()), (1, "r"));
    let by_id = DeadLetterFilter { ids: Some(vec![left[0].id, -1]), ..any() };
    assert_eq!(queues.purge(&by_id).await.expect("purged"), 1);
}

/// An ack that makes a dead letter in a queue that is being deleted must be answered normally: the letter is deleted
/// with its queue. The deletion is in an open transaction when the ack comes, and commits while the ack waits for it.
#[tokio::test]
async fn a_dead_letter_of_a_queue_that_is_being_deleted_goes_with_it() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1"]).await;
    let batch = soon(&queues, of("q", "g", 1)).await;
    let mut deletion = queues.db.database().begin().await.expect("a transaction");
    let delete = queues.db.schema().sql("select {schema}.remove_queue('q')");
    sqlx::query(&delete).execute(&mut *deletion).await.expect("deleted");
    let (acked, ()) = tokio::join!(queues.ack(say(&batch, &batch.messages, AckStatus::DeadLetter)), async {
        until_blocked(&queues, &mut deletion).await;
        deletion.commit().await.expect("committed");
    });
    assert_eq!(acked.expect("answered").len(), 1);
    assert_eq!(queues.dead_letters(&any(), ALL).await.expect("listed").total, 0);
}
