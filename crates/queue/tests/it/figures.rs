//! What operators watch: depth, lag, age and dead letters, bounded in number and free while nothing happens.

use std::time::Duration;

use reveille_pg::testing::{TestDb, eventually};
use reveille_queue::{AckStatus, Figures, GroupFigures, Options, QueueFigures, Queues};

use crate::fixture::{Fixture, end, of, push, soon};

/// Figures that fulfil a condition. A reading is repeated after a pause, so it is asked for again and again.
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
    figures.queues.iter().find(|one| one.queue.as_deref() == Some(name)).expect("the queue is told by itself")
}

fn group<'a>(figures: &'a Figures, queue: &str, name: &str) -> &'a GroupFigures {
    let wanted = (queue.to_owned(), name.to_owned());
    figures.groups.iter().find(|one| one.group.as_ref() == Some(&wanted)).expect("the group is told by itself")
}

/// Depth, lag, age and dead letters are those of the queue and of each of its groups; a queue without groups has all its messages waiting.
/// Two groups read a queue to different places, one gives a message up; the messages are made older.
#[tokio::test]
async fn figures_tell_what_waits_and_for_whom() {
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
    // Made older behind the back of this process, so something has to happen in it.
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

/// However many queues and groups there are, only the largest are told by themselves; nothing of the others is missing from the sum.
/// Six queues of one to six messages with a group each, of which two may be told.
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
    let told: Vec<_> = figures.queues.iter().map(|one| (one.queue.as_deref(), one.queues, one.depth)).collect();
    assert_eq!(told, [(Some("q6"), 1, 6), (Some("q5"), 1, 5), (None, 4, 10)]);
    let lags: Vec<_> = figures.groups.iter().map(|one| one.group.as_ref().map(|(queue, _)| queue.as_str())).collect();
    assert_eq!(lags, [Some("q6"), Some("q5"), None]);
    assert_eq!(figures.groups.iter().map(|one| one.lag).sum::<u64>(), 21);
    assert!(figures.queues.iter().all(|one| one.oldest.is_some()));
}

/// Figures that are asked for all the time cost nothing while nothing happens, and are read again when another process has written.
/// The server counts the statements of the role; another pool writes.
#[tokio::test]
async fn figures_of_an_idle_process_are_answered_from_memory() {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let open = |database: reveille_pg::Database| Queues::open(database, db.schema().clone(), Options::default());
    let writer = open(db.database().clone()).await.expect("migrated");
    push(&writer, "q", "p", &["1"]).await;
    let queues = open(role.database().clone()).await.expect("opened");
    eventually("it hears", async || queues.health().is_connected()).await;
    figures(&queues, 10, |figures| figures.queues.iter().any(|one| one.depth == 1)).await;
    // What began to hear may have been after the reading: one more is allowed, once.
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
