//! Traces that consumers write about messages.

use std::time::Duration;

use reveille_queue::{Error, NewTrace, Page, PartitionId, Period};
use time::OffsetDateTime;

use crate::fixture::{Fixture, json, push};

const ALL: Page = Page { limit: 100, offset: 0 };

fn note(partition_id: PartitionId, transaction: &str, names: &[&str], data: &str) -> NewTrace {
    NewTrace {
        transaction_id: transaction.to_owned(),
        partition_id,
        group: Some("g".to_owned()),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        event_type: "info".to_owned(),
        data: json(data),
        worker: None,
    }
}

/// A trace is found by its message and by each of its names, once, unchanged.
#[tokio::test]
async fn traces_are_found_by_message_and_by_name() {
    let queues = Fixture::new().await;
    let partition = push(&queues, "q", "p", &["1"]).await[0].partition_id;
    let data = "{\"b\":1, \"a\":\"\\u0000 🐘\"}";
    queues
        .add_trace(&note(partition, "1", &["order 7", "user/x", "order 7"], data))
        .await
        .expect("noted")
        .expect("some");
    let plain = NewTrace { group: None, event_type: "error".to_owned(), ..note(partition, "1", &[], "null") };
    queues.add_trace(&plain).await.expect("noted").expect("some");
    queues.add_trace(&note(partition, "2", &["order 7"], "2")).await.expect("noted").expect("some");
    let of_message = queues.traces(partition, "1", ALL).await.expect("listed");
    assert_eq!((of_message.total, of_message.rows.len()), (2, 2));
    let [first, second] = &of_message.rows[..] else { panic!("two traces") };
    assert_eq!((first.data.get(), &first.names), (data, &vec!["order 7".to_owned(), "user/x".to_owned()]));
    assert_eq!((first.queue.as_str(), first.partition.as_str(), first.group.as_str()), ("q", "p", "g"));
    assert_eq!((second.group.as_str(), second.event_type.as_str()), (reveille_queue::QUEUE_MODE, "error"));
    let named = queues.traces_named("order 7", Period::default(), ALL).await.expect("listed");
    let messages: Vec<&str> = named.rows.iter().map(|trace| trace.transaction_id.as_str()).collect();
    assert_eq!((messages, named.total), (vec!["1", "2"], 2));
    let page = queues.traces_named("order 7", Period::default(), Page { limit: 1, offset: 1 }).await.expect("listed");
    assert_eq!((page.rows.len(), page.total), (1, 2));
    assert_eq!(queues.traces_named("order", Period::default(), ALL).await.expect("listed").total, 0);
}

/// Names are found by a part of them and by time, the latest first, with their number of traces.
#[tokio::test]
async fn names_of_traces_are_found() {
    let queues = Fixture::new().await;
    let partition = push(&queues, "q", "p", &["1"]).await[0].partition_id;
    for transaction in ["1", "2"] {
        queues.add_trace(&note(partition, transaction, &["Order"], "1")).await.expect("noted");
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    let middle = OffsetDateTime::now_utc();
    tokio::time::sleep(Duration::from_millis(10)).await;
    queues.add_trace(&note(partition, "2", &["user"], "1")).await.expect("noted");
    let names = async |search: Option<&str>, period: Period| {
        let listed = queues.trace_names(search, period, ALL).await.expect("listed");
        listed.rows.into_iter().map(|name| (name.name, name.traces, name.messages)).collect::<Vec<_>>()
    };
    let (order, user) = (("Order".to_owned(), 2, 2), ("user".to_owned(), 1, 1));
    assert_eq!(names(None, Period::default()).await, [user.clone(), order.clone()]);
    assert_eq!(names(Some("oRD"), Period::default()).await, vec![order.clone()]);
    assert_eq!(names(None, Period { from: Some(middle), before: None }).await, [user]);
    assert_eq!(names(None, Period { from: None, before: Some(middle) }).await, [order]);
}

/// An invalid trace is rejected by name; an unknown partition is reported; the traces of a deleted queue are deleted
/// with it.
#[tokio::test]
async fn traces_belong_to_a_partition() {
    let queues = Fixture::new().await;
    let others = Fixture::new().await;
    let partition = push(&queues, "q", "p", &["1"]).await[0].partition_id;
    let foreign = push(&others, "q", "p", &["1"]).await[0].partition_id;
    assert_eq!(queues.add_trace(&note(foreign, "1", &[], "1")).await.expect("asked"), None);
    for (what, trace) in [
        ("transactionId", note(partition, "", &[], "1")),
        ("traceNames", note(partition, "1", &["a\0b"], "1")),
        ("traceNames", note(partition, "1", &vec!["x"; 101], "1")),
        ("eventType", NewTrace { event_type: "x".repeat(2_000), ..note(partition, "1", &[], "1") }),
    ] {
        let refused = queues.add_trace(&trace).await;
        assert!(matches!(&refused, Err(Error::Invalid { what: named, .. }) if *named == what), "{refused:?}");
    }
    queues.add_trace(&note(partition, "1", &["name"], "1")).await.expect("noted");
    queues.delete_queue("q").await.expect("deleted");
    assert_eq!(queues.traces(partition, "1", ALL).await.expect("listed").total, 0);
    assert_eq!(queues.count("select count(*) from {schema}.trace_name").await, 0);
}
