//! Histories changed by other means: noticed although they are cached, and without effect on other instances.

use duroxide::EventKind;
use duroxide::providers::Provider;
use reveille_durable::PostgresProvider;
use reveille_pg::testing::TestDb;

use super::LEASE;
use crate::calls::{Done, ack, begin, fetch, raised, send};
use crate::fixture::Fixture;

/// An instance of two turns and another beside it, both cached by the provider that wrote and read them.
async fn remembered(provider: &PostgresProvider) {
    for instance in ["changed", "other"] {
        begin(provider, instance, LEASE).await;
        send(provider, raised(instance, "second")).await;
        let (_, token, _) = fetch(provider, LEASE).await;
        ack(provider, &token, Done::heard(instance, 2, "second")).await.expect("the lease is fresh");
        assert_eq!(heard(provider, instance).await, Ok(vec![None, Some("second".to_owned())]));
    }
}

/// What an instance's history says it heard, event by event; the error says whether it may be tried again.
async fn heard(provider: &PostgresProvider, instance: &str) -> Result<Vec<Option<String>>, bool> {
    let history = provider.read(instance).await.map_err(|error| error.is_retryable())?;
    Ok(history.iter().map(|event| said(&event.kind)).collect())
}

fn said(kind: &EventKind) -> Option<String> {
    match kind {
        EventKind::ExternalEvent { data, .. } => Some(data.clone()),
        _ => None,
    }
}

/// What the next turn of an instance is given as its history; the error if it cannot be read.
async fn given(provider: &PostgresProvider, instance: &str) -> Result<Vec<Option<String>>, String> {
    send(provider, raised(instance, "third")).await;
    let (item, token, attempt) = fetch(provider, LEASE).await;
    assert_eq!((item.instance.as_str(), attempt), (instance, 1), "an unreadable history is no reason to stall");
    assert_eq!(item.messages.len(), 1);
    provider.abandon_orchestration_item(&token, None, true).await.expect("given back");
    // Out of the way of whatever the test fetches next.
    let (_, token, _) = fetch(provider, LEASE).await;
    ack(provider, &token, Done::default()).await.expect("the lease is fresh");
    match item.history_error {
        None => Ok(item.history.iter().map(|event| said(&event.kind)).collect()),
        Some(error) => {
            assert!(item.history.is_empty(), "half a history is worse than none");
            Err(error)
        }
    }
}

async fn run(db: &TestDb, sql: &str) {
    let sql = db.schema().sql(sql);
    let done = sqlx::query(&sql).execute(db.database().pool()).await.expect("run");
    assert!(sql.as_str().starts_with("truncate") || done.rows_affected() > 0, "nothing was changed");
}

/// The other instance is as it was, for readers and for turns.
async fn other_is_well(provider: &PostgresProvider) {
    let whole = vec![None, Some("second".to_owned())];
    assert_eq!(heard(provider, "other").await, Ok(whole.clone()));
    assert_eq!(given(provider, "other").await, Ok(whole));
}

/// A row made unreadable in place, with the same ids and the same count, is noticed by readers and by turns although
/// the provider remembers what it was; and the error does not repeat what the row holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_made_unreadable_in_place_is_noticed() {
    let Fixture { db, provider } = Fixture::new().await;
    remembered(&provider).await;
    let spoil = "update {schema}.history set events = '[{\"secret\": \"word\"}]' where instance_id = 'changed' and event_id = 2";
    run(&db, spoil).await;
    assert_eq!(heard(&provider, "changed").await, Err(false), "an error that trying again does not mend");
    let error = given(&provider, "changed").await.expect_err("the history cannot be read");
    assert!(!error.contains("word"), "{error}");
    other_is_well(&provider).await;
}

/// A row changed in place into another that can be read is read, and not the cached history.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_changed_in_place_is_read_anew() {
    let Fixture { db, provider } = Fixture::new().await;
    remembered(&provider).await;
    let change = "update {schema}.history set events = replace(events, 'second', 'edited')
                  where instance_id = 'changed' and event_id = 2";
    run(&db, change).await;
    let edited = vec![None, Some("edited".to_owned())];
    assert_eq!(heard(&provider, "changed").await, Ok(edited.clone()));
    assert_eq!(given(&provider, "changed").await, Ok(edited));
    other_is_well(&provider).await;
}

/// A row that was removed is gone for readers and for turns, whichever row it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_row_is_noticed() {
    let Fixture { db, provider } = Fixture::new().await;
    remembered(&provider).await;
    run(&db, "delete from {schema}.history where instance_id = 'changed' and event_id = 2").await;
    assert_eq!(heard(&provider, "changed").await, Ok(vec![None]));
    assert_eq!(given(&provider, "changed").await, Ok(vec![None]));
    other_is_well(&provider).await;

    run(&db, "delete from {schema}.history where instance_id = 'other' and event_id = 1").await;
    let rest = vec![Some("second".to_owned())];
    assert_eq!(heard(&provider, "other").await, Ok(rest.clone()), "the last row alone, with the same last id");
    assert_eq!(given(&provider, "other").await, Ok(rest));
}

/// A truncated table is empty for every process.
#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_history_is_noticed() {
    let Fixture { db, provider } = Fixture::new().await;
    remembered(&provider).await;
    run(&db, "truncate {schema}.history").await;
    for instance in ["changed", "other"] {
        assert_eq!(heard(&provider, instance).await, Ok(vec![]));
        assert_eq!(given(&provider, instance).await, Ok(vec![]));
    }
}

/// An instance that was deleted and made again does not use the cached history of the old one.
/// Another provider deletes it and begins it anew, with as many events.
#[tokio::test(flavor = "multi_thread")]
async fn a_recreated_instance_does_not_use_the_old_cache() {
    let Fixture { db, provider } = Fixture::new().await;
    remembered(&provider).await;
    let elsewhere = crate::fixture::provider(&db, reveille_durable::LongPollConfig::enabled()).await;
    let admin = elsewhere.as_management_capability().expect("it has it");
    admin.delete_instance("changed", true).await.expect("deleted");
    begin(&elsewhere, "changed", LEASE).await;
    send(&elsewhere, raised("changed", "anew")).await;
    let (_, token, _) = fetch(&elsewhere, LEASE).await;
    ack(&elsewhere, &token, Done::heard("changed", 2, "anew")).await.expect("the lease is fresh");
    elsewhere.flush().await;

    let anew = vec![None, Some("anew".to_owned())];
    assert_eq!(heard(&provider, "changed").await, Ok(anew.clone()));
    assert_eq!(given(&provider, "changed").await, Ok(anew));
    other_is_well(&provider).await;
}
