//! Order is commit order, and every message is delivered exactly once.

use std::collections::HashMap;

use reveille_queue::{AckStatus, NewMessage, Pop, PushStatus, Source};
use tokio::time::Instant;

use crate::fixture::{Elsewhere, Fixture, PATIENCE, end, json, message, now, of};

/// Producers of two processes push to few partitions while consumers of two groups read: each group gets every message
/// once, each producer's messages in order, and offsets have no gap.
#[tokio::test(flavor = "multi_thread")]
async fn every_group_reads_everything_in_order() {
    const PRODUCERS: usize = 6;
    const EACH: usize = 60;
    let here = Fixture::new().await;
    let there = Elsewhere::start(&here.db).await;
    let both = [here.queues.clone(), there.queues.clone()];
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let queues = both[producer % 2].clone();
            tokio::spawn(async move {
                for number in 0..EACH {
                    let partition = format!("p{}", producer % 3);
                    queues.push(vec![message("q", &partition, &format!("{producer}:{number}"))]).await.expect("pushed");
                }
            })
        })
        .collect();
    let mut readers = Vec::new();
    for group in ["a", "b"] {
        for queues in &both {
            let queues = queues.clone();
            readers.push(tokio::spawn(async move {
                let mut read: Vec<(String, i64, String)> = Vec::new();
                let idle = || Some(Instant::now() + std::time::Duration::from_secs(3));
                loop {
                    let batch = match queues.pop(Pop { partitions: 2, ..of("q", group, 5) }, idle()).await {
                        Ok(Some(batch)) => batch,
                        Ok(None) => break,
                        // On a busy machine a lease may have expired: its messages are redelivered.
                        Err(error) if error.is_transient() => continue,
                        Err(error) => panic!("{error}"),
                    };
                    for message in &batch.messages {
                        read.push((message.partition.clone(), message.offset, message.transaction_id.clone()));
                    }
                    end(&queues, &batch, AckStatus::Completed).await;
                }
                (group, read)
            }));
        }
    }
    for producer in producers {
        tokio::time::timeout(PATIENCE, producer).await.expect("in time").expect("no panic");
    }
    let mut groups: HashMap<&str, Vec<(String, i64, String)>> = HashMap::new();
    for reader in readers {
        let (group, read) = tokio::time::timeout(PATIENCE, reader).await.expect("in time").expect("no panic");
        groups.entry(group).or_default().extend(read);
    }
    for (group, mut read) in groups {
        read.sort();
        assert_eq!(read.len(), PRODUCERS * EACH, "{group} reads each once");
        let mut next: HashMap<String, i64> = HashMap::new();
        let mut numbers: HashMap<String, usize> = HashMap::new();
        for (partition, offset, transaction) in read {
            let expected = next.entry(partition).or_default();
            assert_eq!(offset, *expected, "{group}");
            *expected += 1;
            let (producer, number) = transaction.split_once(':').expect("producer and number");
            let expected = numbers.entry(producer.to_owned()).or_default();
            assert_eq!(number, expected.to_string(), "{group} reads {producer} in order");
            *expected += 1;
        }
    }
}

/// A pop of one message reads its whole segment, so a large push must not become one large segment.
/// Messages of several sizes for two partitions in one call: they are delivered in order, without gaps, from segments
/// that are bounded unless they hold a single message; and all of them are in the dedup cache.
#[tokio::test]
async fn a_large_push_is_stored_in_bounded_segments() {
    let queues = Fixture::new().await;
    let sized = |number: usize| {
        let bytes = [10, 5_000, 300_000][number % 17 / 8];
        let (partition, payload) =
            (if number.is_multiple_of(5) { "few" } else { "many" }, format!("\"{}\"", "x".repeat(bytes)));
        NewMessage { payload: json(&payload), ..message("q", partition, &number.to_string()) }
    };
    let messages = || (0..200).map(sized).collect::<Vec<_>>();
    assert!(queues.push(messages()).await.expect("pushed").iter().all(|pushed| pushed.status == PushStatus::Queued));
    assert!(queues.push(messages()).await.expect("pushed").iter().all(|pushed| pushed.status == PushStatus::Duplicate));
    let large =
        "select count(*) from {schema}.segment where cardinality(ids) > 1 and pg_column_size(payloads) > 256 * 1024";
    assert_eq!(queues.count(large).await, 0);
    assert!(
        queues.count("select max(cardinality(ids))::bigint from {schema}.segment").await > 10,
        "packed all the same"
    );
    let gaps = "select count(*) from (select first_offset, lag(next_offset, 1, 0::bigint) over (partition by partition_id order by first_offset) as before \
                from {schema}.segment) s where first_offset <> before";
    assert_eq!(queues.count(gaps).await, 0);
    for partition in ["few", "many"] {
        let batch = now(&queues, Pop { source: Source::partition("q", partition), ..of("q", "g", 500) }).await;
        let batch = batch.expect("messages");
        let expected = messages().into_iter().filter(|message| message.partition.as_deref() == Some(partition));
        let expected: Vec<_> = expected.map(|message| (message.transaction_id, message.payload.get().len())).collect();
        let read = batch.messages.iter();
        let read: Vec<_> = read.map(|read| (Some(read.transaction_id.clone()), read.payload.get().len())).collect();
        assert_eq!(read, expected);
    }
}
