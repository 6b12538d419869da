//! Who waits for the next flight, and whether a lane must open: pure, so that every interleaving can be tested.
//!
//! A lane that finds nobody lingers for a moment, with its connection, because the next member is often on its way. The danger
//! is the gap at its end: a member must not wait for a lane that has just gone. So members and lanes meet under one lock:
//! a member that boards *calls* one lingering lane, which is then no longer lingering and may not end, and a lane lingers
//! only while nobody waits. Hence **whenever somebody waits, some lane neither lingers nor ends.**

use std::collections::VecDeque;

use tokio::sync::oneshot;

/// Names a lane.
pub(crate) type SenderId = u64;

/// What a lane finds.
#[derive(Debug)]
pub(crate) enum NextBatch<P> {
    /// Members, in order of boarding.
    Members(Vec<P>),
    /// Nobody: it lingers, and is called by this.
    Nobody(oneshot::Receiver<()>),
}

/// Members waiting, and lanes open.
#[derive(Debug)]
pub(crate) struct PendingWrites<P> {
    waiting: VecDeque<P>,
    concurrency: usize,
    /// Lanes that linger and have not been called, and how to call them.
    lingering: Vec<(SenderId, oneshot::Sender<()>)>,
    concurrency_max: usize,
    load_max: usize,
    bytes_max: usize,
    /// How many bytes a member adds to a flight.
    weigh: fn(&P) -> usize,
    last_sender: SenderId,
    closed: bool,
}

impl<P> PendingWrites<P> {
    pub(crate) fn new(concurrency_max: usize, load_max: usize, bytes_max: usize, weigh: fn(&P) -> usize) -> Self {
        PendingWrites {
            waiting: VecDeque::new(),
            concurrency: 0,
            last_sender: 0,
            lingering: Vec::new(),
            concurrency_max: concurrency_max.max(1),
            load_max: load_max.max(1),
            bytes_max,
            weigh,
            closed: false,
        }
    }

    /// Lets a member in. `Ok(Some)`: a lane was opened and must be run. `Err`: closed, and here it is back.
    pub(crate) fn add(&mut self, write: P) -> Result<Option<SenderId>, P> {
        if self.closed {
            return Err(write);
        }
        self.waiting.push_back(write);
        Ok(match self.lingering.pop() {
            Some((_, sender_id)) => {
                // If it has just stopped waiting, it finds itself unlisted and looks again all the same.
                let _ = sender_id.send(());
                None
            }
            None => self.open_sender(),
        })
    }

    /// Puts members back in front: their flight did not leave. Called by a lane, which goes on.
    pub(crate) fn put_back(&mut self, writes: Vec<P>) {
        for write in writes.into_iter().rev() {
            self.waiting.push_front(write);
        }
    }

    /// The next load of a lane, which lingers if there is none. One member too large for any flight travels alone.
    pub(crate) fn load(&mut self, sender_id: SenderId) -> NextBatch<P> {
        if self.waiting.is_empty() {
            let (call, called) = oneshot::channel();
            self.lingering.push((sender_id, call));
            return NextBatch::Nobody(called);
        }
        let mut bytes = 0usize;
        let fits = self.waiting.iter().take(self.load_max).take_while(|write| {
            bytes = bytes.saturating_add((self.weigh)(write));
            bytes <= self.bytes_max
        });
        let count = fits.count().max(1);
        NextBatch::Members(self.waiting.drain(..count).collect())
    }

    /// A lane has lingered long enough. `true`: it has ended; `false`: it was called, and must look again.
    pub(crate) fn end_lingering(&mut self, sender_id: SenderId) -> bool {
        let uncalled = self.lingering.iter().position(|(lingering, _)| *lingering == sender_id);
        if let Some(at) = uncalled {
            self.lingering.swap_remove(at);
            self.concurrency -= 1;
        }
        uncalled.is_some()
    }

