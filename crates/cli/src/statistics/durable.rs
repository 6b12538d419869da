//! The figures of orchestrations.

use std::time::Duration;

use super::{ACTIVITIES, ACTIVITY_OLDEST, MESSAGE_OLDEST, MESSAGES, ORCHESTRATIONS, TURNS, grown};
use crate::http::MetricFamily;

/// As they are now, `age` after they were read.
pub(super) fn families(figures: &durable::Figures, age: Duration) -> Vec<MetricFamily> {
    let mut orchestrations = MetricFamily::new(ORCHESTRATIONS);
    for (status, amount) in &figures.instances {
        orchestrations.add([("status", status)], *amount as f64);
    }
    let mut activities = MetricFamily::new(ACTIVITIES);
    activities.add([("state", "waiting")], figures.activities_waiting as f64);
    activities.add([("state", "running")], figures.activities_running as f64);
    vec![
        orchestrations,
        MetricFamily::single(MESSAGES, figures.messages as f64),
        MetricFamily::single(MESSAGE_OLDEST, grown(figures.oldest_message, age)),
        MetricFamily::single(TURNS, figures.turns as f64),
        activities,
        MetricFamily::single(ACTIVITY_OLDEST, grown(figures.oldest_activity, age)),
    ]
}
