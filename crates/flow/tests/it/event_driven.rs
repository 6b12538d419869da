//! The orchestrator: coordinators, modes, notifications for other programs, and that no task depends on notifications.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use reveille_flow::events::{
    EventSource, Failed, HealthStatus, Mode, NamespaceCoordinator, RoutingRule, TaskReadyEvent, outside_channel,
};
use reveille_flow::{
    ClaimRequest, EventDrivenOrchestrator, EventRouter, Flow, Handlers, NamespaceChange, OrchestrationConfig,
    OrchestrationMode, Step, Submission, WorkerPool,
};
use reveille_pg::Database;
use reveille_pg::testing::{TestDb, eventually};
use serde_json::{Value, json};
use sqlx::postgres::PgListener;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::fixture::{Elsewhere, Fixture, NAMESPACE, PATIENCE, submission, worker};

/// Handlers for the callables `a` and `b`.
fn handlers() -> Handlers {
    let name = async |step: Step<Value>| Ok(step.name().to_owned());
    Handlers::new().handle("a", name).handle("b", name)
}

fn pools() -> Vec<WorkerPool> {
    vec![WorkerPool::new("*", "pool", handlers())]
}

fn started(flow: &Flow, config: OrchestrationConfig) -> EventDrivenOrchestrator {
    let orchestrator = EventDrivenOrchestrator::new(flow, config);
    orchestrator.start();
    orchestrator
}

/// A router that records the events it gets.
fn remembering() -> (EventRouter, Arc<Mutex<Vec<TaskReadyEvent>>>) {
    let routed: Arc<Mutex<Vec<TaskReadyEvent>>> = Arc::default();
    let record = |routed: Arc<Mutex<Vec<TaskReadyEvent>>>| {
        move |event: TaskReadyEvent| {
            routed.lock().expect("no panic").push(event);
            async { Ok::<(), Failed>(()) }
        }
    };
    let none = |_: TaskReadyEvent| async { Err::<(), Failed>("nothing matches".into()) };
    (EventRouter::new(none).rule(RoutingRule::new("test*", None, record(routed.clone()))), routed)
}

/// Waits until an orchestrator receives notifications.
async fn listener_connected(orchestrator: &EventDrivenOrchestrator) {
    let hears = async || orchestrator.coordinator(NAMESPACE).is_some() && orchestrator.check().healthy;
    eventually("what is announced is heard", hears).await;
}

fn change(mode: reveille_flow::Mode) -> NamespaceChange {
    NamespaceChange { mode: Some(mode), ..NamespaceChange::default() }
}

/// Waits until all of these tasks are complete.
async fn complete(flow: &Flow, tasks: &[Uuid]) {
    for task in tasks {
        let ended = flow.wait(*task, Instant::now() + PATIENCE).await.expect("an answer").expect("in time");
        assert_eq!(ended.summary.status, reveille_flow::TaskState::Complete);
    }
}

/// A listener of another program.
struct Outside(PgListener);

impl Outside {
    async fn listen(db: &TestDb, channels: &[&str]) -> Outside {
        let mut listener = PgListener::connect(db.url()).await.expect("a listener");
        listener.listen_all(channels.iter().copied()).await.expect("LISTEN");
        Outside(listener)
    }

    /// The next notification on each of this many channels: the channel and the payload.
    async fn hear(&mut self, many: usize) -> Vec<(String, Value)> {
        let mut heard = Vec::new();
        for _ in 0..many {
            let next = timeout(PATIENCE, self.0.recv()).await.expect("in time").expect("a notification");
            heard.push((next.channel().to_owned(), serde_json::from_str(next.payload()).expect("JSON")));
        }
        heard.sort_by(|one, other| one.0.cmp(&other.0));
        heard
    }
}

