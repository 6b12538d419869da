//! Deliveries that are never acked: they are counted, and a message that stops its consumers does not stop its
//! partition.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use reveille_queue::{AckError, AckStatus, Change, Pop, Queues, Seek, Source};

use crate::fixture::{Elsewhere, Fixture, end, now, of, push, say, soon, transactions};

/// A lease that expires at once. An ack still counts until the messages are delivered again.
const SHORT: Option<Duration> = Some(Duration::from_millis(1));

fn short(pop: Pop) -> Pop {
    Pop { lease: SHORT, ..pop }
}

async fn configure(queues: &Queues, queue: &str, change: Change) {
    queues.configure(queue, None, None, &change).await.expect("configured");
}

fn limit(retry_limit: i64) -> Change {
    Change { retry_limit: Some(retry_limit), ..Change::default() }
}

/// Transaction ids of the dead letters of a group, in order, with the retries that each had.
async fn dead(queues: &Fixture, group: &str) -> Vec<(String, i32)> {
    let sql = "select transaction_id, retries from {schema}.dead_letter where consumer = $1 order by id";
    let sql = queues.db.schema().sql(sql);
    sqlx::query_as(&sql).bind(group).fetch_all(queues.db.database().pool()).await.expect("dead letters")
}

fn seen(batch: &reveille_queue::Batch) -> (Vec<&str>, u32) {
    (transactions(batch), batch.messages[0].retries)
}

/// A message whose consumer crashes each time must become a dead letter after `retryLimit` redeliveries, and the next
/// message must be delivered.
/// No message is ever acked. Both ways to claim: any partition of the queue, and one partition; with a group and
/// without one.
#[tokio::test]
async fn an_expired_lease_counts_as_a_delivery() {
    let queues = Fixture::new().await;
    configure(&queues, "q", limit(2)).await;
    push(&queues, "q", "p", &["bad", "good"]).await;
    for (group, source) in
        [(Some("g"), Source::queue("q")), (Some("h"), Source::partition("q", "p")), (None, Source::queue("q"))]
    {
        let pop = || Pop { group: group.map(str::to_owned), ..Pop::new(source.clone()) };
        for delivery in 0..3 {
            assert_eq!(seen(&soon(&queues, short(pop())).await), (vec!["bad"], delivery));
        }
        let next = soon(&queues, pop()).await;
        assert_eq!(seen(&next), (vec!["good"], 0), "the partition continues");
        end(&queues, &next, AckStatus::Completed).await;
        assert!(now(&queues, pop()).await.is_none());
        assert_eq!(dead(&queues, &next.group).await, [("bad".to_owned(), 2)]);
    }
    let dead_letters = "select count(*) from {schema}.dead_letter
                where error = 'the lease expired without an ack; delivered 3 times, retryLimit is 2'";
    assert_eq!(queues.count(dead_letters).await, 3);
}

/// The option `chargeExpiredLeases` set to false must leave expired leases uncharged: the same batch is redelivered any
/// number of times.
/// More deliveries than the limit allows.
#[tokio::test]
async fn expired_leases_are_not_charged_if_the_queue_says_so() {
    let queues = Fixture::new().await;
    configure(&queues, "q", Change { charge_expired_leases: Some(false), ..limit(1) }).await;
    push(&queues, "q", "p", &["1", "2", "3"]).await;
    for _ in 0..5 {
        assert_eq!(seen(&soon(&queues, short(of("q", "g", 3))).await), (vec!["1", "2", "3"], 0));
    }
    assert_eq!(seen(&soon(&queues, of("q", "g", 3)).await), (vec!["1", "2", "3"], 0));
    assert_eq!(dead(&queues, "g").await, []);
}

/// Messages that were delivered together with a message that stops its consumer must not become dead letters with it.
/// A batch of five, the third stops every consumer that gets it: after the crash each message is delivered alone, and
/// only the third becomes a dead letter.
#[tokio::test]
async fn messages_beside_a_poison_message_are_delivered_alone() {
    let queues = Fixture::new().await;
    configure(&queues, "q", limit(1)).await;
    push(&queues, "q", "p", &["1", "2", "poison", "4", "5"]).await;
    push(&queues, "q", "p", &["6", "7"]).await;
    assert_eq!(transactions(&soon(&queues, short(of("q", "g", 5))).await), ["1", "2", "poison", "4", "5"]);
    let mut delivered = Vec::new();
    while let Some(batch) = now(&queues, of("q", "g", 5)).await {
        delivered.push(transactions(&batch).join(" "));
        if delivered.last().is_some_and(|last| last == "poison") {
            // It expires.
            expire(&queues).await;
        } else {
            end(&queues, &batch, AckStatus::Completed).await;
        }
    }
    assert_eq!(delivered, ["1", "2", "poison", "4", "5", "6 7"], "the batch counted as one delivery of each");
    assert_eq!(dead(&queues, "g").await, [("poison".to_owned(), 1)]);
}

