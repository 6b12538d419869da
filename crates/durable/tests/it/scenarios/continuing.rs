//! Executions that continue as new.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{EventKind, OrchestrationContext, OrchestrationRegistry};

use super::Two;

/// A loop by continuing as new runs once per execution, each with a history of its own.
/// Every execution has an activity; ten loops run side by side.
#[tokio::test(flavor = "multi_thread")]
async fn each_round_of_a_loop_is_an_execution_of_its_own() {
    const LOOPS: usize = 10;
    const ROUNDS: u64 = 6;
    let round = |ctx: OrchestrationContext, input: String| async move {
        let next = ctx.schedule_activity("increase", input).await?;
        if next == ROUNDS.to_string() { Ok(next) } else { ctx.continue_as_new(next).await }
    };
    let increase = |_, input: String| async move {
        let number: u64 = input.parse().map_err(|error| format!("{error}"))?;
        Ok((number + 1).to_string())
    };
    let activities = ActivityRegistry::builder().register("increase", increase).build();
    let orchestrations = OrchestrationRegistry::builder().register("round", round).build();
    let two = Two::start(activities, orchestrations).await;
    for number in 0..LOOPS {
        let from = if number % 2 == 0 { &two.here } else { &two.there };
        from.begin(&format!("loop-{number}"), "round", "0").await;
    }
    for number in 0..LOOPS {
        let instance = format!("loop-{number}");
        assert_eq!(two.output(&instance).await, ROUNDS.to_string());
        let executions = two.there.client.list_executions(&instance).await.expect("its executions");
        assert_eq!(executions, (1..=ROUNDS).collect::<Vec<_>>());
        for execution in executions {
            let history = two.history(&instance, execution).await;
            let (first, last) = (&history[0].kind, &history[history.len() - 1].kind);
            let begun =
                matches!(first, EventKind::OrchestrationStarted { input, .. } if *input == (execution - 1).to_string());
            assert!(begun, "{first:?}");
            match last {
                EventKind::OrchestrationContinuedAsNew { input } => assert_eq!(*input, execution.to_string()),
                EventKind::OrchestrationCompleted { .. } => assert_eq!(execution, ROUNDS),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(two.finish().await, LOOPS * ROUNDS as usize);
}

/// Messages that an execution has not read are there for the next, in their order.
/// Every execution reads one; the messages are sent in advance, from both sides.
#[tokio::test(flavor = "multi_thread")]
async fn unread_messages_pass_to_the_next_execution() {
    const MESSAGES: usize = 6;
    let reader = |ctx: OrchestrationContext, input: String| async move {
        let read = format!("{input}{}", ctx.dequeue_event("letters").await);
        if read.len() == MESSAGES { Ok(read) } else { ctx.continue_as_new(read).await }
    };
    let orchestrations = OrchestrationRegistry::builder().register("reader", reader).build();
    let two = Two::without_activities(orchestrations).await;
    two.here.begin("reader", "reader", "").await;
    for (number, letter) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
        let client = if number % 2 == 0 { &two.here.client } else { &two.there.client };
        client.enqueue_event("reader", "letters", letter).await.expect("sent");
    }
    assert_eq!(two.output("reader").await, "abcdef");
    assert_eq!(two.finish().await, MESSAGES);
}
