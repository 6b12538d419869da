//! Who waits for the next flight, and whether a lane must open: pure, so that every interleaving can be tested.
//!
//! A lane that finds nobody lingers for a moment, with its connection, because the next member is often on its way. The danger
//! is the gap at its end: a member must not wait for a lane that has just gone. So members and lanes meet under one lock:
//! a member that boards *calls* one lingering lane, which is then no longer lingering and may not end, and a lane lingers
//! only while nobody waits. Hence **whenever somebody waits, some lane neither lingers nor ends.**

use std::collections::VecDeque;

use tokio::sync::oneshot;

/// Names a lane.
pub(crate) type LaneId = u64;

/// What a lane finds.
#[derive(Debug)]
pub(crate) enum Load<P> {
    /// Members, in order of boarding.
    Members(Vec<P>),
    /// Nobody: it lingers, and is called by this.
    Nobody(oneshot::Receiver<()>),
}

/// Members waiting, and lanes open.
#[derive(Debug)]
pub(crate) struct Boarding<P> {
    waiting: VecDeque<P>,
    lanes: usize,
    /// Lanes that linger and have not been called, and how to call them.
    lingering: Vec<(LaneId, oneshot::Sender<()>)>,
    lanes_max: usize,
    load_max: usize,
    bytes_max: usize,
    /// How many bytes a member adds to a flight.
    weigh: fn(&P) -> usize,
    last_lane: LaneId,
    closed: bool,
}

impl<P> Boarding<P> {
    pub(crate) fn new(lanes_max: usize, load_max: usize, bytes_max: usize, weigh: fn(&P) -> usize) -> Self {
        Boarding {
            waiting: VecDeque::new(),
            lanes: 0,
            last_lane: 0,
            lingering: Vec::new(),
            lanes_max: lanes_max.max(1),
            load_max: load_max.max(1),
            bytes_max,
            weigh,
            closed: false,
        }
    }

    /// Lets a member in. `Ok(Some)`: a lane was opened and must be run. `Err`: closed, and here it is back.
    pub(crate) fn board(&mut self, member: P) -> Result<Option<LaneId>, P> {
        if self.closed {
            return Err(member);
        }
        self.waiting.push_back(member);
        Ok(match self.lingering.pop() {
            Some((_, lane)) => {
                // If it has just stopped waiting, it finds itself unlisted and looks again all the same.
                let _ = lane.send(());
                None
            }
            None => self.open_lane(),
        })
    }

    /// Puts members back in front: their flight did not leave. Called by a lane, which goes on.
    pub(crate) fn board_again(&mut self, members: Vec<P>) {
        for member in members.into_iter().rev() {
            self.waiting.push_front(member);
        }
    }

    /// The next load of a lane, which lingers if there is none. One member too large for any flight travels alone.
    pub(crate) fn load(&mut self, lane: LaneId) -> Load<P> {
        if self.waiting.is_empty() {
            let (call, called) = oneshot::channel();
            self.lingering.push((lane, call));
            return Load::Nobody(called);
        }
        let mut bytes = 0usize;
        let fits = self.waiting.iter().take(self.load_max).take_while(|member| {
            bytes = bytes.saturating_add((self.weigh)(member));
            bytes <= self.bytes_max
        });
        let count = fits.count().max(1);
        Load::Members(self.waiting.drain(..count).collect())
    }

    /// A lane has lingered long enough. `true`: it has ended; `false`: it was called, and must look again.
    pub(crate) fn end_lingering(&mut self, lane: LaneId) -> bool {
        let uncalled = self.lingering.iter().position(|(lingering, _)| *lingering == lane);
        if let Some(at) = uncalled {
            self.lingering.swap_remove(at);
            self.lanes -= 1;
        }
        uncalled.is_some()
    }

    /// A lane that was not lingering has ended, however. `Some`: others wait, so one was opened in its place and must be run.
    pub(crate) fn lane_ended(&mut self) -> Option<LaneId> {
        self.lanes -= 1;
        self.open_lane()
    }

    /// Lets nobody in any more; who is in still travels.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// There are no flights any more, not even for who is in. Answers those.
    pub(crate) fn abandon(&mut self) -> VecDeque<P> {
        self.closed = true;
        std::mem::take(&mut self.waiting)
    }

