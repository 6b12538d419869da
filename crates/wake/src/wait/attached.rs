//! Polls that a write batch makes in its own statement.
//!
//! A write often makes work for waiters of the same process: a push for a parked pop, a completed step for an idle
//! worker. Without more, that is two statements in a row: the write commits, and the wake-up polls. So the statement
//! that commits a batch may also claim: for one group of waiters that are asleep and that the batch would wake. What it
//! claims arrives with the outcomes.
//!
//! An attached poll is a poll like any other. It begins before the statement, so a wake-up that comes meanwhile is
//! remembered. It claims by the same rule, oldest due first. Two things differ. The wake-ups of the batch itself do not
//! wake its group, because the claim saw what the batch wrote. And a statement without a result says nothing about what
//! is due: then the poll is *abandoned*, and the group makes another. That also happens to a statement that takes longer
//! than [`ATTACHED_FOR`], so that waiters never wait for the locks or the disk of a write; what it claims is given back.
//!
//! If the answer is lost, the claims are unanswered like those of any poll. But they can be given back only when the
//! batch has surely committed or never will; so until its outcome is resolved, the [`SentClaims`] stay with the batch.
//!
//! A group that is polling, or about to, is left alone: its next poll finds the work.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::in_progress::InProgressGuard;
use crate::notify::channel::WakeUp;
use crate::notify::dispatcher::{GroupId, Subscriber, address};
use crate::wait::claim::{Claim, PollRequest, PollResult};
use crate::wait::consumer::{Consumer, Inner};
use crate::wait::poll::{PollOutcome, RunningPoll};
use crate::wait::unanswered::SentClaims;

/// How long a group waits for the statement of a write: a commit takes a few milliseconds unless the disk is slow.
pub(crate) const ATTACHED_FOR: Duration = Duration::from_millis(100);

/// A poll that the statement of a write batch makes; from [`WriteBatch::attach`](crate::WriteBatch::attach). If it has
/// no result when the batch has ended, its group makes another poll.
pub struct AttachedPoll<C: Claim>(Arc<Attached<C>>);

struct Attached<C: Claim> {
    inner: Arc<Inner<C>>,
    group: GroupId,
    request: Arc<PollRequest<C::Key, C::Args>>,
    /// The names of the claims.
    sent: Mutex<Option<Box<dyn Answer>>>,
    /// `None`: it has ended.
    poll: Mutex<Option<RunningPoll<C>>>,
    _in_progress: InProgressGuard,
}

impl<C: Claim> Consumer<C> {
    /// Begins a poll for waiters that these wake-ups concern now.
    pub(crate) fn attach(&self, wake_ups: &[WakeUp]) -> Option<AttachedPoll<C>> {
        let inner = &self.inner;
        let groups = inner.dispatcher.groups_of(&inner.wake_target(), wake_ups);
        let (group, poll) = inner.begin_attached_poll(&groups)?;
        Some(AttachedPoll(Arc::new(Attached {
            inner: inner.clone(),
            group,
            request: poll.request.clone(),
            sent: Mutex::default(),
            poll: Mutex::new(Some(poll)),
            _in_progress: inner.in_progress.begin(),
        })))
    }
}

impl<C: Claim> AttachedPoll<C> {
    /// The waiters to claim for.
    pub fn request(&self) -> &PollRequest<C::Key, C::Args> {
        &self.0.request
    }

    /// The claim of the consumer.
    pub fn claim(&self) -> &C {
        &self.0.inner.claim
    }

    /// Keeps the names of the claims until the batch has ended: they are answered if its result has them, and otherwise
    /// unanswered.
    pub fn sends<T: Send + 'static>(&self, claims: SentClaims<T>) {
        *self.0.sent.lock() = Some(Box::new(claims));
    }

    pub(crate) fn detachable(&self) -> Arc<dyn Detachable> {
        self.0.clone()
    }
}

/// Claims that may be answered.
trait Answer: Send {
    fn answered(self: Box<Self>);
}

impl<T: Send> Answer for SentClaims<T> {
    fn answered(self: Box<Self>) {
        SentClaims::answered(*self);
    }
}

impl<C: Claim> Drop for Attached<C> {
    fn drop(&mut self) {
        // First, so that the next poll gives back what this one has claimed.
        self.sent.get_mut().take();
        self.detach();
    }
}

impl<C: Claim> fmt::Debug for AttachedPoll<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttachedPoll").field("request.key", &self.0.request.key).finish_non_exhaustive()
    }
}

/// An attached poll whose statement is running.
pub(crate) trait Detachable: Send + Sync {
    /// Lets the group make another poll, unless this one has ended.
    fn detach(&self);
}

impl<C: Claim> Detachable for Attached<C> {
    fn detach(&self) {
        if self.poll.lock().take().is_some() {
            self.inner.abandon_attached_poll(self.group);
        }
    }
}

/// What the statement of a batch has claimed for a group.
pub(crate) trait BatchClaim: Send {
    /// The group that needs no wake-up by this batch; `None` if its poll was abandoned.
    fn covers(&self) -> Option<Subscriber>;
    /// Delivers the items.
    fn deliver(self: Box<Self>);
}

pub(crate) struct AttachedResult<C: Claim> {
    pub(crate) poll: AttachedPoll<C>,
    pub(crate) result: PollResult<C::Item>,
}

impl<C: Claim> BatchClaim for AttachedResult<C> {
    fn covers(&self) -> Option<Subscriber> {
        let Attached { inner, group, poll, .. } = &*self.poll.0;
        poll.lock().is_some().then(|| (address(&inner.wake_target()), *group))
    }

    fn deliver(self: Box<Self>) {
        let AttachedResult { poll, result } = *self;
        let Attached { inner, group, request, sent, poll: running, .. } = &*poll.0;
        if let Some(sent) = sent.lock().take() {
            sent.answered();
        }
        let running = running.lock().take();
        let outcome = PollOutcome::of(result);
        match running {
            Some(running) => inner.apply_outcome(*group, running, outcome),
            None => inner.give_back(request.key.clone(), outcome.items.into_iter().map(|(_, item)| item).collect()),
        }
    }
}
