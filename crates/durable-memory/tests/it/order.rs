//! Which instance or item a fetch gives, on a clock that only the test moves.

use std::time::Duration;

use duroxide::providers::{Provider, WorkItem};
use reveille_durable_memory::{Clock, MemoryProvider, Polling};

use crate::items::{
    LEASE, activity, activity_id, begin, fetch, fetch_work, mail, owner, raised, send, send_later, start,
};

const SECOND: Duration = Duration::from_secs(1);

fn stopped() -> MemoryProvider {
    MemoryProvider::with_clock(Polling::Short, Clock::stopped())
}

async fn fetched(provider: &MemoryProvider) -> Option<String> {
    fetch(provider, Duration::ZERO).await.map(|(item, ..)| item.instance)
}

fn data(messages: &[WorkItem]) -> Vec<&str> {
    let carried = messages.iter().filter_map(|item| match item {
        WorkItem::ExternalRaised { data, .. } | WorkItem::QueueMessage { data, .. } => Some(data.as_str()),
        _ => None,
    });
    carried.collect()
}

/// Instances come by due time and then by arrival, not by arrival alone.
/// One start is put off beyond two that arrive later; at one time all three are due.
#[tokio::test]
async fn instances_come_by_due_time_then_by_arrival() {
    let provider = stopped();
    send_later(&provider, start("late"), 2 * SECOND).await;
    send_later(&provider, start("first"), SECOND).await;
    send_later(&provider, start("second"), SECOND).await;
    assert_eq!(fetched(&provider).await, None, "nothing is due yet");
    provider.clock().advance(2 * SECOND);
    for expected in ["first", "second", "late"] {
        assert_eq!(fetched(&provider).await.as_deref(), Some(expected));
    }
    assert_eq!(fetched(&provider).await, None, "all are held");
}

/// A message that was put off still goes before what arrived after it, once both are in one turn.
/// A first turn is abandoned with a delay, a second message arrives meanwhile, then both are fetched together.
#[tokio::test]
async fn messages_of_a_turn_come_in_order_of_arrival() {
    let provider = stopped();
    begin(&provider, "a").await;
    send(&provider, raised("a", "one")).await;
    let (_, token, _) = fetch(&provider, Duration::ZERO).await.unwrap();
    provider.abandon_orchestration_item(&token, Some(SECOND), false).await.unwrap();
    send_later(&provider, raised("a", "two"), SECOND / 2).await;
    provider.clock().advance(SECOND);
    let (item, _, attempts) = fetch(&provider, Duration::ZERO).await.unwrap();
    assert_eq!(data(&item.messages), ["one", "two"]);
    assert_eq!(attempts, 2, "the most claimed message counts");
}

/// A crashed worker needs no recovery: the end of its lease is the next due time.
/// A lease is left to end to the microsecond; until then there is nothing, from then on the same message with a new
/// token.
#[tokio::test]
async fn the_end_of_a_lease_is_a_due_time() {
    let provider = stopped();
    send(&provider, start("a")).await;
    let (_, lost, _) = fetch(&provider, Duration::ZERO).await.unwrap();
    provider.clock().advance(LEASE - Duration::from_micros(1));
    assert_eq!(fetched(&provider).await, None);
    provider.clock().advance(Duration::from_micros(1));
    assert!(provider.renew_orchestration_item_lock(&lost, LEASE).await.is_err(), "it has ended");
    let (_, token, attempts) = fetch(&provider, Duration::ZERO).await.unwrap();
    assert_eq!(attempts, 2);
    assert!(provider.abandon_orchestration_item(&lost, None, false).await.is_err(), "another holds it");
    provider.abandon_orchestration_item(&token, None, false).await.unwrap();
}

/// An instance given back without a delay is first again, and one that is put off is not.
/// Of two due instances the first is fetched and given back both ways.
#[tokio::test]
async fn a_returned_instance_keeps_its_due_time() {
    let provider = stopped();
    send(&provider, start("a")).await;
    send(&provider, start("b")).await;
    let (_, token, _) = fetch(&provider, Duration::ZERO).await.unwrap();
    provider.abandon_orchestration_item(&token, None, true).await.unwrap();
    let (again, token, attempts) = fetch(&provider, Duration::ZERO).await.unwrap();
    assert_eq!((again.instance.as_str(), attempts), ("a", 1), "first again, and not charged");
    provider.abandon_orchestration_item(&token, Some(SECOND), false).await.unwrap();
    assert_eq!(fetched(&provider).await.as_deref(), Some("b"));
    assert_eq!(fetched(&provider).await, None, "a is put off");
}

