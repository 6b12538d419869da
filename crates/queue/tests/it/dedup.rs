//! Duplicates.

use queue::PushStatus::{Duplicate, Queued};
use queue::{Pop, Source};

use crate::fixture::{Elsewhere, Fixture, message, now, of, push, statuses, transactions};

/// A duplicate is recognised within a request, across requests and across partitions not; it answers with the original's id.
#[tokio::test]
async fn a_duplicate_has_the_originals_id() {
    let queues = Fixture::new().await;
    let first = push(&queues, "q", "p", &["1", "2", "1"]).await;
    assert_eq!(statuses(&first), [Queued, Queued, Duplicate]);
    assert_eq!(first[2].message_id, first[0].message_id);
    let again = push(&queues, "q", "p", &["2", "3"]).await;
    assert_eq!(statuses(&again), [Duplicate, Queued]);
    assert_eq!(again[0].message_id, first[1].message_id);
    assert_eq!(statuses(&push(&queues, "q", "other", &["1"]).await), [Queued]);
    let batch = now(&queues, Pop { source: Source::partition("q", "p"), ..of("q", "g", 9) }).await.expect("messages");
    assert_eq!(transactions(&batch), ["1", "2", "3"]);
}

/// What another process pushed is a duplicate here, whether this one remembers the partition or has just started.
#[tokio::test]
async fn duplicates_of_other_processes() {
    let here = Fixture::new().await;
    let there = Elsewhere::start(&here.db).await;
    let first = push(&here, "q", "p", &["1"]).await;
    let second = push(&there.queues, "q", "p", &["1", "2"]).await;
    assert_eq!(statuses(&second), [Duplicate, Queued]);
    assert_eq!(second[0].message_id, first[0].message_id);
    let third = push(&here, "q", "p", &["2", "3", "1"]).await;
    assert_eq!(statuses(&third), [Duplicate, Queued, Duplicate]);
    assert_eq!(third[0].message_id, second[1].message_id);
    let late = Elsewhere::start(&here.db).await;
    assert_eq!(statuses(&push(&late.queues, "q", "p", &["3", "4"]).await), [Duplicate, Queued]);
}

/// Under races of two processes and many pushers every transaction id is stored once, and everybody is told the same id of it.
#[tokio::test(flavor = "multi_thread")]
async fn races_store_each_once() {
    let here = Fixture::new().await;
    let there = Elsewhere::start(&here.db).await;
    let names: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    let pushers: Vec<_> = (0..8)
        .map(|which| {
            let queues = if which % 2 == 0 { here.queues.clone() } else { there.queues.clone() };
            let mut names = names.clone();
            tokio::spawn(async move {
                let mut told = Vec::new();
                fastrand::Rng::with_seed(which).shuffle(&mut names);
                for few in names.chunks(7) {
                    let messages = few.iter().map(|name| message("q", &format!("p{}", name.len()), name)).collect();
                    for pushed in queues.push(messages).await.expect("pushed") {
                        told.push((pushed.transaction_id, pushed.message_id, pushed.status == Queued));
                    }
                }
                told
            })
        })
        .collect();
    let mut told = Vec::new();
    for pusher in pushers {
        told.extend(pusher.await.expect("no panic"));
    }
    assert_eq!(told.iter().filter(|(.., queued)| *queued).count(), names.len(), "each is queued once");
    let mut ids: Vec<_> = told.into_iter().map(|(name, id, _)| (name, id)).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), names.len(), "and everybody is told the same id");
    let stored = "select coalesce(sum(cardinality(ids)), 0)::bigint from {schema}.segment";
    assert_eq!(here.count(stored).await, names.len() as i64);
}

/// What was removed is no duplicate any more, although it is remembered.
#[tokio::test]
async fn what_was_removed_may_come_again() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1"]).await;
    push(&queues, "q", "p", &["2"]).await;
    queues
        .count(
            "with gone as (delete from {schema}.segment where first_offset = 0 returning 1), moved as
                  (update {schema}.partition set first_offset = 1 returning 1) select count(*) from gone, moved",
        )
        .await;
    assert_eq!(statuses(&push(&queues, "q", "p", &["1", "2"]).await), [Queued, Duplicate]);
    assert_eq!(statuses(&push(&queues, "q", "p", &["1"]).await), [Duplicate]);
}