/// Other programs receive notifications about tasks and namespaces in the documented form, and none about those that do
/// not announce. A listener on a connection of its own; a task of two steps is submitted and completed, beside one that
/// is not announced.
#[tokio::test]
async fn other_programs_receive_announcements() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    let schema = flow.db.schema().name().to_owned();
    let channel = |kind: &str, namespace| outside_channel(&schema, kind, namespace);
    let (ready, own) = (channel("task_ready", None), channel("task_ready", Some(NAMESPACE)));
    let (steps, created) = (channel("step_ready", Some(NAMESPACE)), channel("namespace_created", None));
    let (state, own_state) = (channel("task_state_change", None), channel("task_state_change", Some(NAMESPACE)));
    flow.task().await;
    assert_eq!(flow.run().await, ["a"]);
    let mut outside = Outside::listen(&flow.db, &[&ready, &own, &steps, &created, &state, &own_state]).await;
    let announces = NamespaceChange { announces: Some(true), ..NamespaceChange::default() };
    let settings = reveille_flow::NamespaceSettings { announces: true, ..reveille_flow::NamespaceSettings::default() };
    flow.put_namespace_template("loud", &settings).await.expect("kept");
    let loud = NamespaceChange { template: Some("loud".to_owned()), ..NamespaceChange::default() };
    flow.put_namespace("made", &loud).await.expect("made");
    let heard = outside.hear(1).await.remove(0);
    assert_eq!((heard.0, &heard.1["namespace_name"]), (created, &json!("made")));
    assert_eq!(flow.event_metrics().announcements_sent, 0);

    flow.put_namespace(NAMESPACE, &announces).await.expect("changed");
    assert_eq!(flow.run().await, ["b"]);
    let heard = outside.hear(2).await;
    assert_eq!(heard[0].1["action_needed"], "finalization", "{heard:?}");
    let task = flow.submit(Submission { priority: 3, ..submission("t", json!({})) }).await.expect("a task").task_uuid;
    let heard = outside.hear(3).await;
    let mut names = [steps.clone(), ready.clone(), own.clone()];
    names.sort();
    assert_eq!(heard.iter().map(|(channel, _)| channel.clone()).collect::<Vec<_>>(), names);
    for (channel, payload) in &heard {
        assert_eq!(payload["task_uuid"], json!(task), "{channel}");
        assert_eq!((&payload["namespace"], &payload["priority"]), (&json!(NAMESPACE), &json!(3)));
        assert_eq!((&payload["ready_steps"], &payload["triggered_by"]), (&json!(1), &json!("task_start")));
    }
    let of = |heard: &[(String, Value)], name: &str| heard.iter().find(|(on, _)| on == name).expect(name).1.clone();
    assert_eq!(of(&heard, &steps)["step_names"], json!(["a"]));
    assert_eq!(flow.run().await, ["a"]);
    let heard = outside.hear(3).await;
    assert_eq!(of(&heard, &ready)["triggered_by"], "step_transition");
    assert_eq!(of(&heard, &steps)["step_names"], json!(["b"]));
    flow.cancel(task, reveille_flow::Operator { name: "ann".to_owned(), reason: None }).await.expect("cancelled");
    let heard = outside.hear(2).await;
    let ended = of(&heard, &own_state);
    assert_eq!((&ended["task_state"], &ended["action_needed"]), (&json!("cancelled"), &json!("cleanup")));
    assert_eq!(of(&heard, &state), ended);
    eventually("all is counted", async || flow.event_metrics().announcements_sent == 2 + 3 + 3 + 2).await;
}

/// A namespace that another process creates is served here at once, by workers that start by themselves, without polls.
/// Another process registers a template in a new namespace and waits for its task. The time is logged and has a
/// generous limit; polls are counted.
#[tokio::test]
async fn a_namespace_created_by_another_process_is_served_at_once() {
    let flow = Fixture::new().await;
    let orchestrator = started(&flow, OrchestrationConfig { pools: pools(), ..OrchestrationConfig::default() });
    let elsewhere = Elsewhere::start(&flow.db).await;
    eventually("notifications are heard", async || flow.health().is_connected()).await;
    flow.template("t", "[{name: a}, {name: b, dependencies: [a]}]").await;
    eventually("it has a coordinator", async || orchestrator.coordinator(NAMESPACE).is_some()).await;
    let text = "name: t\nnamespace_name: new\nidentity_strategy: always_unique\nsteps: [{name: a}]\n";
    let began = Instant::now();
    elsewhere.flow.register(text).await.expect("registered");
    let task = elsewhere.flow.submit(Submission::new("new", "t", "1.0.0", json!({}))).await.expect("a task").task_uuid;
    complete(&elsewhere.flow, &[task]).await;
    println!("served after {:?}", began.elapsed());
    let counted = orchestrator.metrics();
    assert_eq!((counted.tasks_claimed_via_event, counted.tasks_claimed_via_polling), (1, 0));
    assert_eq!(counted.fallback_polls, 0, "no fallback poll");
    assert_eq!((counted.coordinators_active, counted.coordinators_spawned), (2, 2));
    assert_eq!(counted.coordinator_worker_count, 64);
    let coordinator = orchestrator.coordinator("new").expect("it has one");
    // The worker counts a completion once it has the response, which may be after the other process has seen the
    // commit.
    eventually("the worker counts it", async || coordinator.worker_counts().expect("a worker").completed == 1).await;
    orchestrator.shutdown().await;
    assert_eq!(flow.event_metrics().coordinators_active, 0);
    assert_eq!(flow.event_metrics().coordinator_worker_count, 0);
}

