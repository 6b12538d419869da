//! Pops: which consumer gets which messages, and when.

use std::time::Duration;

use reveille_queue::{AckStatus, BATCH_MAX, Change, Error, Options, Pop, Source, Subscription};
use time::OffsetDateTime;
use tokio::time::{Instant, timeout};

use crate::fixture::{
    Elsewhere, Fixture, PATIENCE, SHORT_TIME, end, json, message, now, of, push, soon, transactions, until_waiting,
};

/// All fields of a message are returned unchanged, the payload byte by byte.
#[tokio::test]
async fn a_message_is_returned_unchanged() {
    let queues = Fixture::new().await;
    let payloads = ["null", "{}", "{\"b\":1, \"a\": [1.0e2, \"\\u0000 🐘\"]}", "\"text\"", "0", "false"];
    let mut messages = Vec::new();
    for payload in payloads {
        let mut message = message("shop.orders", "a/b \"c\" 🐘", payload);
        message.payload = json(payload);
        messages.push(message);
    }
    messages[1].trace_id = Some("trace".to_owned());
    messages[2].producer = Some("billing".to_owned());
    let pushed = queues.push(messages).await.expect("pushed");
    let batch = soon(&queues, of("shop.orders", "g", BATCH_MAX)).await;
    let back: Vec<&str> = batch.messages.iter().map(|message| message.payload.get()).collect();
    assert_eq!(back, payloads);
    assert_eq!(transactions(&batch), payloads);
    let [first, second, third, ..] = &batch.messages[..] else { panic!("six messages") };
    assert_eq!((first.id, first.partition_id), (pushed[0].message_id, pushed[0].partition_id));
    assert_eq!((first.trace_id.as_deref(), second.trace_id.as_deref()), (None, Some("trace")));
    assert_eq!((second.producer.as_deref(), third.producer.as_deref()), (None, Some("billing")));
    assert_eq!((first.queue.as_str(), first.partition.as_str()), ("shop.orders", "a/b \"c\" 🐘"));
    assert!((OffsetDateTime::now_utc() - first.created_at).abs() < PATIENCE, "{}", first.created_at);
}

/// While a partition is leased no other consumer of the group gets it; the end of the lease frees it.
#[tokio::test]
async fn a_leased_partition_is_not_delivered_twice() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2", "3"]).await;
    let batch = now(&queues, of("q", "g", 2)).await.expect("two messages");
    assert_eq!(transactions(&batch), ["1", "2"]);
    assert!(now(&queues, of("q", "g", 2)).await.is_none(), "leased");
    assert!(now(&queues, of("q", "other", 2)).await.is_some(), "leased to g only");
    end(&queues, &batch, AckStatus::Completed).await;
    assert_eq!(transactions(&soon(&queues, of("q", "g", 2)).await), ["3"]);
}

/// The messages of an expired lease are redelivered in the same order, to a waiting pop, without any other event.
#[tokio::test]
async fn the_end_of_a_lease_wakes_waiting_pops() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2"]).await;
    let short = Pop { lease: Some(Duration::from_millis(200)), ..of("q", "g", 10) };
    let first = now(&queues, short).await.expect("messages");
    let since = Instant::now();
    let again = soon(&queues, of("q", "g", 10)).await;
    assert!(since.elapsed() < Duration::from_secs(20), "at the end of the lease, not at a fallback");
    assert_eq!((transactions(&first), transactions(&again)), (vec!["1", "2"], vec!["1"]), "one at a time");
    assert_eq!(again.messages[0].retries, 1);
    assert_ne!(again.lease_id, first.lease_id);
}

