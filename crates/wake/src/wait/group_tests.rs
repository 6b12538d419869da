//! Every interleaving of rings, looks, arrivals and departures, without a database.

use super::*;
use proptest::prelude::*;

const RULES: Rules = Rules { cap: None, grace: Duration::ZERO, poll_interval: Duration::from_millis(100) };
const HEARS: ListenerEpoch = Some(1);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn waiting(group: &mut Group<()>, id: WaiterId, now: Instant) {
    group.enroll(id, NewWaiter { waiter: (), want: 1, visibility_key: None, waits: true }, now, HEARS, &RULES);
}

fn sighted(group: &mut Group<()>, id: WaiterId, visibility_key: &str, now: Instant) {
    group.enroll(
        id,
        NewWaiter { waiter: (), want: 1, visibility_key: Some(visibility_key.into()), waits: true },
        now,
        HEARS,
        &RULES,
    );
}

fn empty(next_due: Option<Duration>) -> Answer {
    Answer::Ran { found: false, skipped: next_due == Some(Duration::ZERO), next_due, due_again: None }
}

/// The answer of a look that had something for everybody.
fn served(next_due: Option<Duration>, due_again: Option<Duration>) -> Answer {
    Answer::Ran { found: true, skipped: false, next_due, due_again }
}

/// A group with one waiter that has looked and sleeps.
fn asleep(next_due: Option<Duration>) -> (Group<()>, Instant) {
    let now = Instant::now();
    let mut group = Group::new(now);
    waiting(&mut group, 1, now);
    assert_eq!(group.begin(now, HEARS).expect("a newcomer looks").reason, Reason::Arrived);
    group.end(empty(next_due), now, &RULES);
    assert!(group.is_asleep());
    (group, now)
}

/// A ring after the query and before the sleep: the look that was in the air knows nothing of it, so there is another.
#[test]
fn a_ring_in_the_gap_is_not_lost() {
    let now = Instant::now();
    let mut group = Group::new(now);
    waiting(&mut group, 1, now);
    group.begin(now, HEARS);
    group.wake_up(Reason::Rung, now);
    assert!(group.begin(now, HEARS).is_none(), "one look at a time");
    group.end(empty(None), now, &RULES);
    assert!(group.is_eager());
    assert_eq!(group.begin(now, HEARS).map(|poll| poll.reason), Some(Reason::Rung));
}

/// Who joins a group that knows it is empty sleeps without a look; who does not wait always looks.
#[test]
fn a_group_known_to_be_empty_is_joined_without_a_look() {
    let (mut group, now) = asleep(Some(ms(500)));
    waiting(&mut group, 2, now);
    assert!(group.is_asleep());
    assert_eq!(group.wake_at(&RULES), Some(now + ms(500)));
    group.leave(1, now);
    group.leave(2, now);
    waiting(&mut group, 3, now + ms(499));
    assert!(group.is_asleep(), "knowledge outlives the waiters");
    group.enroll(4, NewWaiter { waiter: (), want: 1, visibility_key: None, waits: false }, now, HEARS, &RULES);
    assert_eq!(group.begin(now, HEARS).map(|poll| poll.waiters), Some(vec![3, 4]));
    assert_eq!(group.end(empty(None), now, &RULES).len(), 1, "who does not wait is dismissed");
}

/// Knowledge ends at the next due time, with a ring nobody waited for, and with the listener's connection.
#[test]
fn knowledge_ends_with_what_it_rests_on() {
    let polls = |group: &mut Group<()>, now, hearing| {
        group.leave(1, now);
        group.enroll(9, NewWaiter { waiter: (), want: 1, visibility_key: None, waits: true }, now, hearing, &RULES);
        group.is_eager()
    };
    let (mut group, now) = asleep(Some(ms(500)));
    assert!(polls(&mut group, now + ms(500), HEARS), "due");
    let (mut group, now) = asleep(None);
    group.leave(1, now);
    group.wake_up(Reason::Notified, now);
    assert!(polls(&mut group, now, HEARS), "rung while nobody waited");
    let (mut group, now) = asleep(None);
    assert!(polls(&mut group, now + ms(200), Some(2)), "another connection");
    let (mut group, now) = asleep(None);
    assert!(polls(&mut group, now + ms(200), None), "no listener, and no poll since");
    let (mut group, now) = asleep(None);
    assert!(!polls(&mut group, now + ms(50), None), "no listener, but the poll is fresh");
}

