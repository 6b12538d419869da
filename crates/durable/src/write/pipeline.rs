//! Pipelined acks: calls that return before their commit.
//!
//! A worker slot that waits for the commit of its ack is idle for as long as the disk takes to flush. So the ack of a
//! turn or an activity returns as soon as its write is in the next batch, and the slot fetches the next item. That is
//! sound because no caller can see a difference: until the commit the result is visible to no reader, and the lease keeps
//! every other worker away. If the process dies before the commit, the work is repeated when the lease expires, as it is
//! if the process dies just before the ack.
//!
//! The dangers, and what removes them:
//!
//! - An ack that must fail would seem to succeed. So only the first attempt of an item is pipelined, with a token that
//!   this process claimed, while its lease certainly lasts; every other ack waits for its outcome.
//! - A caller would not see what it has acked. So reads and fetches of this process first wait for the acks that were
//!   under way when they began; a fetch does so only before it returns nothing.
//! - Memory. At most [`Options::pipelined_acks`](crate::Options::pipelined_acks) are under way, each of at most
//!   [`BYTES_MAX`]; beyond that an ack waits for its outcome.
//! - The end of the process. [`PostgresProvider::flush`](crate::PostgresProvider::flush) waits for all of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The default of the option: more than a batch has under load.
pub(crate) const PIPELINED_ACKS: usize = 64;
/// A larger ack waits for its outcome: its transfer takes longer than a flush, and it would hold memory.
pub(crate) const BYTES_MAX: usize = 128 << 10;
/// How long a read that concerns all instances waits for acks under way. One that takes longer waits for a row that some
/// other transaction has locked, or for the database.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// The acks of one provider that are under way and whose callers have been answered.
#[derive(Debug)]
pub(crate) struct Pipeline {
    room: Arc<Semaphore>,
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    /// The instance of each ack under way, escaped.
    pending: BTreeMap<u64, Box<str>>,
}

/// An ack under way; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct PendingAck {
    pipeline: Arc<Pipeline>,
    number: u64,
    _room: OwnedSemaphorePermit,
}

/// The acks that were under way at some time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnderWay {
    /// The last of them; earlier ones may have ended by then.
    last: u64,
}

impl Pipeline {
    /// With room for so many acks; zero: none is pipelined.
    pub(crate) fn new(acks: usize) -> Pipeline {
        let room = Arc::new(Semaphore::new(acks.min(Semaphore::MAX_PERMITS)));
        Pipeline { room, state: Mutex::default(), ended: Notify::new() }
    }

    /// Begins an ack; `None`: there is no room.
    pub(crate) fn begin(self: &Arc<Self>, instance: &str) -> Option<PendingAck> {
        let room = self.room.clone().try_acquire_owned().ok()?;
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        state.pending.insert(number, instance.into());
        drop(state);
        Some(PendingAck { pipeline: self.clone(), number, _room: room })
    }

    /// The acks that are under way; `None`: there are none.
    pub(crate) fn under_way(&self) -> Option<UnderWay> {
        let state = self.state.lock();
        (!state.pending.is_empty()).then_some(UnderWay { last: state.last })
    }

    /// Returns when these acks have ended, or after [`WAIT_MAX`].
    pub(crate) async fn ended(&self, acks: UnderWay) {
        let _ = timeout(WAIT_MAX, self.wait(acks, |_| true)).await;
    }

    /// Returns when the acks of the instance that are under way have ended.
    pub(crate) async fn ended_of(&self, instance: &str) {
        if let Some(acks) = self.under_way() {
            self.wait(acks, |of| of == instance).await;
        }
    }

    /// Returns when all acks that are under way have ended.
    pub(crate) async fn all_ended(&self) {
        if let Some(acks) = self.under_way() {
            self.wait(acks, |_| true).await;
        }
    }

    async fn wait(&self, acks: UnderWay, concerns: impl Fn(&str) -> bool) {
        loop {
            // Registered before the check, so that an ack that ends between the two is noticed.
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if !self.state.lock().pending.range(..=acks.last).any(|(_, instance)| concerns(instance)) {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for PendingAck {
    fn drop(&mut self) {
        self.pipeline.state.lock().pending.remove(&self.number);
        self.pipeline.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// The number of acks is bounded, and zero allows none.
    #[test]
    fn acks_are_bounded() {
        assert!(Arc::new(Pipeline::new(0)).begin("a").is_none());
        let pipeline = Arc::new(Pipeline::new(2));
        let (first, second) = (pipeline.begin("a"), pipeline.begin("a"));
        assert!(first.is_some() && second.is_some() && pipeline.begin("b").is_none());
        drop(first);
        assert!(pipeline.begin("b").is_some());
    }

    /// A wait covers the acks that had begun, of its instance only, and not those that begin later.
    #[tokio::test(start_paused = true)]
    async fn a_wait_covers_earlier_acks_of_its_instance() {
        let pipeline = Arc::new(Pipeline::new(9));
        let (a, b) = (pipeline.begin("a"), pipeline.begin("b"));
        let waits = tokio::spawn({
            let pipeline = pipeline.clone();
            async move { pipeline.ended_of("a").await }
        });
        let acks = pipeline.under_way().expect("two are under way");
        tokio::task::yield_now().await;
        let later = pipeline.begin("a");
        assert!(!waits.is_finished());
        drop(a);
        waits.await.expect("only the later ack of `a` is under way");
        let since = Instant::now();
        pipeline.ended(acks).await;
        assert_eq!(since.elapsed(), WAIT_MAX, "`b` is under way");
        drop(b);
        pipeline.ended(acks).await;
        assert_eq!(since.elapsed(), WAIT_MAX, "the earlier acks have ended");
        drop(later);
        assert!(pipeline.under_way().is_none());
    }
}
