//! What a product defines about claiming: one statement, and how to give items back.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use sqlx::PgConnection;

use crate::notify::channel::Topic;
use crate::wait::consumer::Inner;
use crate::wait::share;
use crate::wait::timer::earliest;

/// The index of no waiter: the item is given back.
const NO_WAITER: usize = usize::MAX;

/// A due time farther away than this (thirty years) counts as never, so that infinity does not break arithmetic.
const LATEST_MS: f64 = 30.0 * 365.0 * 86_400_000.0;

/// Work of one kind: how to claim it, and how to give it back.
///
/// A product implements [`poll`](Claim::poll), one method around one SQL statement. It claims due rows with `FOR UPDATE
/// SKIP LOCKED`, moves the due time of each to the end of its lease, and returns, besides the items, when the same
/// filter finds something next.
pub trait Claim: Send + Sync + 'static {
    /// What makes waiters equal: waiters with the same key are served by one poll.
    type Key: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static;
    /// In what equal waiters may differ: lease time, owner, how to acknowledge.
    type Args: Send + Sync + 'static;
    /// What is claimed. It must contain its lease token, so that it can be given back.
    type Item: Send + Sync + 'static;

    /// The topics whose wake-ups concern waiters of this key. Called under a lock: be quick, and do not call the
    /// consumer.
    fn topics(&self, key: &Self::Key) -> Vec<Topic>;

    /// What waiters of this key wait for, in words of the product, for people.
    fn describe(&self, key: &Self::Key) -> String {
        format!("{key:?}")
    }

    /// Claims items for the waiters of `poll`, which are in order of waiting time, at most as many as each wants.
    ///
    /// At most one poll per key runs at a time (under [`Strategy::Broadcast`](crate::Strategy::Broadcast) one per
    /// waiter). It is dropped when it takes longer than `poll_timeout`; what it claimed by then is due again when its
    /// lease ends.
    fn poll(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<Self::Key, Self::Args>,
    ) -> impl Future<Output = reveille_pg::Result<PollResult<Self::Item>>> + Send;

    /// Makes items that were not accepted due again as they were, without counting the attempt, fenced by their tokens.
    fn give_back(
        &self,
        conn: &mut PgConnection,
        items: &[Self::Item],
    ) -> impl Future<Output = reveille_pg::Result<()>> + Send;

    /// Items have been given back and the transaction has committed, but no waiter has been woken yet. For state in
    /// memory that says where to scan, such as [`ScanBounds`](crate::ScanBounds).
    fn given_back(&self) {}

    /// Which of these keys have something due, as indexes into `keys`, by one statement for all of them. Used by the
    /// fallback, by aggressive polling, and after another process may have died between a commit and its notification.
    /// A key too many costs a poll.
    fn sweep(
        &self,
        conn: &mut PgConnection,
        keys: &[Self::Key],
    ) -> impl Future<Output = reveille_pg::Result<Vec<usize>>> + Send;

    /// Names the items that this waiter can claim beyond those that every waiter of its key can: the owner of sessions,
    /// say. A group that is known to be empty is so only for the visibility keys of its polls.
    fn visibility_key(&self, _args: &Self::Args) -> Option<Box<str>> {
        None
    }

    /// Whether the statement of a write batch can claim for waiters of this key: see
    /// [`WriteBatch::attach`](crate::WriteBatch::attach). Called under a lock: be quick, and do not call the consumer.
    fn attaches(&self, _key: &Self::Key) -> bool {
        true
    }

    /// Whether an item whose waiter went away may be handed to a waiter with these arguments as it is. If not, which is
    /// the default, it is given back to the table. Called under a lock: be quick, and do not call the consumer.
    fn fits(&self, _item: &Self::Item, _args: &Self::Args) -> bool {
        false
    }
}

/// One poll: the waiters it is made for.
#[derive(Debug)]
#[non_exhaustive]
pub struct PollRequest<K, A> {
    /// The key that all waiters share.
    pub key: K,
    /// The waiters, in order of waiting time.
    pub waiters: Vec<Waiter<A>>,
}

