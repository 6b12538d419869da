//! Queues, partitions and their state.

use std::time::Duration;

use reveille_queue::{AckStatus, Change, Counts, Page, Pop, QUEUE_MODE, Source};

use crate::fixture::{Fixture, end, now, of, push, soon};

const ALL: Page = Page { limit: 100, offset: 0 };

fn counts(pending: u64, processing: u64, completed: u64) -> Counts {
    Counts { total: pending + processing + completed, pending, processing, completed }
}

/// The counts follow the messages: pushed, leased, ended by one group, ended by both; an expired lease does not count
/// as processing.
#[tokio::test]
async fn counts_follow_the_messages() {
    let queues = Fixture::new().await;
    let state = async || queues.queues(None, ALL).await.expect("listed").rows.remove(0).messages;
    push(&queues, "q", "a", &["1", "2", "3"]).await;
    push(&queues, "q", "b", &["1"]).await;
    queues.set("q", "charge_expired_leases = false").await;
    assert_eq!(state().await, counts(4, 0, 0), "no group reads");
    let of_a = |group, batch| Pop { source: Source::partition("q", "a"), ..of("q", group, batch) };
    let first = now(&queues, of_a("g", 2)).await.expect("messages");
    assert_eq!(state().await, counts(2, 2, 0));
    end(&queues, &first, AckStatus::Completed).await;
    assert_eq!(state().await, counts(2, 0, 2));
    let short = Pop { lease: Some(Duration::from_millis(1)), ..of_a("other", 3) };
    let other = now(&queues, short).await.expect("messages");
    reveille_pg::testing::eventually("the lease ends", async || state().await == counts(4, 0, 0)).await;
    let again = soon(&queues, of_a("other", 3)).await;
    assert_eq!(again.messages.len(), other.messages.len());
    end(&queues, &again, AckStatus::Completed).await;
    assert_eq!(state().await, counts(2, 0, 2), "the slower group counts");
    queues.clear("q", Some("a")).await.expect("cleared");
    assert_eq!(state().await, counts(1, 0, 0));
}

/// Queues are found by a part of their name, page by page, with their total number; wildcards of patterns match only
/// themselves.
#[tokio::test]
async fn queues_are_found_by_part_of_their_name() {
    let queues = Fixture::new().await;
    for queue in ["shop.Orders", "shop.mail", "bank.orders", "100%_x"] {
        push(&queues, queue, "p", &["1"]).await;
    }
    let names = async |search: Option<&str>, page: Page| {
        let listed = queues.queues(search, page).await.expect("listed");
        (listed.rows.into_iter().map(|queue| queue.name).collect::<Vec<_>>(), listed.total)
    };
    assert_eq!(names(Some("ORDERS"), ALL).await, (vec!["bank.orders".to_owned(), "shop.Orders".to_owned()], 2));
    assert_eq!(names(Some("%_"), ALL).await, (vec!["100%_x".to_owned()], 1));
    assert_eq!(names(Some("\0"), ALL).await, (vec![], 0));
    let (second, total) = names(None, Page { limit: 1, offset: 1 }).await;
    assert_eq!((second, total), (vec!["bank.orders".to_owned()], 4));
    let spaces = queues.namespaces().await.expect("listed");
    let spaces: Vec<_> = spaces.iter().map(|space| (space.name.as_str(), space.queues, space.messages.total)).collect();
    assert_eq!(spaces, [("bank", 1, 1), ("shop", 2, 2)]);
    let tasks = queues.tasks().await.expect("listed");
    let mut tasks: Vec<_> = tasks.iter().map(|task| (task.name.as_str(), task.queues)).collect();
    // The order of capitals depends on the database.
    tasks.sort();
    assert_eq!(tasks, [("Orders", 1), ("mail", 1), ("orders", 1)]);
}

