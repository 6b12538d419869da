//! Logs, spans, metrics and errors contain no user data and no secrets: no payload, no URL, no password.
//!
//! The test collects everything of this library that a program could print: the log at every level, the keys of all
//! metrics, the texts of errors. duroxide's own logs are not covered.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{Provider, TagFilter, WorkItem};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};
use reveille_durable::{LongPollConfig, Options, PostgresProvider};
use reveille_pg::testing::{Mode, Proxy, TestDb};

use super::capture::Captured;
use super::recorder::Recorded;
use super::{LEASE, behind};
use crate::fixture::PATIENCE;

/// In every payload.
const SECRET: &str = "s3cr3t-payl0ad";
/// A password that is wrong.
const WRONG: &str = "s3cr3t-passw0rd";
const INSTANCE: &str = "order-7";

/// Has a secret wherever an orchestration can have one.
async fn secretive(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    ctx.set_kv_value(format!("key {SECRET}"), format!("value {SECRET}"));
    let answer = ctx.schedule_activity("Whisper", input).await?;
    let failure = ctx.schedule_activity("Fail", SECRET).await.err().unwrap_or_default();
    // In one turn: a client that sees the status may raise the event.
    let event = ctx.schedule_wait("answered");
    ctx.set_custom_status(format!("status {SECRET}"));
    let data = event.await;
    Ok(format!("{answer} {failure} {data}"))
}

async fn whisper(_: ActivityContext, input: String) -> Result<String, String> {
    Ok(format!("heard {input}"))
}

async fn fail(_: ActivityContext, input: String) -> Result<String, String> {
    Err(format!("failed {input}"))
}

/// Runs an orchestration to its end: started in a transaction, its event raised in another.
async fn run(provider: &PostgresProvider) {
    let activities = ActivityRegistry::builder().register("Whisper", whisper).register("Fail", fail).build();
    let orchestrations = OrchestrationRegistry::builder().register("Secretive", secretive).build();
    let runtime = Runtime::start_with_store(Arc::new(provider.clone()), activities, orchestrations).await;
    let mut transaction = provider.pool().begin().await.expect("begin");
    provider.start_orchestration_in(&mut transaction, INSTANCE, "Secretive", None, SECRET).await.expect("started");
    transaction.commit().await.expect("commit");
    provider.wait_for_status_change(INSTANCE, 0, PATIENCE).await.expect("an answer").expect("it has begun");
    Client::new(Arc::new(provider.clone())).raise_event(INSTANCE, "answered", SECRET).await.expect("raised");
    let ended = provider.wait_for_completion(INSTANCE, PATIENCE).await.expect("an answer");
    assert!(
        matches!(&ended, Some(OrchestrationStatus::Completed { output, .. }) if output.matches(SECRET).count() == 3),
        "the secrets arrived"
    );
    runtime.shutdown(None).await;
}

fn raised(data: &str) -> WorkItem {
    WorkItem::ExternalRaised { instance: INSTANCE.to_owned(), name: "answered".to_owned(), data: data.to_owned() }
}

/// What cannot be written and what cannot be read: PostgreSQL names the row in its errors, a parser the value.
async fn refused_and_unreadable(db: &TestDb, provider: &PostgresProvider) -> Vec<String> {
    let execute = async |sql: &str| {
        let sql = db.schema().sql(sql);
        sqlx::query(&sql).execute(provider.pool()).await.expect("execute");
    };
    let unreadable = |kind: &str| format!("{{\"{kind}\": \"{SECRET}\"}}");
    execute("alter table {schema}.orchestrator_queue add constraint refuses check (work_item !~ 'refuse')").await;
    let refused = provider.enqueue_for_orchestrator(raised(&format!("refuse {SECRET}")), None).await;
    let mut transaction = provider.pool().begin().await.expect("begin");
    let refused_too =
        provider.raise_event_in(&mut transaction, INSTANCE, "answered", &format!("refuse {SECRET}")).await;
    transaction.rollback().await.expect("roll back");

    let message = unreadable("ExternalRaised");
    execute(&format!(
        "insert into {{schema}}.orchestrator_queue (instance_id, work_item) values ('{INSTANCE}', '{message}')"
    ))
    .await;
    let fetched = provider.fetch_orchestration_item(LEASE, PATIENCE, None).await.expect("a fetch").expect("a turn");
    provider.abandon_orchestration_item(&fetched.1, None, true).await.expect("given up");
    let work = unreadable("ActivityExecute");
    execute(&format!(
        "insert into {{schema}}.worker_queue (execution_id, activity_id, instance_id, work_item)
         values (1, 9, '{INSTANCE}', '{work}')"
    ))
    .await;
    let soon = Duration::from_millis(300);
    let none = provider.fetch_work_item(LEASE, soon, None, &TagFilter::Any).await.expect("a fetch");
    assert!(none.is_none(), "what cannot be read is dropped");
    execute(&format!("update {{schema}}.history set events = '[{{\"event_id\": \"{SECRET}\"}}]'")).await;
    let corrupt = provider.read(INSTANCE).await.expect_err("it cannot be read");
    let turn = provider.fetch_orchestration_item(LEASE, PATIENCE, None).await.expect("a fetch").expect("a turn");
    vec![
        refused.expect_err("it is refused").to_string(),
        format!("{:?}", refused_too.expect_err("it is refused")),
        corrupt.to_string(),
        turn.0.history_error.expect("it cannot be read"),
    ]
}

