//! When to poll aggressively: a pure function of events and time.
//!
//! Sleeping until a wake-up is right as long as wake-ups arrive. [`Mode`] records what happens and says whether the
//! consumer should also poll at an interval. Two dangers: to stop polling while the fault that caused it lasts, and
//! never to stop. So aggressive polling ends only after `aggressive_poll_duration` *and* `aggressive_exit_threshold`
//! consecutive polls that succeeded and found nothing *and* with a connected listener; in a stable empty system all
//! three come by themselves.
//!
//! | event | begins aggressive polling | during aggressive polling |
//! |---|---|---|
//! | wake-up, timer, fallback | under `EveryWake` | restarts the duration |
//! | listener lost or refused, poll late, fallback found work | yes | restarts the duration |
//! | poll failed | yes | resets the count of empty polls |
//! | poll found work | no | resets the count of empty polls |
//! | poll found nothing | no | counts; may end it |

use std::time::Duration;

use tokio::time::Instant;

use crate::options::{AggressiveOn, Options, Strategy};

/// Something that may change the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A wake-up ended the sleep.
    WakeUp,
    /// A due time ended the sleep.
    TimerFired,
    /// The fallback interval ended the sleep.
    FallbackDue,
    /// The fallback found work for which there was no wake-up.
    FallbackFoundWork,
    /// The listener's connection broke, or could not be made.
    ListenerLost,
    /// The server refused LISTEN, or accepted it and delivers nothing.
    ListenRefused,
    /// The listener is connected (again).
    ListenerConnected,
    /// A group was woken and did not poll within `notify_delivery_timeout`.
    PollLate,
    /// A poll ended in an error.
    PollFailed,
    /// A poll found work.
    PollFoundWork,
    /// A poll succeeded and found nothing.
    PollEmpty,
}

/// How an event changed the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Aggressive polling began, because of this event.
    Entered(Event),
    /// Aggressive polling ended.
    Left,
}

/// The mode of one consumer.
#[derive(Debug, Clone)]
pub(crate) struct Mode {
    rules: Rules,
    connected: bool,
    polling: Option<Polling>,
}

#[derive(Debug, Clone)]
struct Rules {
    /// Broadcast never polls aggressively.
    never: bool,
    on: AggressiveOn,
    duration: Duration,
    threshold: u32,
    interval: Duration,
}

#[derive(Debug, Clone)]
struct Polling {
    since: Instant,
    empty_in_a_row: u32,
}

impl Mode {
    /// Not polling. `connected` says whether there is a listener; without one the first [`Event::ListenerLost`] begins
    /// it.
    pub(crate) fn new(options: &Options, connected: bool) -> Mode {
        Mode {
            rules: Rules {
                never: options.strategy == Strategy::Broadcast,
                on: options.aggressive_on,
                duration: options.aggressive_poll_duration,
                threshold: options.aggressive_exit_threshold,
                interval: options.aggressive_poll_interval,
            },
            connected,
            polling: None,
        }
    }

    /// The interval of aggressive polling; `None` means sleep until a wake-up or a due time.
    pub(crate) fn poll_interval(&self) -> Option<Duration> {
        self.polling.as_ref().map(|_| self.rules.interval)
    }

    /// Whether polling is aggressive.
    pub(crate) fn is_aggressive(&self) -> bool {
        self.polling.is_some()
    }

    /// Records an event that happened at `now`, and returns how the mode changed.
    pub(crate) fn on(&mut self, now: Instant, event: Event) -> Option<Change> {
        match event {
            Event::ListenerConnected => self.connected = true,
            Event::ListenerLost | Event::ListenRefused => self.connected = false,
            _ => {}
        }
        if self.rules.never {
            return None;
        }
        match event {
            Event::WakeUp | Event::TimerFired | Event::FallbackDue => match self.rules.on {
                AggressiveOn::EveryWake => self.enter(now, event),
                AggressiveOn::Faults => None,
            },
            Event::ListenerLost | Event::ListenRefused | Event::PollLate | Event::FallbackFoundWork => {
                self.enter(now, event)
            }
            Event::PollFailed => match &mut self.polling {
                Some(polling) => {
                    polling.empty_in_a_row = 0;
                    None
                }
                None => self.enter(now, event),
            },
            Event::PollFoundWork => {
                if let Some(polling) = &mut self.polling {
                    polling.empty_in_a_row = 0;
                }
                None
            }
            Event::PollEmpty => self.empty(now),
            Event::ListenerConnected => None,
        }
    }

    fn enter(&mut self, now: Instant, event: Event) -> Option<Change> {
        let was = self.polling.replace(Polling { since: now, empty_in_a_row: 0 });
        was.is_none().then_some(Change::Entered(event))
    }

