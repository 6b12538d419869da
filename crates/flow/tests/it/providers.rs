//! Providers: a task runs the same through every provider, and each step counts once, whatever happens to its message.
//!
//! Every case runs with each provider. Those of RabbitMQ share a server, and so a test.

use std::time::Duration;

use futures_util::StreamExt as _;
use reveille_flow::{
    AttemptResult, ClaimRequest, EventDrivenOrchestrator, EventDrivenQueueProvider, Flow, NamespaceChange, Options,
    Provider, ProviderOptions, Refused, Source, StepMessage,
};
use reveille_pg::Database;
use reveille_pg::testing::{Proxy, TestDb, eventually, pooler};
use serde_json::json;
use sqlx::postgres::PgListener;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::fixture::{Fixture, NAMESPACE, PATIENCE, read, worker};
use crate::rabbitmq::Rabbit;

/// So long that a test that depends on its end fails.
pub(crate) const LONG: Duration = Duration::from_secs(3_600);

/// The provider of a test.
#[derive(Clone, Debug)]
pub(crate) struct Through {
    pub(crate) provider: Provider,
    pub(crate) amqp_url: Option<String>,
    pub(crate) amqp_ca: Option<String>,
}

impl Through {
    pub(crate) fn options(&self, publish_lease: Duration) -> Options {
        let (amqp_url, amqp_ca) = (self.amqp_url.clone(), self.amqp_ca.clone());
        let providers = ProviderOptions { amqp_url, amqp_ca, publish_lease };
        Options { providers, ..Options::default() }
    }
}

/// A flow whose namespace uses the provider, and its sender.
pub(crate) struct Queued {
    pub(crate) flow: Fixture,
    orchestrator: EventDrivenOrchestrator,
    through: Through,
}

impl std::ops::Deref for Queued {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.flow
    }
}

impl Queued {
    pub(crate) async fn with(through: &Through, lease: Duration, steps: &str) -> Queued {
        let db = TestDb::new().await;
        let options = through.options(lease);
        let flow = Flow::open(db.database().clone(), db.schema().clone(), options).await.expect("open a flow");
        let flow = Fixture { db, flow };
        flow.template("t", steps).await;
        let orchestrator = flow.orchestrate();
        let queued = Queued { flow, orchestrator, through: through.clone() };
        queued.change(through.provider).await;
        queued
    }

    pub(crate) async fn change(&self, provider: Provider) {
        let change = NamespaceChange { provider: Some(provider), ..NamespaceChange::default() };
        self.put_namespace(NAMESPACE, &change).await.expect("changed");
    }

    fn queue(&self) -> std::sync::Arc<dyn EventDrivenQueueProvider> {
        self.provider(self.through.provider).expect("a queue")
    }

    /// Takes the messages of the steps `a` from the queue.
    pub(crate) async fn messages(&self, want: usize) -> Vec<reveille_flow::Delivery> {
        let source = Source { namespace: NAMESPACE.to_owned(), step: "a".to_owned() };
        let mut taken = Vec::new();
        eventually("messages are there", async || {
            let mut conn = self.db.database().pool().acquire().await.expect("a connection");
            let more = self.queue().receive(&mut conn, std::slice::from_ref(&source), want).await.expect("messages");
            taken.extend(more);
            taken.len() >= want
        })
        .await;
        taken
    }

    /// Waits until this many unclaimed steps were taken to be sent.
    async fn sent(&self, count: i64) {
        let sql = self.db.schema().sql("select count(*) from {schema}.step s where s.published is not null");
        eventually("they were sent", async || {
            let sent: i64 = sqlx::query_scalar(&sql).fetch_one(self.db.database().pool()).await.expect("a count");
            sent == count
        })
        .await;
    }

