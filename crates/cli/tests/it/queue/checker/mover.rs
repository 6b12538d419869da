//! Moves a consumer group repeatedly.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::log::{Move, Position, queue_of};
use super::stage::{Player, Stage};

/// Deletes a group of a queue, or moves it to the end or to a time, until the run is over.
pub(crate) async fn wander(stage: Arc<Stage>, number: u64, group: &'static str, queue: &'static str) {
    let mut player = Player::new(&stage, number);
    let partitions = stage.queue(queue).partitions;
    while !stage.is_over() {
        player.rest(Duration::from_secs(4)).await;
        let partition = player.rng.bool().then(|| format!("p{}", player.rng.u64(..partitions)));
        let to = match player.rng.u8(..3) {
            0 => Position::Beginning,
            1 => Position::End,
            _ => match some_time(&mut player, queue) {
                Some(time) => Position::Time(time),
                None => continue,
            },
        };
        let seek = match &partition {
            Some(partition) => format!("consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek"),
            None => format!("consumer-groups/{group}/queues/{queue}/seek"),
        };
        let (span, answer) = match &to {
            Position::Beginning if player.rng.bool() => {
                player.ask("DELETE", &format!("consumer-groups/{group}/queues/{queue}"), None).await
            }
            Position::Beginning => player.ask("DELETE", &format!("consumer-groups/{group}"), None).await,
            Position::End => player.ask("POST", &seek, Some(&json!({"toEnd": true}))).await,
            Position::Time(time) => player.ask("POST", &seek, Some(&json!({"timestamp": time}))).await,
        };
        let answer = answer.expect("groups are only moved in runs without faults");
        // It may have been deleted, with no pop since.
        if answer.status == 404 {
            continue;
        }
        assert_eq!(answer.status, 200, "{answer:?}");
        let scope = match (&to, partition) {
            (Position::End | Position::Time(_), Some(partition)) => format!("{queue}/{partition}"),
            _ => queue.to_owned(),
        };
        stage.log().moves.push(Move { span, group: group.to_owned(), scope, to });
    }
}

/// When some message of the queue was pushed.
fn some_time(player: &mut Player, queue: &str) -> Option<String> {
    let log = player.stage.log();
    let from = player.rng.usize(..log.deliveries.len().max(1));
    let mut after = log.deliveries.iter().skip(from).filter(|delivery| queue_of(&delivery.partition) == queue);
    after.next().map(|delivery| delivery.messages[0].created.clone())
}