/// An item given back without a delay is first again, and one whose lease has ended stands at that end.
/// Of three items one is given back, one is lost, and one arrives between the claim and the end of the lost lease.
#[tokio::test]
async fn a_returned_item_keeps_its_due_time_and_a_lost_one_gets_the_end_of_its_lease() {
    let provider = stopped();
    for id in [1, 2] {
        provider.enqueue_for_worker(activity(id, None)).await.unwrap();
    }
    let (_, first, _) = fetch_work(&provider, Duration::ZERO, None).await.unwrap();
    provider.abandon_work_item(&first, None, true).await.unwrap();
    let (lost, _, attempts) = fetch_work(&provider, Duration::ZERO, None).await.unwrap();
    assert_eq!((activity_id(&lost), attempts), (1, 1), "first again, and not charged");
    provider.clock().advance(SECOND);
    provider.enqueue_for_worker(activity(3, None)).await.unwrap();
    provider.clock().advance(LEASE);
    for expected in [2, 3, 1] {
        let (item, ..) = fetch_work(&provider, Duration::ZERO, None).await.unwrap();
        // 3 arrived a second after the claim, 29 before the end of the lease.
        assert_eq!(activity_id(&item), expected);
    }
}

/// Messages to an instance that has not been started wait for its start, and do not wake waiters.
/// An event arrives first; another instance is fetched past it, uncharged; then the start lets it through.
#[tokio::test]
async fn messages_before_a_start_do_not_block_others() {
    let provider = stopped();
    send(&provider, raised("early", "one")).await;
    send(&provider, mail("early", "two")).await;
    send(&provider, start("other")).await;
    assert_eq!(fetched(&provider).await.as_deref(), Some("other"));
    assert_eq!(fetched(&provider).await, None);
    send(&provider, start("early")).await;
    let (item, _, attempts) = fetch(&provider, Duration::ZERO).await.unwrap();
    assert_eq!((data(&item.messages), item.messages.len(), attempts), (vec!["one", "two"], 3, 1));
}

/// Queue messages to an instance that has not been started are dropped, unless a start is queued.
/// One start is put off and its mail survives a fetch; the other instance has no start and its mail does not.
#[tokio::test]
async fn mail_is_dropped_only_where_no_start_is_under_way() {
    let provider = stopped();
    send_later(&provider, start("begun"), SECOND).await;
    send(&provider, mail("begun", "kept")).await;
    send(&provider, mail("absent", "dropped")).await;
    assert_eq!(fetched(&provider).await, None);
    send(&provider, start("absent")).await;
    provider.clock().advance(SECOND);
    let (absent, ..) = fetch(&provider, Duration::ZERO).await.unwrap();
    assert_eq!((absent.instance.as_str(), absent.messages.len()), ("absent", 1));
    let (begun, ..) = fetch(&provider, Duration::ZERO).await.unwrap();
    assert_eq!((begun.instance.as_str(), data(&begun.messages)), ("begun", vec!["kept"]));
}

/// The items of a session go to its owner until its lock expires, and then to any worker.
/// One owner claims the first of two items; another gets the second only when the lock has ended.
#[tokio::test]
async fn a_session_changes_hands_when_its_lock_ends() {
    let provider = stopped();
    let (one, two) = (owner("one", SECOND), owner("two", SECOND));
    for id in [1, 2] {
        provider.enqueue_for_worker(activity(id, Some("s"))).await.unwrap();
    }
    assert!(fetch_work(&provider, Duration::ZERO, None).await.is_none(), "no sessions were asked for");
    assert!(fetch_work(&provider, Duration::ZERO, Some(&one)).await.is_some());
    assert!(fetch_work(&provider, Duration::ZERO, Some(&two)).await.is_none());
    provider.clock().advance(SECOND);
    let (item, ..) = fetch_work(&provider, Duration::ZERO, Some(&two)).await.unwrap();
    assert_eq!(activity_id(&item), 2);
}