    /// Completes steps with several workers until all tasks are complete.
    pub(crate) async fn work(&self, tasks: &[Uuid]) {
        let worker = || async {
            loop {
                let step = self.next().await;
                let _ = self.say(&step, AttemptResult::Complete(json!(step.name).into())).await;
            }
        };
        let done = async {
            for task in tasks {
                let task = self.wait(*task, Instant::now() + PATIENCE).await.expect("a task").expect("in time");
                assert_eq!(task.summary.status, reveille_flow::TaskState::Complete);
            }
        };
        tokio::select! {
            () = async { tokio::join!(worker(), worker(), worker()); } => unreachable!("workers do not end"),
            () = done => {}
        }
    }

    async fn tasks(&self, count: usize) -> Vec<Uuid> {
        let mut tasks = Vec::new();
        for _ in 0..count {
            tasks.push(self.task().await);
        }
        tasks
    }
}

/// A task graph runs completely, with retries and branches, and afterwards the queue is empty.
async fn a_task_runs(through: &Through) {
    let flow = Queued::with(
        through,
        LONG,
        "[{name: a, retry: {backoff: none}}, {name: b, dependencies: [a]}, {name: c, dependencies: [a]}, {name: d, dependencies: [b, c]}]",
    )
    .await;
    let task = flow.task().await;
    let a = flow.next().await;
    assert_eq!((a.name.as_str(), a.attempt, read(&a.results)), ("a", 1, json!({})));
    flow.fail(&a, true).await;
    let a = flow.next().await;
    assert_eq!((a.name.as_str(), a.attempt), ("a", 2));
    flow.complete(&a, json!("first")).await;
    let (b, c) = (flow.next().await, flow.next().await);
    let mut names = [b.name.as_str(), c.name.as_str()];
    names.sort_unstable();
    assert_eq!(names, ["b", "c"]);
    assert_eq!(read(&b.results), json!({"a": "first"}));
    flow.complete(&b, json!(1)).await;
    flow.complete(&c, json!(1)).await;
    let d = flow.next().await;
    assert_eq!((d.name.as_str(), d.attempt), ("d", 1));
    flow.complete(&d, json!("last")).await;
    assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
    assert!(flow.now(10).await.is_empty());
}

/// A message that is delivered several times results in one claim.
/// It is taken from the queue, and sent again unchanged.
async fn a_message_twice_counts_once(through: &Through) {
    let flow = Queued::with(through, LONG, "[{name: a}]").await;
    let task = flow.task().await;
    let taken = flow.messages(1).await;
    let message: StepMessage = taken[0].message.clone();
    assert_eq!((message.task, message.attempt, message.step.as_str()), (task, 0, "a"));
    let sent = flow.queue().publish(&[message.clone(), message.clone(), message]).await;
    assert_eq!(sent.is_ok(), through.provider != Provider::Table, "the tables take no messages");
    let receipts = taken.into_iter().map(|delivery| delivery.receipt).collect();
    flow.queue().release(None, receipts).await.expect("put back");
    let step = flow.next().await;
    assert!(flow.now(10).await.is_empty());
    flow.complete(&step, json!(1)).await;
    assert!(flow.now(10).await.is_empty());
    assert_eq!(flow.attempts(task).await, [(1, "complete".to_owned())]);
}

/// A dead worker loses its step when the lease ends, with the attempt counted; a later report is rejected.
async fn a_dead_worker_loses_its_step(through: &Through) {
    let flow = Queued::with(through, LONG, "[{name: a}]").await;
    let task = flow.task().await;
    let short = ClaimRequest { lease: Duration::from_millis(300), ..worker() };
    let dies = flow.claim(&short, 1, Some(Instant::now() + PATIENCE)).await.expect("a claim").pop().expect("a step");
    let again = flow.next().await;
    assert_eq!((dies.attempt, again.attempt), (1, 2));
    assert_eq!(flow.say(&dies, AttemptResult::Complete(json!("late").into())).await, Err(Refused::Lost));
    flow.complete(&again, json!(1)).await;
    assert_eq!(flow.attempts(task).await, [(1, "lease_ended".to_owned()), (2, "complete".to_owned())]);
}