    fn empty(&mut self, now: Instant) -> Option<Change> {
        let polling = self.polling.as_mut()?;
        polling.empty_in_a_row = polling.empty_in_a_row.saturating_add(1);
        let long_enough = now.saturating_duration_since(polling.since) >= self.rules.duration;
        let empty_enough = polling.empty_in_a_row >= self.rules.threshold;
        (self.connected && long_enough && empty_enough).then(|| {
            self.polling = None;
            Change::Left
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn options(on: AggressiveOn) -> Options {
        Options { aggressive_on: on, ..Options::default() }
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// The failure timeline of the design this state machine comes from, step by step: an error after a wake-up,
    /// intermittent errors, the minute over with too few empty polls, and the exit at the fifth.
    #[test]
    fn the_failure_timeline_is_followed() {
        let t0 = Instant::now();
        let mut mode = Mode::new(&options(AggressiveOn::Faults), true);
        assert_eq!(mode.on(t0, Event::PollFailed), Some(Change::Entered(Event::PollFailed)));
        assert_eq!(mode.on(t0 + ms(50), Event::PollFailed), None);
        assert_eq!(mode.on(t0 + ms(100), Event::PollEmpty), None);
        assert_eq!(mode.on(t0 + ms(150), Event::PollFailed), None);
        assert_eq!(mode.on(t0 + ms(200), Event::PollEmpty), None);
        assert_eq!(mode.on(t0 + ms(59_900), Event::PollEmpty), None);
        assert_eq!(mode.on(t0 + ms(60_000), Event::PollEmpty), None, "three in a row are not five");
        assert_eq!(mode.on(t0 + ms(60_150), Event::PollEmpty), None, "four are not five");
        assert_eq!(mode.on(t0 + ms(60_200), Event::PollEmpty), Some(Change::Left));
        assert_eq!(mode.poll_interval(), None);
    }

    /// A wake-up begins aggressive polling under `EveryWake` and not under `Faults`.
    #[test]
    fn only_every_wake_polls_after_a_wake_up() {
        let now = Instant::now();
        for event in [Event::WakeUp, Event::TimerFired, Event::FallbackDue] {
            assert_eq!(Mode::new(&options(AggressiveOn::Faults), true).on(now, event), None);
            let mut every = Mode::new(&options(AggressiveOn::EveryWake), true);
            assert_eq!(every.on(now, event), Some(Change::Entered(event)));
            assert_eq!(every.poll_interval(), Some(ms(100)));
        }
    }

    /// Broadcast never polls aggressively, whatever happens.
    #[test]
    fn broadcast_never_polls() {
        let broadcast = Options { strategy: crate::options::Strategy::Broadcast, ..options(AggressiveOn::EveryWake) };
        let mut mode = Mode::new(&broadcast, true);
        for event in [Event::WakeUp, Event::ListenerLost, Event::PollFailed, Event::FallbackFoundWork] {
            assert_eq!(mode.on(Instant::now(), event), None);
        }
        assert!(!mode.is_aggressive());
    }

    fn any_event() -> impl proptest::strategy::Strategy<Value = Event> {
        prop::sample::select(vec![
            Event::WakeUp,
            Event::TimerFired,
            Event::FallbackDue,
            Event::FallbackFoundWork,
            Event::ListenerLost,
            Event::ListenRefused,
            Event::ListenerConnected,
            Event::PollLate,
            Event::PollFailed,
            Event::PollFoundWork,
            Event::PollEmpty,
        ])
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Over any sequence of events, polling never ends before its time, before enough empty polls in a row, after
        /// anything but an empty poll, or without a listener.
        #[test]
        fn never_leaves_early(
            events in prop::collection::vec((any_event(), 0u64..30_000), 1..200),
            every_wake in any::<bool>(),
        ) {
            let on = if every_wake { AggressiveOn::EveryWake } else { AggressiveOn::Faults };
            let options = options(on);
            let mut mode = Mode::new(&options, true);
            let mut now = Instant::now();
            let (mut connected, mut last_fault, mut empties) = (true, now, 0);
            for (event, after) in events {
                now += ms(after);
                match event {
                    Event::ListenerConnected => connected = true,
                    Event::ListenerLost | Event::ListenRefused => connected = false,
                    _ => {}
                }
                let fault = matches!(event, Event::ListenerLost | Event::ListenRefused | Event::PollLate
                    | Event::FallbackFoundWork);
                if fault { last_fault = now; }
                match event {
                    Event::PollEmpty => empties += 1,
                    Event::ListenerConnected => {}
                    Event::WakeUp | Event::TimerFired | Event::FallbackDue if !every_wake => {}
                    _ => empties = 0,
                }
                let was = mode.is_aggressive();
                let change = mode.on(now, event);
                prop_assert_eq!(change.is_some(), was != mode.is_aggressive());
                if fault || event == Event::PollFailed { prop_assert!(mode.is_aggressive()); }
                if change == Some(Change::Left) {
                    prop_assert_eq!(event, Event::PollEmpty);
                    prop_assert!(connected);
                    prop_assert!(empties >= options.aggressive_exit_threshold);
                    prop_assert!(now - last_fault >= options.aggressive_poll_duration);
                }
            }
        }

        /// Whatever happened before, with a connected listener and no work, aggressive polling ends after its duration
        /// and the configured number of empty polls.
        #[test]
        fn never_stays_for_ever(
            events in prop::collection::vec((any_event(), 0u64..30_000), 0..100),
            every_wake in any::<bool>(),
        ) {
            let on = if every_wake { AggressiveOn::EveryWake } else { AggressiveOn::Faults };
            let options = options(on);
            let mut mode = Mode::new(&options, true);
            let mut now = Instant::now();
            for (event, after) in events {
                now += ms(after);
                mode.on(now, event);
            }
            mode.on(now, Event::ListenerConnected);
            let end = now + options.aggressive_poll_duration
                + options.aggressive_poll_interval * (options.aggressive_exit_threshold + 1);
            while now < end {
                now += options.aggressive_poll_interval;
                mode.on(now, Event::PollEmpty);
            }
            prop_assert!(!mode.is_aggressive());
        }
    }
}
