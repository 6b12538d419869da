//! What a group does, case by case, without a database; `group_interleavings.rs` has every interleaving.

use super::*;
use proptest::prelude::*;

pub(super) const RULES: Rules =
    Rules { max_sleep: None, grace: Duration::ZERO, poll_interval: Duration::from_millis(100) };
pub(super) const CONNECTED: ListenerEpoch = Some(1);

pub(super) fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn waiting(group: &mut Group<()>, id: WaiterId, now: Instant) {
    group.add_waiter(id, NewWaiter { request: (), want: 1, visibility_key: None, waits: true }, now, CONNECTED, &RULES);
}

fn waiting_with_key(group: &mut Group<()>, id: WaiterId, visibility_key: &str, now: Instant) {
    group.add_waiter(
        id,
        NewWaiter { request: (), want: 1, visibility_key: Some(visibility_key.into()), waits: true },
        now,
        CONNECTED,
        &RULES,
    );
}

fn empty(next_due: Option<Duration>) -> PollEnd {
    PollEnd::Completed { found: false, skipped: next_due == Some(Duration::ZERO), next_due, due_again: None }
}

/// A poll that had items for all its waiters.
fn served(next_due: Option<Duration>, due_again: Option<Duration>) -> PollEnd {
    PollEnd::Completed { found: true, skipped: false, next_due, due_again }
}

/// A group with one waiter that has polled and sleeps.
fn asleep(next_due: Option<Duration>) -> (Group<()>, Instant) {
    let now = Instant::now();
    let mut group = Group::new(now);
    waiting(&mut group, 1, now);
    assert_eq!(group.begin_poll(now, CONNECTED).expect("a new waiter polls").reason, Reason::Arrived);
    group.end_poll(empty(next_due), now, &RULES);
    assert!(group.is_asleep());
    (group, now)
}

/// A wake-up after the query and before the sleep: the running poll cannot have seen its work, so another one follows.
#[test]
fn a_wake_up_in_the_gap_is_not_lost() {
    let now = Instant::now();
    let mut group = Group::new(now);
    waiting(&mut group, 1, now);
    group.begin_poll(now, CONNECTED);
    group.wake_up(Reason::Local, now);
    assert!(group.begin_poll(now, CONNECTED).is_none(), "one poll at a time");
    group.end_poll(empty(None), now, &RULES);
    assert!(group.wants_poll());
    assert_eq!(group.begin_poll(now, CONNECTED).map(|poll| poll.reason), Some(Reason::Local));
}

/// A waiter that joins a group known to be empty sleeps without a poll; a claim that does not wait always polls.
#[test]
fn joining_a_group_known_to_be_empty_costs_no_poll() {
    let (mut group, now) = asleep(Some(ms(500)));
    waiting(&mut group, 2, now);
    assert!(group.is_asleep());
    assert_eq!(group.wake_at(&RULES), Some(now + ms(500)));
    group.remove_waiter(1, now);
    group.remove_waiter(2, now);
    waiting(&mut group, 3, now + ms(499));
    assert!(group.is_asleep(), "what is known outlives the waiters");
    group.add_waiter(4, NewWaiter { request: (), want: 1, visibility_key: None, waits: false }, now, CONNECTED, &RULES);
    assert_eq!(group.begin_poll(now, CONNECTED).map(|poll| poll.waiters), Some(vec![3, 4]));
    assert_eq!(group.end_poll(empty(None), now, &RULES).len(), 1, "the claim that does not wait is dismissed");
}

/// A group is no longer known to be empty at the next due time, after a wake-up without waiters, and when the
/// listener's connection changes.
#[test]
fn known_empty_ends_with_its_conditions() {
    let polls = |group: &mut Group<()>, now, epoch| {
        group.remove_waiter(1, now);
        group.add_waiter(9, NewWaiter { request: (), want: 1, visibility_key: None, waits: true }, now, epoch, &RULES);
        group.wants_poll()
    };
    let (mut group, now) = asleep(Some(ms(500)));
    assert!(polls(&mut group, now + ms(500), CONNECTED), "due");
    let (mut group, now) = asleep(None);
    group.remove_waiter(1, now);
    group.wake_up(Reason::Notified, now);
    assert!(polls(&mut group, now, CONNECTED), "woken while it had no waiter");
    let (mut group, now) = asleep(None);
    assert!(polls(&mut group, now + ms(200), Some(2)), "another connection");
    let (mut group, now) = asleep(None);
    assert!(polls(&mut group, now + ms(200), None), "no listener, and the poll is old");
    let (mut group, now) = asleep(None);
    assert!(!polls(&mut group, now + ms(50), None), "no listener, but the poll is recent");
}