/// A completed step is not started again when the ack of its message is lost.
/// It is claimed by one server and completed through another; the first one stops without an ack, and its messages are
/// redelivered.
async fn a_lost_ack_costs_nothing(through: &Through) {
    let flow = Queued::with(through, Duration::from_secs(1), "[{name: a}]").await;
    let way = Proxy::start(&flow.db).await;
    let database = Database::connect_lazy(way.url(), reveille_pg::Options::default()).expect("a pool through a proxy");
    let options = through.options(Duration::from_secs(1));
    let other = Flow::open(database, flow.db.schema().clone(), options).await.expect("open a flow");
    let task = flow.task().await;
    let step = other.claim(&worker(), 1, Some(Instant::now() + PATIENCE)).await.expect("a claim").pop().expect("one");
    flow.complete(&step, json!(1)).await;
    other.close().await;
    drop(other);
    // Another message follows, so that the queue was read to its end.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let behind = flow.task().await;
    let step = flow.next().await;
    assert_eq!(step.token.task, behind);
    flow.complete(&step, json!(1)).await;
    assert!(flow.now(10).await.is_empty());
    assert_eq!(flow.attempts(task).await, [(1, "complete".to_owned())]);
}

/// A queue that is emptied loses no step: sent steps without a claim are sent again.
async fn an_emptied_queue_loses_nothing(through: &Through) {
    let flow = Queued::with(through, Duration::from_secs(1), "[{name: a}]").await;
    let tasks = flow.tasks(5).await;
    let taken = flow.messages(5).await;
    flow.queue().ack(taken.into_iter().map(|delivery| delivery.receipt).collect()).await.expect("emptied");
    flow.work(&tasks).await;
    for task in tasks {
        assert_eq!(flow.attempts(task).await, [(1, "complete".to_owned())]);
    }
}

/// The provider of a namespace can be changed at any time: sent steps are due at once, steps in progress end normally,
/// and messages in the old queue are ignored. The lease of sent steps is an hour, so the test does not pass by waiting
/// for it.
async fn another_queue_takes_over(through: &Through) {
    let flow = Queued::with(through, LONG, "[{name: a}]").await;
    let tasks = flow.tasks(6).await;
    let under_way = [flow.next().await, flow.next().await];
    if through.provider != Provider::Table {
        flow.sent(4).await;
    }
    let other = if through.provider == Provider::Table { Provider::Pgmq } else { Provider::Table };
    flow.change(other).await;
    let claimed = [flow.next().await, flow.next().await];
    flow.change(through.provider).await;
    for step in under_way.iter().chain(&claimed) {
        flow.complete(step, json!(1)).await;
    }
    flow.work(&tasks).await;
    assert!(flow.now(10).await.is_empty());
    for task in tasks {
        assert_eq!(flow.attempts(task).await, [(1, "complete".to_owned())]);
    }
}

/// No more steps are in progress than a limit allows, and a waiting claim gets one as soon as there is capacity.
async fn limits_are_kept(through: &Through) {
    let flow = Queued::with(through, LONG, "[{name: a}, {name: b}]").await;
    flow.limit(NAMESPACE, Some("a"), Some(2)).await.expect("limited");
    let tasks = flow.tasks(3).await;
    let mut claimed = Vec::new();
    for _ in 0..5 {
        claimed.push(flow.next().await);
    }
    assert_eq!(claimed.iter().filter(|step| step.name == "a").count(), 2);
    assert!(flow.now(10).await.is_empty());
    let waiting = flow.flow.flow.clone();
    let waiting = tokio::spawn(async move { waiting.claim(&worker(), 1, Some(Instant::now() + PATIENCE)).await });
    let first = claimed.iter().position(|step| step.name == "a").expect("one");
    flow.complete(&claimed.remove(first), json!(1)).await;
    let last = waiting.await.expect("no panic").expect("a claim").pop().expect("a step");
    assert_eq!(last.name, "a");
    for step in claimed.iter().chain([&last]) {
        flow.complete(step, json!(1)).await;
    }
    assert_eq!(flow.limits(None).await.expect("limits")[0].in_progress, 0);
    for task in tasks {
        assert_eq!(flow.state_and_open_steps(task).await, ("complete".to_owned(), 0));
    }
}