/// Another process switches the mode of all namespaces while tasks run, and every task is completed; each mode claims
/// some of the steps.
#[tokio::test]
async fn a_mode_switched_under_load_loses_nothing() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    let elsewhere = Elsewhere::start(&flow.db).await;
    flow.put_namespace(NAMESPACE, &NamespaceChange { poll_ms: Some(20), ..NamespaceChange::default() })
        .await
        .expect("changed");
    let orchestrator = started(&flow, OrchestrationConfig { pools: pools(), ..OrchestrationConfig::default() });
    let mut tasks = Vec::new();
    for round in 0..12 {
        let names = |named: bool| if named { BTreeSet::from([NAMESPACE.to_owned()]) } else { BTreeSet::new() };
        let mode = match round % 4 {
            0 => Mode::PollingOnly,
            1 => Mode::EventDrivenOnly,
            2 => Mode::Hybrid { event_namespaces: names(false), polling_namespaces: names(true) },
            _ => Mode::Hybrid { event_namespaces: names(true), polling_namespaces: names(false) },
        };
        let mode = OrchestrationMode { mode, fallback_enabled: true };
        let (set, made) = tokio::join!(elsewhere.flow.set_mode(&mode), async {
            let mut made = Vec::new();
            for _ in 0..5 {
                made.push(flow.task().await);
            }
            made
        });
        set.expect("set");
        tasks.extend(made);
        if round % 4 < 2 {
            // Each mode claims some.
            complete(&flow, &tasks).await;
        }
    }
    complete(&flow, &tasks).await;
    let counted = orchestrator.metrics();
    assert!(counted.tasks_claimed_via_event > 0 && counted.tasks_claimed_via_polling > 0, "{counted:?}");
    assert_eq!(counted.tasks_claimed_via_event + counted.tasks_claimed_via_polling, 120);
    orchestrator.shutdown().await;
}

/// The mode of all namespaces can be read, applies to namespaces created later, does not apply to shadow namespaces,
/// and is rejected if it is inconsistent.
#[tokio::test]
async fn a_mode_of_all_namespaces_is_applied() {
    let flow = Fixture::with("[{name: a}]").await;
    flow.put_namespace("shadow", &change(reveille_flow::Mode::Shadow)).await.expect("made");
    let polling = OrchestrationMode { mode: Mode::PollingOnly, fallback_enabled: false };
    flow.set_mode(&polling).await.expect("set");
    assert_eq!(flow.mode().await.expect("a mode"), polling);
    let later = flow.put_namespace("later", &NamespaceChange::default()).await.expect("made");
    assert_eq!((later.settings.mode, later.settings.fallback_enabled), (reveille_flow::Mode::Polling, false));
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let hybrid = Mode::Hybrid { event_namespaces: set(&["later", "made"]), polling_namespaces: set(&[NAMESPACE]) };
    let hybrid = OrchestrationMode { mode: hybrid, fallback_enabled: true };
    flow.set_mode(&hybrid).await.expect("set");
    assert_eq!(flow.mode().await.expect("a mode"), hybrid);
    let shadow = flow.namespaces().await.expect("a list").into_iter().find(|one| one.name == "shadow").expect("it");
    assert_eq!(shadow.settings.mode, reveille_flow::Mode::Shadow);
    let both = Mode::Hybrid { event_namespaces: set(&["x"]), polling_namespaces: set(&["x"]) };
    let refused = flow.set_mode(&OrchestrationMode { mode: both, fallback_enabled: true }).await;
    assert!(matches!(refused, Err(reveille_flow::Error::Invalid { what: "mode", .. })), "{refused:?}");
}