/// Lets all leases end now.
async fn expire(queues: &Fixture) {
    let sql = "update {schema}.cursor set version = version + 1, due_at = now() where lease_id is not null";
    let sql = queues.db.schema().sql(sql);
    sqlx::query(&sql).execute(queues.db.database().pool()).await.expect("expired");
}

/// A pop of several partitions that expires must not make dead letters in partitions without such a message.
/// Three partitions under one lease, one of them with a message that stops its consumers.
#[tokio::test]
async fn a_suspect_message_is_alone_in_its_lease() {
    let queues = Fixture::new().await;
    configure(&queues, "q", limit(1)).await;
    for (partition, messages) in [("a", ["a1", "a2"]), ("b", ["poison", "b2"]), ("c", ["c1", "c2"])] {
        push(&queues, "q", partition, &messages).await;
    }
    let wide = || Pop { partitions: 3, ..of("q", "g", 10) };
    assert_eq!(soon(&queues, short(wide())).await.messages.len(), 6);
    let mut delivered = BTreeMap::<String, usize>::new();
    // The first lease is due.
    let mut batch = Some(soon(&queues, wide()).await);
    while let Some(popped) = batch {
        assert_eq!(popped.messages.len(), 1, "{:?}", transactions(&popped));
        *delivered.entry(popped.messages[0].transaction_id.clone()).or_default() += 1;
        match transactions(&popped)[0] {
            "poison" => expire(&queues).await,
            _ => drop(end(&queues, &popped, AckStatus::Completed).await),
        }
        batch = now(&queues, wide()).await;
    }
    assert_eq!(delivered.len(), 6);
    assert!(delivered.values().all(|times| *times == 1), "{delivered:?}");
    assert_eq!(dead(&queues, "g").await, [("poison".to_owned(), 1)]);
}

/// Failures and expired leases share one counter.
/// A message fails, its lease expires, it fails again: with a limit of two it becomes a dead letter.
#[tokio::test]
async fn failures_and_expired_leases_share_the_limit() {
    let queues = Fixture::new().await;
    configure(&queues, "q", limit(2)).await;
    push(&queues, "q", "p", &["bad", "good"]).await;
    end(&queues, &soon(&queues, of("q", "g", 1)).await, AckStatus::Failed).await;
    assert_eq!(seen(&soon(&queues, short(of("q", "g", 1))).await), (vec!["bad"], 1));
    let last = soon(&queues, of("q", "g", 1)).await;
    assert_eq!(seen(&last), (vec!["bad"], 2));
    assert!(end(&queues, &last, AckStatus::Failed).await[0].dead_lettered);
    assert_eq!(seen(&soon(&queues, of("q", "g", 1)).await), (vec!["good"], 0));
}

/// Messages that were acked before a lease expired must not be charged, and a late ack of a dead letter must be
/// rejected.
/// Two of three messages are acked in time; the third expires alone until it is a dead letter, and is acked then.
#[tokio::test]
async fn only_what_was_not_acked_is_charged() {
    let queues = Fixture::new().await;
    configure(&queues, "q", limit(1)).await;
    push(&queues, "q", "p", &["1", "2", "3"]).await;
    let first = soon(&queues, short(of("q", "g", 3))).await;
    let acked = queues.ack(say(&first, &first.messages[..2], AckStatus::Completed)).await.expect("acked");
    assert!(acked.iter().all(|acked| acked.outcome.is_ok()), "{acked:?}");
    let late = soon(&queues, short(of("q", "g", 3))).await;
    assert_eq!(seen(&late), (vec!["3"], 1));
    push(&queues, "q", "p", &["4"]).await;
    assert_eq!(seen(&soon(&queues, of("q", "g", 3)).await), (vec!["4"], 0));
    let refused = queues.ack(say(&late, &late.messages, AckStatus::Completed)).await.expect("answered");
    assert_eq!(refused[0].outcome, Err(AckError::LeaseOver), "it is a dead letter");
    assert_eq!(dead(&queues, "g").await, [("3".to_owned(), 1)]);
}

