//! Waiting for an orchestration sends no queries, and its end wakes the waiters of every process.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{Provider, SessionFetchConfig, TagFilter};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, Event, EventKind, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use reveille_durable::{LongPollConfig, Options, PostgresProvider};
use reveille_pg::testing::{CountingRole, TestDb};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::calls;
use crate::fixture::{Elsewhere, Fixture, PATIENCE, eventually, provider};

/// How long the waiters are watched.
const WATCHED: Duration = Duration::from_secs(3);
/// Waiters for one orchestration.
const WAITERS: usize = 10;

/// A client whose statements are counted, and a runtime in another process.
struct Apart {
    client: PostgresProvider,
    role: CountingRole,
    runtime: Arc<Runtime>,
    elsewhere: Elsewhere,
    _db: TestDb,
}

impl Apart {
    async fn start() -> Option<Apart> {
        let db = TestDb::new().await;
        let role = db.counting_role().await?;
        drop(provider(&db, LongPollConfig::default()).await);
        let options = Options::default().schema(db.schema().name()).long_poll(LongPollConfig::enabled());
        let client = PostgresProvider::with_database(role.database().clone(), options).await.expect("start a provider");
        eventually("it hears", async || client.health().is_connected()).await;
        let elsewhere = Elsewhere::start(&db, LongPollConfig::enabled()).await;
        let steps = |ctx: OrchestrationContext, _: String| async move {
            for step in ["one", "two"] {
                ctx.set_custom_status(step);
                ctx.schedule_wait("go").await;
            }
            Ok("done".to_owned())
        };
        let orchestrations = OrchestrationRegistry::builder().register("steps", steps).build();
        let store = Arc::new(elsewhere.provider.clone());
        let runtime = Runtime::start_with_store(store, ActivityRegistry::builder().build(), orchestrations).await;
        Some(Apart { client, role, runtime, elsewhere, _db: db })
    }

    /// A client of the process that has the runtime.
    fn there(&self) -> Client {
        Client::new(Arc::new(self.elsewhere.provider.clone()))
    }

    /// Watches the waiters: they send no queries.
    async fn nothing_is_asked(&self) {
        // A new waiter, and a notification from another process, cause one poll.
        sleep(reveille_wake::TRAILING * 3 / 2).await;
        let mut before = self.asked().await;
        eventually("all have polled", async || {
            sleep(Duration::from_millis(300)).await;
            let now = self.asked().await;
            std::mem::replace(&mut before, now.clone()) == now
        })
        .await;
        assert!(!before.is_empty(), "statements of this role are counted");
        sleep(WATCHED).await;
        assert_eq!(self.asked().await, before);
    }

    /// The statements sent for the waiters: all except the clock, which the listener reads once after due times.
    async fn asked(&self) -> Vec<(String, i64)> {
        let mut statements = self.role.statements().await;
        statements.retain(|(statement, _)| !statement.contains("clock_timestamp()"));
        statements
    }
}

/// Any number of worker slots, each the owner of its own sessions, sends no statement while idle.
/// The server counts the statements of three hundred waiters in one process.
#[tokio::test(flavor = "multi_thread")]
async fn many_idle_slots_send_no_statement() {
    let Some(apart) = Apart::start().await else { return };
    let mut slots = JoinSet::new();
    for number in 0..300 {
        let client = apart.client.clone();
        slots.spawn(async move {
            let owner_id = format!("slot-{number}");
            let session = SessionFetchConfig { owner_id, lock_timeout: PATIENCE };
            client.fetch_work_item(PATIENCE, PATIENCE, Some(&session), &TagFilter::DefaultOnly).await
        });
    }
    apart.nothing_is_asked().await;
    assert!(slots.try_join_next().is_none(), "all of them wait");
    apart.runtime.shutdown(Some(0)).await;
}

/// A waiter for the end of an orchestration sends no query until then, also while the status changes and before the
/// start.
/// Ten wait in a process of their own; the server counts their statements. The orchestration is started, moved on and
/// ended elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_completion_sends_no_statement() {
    let Some(apart) = Apart::start().await else { return };
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let client = apart.client.clone();
        waiters.spawn(async move { client.wait_for_completion("steps", PATIENCE * 4).await });
    }
    apart.nothing_is_asked().await;
    apart.there().start_orchestration("steps", "steps", "").await.expect("started");
    apart.client.wait_for_status_change("steps", 0, PATIENCE).await.expect("waiting").expect("it has begun");
    apart.nothing_is_asked().await;
    assert!(waiters.try_join_next().is_none(), "it has not ended");
    for _ in 0..2 {
        let running = apart.there().get_orchestration_status("steps").await.expect("its status");
        let OrchestrationStatus::Running { custom_status_version, .. } = running else { panic!("{running:?}") };
        apart.there().raise_event("steps", "go", "").await.expect("raised");
        let changed = apart.client.wait_for_status_change("steps", custom_status_version, PATIENCE).await;
        changed.expect("waiting").expect("it goes on");
    }
    for waited in waiters.join_all().await {
        let ended = waited.expect("waiting");
        assert!(matches!(&ended, Some(OrchestrationStatus::Completed { output, .. }) if output == "done"), "{ended:?}");
    }
    apart.runtime.shutdown(Some(0)).await;
}