/// An unavailable server, a wrong password, and invalid addresses.
async fn unreachable(db: &TestDb, password: &str) -> Vec<String> {
    let proxy = Proxy::start(db).await;
    let provider = behind(&proxy, db).await;
    proxy.set(Mode::Refuse).await;
    proxy.cut();
    let soon = Duration::from_millis(100);
    let away = provider.fetch_orchestration_item(LEASE, soon, None).await.expect_err("the server is away");
    let mut said = vec![away.to_string(), format!("{away:?}"), format!("{provider:?}")];
    let unknown = db.url().replace(password, WRONG);
    for url in
        [unknown.as_str(), &format!("postgres://u:{WRONG}@host:port/d"), &format!("postgres://u:{WRONG}@/?x={WRONG}")]
    {
        let error = PostgresProvider::new(url).await.expect_err("no server");
        said.extend([error.to_string(), format!("{error:?}"), reveille_pg::causes(&error)]);
    }
    let pool = reveille_pg::Options::default().listen_url(unknown);
    said.push(format!("{:?}", Options::default().pool(pool)));
    said
}

/// The password in a URL.
fn password(url: &str) -> &str {
    let login = url.split("://").nth(1).and_then(|rest| rest.split('@').next()).expect("a login");
    login.split_once(':').expect("a password").1
}

/// Secrets in every payload and in the URL are in nothing of this library that a program could print, whatever goes
/// wrong.
/// Runs an orchestration, makes every kind of failure, and searches the log at level TRACE, the metrics and the errors.
#[tokio::test]
async fn user_data_and_secrets_are_never_logged() {
    let recorded = Recorded::default();
    let _metrics = metrics::set_default_local_recorder(&recorded);
    let (captured, _log) = Captured::begin();
    let db = TestDb::new().await;
    let password = password(db.url());
    let long_poll = LongPollConfig::enabled();
    let provider = PostgresProvider::new_with_options(db.url(), Some(db.schema().name()), long_poll);
    let provider = provider.await.expect("start a provider");
    run(&provider).await;
    let mut said = refused_and_unreadable(&db, &provider).await;
    said.extend(unreachable(&db, password).await);

    tracing::trace!("the faintest word");
    let entries = captured.entries();
    let ours: Vec<String> = entries
        .iter()
        .filter(|entry| !entry.target.starts_with("duroxide"))
        .map(|entry| format!("{entry:?}"))
        .collect();
    let has = |part: &str| ours.iter().any(|line| line.contains(part));
    assert!(has(INSTANCE) && has("fetched work item"), "the log was captured");
    assert!(has("database error"), "errors were logged");
    assert!(has("dropped a message") && has("dropped an activity"));
    assert!(has("the faintest word"), "at every level");
    let metrics = recorded.starting("").into_iter().map(|(key, _)| key);
    for text in ours.into_iter().chain(metrics).chain(said) {
        for secret in [SECRET, WRONG, password, db.url()] {
            // Without the text, which would tell it.
            assert!(!text.contains(secret), "{} is in: {}", secret.len(), text.replace(secret, "<SECRET>"));
        }
    }
}