/// A worker that names steps receives only those, and leaves the others.
async fn a_worker_receives_what_it_names(through: &Through) {
    let flow = Queued::with(through, LONG, "[{name: a}, {name: b}]").await;
    flow.task().await;
    let of = |step: &str| ClaimRequest { steps: Some(vec![step.to_owned()]), ..worker() };
    for name in ["b", "a"] {
        let step = flow.claim(&of(name), 5, Some(Instant::now() + PATIENCE)).await.expect("a claim");
        assert_eq!(step.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), [name]);
    }
}

/// A dropped claim delays no other worker, and is not charged.
async fn a_dropped_claim_goes_back(through: &Through) {
    let flow = Queued::with(through, LONG, "[{name: a}]").await;
    for _ in 0..10 {
        let waiting = flow.flow.flow.clone();
        let waiting = tokio::spawn(async move { waiting.claim(&worker(), 1, Some(Instant::now() + PATIENCE)).await });
        flow.task().await;
        waiting.abort();
        // The claim may have ended before.
        for step in waiting.await.map(|claimed| claimed.expect("a claim")).unwrap_or_default() {
            flow.say(&step, AttemptResult::GivenBack).await.expect("it counts");
        }
    }
    for _ in 0..10 {
        assert_eq!(flow.next().await.attempt, 1);
    }
}

/// A queue notifies of new messages.
/// The stream may not listen yet when a message is sent, so messages are sent until it notifies of one.
async fn a_queue_tells(through: &Through) {
    let flow = Queued::with(through, LONG, "[{name: a}]").await;
    assert!(flow.queue().supports_push_notifications());
    let mut events = flow.queue().create_event_stream(NAMESPACE);
    for _ in 0..3 {
        let told = async {
            loop {
                flow.task().await;
                if let Ok(event) = timeout(Duration::from_secs(1), events.next()).await {
                    break event;
                }
            }
        };
        let event = timeout(PATIENCE, told).await.expect("in time").expect("an event");
        assert_eq!(event.namespace, NAMESPACE);
    }
}

/// The cases with one provider each.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        mod table {
            $(
                /// A case with the table provider.
                #[tokio::test]
                async fn $case() {
                    super::$case(&super::Through { provider: reveille_flow::Provider::Table, amqp_url: None, amqp_ca: None }).await;
                }
            )*
        }

        mod pgmq {
            $(
                /// A case with PGMQ.
                #[tokio::test]
                async fn $case() {
                    super::$case(&super::Through { provider: reveille_flow::Provider::Pgmq, amqp_url: None, amqp_ca: None }).await;
                }
            )*
        }

        async fn every_case(through: &Through) {
            $(
                eprintln!(stringify!($case));
                $case(through).await;
            )*
        }
    };
}

cases! {
    a_task_runs,
    a_message_twice_counts_once,
    a_dead_worker_loses_its_step,
    a_lost_ack_costs_nothing,
    an_emptied_queue_loses_nothing,
    another_queue_takes_over,
    limits_are_kept,
    a_worker_receives_what_it_names,
    a_dropped_claim_goes_back,
    a_queue_tells,
}

/// RabbitMQ passes the same cases.
/// One server, and every case on it, one after the other.
#[tokio::test]
async fn rabbitmq_passes_all_cases() {
    let Some(rabbit) = Rabbit::start().await else { return };
    every_case(&Through { provider: Provider::Rabbitmq, amqp_url: Some(rabbit.url.clone()), amqp_ca: None }).await;
}