/// What only an owner may have is known to be absent for those owners the group looked for, and for all of them together
/// once each has looked.
#[test]
fn knowledge_is_for_those_it_was_gathered_for() {
    let (mut group, now) = asleep(None);
    sighted(&mut group, 2, "owner", now);
    assert_eq!(group.begin(now, HEARS).map(|poll| poll.waiters), Some(vec![1, 2]));
    group.end(empty(None), now, &RULES);
    group.leave(2, now);
    sighted(&mut group, 3, "owner", now);
    assert!(group.is_asleep(), "looked for before");
    sighted(&mut group, 4, "another", now);
    group.leave(3, now);
    assert!(group.begin(now, HEARS).is_some(), "not looked for before");
    group.end(empty(None), now, &RULES);
    sighted(&mut group, 5, "owner", now);
    assert!(group.is_asleep(), "what was known before still is");
    group.wake_up(Reason::Rung, now);
    group.begin(now, HEARS);
    group.end(empty(None), now, &RULES);
    group.leave(4, now);
    sighted(&mut group, 6, "another", now);
    assert!(group.is_asleep(), "it took part in the look after the ring");
    sighted(&mut group, 7, "third", now);
    assert!(group.is_eager());
}

/// A look that served everybody also says what is left: nothing, and who comes back sleeps at once; or more, and who still
/// waits is looked for at once.
#[test]
fn a_look_that_serves_everybody_still_teaches() {
    let (mut group, now) = asleep(None);
    group.wake_up(Reason::Rung, now);
    group.begin(now, HEARS);
    group.leave(1, now);
    let lease = Some(ms(300));
    group.end(served(Some(ms(500)), lease), now, &RULES);
    waiting(&mut group, 2, now);
    assert!(group.is_asleep());
    assert_eq!(group.wake_at(&RULES), Some(now + ms(300)), "what was taken may come back");
    group.wake_up(Reason::Rung, now);
    group.begin(now, HEARS);
    waiting(&mut group, 3, now);
    group.leave(2, now);
    group.end(served(Some(Duration::ZERO), None), now, &RULES);
    assert_eq!(group.begin(now, HEARS).map(|poll| poll.reason), Some(Reason::More));
}

/// A look that skipped a locked row is repeated after 10 ms, doubling to a second, until it skips nothing.
#[test]
fn skipped_rows_are_looked_at_again() {
    let (mut group, mut now) = asleep(None);
    group.wake_up(Reason::Rung, now);
    for pause in [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000] {
        assert!(group.begin(now, HEARS).is_some());
        group.end(empty(Some(Duration::ZERO)), now, &RULES);
        assert_eq!(group.wake_at(&RULES), Some(now + ms(pause)));
        now += ms(pause);
        group.wake(now);
    }
    assert_eq!(group.begin(now, HEARS).map(|poll| poll.reason), Some(Reason::Skipped));
    group.end(empty(None), now, &RULES);
    assert_eq!(group.wake_at(&RULES), None);
}

/// Doubt reaches who looks just now and what is known without waiters; who sleeps is asked for by a sweep.
#[test]
fn doubt_is_for_those_no_sweep_reaches() {
    let (mut group, now) = asleep(None);
    group.doubt(Reason::Trailing, now);
    assert!(group.is_asleep());
    group.wake_up(Reason::Notified, now);
    group.begin(now, HEARS);
    group.doubt(Reason::Trailing, now);
    group.end(empty(None), now, &RULES);
    assert_eq!(group.begin(now, HEARS).map(|poll| poll.reason), Some(Reason::Trailing));
    group.end(empty(None), now, &RULES);
    group.leave(1, now);
    group.doubt(Reason::Trailing, now);
    waiting(&mut group, 2, now);
    assert!(group.is_eager(), "knows nothing any more");
}

/// A due time heard of while others look is not forgotten by those the look was not for.
#[test]
fn a_due_hint_outlives_a_look_for_others() {
    let (mut group, now) = asleep(None);
    sighted(&mut group, 2, "x", now);
    group.begin(now, HEARS);
    group.end(empty(None), now, &RULES);
    group.leave(2, now);
    group.due(now + ms(500));
    sighted(&mut group, 3, "z", now);
    assert!(group.begin(now, HEARS).is_some());
    group.end(empty(None), now, &RULES);
    sighted(&mut group, 4, "x", now);
    assert!(group.is_asleep());
    assert_eq!(group.wake_at(&RULES), Some(now + ms(500)));
}

