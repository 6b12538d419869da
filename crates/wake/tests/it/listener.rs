//! The listener lost, half-open, refused, absent: work goes on, and notifications are received again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reveille_pg::Database;
use reveille_pg::testing::{Mode, Proxy, TestDb, pooler};
use reveille_wake::{ListenerState, Listening};
use tokio::time::{Instant, sleep};

use crate::fixture::{
    NEVER, OtherProcess, OtherProgram, briefly_polling, connected, eventually, options, start, start_as,
    start_connected, take, waiter, waiting,
};
use crate::jobs::Jobs;

/// Ends the listeners that log in as `role`, which are this test's only. Returns how many there were.
async fn kill_listeners(other: &mut OtherProgram, role: &str) -> i64 {
    let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                where usename = $1 and application_name = 'reveille listener'";
    sqlx::query_scalar(kill).bind(role).fetch_one(&mut other.conn).await.expect("end the listener")
}

/// How long a listener tries to connect before it is reported as lost.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);

/// A pool that reaches the server directly, and whose listener goes through a proxy.
fn listening_through(db: &TestDb, proxy: &Proxy) -> Database {
    let options = reveille_pg::Options::default().listen_url(proxy.url().to_owned()).acquire_timeout(ACQUIRE_TIMEOUT);
    Database::connect_lazy(db.url(), options).expect("a pool")
}

/// A job of another program is claimed while the listener is disconnected, and another one after it is connected and
/// polling has ended.
async fn polls_until_connected(jobs: &Jobs, other: &mut OtherProgram, repair: impl AsyncFnOnce()) {
    let disconnected = waiter(jobs, "q");
    let id = other.insert("q").await;
    assert_eq!(disconnected.await.expect("served").id, id);
    assert!(jobs.claims.health().polling);

    repair().await;
    connected(jobs).await;
    let connected = waiter(jobs, "q");
    eventually("aggressive polling ends", async || !jobs.claims.health().polling).await;
    let id = other.insert("q").await;
    assert_eq!(connected.await.expect("served").id, id);
}

/// Losing the listener again and again delays no job for long, and loses none.
/// Its backend is ended every 150 ms while another process adds jobs; there is no fallback, so a job whose notification
/// is lost must be found by polling or by the resync after a reconnect.
#[tokio::test(flavor = "multi_thread")]
async fn work_goes_on_while_the_listener_is_killed_repeatedly() {
    const JOBS: usize = 300;
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let remote = OtherProcess::start(&db, options()).await;
    let here = start_as(&role, &db, options()).await;
    connected(&here).await;
    let mut other = OtherProgram::of(&db).await;

    let over = Arc::new(AtomicBool::new(false));
    let killer = tokio::spawn({
        let (over, role) = (over.clone(), role.name().to_owned());
        async move {
            let mut killed = 0;
            while !over.load(Ordering::Relaxed) {
                killed += kill_listeners(&mut other, &role).await;
                sleep(Duration::from_millis(150)).await;
            }
            killed
        }
    });
    let mut worst = Duration::ZERO;
    for _ in 0..JOBS {
        let waiting = waiter(&here, "q");
        let id = remote.jobs.enqueue("q", "", Duration::ZERO).await.expect("added");
        let committed = Instant::now();
        let job = waiting.await.expect("served");
        assert_eq!(job.id, id);
        worst = worst.max(committed.elapsed());
        assert!(here.done("q", &job).await.expect("done"));
    }
    over.store(true, Ordering::Relaxed);
    let killed = killer.await.expect("the killer does not panic");
    assert!(killed >= 3, "the listener was killed {killed} times only");
    assert!(worst < Duration::from_secs(3), "a job waited {worst:?}");
}

/// Notifications sent while the listener is disconnected are lost, so all groups poll after a reconnect.
/// Polling is practically off and there is no fallback: only that poll can find a job added in the gap.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_notification_is_made_up_for_after_a_reconnect() {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let here = reveille_wake::Options { aggressive_poll_interval: NEVER, ..options() };
    let here = start_as(&role, &db, here).await;
    connected(&here).await;
    let mut other = OtherProgram::of(&db).await;
    for _ in 0..4 {
        connected(&here).await;
        let waits = waiter(&here, "q");
        waiting(&here, 1).await;
        assert_eq!(kill_listeners(&mut other, role.name()).await, 1);
        eventually("the listener is gone", async || kill_listeners(&mut other, role.name()).await == 0).await;
        let id = other.insert("q").await;
        assert_eq!(waits.await.expect("served").id, id);
    }
}

/// A half-open connection is detected by its heartbeat; meanwhile the consumer polls; then the listener is connected
/// again. A proxy drops everything the listener sends, and closes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_listener_is_detected_and_replaced() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let heartbeat = reveille_wake::Options {
        heartbeat_interval: Duration::from_millis(300),
        heartbeat_deadline: Duration::from_millis(300),
        ..briefly_polling()
    };
    let jobs = start_connected(&listening_through(&db, &proxy), db.schema(), heartbeat).await;
    let mut other = OtherProgram::of(&db).await;

    proxy.set(Mode::Swallow).await;
    let since = Instant::now();
    eventually("the loss is detected", async || !jobs.wake.health().is_connected()).await;
    assert!(since.elapsed() < Duration::from_secs(20), "after {:?}", since.elapsed());
    let ListenerState::Lost { reason } = jobs.wake.health().listener else { panic!("not lost") };
    assert!(reason.contains("heartbeat"), "{reason}");

    polls_until_connected(&jobs, &mut other, async || {
        proxy.set(Mode::Pass).await;
        // Connections accepted meanwhile stay dead; cutting them saves waiting for their timeout.
        proxy.cut();
    })
    .await;
}

