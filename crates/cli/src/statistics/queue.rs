//! Statistics of queues.

use std::time::Duration;

use super::{
    ACKED, DEAD_LETTERED, DELIVERED, FAILED, GROUP_LAG, GROUP_OLDEST, PUSHED, QUEUE_DEAD_LETTERS, QUEUE_DEPTH,
    QUEUE_OLDEST, QUEUE_PARTITIONS, extrapolated,
};
use crate::http::MetricFamily;

/// The current values, `age` after they were read.
pub(super) fn families(statistics: &reveille_queue::Figures, age: Duration) -> Vec<MetricFamily> {
    let [mut depth, mut oldest, mut partitions, mut dead_letters] =
        [QUEUE_DEPTH, QUEUE_OLDEST, QUEUE_PARTITIONS, QUEUE_DEAD_LETTERS].map(MetricFamily::new);
    for one in &statistics.queues {
        let labels = [("queue", one.queue.as_deref().unwrap_or_default())];
        depth.add(labels, one.depth as f64);
        oldest.add(labels, extrapolated(one.oldest, age));
        partitions.add(labels, one.partitions as f64);
        dead_letters.add(labels, one.dead_letters as f64);
    }
    let [mut lag, mut group_oldest] = [GROUP_LAG, GROUP_OLDEST].map(MetricFamily::new);
    for one in &statistics.groups {
        let (queue, group) = one.group.as_ref().map_or(("", ""), |(queue, group)| (queue, group));
        let labels = [("queue", queue), ("group", group)];
        lag.add(labels, one.lag as f64);
        group_oldest.add(labels, extrapolated(one.oldest, age));
    }
    vec![depth, oldest, partitions, dead_letters, lag, group_oldest]
}

/// The counters of this process.
pub(super) fn counted(counts: &reveille_queue::MessageCounts) -> Vec<MetricFamily> {
    let mut pushed = MetricFamily::new(PUSHED);
    for one in &counts.queues {
        pushed.add([("queue", one.queue.as_deref().unwrap_or_default())], one.pushed as f64);
    }
    let [mut delivered, mut acked, mut failed, mut dead_lettered] =
        [DELIVERED, ACKED, FAILED, DEAD_LETTERED].map(MetricFamily::new);
    for one in &counts.groups {
        let (queue, group) = one.group.as_ref().map_or(("", ""), |(queue, group)| (queue, group));
        let labels = [("queue", queue), ("group", group)];
        delivered.add(labels, one.counts.delivered as f64);
        acked.add(labels, one.counts.acked as f64);
        failed.add(labels, one.counts.failed as f64);
        dead_lettered.add(labels, one.counts.dead_lettered as f64);
    }
    vec![pushed, delivered, acked, failed, dead_lettered]
}
