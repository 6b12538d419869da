//! Metrics, logs and spans of the provider, and what they never contain.
//!
//! Each test has a recorder and a subscriber of its own, for its thread: all of it runs on one thread.

mod capture;
mod recorder;
mod secrets;

use std::time::Duration;

use capture::Captured;
use duroxide::providers::{Provider, TagFilter};
use recorder::Recorded;
use reveille_durable::{LongPollConfig, METRICS, Options, PostgresProvider};
use reveille_pg::Database;
use reveille_pg::testing::{Proxy, TestDb};

use crate::calls::{self, Done, activity, completion, start};
use crate::fixture::{Fixture, PATIENCE, eventually, provider as provider_on};

const LEASE: Duration = Duration::from_secs(30);
const ERRORS: &str = "provider.infrastructure_errors";
const RETRIES: &str = "provider.ack_orchestration_retries";

/// Acks a first turn, which gives an activity to workers.
async fn ack(provider: &PostgresProvider, instance: &str, token: &str) -> Result<(), String> {
    let first = Done { work: vec![activity(instance, 2)], ..Done::first(instance, "") };
    calls::ack(provider, token, first).await.map_err(|error| error.to_string())
}

async fn fetch(provider: &PostgresProvider) -> String {
    calls::fetch(provider, LEASE).await.1
}

async fn fetch_work(provider: &PostgresProvider) -> String {
    calls::fetch_work(provider, LEASE).await.1
}

/// One call of each kind that is measured.
async fn everything(provider: &PostgresProvider, instance: &str) {
    provider.enqueue_for_orchestrator(start(instance, ""), None).await.expect("sent");
    let token = fetch(provider).await;
    ack(provider, instance, &token).await.expect("acked");
    let token = fetch_work(provider).await;
    provider.ack_work_item(&token, Some(completion(instance, 2, ""))).await.expect("acked");
}

/// The histograms count each call once, without labels to add up, and no error where there was none.
/// Makes each call that has a histogram, and one fetch that waits in vain, whose time tells the unit.
#[tokio::test]
async fn every_duration_is_recorded() {
    let recorded = Recorded::default();
    let _guard = metrics::set_default_local_recorder(&recorded);
    let fixture = Fixture::new().await;
    everything(&fixture.provider, "i").await;
    fixture.provider.flush().await;
    let histograms: Vec<&str> =
        METRICS.iter().filter(|metric| metric.kind == "histogram").map(|metric| metric.name).collect();
    assert_eq!(histograms.len(), 5);
    for name in histograms {
        let times = recorded.of(name);
        assert!(matches!(times[..], [time] if time > 0.0), "{name}: {times:?}");
    }
    assert_eq!(recorded.starting(ERRORS), []);
    assert_eq!(recorded.starting(RETRIES), []);

    const WAIT: Duration = Duration::from_millis(300);
    let nothing = fixture.provider.fetch_work_item(LEASE, WAIT, None, &TagFilter::Any).await.expect("a fetch");
    assert!(nothing.is_none());
    let waited = recorded.of("provider.dequeue_worker_duration_ms")[1];
    assert!((300.0..PATIENCE.as_millis() as f64).contains(&waited), "{waited} are no milliseconds of a wait");
}

/// A table of `fixture` that fails whatever is done to it, by a trigger.
async fn failing(fixture: &Fixture, event: &str, table: &str, code: &str) {
    let schema = fixture.db.schema();
    for sql in [
        "create or replace function {schema}.fail() returns trigger language plpgsql as
         $$ begin raise exception 'made to fail' using errcode = tg_argv[0]; end $$"
            .to_owned(),
        format!(
            "create or replace trigger fails before {event} on {{schema}}.{table} for each row execute function {{schema}}.fail('{code}')"
        ),
    ] {
        sqlx::query(schema.sql(&sql)).execute(fixture.provider.pool()).await.expect("make it fail");
    }
}

async fn healed(fixture: &Fixture, table: &str) {
    let sql = fixture.db.schema().sql(&format!("drop trigger fails on {{schema}}.{table}"));
    sqlx::query(&sql).execute(fixture.provider.pool()).await.expect("heal it");
}

/// A fetch returns an error at its timeout: here, soon. The server reports an error before it releases the locks of the
/// failed claim, so a fetch that follows at once may find the instance locked, and nothing to claim by its timeout.
async fn fails_to_fetch(provider: &PostgresProvider) {
    const SOON: Duration = Duration::from_millis(50);
    eventually("it fails", async || match provider.fetch_orchestration_item(LEASE, SOON, None).await {
        Err(_) => true,
        Ok(nothing) => {
            assert!(nothing.is_none(), "{nothing:?}");
            false
        }
    })
    .await;
}