/// Items of a visibility key are known to be absent for the keys that the polls were made with, and for all of them
/// together once each has polled.
#[test]
fn known_empty_covers_the_visibility_keys_of_its_polls() {
    let (mut group, now) = asleep(None);
    waiting_with_key(&mut group, 2, "owner", now);
    assert_eq!(group.begin_poll(now, CONNECTED).map(|poll| poll.waiters), Some(vec![1, 2]));
    group.end_poll(empty(None), now, &RULES);
    group.remove_waiter(2, now);
    waiting_with_key(&mut group, 3, "owner", now);
    assert!(group.is_asleep(), "polled for before");
    waiting_with_key(&mut group, 4, "another", now);
    group.remove_waiter(3, now);
    assert!(group.begin_poll(now, CONNECTED).is_some(), "not polled for before");
    group.end_poll(empty(None), now, &RULES);
    waiting_with_key(&mut group, 5, "owner", now);
    assert!(group.is_asleep(), "still known from before");
    group.wake_up(Reason::Local, now);
    group.begin_poll(now, CONNECTED);
    group.end_poll(empty(None), now, &RULES);
    group.remove_waiter(4, now);
    waiting_with_key(&mut group, 6, "another", now);
    assert!(group.is_asleep(), "it took part in the poll after the wake-up");
    waiting_with_key(&mut group, 7, "third", now);
    assert!(group.wants_poll());
}

/// A poll that served all its waiters also says what is left: nothing, and the next waiter sleeps at once; or more, and
/// the remaining waiters are polled for at once.
#[test]
fn a_poll_that_serves_all_waiters_says_what_is_left() {
    let (mut group, now) = asleep(None);
    group.wake_up(Reason::Local, now);
    group.begin_poll(now, CONNECTED);
    group.remove_waiter(1, now);
    let lease = Some(ms(300));
    group.end_poll(served(Some(ms(500)), lease), now, &RULES);
    waiting(&mut group, 2, now);
    assert!(group.is_asleep());
    assert_eq!(group.wake_at(&RULES), Some(now + ms(300)), "a lease may end");
    group.wake_up(Reason::Local, now);
    group.begin_poll(now, CONNECTED);
    waiting(&mut group, 3, now);
    group.remove_waiter(2, now);
    group.end_poll(served(Some(Duration::ZERO), None), now, &RULES);
    assert_eq!(group.begin_poll(now, CONNECTED).map(|poll| poll.reason), Some(Reason::More));
}

/// A poll that skipped a locked row is repeated after 10 ms, doubling up to a second, until it skips nothing.
#[test]
fn polls_that_skipped_a_row_are_repeated() {
    let (mut group, mut now) = asleep(None);
    group.wake_up(Reason::Local, now);
    for pause in [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000] {
        assert!(group.begin_poll(now, CONNECTED).is_some());
        group.end_poll(empty(Some(Duration::ZERO)), now, &RULES);
        assert_eq!(group.wake_at(&RULES), Some(now + ms(pause)));
        now += ms(pause);
        group.timer_fired(now);
    }
    assert_eq!(group.begin_poll(now, CONNECTED).map(|poll| poll.reason), Some(Reason::Skipped));
    group.end_poll(empty(None), now, &RULES);
    assert_eq!(group.wake_at(&RULES), None);
}

/// A recheck repeats a running poll and forgets what is known without waiters; sleeping groups are left to the sweep.
#[test]
fn a_recheck_concerns_groups_that_no_sweep_reaches() {
    let (mut group, now) = asleep(None);
    group.recheck(Reason::Trailing, now);
    assert!(group.is_asleep());
    group.wake_up(Reason::Notified, now);
    group.begin_poll(now, CONNECTED);
    group.recheck(Reason::Trailing, now);
    group.end_poll(empty(None), now, &RULES);
    assert_eq!(group.begin_poll(now, CONNECTED).map(|poll| poll.reason), Some(Reason::Trailing));
    group.end_poll(empty(None), now, &RULES);
    group.remove_waiter(1, now);
    group.recheck(Reason::Trailing, now);
    waiting(&mut group, 2, now);
    assert!(group.wants_poll(), "no longer known to be empty");
}