/// A look for newcomers that is for everybody the group knows something for replaces what it knew: what was taken and has been ended meanwhile is not
/// looked for when its lease would have.
#[test]
fn a_look_for_everybody_outdates_the_end_of_leases() {
    let (mut group, now) = asleep(None);
    sighted(&mut group, 2, "x", now);
    group.begin(now, HEARS);
    group.leave(2, now);
    group.end(served(None, Some(ms(300))), now, &RULES);
    assert_eq!(group.wake_at(&RULES), Some(now + ms(300)));
    sighted(&mut group, 3, "y", now);
    group.begin(now, HEARS);
    group.end(empty(None), now, &RULES);
    assert_eq!(group.wake_at(&RULES), Some(now + ms(300)), "x was not asked for");
    sighted(&mut group, 4, "x", now);
    sighted(&mut group, 5, "z", now);
    group.begin(now, HEARS);
    group.end(empty(None), now, &RULES);
    assert_eq!(group.wake_at(&RULES), None, "x, y and z were");
}

/// A failed look is repeated after a pause; newcomers meanwhile wait for that instead of asking as well, and a deadline
/// that passes says what failed.
#[test]
fn a_failed_look_is_repeated_and_its_failure_told() {
    let (mut group, now) = asleep(None);
    group.wake_up(Reason::Rung, now);
    group.begin(now, HEARS);
    let failure = || Arc::new(crate::error::broken(std::io::ErrorKind::Other, "gone"));
    group.end(Answer::Failed(failure()), now, &RULES);
    waiting(&mut group, 2, now);
    assert!(!group.is_eager());
    assert_eq!(group.wake_at(&RULES), Some(now + RULES.poll_interval));
    assert!(group.expire(2, now).is_some_and(|dismissed| dismissed.failure.is_some()));
    let mut now = now;
    for pause in [100, 200, 400, 800, 1_000, 1_000] {
        assert_eq!(group.wake_at(&RULES), Some(now + ms(pause)));
        now += ms(pause);
        group.wake(now);
        assert_eq!(group.begin(now, HEARS).map(|poll| poll.reason), Some(Reason::Retry));
        group.end(Answer::Failed(failure()), now, &RULES);
    }
    group.wake(now + ms(1_000));
    group.begin(now + ms(1_000), HEARS);
    group.end(empty(None), now, &RULES);
    assert!(group.expire(1, now).is_some_and(|dismissed| dismissed.failure.is_none()));
}

/// A deadline during a look waits for the look; the seat is dismissed with it.
#[test]
fn a_deadline_waits_for_the_look_in_the_air() {
    let (mut group, now) = asleep(None);
    group.wake_up(Reason::Rung, now);
    group.begin(now, HEARS);
    waiting(&mut group, 2, now);
    assert!(group.expire(1, now).is_none());
    assert!(group.expire(2, now).is_none(), "owed a look");
    assert_eq!(group.end(empty(None), now, &RULES).len(), 1);
    assert_eq!(group.begin(now, HEARS).map(|poll| poll.waiters), Some(vec![2]));
    assert_eq!(group.end(empty(None), now, &RULES).len(), 1);
}

/// With more waiters than one look takes, a ring is followed by looks for all of them: what only the last may have is found.
#[test]
fn a_ring_reaches_waiters_beyond_one_look() {
    let now = Instant::now();
    let mut group = Group::new(now);
    let count = WAITERS_PER_POLL as u64 * 2 + 1;
    for id in 1..=count {
        sighted(&mut group, id, &format!("owner {id}"), now);
    }
    let looked_for = |group: &mut Group<()>| {
        let mut seen = HashSet::new();
        while let Some(poll) = group.begin(now, HEARS) {
            assert!(poll.waiters.len() <= WAITERS_PER_POLL);
            seen.extend(poll.waiters);
            group.end(empty(None), now, &RULES);
        }
        seen.len() as u64
    };
    assert_eq!(looked_for(&mut group), count, "newcomers");
    group.wake_up(Reason::Rung, now);
    assert_eq!(looked_for(&mut group), count, "after a ring");
    assert!(group.is_asleep());
}

/// The grace wakes a timer early, once; then its own time counts.
#[test]
fn the_grace_applies_once() {
    let rules = Rules { grace: ms(100), ..RULES };
    let (mut group, now) = asleep(Some(ms(500)));
    assert_eq!(group.wake_at(&rules), Some(now + ms(400)));
    group.wake(now + ms(400));
    group.begin(now + ms(400), HEARS);
    group.end(empty(Some(ms(100))), now + ms(400), &rules);
    assert_eq!(group.wake_at(&rules), Some(now + ms(500)));
}

