//! Writes that wait for the next batch, and whether a batch sender must start: pure, so that every interleaving can be
//! tested.
//!
//! A sender without writes keeps its connection for a short time, because the next write often follows soon. The
//! danger is the gap at its end: a write must not wait for a sender that has just ended. So writes and senders meet
//! under one lock: a new write *resumes* one idle sender, which is then no longer idle and may not end, and a sender is
//! idle only while no write is pending. Hence the invariant: **while a write is pending, some sender is neither idle
//! nor ending.**

use std::collections::VecDeque;

use tokio::sync::oneshot;

/// The id of a batch sender.
pub(crate) type SenderId = u64;

/// What a sender does next.
#[derive(Debug)]
pub(crate) enum NextBatch<P> {
    /// Sends these writes, in order of submission.
    Writes(Vec<P>),
    /// Stays idle until this is received.
    Idle(oneshot::Receiver<()>),
}

/// Pending writes, and the senders that exist.
#[derive(Debug)]
pub(crate) struct PendingWrites<P> {
    waiting: VecDeque<P>,
    senders: usize,
    /// Idle senders that have not been resumed, and how to resume them.
    idle: Vec<(SenderId, oneshot::Sender<()>)>,
    senders_max: usize,
    batch_max: usize,
    bytes_max: usize,
    /// How many bytes a write adds to a batch.
    bytes_of: fn(&P) -> usize,
    last_sender: SenderId,
    closed: bool,
}

impl<P> PendingWrites<P> {
    pub(crate) fn new(senders_max: usize, batch_max: usize, bytes_max: usize, bytes_of: fn(&P) -> usize) -> Self {
        PendingWrites {
            waiting: VecDeque::new(),
            senders: 0,
            last_sender: 0,
            idle: Vec::new(),
            senders_max: senders_max.max(1),
            batch_max: batch_max.max(1),
            bytes_max,
            bytes_of,
            closed: false,
        }
    }

    /// Adds a write. `Ok(Some)`: a sender was added and must be run. `Err`: closed; returns the write.
    pub(crate) fn add(&mut self, write: P) -> Result<Option<SenderId>, P> {
        if self.closed {
            return Err(write);
        }
        self.waiting.push_back(write);
        Ok(match self.idle.pop() {
            Some((_, resume)) => {
                // A sender whose idle time has just ended finds that it is no longer listed as idle, and goes on.
                let _ = resume.send(());
                None
            }
            None => self.add_sender(),
        })
    }

    /// Puts writes back in front: their batch was not sent. Called by a sender, which goes on.
    pub(crate) fn put_back(&mut self, writes: Vec<P>) {
        for write in writes.into_iter().rev() {
            self.waiting.push_front(write);
        }
    }

    /// The next batch of a sender, which becomes idle if there is none. A write that exceeds `bytes_max` is sent alone.
    pub(crate) fn next_batch(&mut self, sender: SenderId) -> NextBatch<P> {
        if self.waiting.is_empty() {
            let (resume, resumed) = oneshot::channel();
            self.idle.push((sender, resume));
            return NextBatch::Idle(resumed);
        }
        let mut bytes = 0usize;
        let fits = self.waiting.iter().take(self.batch_max).take_while(|write| {
            bytes = bytes.saturating_add((self.bytes_of)(write));
            bytes <= self.bytes_max
        });
        let count = fits.count().max(1);
        NextBatch::Writes(self.waiting.drain(..count).collect())
    }

    /// Ends a sender that is still idle. `false`: it was resumed, and must ask for its next batch.
    pub(crate) fn end_if_idle(&mut self, sender: SenderId) -> bool {
        let index = self.idle.iter().position(|(idle, _)| *idle == sender);
        if let Some(index) = index {
            self.idle.swap_remove(index);
            self.senders -= 1;
        }
        index.is_some()
    }

    /// A sender that was not idle has ended. `Some`: writes are pending, so another was added and must be run.
    pub(crate) fn sender_ended(&mut self) -> Option<SenderId> {
        self.senders -= 1;
        self.add_sender()
    }

    /// Rejects new writes; pending ones are still sent.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Rejects new writes and returns the pending ones, which no sender can send any more.
    pub(crate) fn abandon(&mut self) -> VecDeque<P> {
        self.closed = true;
        std::mem::take(&mut self.waiting)
    }

