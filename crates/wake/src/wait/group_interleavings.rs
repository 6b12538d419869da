//! Every interleaving of wake-ups, polls, attached polls, arrivals and departures, without a database.

use proptest::prelude::*;

use super::tests::{CONNECTED, RULES, ms};
use super::*;

/// A step of an interleaving. Each is atomic in the engine, because it happens under one lock or in the database.
#[derive(Debug, Clone)]
enum Step {
    /// A row is committed, due after so many milliseconds; its wake-up follows as a step of its own.
    Commit {
        due_in: u64,
        remote: bool,
    },
    /// One wake-up that is on its way arrives.
    WakeUpArrives,
    Join {
        waits: bool,
    },
    Leave {
        nth: usize,
    },
    Expire {
        nth: usize,
    },
    Begin,
    /// A write batch begins a poll, if it may: its statement commits a row, due after so many milliseconds, and claims.
    Attach {
        due_in: u64,
    },
    /// The result of an attached poll is not known in time; its statement may have claimed or not.
    Abandon,
    /// The statement of the running poll reads the database.
    Snapshot,
    End,
    /// A claimed row is completed. One that never is belongs to a dead worker, and is due again when its lease ends.
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
        3 => (prop_oneof![Just(0), 1u64..300], any::<bool>())
            .prop_map(|(due_in, remote)| Step::Commit { due_in, remote }),
        3 => Just(Step::WakeUpArrives),
        3 => any::<bool>().prop_map(|waits| Step::Join { waits }),
        1 => (0usize..4).prop_map(|nth| Step::Leave { nth }),
        1 => (0usize..4).prop_map(|nth| Step::Expire { nth }),
        4 => Just(Step::Begin),
        3 => prop_oneof![Just(0), 1u64..300].prop_map(|due_in| Step::Attach { due_in }),
        1 => Just(Step::Abandon),
        4 => Just(Step::Snapshot),
        4 => Just(Step::End),
        2 => Just(Step::Done),
        1 => Just(Step::Lock),
        1 => Just(Step::Unlock),
        1 => (1u64..200).prop_map(|ms| Step::Time { ms }),
    ]
}

/// How long a claimed row is not due.
const LEASE: Duration = Duration::from_millis(150);

#[derive(Clone, Copy)]
struct Row {
    due: Instant,
    /// By another transaction; it is skipped.
    locked: bool,
    taken: bool,
}

/// A group with its running poll, and what that has read: how many rows it claimed, and the next due time.
struct Player {
    group: Group<()>,
    poll: Option<BegunPoll>,
    read: Option<(usize, Option<Duration>)>,
    /// The poll is attached to a batch that commits a row, due after this time.
    attached: Option<Duration>,
}