/// What a step of an interleaving does. Each is atomic in the engine, because it happens under one lock or in the database.
#[derive(Debug, Clone)]
enum Step {
    /// A row is committed, due after so many milliseconds; its ring follows as a step of its own.
    Commit {
        due_in: u64,
        heard: bool,
    },
    /// One ring that is on its way arrives.
    RingArrives,
    Enroll {
        waits: bool,
    },
    Leave {
        nth: usize,
    },
    Expire {
        nth: usize,
    },
    Begin,
    /// The statement of the look in the air reads the database.
    Snapshot,
    End,
    /// Somebody who took a row ends it. Who never does has died, and the row is due again when its lease ends.
    Done,
    /// Another process locks a due row, or lets it go.
    Lock,
    Unlock,
    Time {
        ms: u64,
    },
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (prop_oneof![Just(0), 1u64..300], any::<bool>()).prop_map(|(due_in, heard)| Step::Commit { due_in, heard }),
        3 => Just(Step::RingArrives),
        3 => any::<bool>().prop_map(|waits| Step::Enroll { waits }),
        1 => (0usize..4).prop_map(|nth| Step::Leave { nth }),
        1 => (0usize..4).prop_map(|nth| Step::Expire { nth }),
        4 => Just(Step::Begin),
        4 => Just(Step::Snapshot),
        4 => Just(Step::End),
        2 => Just(Step::Done),
        1 => Just(Step::Lock),
        1 => Just(Step::Unlock),
        1 => (1u64..200).prop_map(|ms| Step::Time { ms }),
    ]
}

/// How long a row that was taken is not due.
const LEASE: Duration = Duration::from_millis(150);

#[derive(Clone, Copy)]
struct Row {
    due: Instant,
    /// By somebody else; it is skipped.
    locked: bool,
    taken: bool,
}

/// A group with the look it has in the air, and what that look has read: how many it took, and the next due time.
struct Player {
    group: Group<()>,
    poll: Option<Begun>,
    read: Option<(usize, Option<Duration>)>,
}

/// The database and everybody else, as simple as can be. Competing waiters share one group, broadcast ones have one each.
struct World {
    broadcast: bool,
    players: Vec<Player>,
    now: Instant,
    rows: Vec<Row>,
    wake_ups: Vec<(Instant, bool)>,
    /// Taken seats, and whose they are.
    waiters: Vec<(usize, WaiterId)>,
    last: WaiterId,
}

impl World {
    fn new(broadcast: bool) -> World {
        let now = Instant::now();
        let (rows, wake_ups, waiters) = (Vec::new(), Vec::new(), Vec::new());
        World { broadcast, players: Vec::new(), now, rows, wake_ups, waiters, last: 0 }
    }

    fn rules(&self) -> Rules {
        Rules { cap: self.broadcast.then_some(Duration::from_secs(60)), ..RULES }
    }

    fn snapshot(&mut self, at: usize) {
        let player = &mut self.players[at];
        let (Some(poll), None) = (&player.poll, &player.read) else { return };
        let now = self.now;
        let (mut took, mut next) = (0, None::<Duration>);
        for row in &mut self.rows {
            if row.due <= now && !row.locked && took < poll.waiters.len() {
                *row = Row { due: now + LEASE, taken: true, ..*row };
                took += 1;
            } else {
                let due_in = row.due.saturating_duration_since(now);
                next = Some(next.map_or(due_in, |next| next.min(due_in)));
            }
        }
        player.read = Some((took, next));
    }

    fn end(&mut self, at: usize) {
        let rules = self.rules();
        let player = &mut self.players[at];
        let Some((took, next_due)) = player.read.take() else { return };
        let Some(poll) = player.poll.take() else { return };
        for waiter in poll.waiters.iter().take(took) {
            // An item whose seat is gone is given back: due again, and rung.
            if player.group.leave(*waiter, self.now).is_none() {
                if let Some(row) = self.rows.iter_mut().find(|row| row.taken) {
                    *row = Row { due: self.now, taken: false, ..*row };
                }
                self.wake_ups.push((self.now, false));
            }
        }
        let skipped = took < poll.waiters.len() && next_due == Some(Duration::ZERO);
        let due_again = (took > 0).then_some(LEASE);
        player.group.end(Answer::Ran { found: took > 0, skipped, next_due, due_again }, self.now, &rules);
        let players = &self.players;
        self.waiters.retain(|(at, waiter)| players[*at].group.waiter(*waiter).is_some());
    }

    fn ring_arrives(&mut self) {
        let Some((due, heard)) = self.wake_ups.pop() else { return };
        for player in &mut self.players {
            if due <= self.now {
                player.group.wake_up(if heard { Reason::Notified } else { Reason::Rung }, self.now);
            } else {
                player.group.due(due);
            }
        }
    }

