//! Retention: which messages are removed, which stay, and that consumers are not disturbed.

use std::time::Duration;

use reveille_queue::PushStatus::Queued;
use reveille_queue::{AckStatus, Change, NewTrace, Options, Page, Pop, Queues, RetentionOptions, Source};
use tokio::time::Instant;

use crate::fixture::{Elsewhere, Fixture, PATIENCE, end, json, message, now, of, push, soon, statuses, transactions};

/// Makes all stored messages older.
async fn age(queues: &Fixture, seconds: u32) {
    let older = format!(
        "with older as (update {{schema}}.segment set created_at = created_at - interval '{seconds} s' returning 1) select count(*) from older"
    );
    queues.count(&older).await;
}

/// Adds this many segments to a partition of one message.
async fn lengthen(queues: &Fixture, partition: &str, segments: u32) {
    let more = format!(
        "with more as (insert into {{schema}}.segment select s.partition_id, o, o + 1, s.created_at, false, s.hashes, s.ids, s.transaction_ids, null, null, s.payloads
         from {{schema}}.segment s join {{schema}}.partition p on p.id = s.partition_id cross join generate_series(1, {segments}) as o where p.name = '{partition}' returning 1)
         select count(*) from more"
    );
    queues.count(&more).await;
}

async fn configure(queues: &Fixture, queue: &str, change: Change) {
    queues.configure(queue, None, None, &change).await.expect("configured");
}

fn kept(seconds: i64, completed: i64) -> Change {
    Change {
        retention_enabled: Some(true),
        retention_seconds: Some(seconds),
        completed_retention_seconds: Some(completed),
        ..Change::default()
    }
}

async fn stored(queues: &Fixture) -> i64 {
    queues.count("select coalesce(sum(next_offset - first_offset), 0)::bigint from {schema}.segment").await
}

/// Messages older than their queue's limit are removed, consumed or not; younger ones stay, and so do those of queues
/// without a limit. A group that had not read them continues after them, and their transaction ids are free.
#[tokio::test]
async fn expired_messages_are_removed() {
    let queues = Fixture::new().await;
    configure(&queues, "q", kept(60, 0)).await;
    configure(&queues, "off", Change { retention_enabled: Some(false), ..kept(60, 0) }).await;
    assert!(now(&queues, of("q", "g", 1)).await.is_none());
    for queue in ["q", "off"] {
        push(&queues, queue, "p", &["1", "2"]).await;
        push(&queues, queue, "r", &["1"]).await;
    }
    let slow = soon(&queues, of("q", "g", 1)).await;
    age(&queues, 100).await;
    push(&queues, "q", "p", &["3"]).await;
    assert_eq!(queues.retain().await.expect("retention"), 3);
    assert_eq!(stored(&queues).await, 4);
    assert_eq!(queues.retain().await.expect("retention"), 0);
    let state = queues.queues(Some("q"), Page { limit: 9, offset: 0 }).await.expect("listed").rows.remove(0);
    assert_eq!((state.name.as_str(), state.messages.total), ("q", 1));
    // A lease on removed messages lasts; its end lets the group continue.
    let late = queues.ack(crate::fixture::say(&slow, &slow.messages, AckStatus::Completed)).await.expect("answered");
    assert!(late[0].outcome.is_ok() && late[0].lease_released);
    let rest = soon(&queues, of("q", "g", 9)).await;
    assert_eq!((transactions(&rest), rest.messages[0].offset), (vec!["3"], 2));
    assert_eq!(statuses(&push(&queues, "q", "p", &["1"]).await), [Queued]);
}

/// A group whose cursor lies before removed messages continues with the remaining ones, without a move of the cursor.
#[tokio::test]
async fn a_cursor_before_removed_messages_continues() {
    let queues = Fixture::new().await;
    configure(&queues, "q", kept(60, 0)).await;
    assert!(now(&queues, of("q", "g", 1)).await.is_none());
    push(&queues, "q", "p", &["1"]).await;
    push(&queues, "q", "p", &["2"]).await;
    age(&queues, 100).await;
    assert_eq!(queues.retain().await.expect("retention"), 2);
    assert!(now(&queues, of("q", "g", 1)).await.is_none());
    assert_eq!(queues.groups(Some("g"), None).await.expect("listed")[0].lag, 0);
    push(&queues, "q", "p", &["3"]).await;
    let batch = soon(&queues, of("q", "g", 9)).await;
    assert_eq!((transactions(&batch), batch.messages[0].offset), (vec!["3"], 2));
}