/// An extended lease lasts longer, and an expired lease cannot be extended.
#[tokio::test]
async fn a_lease_can_be_extended() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1"]).await;
    let short = Pop { lease: Some(SHORT_TIME), ..of("q", "g", 10) };
    let batch = now(&queues, short).await.expect("a message");
    let lease = batch.lease_id.expect("a lease");
    let extended = queues.extend(lease, Some(Duration::from_secs(60))).await.expect("extended").expect("alive");
    assert!(extended.until > OffsetDateTime::now_utc() + Duration::from_secs(50));
    assert_eq!(extended.partitions, 1);
    let shorter = queues.extend(lease, Some(Duration::from_secs(1))).await.expect("asked").expect("alive");
    assert_eq!(shorter.until, extended.until, "it never becomes shorter");
    let waited = queues.pop(of("q", "g", 1), Some(Instant::now() + SHORT_TIME * 2)).await.expect("a pop");
    assert!(waited.is_none(), "leased after its first end");
    end(&queues, &batch, AckStatus::Completed).await;
    assert_eq!(queues.extend(lease, None).await.expect("asked"), None);
}

/// A pop that waits is woken by a push of this process and of another, before any poll could.
#[tokio::test]
async fn a_push_wakes_a_waiting_pop_here_and_elsewhere() {
    let here = Fixture::new().await;
    let there = Elsewhere::start(&here.db).await;
    for (round, queues) in [&here.queues, &there.queues].into_iter().enumerate() {
        for source in [Source::queue("q"), Source::partition("q", "p")] {
            let name = format!("{round} {source:?}");
            let pop = Pop { source, ..of("q", "g", 1) };
            let (batch, ()) = tokio::join!(soon(queues, pop), async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                push(&here, "q", "p", &[&name]).await;
            });
            assert_eq!(transactions(&batch), [name]);
            end(queues, &batch, AckStatus::Completed).await;
        }
    }
}

/// Waiters of one queue get a partition each, by one claim.
#[tokio::test]
async fn many_waiters_are_one_claim() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p0", &["warm"]).await;
    end(&queues, &soon(&queues, of("q", "g", 1)).await, AckStatus::Completed).await;
    let waiters: Vec<_> = (0..20)
        .map(|_| {
            let queues = queues.queues.clone();
            tokio::spawn(async move { soon(&queues, of("q", "g", 10)).await })
        })
        .collect();
    reveille_pg::testing::eventually("all wait", async || {
        queues.health().consumers.iter().map(|consumer| consumer.waiters).sum::<usize>() == 20
    })
    .await;
    let before = queues.pops().polls;
    let names: Vec<String> = (0..20).map(|n| format!("p{n}")).collect();
    let messages = names.iter().flat_map(|name| ["a", "b"].map(|which| message("q", name, which)));
    queues.push(messages.collect()).await.expect("pushed");
    let mut partitions = Vec::new();
    for waiter in waiters {
        let batch = timeout(PATIENCE, waiter).await.expect("in time").expect("no panic");
        assert_eq!(transactions(&batch), ["a", "b"]);
        partitions.push(batch.messages[0].partition.clone());
    }
    partitions.sort();
    partitions.dedup();
    assert_eq!(partitions.len(), 20, "a partition each");
    let polls = queues.pops().polls - before;
    assert!(polls <= 5, "{polls} polls for 20 waiters");
}

/// A pop may take several partitions under one lease, and no more messages than its batch.
#[tokio::test]
async fn a_pop_of_several_partitions() {
    let queues = Fixture::new().await;
    for partition in ["a", "b", "c", "d"] {
        push(&queues, "q", partition, &["1", "2"]).await;
    }
    let wide = Pop { partitions: 3, ..of("q", "g", 5) };
    let batch = now(&queues, wide.clone()).await.expect("messages");
    assert_eq!((batch.partitions, transactions(&batch)), (3, vec!["1", "2", "1", "2", "1"]));
    let rest = now(&queues, wide).await.expect("messages");
    assert_eq!((rest.partitions, transactions(&rest)), (1, vec!["1", "2"]), "the others are leased");
    assert_eq!(
        queues.extend(batch.lease_id.expect("a lease"), None).await.expect("asked").expect("alive").partitions,
        3
    );
    end(&queues, &batch, AckStatus::Completed).await;
    assert_eq!(transactions(&soon(&queues, of("q", "g", 5)).await), ["2"], "of the partition with a rest");
}

