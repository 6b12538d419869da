//! Consumers: everything that a client can do with a delivery.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::log::{AckStatus, Delivered, Delivery, Extension, PushOutcome, Report, ReportOutcome, Span};
use super::producer::{Item, note, outcome};
use super::stage::{Player, Stage};

/// The queue that transactions push to.
const SINK: &str = "checker.sink";

/// What a consumer reads.
#[derive(Clone, Copy)]
pub(crate) enum Reads {
    /// All queues, by every kind of pop.
    All,
    /// One queue.
    Queue(&'static str),
}

/// What a consumer does with a delivery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deed {
    AckAll,
    AckLast,
    AckPrefix,
    OneByOne,
    Fail,
    Retry,
    Bury,
    Expire,
    Extend,
    Transact,
}

/// The weight of each.
const DEEDS: [(Deed, u64); 10] = [
    (Deed::AckAll, 20),
    (Deed::AckLast, 6),
    (Deed::AckPrefix, 6),
    (Deed::OneByOne, 4),
    (Deed::Fail, 8),
    (Deed::Retry, 4),
    (Deed::Bury, 3),
    (Deed::Expire, 2),
    (Deed::Extend, 2),
    (Deed::Transact, 6),
];
/// If responses get lost, the number of failures of a message is not known.
const DEEDS_UNDER_FAULTS: [(Deed, u64); 4] =
    [(Deed::AckAll, 10), (Deed::AckLast, 3), (Deed::AckPrefix, 3), (Deed::OneByOne, 2)];

/// Reads until the run is over. Without a group, in queue mode.
pub(crate) async fn consume(stage: Arc<Stage>, number: u64, group: Option<&'static str>, reads: Reads) {
    let mut player = Player::new(&stage, number);
    while !stage.is_over() {
        let (batch, partitions) = (1 + player.rng.u64(..25), 1 + player.rng.u64(..4));
        let path = format!(
            "{}batch={batch}&partitions={partitions}&wait=true&timeout={}",
            path(&mut player, reads),
            300 + player.rng.u64(..1_500)
        );
        for delivery in pop(&mut player, &path, group).await.unwrap_or_default() {
            treat(&mut player, &delivery).await;
        }
    }
}

/// Reads one queue until it is empty.
pub(crate) async fn drain(stage: Arc<Stage>, number: u64, group: Option<&'static str>, queue: &'static str) {
    let mut player = Player::new(&stage, number);
    // Longer than every current lease.
    let wait = 3 * stage.queue(queue).lease.min(Duration::from_secs(2)) + Duration::from_secs(1);
    loop {
        let path = format!("pop/queue/{queue}?batch=1000&partitions=100&wait=true&timeout={}", wait.as_millis());
        let Some(deliveries) = pop(&mut player, &path, group).await else { continue };
        if deliveries.is_empty() {
            return;
        }
        for delivery in deliveries {
            let all: Vec<(usize, AckStatus)> =
                (0..delivery.messages.len()).map(|at| (at, AckStatus::Completed)).collect();
            say(&mut player, &delivery, &all).await;
        }
    }
}

fn path(player: &mut Player, reads: Reads) -> String {
    let queue = match reads {
        Reads::All if player.once_in(3) => return "pop?namespace=checker&".to_owned(),
        Reads::All => player.stage.queues[player.rng.usize(..player.stage.queues.len())],
        Reads::Queue(name) => player.stage.queue(name),
    };
    match player.once_in(4) {
        true => format!("pop/queue/{}/partition/p{}?", queue.name, player.rng.u64(..queue.partitions)),
        false => format!("pop/queue/{}?", queue.name),
    }
}

/// Pops; one delivery for each partition. `None` if there was no response.
async fn pop(player: &mut Player, path: &str, group: Option<&str>) -> Option<Vec<Delivery>> {
    let path = group.map_or(path.to_owned(), |group| format!("{path}&consumerGroup={group}"));
    let (span, answer) = player.ask("GET", &path, None).await;
    let answer = answer?;
    if answer.status == 204 {
        return Some(Vec::new());
    }
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    let deliveries = deliveries(&player.stage, span, &answer.json());
    player.stage.log().deliveries.extend(deliveries.iter().cloned());
    Some(deliveries)
}