/// One waiter of a poll.
#[derive(Debug)]
#[non_exhaustive]
pub struct Waiter<A> {
    /// How many items it takes at most.
    pub want: usize,
    /// Its arguments.
    pub args: Arc<A>,
    /// How long it has waited.
    pub waited: Duration,
}

impl<K, A> PollRequest<K, A> {
    /// How many items all waiters together want.
    pub fn wanted(&self) -> usize {
        self.waiters.iter().fold(0, |all, waiter| all.saturating_add(waiter.want))
    }
}

/// What a poll found.
#[derive(Debug)]
pub struct PollResult<I> {
    pub(crate) items: Vec<(usize, I)>,
    pub(crate) next_due: Option<Duration>,
    pub(crate) due_again: Option<Duration>,
}

impl<I> PollResult<I> {
    /// A result without items yet. `next_due` is when the claim's own filter, without what this poll claimed, finds
    /// something next, by the database's clock. `None` means never. Zero means that more is due: beyond what the
    /// waiters wanted, or, if one of them got less than it wanted, locked by another transaction; then the poll is
    /// repeated soon.
    pub fn new(next_due: Option<Duration>) -> Self {
        let latest = Duration::from_secs_f64(LATEST_MS / 1_000.0);
        PollResult { items: Vec::new(), next_due: next_due.filter(|due| *due < latest), due_again: None }
    }

    /// [`new`](Self::new) with milliseconds as a statement returns them: `null` for never, negative for overdue.
    pub fn next_due_ms(ms: Option<f64>) -> Self {
        Self::new(ms.filter(|ms| *ms < LATEST_MS).map(|ms| Duration::from_secs_f64(ms.max(0.0) / 1_000.0)))
    }

    /// Gives an item to a waiter by its index. An index beyond the last one gives it back. `lease` is
    /// when it is due again if it is not completed: the group then polls again. `None` means never, as for an item that
    /// the claim itself has completed.
    pub fn give(&mut self, waiter: usize, item: I, lease: Option<Duration>) {
        self.items.push((waiter, item));
        self.due_again = earliest([self.due_again, lease]);
    }

    /// Deals items that any waiter may have to the waiters of `poll`: in turns, in order of waiting time. For `lease`
    /// see [`give`](Self::give).
    pub fn deal<K, A>(mut self, poll: &PollRequest<K, A>, items: Vec<I>, lease: Option<Duration>) -> Self {
        let wants: Vec<usize> = poll.waiters.iter().map(|waiter| waiter.want).collect();
        let waiters = share::deal(items.len(), &wants);
        // Items beyond what the waiters want are given back.
        for (waiter, item) in waiters.into_iter().chain(std::iter::repeat(NO_WAITER)).zip(items) {
            self.give(waiter, item, lease);
        }
        self
    }
}

/// Claimed items on their way to the caller.
///
/// If this is dropped, they are given back at once and the attempt is not counted: to the next waiter they fit, or to
/// the table. So a caller that goes away before it has its items delays no other. [`accept`](Claimed::accept) takes
/// them.
pub struct Claimed<C: Claim> {
    items: Vec<C::Item>,
    key: Option<C::Key>,
    consumer: Arc<Inner<C>>,
}

impl<C: Claim> Claimed<C> {
    pub(crate) fn new(consumer: Arc<Inner<C>>, key: C::Key, items: Vec<C::Item>) -> Self {
        Claimed { items, key: Some(key), consumer }
    }

    /// Takes the items for good; from here on the caller is responsible for their leases.
    pub fn accept(mut self) -> Vec<C::Item> {
        self.key = None;
        std::mem::take(&mut self.items)
    }
}

impl<C: Claim> Deref for Claimed<C> {
    type Target = Vec<C::Item>;

    fn deref(&self) -> &Self::Target {
        &self.items
    }
}

impl<C: Claim> fmt::Debug for Claimed<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claimed").field("items", &self.items.len()).field("key", &self.key).finish()
    }
}

impl<C: Claim> Drop for Claimed<C> {
    fn drop(&mut self) {
        let items = std::mem::take(&mut self.items);
        if let Some(key) = self.key.take().filter(|_| !items.is_empty()) {
            Inner::give_back(&self.consumer, key, items);
        }
    }
}
