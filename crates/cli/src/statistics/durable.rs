//! Statistics of orchestrations.

use std::time::Duration;

use super::{ACTIVITIES, ACTIVITY_OLDEST, MESSAGE_OLDEST, MESSAGES, ORCHESTRATIONS, TURNS, extrapolated};
use crate::http::MetricFamily;

/// The metrics of `statistics` that were read `age` ago. The ages of the oldest items grow by that.
pub(super) fn families(statistics: &reveille_durable::Figures, age: Duration) -> Vec<MetricFamily> {
    let mut orchestrations = MetricFamily::new(ORCHESTRATIONS);
    for (status, amount) in &statistics.instances {
        orchestrations.add([("status", status)], *amount as f64);
    }
    let mut activities = MetricFamily::new(ACTIVITIES);
    activities.add([("state", "waiting")], statistics.activities_waiting as f64);
    activities.add([("state", "running")], statistics.activities_running as f64);
    vec![
        orchestrations,
        MetricFamily::single(MESSAGES, statistics.messages as f64),
        MetricFamily::single(MESSAGE_OLDEST, extrapolated(statistics.oldest_message, age)),
        MetricFamily::single(TURNS, statistics.turns as f64),
        activities,
        MetricFamily::single(ACTIVITY_OLDEST, extrapolated(statistics.oldest_activity, age)),
    ]
}