/// Messages that every group has ended are removed when they are old enough; a slower group keeps them, and so does one
/// that has read half a segment.
#[tokio::test]
async fn messages_consumed_by_all_groups_are_removed() {
    let queues = Fixture::new().await;
    configure(&queues, "q", kept(0, 60)).await;
    for names in [["1", "2"], ["3", "4"]] {
        push(&queues, "q", "p", &names).await;
    }
    age(&queues, 100).await;
    assert_eq!(queues.retain().await.expect("retention"), 0, "no group has consumed it");
    end(&queues, &soon(&queues, of("q", "g", 4)).await, AckStatus::Completed).await;
    end(&queues, &soon(&queues, of("q", "slow", 3)).await, AckStatus::Completed).await;
    let held = soon(&queues, of("q", "slow", 1)).await;
    assert_eq!(queues.retain().await.expect("retention"), 2, "the second segment is still read");
    assert_eq!(stored(&queues).await, 2);
    end(&queues, &held, AckStatus::Completed).await;
    push(&queues, "q", "p", &["5"]).await;
    end(&queues, &soon(&queues, of("q", "g", 4)).await, AckStatus::Completed).await;
    end(&queues, &soon(&queues, of("q", "slow", 4)).await, AckStatus::Completed).await;
    assert_eq!(queues.retain().await.expect("retention"), 2, "the third is too young");
    assert_eq!(stored(&queues).await, 1);
}

/// Consumed messages must not stay for ever in a queue with default options: they are removed after a day. Messages
/// that a group has not consumed stay, and so do those that no group reads, and those of a queue with a longer setting.
/// Six queues with the same two messages, aged by two days.
#[tokio::test]
async fn consumed_messages_are_removed_after_a_day_by_default() {
    let queues = Fixture::new().await;
    let never = Change { consumed_retention_seconds: Some(0), ..Change::default() };
    let longer = Change { consumed_retention_seconds: Some(3 * 86_400), ..Change::default() };
    for (queue, change) in [("never", never), ("longer", longer), ("own", kept(0, 0))] {
        configure(&queues, queue, change).await;
    }
    for queue in ["default", "slow", "unread", "never", "longer", "own"] {
        for name in ["1", "2"] {
            push(&queues, queue, "p", &[name]).await;
        }
        if queue != "unread" {
            let pop = Pop { batch: 2, ..Pop::new(Source::queue(queue)) };
            end(&queues, &soon(&queues, pop).await, AckStatus::Completed).await;
        }
    }
    end(&queues, &soon(&queues, of("slow", "g", 1)).await, AckStatus::Completed).await;
    assert_eq!(queues.retain().await.expect("retention"), 0, "they are young");
    age(&queues, 2 * 86_400).await;
    assert_eq!(queues.retain().await.expect("retention"), 3, "both of one queue, and the first of what is read slowly");
    assert_eq!(transactions(&soon(&queues, of("slow", "g", 9)).await), ["2"]);
    assert!(now(&queues, of("default", "late", 9)).await.is_none(), "a new group starts with the remaining messages");
    assert_eq!(transactions(&soon(&queues, of("never", "late", 9)).await), ["1", "2"]);
}

/// Background retention must apply the defaults, too, without a request.
/// A consumed message that is two days old, of a queue with default options.
#[tokio::test]
async fn background_retention_applies_the_defaults() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1"]).await;
    end(&queues, &soon(&queues, of("q", "g", 1)).await, AckStatus::Completed).await;
    age(&queues, 2 * 86_400).await;
    let often = Duration::from_millis(20);
    let _house =
        queues.start_housekeeping(&RetentionOptions::default().retention_interval(often).eviction_interval(often));
    reveille_pg::testing::eventually("it goes", async || stored(&queues).await == 0).await;
}

