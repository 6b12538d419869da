//! The registry of waiters: many waiters, and more than are allowed.

use std::time::Duration;

use reveille_pg::testing::TestDb;
use reveille_wake::Error;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::fixture::{
    LEASE, OtherProgram, PATIENCE, connected, eventually, options, polls_ended, rechecked, start_as, start_connected,
    waiter, waiting,
};

/// Ten thousand waiters are served by a hundred groups: joining them sends no statement, and each gets its job.
/// The server counts the statements of this test's role while all but the first of each group join.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_waiters_in_a_hundred_groups_are_all_served() {
    const GROUPS: usize = 100;
    const WAITERS: usize = 10_000;
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let jobs = start_as(&role, &db, options()).await;
    connected(&jobs).await;
    let mut waits = JoinSet::new();
    let mut join = |number: usize| {
        let jobs = jobs.clone();
        let queue = format!("q{}", number % GROUPS);
        waits.spawn(async move { jobs.claim(&queue, LEASE, Instant::now() + PATIENCE * 3).await });
    };
    (0..GROUPS).for_each(&mut join);
    eventually("each group is known to be empty", async || jobs.claims.counts().empty_polls >= GROUPS as u64).await;
    rechecked(&jobs).await;
    let before = role.statements().await;
    (GROUPS..WAITERS).for_each(&mut join);
    eventually("all wait", async || jobs.claims.health().waiters == WAITERS).await;
    polls_ended(&jobs).await;
    assert_eq!(role.statements().await, before, "joining a group known to be empty sends no statement");
    assert_eq!(jobs.claims.health().groups, GROUPS);

    let mut adds = JoinSet::new();
    for number in 0..WAITERS {
        let jobs = jobs.clone();
        adds.spawn(async move { jobs.enqueue(&format!("q{}", number % GROUPS), "", Duration::ZERO).await });
    }
    let mut added: Vec<i64> = adds.join_all().await.into_iter().map(|id| id.expect("added")).collect();
    let served = timeout(PATIENCE * 2, waits.join_all()).await.expect("all are served in time");
    let mut served: Vec<i64> = served.into_iter().map(|job| job.expect("a claim").expect("a job").id).collect();
    added.sort_unstable();
    served.sort_unstable();
    assert_eq!(served, added);
}

/// A full registry rejects a waiter at once, and has room again when another leaves.
/// Room for three; the fourth is rejected, until one of the three gives up.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_registry_rejects_waiters_until_one_leaves() {
    let db = TestDb::new().await;
    let jobs =
        start_connected(db.database(), db.schema(), reveille_wake::Options { max_waiters: 3, ..options() }).await;
    let waits = [waiter(&jobs, "a"), waiter(&jobs, "a"), waiter(&jobs, "b")];
    waiting(&jobs, 3).await;
    let refused = jobs.claim("c", LEASE, Instant::now() + PATIENCE).await.expect_err("no room");
    assert!(matches!(&refused, Error::Full { limit: 3, .. }), "{refused}");
    assert!(refused.is_transient());
    assert_eq!(jobs.claims.counts().refused, 1);

    waits[2].abort();
    eventually("one leaves", async || jobs.claims.health().waiters == 2).await;
    let id = jobs.enqueue("c", "", Duration::ZERO).await.expect("added");
    let job = jobs.claim("c", LEASE, Instant::now() + PATIENCE).await.expect("room").expect("a job");
    assert_eq!(job.id, id);
}

/// With more groups than are remembered, the longest unused one is forgotten, and polls again when it is used.
/// Room for two; with a third the first is forgotten, while the second is still known to be empty.
#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_group_polls_again() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), reveille_wake::Options { max_groups: 2, ..options() }).await;
    let polls = async |queue: &str| {
        let before = jobs.claims.counts().polls;
        let nothing = jobs.claim(queue, LEASE, Instant::now() + Duration::from_millis(20)).await.expect("a claim");
        assert!(nothing.is_none());
        jobs.claims.counts().polls - before
    };
    assert_eq!([polls("a").await, polls("b").await], [1, 1]);
    assert_eq!([polls("a").await, polls("b").await], [0, 0], "both are known to be empty");
    assert_eq!([polls("c").await, polls("b").await, polls("a").await], [1, 0, 1]);
    assert_eq!(jobs.claims.health().groups, 2);
}

/// A group with waiters is never forgotten, however many groups there are.
/// Room for one; a waiter comes back to its group after an empty wait, and other groups come and go.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_with_waiters_is_not_forgotten() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), reveille_wake::Options { max_groups: 1, ..options() }).await;
    let briefly = async |queue: &str| {
        let nothing = jobs.claim(queue, LEASE, Instant::now() + Duration::from_millis(20)).await.expect("a claim");
        assert!(nothing.is_none());
    };
    briefly("a").await;
    let waits = waiter(&jobs, "a");
    waiting(&jobs, 1).await;
    for queue in ["b", "c", "d"] {
        briefly(queue).await;
    }
    let id = jobs.enqueue("a", "", Duration::ZERO).await.expect("added");
    assert_eq!(waits.await.expect("still waiting").id, id);
}