/// Without notifications all tasks complete: a process that never listens, with tasks from another process.
#[tokio::test]
async fn without_notifications_tasks_complete() {
    let flow = Fixture::with("[{name: a}, {name: b, dependencies: [a]}]").await;
    let wake =
        reveille_wake::Options { listening: reveille_wake::Listening::Never, ..reveille_wake::Options::default() };
    // Another address makes it a separate process for shared objects.
    let way = reveille_pg::testing::Proxy::start(&flow.db).await;
    let database = Database::connect_lazy(way.url(), reveille_pg::Options::default()).expect("a pool");
    let options = reveille_flow::Options { wake, ..reveille_flow::Options::default() };
    let disconnected = Flow::open(database, flow.db.schema().clone(), options).await.expect("open a flow");
    let orchestrator = started(&disconnected, OrchestrationConfig { pools: pools(), ..OrchestrationConfig::default() });
    let tasks = [
        flow.task().await,
        flow.task().await,
        disconnected.submit(submission("t", json!({}))).await.expect("a task").task_uuid,
    ];
    complete(&flow, &tasks).await;
    let HealthStatus { healthy, checks } = orchestrator.check();
    let ill: Vec<_> = checks.iter().filter(|check| !check.healthy).map(|check| check.name).collect();
    assert_eq!((healthy, ill), (false, vec!["listeners_connected"]));
    orchestrator.shutdown().await;
}

/// A coordinator that is restarted loses no step: unfinished steps of its handlers are released, uncharged, and
/// completed by the next one. The first handler never ends, and signals that it has begun.
#[tokio::test]
async fn a_coordinator_that_restarts_loses_nothing() {
    let flow = Fixture::with("[{name: a}]").await;
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let first = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let handle = move |_: Step<Value>| {
        let (begun, stuck) = (begun.clone(), first.swap(false, std::sync::atomic::Ordering::SeqCst));
        async move {
            begun.send(()).expect("the receiver waits");
            if stuck {
                std::future::pending::<()>().await;
            }
            Ok(())
        }
    };
    let pool = WorkerPool::new(NAMESPACE, "pool", Handlers::new().handle("a", handle));
    let config = OrchestrationConfig { pools: vec![pool], grace: Duration::ZERO, ..OrchestrationConfig::default() };
    let orchestrator = started(&flow, config);
    let task = flow.task().await;
    timeout(PATIENCE, begins.recv()).await.expect("in time").expect("it began");
    let again = orchestrator.restart_coordinator(NAMESPACE).await.expect("a coordinator");
    complete(&flow, &[task]).await;
    assert_eq!(flow.attempts(task).await, [(1, "given_back".to_owned()), (1, "complete".to_owned())]);
    assert!(again.is_healthy() && again.queue_depth() == 0 && again.worker_count() == 32);
    assert_eq!(orchestrator.coordinators().iter().map(|one| one.namespace()).collect::<Vec<_>>(), [NAMESPACE]);
    eventually("healthy", async || orchestrator.check().healthy).await;
}

/// A step that has been ready for long without a claim is found, counted, and passed to the router. Without the
/// fallback it is not. A step without a waiting claim is made older.
#[tokio::test]
async fn the_fallback_finds_forgotten_steps() {
    let flow = Fixture::with("[{name: a}]").await;
    let (router, routed) = remembering();
    let interval = Duration::from_millis(50);
    let config =
        OrchestrationConfig { router: Some(router), fallback_interval: interval, ..OrchestrationConfig::default() };
    let orchestrator = started(&flow, config);
    let off = NamespaceChange { fallback_enabled: Some(false), ..NamespaceChange::default() };
    flow.put_namespace(NAMESPACE, &off).await.expect("changed");
    let task = flow.task().await;
    let sql = flow.db.schema().sql("update {schema}.step s set due_at = now() - interval '6 s'");
    sqlx::query(&sql).execute(flow.db.database().pool()).await.expect("an update");
    eventually("the task is routed", async || routed.lock().unwrap().len() == 1).await;
    tokio::time::sleep(interval * 4).await;
    assert_eq!(orchestrator.metrics().fallback_found, 0);
    let on = NamespaceChange { fallback_enabled: Some(true), ..NamespaceChange::default() };
    flow.put_namespace(NAMESPACE, &on).await.expect("changed");
    eventually("the task is routed again", async || routed.lock().unwrap().len() > 1).await;
    assert!(orchestrator.metrics().fallback_found >= 1);
    let event = routed.lock().unwrap()[1].clone();
    assert_eq!((event.source, event.task_uuid, event.ready_steps), (EventSource::FallbackPoller, task, 1));
    assert_eq!(routed.lock().unwrap()[0].source, EventSource::InProcess);
}