/// `ttl` applies only if it is set; dead letters outlive it, traces of the messages do not.
#[tokio::test]
async fn a_ttl_applies_only_if_it_is_set() {
    let queues = Fixture::new().await;
    configure(&queues, "q", Change { ttl_seconds: Some(60), ..Change::default() }).await;
    configure(&queues, "never", Change::default()).await;
    let partition = push(&queues, "q", "p", &["1", "2"]).await[0].partition_id;
    push(&queues, "never", "p", &["1"]).await;
    let trace = NewTrace {
        transaction_id: "1".to_owned(),
        partition_id: partition,
        group: None,
        names: vec!["name".to_owned()],
        event_type: "info".to_owned(),
        data: json("1"),
        worker: None,
    };
    queues.add_trace(&trace).await.expect("noted");
    end(&queues, &soon(&queues, of("q", "g", 1)).await, AckStatus::DeadLetter).await;
    age(&queues, 100_000).await;
    assert_eq!(queues.retain().await.expect("retention"), 0, "the default does not apply");
    assert_eq!(queues.evict().await.expect("retention"), 2);
    assert_eq!(stored(&queues).await, 1);
    assert_eq!(queues.dead_letters_of(partition, "1").await.expect("asked").len(), 1);
    assert_eq!(queues.count("select count(*) from {schema}.trace").await, 0);
}

/// A group skips messages that have waited too long for it, except leased ones; other groups and younger messages are
/// not affected; without any group the messages are removed.
#[tokio::test]
async fn messages_that_waited_too_long_are_skipped() {
    let queues = Fixture::new().await;
    let change = Change { max_wait_time_seconds: Some(60), ..Change::default() };
    configure(&queues, "q", change.clone()).await;
    configure(&queues, "unread", change).await;
    push(&queues, "q", "p", &["1", "2"]).await;
    push(&queues, "unread", "p", &["1"]).await;
    end(&queues, &soon(&queues, of("q", "done", 9)).await, AckStatus::Completed).await;
    let held = soon(&queues, of("q", "busy", 1)).await;
    end(&queues, &soon(&queues, of("q", "slow", 1)).await, AckStatus::Failed).await;
    age(&queues, 100).await;
    push(&queues, "q", "p", &["3"]).await;
    assert_eq!(queues.evict().await.expect("retention"), 3, "two of slow, one without a group");
    assert_eq!(queues.evict().await.expect("retention"), 0);
    let next = soon(&queues, of("q", "slow", 9)).await;
    assert_eq!((transactions(&next), next.messages[0].retries), (vec!["3"], 0));
    end(&queues, &held, AckStatus::Completed).await;
    assert_eq!(queues.evict().await.expect("retention"), 1, "its lease has expired");
    assert_eq!(transactions(&soon(&queues, of("q", "busy", 9)).await), ["3"]);
    assert_eq!(transactions(&soon(&queues, of("q", "done", 9)).await), ["3"]);
    assert_eq!(
        queues.queues(Some("unread"), Page { limit: 1, offset: 0 }).await.expect("listed").rows[0].messages.total,
        0
    );
}

/// One run removes several steps, of one partition and of many; while another server runs retention, it does nothing.
#[tokio::test]
async fn retention_works_in_steps_on_one_server() {
    let queues = Fixture::new().await;
    configure(&queues, "q", kept(60, 0)).await;
    let many = (0..30).map(|n| message("q", &format!("p{n}"), "1")).collect();
    queues.push(many).await.expect("pushed");
    lengthen(&queues, "p0", 500).await;
    age(&queues, 100).await;
    let mut other = queues.db.database().begin().await.expect("a transaction");
    let lock = queues.db.schema().sql(include_str!("../../db/statements/lock_housekeeping.sql"));
    let ours: bool = sqlx::query_scalar(&lock).fetch_one(&mut *other).await.expect("asked");
    assert!(ours);
    assert_eq!(queues.retain().await.expect("nothing done"), 0);
    other.rollback().await.expect("rolled back");
    assert_eq!(queues.retain().await.expect("retention"), 530);
    assert_eq!(stored(&queues).await, 0);
    assert_eq!(queues.count("select max(first_offset) from {schema}.partition").await, 501);
}

/// The search for removable messages reads every partition, so it must not be repeated for every step of a long one.
/// One partition needs several steps, the others one; the searches for the end are counted.
#[tokio::test]
async fn removable_messages_are_searched_once() {
    let queues = Fixture::new().await;
    configure(&queues, "q", kept(60, 0)).await;
    queues.push((0..30).map(|n| message("q", &format!("p{n}"), "1")).collect()).await.expect("pushed");
    lengthen(&queues, "p3", 900).await;
    age(&queues, 100).await;
    let counting = queues.db.schema().sql(
        "create sequence {schema}.searched;
         create or replace function {schema}.offset_at(partition_id bigint, since timestamptz, head bigint) returns bigint language plpgsql volatile as $$ begin
             perform nextval('{schema}.searched');
             return head;
         end $$",
    );
    sqlx::raw_sql(&counting).execute(queues.db.database().pool()).await.expect("counted");
    assert_eq!(queues.retain().await.expect("retention"), 930);
    assert_eq!(queues.count("select last_value from {schema}.searched").await, 30, "once for each");
}