    /// A lane that was not lingering has ended, however. `Some`: others wait, so one was opened in its place and must be run.
    pub(crate) fn sender_ended(&mut self) -> Option<SenderId> {
        self.concurrency -= 1;
        self.open_sender()
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

    fn open_sender(&mut self) -> Option<SenderId> {
        if self.waiting.is_empty() || self.concurrency >= self.concurrency_max {
            return None;
        }
        self.concurrency += 1;
        self.last_sender += 1;
        Some(self.last_sender)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn writes<P>(load: NextBatch<P>) -> Vec<P> {
        match load {
            NextBatch::Members(writes) => writes,
            NextBatch::Nobody(_) => Vec::new(),
        }
    }

    /// A load stops before it is too heavy, and a member too heavy for any goes alone.
    #[test]
    fn loads_have_a_weight() {
        let mut pending = PendingWrites::new(1, 10, 100, |bytes| *bytes);
        for bytes in [60, 40, 1, 500, 5] {
            assert!(pending.add(bytes).is_ok());
        }
        assert_eq!(writes(pending.load(1)), [60, 40]);
        assert_eq!(writes(pending.load(1)), [1]);
        assert_eq!(writes(pending.load(1)), [500]);
        pending.put_back(vec![8, 9]);
        assert_eq!(writes(pending.load(1)), [8, 9, 5]);
        assert!(writes(pending.load(1)).is_empty());
    }

    /// What a lane is about to do.
    #[derive(Debug)]
    enum SenderTask {
        Loading,
        Flying,
        Lingering(oneshot::Receiver<()>),
        Dying,
    }

    struct World {
        pending: PendingWrites<u32>,
        concurrency: Vec<(SenderId, SenderTask)>,
        flown: Vec<u32>,
    }

    impl World {
        fn open(&mut self, sender_id: Option<SenderId>) {
            self.concurrency.extend(sender_id.map(|id| (id, SenderTask::Loading)));
        }

        /// One step of a lane. One that lingers either hears its call or finds its time over, whatever the other says.
        fn step(&mut self, at: usize, random: u8) {
            let (id, sender_id) = self.concurrency.remove(at);
            let next = match sender_id {
                SenderTask::Loading => match self.pending.load(id) {
                    NextBatch::Members(writes) => {
                        self.flown.extend(writes);
                        SenderTask::Flying
                    }
                    NextBatch::Nobody(called) => SenderTask::Lingering(called),
                },
                SenderTask::Flying if random > 200 => SenderTask::Dying,
                SenderTask::Flying => SenderTask::Loading,
                SenderTask::Lingering(mut called) => match random % 3 {
                    0 if called.try_recv().is_err() => SenderTask::Lingering(called),
                    1 if self.pending.end_lingering(id) => return,
                    0 | 1 => SenderTask::Loading,
                    _ => SenderTask::Lingering(called),
                },
                SenderTask::Dying => {
                    let reopened = self.pending.sender_ended();
                    return self.open(reopened);
                }
            };
            self.concurrency.push((id, next));
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
            concurrency_max in 1usize..4,
            load_max in 1usize..5,
        ) {
            let pending = PendingWrites::new(concurrency_max, load_max, 100, |write| *write as usize * 37 % 150);
            let mut world = World { pending, concurrency: Vec::new(), flown: Vec::new() };
            let mut batch = 0u32;
            for (what, random) in steps {
                if what == 0 {
                    batch += 1;
                    let opened = world.pending.add(batch).expect("open");
                    world.open(opened);
                } else if !world.concurrency.is_empty() {
                    let at = usize::from(random) % world.concurrency.len();
                    world.step(at, random);
                }
                prop_assert!(world.concurrency.len() <= concurrency_max);
                prop_assert_eq!(world.concurrency.len(), world.pending.concurrency);
                let uncalled = world.pending.lingering.len();
                prop_assert!(world.pending.waiting.is_empty() || world.concurrency.len() > uncalled);
            }
            for _ in 0..10_000 {
                if world.concurrency.is_empty() {
                    break;
                }
                world.step(0, 1);
            }
            prop_assert!(world.concurrency.is_empty());
            prop_assert_eq!(world.flown, (1..=batch).collect::<Vec<_>>());
            world.pending.close();
            prop_assert_eq!(world.pending.add(0), Err(0));
        }
    }
}