/// The error counter has operation and kind, and counts each failed call once, however often it was retried.
/// Triggers fail the tables that each operation writes, with a SQLSTATE of each kind; an answer that cannot be read is
/// none of them.
#[tokio::test]
async fn every_failure_is_counted_by_operation_and_kind() {
    let recorded = Recorded::default();
    let _guard = metrics::set_default_local_recorder(&recorded);
    let fixture = Fixture::with_options(Options::default().pipelined_acks(0)).await;
    let provider = &fixture.provider;
    let counted = |operation: &str, kind: &str| {
        recorded.of(&format!("{ERRORS}{{error_type={kind},operation={operation}}}")).iter().sum::<f64>()
    };

    provider.enqueue_for_orchestrator(start("i", ""), None).await.expect("sent");
    let kinds = [("40001", "serialization_error"), ("55P03", "lock_timeout"), ("23514", "transaction_failed")];
    for (code, kind) in kinds {
        failing(&fixture, "insert", "instance_locks", code).await;
        fails_to_fetch(provider).await;
        assert_eq!(counted("fetch", kind), 1.0, "{kind}");
    }
    healed(&fixture, "instance_locks").await;

    failing(&fixture, "insert", "history", "23514").await;
    let token = fetch(provider).await;
    ack(provider, "i", &token).await.expect_err("it fails");
    assert_eq!(counted("ack_orch", "transaction_failed"), 1.0);
    healed(&fixture, "history").await;
    ack(provider, "i", &token).await.expect("the lease is still there");

    failing(&fixture, "update", "worker_queue", "23514").await;
    provider.fetch_work_item(LEASE, Duration::ZERO, None, &TagFilter::Any).await.expect_err("it fails");
    assert_eq!(counted("fetch", "transaction_failed"), 2.0, "an activity's fetch counts as one");
    healed(&fixture, "worker_queue").await;

    let token = fetch_work(provider).await;
    failing(&fixture, "insert", "orchestrator_queue", "23514").await;
    provider.ack_work_item(&token, Some(completion("i", 2, ""))).await.expect_err("it fails");
    assert_eq!(counted("ack_worker", "transaction_failed"), 1.0);
    provider.enqueue_for_orchestrator(start("j", ""), None).await.expect_err("it fails");
    assert_eq!(counted("enqueue", "transaction_failed"), 1.0);

    healed(&fixture, "orchestrator_queue").await;

    // A history of another type than it should be, for a provider that does not remember it.
    let odd = "alter table {schema}.history alter column events type bytea using convert_to(events, 'UTF8')";
    sqlx::query(fixture.db.schema().sql(odd)).execute(provider.pool()).await.expect("change the type");
    provider.enqueue_for_orchestrator(completion("i", 2, ""), None).await.expect("sent");
    let forgetful = provider_on(&fixture.db, LongPollConfig::default()).await;
    fails_to_fetch(&forgetful).await;
    assert_eq!(counted("fetch", "unknown"), 1.0, "{:?}", recorded.starting(ERRORS));

    // Errors of the caller are not infrastructure errors.
    let before = recorded.starting(ERRORS);
    ack(provider, "i", "no token").await.expect_err("it is none");
    provider.ack_work_item("no token", None).await.expect_err("it is none");
    assert_eq!(recorded.starting(ERRORS), before);
}

/// A provider that reaches the server by way of a proxy.
async fn behind(proxy: &Proxy, db: &TestDb) -> PostgresProvider {
    let database = Database::connect_lazy(proxy.url(), reveille_pg::Options::default()).expect("a pool");
    let options = Options::default().schema(db.schema().name()).long_poll(LongPollConfig::enabled()).pipelined_acks(0);
    PostgresProvider::with_database(database, options).await.expect("start a provider")
}

/// An ack that had to be repeated is counted; one whose response was lost is not: its outcome was read, not repeated.
/// A proxy cuts the connection before and after the server has seen the ack.
#[tokio::test]
async fn an_ack_that_is_sent_again_is_counted() {
    let recorded = Recorded::default();
    let _guard = metrics::set_default_local_recorder(&recorded);
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let provider = behind(&proxy, &db).await;
    for (instance, arrives, retries) in [("needle-1", true, 0.0), ("needle-2", false, 1.0)] {
        provider.enqueue_for_orchestrator(start(instance, ""), None).await.expect("sent");
        let token = fetch(&provider).await;
        let cut = if arrives { proxy.cut_reply_to(instance) } else { proxy.cut_request_with(instance) };
        ack(&provider, instance, &token).await.expect("its true outcome");
        cut.happened().await;
        assert_eq!(recorded.of(RETRIES).iter().sum::<f64>(), retries, "{instance}");
    }
    assert_eq!(recorded.starting(ERRORS), [], "the runtime saw no error");
}

/// Spans with a value for each of these fields, whenever the call is about an instance.
const SPANS: &[(&str, &[&str])] = &[
    ("fetch_orchestration_item", &["instance_id"]),
    ("ack_orchestration_item", &["instance_id", "execution_id"]),
    ("abandon_orchestration_item", &["instance_id"]),
    ("fetch_work_item", &["instance_id"]),
    ("ack_work_item", &["instance_id"]),
    ("read", &["instance_id"]),
];

/// The log shows what happened to an instance.
/// Makes the calls and compares the fields of their spans.
#[tokio::test]
async fn spans_carry_the_ids() {
    let (captured, _guard) = Captured::begin();
    let fixture = Fixture::new().await;
    let provider = &fixture.provider;
    everything(provider, "order-7").await;
    let token = fetch(provider).await;
    provider.abandon_orchestration_item(&token, None, true).await.expect("given up");
    provider.read("order-7").await.expect("read");
    for (name, fields) in SPANS {
        let spans = captured.spans(name);
        assert!(!spans.is_empty(), "{name} has no span");
        for span in &spans {
            assert_eq!(span.level, tracing::Level::DEBUG, "{name}");
            for field in *fields {
                let expected = if *field == "execution_id" { "1" } else { "order-7" };
                assert_eq!(span.fields.get(field).map(String::as_str), Some(expected), "{field} of {name}: {span:?}");
            }
        }
    }
}
