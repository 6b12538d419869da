//! Duplicates.

use reveille_queue::PushStatus::{Duplicate, Failed, Queued};
use reveille_queue::{DeadLetterFilter, NewMessage, Operation, Pop, Source};
use uuid::Uuid;

use crate::fixture::{Elsewhere, Fixture, message, now, of, push, statuses, transactions};

/// A duplicate is recognised within a request and across requests, but not across partitions; its outcome has the
/// original's id.
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

/// A message of another process is recognised as a duplicate, by a process with a cache and by one that has just
/// started.
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

/// Under races of two processes and many pushers every transaction id is stored once, and every pusher gets the same
/// id.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_pushes_store_each_message_once() {
    let here = Fixture::new().await;
    let there = Elsewhere::start(&here.db).await;
    let names: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    let pushers: Vec<_> = (0..8)
        .map(|which| {
            let queues = if which % 2 == 0 { here.queues.clone() } else { there.queues.clone() };
            let mut names = names.clone();
            tokio::spawn(async move {
                let mut stored = Vec::new();
                fastrand::Rng::with_seed(which).shuffle(&mut names);
                for few in names.chunks(7) {
                    let messages = few.iter().map(|name| message("q", &format!("p{}", name.len()), name)).collect();
                    for pushed in queues.push(messages).await.expect("pushed") {
                        stored.push((pushed.transaction_id, pushed.message_id, pushed.status == Queued));
                    }
                }
                stored
            })
        })
        .collect();
    let mut stored = Vec::new();
    for pusher in pushers {
        stored.extend(pusher.await.expect("no panic"));
    }
    assert_eq!(stored.iter().filter(|(.., queued)| *queued).count(), names.len(), "each is queued once");
    let mut ids: Vec<_> = stored.into_iter().map(|(name, id, _)| (name, id)).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), names.len(), "and every pusher got the same id");
    let stored = "select coalesce(sum(cardinality(ids)), 0)::bigint from {schema}.segment";
    assert_eq!(here.count(stored).await, names.len() as i64);
}

/// A removed message is no duplicate any more, although it is in the cache.
#[tokio::test]
async fn removed_messages_may_be_pushed_again() {
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

/// How many messages with a transaction id exist.
async fn stored(queues: &Fixture, transaction: &str) -> i64 {
    let sql = "select count(*) from {schema}.segment s cross join lateral unnest(s.ids, s.transaction_ids) as m (id, transaction) \
               where m.id is not null and m.transaction = ";
    queues.count(&format!("{sql}'{transaction}'")).await
}

/// Deletes the oldest messages as retention does.
async fn trim(queues: &Fixture, upto: i64) {
    let sql = "select count(*) from {schema}.trim(array(select id from {schema}.partition), \
               array(select {upto}::bigint from {schema}.partition), 1000, true)";
    assert_eq!(queues.count(&sql.replace("{upto}", &upto.to_string())).await, 1);
}

/// A message that was deleted and pushed again is a duplicate from then on, also for a process that has loaded both,
/// and for one that has loaded only the second.
#[tokio::test]
async fn a_deleted_message_that_was_pushed_again_is_a_duplicate() {
    let here = Fixture::new().await;
    let there = Elsewhere::start(&here.db).await;
    let first = push(&here, "q", "p", &["x", "y"]).await;
    assert_eq!(statuses(&push(&there.queues, "q", "p", &["z"]).await), [Queued]);
    assert!(here.delete_message(first[0].partition_id, "x").await.expect("deleted"));
    assert_eq!(statuses(&push(&here, "q", "p", &["x"]).await), [Queued]);
    assert_eq!(statuses(&push(&there.queues, "q", "p", &["x"]).await), [Duplicate], "loaded incrementally");
    let late = Elsewhere::start(&here.db).await;
    assert_eq!(statuses(&push(&late.queues, "q", "p", &["x"]).await), [Duplicate], "loaded completely");
    assert_eq!(statuses(&push(&late.queues, "q", "p", &["x"]).await), [Duplicate]);
    assert_eq!(stored(&here, "x").await, 1);
}

/// A message that was removed and pushed again by another process is a duplicate for a process with the first in its
/// cache.
#[tokio::test]
async fn a_removed_message_that_was_pushed_again_is_a_duplicate() {
    let here = Fixture::new().await;
    let there = Elsewhere::start(&here.db).await;
    push(&here, "q", "p", &["x"]).await;
    push(&here, "q", "p", &["y"]).await;
    trim(&here, 1).await;
    assert_eq!(statuses(&push(&there.queues, "q", "p", &["x"]).await), [Queued]);
    // This loads the other one.
    assert_eq!(statuses(&push(&here, "q", "p", &["z"]).await), [Queued]);
    assert_eq!(statuses(&push(&here, "q", "p", &["x"]).await), [Duplicate]);
    assert_eq!(stored(&here, "x").await, 1);
}

/// A process whose cache is ahead of the tables, because the database lost its last commits, must notice, and recognise
/// duplicates as after a start.
#[tokio::test]
async fn a_cache_ahead_of_the_tables_is_discarded() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1"]).await;
    push(&queues, "q", "p", &["2", "3"]).await;
    let lose =
        "with lost as (delete from {schema}.segment where first_offset > 0 returning 1) select count(*) from lost";
    assert_eq!(queues.count(lose).await, 1);
    assert_eq!(statuses(&push(&queues, "q", "p", &["4", "1"]).await), [Queued, Duplicate]);
    assert_eq!(statuses(&push(&queues, "q", "p", &["2", "4", "2"]).await), [Queued, Duplicate, Duplicate]);
    assert_eq!(statuses(&push(&queues, "q", "p", &["3", "2"]).await), [Queued, Duplicate]);
    let batch = now(&queues, of("q", "g", 9)).await.expect("messages");
    assert_eq!(transactions(&batch), ["1", "4", "2", "3"]);
}