/// The partition that has waited longest is delivered first: none starves, however busy the others are.
#[tokio::test]
async fn partitions_are_delivered_in_turn() {
    let queues = Fixture::new().await;
    for partition in ["a", "b", "c"] {
        push(&queues, "q", partition, &["1", "2", "3"]).await;
    }
    let mut order = Vec::new();
    for _ in 0..9 {
        let batch = now(&queues, of("q", "g", 1)).await.expect("a message");
        order.push(batch.messages[0].partition.clone());
        end(&queues, &batch, AckStatus::Completed).await;
    }
    let round: Vec<String> = order[..3].to_vec();
    let mut sorted = round.clone();
    sorted.sort();
    assert_eq!(sorted, ["a", "b", "c"]);
    assert_eq!(order, [round.clone(), round.clone(), round].concat());
}

/// A group starts at the position of its first pop; later positions are ignored.
#[tokio::test]
async fn a_group_starts_where_it_subscribed() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1"]).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let between = OffsetDateTime::now_utc();
    tokio::time::sleep(Duration::from_millis(20)).await;
    push(&queues, "q", "p", &["2"]).await;
    let with = |group: &str, subscription| Pop { subscription, ..of("q", group, 10) };
    assert!(now(&queues, with("new", Subscription::New)).await.is_none());
    let since = now(&queues, with("since", Subscription::Since(between))).await.expect("one message");
    assert_eq!(transactions(&since), ["2"]);
    let all = now(&queues, with("all", Subscription::All)).await.expect("both");
    assert_eq!(transactions(&all), ["1", "2"]);
    push(&queues, "q", "p", &["3"]).await;
    push(&queues, "q", "later", &["4"]).await;
    let mut new = transactions(&soon(&queues, with("new", Subscription::All)).await).join(" ");
    new += transactions(&soon(&queues, with("new", Subscription::All)).await).join(" ").as_str();
    assert!(["34", "43"].contains(&new.as_str()), "{new}");
}

/// Pops with autoAck need no ack and have no lease.
#[tokio::test]
async fn auto_ack_consumes_with_the_pop() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2", "3"]).await;
    let auto = Pop { auto_ack: true, ..of("q", "g", 2) };
    let batch = now(&queues, auto.clone()).await.expect("messages");
    assert_eq!((batch.lease_id, transactions(&batch)), (None, vec!["1", "2"]));
    assert_eq!(transactions(&now(&queues, auto.clone()).await.expect("the rest")), ["3"]);
    assert!(now(&queues, auto).await.is_none());
}

/// A process must not consume what it cannot decrypt.
/// One without the key pops an encrypted queue with autoAck; then one with the key pops.
#[tokio::test]
async fn auto_ack_consumes_nothing_that_cannot_be_decrypted() {
    let queues = Fixture::with(Options::default().encryption_keys(vec![[7; 32]])).await;
    let without = Elsewhere::start(&queues.db).await;
    let sealed = Change { encryption_enabled: Some(true), ..Change::default() };
    queues.configure("q", None, None, &sealed).await.expect("configured");
    push(&queues, "q", "p", &["1", "2"]).await;
    let auto = Pop { auto_ack: true, ..of("q", "g", 2) };
    for _ in 0..2 {
        let blind = without.queues.pop(auto.clone(), Some(Instant::now() + PATIENCE)).await;
        assert!(matches!(blind, Err(Error::WrongKey { .. })), "{blind:?}");
    }
    assert_eq!(transactions(&soon(&queues, auto).await), ["1", "2"]);
}

