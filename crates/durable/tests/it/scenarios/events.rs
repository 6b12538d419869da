//! Events and messages from outside.

use duroxide::{EventKind, OrchestrationContext, OrchestrationRegistry};
use tokio::task::JoinSet;

use super::Two;
use crate::fixture::eventually;

/// An event that is raised in one process wakes an orchestration in whichever has it.
/// Three events are waited for one after the other, raised from alternating sides once each is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_reaches_an_orchestration_that_waits_for_it() {
    let waits = |ctx: OrchestrationContext, _: String| async move {
        let mut heard = Vec::new();
        for name in ["first", "second", "third"] {
            heard.push(ctx.schedule_wait(name).await);
        }
        Ok(heard.join(" "))
    };
    let two = Two::without_activities(OrchestrationRegistry::builder().register("waits", waits).build()).await;
    two.here.begin("waits", "waits", "").await;
    for (number, name) in ["first", "second", "third"].into_iter().enumerate() {
        let waiting = |kind: &EventKind| matches!(kind, EventKind::ExternalSubscribed { name: of } if of == name);
        two.until("waits", "it waits", waiting).await;
        let from = if number % 2 == 0 { &two.there } else { &two.here };
        from.client.raise_event("waits", name, number.to_string()).await.expect("raised");
    }
    assert_eq!(two.output("waits").await, "0 1 2");
    assert_eq!(two.finish().await, 1);
}

/// An event raised before the start of its orchestration waits for it, is delivered, and blocks nothing meanwhile.
/// It is raised first; another orchestration begins and ends; then the one it is for is started, in the other process.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_raised_before_the_start_waits_for_it() {
    let waits = |ctx: OrchestrationContext, _: String| async move { Ok(ctx.schedule_wait("go").await) };
    let ends = |_: OrchestrationContext, _: String| async move { Ok(String::new()) };
    let orchestrations = OrchestrationRegistry::builder().register("waits", waits).register("ends", ends).build();
    let two = Two::without_activities(orchestrations).await;
    two.here.client.raise_event("later", "go", "early").await.expect("raised");
    eventually("it is put aside", async || {
        two.count("select count(*) from {schema}.orchestrator_queue where visible_at = 'infinity'").await == 1
    })
    .await;
    two.here.begin("another", "ends", "").await;
    two.output("another").await;
    two.there.begin("later", "waits", "").await;
    assert_eq!(two.output("later").await, "early");
    let history = two.history("later", 1).await;
    let events = history.iter().filter(|event| matches!(event.kind, EventKind::ExternalEvent { .. }));
    assert_eq!(events.count(), 1);
    assert_eq!(two.finish().await, 2);
}

/// Messages of a queue are read in the order they were sent, each once; queues do not mix.
/// Two queues are filled from two sides at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn queues_are_read_in_order_and_do_not_mix() {
    const MESSAGES: usize = 20;
    let reads = |ctx: OrchestrationContext, _: String| async move {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for _ in 0..MESSAGES {
            left.push(ctx.dequeue_event("left").await);
            right.push(ctx.dequeue_event("right").await);
        }
        Ok(format!("{} | {}", left.join(" "), right.join(" ")))
    };
    let two = Two::without_activities(OrchestrationRegistry::builder().register("reads", reads).build()).await;
    two.here.begin("reads", "reads", "").await;
    let mut senders = JoinSet::new();
    for (queue, client) in [("left", two.here.client.clone()), ("right", two.there.client.clone())] {
        senders.spawn(async move {
            for number in 0..MESSAGES {
                client.enqueue_event("reads", queue, format!("{queue}{number}")).await.expect("sent");
            }
        });
    }
    senders.join_all().await;
    let expected = |queue: &str| (0..MESSAGES).map(|number| format!("{queue}{number}")).collect::<Vec<_>>().join(" ");
    assert_eq!(two.output("reads").await, format!("{} | {}", expected("left"), expected("right")));
    assert_eq!(two.finish().await, 1);
}

/// A message to the queue of an instance that does not exist is dropped, and is not there when it comes to exist.
/// The message is sent and gone before the instance is started; the instance reads what was sent afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_message_to_a_missing_instance_is_dropped() {
    let reads = |ctx: OrchestrationContext, _: String| async move { Ok(ctx.dequeue_event("queue").await) };
    let two = Two::without_activities(OrchestrationRegistry::builder().register("reads", reads).build()).await;
    two.there.client.enqueue_event("reads", "queue", "too early").await.expect("sent");
    eventually("it is dropped", async || two.count("select count(*) from {schema}.orchestrator_queue").await == 0)
        .await;
    two.here.begin("reads", "reads", "").await;
    two.until("reads", "it waits", |kind| matches!(kind, EventKind::QueueSubscribed { .. })).await;
    two.there.client.enqueue_event("reads", "queue", "in time").await.expect("sent");
    assert_eq!(two.output("reads").await, "in time");
    assert_eq!(two.finish().await, 1);
}
