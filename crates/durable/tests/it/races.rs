//! Claims of several processes at the same time as acks: completed work is not repeated.

mod deadlocks;
mod interleaved;

use std::collections::HashSet;
use std::time::Duration;

use duroxide::providers::{Provider, ProviderAdmin as _, SessionFetchConfig, TagFilter, WorkItem};
use duroxide::{Event, EventKind, INITIAL_EXECUTION_ID};
use reveille_durable::{LongPollConfig, PostgresProvider};
use reveille_pg::testing::TestDb;
use sqlx::{Postgres, Transaction};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::calls::{Done, ack, activity, begin, fetch_work, identity, send_work, start};
use crate::fixture::{Elsewhere, Fixture, PATIENCE, eventually};

/// Orchestrations of one turn each.
const TURNS: usize = 600;
/// Fetches in each of two processes.
const FETCHERS: usize = 4;
/// The lease: ends after the test.
pub(crate) const LEASE: Duration = Duration::from_secs(120);

/// A claim that waits for no lock is done by then, and one that waits is not.
const SOON: Duration = Duration::from_secs(5);

/// One side of a race, which goes on when the test says so.
struct Side {
    transaction: Transaction<'static, Postgres>,
    backend: i32,
}

impl Side {
    async fn begin(db: &TestDb) -> Side {
        let mut transaction = db.database().pool().begin().await.expect("a transaction");
        let backend =
            sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut *transaction).await.expect("a number");
        Side { transaction, backend }
    }

    /// Runs a statement of the schema. Returns the number of rows.
    async fn run(&mut self, db: &TestDb, sql: &str) -> u64 {
        let done = sqlx::query(db.schema().sql(sql)).execute(&mut *self.transaction).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error}")).rows_affected()
    }

    /// Until another transaction waits for a lock of this side.
    async fn is_waited_for(&self, db: &TestDb) {
        let waiting =
            "select exists (select from pg_locks l where not l.granted and $1 = any (pg_blocking_pids(l.pid)))";
        eventually("the other side waits", async || {
            let asked = sqlx::query_scalar(waiting).bind(self.backend).fetch_one(db.database().pool()).await;
            asked.expect("whether a session waits")
        })
        .await;
    }

    async fn commit(self) {
        self.transaction.commit().await.expect("committed");
    }
}

/// Runs a statement of the schema by itself.
async fn run(db: &TestDb, sql: &str) {
    let done = sqlx::query(db.schema().sql(sql)).execute(db.database().pool()).await;
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// A number that a statement of the schema answers.
async fn number(db: &TestDb, sql: &str) -> i64 {
    let asked = sqlx::query_scalar(db.schema().sql(sql)).fetch_one(db.database().pool()).await;
    asked.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// A turn that ends its orchestration.
fn whole(instance: &str) -> Done {
    let mut done = Done::first(instance, "");
    let ended = EventKind::OrchestrationCompleted { output: String::new() };
    done.events.push(Event::with_event_id(2, instance, INITIAL_EXECUTION_ID, None, ended));
    done.metadata.status = Some("Completed".to_owned());
    done
}

/// Fetches and acks at once, again and again. Returns what it got.
async fn work(provider: PostgresProvider, given: UnboundedSender<String>) {
    loop {
        let fetched = provider.fetch_orchestration_item(LEASE, PATIENCE, None).await;
        let Some((item, token, _)) = fetched.expect("a fetch") else { continue };
        let acked = ack(&provider, &token, whole(&item.instance)).await;
        acked.unwrap_or_else(|error| panic!("{}: {error:?}", item.instance));
        given.send(item.instance).expect("the test listens");
    }
}

/// Fetches and acks at once, again and again; acks of what was deleted in the meantime fail.
async fn work_in_vain(provider: PostgresProvider) {
    loop {
        let fetched = provider.fetch_orchestration_item(LEASE, PATIENCE, None).await;
        let Some((item, token, _)) = fetched.expect("a fetch") else { continue };
        let acked = ack(&provider, &token, whole(&item.instance)).await;
        drop(acked);
    }
}

/// An instance that is deleted during its turn is not created again by the ack of that turn.
/// Instances are started and at once deleted by force, while two processes fetch and ack them; in any order, nothing of
/// them is left.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_deleted_during_its_turn_is_not_recreated() {
    let here = Fixture::new().await;
    let elsewhere = Elsewhere::start(&here.db, LongPollConfig::enabled()).await;
    let mut workers = JoinSet::new();
    for _ in 0..FETCHERS {
        for provider in [&here.provider, &elsewhere.provider] {
            workers.spawn(work_in_vain(provider.clone()));
        }
    }
    let mut deleted = 0;
    for number in 0..TURNS {
        let instance = format!("turn-{number}");
        here.provider.enqueue_for_orchestrator(start(&instance, ""), None).await.expect("sent");
        // Now and then together with more than can be locked one by one.
        let others = (0..1_000).filter(|_| number % 50 == 0).map(|other| format!("unknown-{other}"));
        let ids: Vec<String> = [instance].into_iter().chain(others).collect();
        let gone = here.provider.delete_instances_atomic(&ids, true).await.expect("deleted");
        deleted += gone.instances_deleted;
    }
    // Acks on their way have ended when their leases are gone, and a lease of what was deleted goes by its ack.
    let left = here.db.schema().sql(
        "select array[(select count(*) from {schema}.instances), (select count(*) from {schema}.executions),
                      (select count(*) from {schema}.history), (select count(*) from {schema}.instance_locks),
                      (select count(*) from {schema}.orchestrator_queue)]",
    );
    let mut calm = 0;
    eventually("nothing changes any more", async || {
        let left: Vec<i64> = sqlx::query_scalar(&left).fetch_one(here.db.database().pool()).await.expect("counts");
        calm = if left == [0; 5] { calm + 1 } else { 0 };
        calm >= 20
    })
    .await;
    assert!(deleted > 0, "some had taken their turn before");
    assert!(workers.try_join_next().is_none(), "they work");
}