/// A router gets the events of its namespaces once, by the faster of two ways, also those of other processes if they
/// are announced; a failing handler affects no other.
#[tokio::test]
async fn events_of_all_processes_are_routed() {
    let flow = Fixture::with("[{name: a}]").await;
    let elsewhere = Elsewhere::start(&flow.db).await;
    let announces = NamespaceChange { announces: Some(true), ..NamespaceChange::default() };
    flow.put_namespace(NAMESPACE, &announces).await.expect("changed");
    let (router, routed) = remembering();
    let config = OrchestrationConfig {
        router: Some(router),
        deduplication_window: Duration::from_secs(3_600),
        ..OrchestrationConfig::default()
    };
    let orchestrator = started(&flow, config);
    listener_connected(&orchestrator).await;
    let events = || routed.lock().unwrap().iter().map(|event| (event.task_uuid, event.source)).collect::<Vec<_>>();
    let there = elsewhere.flow.submit(submission("t", json!({}))).await.expect("a task").task_uuid;
    eventually("it is heard of", async || events() == [(there, EventSource::Notification)]).await;
    let here = flow.task().await;
    eventually("it is heard of twice, and is one", async || {
        let counted = orchestrator.metrics();
        counted.notifications_received == 3 && counted.notifications_deduplicated == 1
    })
    .await;
    assert_eq!(events().len(), 2);
    assert_eq!(events()[1].0, here);
    let text = "name: t\nnamespace_name: other\nidentity_strategy: always_unique\nsteps: [{name: a}]\n";
    flow.register(text).await.expect("registered");
    flow.submit(Submission::new("other", "t", "1.0.0", json!({}))).await.expect("a task");
    eventually("no rule matches", async || orchestrator.metrics().notifications_failed == 1).await;
    let counted = orchestrator.metrics();
    assert_eq!((counted.notifications_processed, counted.channel_queue_depth), (2, 0));
    assert!(counted.notification_lag.is_some());
}

/// A shadow namespace is measured and neither claimed nor routed: the time of notifications is known, and the step is
/// still ready when the mode changes.
#[tokio::test]
async fn a_shadow_namespace_measures_and_claims_no_steps() {
    let flow = Fixture::with("[{name: a}]").await;
    flow.put_namespace(NAMESPACE, &change(reveille_flow::Mode::Shadow)).await.expect("changed");
    let (router, routed) = remembering();
    let config = OrchestrationConfig { router: Some(router), pools: pools(), ..OrchestrationConfig::default() };
    let orchestrator = started(&flow, config);
    listener_connected(&orchestrator).await;
    let coordinator = |found: Option<Arc<NamespaceCoordinator>>| found.expect("a coordinator");
    let task = flow.task().await;
    eventually("it is heard of in both ways", async || orchestrator.metrics().notifications_received >= 2).await;
    let counted = orchestrator.metrics();
    assert!(counted.notification_lag.is_some() && counted.tasks_claimed_via_event == 0, "{counted:?}");
    assert!(routed.lock().unwrap().is_empty());
    assert_eq!(coordinator(orchestrator.coordinator(NAMESPACE)).worker_counts().expect("a worker").claimed, 0);
    flow.put_namespace(NAMESPACE, &change(reveille_flow::Mode::EventDriven)).await.expect("changed");
    complete(&flow, &[task]).await;
    orchestrator.shutdown().await;
}

/// An idle orchestrator with workers sends no statement, whatever the interval of its fallback poller.
/// The server counts the statements of a role over a hundred intervals.
#[tokio::test]
async fn an_idle_orchestrator_sends_no_statement() {
    let flow = Fixture::with("[{name: a}]").await;
    let Some(role) = flow.db.counting_role().await else { return };
    let own = Flow::start(role.database(), flow.db.schema(), reveille_flow::Options::default());
    let config = OrchestrationConfig {
        pools: pools(),
        fallback_interval: Duration::from_millis(10),
        fallback_after: Duration::from_millis(1),
        ..OrchestrationConfig::default()
    };
    let orchestrator = started(&own, config);
    let task = flow.task().await;
    complete(&flow, &[task]).await;
    eventually("the poller has asked, and found nothing", async || orchestrator.metrics().fallback_polls > 0).await;
    // The trailing sweep after a notification, and the poller's run after that, have ended by then.
    eventually("no statement is sent for a hundred intervals", async || {
        let before = role.calls().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        role.calls().await == before
    })
    .await;
}

