//! Pushes that claim for waiting pops in the same statement.

use std::time::Duration;

use reveille_pg::Database;
use reveille_pg::testing::{Proxy, TestDb, eventually};
use reveille_queue::{AckStatus, Batch, Options, Pop, Queues, Source};
use tokio::task::JoinHandle;

use crate::fixture::{Fixture, end, now, of, push, soon, transactions};

/// Text of the statement that pushes and claims, and of no other.
const PUSH_AND_CLAIM: &str = "with pushed as";
/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3_600);

/// Only wake-ups and due times cause polls.
fn options() -> Options {
    let wake = reveille_wake::Options {
        fallback_poll_interval: NEVER,
        notify_delivery_timeout: NEVER,
        ..reveille_wake::Options::default()
    };
    Options::default().wake(wake)
}

fn waiting_pop(queues: &Queues, pop: Pop) -> JoinHandle<Batch> {
    let queues = queues.clone();
    tokio::spawn(async move { soon(&queues, pop).await })
}

/// Waits until so many groups of pops sleep.
async fn asleep(queues: &Queues, groups: usize) {
    let sleeping = || queues.health().consumers.iter().map(|consumer| consumer.asleep).sum::<usize>();
    eventually("the pops sleep", async || sleeping() == groups).await;
}

async fn connected(queues: &Queues) {
    eventually("it is connected", async || queues.health().is_connected()).await;
}

/// A push for a pop that waits is one statement; a pop of one partition and one of a whole queue are served alike. A push
/// for which no pop waits does not claim.
/// The server counts the statements of this test's role. Repeated, because a pop may poll just when the push is sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_push_for_a_waiting_pop_claims() {
    let db = TestDb::new().await;
    let Some(role) = db.counting_role().await else { return };
    drop(Queues::open(db.database().clone(), db.schema().clone(), options()).await.expect("opened"));
    let queues = Queues::open(role.database().clone(), db.schema().clone(), options()).await.expect("opened");
    connected(&queues).await;
    push(&queues, "q", "p", &["first"]).await;
    assert_eq!(role.calls_matching(PUSH_AND_CLAIM).await, 0);
    let batch = soon(&queues, of("q", "g", 10)).await;
    end(&queues, &batch, AckStatus::Completed).await;

    let partition = Pop { group: Some("g".to_owned()), ..Pop::new(Source::partition("q", "p")) };
    let mut number = 0;
    for pop in [of("q", "g", 10), partition] {
        let before = role.calls_matching(PUSH_AND_CLAIM).await;
        eventually("a push claims", async || {
            number += 1;
            let waiting = waiting_pop(&queues, pop.clone());
            asleep(&queues, 1).await;
            let transaction = format!("t{number}");
            push(&queues, "q", "p", &[&transaction]).await;
            let batch = waiting.await.expect("a batch");
            assert_eq!(transactions(&batch), [transaction]);
            end(&queues, &batch, AckStatus::Completed).await;
            role.calls_matching(PUSH_AND_CLAIM).await > before
        })
        .await;
    }
}

/// What a push claims for a pop is what any claim would: the messages of the partition that has been due longest, in
/// order, up to the size of the batch; the pop leases it, and nothing is delivered twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_push_claims_by_the_rules() {
    let queues = Fixture::with(options()).await;
    connected(&queues).await;
    push(&queues, "q", "p", &["zero"]).await;
    end(&queues, &soon(&queues, of("q", "g", 10)).await, AckStatus::Completed).await;
    let waiting = waiting_pop(&queues, of("q", "g", 2));
    asleep(&queues, 1).await;
    push(&queues, "q", "p", &["one", "two", "three"]).await;
    let batch = waiting.await.expect("a batch");
    assert_eq!(transactions(&batch), ["one", "two"]);
    assert!(now(&queues, of("q", "g", 10)).await.is_none(), "the partition is leased");
    end(&queues, &batch, AckStatus::Completed).await;
    assert_eq!(transactions(&soon(&queues, of("q", "g", 10)).await), ["three"]);
}