/// A limit of zero means no redelivery of a message that was delivered alone; one that was delivered with others is
/// delivered once more, alone.
#[tokio::test]
async fn a_limit_of_zero_allows_no_redelivery() {
    let queues = Fixture::new().await;
    configure(&queues, "q", limit(0)).await;
    push(&queues, "q", "p", &["1", "2", "3"]).await;
    soon(&queues, short(of("q", "g", 1))).await;
    assert_eq!(transactions(&soon(&queues, short(of("q", "g", 2))).await), ["2", "3"]);
    assert_eq!(dead(&queues, "g").await, [("1".to_owned(), 0)]);
    let second = soon(&queues, of("q", "g", 2)).await;
    assert_eq!(seen(&second), (vec!["2"], 1));
    end(&queues, &second, AckStatus::Completed).await;
    assert_eq!(seen(&soon(&queues, short(of("q", "g", 2))).await), (vec!["3"], 1));
    push(&queues, "q", "p", &["4"]).await;
    assert_eq!(seen(&soon(&queues, of("q", "g", 2)).await), (vec!["4"], 0));
    assert_eq!(dead(&queues, "g").await, [("1".to_owned(), 0), ("3".to_owned(), 1)]);
}

/// A lease that was extended, released or ended by a seek has not expired, and is not charged; a seek resets the
/// counter.
#[tokio::test]
async fn only_expiry_is_charged() {
    let queues = Fixture::new().await;
    configure(&queues, "q", limit(1)).await;
    push(&queues, "q", "p", &["1", "2"]).await;
    let extended = soon(&queues, short(of("q", "g", 2))).await;
    queues.extend(extended.lease_id.expect("a lease"), Some(Duration::from_secs(60))).await.expect("extended");
    end(&queues, &extended, AckStatus::Retry).await;
    assert_eq!(seen(&soon(&queues, short(of("q", "g", 2))).await), (vec!["1", "2"], 0));
    assert_eq!(seen(&soon(&queues, of("q", "g", 2)).await), (vec!["1"], 1));
    queues.seek("g", "q", None, Seek::Time(time::OffsetDateTime::UNIX_EPOCH)).await.expect("moved");
    assert_eq!(seen(&soon(&queues, of("q", "g", 2)).await), (vec!["1", "2"], 0));
}

/// Pops with autoAck must get all messages after an expired lease, each once.
#[tokio::test]
async fn auto_ack_delivers_after_an_expired_lease() {
    let queues = Fixture::new().await;
    push(&queues, "q", "p", &["1", "2", "3"]).await;
    soon(&queues, short(of("q", "g", 3))).await;
    let mut delivered = Vec::new();
    let auto = || Pop { auto_ack: true, ..of("q", "g", 3) };
    delivered.push(transactions(&soon(&queues, auto()).await).join(" "));
    while let Some(batch) = now(&queues, auto()).await {
        delivered.push(transactions(&batch).join(" "));
    }
    assert_eq!(delivered, ["1", "2", "3"]);
    assert_eq!(dead(&queues, "g").await, []);
}

/// Deleted messages of an expired lease are skipped, and their counter does not apply to the next message.
#[tokio::test]
async fn deleted_messages_are_not_charged() {
    let queues = Fixture::new().await;
    configure(&queues, "q", limit(1)).await;
    let pushed = push(&queues, "q", "p", &["1", "2", "3", "4"]).await;
    soon(&queues, short(of("q", "g", 3))).await;
    assert_eq!(seen(&soon(&queues, short(of("q", "g", 3))).await), (vec!["1"], 1));
    for gone in ["1", "2"] {
        queues.delete_message(pushed[0].partition_id, gone).await.expect("deleted");
    }
    let third = soon(&queues, of("q", "g", 3)).await;
    assert_eq!(seen(&third), (vec!["3"], 1));
    end(&queues, &third, AckStatus::Completed).await;
    assert_eq!(seen(&soon(&queues, of("q", "g", 3)).await), (vec!["4"], 0));
    assert_eq!(dead(&queues, "g").await, []);
}

/// One event of a batch.
#[derive(Debug, Clone, Copy)]
enum Turn {
    /// Its lease expires after this many messages were acked.
    Crash(usize),
    Ack,
    /// The first message fails.
    Fail,
    /// It is released.
    Retry,
}

fn turns() -> impl Strategy<Value = Vec<(Turn, usize, bool)>> {
    let turn = prop_oneof![(0..3_usize).prop_map(Turn::Crash), Just(Turn::Ack), Just(Turn::Fail), Just(Turn::Retry),];
    proptest::collection::vec((turn, 1..5_usize, any::<bool>()), 1..25)
}