/// A due time announced before a poll for other waiters still holds for those the poll was not made for.
#[test]
fn a_due_hint_outlives_a_poll_for_other_waiters() {
    let (mut group, now) = asleep(None);
    waiting_with_key(&mut group, 2, "x", now);
    group.begin_poll(now, CONNECTED);
    group.end_poll(empty(None), now, &RULES);
    group.remove_waiter(2, now);
    group.due_at(now + ms(500));
    waiting_with_key(&mut group, 3, "z", now);
    assert!(group.begin_poll(now, CONNECTED).is_some());
    group.end_poll(empty(None), now, &RULES);
    waiting_with_key(&mut group, 4, "x", now);
    assert!(group.is_asleep());
    assert_eq!(group.wake_at(&RULES), Some(now + ms(500)));
}

/// A poll for new waiters that covers every known visibility key replaces what was known: the end of an earlier lease,
/// whose item may have been completed, causes no poll any more.
#[test]
fn a_poll_for_all_keys_replaces_the_end_of_leases() {
    let (mut group, now) = asleep(None);
    waiting_with_key(&mut group, 2, "x", now);
    group.begin_poll(now, CONNECTED);
    group.remove_waiter(2, now);
    group.end_poll(served(None, Some(ms(300))), now, &RULES);
    assert_eq!(group.wake_at(&RULES), Some(now + ms(300)));
    waiting_with_key(&mut group, 3, "y", now);
    group.begin_poll(now, CONNECTED);
    group.end_poll(empty(None), now, &RULES);
    assert_eq!(group.wake_at(&RULES), Some(now + ms(300)), "x was not polled for");
    waiting_with_key(&mut group, 4, "x", now);
    waiting_with_key(&mut group, 5, "z", now);
    group.begin_poll(now, CONNECTED);
    group.end_poll(empty(None), now, &RULES);
    assert_eq!(group.wake_at(&RULES), None, "x, y and z were polled for");
}

/// A failed poll is repeated after a pause; new waiters wait for that instead of polling as well, and a deadline that
/// passes reports the failure.
#[test]
fn a_failed_poll_is_repeated_and_its_failure_reported() {
    let (mut group, now) = asleep(None);
    group.wake_up(Reason::Local, now);
    group.begin_poll(now, CONNECTED);
    let failure = || Arc::new(crate::error::broken(std::io::ErrorKind::Other, "gone"));
    group.end_poll(PollEnd::Failed(failure()), now, &RULES);
    waiting(&mut group, 2, now);
    assert!(!group.wants_poll());
    assert_eq!(group.wake_at(&RULES), Some(now + RULES.poll_interval));
    assert!(group.expire(2, now).is_some_and(|dismissed| dismissed.failure.is_some()));
    let mut now = now;
    for pause in [100, 200, 400, 800, 1_000, 1_000] {
        assert_eq!(group.wake_at(&RULES), Some(now + ms(pause)));
        now += ms(pause);
        group.timer_fired(now);
        assert_eq!(group.begin_poll(now, CONNECTED).map(|poll| poll.reason), Some(Reason::Retry));
        group.end_poll(PollEnd::Failed(failure()), now, &RULES);
    }
    group.timer_fired(now + ms(1_000));
    group.begin_poll(now + ms(1_000), CONNECTED);
    group.end_poll(empty(None), now, &RULES);
    assert!(group.expire(1, now).is_some_and(|dismissed| dismissed.failure.is_none()));
}

/// A deadline during a poll waits for the poll; the waiter is dismissed with its result.
#[test]
fn a_deadline_waits_for_the_running_poll() {
    let (mut group, now) = asleep(None);
    group.wake_up(Reason::Local, now);
    group.begin_poll(now, CONNECTED);
    waiting(&mut group, 2, now);
    assert!(group.expire(1, now).is_none());
    assert!(group.expire(2, now).is_none(), "it still needs a poll");
    assert_eq!(group.end_poll(empty(None), now, &RULES).len(), 1);
    assert_eq!(group.begin_poll(now, CONNECTED).map(|poll| poll.waiters), Some(vec![2]));
    assert_eq!(group.end_poll(empty(None), now, &RULES).len(), 1);
}

/// With more waiters than fit into one poll, a wake-up is followed by polls for all of them: an item that only the last
/// can see is found.
#[test]
fn a_wake_up_reaches_waiters_beyond_one_poll() {
    let now = Instant::now();
    let mut group = Group::new(now);
    let count = WAITERS_PER_POLL as u64 * 2 + 1;
    for id in 1..=count {
        waiting_with_key(&mut group, id, &format!("owner {id}"), now);
    }
    let polled_for = |group: &mut Group<()>| {
        let mut seen = HashSet::new();
        while let Some(poll) = group.begin_poll(now, CONNECTED) {
            assert!(poll.waiters.len() <= WAITERS_PER_POLL);
            seen.extend(poll.waiters);
            group.end_poll(empty(None), now, &RULES);
        }
        seen.len() as u64
    };
    assert_eq!(polled_for(&mut group), count, "new waiters");
    group.wake_up(Reason::Local, now);
    assert_eq!(polled_for(&mut group), count, "after a wake-up");
    assert!(group.is_asleep());
}

