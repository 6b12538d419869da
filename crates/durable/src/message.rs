//! Messages and activities on their way to their tables.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duroxide::providers::{ProviderError, WorkItem};

use crate::item;
use crate::text::stored;

/// A delay beyond this is as good as this: a hundred years, which every timestamp can hold.
const DELAY_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// A message to an instance.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// As it is stored.
    pub(crate) instance: String,
    pub(crate) due: Due,
    pub(crate) item: String,
}

/// When a message is due.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Due {
    /// After a duration.
    After(Duration),
    /// At a time by this process's clock, which is made a duration when the message is sent: only the database's clock counts there.
    At { unix_ms: u64 },
}

impl Due {
    pub(crate) fn delay(self) -> Duration {
        let delay = match self {
            Due::After(delay) => delay,
            Due::At { unix_ms } => Duration::from_millis(unix_ms.saturating_sub(now_ms())),
        };
        delay.min(DELAY_MAX)
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// A duration in milliseconds, as PostgreSQL takes them. Rounded up: nothing is due before its time, and no lease is none.
pub(crate) fn millis(duration: Duration) -> i64 {
    duration.min(DELAY_MAX).as_nanos().div_ceil(1_000_000) as i64
}

impl Message {
    /// # Errors
    /// If the item is none that an instance receives.
    pub(crate) fn new(
        operation: &'static str,
        item: &WorkItem,
        delay: Option<Duration>,
    ) -> Result<Message, ProviderError> {
        let for_worker = matches!(item, WorkItem::ActivityExecute { .. });
        let instance = receiver(item).filter(|_| !for_worker).ok_or_else(|| {
            ProviderError::permanent(operation, "an activity to execute is for a worker, not for an orchestration")
        })?;
        let due = match (delay, item) {
            (Some(delay), _) => Due::After(delay),
            (None, WorkItem::TimerFired { fire_at_ms, .. }) => Due::At { unix_ms: *fire_at_ms },
            (None, _) => Due::After(Duration::ZERO),
        };
        Ok(Message { instance: stored(instance).into_owned(), due, item: json(operation, item, instance)? })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.instance.len() + self.item.len()
    }
}

/// The instance an item is for; `None` for one of a kind this version does not know.
pub(crate) fn receiver(item: &WorkItem) -> Option<&str> {
    match item {
        WorkItem::ActivityExecute { instance, .. } => Some(instance),
        WorkItem::StartOrchestration { instance, .. }
        | WorkItem::ActivityCompleted { instance, .. }
        | WorkItem::ActivityFailed { instance, .. }
        | WorkItem::TimerFired { instance, .. }
        | WorkItem::ExternalRaised { instance, .. }
        | WorkItem::QueueMessage { instance, .. }
        | WorkItem::CancelInstance { instance, .. }
        | WorkItem::ContinueAsNew { instance, .. } => Some(instance),
        WorkItem::SubOrchCompleted { parent_instance, .. } | WorkItem::SubOrchFailed { parent_instance, .. } => {
            Some(parent_instance)
        }
        // What duroxide has behind a feature that somebody else may have chosen.
        #[allow(unreachable_patterns)]
        _ => None,
    }
}

/// An activity to execute.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    /// As it is stored, like the session and the lane.
    pub(crate) instance: String,
    pub(crate) execution: i64,
    pub(crate) activity: i64,
    pub(crate) lane: String,
    pub(crate) session: Option<String>,
    pub(crate) item: String,
}

impl Work {
    /// # Errors
    /// If the item is no activity.
    pub(crate) fn new(operation: &'static str, item: &WorkItem) -> Result<Work, ProviderError> {
        let WorkItem::ActivityExecute { instance, execution_id, id, session_id, tag, .. } = item else {
            return Err(ProviderError::permanent(operation, "only an activity to execute can be given to a worker"));
        };
        Ok(Work {
            instance: stored(instance).into_owned(),
            execution: *execution_id as i64,
            activity: *id as i64,
            lane: lane(tag.as_deref()),
            session: session_id.as_deref().map(|session| stored(session).into_owned()),
            item: json(operation, item, instance)?,
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.instance.len() + self.item.len() + self.lane.len()
    }
}

/// The lane of a tag: where activities with it wait.
pub(crate) fn lane(tag: Option<&str>) -> String {
    tag.map_or_else(String::new, |tag| format!("#{}", stored(tag)))
}

fn json(operation: &'static str, item: &WorkItem, instance: &str) -> Result<String, ProviderError> {
    item::write(item, instance).map_err(|error| {
        ProviderError::permanent(operation, format!("the work item cannot be written as JSON: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No part of a millisecond is cut off, and no duration breaks the arithmetic of the database.
    #[test]
    fn durations_are_rounded_up_to_milliseconds() {
        assert_eq!(millis(Duration::ZERO), 0);
        assert_eq!(millis(Duration::from_micros(500)), 1);
        assert_eq!(millis(Duration::from_millis(500)), 500);
        assert_eq!(millis(Duration::from_nanos(1_500_000_001)), 1_501);
        assert_eq!(millis(Duration::MAX), DELAY_MAX.as_millis() as i64);
    }

    /// A time of this process becomes a duration from its own now; one that has passed, none.
    #[test]
    fn times_become_durations() {
        assert_eq!(Due::At { unix_ms: 5 }.delay(), Duration::ZERO);
        let delay = Due::At { unix_ms: now_ms() + 60_000 }.delay();
        assert!(delay > Duration::from_secs(59) && delay <= Duration::from_secs(60), "{delay:?}");
        assert_eq!(Due::At { unix_ms: u64::MAX }.delay(), DELAY_MAX);
    }
}