/// A queue whose listener cannot connect at first polls, and stops polling once it is connected.
/// A proxy refuses the listener's connections from the start.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_polls_until_its_refused_listener_connects() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    proxy.set(Mode::Refuse).await;
    let jobs = start(&listening_through(&db, &proxy), db.schema(), briefly_polling()).await;
    eventually("the listener is disconnected", async || {
        matches!(jobs.wake.health().listener, ListenerState::Lost { .. })
    })
    .await;
    let mut other = OtherProgram::of(&db).await;
    polls_until_connected(&jobs, &mut other, async || proxy.set(Mode::Pass).await).await;
}

/// A role with a connection limit that leaves none for the listener: its queue polls until there is one.
/// The role has one connection, which its pool uses; then it gets more.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_without_a_connection_for_its_listener_polls() {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let mut other = OtherProgram::of(&db).await;
    // The owner's queue creates the tables; the role gets one connection.
    drop(start(db.database(), db.schema(), options()).await);
    other.run(&format!("alter role \"{}\" connection limit 1", role.name())).await;
    let one = reveille_pg::Options::default().max_connections(1).acquire_timeout(ACQUIRE_TIMEOUT);
    let one = Database::connect_lazy(role.url(), one).expect("a pool");
    drop(one.session().await.expect("the one connection"));
    let jobs = start(&one, db.schema(), briefly_polling()).await;
    eventually("the listener is disconnected", async || {
        matches!(jobs.wake.health().listener, ListenerState::Lost { .. })
    })
    .await;
    let more = format!("alter role \"{}\" connection limit 10", role.name());
    let mut owner = OtherProgram::of(&db).await;
    polls_until_connected(&jobs, &mut other, async || owner.run(&more).await).await;
}

/// Through a transaction-mode pooler, without a direct address, everything works by polling.
/// Jobs now, later and retried, and one of another program, through a real PgBouncer.
#[tokio::test(flavor = "multi_thread")]
async fn everything_works_by_polling_through_a_pooler() {
    let db = TestDb::new().await;
    let Some(pooler) = pooler(&db).await else { return };
    let through = reveille_pg::Options::default().pooler(true).max_connections(4);
    let through = Database::connect_lazy(pooler.url(), through).expect("a pool");
    let jobs = start(&through, db.schema(), options()).await;
    assert_eq!(jobs.wake.health().listener, ListenerState::Off);
    assert!(jobs.claims.health().polling);

    let remote = waiter(&jobs, "q");
    let id = OtherProgram::of(&db).await.insert("q").await;
    let job = remote.await.expect("served");
    assert_eq!((job.id, job.attempt), (id, 1));
    assert!(jobs.failed("q", &job).await.expect("failed"));
    let again = take(&jobs, "q").await;
    assert_eq!((again.id, again.attempt), (id, 2));
    assert!(!jobs.done("q", &job).await.expect("an old token"), "its token is no longer valid");
    assert!(jobs.done("q", &again).await.expect("done"));

    let asked = Instant::now();
    let id = jobs.enqueue("q", "later", Duration::from_millis(300)).await.expect("added");
    assert_eq!(take(&jobs, "q").await.id, id);
    assert!(asked.elapsed() >= Duration::from_millis(300));
}

/// A listener connected through a transaction-mode pooler by mistake is detected: the queue polls and reports it.
/// The direct address given is that of a PgBouncer.
#[tokio::test(flavor = "multi_thread")]
async fn a_listener_behind_a_pooler_is_detected() {
    let db = TestDb::new().await;
    let Some(pooler) = pooler(&db).await else { return };
    let wrong = reveille_pg::Options::default().listen_url(pooler.url().to_owned());
    let wrong = Database::connect_lazy(db.url(), wrong).expect("a pool");
    let jobs = start(&wrong, db.schema(), options()).await;
    eventually("the listener is disconnected", async || {
        matches!(jobs.wake.health().listener, ListenerState::Lost { .. })
    })
    .await;
    let waits = waiter(&jobs, "q");
    let id = OtherProgram::of(&db).await.insert("q").await;
    assert_eq!(waits.await.expect("served").id, id);
}

/// With `Listening::Never` a queue opens no listener and polls for as long as it lives.
/// Searches for its listener on the server, by the role it would log in as.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_never_listens_polls() {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let never = reveille_wake::Options { listening: Listening::Never, ..briefly_polling() };
    let jobs = start_as(&role, &db, never).await;
    let mut other = OtherProgram::of(&db).await;
    for _ in 0..3 {
        let waits = waiter(&jobs, "q");
        let id = other.insert("q").await;
        assert_eq!(waits.await.expect("served").id, id);
    }
    assert_eq!(jobs.wake.health().listener, ListenerState::Off);
    assert!(jobs.claims.health().polling);
    assert_eq!(kill_listeners(&mut other, role.name()).await, 0);
}

/// However many queues a process has on one schema, it listens once.
/// Twenty are started; the server counts their listeners by role.
#[tokio::test(flavor = "multi_thread")]
async fn queues_of_one_process_share_their_listener() {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    let mut queues = Vec::new();
    for _ in 0..20 {
        queues.push(start_as(&role, &db, options()).await);
    }
    for queue in &queues {
        connected(queue).await;
    }
    let mut other = OtherProgram::of(&db).await;
    assert_eq!(kill_listeners(&mut other, role.name()).await, 1);
}