/// A write batch claims only for a group that is asleep; a wake-up during its statement is remembered; and without a
/// result the group makes another poll, for which its waiters stay.
#[test]
fn only_a_sleeping_group_is_attached() {
    let (mut group, now) = asleep(None);
    assert_eq!(group.begin_attached_poll(now, CONNECTED).map(|poll| poll.reason), Some(Reason::Attached));
    assert!(group.begin_attached_poll(now, CONNECTED).is_none(), "one poll at a time");
    group.wake_up(Reason::Notified, now);
    group.end_poll(empty(None), now, &RULES);
    assert!(group.begin_attached_poll(now, CONNECTED).is_none(), "it is about to poll");
    group.begin_poll(now, CONNECTED);
    group.end_poll(empty(None), now, &RULES);

    group.begin_attached_poll(now, CONNECTED);
    assert!(group.expire(1, now).is_none(), "it waits for the poll");
    group.abandon_poll(now);
    assert_eq!(group.begin_poll(now, CONNECTED).map(|poll| poll.waiters), Some(vec![1]));
    assert_eq!(group.end_poll(empty(None), now, &RULES).len(), 1);
    assert!(group.begin_attached_poll(now, CONNECTED).is_none(), "nothing waits");
}

/// A write batch claims for the first of many waiters. If it leaves nothing due, the others go on sleeping; if it leaves
/// more, they poll. Waiters that see different items are not so many that one poll could leave some of them out.
#[test]
fn an_attached_poll_is_for_the_first_waiters() {
    let (mut group, now) = asleep(None);
    let count = ATTACHED_WAITERS as u64 + 10;
    (2..=count).for_each(|id| waiting(&mut group, id, now));
    let attached = group.begin_attached_poll(now, CONNECTED).expect("it sleeps");
    assert_eq!(attached.waiters, Vec::from_iter(1..=ATTACHED_WAITERS as u64));
    group.remove_waiter(1, now);
    group.end_poll(served(None, Some(ms(100))), now, &RULES);
    assert!(group.is_asleep());
    assert_eq!(group.wake_at(&RULES), Some(now + ms(100)), "the lease of the one item");

    group.begin_attached_poll(now, CONNECTED).expect("it sleeps");
    group.end_poll(served(Some(Duration::ZERO), None), now, &RULES);
    assert_eq!(group.begin_poll(now, CONNECTED).map(|poll| poll.waiters.len() as u64), Some(count - 1));
    group.end_poll(empty(None), now, &RULES);

    waiting_with_key(&mut group, count + 1, "owner", now);
    group.begin_poll(now, CONNECTED).expect("it sees other items");
    group.end_poll(empty(None), now, &RULES);
    assert!(group.is_asleep() && group.begin_attached_poll(now, CONNECTED).is_none());
    group.remove_waiter(count + 1, now);
    assert!(group.begin_attached_poll(now, CONNECTED).is_some());
}

/// The grace period fires a timer early, once; then its own time counts.
#[test]
fn the_grace_applies_once() {
    let rules = Rules { grace: ms(100), ..RULES };
    let (mut group, now) = asleep(Some(ms(500)));
    assert_eq!(group.wake_at(&rules), Some(now + ms(400)));
    group.timer_fired(now + ms(400));
    group.begin_poll(now + ms(400), CONNECTED);
    group.end_poll(empty(Some(ms(100))), now + ms(400), &rules);
    assert_eq!(group.wake_at(&rules), Some(now + ms(500)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Without wake-ups and due times, waiters that come and go cause no poll once the group has polled.
    #[test]
    fn an_idle_group_never_polls(arrivals in prop::collection::vec((1u64..5, 1u64..500), 1..50)) {
        let (mut group, mut now) = asleep(None);
        let mut waiters = vec![1];
        let mut last = 1;
        for (joining, pass) in arrivals {
            for _ in 0..joining {
                last += 1;
                waiters.push(last);
                waiting(&mut group, last, now);
            }
            prop_assert!(group.is_asleep());
            now += ms(pass);
            for waiter in waiters.drain(..) {
                prop_assert!(group.expire(waiter, now).is_some());
            }
            prop_assert!(!group.wants_poll());
        }
    }
}