/// A full queue rejects only new messages: a duplicate is recognised, whether it is in the cache, was stored by another
/// process, or comes with a new message.
#[tokio::test]
async fn duplicates_are_accepted_by_a_full_queue() {
    let here = Fixture::new().await;
    let there = Elsewhere::start(&here.db).await;
    push(&here, "q", "p", &["1"]).await;
    push(&there.queues, "q", "p", &["2"]).await;
    here.set("q", "max_size = 2").await;
    assert_eq!(statuses(&push(&here, "q", "p", &["2"]).await), [Duplicate], "not remembered");
    let mixed = push(&here, "q", "p", &["1", "3", "2", "3"]).await;
    let statuses = statuses(&mixed);
    assert_eq!([&statuses[0], &statuses[2]], [&Duplicate, &Duplicate]);
    assert!(matches!([&statuses[1], &statuses[3]], [Failed(_), Failed(_)]), "{statuses:?}");
}

/// The messages of a queue must be counted once for a push, for any number of partitions, and not for queues without a
/// `maxSize`. The database counts the calls.
#[tokio::test]
async fn a_queue_is_counted_once() {
    let queues = Fixture::new().await;
    let to = |queue: &str, round: usize| {
        (0..20).map(|number| message(queue, &format!("p{number}"), &round.to_string())).collect::<Vec<_>>()
    };
    for queue in ["sized", "free"] {
        queues.push(to(queue, 0)).await.expect("pushed");
    }
    queues.set("sized", "max_size = 1000").await;
    let sql = queues.db.schema().sql(
        "create sequence {schema}.counted; create or replace function {schema}.full_queues(partitions bigint[]) returns integer[]
         language sql volatile as $$ select array[-nextval('{schema}.counted')::integer] $$",
    );
    sqlx::raw_sql(&sql).execute(queues.db.database().pool()).await.expect("replaced");
    let called =
        async || queues.count("select case when is_called then last_value else 0 end from {schema}.counted").await;
    let pushes = async |messages: Vec<NewMessage>| {
        let mut tx = queues.db.database().begin().await.expect("a transaction");
        let pushed = queues.push_in(&mut tx, messages).await.expect("pushed");
        assert!(pushed.iter().all(|pushed| pushed.status == Queued), "{pushed:?}");
        tx.commit().await.expect("committed");
    };
    pushes(to("free", 1)).await;
    assert_eq!(called().await, 0);
    pushes(to("sized", 1).into_iter().chain(to("free", 2)).collect()).await;
    assert_eq!(called().await, 1);
}