    fn open_lane(&mut self) -> Option<LaneId> {
        if self.waiting.is_empty() || self.lanes >= self.lanes_max {
            return None;
        }
        self.lanes += 1;
        self.last_lane += 1;
        Some(self.last_lane)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members<P>(load: Load<P>) -> Vec<P> {
        match load {
            Load::Members(members) => members,
            Load::Nobody(_) => Vec::new(),
        }
    }

    /// A load stops before it is too heavy, and a member too heavy for any goes alone.
    #[test]
    fn loads_have_a_weight() {
        let mut boarding = Boarding::new(1, 10, 100, |bytes| *bytes);
        for bytes in [60, 40, 1, 500, 5] {
            assert!(boarding.board(bytes).is_ok());
        }
        assert_eq!(members(boarding.load(1)), [60, 40]);
        assert_eq!(members(boarding.load(1)), [1]);
        assert_eq!(members(boarding.load(1)), [500]);
        boarding.board_again(vec![8, 9]);
        assert_eq!(members(boarding.load(1)), [8, 9, 5]);
        assert!(members(boarding.load(1)).is_empty());
    }

    /// What a lane is about to do.
    #[derive(Debug)]
    enum Lane {
        Loading,
        Flying,
        Lingering(oneshot::Receiver<()>),
        Dying,
    }

    struct World {
        boarding: Boarding<u32>,
        lanes: Vec<(LaneId, Lane)>,
        flown: Vec<u32>,
    }

    impl World {
        fn open(&mut self, lane: Option<LaneId>) {
            self.lanes.extend(lane.map(|id| (id, Lane::Loading)));
        }

        /// One step of a lane. One that lingers either hears its call or finds its time over, whatever the other says.
        fn step(&mut self, at: usize, random: u8) {
            let (id, lane) = self.lanes.remove(at);
            let next = match lane {
                Lane::Loading => match self.boarding.load(id) {
                    Load::Members(members) => {
                        self.flown.extend(members);
                        Lane::Flying
                    }
                    Load::Nobody(called) => Lane::Lingering(called),
                },
                Lane::Flying if random > 200 => Lane::Dying,
                Lane::Flying => Lane::Loading,
                Lane::Lingering(mut called) => match random % 3 {
                    0 if called.try_recv().is_err() => Lane::Lingering(called),
                    1 if self.boarding.end_lingering(id) => return,
                    0 | 1 => Lane::Loading,
                    _ => Lane::Lingering(called),
                },
                Lane::Dying => {
                    let reopened = self.boarding.lane_ended();
                    return self.open(reopened);
                }
            };
            self.lanes.push((id, next));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Members board and lanes take their steps in any order; some lanes die in the air, calls and the end of a wait cross.
        /// Nobody is ever left waiting without a lane that will look, no more lanes are open than allowed, and everybody
        /// travels once, in order.
        #[test]
        fn nobody_waits_for_a_flight_that_never_leaves(
            steps in prop::collection::vec((0usize..4, any::<u8>()), 1..200),
            lanes_max in 1usize..4,
            load_max in 1usize..5,
        ) {
            let boarding = Boarding::new(lanes_max, load_max, 100, |member| *member as usize * 37 % 150);
            let mut world = World { boarding, lanes: Vec::new(), flown: Vec::new() };
            let mut boarded = 0u32;
            for (what, random) in steps {
                if what == 0 {
                    boarded += 1;
                    let opened = world.boarding.board(boarded).expect("open");
                    world.open(opened);
                } else if !world.lanes.is_empty() {
                    let at = usize::from(random) % world.lanes.len();
                    world.step(at, random);
                }
                prop_assert!(world.lanes.len() <= lanes_max);
                prop_assert_eq!(world.lanes.len(), world.boarding.lanes);
                let uncalled = world.boarding.lingering.len();
                prop_assert!(world.boarding.waiting.is_empty() || world.lanes.len() > uncalled);
            }
            for _ in 0..10_000 {
                if world.lanes.is_empty() {
                    break;
                }
                world.step(0, 1);
            }
            prop_assert!(world.lanes.is_empty());
            prop_assert_eq!(world.flown, (1..=boarded).collect::<Vec<_>>());
            world.boarding.close();
            prop_assert_eq!(world.boarding.board(0), Err(0));
        }
    }
}
