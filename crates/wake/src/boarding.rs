//! Who waits for the next flight, and whether a lane must open: pure, so that every interleaving can be tested.
//!
//! A lane that finds nobody lingers for a moment, with its connection, because the next member is often on its way. The danger
//! is the gap at its end: a member must not wait for a lane that has just gone. So members and lanes meet under one lock:
//! a member that boards *calls* a lingering lane, which may not end any more, and a lane lingers only while nobody waits.
//! Hence **whenever somebody waits, some lane neither lingers nor ends.**

use std::collections::VecDeque;

/// Which lane takes a member that has boarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// One that lingers, and must be called.
    Lingering,
    /// One that was opened just now, and must be run.
    New,
    /// One that is flying, when it is back.
    Flying,
}

/// Members waiting, and lanes open.
#[derive(Debug)]
pub(crate) struct Boarding<P> {
    waiting: VecDeque<(P, usize)>,
    lanes: usize,
    /// Lanes that linger and have not been called.
    lingering: usize,
    lanes_max: usize,
    load_max: usize,
    bytes_max: usize,
    closed: bool,
}

impl<P> Boarding<P> {
    pub(crate) fn new(lanes_max: usize, load_max: usize, bytes_max: usize) -> Self {
        let (lanes_max, load_max) = (lanes_max.max(1), load_max.max(1));
        Boarding { waiting: VecDeque::new(), lanes: 0, lingering: 0, lanes_max, load_max, bytes_max, closed: false }
    }

    /// Lets a member of so many bytes in. `Err`: closed, and here it is back.
    pub(crate) fn board(&mut self, member: P, bytes: usize) -> Result<Who, P> {
        if self.closed {
            return Err(member);
        }
        self.waiting.push_back((member, bytes));
        if self.lingering > 0 {
            self.lingering -= 1;
            return Ok(Who::Lingering);
        }
        Ok(if self.open_lane() { Who::New } else { Who::Flying })
    }

    /// Puts members back in front: their flight did not leave. Called by a lane, which goes on.
    pub(crate) fn board_again(&mut self, members: Vec<(P, usize)>) {
        for member in members.into_iter().rev() {
            self.waiting.push_front(member);
        }
    }

    /// Everybody waiting, for whom there will be no flight any more.
    pub(crate) fn abandon(&mut self) -> Vec<P> {
        self.waiting.drain(..).map(|(member, _)| member).collect()
    }

    /// The next load of a lane, in order of boarding; empty if nobody waits, and then the lane lingers. One member too large for
    /// any flight travels alone.
    pub(crate) fn load(&mut self) -> Vec<P> {
        if self.waiting.is_empty() {
            self.lingering += 1;
            return Vec::new();
        }
        let mut bytes = 0usize;
        let fits = self.waiting.iter().take(self.load_max).take_while(|(_, weight)| {
            bytes = bytes.saturating_add(*weight);
            bytes <= self.bytes_max
        });
        let count = fits.count().max(1).min(self.waiting.len());
        self.waiting.drain(..count).map(|(member, _)| member).collect()
    }

    /// A lane has lingered long enough. `true`: it has ended; `false`: it was called, and must look again.
    pub(crate) fn end_lingering(&mut self) -> bool {
        let uncalled = self.lingering > 0;
        if uncalled {
            self.lingering -= 1;
            self.lanes -= 1;
        }
        uncalled
    }

    /// A lane that was not lingering has ended, however. `true`: somebody boarded meanwhile, so it was opened again and must be run.
    pub(crate) fn lane_ended(&mut self) -> bool {
        self.lanes -= 1;
        self.open_lane()
    }

    /// Lets nobody in any more; who is in still travels.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    fn open_lane(&mut self) -> bool {
        let open = !self.waiting.is_empty() && self.lanes < self.lanes_max;
        self.lanes += usize::from(open);
        open
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A load stops before it is too heavy, and a member too heavy for any goes alone.
    #[test]
    fn loads_have_a_weight() {
        let mut boarding = Boarding::new(1, 10, 100);
        for (member, bytes) in [(1, 60), (2, 40), (3, 1), (4, 500), (5, 1)] {
            assert!(boarding.board(member, bytes).is_ok());
        }
        assert_eq!(boarding.load(), [1, 2]);
        assert_eq!(boarding.load(), [3]);
        assert_eq!(boarding.load(), [4]);
        boarding.board_again(vec![(8, 1), (9, 1)]);
        assert_eq!(boarding.load(), [8, 9, 5]);
        assert!(boarding.load().is_empty());
    }

    /// What a lane is about to do.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Lane {
        Loading,
        Flying,
        Lingering,
        Dying,
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Members board and lanes take their steps in any order, some lanes die in the air. Nobody is ever left waiting
        /// without a lane, no more lanes are open than allowed, and everybody travels once, in order.
        #[test]
        fn nobody_waits_for_a_flight_that_never_leaves(
            steps in prop::collection::vec((0usize..4, any::<u8>()), 1..200),
            lanes_max in 1usize..4,
            load_max in 1usize..5,
        ) {
            let mut boarding = Boarding::new(lanes_max, load_max, 100);
            let mut lanes: Vec<Lane> = Vec::new();
            let (mut boarded, mut flown, mut calls) = (0u32, Vec::new(), 0usize);
            let step = |boarding: &mut Boarding<u32>, lanes: &mut Vec<Lane>, flown: &mut Vec<u32>, calls: &mut usize, at: usize, dies: bool| {
                match lanes[at] {
                    Lane::Loading => {
                        let load = boarding.load();
                        assert!(load.len() <= load_max);
                        lanes[at] = if load.is_empty() { Lane::Lingering } else { Lane::Flying };
                        flown.extend(load);
                    }
                    Lane::Flying => lanes[at] = if dies { Lane::Dying } else { Lane::Loading },
                    Lane::Lingering if *calls > 0 => {
                        *calls -= 1;
                        lanes[at] = Lane::Loading;
                    }
                    Lane::Lingering => {
                        if boarding.end_lingering() {
                            lanes.remove(at);
                        } else {
                            lanes[at] = Lane::Loading;
                        }
                    }
                    Lane::Dying => {
                        lanes.remove(at);
                        if boarding.lane_ended() {
                            lanes.push(Lane::Loading);
                        }
                    }
                }
            };
            for (what, random) in steps {
                if what == 0 {
                    boarded += 1;
                    match boarding.board(boarded, usize::from(random)).expect("open") {
                        Who::New => lanes.push(Lane::Loading),
                        Who::Lingering => calls += 1,
                        Who::Flying => {}
                    }
                } else if !lanes.is_empty() {
                    let at = usize::from(random) % lanes.len();
                    step(&mut boarding, &mut lanes, &mut flown, &mut calls, at, random > 200);
                }
                let lingering = lanes.iter().filter(|lane| **lane == Lane::Lingering).count();
                prop_assert!(lanes.len() <= lanes_max);
                prop_assert!(boarding.waiting.is_empty() || lanes.len() > lingering || calls > 0);
            }
            for _ in 0..10_000 {
                if lanes.is_empty() {
                    break;
                }
                step(&mut boarding, &mut lanes, &mut flown, &mut calls, 0, false);
            }
            prop_assert_eq!(flown, (1..=boarded).collect::<Vec<_>>());
            boarding.close();
            prop_assert_eq!(boarding.board(0, 0), Err(0));
        }
    }
}