/// Whatever consumers do, through whichever server: messages are delivered in order, each is acked or becomes a dead
/// letter and never both, a dead letter was delivered more often than the limit allows, and if its last delivery
/// expired, it was delivered alone. Random events against a model of the deliveries; then all remaining messages are
/// acked.
#[test]
fn every_message_is_acked_or_becomes_a_dead_letter() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let (queues, elsewhere) = runtime.block_on(async {
        let queues = Fixture::new().await;
        let elsewhere = Elsewhere::start(&queues.db).await;
        (queues, elsewhere)
    });
    let config =
        ProptestConfig { cases: 12, max_shrink_iters: 40, failure_persistence: None, ..ProptestConfig::default() };
    let case = std::cell::Cell::new(0);
    proptest!(config, |(turns in turns(), limit in 0..3_i64)| {
        case.set(case.get() + 1);
        runtime.block_on(play(&queues, &elsewhere.queues, &format!("q{}", case.get()), limit, turns))?;
    });
    runtime.block_on(async { drop((queues, elsewhere)) });
}

async fn play(
    queues: &Fixture,
    elsewhere: &Queues,
    queue: &str,
    retry_limit: i64,
    turns: Vec<(Turn, usize, bool)>,
) -> Result<(), TestCaseError> {
    const MESSAGES: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
    configure(queues, queue, limit(retry_limit)).await;
    push(queues, queue, "p", &MESSAGES[..5]).await;
    push(queues, queue, "p", &MESSAGES[5..]).await;
    let group = format!("of {queue}");
    let mut deliveries = [0_usize; MESSAGES.len()];
    // Whether its last delivery expired and had other messages.
    let mut together = [false; MESSAGES.len()];
    let mut acked = Vec::<usize>::new();
    let rest = std::iter::repeat_n((Turn::Ack, 8, false), MESSAGES.len());
    for (turn, batch, other) in turns.into_iter().chain(rest) {
        let server = if other { elsewhere } else { &queues.queues };
        let lease = if matches!(turn, Turn::Crash(_)) { SHORT } else { None };
        let pop = Pop { lease, ..of(queue, &group, batch) };
        let dead = dead(queues, &group).await;
        if acked.len() + dead.len() == MESSAGES.len() {
            break;
        }
        // A short lease has expired by now, unless the last message became a dead letter with it.
        let until = tokio::time::Instant::now() + Duration::from_millis(500);
        let Some(mut popped) = server.pop(pop, Some(until)).await.expect("a pop") else { continue };
        let numbers: Vec<usize> = transactions(&popped).iter().map(|id| id.parse().expect("a number")).collect();
        prop_assert!(numbers.windows(2).all(|two| two[1] == two[0] + 1), "in order: {numbers:?}");
        for number in &numbers {
            prop_assert!(!acked.contains(number), "{number} was acked");
            deliveries[*number] += 1;
            together[*number] = matches!(turn, Turn::Crash(_)) && numbers.len() > 1;
        }
        let status = match turn {
            Turn::Crash(done) => {
                let said = say(&popped, &popped.messages[..done.min(numbers.len() - 1)], AckStatus::Completed);
                acked.extend(&numbers[..said.len()]);
                server.ack(said).await.expect("acked");
                continue;
            }
            Turn::Ack => AckStatus::Completed,
            Turn::Fail => AckStatus::Failed,
            Turn::Retry => AckStatus::Retry,
        };
        let one = if status == AckStatus::Completed { popped.messages.len() } else { 1 };
        let outcomes = server.ack(say(&popped, &popped.messages[..one], status)).await.expect("acked");
        prop_assert!(outcomes.iter().all(|acked| acked.outcome.is_ok()), "{outcomes:?}");
        if outcomes[0].dead_lettered && numbers.len() > 1 {
            // The other messages stay leased.
            popped.messages.remove(0);
            end(server, &popped, AckStatus::Completed).await;
            acked.extend(&numbers[1..]);
        }
        if status == AckStatus::Completed {
            acked.extend(&numbers);
        }
    }
    let dead: Vec<usize> = dead(queues, &group).await.iter().map(|(id, _)| id.parse().expect("a number")).collect();
    let mut ends: Vec<usize> = acked.iter().chain(&dead).copied().collect();
    ends.sort_unstable();
    prop_assert_eq!(ends, (0..MESSAGES.len()).collect::<Vec<_>>(), "acked {:?}, dead {:?}", acked, dead);
    for number in dead {
        prop_assert!(deliveries[number] as i64 > retry_limit, "{number} was delivered {} times", deliveries[number]);
        prop_assert!(!together[number], "{number} was not alone");
    }
    Ok(())
}
