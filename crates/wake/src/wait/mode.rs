//! When to poll: a pure function of events and time.
//!
//! Sleeping until a ring is right as long as rings arrive. [`Mode`] is told what happens and answers whether the consumer
//! should poll as well. The danger it removes is twofold: leaving polling while the fault that caused it lasts, and
//! never leaving it. So polling ends only after `aggressive_poll_duration` *and* `aggressive_exit_threshold` consecutive
//! looks that succeeded and found nothing *and* with a listener that hears; each of the three comes by itself in a stable
//! empty system.
//!
//! | event | enters | while polling |
//! |---|---|---|
//! | ring, timer, fallback | under `EveryWake` | starts the time again |
//! | listener lost or refused, look late, fallback found work | yes | starts the time again |
//! | look failed | yes | counts from zero again |
//! | look found work | no | counts from zero again |
//! | look found nothing | no | counts; may end it |

use std::time::Duration;

use tokio::time::Instant;

use crate::options::{AggressiveOn, Options, Strategy};

/// Something that bears on the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A ring ended the sleep.
    Rung,
    /// A due time ended the sleep.
    TimerFired,
    /// The fallback interval ended the sleep.
    FallbackDue,
    /// The fallback found work that nobody had been told of.
    FallbackFoundWork,
    /// The listener's connection broke, or could not be made.
    ListenerLost,
    /// The server refused LISTEN, or accepted it and delivers nothing.
    ListenRefused,
    /// The listener hears (again).
    ListenerHears,
    /// A waiter was rung and had not looked within `notify_delivery_timeout`.
    LookLate,
    /// A look ended in an error.
    LookFailed,
    /// A look found work.
    LookFound,
    /// A look succeeded and found nothing.
    LookEmpty,
}

