//! What a product says about claiming: one statement, and how to give back.

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

/// A seat that does not exist.
const NOBODY: usize = usize::MAX;

/// A due time farther away than this (thirty years) is as good as never, and infinity does not break arithmetic.
const LATEST_MS: f64 = 30.0 * 365.0 * 86_400_000.0;

/// Work of one kind: how to take it, and how to hand it back.
///
/// The whole of a product's waiting is [`look`](Claim::look), one method around one SQL statement. It takes what is due
/// with `FOR UPDATE SKIP LOCKED`, moves each row's due time to the end of its lease, and answers beside the items when the
/// same filter will next find something.
pub trait Claim: Send + Sync + 'static {
    /// What makes waiters equal: those with the same key are served by one look.
    type Key: Clone + Eq + Hash + fmt::Debug + Send + Sync + 'static;
    /// In what equal waiters may differ: lease time, owner, how to acknowledge.
    type Args: Send + Sync + 'static;
    /// What is claimed. It must know its own token, so that it can be given back.
    type Item: Send + Sync + 'static;

    /// What rings waiters of this key. Called under a lock: be quick, and do not call the consumer.
    fn topics(&self, key: &Self::Key) -> Vec<Topic>;

    /// Claims for the seats of `look`, who come in order of waiting time, at most what each wants.
    ///
    /// Runs at most once at a time per key (under [`Strategy::Broadcast`](crate::Strategy::Broadcast) once per waiter). Dropped
    /// when it takes longer than `poll_timeout`: whatever it claimed by then is due again when its lease ends.
    fn poll(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<Self::Key, Self::Args>,
    ) -> impl Future<Output = pg::Result<PollResult<Self::Item>>> + Send;

    /// Makes items that nobody took due again as they were, without counting the attempt, fenced by their tokens.
    fn give_back(&self, conn: &mut PgConnection, items: &[Self::Item]) -> impl Future<Output = pg::Result<()>> + Send;

    /// Items have been given back: it is committed, and nobody has been rung yet. For what is remembered of where to look.
    fn given_back(&self) {}

    /// Which of these keys have something due, as places in `keys`, by one statement for all of them: the fallback, the look
    /// after another process may have died between writing and ringing, and the poll where nothing can be heard. A key too
    /// many costs a look.
    fn sweep(&self, conn: &mut PgConnection, keys: &[Self::Key])
    -> impl Future<Output = pg::Result<Vec<usize>>> + Send;

    /// What only this waiter and those with the same answer may have, beside what every waiter of its key may: the owner
    /// of sessions, say. A group that knows it is empty knows it for those it looked for.
    fn visibility_key(&self, _args: &Self::Args) -> Option<Box<str>> {
        None
    }

    /// Whether an item whose waiter went away may be handed to a waiter with these arguments as it is. If not, the
    /// default, it goes back to the table. Called under a lock: be quick, and do not call the consumer.
    fn fits(&self, _item: &Self::Item, _args: &Self::Args) -> bool {
        false
    }

    /// Whether a look may take items ahead of the waiters that are about to come ([`Look::ahead`]). For items that are as good
    /// a moment later, and that [`fits`](Self::fits) lets any waiter have: not for what is better claimed late, like a batch that
    /// still grows.
    fn prefetches(&self) -> bool {
        false
    }
}

/// One look: for whom.
#[derive(Debug)]
pub struct PollRequest<K, A> {
    /// The key all seats share.
    pub key: K,
    /// The waiters, in order of waiting time.
    pub waiters: Vec<Waiter<A>>,
    /// How many items more may be taken for waiters that are about to come; zero unless the claim
    /// [`prefetches`](Claim::prefetches) and its waiters crowd.
    pub prefetch: usize,
}

/// One waiter of a look.
#[derive(Debug)]
pub struct Waiter<A> {
    /// How many items it takes at most.
    pub want: usize,
    /// Its arguments.
    pub args: Arc<A>,
    /// How long it has waited.
    pub waited: Duration,
    /// Whether it stays if there is nothing for it. If not, this look is its only one.
    pub waits: bool,
}

impl<K, A> PollRequest<K, A> {
    /// What all seats together want.
    pub fn wanted(&self) -> usize {
        self.waiters.iter().fold(0, |all, waiter| all.saturating_add(waiter.want))
    }

    /// Whether all seats stay if there is nothing for them.
    pub fn waits(&self) -> bool {
        self.waiters.iter().all(|waiter| waiter.waits)
    }
}

/// What a look found.
#[derive(Debug)]
pub struct PollResult<I> {
    pub(crate) items: Vec<(usize, I)>,
    pub(crate) next_due: Option<Duration>,
    pub(crate) due_again: Option<Duration>,
}

impl<I> PollResult<I> {
    /// Nothing yet, and when the claim's own filter, without what this look claimed, finds something next, relative to the
    /// database's clock. `None` means never. Zero means that more is due: beyond what the seats wanted, or, if one of them
    /// went short, locked by a transaction under way, and then the look is repeated soon.
    pub fn new(next_due: Option<Duration>) -> Self {
        let latest = Duration::from_secs_f64(LATEST_MS / 1_000.0);
        PollResult { items: Vec::new(), next_due: next_due.filter(|due| *due < latest), due_again: None }
    }

    /// [`new`](Self::new) with milliseconds as a statement answers them: `null` for never, negative for overdue.
    pub fn next_due_ms(ms: Option<f64>) -> Self {
        Self::new(ms.filter(|ms| *ms < LATEST_MS).map(|ms| Duration::from_secs_f64(ms.max(0.0) / 1_000.0)))
    }

    /// Gives an item to a seat, or, beyond the last seat, to who comes next. `lease` is after how long it is due again if
    /// nobody ends it: a waiter of this group must be there for it. `None` means never, as for an item that was ended by the claim
    /// itself.
    pub fn give(&mut self, waiter: usize, item: I, lease: Option<Duration>) {
        self.items.push((waiter, item));
        self.due_again = earliest([self.due_again, lease]);
    }

    /// Deals items that anybody may have to the seats of `look`: in turns, in order of waiting time. For `lease` see
    /// [`give`](Self::give).
    pub fn deal<K, A>(mut self, poll: &PollRequest<K, A>, items: Vec<I>, lease: Option<Duration>) -> Self {
        let wants: Vec<usize> = poll.waiters.iter().map(|waiter| waiter.want).collect();
        let waiters = share::deal(items.len(), &wants);
        // What was claimed beyond what anybody wanted is for who comes next, or goes back to the table.
        for (waiter, item) in waiters.into_iter().chain(std::iter::repeat(NOBODY)).zip(items) {
            self.give(waiter, item, lease);
        }
        self
    }
}

/// Claimed items on their way to whoever asked for them.
///
/// Dropped, they are given back at once and uncharged: to the next waiter they fit, or to the table. So a caller that goes
/// away while its items travel delays nobody. [`accept`](Claimed::accept) takes them.
pub struct Claimed<C: Claim> {
    items: Vec<C::Item>,
    key: Option<C::Key>,
    home: Arc<Inner<C>>,
}

impl<C: Claim> Claimed<C> {
    pub(crate) fn new(home: Arc<Inner<C>>, key: C::Key, items: Vec<C::Item>) -> Self {
        Claimed { items, key: Some(key), home }
    }

    /// Takes the items for good; from here on their leases are the caller's business.
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
            Inner::give_back(&self.home, key, items);
        }
    }
}