fn deliveries(stage: &Stage, span: Span, popped: &Value) -> Vec<Delivery> {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_else(|| panic!("no {key}: {value}")).to_owned();
    let mut partitions: BTreeMap<String, Delivery> = BTreeMap::new();
    for message in popped["messages"].as_array().expect("messages") {
        let (queue, transaction) = (text(message, "queue"), text(message, "transactionId"));
        let partition = format!("{queue}/{}", text(message, "partition"));
        assert_eq!(message["data"], json!(transaction), "{partition}: a payload of another message");
        let delivery = partitions.entry(partition.clone()).or_insert_with(|| Delivery {
            span,
            group: text(popped, "consumerGroup"),
            partition,
            lease: text(popped, "leaseId"),
            lease_for: stage.queue(&queue).lease,
            retries: message["retryCount"].as_u64().expect("a number") as u32,
            partition_id: text(message, "partitionId"),
            messages: Vec::new(),
        });
        delivery.messages.push(Delivered { id: text(message, "id"), transaction, created: text(message, "createdAt") });
    }
    partitions.into_values().collect()
}

fn deed(player: &mut Player, expires: bool, sunk: bool) -> Deed {
    let deeds: &[(Deed, u64)] = if player.stage.faults { &DEEDS_UNDER_FAULTS } else { &DEEDS };
    let all: u64 = deeds.iter().map(|(_, weight)| weight).sum();
    let mut left = player.rng.u64(..all);
    let chosen = deeds.iter().find(|(_, weight)| left.checked_sub(*weight).map(|rest| left = rest).is_none());
    match chosen.expect("the weights add up").0 {
        Deed::Expire | Deed::Extend if !expires => Deed::AckAll,
        Deed::Transact if sunk => Deed::AckAll,
        deed => deed,
    }
}

async fn treat(player: &mut Player, delivery: &Delivery) {
    let (queue, _) = delivery.partition.split_once('/').expect("a queue and a partition");
    let plan = player.stage.queue(queue);
    let count = delivery.messages.len();
    let at = player.rng.usize(..count);
    let done = |range: std::ops::Range<usize>| range.map(|at| (at, AckStatus::Completed)).collect::<Vec<_>>();
    match deed(player, plan.expires, queue == SINK) {
        Deed::AckAll => say(player, delivery, &done(0..count)).await,
        Deed::AckLast => say(player, delivery, &done(count - 1..count)).await,
        Deed::AckPrefix => {
            say(player, delivery, &done(0..at)).await;
            if !plan.expires || !player.stage.faults && player.once_in(3) {
                say(player, delivery, &[(at, AckStatus::Retry)]).await;
            }
        }
        Deed::OneByOne => {
            for at in 0..count {
                say(player, delivery, &done(at..at + 1)).await;
            }
        }
        Deed::Fail => say(player, delivery, &stopping(at, AckStatus::Failed, count)).await,
        Deed::Retry => say(player, delivery, &stopping(at, AckStatus::Retry, count)).await,
        Deed::Bury => say(player, delivery, &stopping(at, AckStatus::DeadLetter, count)).await,
        Deed::Expire => {
            tokio::time::sleep(plan.lease).await;
            player.rest(plan.lease / 2).await;
            say(player, delivery, &done(0..count)).await;
        }
        Deed::Extend => {
            player.rest(plan.lease / 2).await;
            extend(player, delivery, Duration::from_secs(2)).await;
            player.rest(Duration::from_secs(2)).await;
            say(player, delivery, &done(0..count)).await;
        }
        Deed::Transact => transact(player, delivery).await,
    }
}

/// All completed but one.
fn stopping(at: usize, status: AckStatus, count: usize) -> Vec<(usize, AckStatus)> {
    (0..count).map(|each| (each, if each == at { status } else { AckStatus::Completed })).collect()
}

/// An ack. A lease identifies its group, so the group may be missing; some clients send it.
fn ack(delivery: &Delivery, at: usize, status: AckStatus, named: bool) -> Value {
    json!({
        "consumerGroup": named.then_some(&delivery.group),
        "type": "ack",
        "transactionId": delivery.messages[at].transaction,
        "partitionId": delivery.partition_id,
        "leaseId": delivery.lease,
        "status": status.text(),
    })
}

