//! Calls from several tasks of two processes at once.
//!
//! Their answers depend on the order, so they cannot be compared with a model call by call. But whatever the order was,
//! nothing may be lost, doubled or done by two; and the turns that were acked, taken in the order of their events, must
//! be turns of the model too: each saw the history and the keys that the ones before it had left.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{Provider, SessionFetchConfig, TagFilter};
use fastrand::Rng;
use reveille_durable::LongPollConfig;
use reveille_durable_memory::MemoryProvider;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::answers::SeenTurn;
use super::crowd::Member;
use super::ledger::{Ack, Ledger};
use super::pair::{LONG, Pair, Verdict, agree};
use crate::consistency;
use crate::fixture::{Elsewhere, Fixture, PATIENCE};

/// Tasks, every other one in another process.
const MEMBERS: usize = 4;
/// What each of them does before it only finishes what is there.
const ACTS: usize = 150;

/// Four tasks of two processes send, fetch, ack, abandon, renew, cancel, come back late or not at all. Every message is
/// taken by exactly one acked turn, every activity is executed once, attempts are counted right, no two hold an
/// instance, and the model ends in the same state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_calls_lose_and_duplicate_nothing() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let fixture = Fixture::new().await;
    let elsewhere = Elsewhere::start(&fixture.db, LongPollConfig::enabled()).await;
    let ledger = Arc::new(Ledger::default());
    let mut random = Rng::with_seed(seed);
    let mut crowd = JoinSet::new();
    for number in 0..MEMBERS {
        let provider = if number % 2 == 0 { &fixture.provider } else { &elsewhere.provider };
        let mut member = Member {
            name: format!("m{number}"),
            provider: provider.clone(),
            ledger: ledger.clone(),
            random: random.fork(),
            dead: Vec::new(),
            count: 0,
            finishing: false,
        };
        let queues = queues(&fixture);
        crowd.spawn(async move {
            for _ in 0..ACTS {
                member.act().await;
            }
            member.finishing = true;
            let since = Instant::now();
            while !queues.are_empty().await {
                member.act().await;
                assert!(since.elapsed() < PATIENCE, "work is left over");
            }
        });
    }
    while let Some(member) = crowd.join_next().await {
        member.expect("a member of the crowd");
    }
    // Others may have finished while one of them still sent.
    assert!(queues(&fixture).are_empty().await, "work is left over");

    let tally = ledger.tally();
    assert!(tally.iter().all(|count| *count > 0), "something never happened: {tally:?}");
    ledger.check_messages();
    ledger.check_activities();
    ledger.check_attempts();
    ledger.check_exclusion();
    assert!(consistency::check_all(&fixture.provider).await > 0);
    let ledger = Arc::into_inner(ledger).expect("the crowd has gone");
    if let Err(disagreement) = replay(&fixture, ledger).await {
        panic!("{disagreement}");
    }
}

/// Takes the acked turns in the model and compares what both stores hold then.
async fn replay(fixture: &Fixture, ledger: Ledger) -> Verdict {
    let pair = Pair::beside(fixture);
    let turns = ledger.into_turns();
    for (instance, turns) in &turns {
        for (item, _, ack) in turns {
            for message in &item.messages {
                pair.memory.enqueue_for_orchestrator(message.clone(), None).await.expect("sent");
            }
            let fetched = pair.memory.fetch_orchestration_item(LONG, Duration::ZERO, None).await.expect("a fetch");
            let (model, token, _) = fetched.expect("its messages are there");
            let seen = |item| SeenTurn::new(item, 0, |_| false);
            agree(&format!("a turn of {instance}"), seen(item.clone()), seen(model))?;
            let Ack { execution, events, work, metadata, cancelled, .. } = ack.clone();
            pair.memory
                .ack_orchestration_item(&token, execution, events, work, Vec::new(), metadata, cancelled)
                .await
                .expect("acked");
        }
    }
    finish(&pair.memory).await;
    for (instance, turns) in &turns {
        pair.query_instance(instance).await?;
        for execution in 1..=turns.last().map_or(1, |(_, _, ack)| ack.execution) {
            pair.query_execution(instance, execution).await?;
        }
    }
    pair.query_statistics().await
}

/// Activities were executed, whatever they said.
async fn finish(memory: &MemoryProvider) {
    let owner = SessionFetchConfig { owner_id: "all".to_owned(), lock_timeout: LONG };
    while let Some((_, token, _)) =
        memory.fetch_work_item(LONG, Duration::ZERO, Some(&owner), &TagFilter::Any).await.expect("a fetch")
    {
        memory.ack_work_item(&token, None).await.expect("acked");
    }
}

/// The queues, with what is leased.
struct Queues {
    pool: sqlx::PgPool,
    sql: reveille_pg::Sql,
}

fn queues(fixture: &Fixture) -> Queues {
    let sql = "select not exists (select from {schema}.orchestrator_queue) and not exists (select from {schema}.worker_queue)";
    Queues { pool: fixture.provider.pool().clone(), sql: fixture.db.schema().sql(sql) }
}

impl Queues {
    async fn are_empty(&self) -> bool {
        sqlx::query_scalar(&self.sql).fetch_one(&self.pool).await.expect("a statement of the test itself")
    }
}