/// A partition is shown with the position of each group, its lease and end, and the failures.
#[tokio::test]
async fn partitions_are_shown_with_their_leases() {
    let queues = Fixture::new().await;
    queues.configure("q", None, None, &Change { retry_limit: Some(9), ..Change::default() }).await.expect("configured");
    push(&queues, "q", "a", &["1", "2", "3"]).await;
    let refused = soon(&queues, of("q", "g", 3)).await;
    end(&queues, &refused, AckStatus::Failed).await;
    let held = soon(&queues, of("q", "g", 2)).await;
    assert!(now(&queues, of("q", "idle", 3)).await.is_some());
    let detail = queues.queue("q", Some("a"), ALL).await.expect("asked").expect("a queue");
    assert_eq!((detail.queue.settings.retry_limit, detail.dead_letters, detail.groups.len()), (9, 0, 2));
    assert_eq!((detail.partitions.total, detail.queue.partitions), (1, 2));
    let partition = &detail.partitions.rows[0];
    assert_eq!((partition.id, partition.name.as_str()), (held.messages[0].partition_id, "a"));
    assert_eq!((partition.first_offset, partition.head), (0, 3));
    assert!(partition.pushed_at.is_some());
    let [ours, idle] = &partition.cursors[..] else { panic!("two groups: {partition:?}") };
    assert_eq!((ours.group.as_str(), ours.position, ours.lag, ours.leased, ours.retries), ("g", 0, 3, 2, 1));
    assert_eq!(ours.lease_id, held.lease_id);
    assert!(ours.due_at > ours.read_at && ours.lag_seconds > 0.0, "{ours:?}");
    assert_eq!((idle.group.as_str(), idle.leased), ("idle", 3));
    end(&queues, &held, AckStatus::Completed).await;
    let all = queues.partitions(None, None, ALL).await.expect("listed");
    assert_eq!(all.rows.iter().map(|partition| partition.name.as_str()).collect::<Vec<_>>(), ["Default", "a"]);
    let ours = &all.rows[1].cursors[0];
    assert_eq!((ours.position, ours.lag, ours.lease_id, ours.retries), (2, 1, None, 0));
    assert_eq!(all.rows[0].cursors[0].due_at, None, "until the next push");
    assert_eq!(queues.queue("nothing", None, ALL).await.expect("asked"), None);
}

/// Depth counts the messages that wait for a group, by partition; for an unknown group it counts all.
#[tokio::test]
async fn depth_counts_the_messages_of_a_group() {
    let queues = Fixture::new().await;
    push(&queues, "q", "a", &["1", "2"]).await;
    push(&queues, "q", "b", &["1"]).await;
    let one = now(&queues, Pop { source: Source::partition("q", "a"), ..of("q", "g", 2) }).await.expect("messages");
    end(&queues, &one, AckStatus::Completed).await;
    let depth = queues.depth("q", Some("g")).await.expect("asked").expect("a queue");
    assert_eq!((depth.pending, depth.partitions), (1, vec![("b".to_owned(), 1)]));
    let no_group = queues.depth("q", None).await.expect("asked").expect("a queue");
    assert_eq!((no_group.group.as_str(), no_group.pending, no_group.partitions.len()), (QUEUE_MODE, 3, 2));
    assert_eq!(queues.depth("nothing", None).await.expect("asked"), None);
}

/// The overview sums up all queues, and is zero without any.
#[tokio::test]
async fn the_overview_adds_up() {
    let queues = Fixture::new().await;
    let empty = queues.overview().await.expect("counted");
    assert_eq!((empty.queues, empty.partitions, empty.messages, empty.leases), (0, 0, counts(0, 0, 0), 0));
    push(&queues, "shop.orders", "a", &["1", "2"]).await;
    push(&queues, "mail", "a", &["1"]).await;
    end(&queues, &soon(&queues, of("mail", "g", 1)).await, AckStatus::DeadLetter).await;
    soon(&queues, of("shop.orders", "g", 1)).await;
    let overview = queues.overview().await.expect("counted");
    assert_eq!((overview.queues, overview.namespaces, overview.tasks, overview.partitions), (2, 1, 1, 2));
    assert_eq!((overview.groups, overview.leases, overview.dead_letters), (1, 1, 1));
    assert_eq!(overview.messages, counts(1, 1, 1));
}