/// With autoAck the partitions that were consumed must be delivered, also if the lease of another one was lost.
/// A trigger ends the lease of one partition as soon as it is granted, as a seek would.
#[tokio::test]
async fn auto_ack_delivers_what_it_has_consumed() {
    let queues = Fixture::new().await;
    for partition in ["a", "b", "c"] {
        push(&queues, "q", partition, &["1", "2"]).await;
    }
    let seek = queues.db.schema().sql(
        "create function {schema}.lose() returns trigger language plpgsql as $$ begin
             update {schema}.cursor c set version = c.version + 1, lease_id = null, lease_end = null, due_at = 'infinity'
             from {schema}.partition p where p.id = c.partition_id and p.name = 'b' and c.partition_id = new.partition_id and c.version = new.version;
             return null;
         end $$;
         create trigger lose after update on {schema}.cursor for each row when (new.lease_id is not null) execute function {schema}.lose()",
    );
    sqlx::raw_sql(&seek).execute(queues.db.database().pool()).await.expect("a trigger");
    let auto = |batch| Pop { auto_ack: true, partitions: 3, ..of("q", "g", batch) };
    let batch = now(&queues, auto(9)).await.expect("messages");
    let mut names: Vec<_> = batch.messages.iter().map(|message| message.partition.as_str()).collect();
    names.dedup();
    assert_eq!((batch.partitions, names, transactions(&batch)), (2, vec!["a", "c"], vec!["1", "2", "1", "2"]));
    assert!(now(&queues, auto(9)).await.is_none());
    assert_eq!(queues.count("select count(*) from {schema}.cursor where position = 0").await, 1, "b is unchanged");
}

/// Messages claimed for a pop that is dropped at that time are released at once, and not after their lease.
/// Many pops are dropped at random times while messages come; then all messages are popped.
#[tokio::test(flavor = "multi_thread")]
async fn messages_of_a_dropped_pop_are_released() {
    let queues = Fixture::new().await;
    let names: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let mut had = 0;
    for name in &names {
        let popper = tokio::spawn({
            let queues = queues.queues.clone();
            async move { queues.pop(of("q", "g", 1), Some(Instant::now() + PATIENCE)).await }
        });
        let pushed = async {
            push(&queues, "q", "p", &[name]).await;
        };
        let dropped = async {
            tokio::time::sleep(Duration::from_micros(fastrand::u64(0..4_000))).await;
            popper.abort();
        };
        tokio::join!(pushed, dropped);
        // A pop that was faster has it.
        if let Ok(Ok(Some(batch))) = popper.await {
            had += 1;
            end(&queues, &batch, AckStatus::Completed).await;
        }
    }
    while had < names.len() {
        had += soon(&queues, Pop { auto_ack: true, ..of("q", "g", 100) }).await.messages.len();
    }
    assert_eq!(had, names.len(), "each once");
}

/// A namespace or task is read across its queues, in the order of their priority, including queues created later.
#[tokio::test]
async fn a_namespace_is_read_by_priority() {
    let queues = Fixture::new().await;
    let space = |namespace: Option<&str>, task: Option<&str>| Pop {
        source: Source::Space { namespace: namespace.map(str::to_owned), task: task.map(str::to_owned) },
        ..of("", "g", 10)
    };
    push(&queues, "shop.mail", "p", &["low"]).await;
    push(&queues, "shop.orders.eu", "p", &["high"]).await;
    push(&queues, "bank.orders", "p", &["other"]).await;
    queues.set("shop.orders.eu", "priority = 5").await;
    let first = now(&queues, space(Some("shop"), None)).await.expect("a message");
    assert_eq!(transactions(&first), ["high"]);
    let second = now(&queues, space(Some("shop"), None)).await.expect("a message");
    assert_eq!(transactions(&second), ["low"]);
    let task = now(&queues, space(None, Some("orders"))).await.expect("a message");
    assert_eq!(transactions(&task), ["other"]);
    end(&queues, &first, AckStatus::Completed).await;
    let (batch, ()) = tokio::join!(soon(&queues, space(Some("shop"), Some("new"))), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        push(&queues, "shop.new.thing", "p", &["born"]).await;
    });
    assert_eq!(transactions(&batch), ["born"]);
    let neither = queues.pop(space(None, None), None).await;
    assert!(matches!(neither, Err(Error::Invalid { what: "namespace", .. })), "{neither:?}");
}