/// A claim that does not wait always polls, even in a group known to be empty.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_does_not_wait_always_polls() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    for _ in 0..3 {
        let before = jobs.claims.counts().polls;
        assert!(jobs.claims.claim_now("q".to_owned(), 1, LEASE).await.expect("a claim").is_none());
        assert_eq!(jobs.claims.counts().polls, before + 1);
    }
    let id = OtherProgram::of(&db).await.insert_without_notify("q").await;
    let now = jobs.claims.claim_now("q".to_owned(), 1, LEASE).await.expect("a claim").expect("a job").accept();
    assert_eq!(now[0].id, id);
}

/// Closing ends every wait with an error, and rejects new ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_consumer_ends_every_wait() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let mut waits = JoinSet::new();
    for queue in ["a", "a", "b"] {
        let jobs = jobs.clone();
        waits.spawn(async move { jobs.claim(queue, LEASE, Instant::now() + PATIENCE).await });
    }
    waiting(&jobs, 3).await;
    jobs.claims.close().await;
    for ended in waits.join_all().await {
        let ended = ended.expect_err("closed");
        assert!(matches!(&ended, Error::Closed { what } if &**what == "jobs"), "{ended}");
    }
    let late = jobs.claim("a", LEASE, Instant::now() + PATIENCE).await.expect_err("closed");
    assert!(matches!(late, Error::Closed { .. }));
}

/// An ordinary role that may create schemas can own a queue; it need not be a superuser.
/// A role without special rights starts a queue on an empty schema.
#[tokio::test(flavor = "multi_thread")]
async fn an_ordinary_role_can_own_a_queue() {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let jobs = start_connected(role.database(), db.schema(), options()).await;
    let waits = waiter(&jobs, "q");
    let id = jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    assert_eq!(waits.await.expect("served").id, id);
}

/// A claim that the database refuses fails, and does not affect others.
/// A queue's name contains a character that PostgreSQL cannot store; a waiter of another queue is served meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_claim_fails_alone() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let waits = waiter(&jobs, "q");
    let refused = jobs.claim("a \0 in the middle", LEASE, Instant::now() + PATIENCE).await.expect_err("refused");
    assert!(matches!(&refused, Error::Refused { .. }) && !refused.is_transient(), "{refused}");
    let id = jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
    assert_eq!(waits.await.expect("served").id, id);
}

/// A waiter whose arguments the server refuses fails, and its queue is not known to be empty afterwards: the next
/// waiter polls. A lease too long for an interval, alone in its group; then a valid waiter, with a job without a
/// wake-up.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_waiter_does_not_make_its_queue_known_empty() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    OtherProgram::of(&db).await.insert_without_notify("q").await;
    let endless = Duration::from_millis(i64::MAX as u64);
    let refused = jobs.claim("q", endless, Instant::now() + PATIENCE).await.expect_err("no such lease");
    assert!(matches!(&refused, Error::Refused { .. }) && !refused.is_transient(), "{refused:?}");
    jobs.claim("q", LEASE, Instant::now() + PATIENCE).await.expect("a claim").expect("the job");
}

/// Closing waits for a running poll: an item that it claims meanwhile is given back when closing returns, as if it had
/// never been claimed.
/// The poll is blocked by a table lock of another transaction, so that it is surely running.
#[tokio::test(flavor = "multi_thread")]
async fn closing_gives_back_what_a_running_poll_claims() {
    let db = TestDb::new().await;
    let jobs = start_connected(db.database(), db.schema(), options()).await;
    let (mut holder, mut other) = (OtherProgram::of(&db).await, OtherProgram::of(&db).await);
    other.insert_without_notify("q").await;
    holder.run("begin; lock table {schema}.job in exclusive mode").await;
    let wait = tokio::spawn({
        let jobs = jobs.clone();
        async move { jobs.claim("q", LEASE, Instant::now() + PATIENCE).await }
    });
    let blocked = "select count(*) from pg_locks where not granted and relation = ({schema_text} || '.job')::regclass";
    eventually("the claim waits for the table", async || other.ask::<i64>(blocked).await > 0).await;
    let closing = tokio::spawn({
        let jobs = jobs.clone();
        async move { jobs.claims.close().await }
    });
    assert!(matches!(wait.await.expect("no panic"), Err(Error::Closed { .. })));
    assert!(!closing.is_finished(), "the poll is still running");
    holder.run("commit").await;
    timeout(PATIENCE, closing).await.expect("in time").expect("no panic");
    let due: i64 = other.ask("select count(*) from {schema}.job where due_at <= now() and attempt = 0").await;
    assert_eq!(due, 1);
}