/// A step that no claim here waits for is not counted as forgotten, whatever other claims there are. One with a waiting
/// claim that got no wake-up is. A step is made due in the table only: while a claim waits for another name, and while
/// one waits for its own.
#[tokio::test]
async fn steps_without_a_waiting_claim_are_not_forgotten() {
    let flow = Fixture::with("[{name: a}]").await;
    let config = OrchestrationConfig {
        fallback_interval: Duration::from_millis(20),
        // It polls this long after the last one.
        fallback_after: Duration::from_secs(60),
        ..OrchestrationConfig::default()
    };
    let orchestrator = started(&flow, config);
    let waiting = |step: &str| {
        let (flow, request) = (flow.flow.clone(), ClaimRequest { steps: Some(vec![step.to_owned()]), ..worker() });
        tokio::spawn(async move { flow.claim(&request, 1, Some(Instant::now() + PATIENCE * 2)).await })
    };
    let due = async |at: &str| {
        let sql = flow.db.schema().sql(&format!("update {{schema}}.step s set due_at = {at}"));
        sqlx::query(&sql).execute(flow.db.database().pool()).await.expect("an update");
    };
    flow.task().await;
    due("now() - interval '2 min'").await;
    let other = waiting("b");
    eventually("it was asked for", async || orchestrator.metrics().fallback_polls > 3).await;
    assert_eq!(orchestrator.metrics().fallback_found, 0);
    due("'infinity'").await;
    let polls = flow.claims().empty_polls;
    let own = waiting("a");
    eventually("an empty poll", async || flow.claims().empty_polls > polls).await;
    due("now() - interval '2 min'").await;
    assert_eq!(own.await.expect("no panic").expect("a claim").remove(0).name, "a");
    assert!(orchestrator.metrics().fallback_found >= 1);
    other.abort();
}

/// More forgotten tasks than one query reads, without a claim here, do not hide the one that a claim waits for.
/// There are so many names that the whole namespace is queried; the step is made due in the table only.
#[tokio::test]
async fn many_forgotten_tasks_do_not_hide_one() {
    let flow = Fixture::with("[{name: a}]").await;
    flow.template("u", "[{name: b}]").await;
    let config = OrchestrationConfig {
        fallback_interval: Duration::from_millis(50),
        fallback_after: Duration::from_secs(60),
        ..OrchestrationConfig::default()
    };
    let orchestrator = started(&flow, config);
    join_all((0..100).map(|_| flow.task())).await;
    flow.submit(submission("u", json!({}))).await.expect("a task");
    let due = async |step: &str, at: &str| {
        let queue = "(select l.id from {schema}.step_queue l where l.name = $1)";
        let sql =
            flow.db.schema().sql(&format!("update {{schema}}.step s set due_at = {at} where s.queue_id = {queue}"));
        let done = sqlx::query(&sql).bind(step).execute(flow.db.database().pool()).await.expect("an update");
        assert!(done.rows_affected() > 0, "{step}");
    };
    due("a", "now() - interval '3 min'").await;
    due("b", "'infinity'").await;
    let waiting = |prefix: &str, also: &str| {
        let names = (0..600).map(|number| format!("{prefix}{number}")).chain([also.to_owned()]).collect();
        let (flow, request) = (flow.flow.clone(), ClaimRequest { steps: Some(names), ..worker() });
        tokio::spawn(async move { flow.claim(&request, 1, Some(Instant::now() + PATIENCE * 2)).await })
    };
    let (other, own) = (waiting("x", "c"), waiting("y", "b"));
    eventually("both wait", async || {
        let consumers = flow.health().consumers;
        consumers.iter().any(|one| &*one.name == "steps" && one.waiters == 2)
    })
    .await;
    // Nothing else causes so many polls.
    let polls = flow.claims().polls;
    eventually("they look whenever they are asked for", async || flow.claims().polls > polls + 10).await;
    due("b", "now() - interval '2 min'").await;
    assert_eq!(own.await.expect("no panic").expect("a claim").remove(0).name, "b");
    assert_eq!(orchestrator.metrics().fallback_found, 0, "it was not among those that were read");
    other.abort();
}
