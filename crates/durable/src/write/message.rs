//! Messages to instances, as they are stored.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duroxide::providers::{ProviderError, WorkItem};

use super::work_item;
use crate::text::escape;

/// The longest delay, which longer ones are cut to: a hundred years, within the range of timestamps.
const DELAY_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// A message to an instance.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// Escaped.
    pub(crate) instance: String,
    pub(crate) due: Due,
    pub(crate) item: String,
}

/// When a message is due.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Due {
    /// After a duration.
    After(Duration),
    /// At a time by the clock of this process. Converted to a delay when the message is sent, because due times follow
    /// the clock of the database.
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

/// A duration in whole milliseconds. Rounded up: nothing is due early, and no lease becomes zero.
pub(crate) fn millis(duration: Duration) -> i64 {
    duration.min(DELAY_MAX).as_nanos().div_ceil(1_000_000) as i64
}

impl Message {
    /// # Errors
    /// If the item is not a message to an instance.
    pub(crate) fn new(
        operation: &'static str,
        item: &WorkItem,
        delay: Option<Duration>,
    ) -> Result<Message, ProviderError> {
        let for_worker = matches!(item, WorkItem::ActivityExecute { .. });
        let instance = receiver(item).filter(|_| !for_worker).ok_or_else(|| {
            ProviderError::permanent(operation, "invalid work item for an orchestration: must not be ActivityExecute")
        })?;
        let due = match (delay, item) {
            (Some(delay), _) => Due::After(delay),
            (None, WorkItem::TimerFired { fire_at_ms, .. }) => Due::At { unix_ms: *fire_at_ms },
            (None, _) => Due::After(Duration::ZERO),
        };
        Ok(Message { instance: escape(instance).into_owned(), due, item: json(operation, item, instance)? })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.instance.len() + self.item.len()
    }
}

/// The instance that an item is for; `None` for a kind that this version does not know.
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
        // Kinds behind a feature of duroxide, which another crate of the build may enable.
        #[allow(unreachable_patterns)]
        _ => None,
    }
}

pub(super) fn json(operation: &'static str, item: &WorkItem, instance: &str) -> Result<String, ProviderError> {
    work_item::write(item, instance).map_err(|error| {
        ProviderError::permanent(operation, format!("the work item cannot be encoded as JSON: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fractions of a millisecond round up, and long durations are cut to a range that the database can compute with.
    #[test]
    fn durations_are_rounded_up_to_milliseconds() {
        assert_eq!(millis(Duration::ZERO), 0);
        assert_eq!(millis(Duration::from_micros(500)), 1);
        assert_eq!(millis(Duration::from_millis(500)), 500);
        assert_eq!(millis(Duration::from_nanos(1_500_000_001)), 1_501);
        assert_eq!(millis(Duration::MAX), DELAY_MAX.as_millis() as i64);
    }

    /// A time becomes a delay from now, zero if it has passed.
    #[test]
    fn times_become_delays() {
        assert_eq!(Due::At { unix_ms: 5 }.delay(), Duration::ZERO);
        let delay = Due::At { unix_ms: now_ms() + 60_000 }.delay();
        assert!(delay > Duration::from_secs(59) && delay <= Duration::from_secs(60), "{delay:?}");
        assert_eq!(Due::At { unix_ms: u64::MAX }.delay(), DELAY_MAX);
    }
}
