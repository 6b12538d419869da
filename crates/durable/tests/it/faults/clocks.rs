//! Processes whose clocks disagree: only the database's clock decides when a timer fires and when a lease ends.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duroxide::providers::{Provider, WorkItem};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, Event, EventKind, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
    RuntimeOptions,
};
use reveille_pg::testing::WrongClock;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::process::{Process, child};
use super::{LEASE, PATIENCE, SHORT_LEASE, connected};
use crate::calls::{Done, ack, begin, fetch, send, start};
use crate::consistency;
use crate::fixture::Fixture;

const HOUR: i64 = 3_600;
/// How long the timers run.
const DELAY: Duration = Duration::from_millis(1_500);

/// By how many hours the clock that stamped an event is off.
fn hours_off(event: &Event) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64;
    (event.timestamp_ms as i64 / 1_000 - now + HOUR / 2).div_euclid(HOUR)
}

/// Two processes whose clocks are two hours apart work on the same orchestrations: timers fire on time, and results are
/// right.
/// This test starts itself twice more, an hour fast and an hour slow; both run a runtime, and events show by their time
/// stamps who took which turn. Here nothing is worked on.
#[tokio::test(flavor = "multi_thread")]
async fn timers_are_on_time_between_processes_whose_clocks_disagree() {
    const ME: &str = "clocks::timers_are_on_time_between_processes_whose_clocks_disagree";
    /// Enough that both processes have turns of both kinds.
    const ORCHESTRATIONS: usize = 30;
    if let Some(child) = child().await {
        let activities = ActivityRegistry::builder()
            .register("Work", |_: ActivityContext, input: String| async move { Ok(input) })
            .build();
        let orchestrations = OrchestrationRegistry::builder().register("Sleep", sleep_and_work).build();
        let options =
            RuntimeOptions { orchestration_concurrency: 1, worker_concurrency: 1, ..RuntimeOptions::default() };
        let store = Arc::new(child.provider.clone());
        let _runtime = Runtime::start_with_options(store, activities, orchestrations, options).await;
        connected(&child.provider).await;
        child.say("ready");
        return std::future::pending().await;
    }
    let Some(clock) = WrongClock::compile().await else { return };
    let Fixture { db, provider } = Fixture::new().await;
    let processes = [HOUR, -HOUR].map(|shift| Process::start(&db, ME, &clock.shifted_by(shift)));
    for process in &processes {
        assert_eq!(process.said(0).await, "ready");
    }

    let client = Client::new(Arc::new(provider.clone()));
    let mut running = JoinSet::new();
    for number in 0..ORCHESTRATIONS {
        let (client, provider, instance) = (client.clone(), provider.clone(), format!("sleep-{number}"));
        running.spawn(async move {
            let since = Instant::now();
            client.start_orchestration(&instance, "Sleep", "x").await.expect("started");
            let ended = provider.wait_for_completion(&instance, PATIENCE).await.expect("an answer");
            let took = since.elapsed();
            assert!(
                matches!(&ended, Some(OrchestrationStatus::Completed { output, .. }) if output == "x"),
                "{ended:?}"
            );
            assert!(took > DELAY && took < DELAY * 20, "{instance} took {took:?} instead of {DELAY:?}");
            let history = provider.read(&instance).await.expect("its history");
            consistency::check(&instance, 1, &history);
            history
        });
    }
    let histories = running.join_all().await;
    let by = |is: fn(&EventKind) -> bool| -> HashSet<i64> {
        histories.iter().flatten().filter(|event| is(&event.kind)).map(hours_off).collect()
    };
    assert_eq!(by(|kind| matches!(kind, EventKind::TimerCreated { .. })), HashSet::from([1, -1]));
    assert_eq!(by(|kind| matches!(kind, EventKind::TimerFired { .. })), HashSet::from([1, -1]));
}

async fn sleep_and_work(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ctx.schedule_timer(DELAY).await;
    ctx.schedule_activity("Work", input).await
}

/// A lease that a process with a wrong clock was given ends by the database's clock.
/// This test starts itself as another process, an hour slow and an hour fast, which claims and is killed.
#[tokio::test(flavor = "multi_thread")]
async fn leases_end_on_time_whatever_the_clock_of_their_holder() {
    const ME: &str = "clocks::leases_end_on_time_whatever_the_clock_of_their_holder";
    if let Some(child) = child().await {
        let (item, _, _) = fetch(&child.provider, SHORT_LEASE).await;
        child.say(&item.instance);
        return std::future::pending().await;
    }
    let Some(clock) = WrongClock::compile().await else { return };
    let Fixture { db, provider } = Fixture::new().await;
    for shift in [HOUR, -HOUR] {
        let instance = format!("held {shift}");
        send(&provider, start(&instance, "")).await;
        let other = Process::start(&db, ME, &clock.shifted_by(shift));
        assert_eq!(other.said(0).await, instance);
        let claimed = Instant::now();
        other.kill().await;
        let (item, _, attempt) = fetch(&provider, LEASE).await;
        let took = claimed.elapsed();
        assert_eq!((item.instance.as_str(), attempt), (instance.as_str(), 2));
        assert!(took > SHORT_LEASE / 2 && took < SHORT_LEASE * 20, "{took:?} instead of {SHORT_LEASE:?}");
    }
}

/// A timer's time is measured by its sender's clock, and means a duration from its sending: a time that has passed is
/// due at once, a later one is due after the difference, whatever the database's clock says.
/// Timers are sent that were due two hours ago, or are due soon.
#[tokio::test(flavor = "multi_thread")]
async fn a_timers_time_is_a_duration_from_its_sending() {
    let Fixture { db: _db, provider } = Fixture::new().await;
    begin(&provider, "i", LEASE).await;
    let fire = async |id: u64, from_now_ms: i64| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
        let fire_at_ms = (now + from_now_ms) as u64;
        let item = WorkItem::TimerFired { instance: "i".to_owned(), execution_id: 1, id, fire_at_ms };
        provider.enqueue_for_orchestrator(item, None).await.expect("sent");
        let sent = Instant::now();
        let (item, token, _) = fetch(&provider, LEASE).await;
        let took = sent.elapsed();
        assert!(matches!(item.messages[..], [WorkItem::TimerFired { id: fired, .. }] if fired == id), "{item:?}");
        ack(&provider, &token, Done::default()).await.expect("the lease is fresh");
        took
    };
    let passed = fire(2, -2 * HOUR * 1_000).await;
    assert!(passed < DELAY, "{passed:?} after it was due");
    let late = fire(3, DELAY.as_millis() as i64).await;
    assert!(late + Duration::from_millis(200) > DELAY && late < DELAY * 20, "{late:?} instead of {DELAY:?}");
}