/// A delay or a window of the queue holds for what is claimed by a push: the pop waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_push_claims_nothing_that_is_delayed() {
    let queues = Fixture::with(options()).await;
    connected(&queues).await;
    push(&queues, "q", "p", &["zero"]).await;
    end(&queues, &soon(&queues, of("q", "g", 10)).await, AckStatus::Completed).await;
    queues.set("q", "delayed_processing_seconds = 1").await;
    let waiting = waiting_pop(&queues, of("q", "g", 10));
    asleep(&queues, 1).await;
    let since = tokio::time::Instant::now();
    push(&queues, "q", "p", &["one"]).await;
    assert_eq!(transactions(&waiting.await.expect("a batch")), ["one"]);
    assert!(since.elapsed() >= Duration::from_millis(990), "{:?}", since.elapsed());
}

/// All consumer groups get a message, whichever of them the push claims for.
#[tokio::test(flavor = "multi_thread")]
async fn every_group_gets_what_is_pushed() {
    let queues = Fixture::with(options()).await;
    connected(&queues).await;
    push(&queues, "q", "p", &["zero"]).await;
    let groups = ["a", "b", "c"];
    for group in groups {
        end(&queues, &soon(&queues, of("q", group, 10)).await, AckStatus::Completed).await;
    }
    let waiting = groups.map(|group| waiting_pop(&queues, of("q", group, 10)));
    asleep(&queues, 3).await;
    push(&queues, "q", "p", &["one"]).await;
    for pop in waiting {
        assert_eq!(transactions(&pop.await.expect("a batch")), ["one"]);
    }
}

/// A push whose answer is lost is sent again and stores its message once; what its statement claimed is delivered at
/// once, although leases are long. The proxy cuts the answer.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_push_claimed_is_delivered_although_its_answer_is_lost() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let database = Database::connect_lazy(proxy.url(), reveille_pg::Options::default()).expect("a pool");
    let queues = Queues::open(database, db.schema().clone(), options()).await.expect("opened");
    connected(&queues).await;
    push(&queues, "q", "p", &["zero"]).await;
    let long = || Pop { lease: Some(NEVER), ..of("q", "g", 10) };
    end(&queues, &soon(&queues, long()).await, AckStatus::Completed).await;
    for round in 0..5 {
        let waiting = waiting_pop(&queues, long());
        asleep(&queues, 1).await;
        let transaction = format!("needle-{round}");
        let cut = proxy.cut_reply_to(transaction.as_str());
        push(&queues, "q", "p", &[&transaction]).await;
        cut.happened().await;
        let batch = waiting.await.expect("a batch");
        assert_eq!(transactions(&batch), [transaction]);
        assert_eq!(batch.messages[0].retries, 0);
        end(&queues, &batch, AckStatus::Completed).await;
    }
    assert!(now(&queues, long()).await.is_none(), "each was stored once");
}

/// A push that claims is as durable as one that does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_claims_is_durable() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["zero"]).await;
    end(&queues, &soon(&queues, of("q", "g", 10)).await, AckStatus::Completed).await;
    for (in_write, expected) in [(true, "on"), (false, "off")] {
        let mut transaction = queues.db.database().pool().begin().await.expect("begin");
        let claim = queues.db.schema().sql(
            "select {schema}.claim(
                'q', null, 'g', 'all', null, 0, array[gen_random_uuid()], array[1000::bigint], array[10], array[1],
                1000000, null, $1)",
        );
        sqlx::query(&claim).bind(in_write).execute(&mut *transaction).await.expect("claimed");
        let setting: String = sqlx::query_scalar("select current_setting('synchronous_commit')")
            .fetch_one(&mut *transaction)
            .await
            .expect("a setting");
        assert_eq!(setting, expected);
    }
}