/// A RabbitMQ that crashes under load or is unavailable loses no step and duplicates none; when it is back, unsent
/// steps are sent at once. It is killed while workers work, and started again; then killed, given a backlog, and
/// started. The lease of sent steps is an hour for the backlog.
#[tokio::test]
async fn rabbitmq_may_crash_and_recover() {
    let Some(mut rabbit) = Rabbit::start().await else { return };
    let through = Through { provider: Provider::Rabbitmq, amqp_url: Some(rabbit.url.clone()), amqp_ca: None };
    let flow = Queued::with(&through, Duration::from_secs(5), "[{name: a}, {name: b, dependencies: [a]}]").await;
    let tasks = flow.tasks(60).await;
    let crash = async {
        eventually("some are done", async || flow.attempts(tasks[5]).await.len() == 2).await;
        rabbit.kill().await;
        rabbit.begin().await;
    };
    tokio::join!(flow.work(&tasks), crash);
    for task in tasks {
        assert_eq!(flow.attempts(task).await, [(1, "complete".to_owned()), (1, "complete".to_owned())]);
    }

    let flow = Queued::with(&through, LONG, "[{name: a}, {name: b, dependencies: [a]}]").await;
    let before = flow.task().await;
    flow.work(&[before]).await;
    rabbit.kill().await;
    let tasks = flow.tasks(20).await;
    assert!(flow.now(10).await.is_empty());
    rabbit.begin().await;
    flow.work(&tasks).await;
    for task in tasks {
        assert_eq!(flow.attempts(task).await, [(1, "complete".to_owned()), (1, "complete".to_owned())]);
    }
}

/// A worker on two queues takes from both while both have messages, and takes none only to release it.
/// One namespace uses the table provider, one PGMQ, and all steps are ready before the worker starts, so that it never
/// waits.
#[tokio::test]
async fn a_worker_takes_from_two_queues_in_turn() {
    const TASKS: usize = 20;
    let flow =
        Queued::with(&Through { provider: Provider::Pgmq, amqp_url: None, amqp_ca: None }, LONG, "[{name: a}]").await;
    let other = "name: t\nnamespace_name: other\nidentity_strategy: always_unique\nsteps: [{name: a}]\n";
    flow.register(other).await.expect("a template");
    for _ in 0..TASKS {
        flow.task().await;
        let other = reveille_flow::Submission::new("other", "t", "1.0.0", json!({}));
        flow.submit(other).await.expect("a task");
    }
    flow.sent(TASKS as i64).await;
    let both = ClaimRequest { namespaces: vec![NAMESPACE.to_owned(), "other".to_owned()], ..worker() };
    let mut turns = Vec::new();
    for _ in 0..2 * TASKS {
        let claimed = flow.claim(&both, 1, Some(Instant::now() + PATIENCE)).await.expect("a claim");
        flow.complete(&claimed[0], json!(1)).await;
        turns.push(claimed[0].namespace.clone());
    }
    assert!(turns[..TASKS].iter().any(|namespace| *namespace != turns[0]), "{turns:?}");
    let sql = flow.db.schema().sql("select count(*) from {schema}.attempt a where a.outcome <> 'complete'");
    let back: i64 = sqlx::query_scalar(&sql).fetch_one(flow.db.database().pool()).await.expect("a count");
    assert_eq!(back, 0);
}