    fn add_sender(&mut self) -> Option<SenderId> {
        if self.waiting.is_empty() || self.senders >= self.senders_max {
            return None;
        }
        self.senders += 1;
        self.last_sender += 1;
        Some(self.last_sender)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn writes<P>(next: NextBatch<P>) -> Vec<P> {
        match next {
            NextBatch::Writes(writes) => writes,
            NextBatch::Idle(_) => Vec::new(),
        }
    }

    /// A batch ends before it has too many bytes, and a write with too many for any batch is sent alone.
    #[test]
    fn batches_are_limited_in_bytes() {
        let mut pending = PendingWrites::new(1, 10, 100, |bytes| *bytes);
        for bytes in [60, 40, 1, 500, 5] {
            assert!(pending.add(bytes).is_ok());
        }
        assert_eq!(writes(pending.next_batch(1)), [60, 40]);
        assert_eq!(writes(pending.next_batch(1)), [1]);
        assert_eq!(writes(pending.next_batch(1)), [500]);
        pending.put_back(vec![8, 9]);
        assert_eq!(writes(pending.next_batch(1)), [8, 9, 5]);
        assert!(writes(pending.next_batch(1)).is_empty());
    }

    /// What a sender does next.
    #[derive(Debug)]
    enum Sender {
        NextBatch,
        Sending,
        Idle(oneshot::Receiver<()>),
        Dying,
    }

    struct World {
        pending: PendingWrites<u32>,
        senders: Vec<(SenderId, Sender)>,
        sent: Vec<u32>,
    }

    impl World {
        fn run(&mut self, sender: Option<SenderId>) {
            self.senders.extend(sender.map(|id| (id, Sender::NextBatch)));
        }

        /// One step of a sender. An idle one either is resumed or finds its time over, in either order.
        fn step(&mut self, at: usize, random: u8) {
            let (id, sender) = self.senders.remove(at);
            let next = match sender {
                Sender::NextBatch => match self.pending.next_batch(id) {
                    NextBatch::Writes(writes) => {
                        self.sent.extend(writes);
                        Sender::Sending
                    }
                    NextBatch::Idle(resumed) => Sender::Idle(resumed),
                },
                Sender::Sending if random > 200 => Sender::Dying,
                Sender::Sending => Sender::NextBatch,
                Sender::Idle(mut resumed) => match random % 3 {
                    0 if resumed.try_recv().is_err() => Sender::Idle(resumed),
                    1 if self.pending.end_if_idle(id) => return,
                    0 | 1 => Sender::NextBatch,
                    _ => Sender::Idle(resumed),
                },
                Sender::Dying => {
                    let replacement = self.pending.sender_ended();
                    return self.run(replacement);
                }
            };
            self.senders.push((id, next));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Writes are added and senders take their steps in any order; some senders die while sending, and a sender may
        /// be resumed just when its idle time ends. No write is ever left without a sender that will send it, no more
        /// senders exist than allowed, and every write is sent once, in order.
        #[test]
        fn no_write_waits_for_a_sender_that_has_ended(
            steps in prop::collection::vec((0usize..4, any::<u8>()), 1..200),
            senders_max in 1usize..4,
            batch_max in 1usize..5,
        ) {
            let pending = PendingWrites::new(senders_max, batch_max, 100, |write| *write as usize * 37 % 150);
            let mut world = World { pending, senders: Vec::new(), sent: Vec::new() };
            let mut added = 0u32;
            for (what, random) in steps {
                if what == 0 {
                    added += 1;
                    let started = world.pending.add(added).expect("open");
                    world.run(started);
                } else if !world.senders.is_empty() {
                    let at = usize::from(random) % world.senders.len();
                    world.step(at, random);
                }
                prop_assert!(world.senders.len() <= senders_max);
                prop_assert_eq!(world.senders.len(), world.pending.senders);
                let idle = world.pending.idle.len();
                prop_assert!(world.pending.waiting.is_empty() || world.senders.len() > idle);
            }
            for _ in 0..10_000 {
                if world.senders.is_empty() {
                    break;
                }
                world.step(0, 1);
            }
            prop_assert!(world.senders.is_empty());
            prop_assert_eq!(world.sent, (1..=added).collect::<Vec<_>>());
            world.pending.close();
            prop_assert_eq!(world.pending.add(0), Err(0));
        }
    }
}