/// Makes the stored hashes useless for recognising duplicates: a process that still does has them in its cache.
async fn wipe_hashes(queues: &Fixture) {
    let sql = "with wiped as (update {schema}.segment set hashes = array_fill(0::bigint, array[cardinality(hashes)]) returning 1) \
               select count(*) from wiped";
    assert!(queues.count(sql).await > 0);
}

/// Messages pushed by a transaction, a replay or a drain must enter the cache like any other: else a partition that
/// only they write would be read from its beginning each time.
#[tokio::test]
async fn transactions_fill_the_dedup_cache() {
    let queues = Fixture::new().await;
    let there = Elsewhere::start(&queues.db).await;
    push(&there.queues, "q", "p", &["before"]).await;
    queues.transaction(vec![Operation::Push(vec![message("q", "p", "moved")])], &[]).await.expect("committed");
    let partition = push(&queues, "q", "p", &["dead"]).await[0].partition_id;
    assert!(queues.make_dead_letter(partition, "dead", "broken").await.expect("buried"));
    assert_eq!(queues.replay(&DeadLetterFilter::default()).await.expect("replayed").replayed, 1);
    queues.set_push_maintenance(true).await.expect("begun");
    push(&queues, "q", "p", &["kept"]).await;
    queues.set_push_maintenance(false).await.expect("ended");
    wipe_hashes(&queues).await;
    let again = push(&queues, "q", "p", &["before", "moved", "dead", "kept", "new"]).await;
    assert_eq!(statuses(&again), [Duplicate, Duplicate, Duplicate, Duplicate, Queued]);
}

/// A transaction that was rolled back must leave nothing in the cache.
#[tokio::test]
async fn rolled_back_pushes_are_not_cached() {
    let queues = Fixture::new().await;
    let lost = || Operation::Push(vec![message("q", "p", "x")]);
    queues.transaction(vec![lost()], &[Uuid::now_v7()]).await.expect_err("no such lease");
    let mut tx = queues.db.database().begin().await.expect("a transaction");
    queues.push_in(&mut tx, vec![message("q", "p", "x")]).await.expect("pushed");
    assert_eq!(statuses(&queues.push_in(&mut tx, vec![message("q", "p", "x")]).await.expect("pushed")), [Duplicate]);
    tx.rollback().await.expect("rolled back");
    assert_eq!(statuses(&push(&queues, "q", "p", &["y", "x"]).await), [Queued, Queued]);
    assert_eq!(statuses(&push(&queues, "q", "p", &["x", "y"]).await), [Duplicate, Duplicate]);
}

/// Messages pushed in transactions of the caller are loaded into the cache by later pushes, once there are many;
/// earlier messages of others are loaded at once.
#[tokio::test]
async fn pushes_of_callers_are_loaded() {
    let queues = Fixture::new().await;
    let there = Elsewhere::start(&queues.db).await;
    push(&there.queues, "q", "p", &["before"]).await;
    let many = (0..1_200).map(|number| message("q", "p", &number.to_string())).collect::<Vec<_>>();
    for messages in [many, vec![message("q", "p", "more")]] {
        let mut tx = queues.db.database().begin().await.expect("a transaction");
        let pushed = queues.push_in(&mut tx, messages).await.expect("pushed");
        assert!(pushed.iter().all(|pushed| pushed.status == Queued));
        tx.commit().await.expect("committed");
    }
    wipe_hashes(&queues).await;
    assert_eq!(statuses(&push(&queues, "q", "p", &["before", "7"]).await), [Duplicate, Duplicate]);
}