/// Through a pooler, where a poll is one transaction, a claim without capacity puts the message back and does not wait
/// for itself. A limit of one is full, and there is another message: the claim is empty. The step comes when there is
/// capacity.
#[tokio::test]
async fn a_full_limit_does_not_block_claims_through_a_pooler() {
    let db = TestDb::new().await;
    let Some(pooler) = pooler(&db).await else { return };
    let through = reveille_pg::Options::default().pooler(true);
    let database = Database::connect_lazy(pooler.url(), through).expect("a pool");
    Flow::open(db.database().clone(), db.schema().clone(), Options::default()).await.expect("the schema");
    let flow = Flow::open(database, db.schema().clone(), Options::default()).await.expect("open a flow");
    let flow = Fixture { db, flow };
    flow.template("t", "[{name: a}]").await;
    let _orchestrator = flow.orchestrate();
    let change = NamespaceChange { provider: Some(Provider::Pgmq), ..NamespaceChange::default() };
    flow.put_namespace(NAMESPACE, &change).await.expect("changed");
    flow.limit(NAMESPACE, Some("a"), Some(1)).await.expect("limited");
    flow.task().await;
    let first = flow.next().await;
    let other = flow.task().await;
    let queue = flow.provider(Provider::Pgmq).expect("a queue");
    let source = [Source { namespace: NAMESPACE.to_owned(), step: "a".to_owned() }];
    eventually("the other was sent", async || {
        let mut conn = flow.db.database().pool().acquire().await.expect("a connection");
        let seen = queue.receive(&mut conn, &source, 1).await.expect("messages");
        let there = !seen.is_empty();
        let receipts = seen.into_iter().map(|delivery| delivery.receipt).collect();
        queue.release(Some(&mut conn), receipts).await.expect("put back");
        there
    })
    .await;
    assert!(flow.now(1).await.is_empty());
    flow.complete(&first, json!(1)).await;
    let second = flow.next().await;
    assert_eq!(second.token.task, other);
    flow.complete(&second, json!(1)).await;
    assert_eq!(flow.attempts(other).await, [(1, "complete".to_owned())]);
}

/// Claims of an unknown step name create no queue; a claim that waits for both names gets existing steps.
#[tokio::test]
async fn an_unknown_step_name_creates_no_queue() {
    let flow =
        Queued::with(&Through { provider: Provider::Pgmq, amqp_url: None, amqp_ca: None }, LONG, "[{name: a}]").await;
    let of =
        |steps: &[&str]| ClaimRequest { steps: Some(steps.iter().map(|&step| step.to_owned()).collect()), ..worker() };
    assert!(flow.claim(&of(&["b", "c"]), 1, None).await.expect("a claim").is_empty());
    flow.task().await;
    let step = flow.claim(&of(&["a", "b"]), 1, Some(Instant::now() + PATIENCE)).await.expect("a claim").remove(0);
    assert_eq!(step.name, "a");
    flow.complete(&step, json!(1)).await;
    // Names of queues begin with the schema.
    let sql = "select count(*) from pgmq.meta m where m.queue_name like left($1, 30) || '%'";
    let queues: i64 = sqlx::query_scalar(sql)
        .bind(flow.db.schema().name())
        .fetch_one(flow.db.database().pool())
        .await
        .expect("a count");
    assert_eq!(queues, 1);
}

/// A namespace cannot use a provider that this server does not have.
#[tokio::test]
async fn an_unavailable_provider_is_rejected() {
    let flow = Fixture::with("[{name: a}]").await;
    let change = NamespaceChange { provider: Some(Provider::Rabbitmq), ..NamespaceChange::default() };
    let error = flow.put_namespace(NAMESPACE, &change).await.expect_err("refused");
    assert!(matches!(error, reveille_flow::Error::Invalid { what: "provider", .. }), "{error}");
    assert_eq!(flow.namespaces().await.expect("a list")[0].settings.provider, Provider::Table);
}