/// A minimal model of the database and the waiters. Competing waiters share one group, broadcast ones have one each.
struct World {
    broadcast: bool,
    players: Vec<Player>,
    now: Instant,
    rows: Vec<Row>,
    wake_ups: Vec<(Instant, bool)>,
    /// Waiters with their groups.
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
        Rules { max_sleep: self.broadcast.then_some(Duration::from_secs(60)), ..RULES }
    }

    fn snapshot(&mut self, at: usize) {
        let player = &mut self.players[at];
        let (Some(poll), None) = (&player.poll, &player.read) else { return };
        let now = self.now;
        // The wake-up of the batch does not concern the group that claims in it.
        self.rows.extend(player.attached.map(|due_in| Row { due: now + due_in, locked: false, taken: false }));
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
        player.attached = None;
        for waiter in poll.waiters.iter().take(took) {
            // An item whose waiter is gone is given back: due again, with a wake-up.
            if player.group.remove_waiter(*waiter, self.now).is_none() {
                if let Some(row) = self.rows.iter_mut().find(|row| row.taken) {
                    *row = Row { due: self.now, taken: false, ..*row };
                }
                self.wake_ups.push((self.now, false));
            }
        }
        let skipped = took < poll.waiters.len() && next_due == Some(Duration::ZERO);
        let due_again = (took > 0).then_some(LEASE);
        player.group.end_poll(PollEnd::Completed { found: took > 0, skipped, next_due, due_again }, self.now, &rules);
        let players = &self.players;
        self.waiters.retain(|(at, waiter)| players[*at].group.waiter(*waiter).is_some());
    }

    fn wake_up_arrives(&mut self) {
        let Some((due, remote)) = self.wake_ups.pop() else { return };
        for player in &mut self.players {
            if due <= self.now {
                player.group.wake_up(if remote { Reason::Notified } else { Reason::Local }, self.now);
            } else {
                player.group.due_at(due);
            }
        }
    }

    fn add_waiter(&mut self, waits: bool) {
        let rules = self.rules();
        if self.broadcast || self.players.is_empty() {
            self.players.push(Player { group: Group::new(self.now), poll: None, read: None, attached: None });
        }
        let at = self.players.len() - 1;
        self.last += 1;
        self.waiters.push((at, self.last));
        let new_waiter = NewWaiter { request: (), want: 1, visibility_key: None, waits };
        self.players[at].group.add_waiter(self.last, new_waiter, self.now, CONNECTED, &rules);
    }

    fn begin(&mut self, at: usize) {
        let player = &mut self.players[at];
        if player.poll.is_none() {
            player.poll = player.group.begin_poll(self.now, CONNECTED);
        }
    }

    fn attach(&mut self, at: usize, due_in: Duration) {
        let player = &mut self.players[at];
        if !self.broadcast && player.poll.is_none() {
            player.poll = player.group.begin_attached_poll(self.now, CONNECTED);
            player.attached = player.poll.is_some().then_some(due_in);
        }
    }

    /// What an abandoned poll has claimed is given back, and a batch that has not committed yet commits and wakes.
    fn abandon(&mut self, at: usize) {
        let player = &mut self.players[at];
        let Some(due_in) = player.attached.take() else { return };
        player.poll = None;
        player.group.abandon_poll(self.now);
        let due = match player.read.take() {
            Some((took, _)) => {
                for row in self.rows.iter_mut().filter(|row| row.taken).take(took) {
                    *row = Row { due: self.now, taken: false, ..*row };
                }
                self.now
            }
            None => {
                self.rows.push(Row { due: self.now + due_in, locked: false, taken: false });
                self.now + due_in
            }
        };
        self.wake_ups.push((due, false));
    }

    fn step(&mut self, step: Step, choice: usize) {
        let player = (!self.players.is_empty()).then(|| choice % self.players.len());
        match step {
            Step::Commit { due_in, remote } => {
                let due = self.now + ms(due_in);
                self.rows.push(Row { due, locked: false, taken: false });
                self.wake_ups.push((due, remote));
            }
            Step::WakeUpArrives => self.wake_up_arrives(),
            Step::Join { waits } => self.add_waiter(waits),
            Step::Leave { nth } if nth < self.waiters.len() => {
                let (at, waiter) = self.waiters.remove(nth);
                assert!(self.players[at].group.remove_waiter(waiter, self.now).is_some());
            }
            Step::Expire { nth } if nth < self.waiters.len() => {
                let (at, waiter) = self.waiters[nth];
                if self.players[at].group.expire(waiter, self.now).is_some() {
                    self.waiters.remove(nth);
                }
            }
            Step::Leave { .. } | Step::Expire { .. } => {}
            Step::Begin => player.into_iter().for_each(|at| self.begin(at)),
            Step::Attach { due_in } => player.into_iter().for_each(|at| self.attach(at, ms(due_in))),
            Step::Abandon => player.into_iter().for_each(|at| self.abandon(at)),
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

    /// Completes everything that is running and lets time pass as far as the groups' own timers. Without the limit on
    /// sleeps that broadcast has: no group may depend on it.
    fn run_until_idle(&mut self) {
        let rules = RULES;
        self.step(Step::Unlock, 0);
        for _ in 0..10_000 {
            if !self.wake_ups.is_empty() {
                self.wake_up_arrives();
            } else if let Some(at) = self.players.iter().position(|p| p.poll.is_some()) {
                self.snapshot(at);
                self.end(at);
            } else if let Some(at) = self.players.iter().position(|p| p.group.wants_poll()) {
                self.begin(at);
            } else {
                let asleep = self.players.iter().enumerate().filter(|(_, p)| p.group.is_asleep());
                match asleep.filter_map(|(at, p)| Some((p.group.wake_at(&rules)?, at))).min() {
                    Some((when, at)) => {
                        self.now = self.now.max(when);
                        self.players[at].group.timer_fired(self.now);
                    }
                    None => return,
                }
            }
        }
        panic!("never became idle");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// After any interleaving, under both strategies, once everything is idle: no waiter sleeps while there is work.
    /// Groups have only wake-ups, due times, new waiters and locks to go by; there is no aggressive polling and no
    /// fallback in this model, and waiters come and go during polls.
    #[test]
    fn no_waiter_sleeps_while_there_is_work(
        steps in prop::collection::vec((any_step(), any::<usize>()), 1..80),
        broadcast in any::<bool>(),
    ) {
        let mut world = World::new(broadcast);
        for (step, choice) in steps {
            world.step(step, choice);
        }
        world.run_until_idle();
        prop_assert!(
            world.waiters.is_empty() || world.rows.is_empty(),
            "{} waiters sleep while there are {} rows", world.waiters.len(), world.rows.len()
        );
    }
}
