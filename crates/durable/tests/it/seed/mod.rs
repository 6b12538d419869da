//! The test plan of the long-polling design, item by item, against a real server.
//!
//! | item | where |
//! |---|---|
//! | 1 triggers, 2 notifications | `triggers` |
//! | 3 waiting, 4 waking, 5 timers, 6 one wake and one winner, 14 no waiting by default | `waiting`, `alone` |
//! | 7 to 11b entering and leaving aggressive mode | `mode` |
//! | 12 reconnecting, 13 falling back | `listening` |
//! | 15 throughput | `crate::stress` |
//! | 16 idle load | `idle` |

mod alone;
mod idle;
mod listening;
mod mode;
mod triggers;
mod waiting;

use std::time::Duration;

use duroxide::providers::{OrchestrationItem, Provider, TagFilter, WorkItem};
use reveille_durable::{AggressiveOn, LongPollConfig, Options, PostgresProvider, Strategy};
use reveille_pg::testing::{CountingRole, TestDb};
use reveille_wake::ConsumerHealth;
use sqlx::{Connection as _, PgConnection};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::calls;
use crate::fixture::{PATIENCE, eventually, provider};

/// Longer than any test: what happens by such an interval has not happened at all.
const NEVER: Duration = Duration::from_secs(3_600);
/// The lease of fetches: ends after every test.
const LEASE: Duration = Duration::from_secs(120);

/// Under it only wake-ups, due times and the poll after a reconnect bring work: there is no fallback, and no polling
/// because a busy machine woke a waiter late. Aggressive mode, once entered, is short.
fn calm() -> LongPollConfig {
    LongPollConfig {
        enabled: true,
        fallback_poll_interval: NEVER,
        notify_delivery_timeout: NEVER,
        max_wait_time: PATIENCE,
        aggressive_poll_duration: Duration::from_millis(300),
        aggressive_exit_threshold: 3,
        aggressive_poll_interval: Duration::from_millis(50),
        ..LongPollConfig::default()
    }
}

/// The same, waking and polling in one of the ways there are.
fn calm_by(strategy: Strategy, aggressive_on: AggressiveOn) -> LongPollConfig {
    LongPollConfig { strategy, aggressive_on, ..calm() }
}

/// A test for each strategy and each reason to poll, from a function that takes the configuration.
macro_rules! every_way {
    ($($(#[$doc:meta])* $name:ident)+) => {
        crate::seed::one_way!(competing_on_faults Competing Faults $($(#[$doc])* $name)+);
        crate::seed::one_way!(competing_on_every_wake Competing EveryWake $($(#[$doc])* $name)+);
        crate::seed::one_way!(broadcast_on_faults Broadcast Faults $($(#[$doc])* $name)+);
        crate::seed::one_way!(broadcast_on_every_wake Broadcast EveryWake $($(#[$doc])* $name)+);
    };
}
macro_rules! one_way {
    ($way:ident $strategy:ident $on:ident $($(#[$doc:meta])* $name:ident)+) => {
        mod $way {
            $(
                $(#[$doc])*
                /// In this way of waking.
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    super::$name(crate::seed::calm_by(reveille_durable::Strategy::$strategy, reveille_durable::AggressiveOn::$on)).await;
                }
            )+
        }
    };
}
use {every_way, one_way};

/// A provider with a connected listener, after the polls of its start.
async fn connected(db: &TestDb, config: LongPollConfig) -> PostgresProvider {
    let provider = provider(db, config).await;
    until_it_is_connected(&provider).await;
    provider
}

async fn until_it_is_connected(provider: &PostgresProvider) {
    eventually("it hears", async || provider.health().is_connected()).await;
}

/// A provider that logs in as a role of its own, by which its statements are counted and its listener is found.
async fn connected_as(role: &CountingRole, db: &TestDb, config: LongPollConfig) -> PostgresProvider {
    drop(provider(db, LongPollConfig::default()).await);
    let options = Options::default().schema(db.schema().name()).long_poll(config);
    let provider = PostgresProvider::with_database(role.database().clone(), options).await.expect("start a provider");
    until_it_is_connected(&provider).await;
    provider
}

/// Waits until no earlier event needs a recheck, and no statement is sent.
async fn until_idle(role: &CountingRole) {
    sleep(reveille_wake::TRAILING * 3 / 2).await;
    let (mut before, mut same) = (role.calls().await, 0);
    eventually("statements come to an end", async || {
        sleep(Duration::from_millis(50)).await;
        let now = role.calls().await;
        same = if now == before { same + 1 } else { 0 };
        before = now;
        same >= 4
    })
    .await;
}

/// The start of an orchestration.
fn start(instance: &str) -> WorkItem {
    calls::start(instance, "")
}

/// An activity to execute.
fn activity(instance: &str) -> WorkItem {
    calls::activity(instance, 2)
}

async fn send(provider: &PostgresProvider, instance: &str) {
    provider.enqueue_for_orchestrator(start(instance), None).await.expect("sent");
}

/// The next turn; `None` if there is none in time.
async fn fetch(provider: &PostgresProvider) -> Option<OrchestrationItem> {
    let fetched = provider.fetch_orchestration_item(LEASE, PATIENCE, None).await.expect("a fetch");
    fetched.map(|(item, _, _)| item)
}

/// Waits for the next turn in a task of its own. Answers its instance.
fn waiter(provider: &PostgresProvider) -> JoinHandle<Option<String>> {
    let provider = provider.clone();
    tokio::spawn(async move { fetch(&provider).await.map(|item| item.instance) })
}

/// Waits for the next activity in a task of its own. Answers its instance.
fn worker(provider: &PostgresProvider) -> JoinHandle<Option<String>> {
    let provider = provider.clone();
    tokio::spawn(async move {
        let fetched = provider.fetch_work_item(LEASE, PATIENCE, None, &TagFilter::DefaultOnly).await;
        fetched.expect("a fetch").map(|(item, _, _)| match item {
            WorkItem::ActivityExecute { instance, .. } => instance,
            other => panic!("{other:?}"),
        })
    })
}

/// The health of the consumer of turns.
fn turns(provider: &PostgresProvider) -> ConsumerHealth {
    let consumers = provider.health().consumers;
    consumers.into_iter().find(|consumer| &*consumer.name == "orchestrations").expect("they fetch turns")
}

/// Waits until so many wait for turns.
async fn waiting(provider: &PostgresProvider, many: usize) {
    eventually("they wait", async || turns(provider).waiters == many).await;
}

/// Adds the start of an orchestration as psql would, or, if `unheard`, as by a process that dies before it notifies.
async fn insert(db: &TestDb, instance: &str, unheard: bool) {
    let mut conn = PgConnection::connect(db.url()).await.expect("connect");
    let mut transaction = conn.begin().await.expect("begin");
    if unheard {
        sqlx::query("set local search_path = reveille_own").execute(&mut *transaction).await.expect("unheard");
    }
    let insert = db.schema().sql("insert into {schema}.orchestrator_queue (instance_id, work_item) values ($1, $2)");
    let item = serde_json::to_string(&start(instance)).expect("JSON");
    sqlx::query(&insert).bind(instance).bind(item).execute(&mut *transaction).await.expect("insert");
    transaction.commit().await.expect("commit");
}
