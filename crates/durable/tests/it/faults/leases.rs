//! Acks and leases: an ack succeeds or is rejected permanently; it never asks for a retry.

use std::time::Duration;

use duroxide::providers::{Provider, ProviderError};
use reveille_durable::PostgresProvider;
use reveille_pg::testing::{Mode, Proxy, TestDb};
use tokio::time::{Instant, sleep};

use super::{LEASE, SHORT_LEASE, options};
use crate::calls::{Done, ack, activity, completion, fetch, fetch_work, send, send_work, start};
use crate::fixture::Fixture;

/// Two providers on one schema without shared memory.
async fn two() -> (TestDb, PostgresProvider, PostgresProvider, Proxy) {
    // Only a waited ack knows what becomes of its token in another process.
    let Fixture { db, provider } = Fixture::without_pipelining().await;
    // Another address makes it another database for objects that exist once per database.
    let proxy = Proxy::start(&db).await;
    let elsewhere = PostgresProvider::connect(proxy.url(), options(db.schema()).pipelined_acks(0)).await;
    (db, provider, elsewhere.expect("a provider"), proxy)
}

/// A leased turn and a leased activity of `provider`.
async fn leased(provider: &PostgresProvider, lease: Duration) -> (String, String) {
    send(provider, start("turn", "")).await;
    send_work(provider, activity("work", 1)).await;
    let ((_, turn, _), (_, work, _)) = (fetch(provider, lease).await, fetch_work(provider, lease).await);
    (turn, work)
}

async fn ack_turn(provider: &PostgresProvider, token: &str) -> Result<(), ProviderError> {
    ack(provider, token, Done::first("turn", "")).await
}

async fn ack_work(provider: &PostgresProvider, token: &str) -> Result<(), ProviderError> {
    provider.ack_work_item(token, Some(completion("work", 1, ""))).await
}

/// Of many concurrent acks of one token, one succeeds and the others are rejected permanently, whichever process they
/// come from.
/// Twenty of each kind, half of them through a provider that shares nothing with the other.
#[tokio::test(flavor = "multi_thread")]
async fn of_concurrent_acks_of_one_token_exactly_one_succeeds() {
    let (_db, here, elsewhere, _proxy) = two().await;
    let (turn, work) = leased(&here, LEASE).await;
    let (mut turns, mut works) = (tokio::task::JoinSet::new(), tokio::task::JoinSet::new());
    for number in 0..20 {
        let provider = if number % 2 == 0 { here.clone() } else { elsewhere.clone() };
        let (turn, work) = (turn.clone(), work.clone());
        turns.spawn({
            let provider = provider.clone();
            async move { ack_turn(&provider, &turn).await }
        });
        works.spawn(async move { ack_work(&provider, &work).await });
    }
    for acks in [turns.join_all().await, works.join_all().await] {
        assert_eq!(acks.iter().filter(|ack| ack.is_ok()).count(), 1, "{acks:?}");
        assert!(acks.iter().flat_map(|ack| ack.as_ref().err()).all(|error| !error.is_retryable()), "{acks:?}");
    }
}

/// An ack that comes after its lease has ended is rejected permanently and changes nothing, although the work was not
/// claimed again yet; and so is one after another claim.
/// Leases of half a second, never renewed.
#[tokio::test(flavor = "multi_thread")]
async fn an_ack_after_its_lease_is_rejected_permanently() {
    const LEASED: Duration = Duration::from_millis(500);
    let Fixture { db: _db, provider } = Fixture::new().await;
    let (turn, work) = leased(&provider, LEASED).await;
    sleep(LEASED * 2).await;
    for error in [ack_turn(&provider, &turn).await, ack_work(&provider, &work).await] {
        let error = error.expect_err("the lease has ended");
        assert!(!error.is_retryable(), "{error}");
    }
    let ((_, new_turn, turns), (_, new_work, works)) =
        (fetch(&provider, LEASE).await, fetch_work(&provider, LEASE).await);
    assert_eq!((turns, works), (2, 2), "nothing was changed, and it is the second attempt");
    for error in [ack_turn(&provider, &turn).await, ack_work(&provider, &work).await] {
        let error = error.expect_err("another worker holds it");
        assert!(!error.is_retryable(), "{error}");
    }
    ack_turn(&provider, &new_turn).await.expect("the right token");
    ack_work(&provider, &new_work).await.expect("the right token");
}

/// A lease that is renewed in time lasts, to the millisecond asked for and not to whole seconds; one that has ended
/// cannot be renewed.
/// Renewed three times for less than a second each, across twice the first lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_lasts_as_long_as_it_is_renewed_for() {
    const STEP: Duration = Duration::from_millis(900);
    let Fixture { db: _db, provider } = Fixture::new().await;
    let (turn, work) = leased(&provider, STEP).await;
    let since = Instant::now();
    for _ in 0..3 {
        sleep(STEP / 2).await;
        provider.renew_orchestration_item_lock(&turn, STEP).await.expect("it is held");
        provider.renew_work_item_lock(&work, STEP).await.expect("it is held");
    }
    assert!(since.elapsed() > STEP);
    sleep(STEP * 2).await;
    provider.renew_orchestration_item_lock(&turn, STEP).await.expect_err("it has ended");
    provider.renew_work_item_lock(&work, STEP).await.expect_err("it has ended");
}

/// Acks while the database is unavailable wait for it and succeed: an error would fail the user's orchestration.
/// A proxy refuses all connections for a while that is shorter than the lease.
#[tokio::test(flavor = "multi_thread")]
async fn acks_wait_for_an_unavailable_database() {
    let (_db, _here, elsewhere, proxy) = two().await;
    let (turn, work) = leased(&elsewhere, LEASE).await;
    proxy.set(Mode::Refuse).await;
    proxy.cut();
    let back = async {
        sleep(SHORT_LEASE).await;
        proxy.set(Mode::Pass).await;
    };
    let (turn, work, ()) = tokio::join!(ack_turn(&elsewhere, &turn), ack_work(&elsewhere, &work), back);
    turn.expect("acked, if late");
    work.expect("acked, if late");
}

/// Acks while the database stays unavailable end when their leases have certainly ended, with a permanent error: every
/// later call with the token is rejected as well.
/// A proxy refuses all connections until the end.
#[tokio::test(flavor = "multi_thread")]
async fn acks_without_a_database_are_rejected_after_their_lease() {
    let (_db, here, elsewhere, proxy) = two().await;
    let (turn, work) = leased(&elsewhere, SHORT_LEASE).await;
    proxy.set(Mode::Refuse).await;
    proxy.cut();
    let since = Instant::now();
    let (turn_lost, work_lost) = tokio::join!(ack_turn(&elsewhere, &turn), ack_work(&elsewhere, &work));
    assert!(since.elapsed() > SHORT_LEASE / 2, "given up after {:?}", since.elapsed());
    for error in [turn_lost, work_lost] {
        let error = error.expect_err("the database is away");
        assert!(!error.is_retryable(), "{error}");
    }
    // Nothing of it was applied: both are claimed again.
    assert_eq!(fetch(&here, LEASE).await.2, 2);
    assert_eq!(fetch_work(&here, LEASE).await.2, 2);
}