/// A turn that one process claims and finishes while another polls is not given to that other: its messages are gone,
/// whatever the poll had read before.
/// Turns are as short as can be, and started one by one, so that claims and acks of both processes overlap all the
/// time.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_acked_during_a_poll_is_not_returned_again() {
    let here = Fixture::new().await;
    let elsewhere = Elsewhere::start(&here.db, LongPollConfig::enabled()).await;
    let (given, mut gifts) = unbounded_channel();
    let mut workers = JoinSet::new();
    for _ in 0..FETCHERS {
        for provider in [&here.provider, &elsewhere.provider] {
            workers.spawn(work(provider.clone(), given.clone()));
        }
    }
    for number in 0..TURNS {
        here.provider.enqueue_for_orchestrator(start(&format!("turn-{number}"), ""), None).await.expect("sent");
    }
    let mut seen = HashSet::new();
    while seen.len() < TURNS {
        let next = tokio::select! {
            next = timeout(PATIENCE, gifts.recv()) => next.expect("all are given in time").expect("they work"),
            ended = workers.join_next() => panic!("{ended:?}"),
        };
        assert!(seen.insert(next.clone()), "{next} was given twice");
    }
    // Whatever is left over would be given now.
    let left = here.db.schema().sql("select count(*) from {schema}.orchestrator_queue");
    let left: i64 = sqlx::query_scalar(&left).fetch_one(here.db.database().pool()).await.expect("a number");
    assert_eq!(left, 0);
    assert!(gifts.try_recv().is_err(), "something was given twice");
}

/// A claim does not wait for a locked row of a session, as the ack of its last activity does: two that wait for each
/// other's sessions would never end. It takes what else there is, and the session's when the row is free.
/// The owner of a session fetches twice at a time while a transaction holds its row, with an activity of the session
/// first in line.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_skips_a_locked_session() {
    let Fixture { db, provider } = Fixture::new().await;
    let owner = SessionFetchConfig { owner_id: "one".to_owned(), lock_timeout: LEASE };
    let of_session = |id| match activity("a", id) {
        WorkItem::ActivityExecute { instance, execution_id, id, name, input, tag, .. } => {
            let session_id = Some("s".to_owned());
            WorkItem::ActivityExecute { instance, execution_id, id, name, input, session_id, tag }
        }
        other => other,
    };
    let fetch = {
        let provider = provider.clone();
        move || {
            let (provider, owner) = (provider.clone(), owner.clone());
            async move {
                let fetched = provider.fetch_work_item(LEASE, PATIENCE, Some(&owner), &TagFilter::Any).await;
                fetched.expect("a fetch").map(|(item, token, _)| (identity(&item).1, token)).expect("an activity")
            }
        }
    };
    send_work(&provider, of_session(1)).await;
    let (_, token) = fetch().await;
    provider.ack_work_item(&token, None).await.expect("acked");

    let mut holder = db.database().pool().begin().await.expect("a transaction");
    let lock = db.schema().sql("select from {schema}.sessions where session_id = 's' for update");
    assert_eq!(sqlx::query(&lock).execute(&mut *holder).await.expect("locked").rows_affected(), 1);
    send_work(&provider, of_session(2)).await;
    send_work(&provider, activity("a", 3)).await;
    let mut fetches = JoinSet::from_iter([fetch(), fetch()]);
    let first =
        timeout(SOON, fetches.join_next()).await.expect("it waits for no lock").expect("two").expect("no panic");
    assert_eq!(first.0, 3);
    holder.rollback().await.expect("rolled back");
    let second = fetches.join_next().await.expect("one more").expect("no panic");
    assert_eq!(second.0, 2);
}

/// An activity whose lease is renewed at the time of its ack still ends, and so does one that is released then.
/// Many times over each is renewed by three and ended by one, all at once. What ended is gone, what was given up is
/// free.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_during_the_ack_changes_nothing() {
    const ROUNDS: u64 = 150;
    let Fixture { db, provider } = Fixture::new().await;
    begin(&provider, "i", LEASE).await;
    for round in 0..ROUNDS {
        send_work(&provider, activity("i", 10 + round)).await;
        let (_, token, _) = fetch_work(&provider, LEASE).await;
        let mut renewals = JoinSet::new();
        for _ in 0..3 {
            let (provider, token) = (provider.clone(), token.clone());
            renewals.spawn(async move { drop(provider.renew_work_item_lock(&token, LEASE * 2).await) });
        }
        if round % 2 == 0 {
            provider.ack_work_item(&token, None).await.expect("a fresh lease");
            renewals.join_all().await;
            provider.flush().await;
            assert_eq!(number(&db, "select count(*) from {schema}.worker_queue").await, 0, "round {round}");
        } else {
            provider.abandon_work_item(&token, None, true).await.expect("a fresh lease");
            renewals.join_all().await;
            assert_eq!(number(&db, "select count(*) from {schema}.worker_queue where locked_until is null").await, 1);
            let (_, token, attempt) = fetch_work(&provider, LEASE).await;
            assert_eq!(attempt, 1);
            provider.ack_work_item(&token, None).await.expect("a fresh lease");
        }
    }
}
