//! The figures of task graphs.

use std::time::Duration;

use super::{INVESTIGATIONS, OPEN_TASKS, READY_OLDEST, STEPS, TASKS, TASKS_FAILED, grown};
use crate::http::MetricFamily;

/// As they are now, `age` after they were read.
pub(super) fn families(figures: &flow::Figures, age: Duration) -> Vec<MetricFamily> {
    let by_state = |metric, figures: &[flow::StateFigures]| {
        let mut family = MetricFamily::new(metric);
        for one in figures {
            let namespace = one.namespace.as_deref().unwrap_or_default();
            family.add([("namespace", namespace), ("state", &one.state)], one.amount as f64);
        }
        family
    };
    let mut oldest = MetricFamily::new(READY_OLDEST);
    for (namespace, since) in &figures.oldest_ready {
        oldest.add([("namespace", namespace.as_deref().unwrap_or_default())], grown(Some(*since), age));
    }
    let mut failed = MetricFamily::new(TASKS_FAILED);
    for (namespace, amount) in &figures.failed {
        failed.add([("namespace", namespace.as_deref().unwrap_or_default())], *amount as f64);
    }
    let investigations = MetricFamily::single(INVESTIGATIONS, figures.investigations as f64);
    let open = by_state(OPEN_TASKS, &figures.open_tasks);
    vec![by_state(TASKS, &figures.tasks), open, by_state(STEPS, &figures.steps), oldest, failed, investigations]
}