    fn enroll(&mut self, waits: bool) {
        let rules = self.rules();
        if self.broadcast || self.players.is_empty() {
            self.players.push(Player { group: Group::new(self.now), poll: None, read: None });
        }
        let at = self.players.len() - 1;
        self.last += 1;
        self.waiters.push((at, self.last));
        let new_waiter = NewWaiter { waiter: (), want: 1, visibility_key: None, waits };
        self.players[at].group.enroll(self.last, new_waiter, self.now, HEARS, &rules);
    }

    fn begin(&mut self, at: usize) {
        let player = &mut self.players[at];
        if player.poll.is_none() {
            player.poll = player.group.begin(self.now, HEARS);
        }
    }

    fn step(&mut self, step: Step, whose: usize) {
        let player = (!self.players.is_empty()).then(|| whose % self.players.len());
        match step {
            Step::Commit { due_in, heard } => {
                let due = self.now + ms(due_in);
                self.rows.push(Row { due, locked: false, taken: false });
                self.wake_ups.push((due, heard));
            }
            Step::RingArrives => self.ring_arrives(),
            Step::Enroll { waits } => self.enroll(waits),
            Step::Leave { nth } if nth < self.waiters.len() => {
                let (at, waiter) = self.waiters.remove(nth);
                assert!(self.players[at].group.leave(waiter, self.now).is_some());
            }
            Step::Expire { nth } if nth < self.waiters.len() => {
                let (at, waiter) = self.waiters[nth];
                if self.players[at].group.expire(waiter, self.now).is_some() {
                    self.waiters.remove(nth);
                }
            }
            Step::Leave { .. } | Step::Expire { .. } => {}
            Step::Begin => player.into_iter().for_each(|at| self.begin(at)),
            Step::Snapshot => player.into_iter().for_each(|at| self.snapshot(at)),
            Step::End => player.into_iter().for_each(|at| self.end(at)),
            Step::Done => {
                if let Some(at) = self.rows.iter().position(|row| row.taken) {
                    self.rows.remove(at);
                }
            }
            Step::Lock => {
                if let Some(row) = self.rows.iter_mut().find(|row| !row.locked) {
                    row.locked = true;
                }
            }
            Step::Unlock => self.rows.iter_mut().for_each(|row| row.locked = false),
            Step::Time { ms: n } => self.now += ms(n),
        }
    }

    /// Lets everything under way come to its end, and time pass as far as the groups themselves ask for. Under broadcast
    /// the cap is the one thing that never ends; up to it nobody may need it.
    fn come_to_rest(&mut self) {
        let rules = RULES;
        self.step(Step::Unlock, 0);
        for _ in 0..10_000 {
            if !self.wake_ups.is_empty() {
                self.ring_arrives();
            } else if let Some(at) = self.players.iter().position(|p| p.poll.is_some()) {
                self.snapshot(at);
                self.end(at);
            } else if let Some(at) = self.players.iter().position(|p| p.group.is_eager()) {
                self.begin(at);
            } else {
                let asleep = self.players.iter().enumerate().filter(|(_, p)| p.group.is_asleep());
                match asleep.filter_map(|(at, p)| Some((p.group.wake_at(&rules)?, at))).min() {
                    Some((when, at)) => {
                        self.now = self.now.max(when);
                        self.players[at].group.wake(self.now);
                    }
                    None => return,
                }
            }
        }
        panic!("never came to rest");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// After any interleaving, under both strategies, when everything has come to rest: nobody sleeps while there is work,
    /// because groups look on their own at every moment at which they must. Rings, due times, newcomers and locks are all
    /// there is to go by; there is no poll and no fallback in this world, and waiters come and go while looks are in the
    /// air.
    #[test]
    fn nobody_sleeps_through_work(
        steps in prop::collection::vec((any_step(), any::<usize>()), 1..80),
        broadcast in any::<bool>(),
    ) {
        let mut world = World::new(broadcast);
        for (step, whose) in steps {
            world.step(step, whose);
        }
        world.come_to_rest();
        prop_assert!(
            world.waiters.is_empty() || world.rows.is_empty(),
            "{} waiters sleep through {} rows", world.waiters.len(), world.rows.len()
        );
    }

    /// Where nothing rings and nothing is due, coming and going costs no look at all once the group has looked.
    #[test]
    fn an_idle_group_never_looks(comings in prop::collection::vec((1u64..5, 1u64..500), 1..50)) {
        let (mut group, mut now) = asleep(None);
        let mut waiters = vec![1];
        let mut last = 1;
        for (joining, pass) in comings {
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
            prop_assert!(!group.is_eager());
        }
    }
}
