//! Pauses of queues and consumer groups.

use reveille_queue::{AckStatus, Pop, Source};

use crate::fixture::{Elsewhere, Fixture, end, now, of, push, soon, transactions, until_waiting};

/// A paused group gets nothing, other groups of the queue do. What the group has leased may be acked. Resumed, it
/// continues with the next message.
#[tokio::test]
async fn a_paused_group_gets_nothing() {
    let queues = Fixture::new().await;
    push(&queues, "q", "a", &["1", "2"]).await;
    let leased = soon(&queues, of("q", "g", 1)).await;
    assert!(queues.pause_group("q", "g", true).await.expect("paused"));
    end(&queues, &leased, AckStatus::Completed).await;
    assert!(now(&queues, of("q", "g", 9)).await.is_none(), "paused");
    let of_partition = Pop { source: Source::partition("q", "a"), ..of("q", "g", 9) };
    assert!(now(&queues, of_partition).await.is_none(), "also its partitions");
    assert_eq!(soon(&queues, of("q", "other", 9)).await.messages.len(), 2);
    assert!(queues.pause_group("q", "g", false).await.expect("resumed"));
    assert_eq!(transactions(&soon(&queues, of("q", "g", 9)).await), ["2"]);
    assert!(!queues.pause_group("q", "nothing", true).await.expect("asked"), "there is no such group");
}

/// A paused queue gives nothing to any group, also not to new ones, and not by its namespace. Repeated pauses are one.
#[tokio::test]
async fn a_paused_queue_gives_nothing() {
    let queues = Fixture::new().await;
    push(&queues, "shop.orders", "a", &["1"]).await;
    for _ in 0..2 {
        assert!(queues.pause_queue("shop.orders", true).await.expect("paused"));
    }
    push(&queues, "shop.orders", "a", &["2"]).await;
    let by_namespace =
        || Pop { source: Source::Space { namespace: Some("shop".to_owned()), task: None }, ..of("", "g", 9) };
    for pop in [of("shop.orders", "g", 9), of("shop.orders", "new", 9), by_namespace()] {
        assert!(now(&queues, pop).await.is_none());
    }
    assert!(queues.pause_queue("shop.orders", false).await.expect("resumed"));
    assert_eq!(transactions(&soon(&queues, by_namespace()).await), ["1", "2"]);
    assert!(!queues.pause_queue("nothing", true).await.expect("asked"), "there is no such queue");
}

/// The end of a pause must wake the pops that wait, in this process and in others.
/// Two processes wait for a paused queue and a paused group; a third resumes them.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_pause_wakes_waiting_pops() {
    let queues = Fixture::new().await;
    let elsewhere = Elsewhere::start(&queues.db).await;
    for queue in ["queue", "group"] {
        push(&queues, queue, "a", &["1"]).await;
        end(&queues, &soon(&queues, of(queue, "g", 9)).await, AckStatus::Completed).await;
    }
    assert!(queues.pause_queue("queue", true).await.expect("paused"));
    assert!(queues.pause_group("group", "g", true).await.expect("paused"));
    let wait = async |queue: &str| transactions(&soon(&elsewhere.queues, of(queue, "g", 9)).await).join(" ");
    let resume = async {
        until_waiting(&elsewhere.queues, 2).await;
        push(&queues, "queue", "a", &["2"]).await;
        push(&queues, "group", "a", &["2"]).await;
        queues.pause_queue("queue", false).await.expect("resumed");
        queues.pause_group("group", "g", false).await.expect("resumed");
    };
    let (of_queue, of_group, ()) = tokio::join!(wait("queue"), wait("group"), resume);
    assert_eq!((of_queue.as_str(), of_group.as_str()), ("2", "2"));
}
