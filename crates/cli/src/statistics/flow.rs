//! Statistics of task graphs.

use std::time::Duration;

use super::{INVESTIGATIONS, OPEN_TASKS, READY_OLDEST, STEPS, TASKS, TASKS_FAILED, extrapolated};
use crate::http::MetricFamily;

/// The current values, `age` after they were read.
pub(super) fn families(statistics: &reveille_flow::Figures, age: Duration) -> Vec<MetricFamily> {
    let by_state = |metric, statistics: &[reveille_flow::StateFigures]| {
        let mut family = MetricFamily::new(metric);
        for one in statistics {
            let namespace = one.namespace.as_deref().unwrap_or_default();
            family.add([("namespace", namespace), ("state", &one.state)], one.amount as f64);
        }
        family
    };
    let mut oldest = MetricFamily::new(READY_OLDEST);
    for (namespace, since) in &statistics.oldest_ready {
        oldest.add([("namespace", namespace.as_deref().unwrap_or_default())], extrapolated(Some(*since), age));
    }
    let mut failed = MetricFamily::new(TASKS_FAILED);
    for (namespace, amount) in &statistics.failed {
        failed.add([("namespace", namespace.as_deref().unwrap_or_default())], *amount as f64);
    }
    let investigations = MetricFamily::single(INVESTIGATIONS, statistics.investigations as f64);
    let open = by_state(OPEN_TASKS, &statistics.open_tasks);
    vec![by_state(TASKS, &statistics.tasks), open, by_state(STEPS, &statistics.steps), oldest, failed, investigations]
}
