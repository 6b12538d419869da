//! Unexpected notifications that may be this process's own.
//!
//! The server sends the notification of a write when it commits, often before its answer. Such a notification is not
//! expected yet, and would make the waiters poll for work that the answer brings or that their own wake-up is about to
//! find. So while a write of this process notifies a channel in its transaction, an unexpected notification on that
//! channel is held: it is dropped if the write returns and has sent it, and wakes waiters after [`HELD_FOR`] otherwise.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How long a notification waits for the answer of the write that may have sent it: usually a fraction of that.
pub(super) const HELD_FOR: Duration = Duration::from_millis(2);
/// The payload, on a channel of due times, of a write whose work is due at once.
const DUE_NOW: &str = "+0";
/// Notifications held at once; others wake waiters at once.
const HELD_MAX: usize = 256;

/// A notification of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notification {
    pub(super) channel: Arc<str>,
    pub(super) payload: String,
    pub(super) backend: u32,
}

/// The notifications that are held.
#[derive(Debug, Default)]
pub(super) struct HeldNotifications {
    held: VecDeque<(u64, Notification)>,
    last: u64,
}

impl HeldNotifications {
    /// Holds a notification and returns its number; gives it back if there are too many.
    pub(super) fn hold(&mut self, notification: Notification) -> Result<u64, Notification> {
        if self.held.len() >= HELD_MAX {
            return Err(notification);
        }
        self.last += 1;
        self.held.push_back((self.last, notification));
        Ok(self.last)
    }

    /// Takes one that is still held.
    pub(super) fn take(&mut self, number: u64) -> Option<Notification> {
        let at = self.held.iter().position(|(held, _)| *held == number)?;
        self.held.remove(at).map(|(_, notification)| notification)
    }

    /// A write of this backend has returned: drops its notification on this channel. Whether it was held.
    ///
    /// The same backend may have committed another notification just before, for a transaction of the application. It is
    /// dropped only if the write has woken the same waiters: by the payload, or because the write has woken the whole
    /// channel at once. A due time is not compared: the server has made it absolute.
    pub(super) fn drop_own(&mut self, backend: u32, channel: &str, payload: &str) -> bool {
        let is_own = |held: &Notification| {
            held.backend == backend && *held.channel == *channel && (payload == DUE_NOW || held.payload == payload)
        };
        let at = self.held.iter().position(|(_, held)| is_own(held));
        at.and_then(|at| self.held.remove(at)).is_some()
    }

    /// The listener has a new connection: all groups poll.
    pub(super) fn clear(&mut self) {
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(backend: u32, channel: &str, payload: &str) -> Notification {
        Notification { channel: channel.into(), payload: payload.to_owned(), backend }
    }

    /// What a write has sent is dropped once; what others have sent stays, also what the same backend has sent for other
    /// waiters.
    #[test]
    fn only_own_notifications_are_dropped() {
        let mut held = HeldNotifications::default();
        let sent = [of(7, "c", "other"), of(8, "c", "key"), of(7, "d", "key"), of(7, "c", "key"), of(7, "c", "key")];
        let numbers = sent.map(|notification| held.hold(notification).expect("room"));
        assert!(held.drop_own(7, "c", "key"));
        assert_eq!(numbers.map(|number| held.take(number).is_some()), [true, true, true, false, true]);
        assert!(!held.drop_own(7, "c", "key"));
    }

    /// A write whose work is due at once has woken every waiter of a channel of due times. One whose work is due later
    /// has not.
    #[test]
    fn a_due_time_may_be_another_write() {
        let mut held = HeldNotifications::default();
        held.hold(of(7, "c", "1795092831718")).expect("room");
        assert!(!held.drop_own(7, "c", "+5000"));
        assert!(held.drop_own(7, "c", DUE_NOW));
    }

    /// Beyond the limit notifications wake waiters at once.
    #[test]
    fn held_notifications_are_bounded() {
        let mut held = HeldNotifications::default();
        for _ in 0..HELD_MAX {
            held.hold(of(7, "c", "")).expect("room");
        }
        assert_eq!(held.hold(of(7, "d", "")), Err(of(7, "d", "")));
        held.clear();
        held.hold(of(7, "d", "")).expect("room");
    }
}
