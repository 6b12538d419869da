//! The limit of an answer in bytes, for every request.

use reveille_queue::{AckStatus, Batch, DeadLetterFilter, NewMessage, NewTrace, Page, Period, Pop};
use serde_json::value::to_raw_value;

use crate::fixture::{Fixture, end, json, now, of, soon};

/// The documented limit of one answer.
const BOUND: usize = 16 << 20;
const MEGABYTE: usize = 1 << 20;

fn large(queue: &str, partition: &str, bytes: usize) -> NewMessage {
    let payload = to_raw_value(&"x".repeat(bytes)).expect("text is JSON");
    NewMessage { partition: Some(partition.to_owned()), ..NewMessage::new(queue, payload) }
}

fn bytes(batch: &Batch) -> usize {
    batch.messages.iter().map(|message| message.payload.get().len()).sum()
}

/// A pop of many partitions must not return more bytes than the limit, and the rest must not be leased.
/// More partitions with a large message each than fit into one answer: the first pop is full, and the next one gets the
/// rest at once.
#[tokio::test]
async fn an_answer_over_many_partitions_is_bounded() {
    const PARTITIONS: usize = 20;
    let queues = Fixture::new().await;
    let all = (0..PARTITIONS).map(|number| large("q", &number.to_string(), MEGABYTE)).collect();
    queues.push(all).await.expect("pushed");
    let wide = || Pop { partitions: 1_000, ..of("q", "g", 10_000) };
    let first = soon(&queues, wide()).await;
    assert!((BOUND / 2..=BOUND).contains(&bytes(&first)), "{}", bytes(&first));
    let second = now(&queues, wide()).await.expect("the rest is not leased");
    assert_eq!(first.messages.len() + second.messages.len(), PARTITIONS);
}

/// The same for one partition: the rest is delivered when the first part is acked. For small messages, their other
/// fields count as well.
#[tokio::test]
async fn an_answer_of_one_partition_is_bounded() {
    let queues = Fixture::new().await;
    for _ in 0..20 {
        queues.push(vec![large("q", "p", MEGABYTE)]).await.expect("pushed");
    }
    let first = soon(&queues, of("q", "g", 10_000)).await;
    assert!((BOUND / 2..=BOUND).contains(&bytes(&first)), "{}", bytes(&first));
    end(&queues, &first, AckStatus::Completed).await;
    assert_eq!(first.messages.len() + soon(&queues, of("q", "g", 10_000)).await.messages.len(), 20);
}

/// A message that is larger than the limit must still be delivered, alone, by either way to claim it.
#[tokio::test]
async fn a_message_larger_than_an_answer_is_delivered_alone() {
    let queues = Fixture::new().await;
    queues.push(vec![large("q", "a", BOUND + MEGABYTE)]).await.expect("pushed");
    queues.push(vec![large("q", "a", 1), large("q", "b", 1)]).await.expect("pushed");
    for (group, partitions) in [("g", 1), ("h", 1_000)] {
        let batch = soon(&queues, Pop { partitions, ..of("q", group, 10) }).await;
        assert_eq!(batch.messages.len(), 1);
        assert!(bytes(&batch) > BOUND);
        assert!(now(&queues, Pop { partitions, ..of("q", group, 10) }).await.is_some(), "the other partition is free");
    }
}

/// A page of dead letters, and of traces, must not have more bytes than the limit; paging must find all of them.
/// Large ones, more than fit; then the dead letters are replayed, which reads them in portions as well.
#[tokio::test]
async fn pages_with_payloads_are_bounded() {
    const LETTERS: usize = 20;
    let queues = Fixture::new().await;
    let all = (0..LETTERS).map(|number| large("q", &number.to_string(), MEGABYTE)).collect();
    let pushed = queues.push(all).await.expect("pushed");
    for _ in 0..2 {
        let batch = soon(&queues, Pop { partitions: 1_000, ..of("q", "g", 10_000) }).await;
        end(&queues, &batch, AckStatus::DeadLetter).await;
    }
    let data = json(&format!("{{\"text\": \"{}\"}}", "x".repeat(MEGABYTE)));
    for _ in 0..LETTERS {
        let trace = NewTrace {
            transaction_id: "t".to_owned(),
            partition_id: pushed[0].partition_id,
            group: None,
            event_type: "info".to_owned(),
            data: data.clone(),
            worker: None,
            names: vec!["n".to_owned()],
        };
        queues.add_trace(&trace).await.expect("noted").expect("a partition");
    }
    let rest = |pages: &[usize]| Page { limit: 1_000, offset: pages.iter().sum::<usize>() as u32 };
    let (mut letters, mut traces, mut named) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..2 {
        let page = queues.dead_letters(&DeadLetterFilter::default(), rest(&letters)).await.expect("listed");
        assert_eq!(page.total, LETTERS as u64);
        letters.push(page.rows.len());
        let page = queues.traces(pushed[0].partition_id, "t", rest(&traces)).await.expect("listed");
        traces.push(page.rows.len());
        let page = queues.traces_named("n", Period::default(), rest(&named)).await.expect("listed");
        named.push(page.rows.len());
    }
    for pages in [letters, traces, named] {
        assert!(pages.iter().all(|rows| (1..16).contains(rows)) && pages.iter().sum::<usize>() == LETTERS, "{pages:?}");
    }
    let replayed = queues.replay(&DeadLetterFilter::default()).await.expect("replayed");
    assert_eq!((replayed.replayed, replayed.skipped.len()), (LETTERS, 0));
}
