//! Somebody who moves a consumer group, again and again.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::log::{Move, Place, queue_of};
use super::stage::{Player, Stage};

/// Deletes a group of a queue, sends it to the end, or to a time, until the run is over.
pub(crate) async fn wander(stage: Arc<Stage>, number: u64, group: &'static str, queue: &'static str) {
    let mut player = Player::new(&stage, number);
    let lanes = stage.queue(queue).lanes;
    while !stage.is_over() {
        player.rest(Duration::from_secs(4)).await;
        let partition = player.rng.bool().then(|| format!("p{}", player.rng.u64(..lanes)));
        let to = match player.rng.u8(..3) {
            0 => Place::Beginning,
            1 => Place::End,
            _ => match some_time(&mut player, queue) {
                Some(time) => Place::Time(time),
                None => continue,
            },
        };
        let seek = match &partition {
            Some(partition) => format!("consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek"),
            None => format!("consumer-groups/{group}/queues/{queue}/seek"),
        };
        let (span, answer) = match &to {
            Place::Beginning if player.rng.bool() => {
                player.ask("DELETE", &format!("consumer-groups/{group}/queues/{queue}"), None).await
            }
            Place::Beginning => player.ask("DELETE", &format!("consumer-groups/{group}"), None).await,
            Place::End => player.ask("POST", &seek, Some(&json!({"toEnd": true}))).await,
            Place::Time(time) => player.ask("POST", &seek, Some(&json!({"timestamp": time}))).await,
        };
        let answer = answer.expect("groups are moved where nothing breaks");
        // It may have been deleted, and nobody has read for it since.
        if answer.status == 404 {
            continue;
        }
        assert_eq!(answer.status, 200, "{answer:?}");
        let scope = match (&to, partition) {
            (Place::End | Place::Time(_), Some(partition)) => format!("{queue}/{partition}"),
            _ => queue.to_owned(),
        };
        stage.log().moves.push(Move { span, group: group.to_owned(), scope, to });
    }
}

/// When some message of the queue was pushed.
fn some_time(player: &mut Player, queue: &str) -> Option<String> {
    let log = player.stage.log();
    let from = player.rng.usize(..log.deliveries.len().max(1));
    let mut after = log.deliveries.iter().skip(from).filter(|delivery| queue_of(&delivery.lane) == queue);
    after.next().map(|delivery| delivery.messages[0].created.clone())
}
