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
//! batch has surely committed or never will; so the [`SentClaims`] stay with the batch until its outcome is known.
//!
//! A group that is polling, or about to, is left alone: its next poll finds the work.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use reveille_pg::Session;

use crate::in_progress::InProgressGuard;
use crate::notify::channel::WakeUp;
use crate::notify::dispatcher::{GroupId, Subscriber, address};
use crate::wait::claim::{Claim, PollRequest, PollResult};
use crate::wait::consumer::{Consumer, Inner};
use crate::wait::poll::{PollOutcome, RunningPoll};
use crate::wait::unanswered::SentClaims;

/// How long a group waits for the statement of a write: a commit takes a few milliseconds unless the disk is slow.
pub(crate) const ATTACHED_FOR: Duration = Duration::from_millis(100);

/// A poll that the statement of a write batch makes. Cheap to clone; from [`WriteBatch::attach`](crate::WriteBatch::attach). If it has
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

    /// Keeps the names of the claims until the batch has ended. If its answer is lost, they are unanswered.
    pub fn keep_sent<T: Send + 'static>(&self, claims: SentClaims<T>) {
        *self.0.sent.lock() = Some(Box::new(claims));
    }

    /// A session, for what [`BatchResult::with_claims_later`](crate::BatchResult::with_claims_later) has to load.
    ///
    /// # Errors
    /// If the database cannot be reached.
    pub async fn session(&self) -> reveille_pg::Result<Session> {
        self.0.inner.db.session().await
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

impl<C: Claim> Clone for AttachedPoll<C> {
    fn clone(&self) -> Self {
        AttachedPoll(self.0.clone())
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
    /// The statement has surely not committed, so that it has claimed nothing.
    fn nothing_claimed(&self);
}

impl<C: Claim> Detachable for Attached<C> {
    fn detach(&self) {
        if self.poll.lock().take().is_some() {
            self.inner.abandon_attached_poll(self.group);
        }
    }

    fn nothing_claimed(&self) {
        if let Some(sent) = self.sent.lock().take() {
            sent.answered();
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

/// The result of an attached poll.
pub(crate) struct AttachedResult<C: Claim> {
    pub(crate) poll: AttachedPoll<C>,
    pub(crate) claimed: Claimed<C::Item>,
}

pub(crate) enum Claimed<I> {
    Complete(PollResult<I>),
    /// Something has to be loaded.
    Incomplete(Pin<Box<dyn Future<Output = reveille_pg::Result<PollResult<I>>> + Send>>),
}

impl<C: Claim> BatchClaim for AttachedResult<C> {
    fn covers(&self) -> Option<Subscriber> {
        let Attached { inner, group, poll, .. } = &*self.poll.0;
        poll.lock().is_some().then(|| (address(&inner.wake_target()), *group))
    }

    fn deliver(self: Box<Self>) {
        let AttachedResult { poll, claimed } = *self;
        let mut loading = match claimed {
            Claimed::Complete(result) => return poll.deliver(Ok(result)),
            Claimed::Incomplete(loading) => loading,
        };
        // Usually everything is cached.
        match loading.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => poll.deliver(result),
            Poll::Pending => {
                let inner = poll.0.inner.clone();
                // As long as any poll may take: the waiters of the group wait for it.
                inner.runtime.clone().spawn(async move {
                    let result = inner.within_timeout(loading).await;
                    poll.deliver(result);
                });
            }
        }
    }
}

impl<C: Claim> AttachedPoll<C> {
    fn deliver(self, result: reveille_pg::Result<PollResult<C::Item>>) {
        let Attached { inner, group, request, sent, poll, .. } = &*self.0;
        let outcome = match result {
            Ok(result) => PollOutcome::of(result),
            Err(error) => {
                tracing::warn!(consumer = &*inner.name, %error, "cannot read what a write has claimed");
                return;
            }
        };
        if let Some(sent) = sent.lock().take() {
            sent.answered();
        }
        let running = poll.lock().take();
        match running {
            Some(running) => inner.apply_outcome(*group, running, outcome),
            None => inner.give_back(request.key.clone(), outcome.items.into_iter().map(|(_, item)| item).collect()),
        }
    }
}
