//! What the dispatcher does with what the listener reports: notifications of other processes, and its connection.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::metrics;
use crate::notify::channel::{Payload, Received, parse};
use crate::notify::dispatcher::{Dispatcher, ListenerState, WakeTarget};
use crate::notify::held::{HELD_FOR, HeldNotifications, Notification};
use crate::wait::mode::Event;
use crate::wait::reason::Reason;

/// A reading of the database's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) here: Instant,
    pub(crate) there_ms: i64,
}

impl Clock {
    /// When the database's clock reads `ms`; `None` if that is in the past.
    fn when(&self, ms: i64) -> Option<Instant> {
        let from_now = u64::try_from(ms.checked_sub(self.there_ms)?).ok()?;
        self.here.checked_add(Duration::from_millis(from_now))
    }
}

impl Dispatcher {
    /// The listener has received a notification.
    pub(crate) fn notification_received(self: &Arc<Self>, channel: &str, payload: &str, backend: u32) {
        let mut notification = Notification { channel: channel.into(), payload: payload.to_owned(), backend };
        {
            let state = &mut *self.state.lock();
            let Some(known) = state.channels.get(channel) else { return };
            if state.own.received(Instant::now(), backend, channel) {
                ::metrics::counter!(metrics::NOTIFICATIONS_RECEIVED, "channel" => channel.to_owned(), "from" => "self")
                    .increment(1);
                return;
            }
            if known.writes > 0 {
                match self.hold(&mut state.held, notification) {
                    Some(too_many) => notification = too_many,
                    None => return,
                }
            }
        }
        self.notified_by_other(&notification);
    }

    /// Holds an unexpected notification for a short time; gives it back if too many are held.
    fn hold(self: &Arc<Self>, held: &mut HeldNotifications, notification: Notification) -> Option<Notification> {
        let number = match held.hold(notification) {
            Ok(number) => number,
            Err(too_many) => return Some(too_many),
        };
        let me = Arc::downgrade(self);
        self.runtime.spawn(async move {
            sleep(HELD_FOR).await;
            let Some(me) = me.upgrade() else { return };
            let notification = me.state.lock().held.take(number);
            if let Some(notification) = notification {
                me.notified_by_other(&notification);
            }
        });
        None
    }

    /// Another process has notified.
    fn notified_by_other(&self, Notification { channel, payload, .. }: &Notification) {
        let now = Instant::now();
        let (kind, clock) = {
            let mut state = self.state.lock();
            let Some(kind) = state.channels.get(channel).map(|channel| channel.payload) else { return };
            state.clock_used |= kind == Payload::Due;
            (kind, state.clock)
        };
        ::metrics::counter!(metrics::NOTIFICATIONS_RECEIVED, "channel" => channel.to_string(), "from" => "other")
            .increment(1);
        self.remote_activity.fetch_add(1, Ordering::Relaxed);
        self.recheck_later(channel, now);
        match parse(kind, payload) {
            Received::All => self.wake_notified(channel, None),
            Received::Keys(keys) => self.wake_notified(channel, Some(&keys)),
            Received::AllAt(due_ms) => match clock.and_then(|clock| clock.when(due_ms)).filter(|at| *at > now) {
                None => self.wake_notified(channel, None),
                Some(at) => {
                    for (target, group) in self.groups(channel, None) {
                        target.due_at(group, at);
                    }
                }
            },
        }
    }

    /// A busy sender notifies after its commits. If it dies between the two, the notification it sent before, on the
    /// same channel but perhaps for another topic, makes all groups of the channel recheck.
    fn recheck_later(&self, channel: &str, now: Instant) {
        let targets: Vec<Weak<dyn WakeTarget>> = {
            let mut state = self.state.lock();
            let Some(channel) = state.channels.get_mut(channel) else { return };
            channel.notified_at = Some(now);
            channel.targets.values().cloned().collect()
        };
        for target in targets.iter().filter_map(Weak::upgrade) {
            target.needs_recheck();
        }
    }

    fn wake_notified(&self, channel: &str, keys: Option<&[&str]>) {
        for (target, group) in self.groups(channel, keys) {
            target.wake_up(group, Reason::Notified);
        }
    }

    /// The listener listens to all channels on a new connection, or to new channels on its current one: all groups
    /// poll.
    pub(crate) fn connected(&self, clock: Option<Clock>) {
        self.remote_activity.fetch_add(1, Ordering::Relaxed);
        let (targets, epoch) = {
            let mut state = self.state.lock();
            state.last_epoch += 1;
            state.epoch = Some(state.last_epoch);
            state.listener = ListenerState::Connected;
            let now = Instant::now();
            state.own.clear(now);
            state.held.clear();
            for channel in state.channels.values_mut() {
                // Notifications that were lost meanwhile count as received now.
                channel.notified_at = Some(now);
            }
            if clock.is_some() {
                state.clock = clock;
                state.clock_used = false;
            }
            (state.targets.clone(), state.epoch)
        };
        ::metrics::gauge!(metrics::LISTENER_UP, "schema" => self.schema.name().to_owned()).set(1.0);
        for target in targets.iter().filter_map(Weak::upgrade) {
            target.listener_changed(epoch, Event::ListenerConnected);
        }
    }

    /// The listener was disconnected, or could not connect.
    pub(crate) fn disconnected(&self, event: Event, reason: String) {
        let targets = {
            let mut state = self.state.lock();
            state.epoch = None;
            state.listener = ListenerState::Lost { reason };
            state.targets.clone()
        };
        ::metrics::gauge!(metrics::LISTENER_UP, "schema" => self.schema.name().to_owned()).set(0.0);
        ::metrics::counter!(metrics::LISTENER_LOSSES, "schema" => self.schema.name().to_owned()).increment(1);
        for target in targets.iter().filter_map(Weak::upgrade) {
            target.listener_changed(None, event);
        }
    }

    /// Whether a due time was received since the database's clock was last read.
    pub(crate) fn needs_clock(&self) -> bool {
        self.state.lock().clock_used
    }

    pub(crate) fn set_clock(&self, clock: Clock) {
        let mut state = self.state.lock();
        state.clock = Some(clock);
        state.clock_used = false;
    }
}