/// Acks messages in one call, repeated until it is answered.
async fn say(player: &mut Player, delivery: &Delivery, status: &[(usize, AckStatus)]) {
    if status.is_empty() {
        return;
    }
    let named = player.rng.bool();
    let acks: Vec<Value> = status.iter().map(|(at, status)| ack(delivery, *at, *status, named)).collect();
    let body = json!({"acknowledgments": acks});
    loop {
        let (span, answer) = player.ask("POST", "ack/batch", Some(&body)).await;
        let Some(answer) = answer else {
            note_reports(player, span, delivery, status, |_| ReportOutcome::Lost);
            continue;
        };
        assert_eq!(answer.status, 200, "{answer:?}");
        let reply = answer.json();
        note_reports(player, span, delivery, status, |at| report_outcome(&reply[at]));
        return;
    }
}

fn report_outcome(reply: &Value) -> ReportOutcome {
    match (reply["success"].as_bool(), reply["error"].as_str().unwrap_or_default()) {
        (Some(true), _) => ReportOutcome::Counted { dead: reply["dlq"] == true },
        (_, error) if error.contains("has expired or was released") => ReportOutcome::Over,
        (_, error) if error.contains("an earlier message") => ReportOutcome::Behind,
        _ => ReportOutcome::Refused,
    }
}

fn note_reports(
    player: &Player,
    span: Span,
    delivery: &Delivery,
    status: &[(usize, AckStatus)],
    outcome: impl Fn(usize) -> ReportOutcome,
) {
    let call = player.stage.number();
    let reports = status.iter().enumerate().map(|(position, (at, status))| Report {
        span,
        call,
        group: delivery.group.clone(),
        partition: delivery.partition.clone(),
        lease: delivery.lease.clone(),
        id: delivery.messages[*at].id.clone(),
        status: *status,
        outcome: outcome(position),
    });
    player.stage.log().reports.extend(reports);
}

async fn extend(player: &mut Player, delivery: &Delivery, by: Duration) {
    let body = json!({"seconds": by.as_secs()});
    let (span, answer) = player.ask("POST", &format!("lease/{}/extend", delivery.lease), Some(&body)).await;
    let success = answer.is_some_and(|answer| answer.json()["success"] == true);
    player.stage.log().extensions.push(Extension { span, lease: delivery.lease.clone(), by, success });
}

/// Acks all messages and pushes one for each, in one transaction.
async fn transact(player: &mut Player, delivery: &Delivery) {
    let status: Vec<(usize, AckStatus)> = (0..delivery.messages.len()).map(|at| (at, AckStatus::Completed)).collect();
    let mut operations: Vec<Value> = status.iter().map(|(at, status)| ack(delivery, *at, *status, true)).collect();
    let partitions = player.stage.queue(SINK).partitions;
    // With a name of its own: a rolled-back message must never be delivered.
    let attempt = player.stage.number();
    let items: Vec<Item> = (0..delivery.messages.len())
        .map(|at| Item {
            queue: SINK.to_owned(),
            partition: format!("p{}", player.rng.u64(..partitions)),
            transaction: format!("{attempt}-{at}"),
        })
        .collect();
    operations.push(json!({"type": "push", "items": items.iter().map(Item::json).collect::<Vec<_>>()}));
    let leases = if player.rng.bool() { json!([delivery.lease]) } else { json!([]) };
    let body = json!({"operations": operations, "requiredLeases": leases});
    let (span, answer) = player.ask("POST", "transaction", Some(&body)).await;
    let reply = answer.expect("transactions are only sent in runs without faults").json();
    if reply["success"] == true {
        let results = &reply["results"];
        note(player, span, &items, |at| outcome(&results[status.len() + at]));
        note_reports(player, span, delivery, &status, |at| report_outcome(&results[at]));
    } else {
        note(player, span, &items, |_| PushOutcome::RolledBack);
        note_reports(player, span, delivery, &status, |_| report_outcome(&reply));
    }
}