/// A delayed message is delivered when its delay has passed, without any other event.
#[tokio::test]
async fn delayed_messages_are_delivered_when_due() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["0"]).await;
    end(&queues, &soon(&queues, of("q", "g", 1)).await, AckStatus::Completed).await;
    queues.set("q", "delayed_processing_seconds = 1").await;
    let since = Instant::now();
    push(&queues, "q", "p", &["1"]).await;
    assert!(now(&queues, of("q", "g", 1)).await.is_none());
    assert_eq!(transactions(&soon(&queues, of("q", "g", 1)).await), ["1"]);
    let waited = since.elapsed();
    assert!(waited >= Duration::from_millis(990) && waited < Duration::from_secs(20), "{waited:?}");
}

/// A partition is not delivered while its newest message is younger than the window.
#[tokio::test]
async fn a_window_waits_for_a_pause_in_pushes() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["0"]).await;
    end(&queues, &soon(&queues, of("q", "g", 1)).await, AckStatus::Completed).await;
    queues.set("q", "window_buffer_seconds = 1").await;
    push(&queues, "q", "p", &["1"]).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    let since = Instant::now();
    push(&queues, "q", "p", &["2"]).await;
    let batch = soon(&queues, of("q", "g", 10)).await;
    assert_eq!(transactions(&batch), ["1", "2"]);
    let waited = since.elapsed();
    assert!(waited >= Duration::from_millis(990) && waited < Duration::from_secs(20), "{waited:?}");
}

/// If the window ends before the delay, no poll may run in between.
/// A new group finds a message that is older than the window and younger than the delay, and waits for it.
#[tokio::test]
async fn a_delay_longer_than_the_window_causes_no_polls() {
    let queues = Fixture::new().await;
    let since = Instant::now();
    push(&queues, "q", "p", &["1"]).await;
    queues.set("q", "delayed_processing_seconds = 4, window_buffer_seconds = 1").await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert!(now(&queues, of("q", "g", 1)).await.is_none());
    let later = "select count(*) from {schema}.cursor where due_at > now() + interval '1 s'";
    assert_eq!(queues.count(later).await, 1, "no poll before that");
    assert_eq!(transactions(&soon(&queues, of("q", "g", 1)).await), ["1"]);
    let waited = since.elapsed();
    assert!(waited >= Duration::from_millis(3_900) && waited < Duration::from_secs(20), "{waited:?}");
}

/// A pop that waits for new messages must get the first message of a queue that did not exist when the wait began, and
/// none that existed before it. One pop waits for an absent queue, another starts after its first message.
#[tokio::test]
async fn a_pop_of_an_absent_queue_gets_its_first_message() {
    let queues = Fixture::new().await;
    let new = |group: &str| Pop { subscription: Subscription::New, ..of("q", group, 9) };
    let waiting = soon(&queues, new("early"));
    let pushed = async {
        reveille_pg::testing::eventually("an empty poll", async || queues.pops().empty_polls >= 1).await;
        push(&queues, "q", "p", &["1"]).await
    };
    let (batch, _) = tokio::join!(waiting, pushed);
    assert_eq!(transactions(&batch), ["1"]);
    assert!(now(&queues, new("late")).await.is_none());
}

/// A queue that moves to another namespace must wake the pops that wait there, also from a process with the old
/// settings.
/// Two processes push to a queue; one moves it; the other pushes again.
#[tokio::test]
async fn a_moved_queue_wakes_pops_of_its_new_namespace() {
    let queues = Fixture::new().await;
    let elsewhere = Elsewhere::start(&queues.db).await;
    push(&queues, "q", "p", &["1"]).await;
    push(&elsewhere.queues, "q", "p", &["2"]).await;
    queues.configure("q", Some("moved"), None, &reveille_queue::Change::default()).await.expect("configured");
    let source = Source::Space { namespace: Some("moved".to_owned()), task: None };
    let there = || Pop { batch: 9, ..Pop::new(source.clone()) };
    let first = soon(&queues, there()).await;
    assert_eq!(transactions(&first), ["1", "2"]);
    end(&queues, &first, AckStatus::Completed).await;
    let waiting = soon(&queues, there());
    let pushed = async {
        until_waiting(&queues, 1).await;
        push(&elsewhere.queues, "q", "p", &["3"]).await
    };
    let (batch, _) = tokio::join!(waiting, pushed);
    assert_eq!(transactions(&batch), ["3"]);
}
