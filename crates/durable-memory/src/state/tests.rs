//! The line of instances against the rule that it indexes: after any sequence of calls, a claim takes the instance that
//! a scan of all instances by the contract's own words finds.

use duroxide::providers::{ExecutionMetadata, SemverRange};
use proptest::collection::vec;
use proptest::prelude::*;
use semver::Version;

use super::*;
use crate::clock::Clock;
use crate::turn::Turn;

const INSTANCES: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Debug, Clone)]
enum Call {
    Send {
        to: usize,
        kind: usize,
        delay: u64,
    },
    /// With the newest pinned version that it takes, if any.
    Claim {
        newest: Option<u64>,
        millis: u64,
    },
    /// Pins the execution to a version.
    Commit {
        token: usize,
        pin: Option<u64>,
        named: bool,
    },
    Renew {
        token: usize,
        millis: u64,
    },
    Abandon {
        token: usize,
        delay: Option<u64>,
    },
    Delete {
        id: usize,
    },
    Pass {
        millis: u64,
    },
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        6 => (0..INSTANCES.len(), 0..3_usize, prop_oneof![2 => Just(0), 1 => 1..50_u64])
            .prop_map(|(to, kind, delay)| Call::Send { to, kind, delay }),
        6 => (proptest::option::of(0..3_u64), 1..50_u64).prop_map(|(newest, millis)| Call::Claim { newest, millis }),
        4 => (0..4_usize, proptest::option::of(0..3_u64), any::<bool>())
            .prop_map(|(token, pin, named)| Call::Commit { token, pin, named }),
        1 => (0..4_usize, 1..50_u64).prop_map(|(token, millis)| Call::Renew { token, millis }),
        2 => (0..4_usize, proptest::option::of(1..50_u64)).prop_map(|(token, delay)| Call::Abandon { token, delay }),
        1 => (0..INSTANCES.len()).prop_map(|id| Call::Delete { id }),
        4 => (1..40_u64).prop_map(|millis| Call::Pass { millis }),
    ]
}

fn message(instance: &str, kind: usize) -> WorkItem {
    let (instance, name, data) = (instance.to_owned(), String::new(), String::new());
    match kind {
        0 => WorkItem::ContinueAsNew {
            instance,
            orchestration: "o".to_owned(),
            input: data,
            version: None,
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: Vec::new(),
            initial_custom_status: None,
        },
        1 => WorkItem::ExternalRaised { instance, name, data },
        _ => WorkItem::QueueMessage { instance, name, data },
    }
}

fn turn(pin: Option<u64>, named: bool) -> Turn {
    let word = || named.then(|| "o".to_owned());
    let metadata = ExecutionMetadata {
        orchestration_name: word(),
        orchestration_version: word(),
        pinned_duroxide_version: pin.map(|major| Version::new(major, 0, 0)),
        ..ExecutionMetadata::default()
    };
    Turn { execution: 1, events: Vec::new(), work: Vec::new(), messages: Vec::new(), metadata, cancelled: Vec::new() }
}

/// What a claim should return now, by a scan of every instance.
fn scan(state: &State, now: Time, newest: Option<u64>) -> Option<Arc<str>> {
    let candidate = |(id, instance): (&Arc<str>, &Instance)| {
        let admitted = match (newest, instance.pin()) {
            (None, _) | (_, None) => true,
            (Some(newest), Some(pin)) => pin <= crate::instance::Pin::of(&Version::new(newest, 0, 0)),
        };
        let due = instance.inbox.due_by_scan(now, instance.identity().is_some())?;
        admitted.then(|| (due, Arc::clone(id)))
    };
    state.instances.iter().filter_map(candidate).min().map(|(_, id)| id)
}

proptest! {
    /// A claim takes exactly the instance that a scan of all would, after any calls and passing of time; and an empty
    /// claim knows when there will be something.
    #[test]
    fn a_claim_takes_what_a_scan_would(calls in vec(call(), 1..80)) {
        let clock = Clock::stopped();
        let mut state = State::default();
        let mut tokens: Vec<String> = Vec::new();
        for call in calls {
            let now = clock.now();
            let token = |index: usize| tokens.get(index).cloned().unwrap_or_default();
            match call {
                Call::Send { to, kind, delay } => {
                    let letter = OutgoingMessage::new(message(INSTANCES[to], kind)).unwrap();
                    state.enqueue(letter, now.after(Duration::from_millis(delay)));
                }
                Call::Claim { newest, millis } => {
                    let range = newest.map(|newest| SemverRange::new(Version::new(0, 0, 0), Version::new(newest, 0, 0)));
                    let pins = range.as_ref().map_or(Pins::All, Pins::Within);
                    let expected = scan(&state, now, newest);
                    match state.claim_turn(now, Duration::from_millis(millis), pins) {
                        PollResult::Claimed((item, token, _)) => {
                            prop_assert_eq!(Some(&*item.instance), expected.as_deref());
                            prop_assert!(!item.messages.is_empty());
                            tokens.insert(0, token);
                        }
                        PollResult::Empty(next) => {
                            prop_assert_eq!(expected, None);
                            prop_assert!(next.is_none_or(|next| next > now));
                            let later = now.after(Duration::from_secs(1));
                            prop_assert!(next.is_some() || scan(&state, later, newest).is_none(), "would sleep too long");
                        }
                    }
                }
                Call::Commit { token: index, pin, named } => drop(state.commit_turn(now, &token(index), turn(pin, named))),
                Call::Renew { token: index, millis } => {
                    drop(state.renew_turn(now, &token(index), Duration::from_millis(millis)));
                }
                Call::Abandon { token: index, delay } => {
                    drop(state.abandon_turn(now, &token(index), delay.map(Duration::from_millis), true));
                }
                Call::Delete { id } => drop(state.delete(&[INSTANCES[id].to_owned()], true)),
                Call::Pass { millis } => clock.advance(Duration::from_millis(millis)),
            }
            let held = state.instances.values().filter(|instance| instance.inbox.lease.is_some()).count();
            prop_assert_eq!(state.turns.len(), held, "a token for each lease");
            prop_assert!(state.instances.values().all(|instance| !instance.is_blank()), "what is blank is forgotten");
        }
    }
}