/// A waiter for a change of the custom status sends no query until there is one, and is woken by each change and the
/// end.
/// Waiters that have seen different versions wait at once: each is woken by a newer version.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_status_sends_no_statement() {
    let Some(apart) = Apart::start().await else { return };
    apart.there().start_orchestration("steps", "steps", "").await.expect("started");
    let first = apart.client.wait_for_status_change("steps", 0, PATIENCE).await.expect("waiting");
    let Some(OrchestrationStatus::Running { custom_status, custom_status_version: one }) = first else {
        panic!("{first:?}");
    };
    assert_eq!(custom_status.as_deref(), Some("one"));
    let waits = |seen: u64| {
        let client = apart.client.clone();
        tokio::spawn(async move { client.wait_for_status_change("steps", seen, PATIENCE).await.expect("waiting") })
    };
    let (second, end) = (waits(one), waits(one + 1));
    apart.nothing_is_asked().await;
    assert!(!second.is_finished() && !end.is_finished());
    apart.there().raise_event("steps", "go", "").await.expect("raised");
    let second = second.await.expect("no panic").expect("a change");
    assert!(
        matches!(&second, OrchestrationStatus::Running { custom_status, .. } if custom_status.as_deref() == Some("two")),
        "{second:?}"
    );
    apart.nothing_is_asked().await;
    assert!(!end.is_finished());
    apart.there().raise_event("steps", "go", "").await.expect("raised");
    let end = end.await.expect("no panic").expect("its end");
    assert!(matches!(end, OrchestrationStatus::Completed { .. }), "{end:?}");
    apart.runtime.shutdown(Some(0)).await;
}

/// Waiting in vain ends in time, without an error: for an instance that is never started, and for a change that does
/// not come.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_without_a_change_ends_in_time() {
    let short = Duration::from_millis(300);
    let fixture = Fixture::new().await;
    assert_eq!(fixture.provider.wait_for_completion("unknown", short).await.expect("waiting"), None);
    assert_eq!(fixture.provider.wait_for_status_change("unknown", 0, short).await.expect("waiting"), None);
    assert_eq!(fixture.provider.wait_for_completion("unknown", Duration::ZERO).await.expect("waiting"), None);
}

/// A past change is reported to every waiter, also to later ones.
/// Several wait, one after the other, for the same change and the same end; a waiter for a later change is not woken.
#[tokio::test(flavor = "multi_thread")]
async fn a_past_change_is_reported_to_every_waiter() {
    const LEASE: Duration = Duration::from_secs(120);
    let Fixture { db: _db, provider } = Fixture::new().await;
    eventually("it hears", async || provider.health().is_connected()).await;
    calls::send(&provider, calls::start("watched", "")).await;
    let (_, token, _) = calls::fetch(&provider, LEASE).await;
    let status = |id: u64| {
        Event::with_event_id(id, "watched", 1, None, EventKind::CustomStatusUpdated { status: Some("one".to_owned()) })
    };
    let mut begun = calls::Done::first("watched", "");
    begun.events.push(status(2));
    calls::ack(&provider, &token, begun).await.expect("a fresh lease");
    let later = tokio::spawn({
        let provider = provider.clone();
        async move { provider.wait_for_status_change("watched", 1, PATIENCE).await }
    });
    for _ in 0..3 {
        let changed = provider.wait_for_status_change("watched", 0, PATIENCE).await.expect("waiting");
        let Some(OrchestrationStatus::Running { custom_status, custom_status_version: 1 }) = changed else {
            panic!("{changed:?}")
        };
        assert_eq!(custom_status.as_deref(), Some("one"));
    }
    assert!(!later.is_finished());
    calls::send(&provider, calls::raised("watched", "")).await;
    let (_, token, _) = calls::fetch(&provider, LEASE).await;
    calls::ack(&provider, &token, calls::Done::completed("watched", 3, "done")).await.expect("a fresh lease");
    let status = later.await.expect("no panic").expect("waiting");
    assert!(matches!(status, Some(OrchestrationStatus::Completed { .. })), "{status:?}");
    for _ in 0..3 {
        let ended = provider.wait_for_completion("watched", PATIENCE).await.expect("waiting");
        assert!(matches!(&ended, Some(OrchestrationStatus::Completed { output, .. }) if output == "done"), "{ended:?}");
    }
}