/// What changed by an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Polling began, because of this.
    Entered(Event),
    /// Polling ended.
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
    /// Broadcast has no polling mode at all.
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
    /// Not polling. `hears` says whether there is a listener; without one the first [`Event::ListenerLost`] begins to poll.
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

    /// The pace of polling; `None` means sleep until something rings or is due.
    pub(crate) fn poll_interval(&self) -> Option<Duration> {
        self.polling.as_ref().map(|_| self.rules.interval)
    }

    /// Whether it polls.
    pub(crate) fn is_aggressive(&self) -> bool {
        self.polling.is_some()
    }

    /// Takes an event that happened at `now`.
    pub(crate) fn on(&mut self, now: Instant, event: Event) -> Option<Change> {
        match event {
            Event::ListenerHears => self.connected = true,
            Event::ListenerLost | Event::ListenRefused => self.connected = false,
            _ => {}
        }
        if self.rules.never {
            return None;
        }
        match event {
            Event::Rung | Event::TimerFired | Event::FallbackDue => match self.rules.on {
                AggressiveOn::EveryWake => self.enter(now, event),
                AggressiveOn::Faults => None,
            },
            Event::ListenerLost | Event::ListenRefused | Event::LookLate | Event::FallbackFoundWork => {
                self.enter(now, event)
            }
            Event::LookFailed => match &mut self.polling {
                Some(polling) => {
                    polling.empty_in_a_row = 0;
                    None
                }
                None => self.enter(now, event),
            },
            Event::LookFound => {
                if let Some(polling) = &mut self.polling {
                    polling.empty_in_a_row = 0;
                }
                None
            }
            Event::LookEmpty => self.empty(now),
            Event::ListenerHears => None,
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
        let sure_enough = polling.empty_in_a_row >= self.rules.threshold;
        (self.connected && long_enough && sure_enough).then(|| {
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

    /// The failure timeline of the design this machine comes from, step by step: an error on a wake, intermittent errors,
    /// the minute over with too few empty looks, and the exit at the fifth.
    #[test]
    fn the_failure_timeline_replayed() {
        let t0 = Instant::now();
        let mut mode = Mode::new(&options(AggressiveOn::Faults), true);
        assert_eq!(mode.on(t0, Event::LookFailed), Some(Change::Entered(Event::LookFailed)));
        assert_eq!(mode.on(t0 + ms(50), Event::LookFailed), None);
        assert_eq!(mode.on(t0 + ms(100), Event::LookEmpty), None);
        assert_eq!(mode.on(t0 + ms(150), Event::LookFailed), None);
        assert_eq!(mode.on(t0 + ms(200), Event::LookEmpty), None);
        assert_eq!(mode.on(t0 + ms(59_900), Event::LookEmpty), None);
        assert_eq!(mode.on(t0 + ms(60_000), Event::LookEmpty), None, "three in a row are not five");
        assert_eq!(mode.on(t0 + ms(60_150), Event::LookEmpty), None, "four are not five");
        assert_eq!(mode.on(t0 + ms(60_200), Event::LookEmpty), Some(Change::Left));
        assert_eq!(mode.poll_interval(), None);
    }

    /// A ring polls under `EveryWake` and does not under `Faults`.
    #[test]
    fn only_every_wake_polls_after_a_ring() {
        let now = Instant::now();
        for event in [Event::Rung, Event::TimerFired, Event::FallbackDue] {
            assert_eq!(Mode::new(&options(AggressiveOn::Faults), true).on(now, event), None);
            let mut every = Mode::new(&options(AggressiveOn::EveryWake), true);
            assert_eq!(every.on(now, event), Some(Change::Entered(event)));
            assert_eq!(every.poll_interval(), Some(ms(100)));
        }
    }

    /// Broadcast has no polling mode, whatever happens.
    #[test]
    fn broadcast_never_polls() {
        let broadcast = Options { strategy: crate::options::Strategy::Broadcast, ..options(AggressiveOn::EveryWake) };
        let mut mode = Mode::new(&broadcast, true);
        for event in [Event::Rung, Event::ListenerLost, Event::LookFailed, Event::FallbackFoundWork] {
            assert_eq!(mode.on(Instant::now(), event), None);
        }
        assert!(!mode.is_aggressive());
    }

    fn any_event() -> impl proptest::strategy::Strategy<Value = Event> {
        prop::sample::select(vec![
            Event::Rung,
            Event::TimerFired,
            Event::FallbackDue,
            Event::FallbackFoundWork,
            Event::ListenerLost,
            Event::ListenRefused,
            Event::ListenerHears,
            Event::LookLate,
            Event::LookFailed,
            Event::LookFound,
            Event::LookEmpty,
        ])
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Over any sequence of events, polling never ends before its time, before enough empty looks in a row, after
        /// anything but an empty look, or without a listener.
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
                    Event::ListenerHears => connected = true,
                    Event::ListenerLost | Event::ListenRefused => connected = false,
                    _ => {}
                }
                let fault = matches!(event, Event::ListenerLost | Event::ListenRefused | Event::LookLate
                    | Event::FallbackFoundWork);
                if fault { last_fault = now; }
                match event {
                    Event::LookEmpty => empties += 1,
                    Event::ListenerHears => {}
                    Event::Rung | Event::TimerFired | Event::FallbackDue if !every_wake => {}
                    _ => empties = 0,
                }
                let was = mode.is_aggressive();
                let change = mode.on(now, event);
                prop_assert_eq!(change.is_some(), was != mode.is_aggressive());
                if fault || event == Event::LookFailed { prop_assert!(mode.is_aggressive()); }
                if change == Some(Change::Left) {
                    prop_assert_eq!(event, Event::LookEmpty);
                    prop_assert!(connected);
                    prop_assert!(empties >= options.aggressive_exit_threshold);
                    prop_assert!(now - last_fault >= options.aggressive_poll_duration);
                }
            }
        }

        /// Whatever happened before, a system that hears and stays empty is out of polling after its duration and as many
        /// empty looks as asked for.
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
            mode.on(now, Event::ListenerHears);
            let end = now + options.aggressive_poll_duration
                + options.aggressive_poll_interval * (options.aggressive_exit_threshold + 1);
            while now < end {
                now += options.aggressive_poll_interval;
                mode.on(now, Event::LookEmpty);
            }
            prop_assert!(!mode.is_aggressive());
        }
    }
}
