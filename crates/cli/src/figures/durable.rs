//! The figures of orchestrations.

use std::time::Duration;

use super::{ACTIVITIES, ACTIVITY_OLDEST, MESSAGE_OLDEST, MESSAGES, ORCHESTRATIONS, TURNS, grown};
use crate::http::Family;

/// As they are now, `age` after they were read.
pub(super) fn families(figures: &durable::Figures, age: Duration) -> Vec<Family> {
    let mut orchestrations = Family::new(ORCHESTRATIONS);
    for (status, amount) in &figures.instances {
        orchestrations.add([("status", status)], *amount as f64);
    }
    let mut activities = Family::new(ACTIVITIES);
    activities.add([("state", "waiting")], figures.activities_waiting as f64);
    activities.add([("state", "running")], figures.activities_running as f64);
    vec![
        orchestrations,
        Family::single(MESSAGES, figures.messages as f64),
        Family::single(MESSAGE_OLDEST, grown(figures.oldest_message, age)),
        Family::single(TURNS, figures.turns as f64),
        activities,
        Family::single(ACTIVITY_OLDEST, grown(figures.oldest_activity, age)),
    ]
}
