//! The figures of the queues.

use std::time::Duration;

use super::{GROUP_LAG, GROUP_OLDEST, QUEUE_DEAD_LETTERS, QUEUE_DEPTH, QUEUE_OLDEST, QUEUE_PARTITIONS, grown};
use crate::http::Family;

/// As they are now, `age` after they were read.
pub(super) fn families(figures: &queue::Figures, age: Duration) -> Vec<Family> {
    let [mut depth, mut oldest, mut partitions, mut dead_letters] =
        [QUEUE_DEPTH, QUEUE_OLDEST, QUEUE_PARTITIONS, QUEUE_DEAD_LETTERS].map(Family::new);
    for one in &figures.queues {
        let labels = [("queue", one.queue.as_deref().unwrap_or_default())];
        depth.add(labels, one.depth as f64);
        oldest.add(labels, grown(one.oldest, age));
        partitions.add(labels, one.partitions as f64);
        dead_letters.add(labels, one.dead_letters as f64);
    }
    let [mut lag, mut group_oldest] = [GROUP_LAG, GROUP_OLDEST].map(Family::new);
    for one in &figures.groups {
        let (queue, group) = one.group.as_ref().map_or(("", ""), |(queue, group)| (queue, group));
        let labels = [("queue", queue), ("group", group)];
        lag.add(labels, one.lag as f64);
        group_oldest.add(labels, grown(one.oldest, age));
    }
    vec![depth, oldest, partitions, dead_letters, lag, group_oldest]
}