/// Other programs are notified of queues and messages of PGMQ, if the namespace announces.
#[tokio::test]
async fn messages_of_pgmq_are_announced() {
    let through = Through { provider: Provider::Pgmq, amqp_url: None, amqp_ca: None };
    let flow = Queued::with(&through, LONG, "[{name: a}]").await;
    let change = NamespaceChange { announces: Some(true), ..NamespaceChange::default() };
    flow.put_namespace(NAMESPACE, &change).await.expect("changed");
    let mut listener = PgListener::connect_with(flow.db.database().pool()).await.expect("a listener");
    let prefix = format!("{}_", flow.db.schema().name());
    let (made, ready) = (format!("{prefix}pgmq_queue_created"), format!("{prefix}pgmq_message_ready.{NAMESPACE}"));
    listener.listen_all([made.as_str(), ready.as_str()]).await.expect("listening");
    flow.task().await;
    for channel in [made, ready] {
        let notification = timeout(PATIENCE, listener.recv()).await.expect("in time").expect("a notification");
        assert_eq!(notification.channel(), channel);
        let payload: serde_json::Value = serde_json::from_str(notification.payload()).expect("JSON");
        let queue = payload.get("queue").or(payload.get("queue_name")).and_then(|queue| queue.as_str());
        assert!(queue.is_some_and(|queue| queue.len() <= 47), "{payload}");
    }
}

/// Other programs are notified of claimable steps, including those that were sent through another queue.
/// One step has been sent for an hour when another becomes ready: the notification has both.
#[tokio::test]
async fn sent_steps_are_announced_as_ready() {
    let through = Through { provider: Provider::Pgmq, amqp_url: None, amqp_ca: None };
    let flow = Queued::with(&through, LONG, "[{name: a}, {name: b}, {name: c, dependencies: [a]}]").await;
    let change = NamespaceChange { announces: Some(true), ..NamespaceChange::default() };
    flow.put_namespace(NAMESPACE, &change).await.expect("changed");
    let mut listener = PgListener::connect_with(flow.db.database().pool()).await.expect("a listener");
    let channel = reveille_flow::events::outside_channel(flow.db.schema().name(), "step_ready", Some(NAMESPACE));
    listener.listen(&channel).await.expect("listening");
    flow.task().await;
    flow.sent(2).await;
    let first = ClaimRequest { steps: Some(vec!["a".to_owned()]), ..worker() };
    let step = flow.claim(&first, 1, Some(Instant::now() + PATIENCE)).await.expect("a claim").remove(0);
    flow.complete(&step, json!(1)).await;
    let announced = async {
        loop {
            let notification = listener.recv().await.expect("a notification");
            let payload: serde_json::Value = serde_json::from_str(notification.payload()).expect("JSON");
            if payload["triggered_by"] == "step_transition" {
                return payload;
            }
        }
    };
    let announced = timeout(PATIENCE, announced).await.expect("in time");
    assert_eq!((&announced["ready_steps"], &announced["step_names"]), (&json!(2), &json!(["b", "c"])));
}

/// A shutdown while steps are being sent leaves none behind: they are due for other servers.
/// PGMQ accepts no message, because its table is locked; the lease of sent steps is an hour.
#[tokio::test]
async fn a_shutdown_releases_steps_being_sent() {
    let flow =
        Queued::with(&Through { provider: Provider::Pgmq, amqp_url: None, amqp_ca: None }, LONG, "[{name: a}]").await;
    let before = flow.task().await;
    flow.work(&[before]).await;
    let pool = flow.db.database().pool();
    let sql = "select m.queue_name from pgmq.meta m where m.queue_name like left($1, 30) || '%'";
    let queue: String = sqlx::query_scalar(sql).bind(flow.db.schema().name()).fetch_one(pool).await.expect("a queue");
    let mut locked = pool.begin().await.expect("a transaction");
    let lock = reveille_pg::Schema::new("pgmq").expect("a schema").sql(&format!("lock table {{schema}}.\"q_{queue}\""));
    sqlx::query(&lock).execute(&mut *locked).await.expect("locked");
    flow.task().await;
    flow.sent(1).await;
    flow.orchestrator.shutdown().await;
    flow.flow.close().await;
    let sql =
        flow.db.schema().sql("select count(*) from {schema}.step s where s.published is null and s.due_at <= now()");
    let due: i64 = sqlx::query_scalar(&sql).fetch_one(pool).await.expect("a count");
    assert_eq!(due, 1);
}