/// A partition that is locked often but briefly must not grow for ever, and one that is locked for long must not keep
/// the others from being cleaned. Two partitions are locked during retention, one of them briefly; the third is free.
#[tokio::test]
async fn retention_waits_for_a_busy_partition() {
    let queues = Fixture::new().await;
    configure(&queues, "q", kept(60, 0)).await;
    for partition in ["brief", "long", "free"] {
        push(&queues, "q", partition, &["1"]).await;
    }
    // Several steps.
    lengthen(&queues, "brief", 300).await;
    age(&queues, 100).await;
    let lock = queues.db.schema().sql("select id from {schema}.partition where name = $1 for no key update");
    let held = async |partition: &str| {
        let mut holder = queues.db.database().begin().await.expect("a transaction");
        sqlx::query(&lock).bind(partition).execute(&mut *holder).await.expect("locked");
        holder
    };
    let (brief, long) = (held("brief").await, held("long").await);
    let (removed, ()) = tokio::join!(queues.retain(), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        brief.commit().await.expect("committed");
    });
    assert_eq!(removed.expect("retention"), 302);
    assert_eq!(stored(&queues).await, 1);
    long.commit().await.expect("committed");
    assert_eq!(queues.retain().await.expect("retention"), 1);
}

/// While two processes push and read, retention runs all the time: consumers miss no unread message, the order is kept,
/// and offsets have no gap.
#[tokio::test(flavor = "multi_thread")]
async fn retention_while_consumers_read() {
    let here = Fixture::new().await;
    let there = Elsewhere::start(&here.db).await;
    configure(&here, "q", kept(0, 1)).await;
    assert!(now(&here, of("q", "g", 1)).await.is_none());
    let _house = here.start_housekeeping(
        &RetentionOptions::default()
            .retention_interval(Duration::from_millis(20))
            .eviction_interval(Duration::from_millis(20)),
    );
    let until = Instant::now() + Duration::from_secs(3);
    let producer = tokio::spawn({
        let queues = there.queues.clone();
        async move {
            let mut pushed = 0;
            while Instant::now() < until {
                push(&queues, "q", "p", &[&pushed.to_string(), &format!("{pushed} too")]).await;
                pushed += 1;
            }
            pushed * 2
        }
    });
    let reader = tokio::spawn({
        let queues = here.queues.clone();
        async move {
            let mut next = 0;
            let idle = || Some(Instant::now() + Duration::from_secs(2));
            while let Some(batch) = queues.pop(of("q", "g", 50), idle()).await.expect("a pop") {
                for message in &batch.messages {
                    assert_eq!(message.offset, next);
                    next += 1;
                }
                end(&queues, &batch, AckStatus::Completed).await;
            }
            next
        }
    });
    let pushed = tokio::time::timeout(PATIENCE, producer).await.expect("in time").expect("no panic");
    let read = tokio::time::timeout(PATIENCE, reader).await.expect("in time").expect("no panic");
    assert_eq!(read, pushed);
    reveille_pg::testing::eventually("all of it goes", async || stored(&here).await == 0).await;
}

/// Background retention runs until its handle is dropped.
#[tokio::test]
async fn background_retention_runs_until_it_is_dropped() {
    let queues = Fixture::new().await;
    configure(&queues, "q", Change { ttl_seconds: Some(60), ..kept(60, 0) }).await;
    let often = RetentionOptions::default()
        .retention_interval(Duration::from_millis(10))
        .eviction_interval(Duration::from_secs(3_600));
    let house = queues.start_housekeeping(&often);
    push(&queues, "q", "p", &["1"]).await;
    age(&queues, 100).await;
    // The change of times is not noticed by itself; other events of this process are.
    push(&queues, "other", "p", &["1"]).await;
    reveille_pg::testing::eventually("it goes", async || stored(&queues).await == 1).await;
    drop(house);
    push(&queues, "q", "p", &["2"]).await;
    age(&queues, 100).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(stored(&queues).await, 2);
}

