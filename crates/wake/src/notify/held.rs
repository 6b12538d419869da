//! Unexpected notifications that may be this process's own.
//!
//! The server sends the notification of a write when it commits, often before its answer. Such a notification is not
//! expected yet, and would make the waiters poll for work that the answer brings or that their own wake-up is about to
//! find. So while a write of this process notifies a channel in its transaction, an unexpected notification on that
//! channel is held: it is dropped if the write returns and has sent it, and wakes waiters after [`HELD_FOR`] otherwise.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::notify::dispatcher::Dispatcher;

/// How long a notification waits for the answer of the write that may have sent it: usually a fraction of that.
const HELD_FOR: Duration = Duration::from_millis(2);
/// Notifications held at once; others wake waiters at once.
const HELD_MAX: usize = 256;

/// A notification of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notification {
    pub(crate) channel: Arc<str>,
    pub(crate) payload: String,
    pub(crate) backend: u32,
}

/// The notifications that are held.
#[derive(Debug, Default)]
pub(crate) struct HeldNotifications {
    held: VecDeque<(u64, Notification)>,
    last: u64,
}

impl HeldNotifications {
    /// Holds a notification and returns its number; gives it back if there are too many.
    fn hold(&mut self, notification: Notification) -> Result<u64, Notification> {
        if self.held.len() >= HELD_MAX {
            return Err(notification);
        }
        self.last += 1;
        self.held.push_back((self.last, notification));
        Ok(self.last)
    }

    fn take(&mut self, number: u64) -> Option<Notification> {
        let at = self.held.iter().position(|(held, _)| *held == number)?;
        self.held.remove(at).map(|(_, notification)| notification)
    }

    /// A write of this backend has returned and has sent so many of the unexpected notifications on this channel: drops
    /// the first ones. Returns how many were still held.
    pub(crate) fn drop_own(&mut self, backend: u32, channel: &str, count: u32) -> usize {
        let mut dropped = 0;
        self.held.retain(|(_, held)| {
            let is_own = held.backend == backend && *held.channel == *channel && dropped < count as usize;
            dropped += usize::from(is_own);
            !is_own
        });
        dropped
    }

    /// The listener has a new connection: all groups poll.
    pub(crate) fn clear(&mut self) {
        self.held.clear();
    }
}

impl Dispatcher {
    /// Holds an unexpected notification for a short time.
    pub(super) fn hold(
        self: &Arc<Self>,
        held: &mut HeldNotifications,
        notification: Notification,
    ) -> Option<Notification> {
        match held.hold(notification) {
            Ok(number) => {
                let me = Arc::downgrade(self);
                self.runtime.spawn(async move {
                    sleep(HELD_FOR).await;
                    if let Some(me) = me.upgrade()
                        && let Some(notification) = me.held(|held| held.take(number))
                    {
                        me.notified_by_other(&notification);
                    }
                });
                None
            }
            Err(notification) => Some(notification),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(backend: u32, channel: &str) -> Notification {
        Notification { channel: channel.into(), payload: String::new(), backend }
    }

    /// What a write has sent is dropped, as often as it was sent; what others have sent stays.
    #[test]
    fn only_own_notifications_are_dropped() {
        let mut held = HeldNotifications::default();
        let numbers = [from(7, "c"), from(7, "d"), from(8, "c"), from(7, "c"), from(7, "c")]
            .map(|notification| held.hold(notification).expect("room"));
        assert_eq!(held.drop_own(7, "c", 2), 2);
        assert_eq!(numbers.map(|number| held.take(number).is_some()), [false, true, true, false, true]);
        assert_eq!(held.drop_own(7, "c", 1), 0);
    }

    /// Beyond the limit notifications wake waiters at once.
    #[test]
    fn held_notifications_are_bounded() {
        let mut held = HeldNotifications::default();
        for _ in 0..HELD_MAX {
            held.hold(from(7, "c")).expect("room");
        }
        assert_eq!(held.hold(from(7, "d")), Err(from(7, "d")));
        held.clear();
        held.hold(from(7, "d")).expect("room");
    }
}
