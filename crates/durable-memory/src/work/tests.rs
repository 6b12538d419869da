//! The queues against the rule that they index: after any sequence of calls, the head of the open queues is what a scan
//! of all items by the contract's own words finds.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::clock::Clock;

const OWNERS: [&str; 2] = ["one", "two"];
const TAGS: [Option<&str>; 3] = [None, Some("red"), Some("blue")];
const SESSIONS: [Option<&str>; 3] = [None, Some("s"), Some("t")];

#[derive(Debug, Clone)]
enum Call {
    Put {
        tag: usize,
        session: usize,
    },
    /// Items of sessions are asked for by the owner, if one is given.
    Claim {
        tags: usize,
        owner: Option<usize>,
        millis: u64,
    },
    Complete {
        token: usize,
    },
    Renew {
        token: usize,
        millis: u64,
    },
    Abandon {
        token: usize,
        delay: Option<u64>,
    },
    RenewSessions {
        owner: usize,
        millis: u64,
    },
    Sweep,
    Cancel {
        id: u64,
    },
    Pass {
        millis: u64,
    },
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        4 => (0..TAGS.len(), 0..SESSIONS.len()).prop_map(|(tag, session)| Call::Put { tag, session }),
        6 => (0..5_usize, proptest::option::of(0..OWNERS.len()), 1..50_u64)
            .prop_map(|(tags, owner, millis)| Call::Claim { tags, owner, millis }),
        2 => (0..8_usize).prop_map(|token| Call::Complete { token }),
        1 => (0..8_usize, 1..50_u64).prop_map(|(token, millis)| Call::Renew { token, millis }),
        2 => (0..8_usize, proptest::option::of(1..50_u64)).prop_map(|(token, delay)| Call::Abandon { token, delay }),
        1 => (0..OWNERS.len(), 1..50_u64).prop_map(|(owner, millis)| Call::RenewSessions { owner, millis }),
        1 => Just(Call::Sweep),
        1 => (0..20_u64).prop_map(|id| Call::Cancel { id }),
        4 => (1..40_u64).prop_map(|millis| Call::Pass { millis }),
    ]
}

fn filter(number: usize) -> TagFilter {
    match number {
        0 => TagFilter::DefaultOnly,
        1 => TagFilter::tags(["red"]),
        2 => TagFilter::default_and(["red", "blue"]),
        3 => TagFilter::Any,
        _ => TagFilter::None,
    }
}

/// What a claim should return now, by a scan of every item.
fn scan(work: &Work, now: Time, request: &ClaimRequest<'_>) -> Option<u64> {
    let open = |row: &Row| {
        let owner = row.activity.session.as_ref().map(|session| work.sessions.owner_at(session, now));
        let routed = match (owner, request.session) {
            (None, _) | (Some(None), Some(_)) => true,
            (Some(Some(owner)), Some(config)) => owner == config.owner_id,
            (Some(_), None) => false,
        };
        routed && request.tags.matches(row.activity.tag.as_deref())
    };
    let due = work.rows.iter().filter(|(_, row)| open(row)).map(|(rank, row)| row.due(*rank));
    due.filter(|(due, _)| *due <= now).min().map(|(_, rank)| rank)
}

fn item(id: u64, tag: Option<&str>, session: Option<&str>) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: "i".to_owned(),
        execution_id: 1,
        id,
        name: String::new(),
        input: String::new(),
        session_id: session.map(str::to_owned),
        tag: tag.map(str::to_owned),
    }
}

proptest! {
    /// A claim takes exactly what a scan of all items by the contract's rule would, after any calls and passing of
    /// time; and an empty claim knows when there will be something.
    #[test]
    fn a_claim_takes_what_a_scan_would(calls in vec(call(), 1..80)) {
        let clock = Clock::stopped();
        let mut work = Work::default();
        let mut tokens: Vec<String> = Vec::new();
        for (number, call) in calls.into_iter().enumerate() {
            let (now, number) = (clock.now(), number as u64);
            let token = |index: usize| tokens.get(index).cloned().unwrap_or_default();
            match call {
                Call::Put { tag, session } => {
                    let activity = Activity::new(item(number % 20, TAGS[tag], SESSIONS[session])).unwrap();
                    work.put((now, number), activity);
                }
                Call::Claim { tags, owner, millis } => {
                    let lock = Duration::from_millis(millis);
                    let config = owner.map(|owner| SessionFetchConfig { owner_id: OWNERS[owner].into(), lock_timeout: lock });
                    let request = ClaimRequest { tags: &filter(tags), session: config.as_ref() };
                    let expected = scan(&work, now, &request);
                    match work.claim(now, lock, &request, || format!("t{number}")) {
                        PollResult::Claimed((_, token, _)) => {
                            prop_assert_eq!(Some(work.tokens[&token]), expected);
                            tokens.insert(0, token);
                        }
                        PollResult::Empty(next) => {
                            prop_assert_eq!(expected, None);
                            prop_assert!(next.is_none_or(|next| next > now));
                            let later = now.after(Duration::from_secs(1));
                            prop_assert!(next.is_some() || scan(&work, later, &request).is_none(), "would sleep too long");
                        }
                    }
                }
                Call::Complete { token: index } => drop(work.complete(now, &token(index))),
                Call::Renew { token: index, millis } => drop(work.renew(now, &token(index), Duration::from_millis(millis))),
                Call::Abandon { token: index, delay } => {
                    drop(work.abandon(now, &token(index), delay.map(Duration::from_millis), true));
                }
                Call::RenewSessions { owner, millis } => {
                    let (hold, idle) = (Duration::from_millis(millis), Duration::from_millis(30));
                    work.renew_sessions(&[OWNERS[owner]], now, hold, idle);
                }
                Call::Sweep => drop(work.sweep_sessions(now)),
                Call::Cancel { id } => work.cancel("i", 1, id),
                Call::Pass { millis } => clock.advance(Duration::from_millis(millis)),
            }
            let queued: usize = work.queues.values().map(BTreeSet::len).sum();
            prop_assert_eq!(queued, work.rows.len(), "every item is in one queue");
            prop_assert_eq!(work.identities.len(), work.rows.len());
            prop_assert_eq!(work.tokens.len(), work.rows.values().filter(|row| row.lease.is_some()).count());
        }
    }
}