/// Messages that become too old while the process is idle are removed in time, without earlier queries.
/// Messages live for two seconds, and retention may run every 20 ms. The server counts the queries for the next due
/// time.
#[tokio::test]
async fn messages_of_an_idle_queue_are_removed_in_time() {
    let db = reveille_pg::testing::TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    Queues::open(db.database().clone(), db.schema().clone(), Options::default()).await.expect("migrated");
    let queues = Queues::open(role.database().clone(), db.schema().clone(), Options::default()).await.expect("opened");
    queues.configure("q", None, None, &Change { ttl_seconds: Some(2), ..kept(2, 0) }).await.expect("configured");
    push(&queues, "q", "p", &["1"]).await;
    let _house = queues.start_housekeeping(
        &RetentionOptions::default()
            .retention_interval(Duration::from_millis(20))
            .eviction_interval(Duration::from_millis(20)),
    );
    let count = db.schema().sql("select count(*) from {schema}.segment");
    reveille_pg::testing::eventually("it goes", async || {
        sqlx::query_scalar::<_, i64>(&count).fetch_one(db.database().pool()).await.expect("a number") == 0
    })
    .await;
    // Found by their text: PostgreSQL 18 omits the comment that names them. A query at every occasion would be a
    // hundred. Wake-ups of the push, and the connecting listener, cause queries, too.
    let asked = role.calls_matching("min(least(").await + role.calls_matching("min(n.at)").await;
    assert!((2..40).contains(&asked), "asked {asked} times");
}

/// Retention removes the messages of a lease: they are not delivered again, and the partition is free when the lease
/// ends.
#[tokio::test]
async fn a_lease_on_removed_messages_expires() {
    let queues = Fixture::new().await;
    configure(&queues, "q", kept(60, 0)).await;
    push(&queues, "q", "p", &["1"]).await;
    let short = Pop { lease: Some(Duration::from_millis(300)), ..of("q", "g", 1) };
    assert!(now(&queues, short).await.is_some());
    age(&queues, 100).await;
    assert_eq!(queues.retain().await.expect("retention"), 1);
    push(&queues, "q", "p", &["2"]).await;
    let next = soon(&queues, of("q", "g", 9)).await;
    assert_eq!((transactions(&next), next.messages[0].retries), (vec!["2"], 0));
}

/// A group whose next messages were removed must continue with the remaining ones at once, for any batch size, without
/// a charge, and beside partitions with more messages.
/// Two partitions; a group fails the first message of one, which is then removed with others; it pops one message at a
/// time, from any partition and from this one.
#[tokio::test]
async fn a_group_before_removed_messages_continues() {
    for source in [Source::queue("q"), Source::partition("q", "p")] {
        let queues = Fixture::new().await;
        configure(&queues, "q", kept(60, 0)).await;
        let pop = || Pop { source: source.clone(), ..of("q", "g", 1) };
        for batch in 0..3 {
            let ids: Vec<String> = (0..5).map(|n| format!("{}", batch * 5 + n)).collect();
            push(&queues, "q", "p", &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
        }
        end(&queues, &soon(&queues, pop()).await, AckStatus::Failed).await;
        age(&queues, 100).await;
        push(&queues, "q", "p", &["15", "16"]).await;
        push(&queues, "q", "r", &["x"]).await;
        assert_eq!(queues.retain().await.expect("retention"), 15);
        let mut read = Vec::new();
        for _ in 0..if source == Source::queue("q") { 3 } else { 2 } {
            let batch = soon(&queues, pop()).await;
            assert_eq!(batch.messages[0].retries, 0, "the failed message was removed");
            read.push(transactions(&batch)[0].to_owned());
            end(&queues, &batch, AckStatus::Completed).await;
        }
        read.retain(|id| id != "x");
        assert_eq!(read, ["15", "16"], "{source:?}");
    }
}

/// Messages that were removed while they were leased must be ended by their ack, in any process.
/// A lease of two messages, both removed; acked in a process without the lease in its cache.
#[tokio::test]
async fn leased_messages_that_were_removed_can_be_acked() {
    let queues = Fixture::new().await;
    let elsewhere = Elsewhere::start(&queues.db).await;
    configure(&queues, "q", kept(60, 0)).await;
    push(&queues, "q", "p", &["1", "2"]).await;
    let batch = soon(&queues, of("q", "g", 2)).await;
    age(&queues, 100).await;
    push(&queues, "q", "p", &["3"]).await;
    assert_eq!(queues.retain().await.expect("retention"), 2);
    assert!(end(&elsewhere.queues, &batch, AckStatus::Completed).await.iter().all(|acked| acked.lease_released));
    assert_eq!(transactions(&soon(&queues, of("q", "g", 2)).await), ["3"]);
}
