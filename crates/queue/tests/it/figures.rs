//! Statistics for operators: depth, lag, age and dead letters, bounded in number and without statements while idle.

use std::time::Duration;

use reveille_pg::testing::{TestDb, eventually};
use reveille_queue::{AckStatus, Figures, GroupFigures, Options, QueueFigures, Queues};

use crate::fixture::{Fixture, end, of, push, soon};

/// Waits for statistics that fulfil a condition. They are read again only after a pause, so the test repeats the
/// request.
async fn figures(queues: &Queues, top: u32, wanted: impl Fn(&Figures) -> bool) -> Figures {
    let mut found = Figures::default();
    eventually("the figures are as wanted", async || {
        found = queues.figures(top).await.map(|aged| (*aged.value).clone()).unwrap_or_default();
        wanted(&found)
    })
    .await;
    found
}

fn queue<'a>(figures: &'a Figures, name: &str) -> &'a QueueFigures {
    figures.queues.iter().find(|one| one.queue.as_deref() == Some(name)).expect("the queue has statistics of its own")
}

fn group<'a>(figures: &'a Figures, queue: &str, name: &str) -> &'a GroupFigures {
    let wanted = (queue.to_owned(), name.to_owned());
    figures.groups.iter().find(|one| one.group.as_ref() == Some(&wanted)).expect("the group has statistics of its own")
}

/// Depth, lag, age and dead letters are reported for the queue and for each of its groups; in a queue without groups
/// all messages count. Two groups read a queue to different positions, one makes a dead letter; the messages are made
/// older.
#[tokio::test]
async fn statistics_are_reported_per_queue_and_group() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2", "3"]).await;
    push(&queues, "q", "r", &["4"]).await;
    push(&queues, "unread", "p", &["5", "6"]).await;
    for (name, batch) in [("fast", 3), ("slow", 1)] {
        let pop = reveille_queue::Pop { source: reveille_queue::Source::partition("q", "p"), ..of("q", name, batch) };
        let status = if name == "slow" { AckStatus::DeadLetter } else { AckStatus::Completed };
        end(&queues, &soon(&queues, pop).await, status).await;
    }
    let older = "with older as (update {schema}.segment set created_at = created_at - interval '100 s' returning 1)
                 select count(*) from older";
    queues.count(older).await;
    // Changed in the table only, so this process needs an event to read again.
    push(&queues, "young", "p", &["7"]).await;

    let figures = figures(&queues, 10, |figures| figures.queues.len() == 3).await;
    let q = queue(&figures, "q");
    assert_eq!((q.partitions, q.depth, q.dead_letters), (2, 3, 1));
    assert!(q.oldest.is_some_and(|age| age >= Duration::from_secs(100)), "{q:?}");
    assert_eq!((queue(&figures, "unread").depth, queue(&figures, "unread").dead_letters), (2, 0));
    assert!(queue(&figures, "young").oldest.is_some_and(|age| age < Duration::from_secs(100)));
    assert_eq!((group(&figures, "q", "fast").lag, group(&figures, "q", "slow").lag), (1, 3));
    assert!(group(&figures, "q", "slow").oldest.is_some_and(|age| age >= Duration::from_secs(100)));
    assert_eq!(figures.groups.len(), 2, "the others have no groups");
}

/// Only the largest queues and groups have statistics of their own; the others are included in the sum.
/// Six queues of one to six messages with a group each, of which two have statistics of their own.
#[tokio::test]
async fn small_queues_are_summed_up() {
    let queues = Fixture::new().await;
    for size in 1..=6_u32 {
        let ids: Vec<String> = (0..=size).map(|id| id.to_string()).collect();
        let name = format!("q{size}");
        push(&queues, &name, "p", &ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
        end(&queues, &soon(&queues, of(&name, "g", 1)).await, AckStatus::Completed).await;
    }
    let figures = figures(&queues, 2, |figures| figures.queues.iter().map(|one| one.depth).sum::<u64>() == 21).await;
    let shown: Vec<_> = figures.queues.iter().map(|one| (one.queue.as_deref(), one.queues, one.depth)).collect();
    assert_eq!(shown, [(Some("q6"), 1, 6), (Some("q5"), 1, 5), (None, 4, 10)]);
    let lags: Vec<_> = figures.groups.iter().map(|one| one.group.as_ref().map(|(queue, _)| queue.as_str())).collect();
    assert_eq!(lags, [Some("q6"), Some("q5"), None]);
    assert_eq!(figures.groups.iter().map(|one| one.lag).sum::<u64>(), 21);
    assert!(figures.queues.iter().all(|one| one.oldest.is_some()));
}

/// Repeated requests for statistics send no statements while idle, and read again when another process has written.
/// The server counts the statements of the role; another pool writes.
#[tokio::test]
async fn statistics_of_an_idle_process_come_from_memory() {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let open = |database: reveille_pg::Database| Queues::open(database, db.schema().clone(), Options::default());
    let writer = open(db.database().clone()).await.expect("migrated");
    push(&writer, "q", "p", &["1"]).await;
    let queues = open(role.database().clone()).await.expect("opened");
    eventually("it hears", async || queues.health().is_connected()).await;
    figures(&queues, 10, |figures| figures.queues.iter().any(|one| one.depth == 1)).await;
    // The listener may have connected after the first read: one more read is allowed.
    eventually("a hundred readings without a statement", async || {
        let before = role.statements().await;
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        for _ in 0..100 {
            assert!(queues.figures(10).await.is_some());
        }
        role.statements().await == before
    })
    .await;
    push(&writer, "q", "p", &["2"]).await;
    figures(&queues, 10, |figures| figures.queues.iter().any(|one| one.depth == 2)).await;
}
