//! Producers: batches of any size for any partitions, and duplicates of every kind.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::log::{Push, PushOutcome, Span};
use super::stage::{Player, Stage};

/// The most messages of a request.
const ITEMS: u64 = 10;
/// How far back a duplicate reaches.
const BACK: u64 = 12;

/// The last number of a transaction id per partition, of all producers.
#[derive(Default)]
pub(crate) struct Numbers(Mutex<HashMap<String, Arc<AtomicU64>>>);

impl Numbers {
    fn of(&self, partition: &str) -> Arc<AtomicU64> {
        self.0.lock().expect("no panic while it is locked").entry(partition.to_owned()).or_default().clone()
    }
}

/// A message to push.
#[derive(Clone)]
pub(super) struct Item {
    pub(super) queue: String,
    pub(super) partition: String,
    pub(super) transaction: String,
}

impl Item {
    pub(super) fn path(&self) -> String {
        format!("{}/{}", self.queue, self.partition)
    }

    /// Its payload is its transaction id.
    pub(super) fn json(&self) -> Value {
        let Item { queue, partition, transaction } = self;
        json!({"queue": queue, "partition": partition, "transactionId": transaction, "payload": transaction})
    }
}

/// Pushes until the run is over, with a pause of up to `pause` after each.
pub(crate) async fn produce(stage: Arc<Stage>, number: u64, numbers: Arc<Numbers>, pause: Duration) {
    let mut player = Player::new(&stage, number);
    let mut twin = Player::new(&stage, number + 1);
    while !stage.is_over() {
        let items = choose(&mut player, &numbers);
        if player.once_in(8) {
            // The same at the same time, through another server.
            tokio::join!(push(&mut player, &items), push(&mut twin, &items));
        } else {
            push(&mut player, &items).await;
        }
        player.rest(pause).await;
    }
}

fn choose(player: &mut Player, numbers: &Numbers) -> Vec<Item> {
    let fed: Vec<_> = player.stage.queues.iter().filter(|queue| queue.fed).copied().collect();
    let mut partitions = Vec::new();
    for _ in 0..=player.rng.usize(..3) {
        let queue = fed[player.rng.usize(..fed.len())];
        partitions.push((queue.name, format!("p{}", player.rng.u64(..queue.partitions))));
    }
    let items = 0..=player.rng.u64(..ITEMS);
    let item = |_| {
        let (queue, partition) = partitions[player.rng.usize(..partitions.len())].clone();
        let counter = numbers.of(&format!("{queue}/{partition}"));
        let number = match player.once_in(6) {
            // Pushed before, by a concurrent request, or in this request.
            true => counter.load(Ordering::Relaxed).saturating_sub(player.rng.u64(..BACK)),
            false => counter.fetch_add(1, Ordering::Relaxed) + 1,
        };
        Item { queue: queue.to_owned(), partition, transaction: format!("t{number}") }
    };
    items.map(item).collect()
}

/// Pushes, repeated until it is answered.
async fn push(player: &mut Player, items: &[Item]) {
    let body = json!({"items": items.iter().map(Item::json).collect::<Vec<_>>()});
    loop {
        let (span, answer) = player.ask("POST", "push", Some(&body)).await;
        let Some(answer) = answer else {
            note(player, span, items, |_| PushOutcome::Lost);
            continue;
        };
        assert_eq!(answer.status, 201, "{answer:?}");
        let reply = answer.json();
        note(player, span, items, |at| outcome(&reply[at]));
        return;
    }
}

pub(super) fn note(player: &Player, span: Span, items: &[Item], outcome: impl Fn(usize) -> PushOutcome) {
    let request = player.stage.number();
    let pushes = items.iter().enumerate().map(|(at, item)| {
        let (partition, transaction) = (item.path(), item.transaction.clone());
        Push { span, request, partition, transaction, outcome: outcome(at) }
    });
    player.stage.log().pushes.extend(pushes);
}

/// The outcome of one message.
pub(super) fn outcome(reply: &Value) -> PushOutcome {
    let id = reply["message_id"].as_str().unwrap_or_else(|| panic!("no id: {reply}")).to_owned();
    match reply["status"].as_str() {
        Some("queued") => PushOutcome::Queued(id),
        Some("duplicate") => PushOutcome::Duplicate(id),
        _ => panic!("neither queued nor a duplicate: {reply}"),
    }
}
