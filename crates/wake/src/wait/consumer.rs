//! Intentions: who waits for what.
//!
//! [`Consumer::claim`] takes a seat in the group of its key, in a bounded registry, and sleeps. A seat whose owner goes away
//! leaves at once. When to look is decided in [`group`](crate::wait::group) and done in [`look`](crate::wait::poll); how items reach a seat
//! and come back from it is in [`handover`](crate::wait::handover), what happens by the clock in [`alarm`](crate::wait::alarm).

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pg::Database;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use crate::error::{Error, Result, broken};
use crate::metrics::{ConsumerMetrics, Counts};
use crate::notify::channel::Topic;
use crate::notify::dispatcher::{Dispatcher, GroupId, ListenerState, WakeTarget};
use crate::options::{AggressiveOn, BROADCAST_CAP, Options, Strategy};
use crate::underway::Underway;
use crate::wait::alarm::{Alarm, Sweep, keep_time};
use crate::wait::claim::{Claim, Claimed};
use crate::wait::group::{Group, ListenerEpoch, NewWaiter, Rules, WaiterId};
use crate::wait::mode::{Event, Mode};
use crate::wait::prefetch::Prefetch;
use crate::wait::timer::Timers;

/// How long after its deadline a claim waits for a look that is being made for it.
const OVERTIME: Duration = Duration::from_secs(1);

/// Claims one kind of work for everybody who waits for it. Cheap to clone; made by [`Wake::consumer`](crate::Wake::consumer).
pub struct Consumer<C: Claim> {
    inner: Arc<Inner<C>>,
}

impl<C: Claim> Clone for Consumer<C> {
    fn clone(&self) -> Self {
        Consumer { inner: self.inner.clone() }
    }
}

/// How a consumer is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerHealth {
    /// Its name.
    pub name: Arc<str>,
    /// Whether it polls instead of sleeping until rung.
    pub polling: bool,
    /// Waiting intentions.
    pub waiters: usize,
    /// Groups remembered.
    pub groups: usize,
}

impl<C: Claim> Consumer<C> {
    pub(crate) fn start(
        name: &str,
        claim: C,
        db: &Database,
        dispatcher: &Arc<Dispatcher>,
        options: &Arc<Options>,
    ) -> Self {
        let now = Instant::now();
        // At most half the pool: more looks would only queue up there, in front of the writes.
        let half = db.pool().options().get_max_connections() as usize / 2;
        let at_a_time = options.concurrent_polls.min(half).max(1);
        let for_rung = if options.wake_ups_first { at_a_time / 4 } else { 0 };
        let inner = Arc::new_cyclic(|me: &Weak<Inner<C>>| Inner {
            name: name.into(),
            claim,
            db: db.clone(),
            dispatcher: dispatcher.clone(),
            rules: Rules {
                cap: (options.strategy == Strategy::Broadcast).then_some(BROADCAST_CAP),
                grace: match options.aggressive_on {
                    AggressiveOn::EveryWake => options.timer_grace_period,
                    AggressiveOn::Faults => Duration::ZERO,
                },
                poll_interval: options.aggressive_poll_interval,
            },
            options: options.clone(),
            runtime: Handle::current(),
            me: me.clone(),
            state: Mutex::new(State {
                groups: HashMap::new(),
                ids: HashMap::new(),
                vacant: BTreeSet::new(),
                timers: Timers::new(),
                mode: Mode::new(options, false),
                hearing: None,
                waiters: 0,
                last_id: 0,
                closed: false,
                fallback_at: now + options.fallback_poll_interval,
                rung_elsewhere_at: None,
                sweeping: Sweep::Resting,
            }),
            polls: Semaphore::new(at_a_time),
            arrivals: Semaphore::new(at_a_time - for_rung),
            underway: Underway::new(),
            alarm_changed: Arc::default(),
            metrics: ConsumerMetrics::new(name),
        });
        {
            // Under the lock, so that word from the listener comes after what is known of it here.
            let mut state = inner.state();
            let (hearing, listener) = dispatcher.add(inner.target());
            state.hearing = hearing;
            match listener {
                ListenerState::Off => inner.feed(&mut state, Event::ListenRefused, now),
                ListenerState::Lost { .. } => inner.feed(&mut state, Event::ListenerLost, now),
                ListenerState::Connected => inner.feed(&mut state, Event::ListenerHears, now),
                // It will say how it went.
                ListenerState::Connecting => {}
            }
        }
        inner.runtime.spawn(keep_time(Arc::downgrade(&inner), inner.alarm_changed.clone()));
        Consumer { inner }
    }

    /// Claims up to `want` items now or as soon as there are some.
    ///
    /// `Ok(None)` means the deadline. A waiter that joins a group known to be empty makes no query, nor does one for whom
    /// something was [claimed ahead](Claim::prefetches); in every other case at least one look is made for it, and a look under
    /// way at the deadline is waited for, up to a second. A deadline that is not in the future means
    /// [`claim_now`](Self::claim_now).
    ///
    /// # Errors
    /// [`Error::Full`] beyond `max_waiters`; [`Error::Refused`] if the database refuses this claim; [`Error::Unavailable`]
    /// if it could not be reached by the deadline (until then failures are absorbed); [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Dropping the future gives up the seat at once; what was claimed for it goes to another waiter or back to the table,
    /// uncharged.
    pub async fn claim(
        &self,
        key: C::Key,
        want: usize,
        args: C::Args,
        deadline: Instant,
    ) -> Result<Option<Claimed<C>>> {
        if deadline <= Instant::now() {
            return self.claim_now(key, want, args).await;
        }
        let (registration, mut answer) = self.inner.enroll(key, want, args, true)?;
        let answered = tokio::select! {
            biased;
            answered = &mut answer => answered,
            () = sleep_until(deadline) => {
                registration.expire();
                match timeout(OVERTIME, answer).await {
                    Ok(answered) => answered,
                    Err(_) => {
                        let source = Arc::new(broken(io::ErrorKind::TimedOut, "no answer in time"));
                        return Err(Error::Unavailable { what: self.inner.name.clone(), source });
                    }
                }
            }
        };
        answered.unwrap_or_else(|_| Err(self.inner.closed()))
    }

    /// Claims up to `want` items that are there now; looks, unless something was claimed ahead. `Ok(None)` means there were none.
    ///
    /// # Errors
    /// As [`claim`](Self::claim); a failure is not absorbed.
    ///
    /// # Cancel safety
    /// As [`claim`](Self::claim).
    pub async fn claim_now(&self, key: C::Key, want: usize, args: C::Args) -> Result<Option<Claimed<C>>> {
        let (_ticket, answer) = self.inner.enroll(key, want, args, false)?;
        answer.await.unwrap_or_else(|_| Err(self.inner.closed()))
    }

    /// Ends every wait with [`Error::Closed`], refuses new ones, and returns when nothing is under way any more: what a look in
    /// the air had claimed is back in the table.
    pub async fn close(&self) {
        self.inner.close();
        self.inner.underway.ended().await;
    }

    /// What it has counted since it was made.
    pub fn counts(&self) -> Counts {
        self.inner.metrics.counts()
    }

    /// How it is doing.
    pub fn health(&self) -> ConsumerHealth {
        WakeTarget::health(&*self.inner)
    }
}

pub(crate) type Reply<C> = Result<Option<Claimed<C>>>;

pub(crate) struct WaitHandle<C: Claim> {
    pub(crate) args: Arc<C::Args>,
    pub(crate) reply: oneshot::Sender<Reply<C>>,
}

pub(crate) struct Inner<C: Claim> {
    pub(crate) name: Arc<str>,
    pub(crate) claim: C,
    pub(crate) db: Database,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) rules: Rules,
    pub(crate) options: Arc<Options>,
    pub(crate) runtime: Handle,
    pub(crate) me: Weak<Inner<C>>,
    pub(crate) state: Mutex<State<C>>,
    pub(crate) polls: Semaphore,
    /// Those of them that groups may make to which somebody merely came.
    pub(crate) arrivals: Semaphore,
    /// Loops that run and items on their way back.
    pub(crate) underway: Underway,
    pub(crate) alarm_changed: Arc<Notify>,
    pub(crate) metrics: ConsumerMetrics,
}

pub(crate) struct State<C: Claim> {
    pub(crate) groups: HashMap<GroupId, Entry<C>>,
    pub(crate) ids: HashMap<C::Key, GroupId>,
    /// Groups without waiters, the one left longest first.
    pub(crate) vacant: BTreeSet<(Instant, GroupId)>,
    pub(crate) timers: Timers<Alarm>,
    pub(crate) mode: Mode,
    pub(crate) hearing: ListenerEpoch,
    pub(crate) waiters: usize,
    pub(crate) last_id: u64,
    pub(crate) closed: bool,
    pub(crate) fallback_at: Instant,
    /// When another process last rang a channel of this consumer.
    pub(crate) rung_elsewhere_at: Option<Instant>,
    pub(crate) sweeping: Sweep,
}

pub(crate) struct Entry<C: Claim> {
    pub(crate) key: C::Key,
    pub(crate) topics: Vec<Topic>,
    pub(crate) group: Group<WaitHandle<C>>,
    /// In their guards: whatever becomes of the group, they find their way back.
    pub(crate) prefetch: Prefetch<Claimed<C>>,
    /// Its loop is running: whoever gives it a reason to look need not start it.
    pub(crate) running: bool,
    /// Its place among the vacant groups, if it has one.
    pub(crate) vacant_since: Option<Instant>,
}

impl<C: Claim> Entry<C> {
    /// Whether it may be forgotten without a loss.
    pub(crate) fn is_vacant(&self) -> bool {
        self.group.is_vacant() && self.prefetch.is_empty()
    }
}

/// A taken seat. Dropped, it is given up.
struct Registration<C: Claim> {
    inner: Arc<Inner<C>>,
    group: GroupId,
    waiter: WaiterId,
}

impl<C: Claim> Registration<C> {
    fn expire(&self) {
        let now = Instant::now();
        let mut state = self.inner.state();
        let Some(entry) = state.groups.get_mut(&self.group) else { return };
        let dismissed = entry.group.expire(self.waiter, now);
        state.waiters -= usize::from(dismissed.is_some());
        self.inner.settled(&mut state, self.group);
        drop(state);
        self.inner.dismiss(dismissed);
    }
}

impl<C: Claim> Drop for Registration<C> {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut state = self.inner.state();
        let Some(entry) = state.groups.get_mut(&self.group) else { return };
        let left = entry.group.leave(self.waiter, now);
        if left.is_some() {
            state.waiters -= 1;
            self.inner.settled(&mut state, self.group);
        }
        drop(state);
    }
}

impl<C: Claim> Inner<C> {
    pub(crate) fn state(&self) -> MutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This consumer as the dispatcher sees it.
    fn target(&self) -> Weak<dyn WakeTarget> {
        self.me.clone()
    }

    fn closed(&self) -> Error {
        Error::Closed { what: self.name.clone() }
    }

    /// Takes a seat, and starts the group's loop if it has to look.
    fn enroll(
        self: &Arc<Self>,
        key: C::Key,
        want: usize,
        args: C::Args,
        waits: bool,
    ) -> Result<(Registration<C>, oneshot::Receiver<Reply<C>>)> {
        let now = Instant::now();
        let visibility_key = self.claim.visibility_key(&args);
        let (reply, answer) = oneshot::channel();
        let mut state = self.state();
        if state.closed {
            return Err(self.closed());
        }
        if state.waiters >= self.options.max_waiters {
            self.metrics.refused.add(1);
            return Err(Error::Full { consumer: self.name.clone(), limit: self.options.max_waiters });
        }
        let group = self.group_of(&mut state, key, now);
        state.last_id += 1;
        let (waiter, hearing) = (state.last_id, state.hearing);
        if let Some(entry) = state.groups.get_mut(&group) {
            if self.prefetches() {
                if !entry.is_vacant() {
                    entry.prefetch.arrived(now);
                }
                if let Some(item) =
                    entry.prefetch.take(now, |kept| kept.iter().all(|item| self.claim.fits(item, &args)))
                {
                    drop(reply.send(Ok(Some(item))));
                    self.settled(&mut state, group);
                    drop(state);
                    return Ok((Registration { inner: self.clone(), group, waiter }, answer));
                }
            }
            let new_waiter = NewWaiter {
                waiter: WaitHandle { args: Arc::new(args), reply },
                want: want.max(1),
                visibility_key,
                waits,
            };
            entry.group.enroll(waiter, new_waiter, now, hearing, &self.rules);
        }
        state.waiters += 1;
        self.settled(&mut state, group);
        drop(state);
        Ok((Registration { inner: self.clone(), group, waiter }, answer))
    }

    /// Whether looks may take items ahead. Under [`Strategy::Broadcast`] every waiter looks for itself.
    pub(crate) fn prefetches(&self) -> bool {
        self.claim.prefetches() && self.options.strategy == Strategy::Competing
    }

    /// The group of a key; made, and subscribed to its topics, if there is none.
    fn group_of(&self, state: &mut State<C>, key: C::Key, now: Instant) -> GroupId {
        let alone = self.options.strategy == Strategy::Broadcast;
        if let Some(id) = state.ids.get(&key).filter(|_| !alone) {
            return *id;
        }
        if state.groups.len() >= self.options.max_groups
            && let Some((_, left_longest)) = state.vacant.first().copied()
        {
            self.forget(state, left_longest);
        }
        state.last_id += 1;
        let id = state.last_id;
        let topics = self.claim.topics(&key);
        if self.dispatcher.subscribe(&topics, &self.target(), id) {
            self.doubted(state, now);
        }
        if !alone {
            state.ids.insert(key.clone(), id);
        }
        let (group, prefetch) = (Group::new(now), Prefetch::new(now));
        state.groups.insert(id, Entry { key, topics, group, prefetch, running: false, vacant_since: None });
        id
    }

    pub(crate) fn forget(&self, state: &mut State<C>, id: GroupId) {
        let Some(entry) = state.groups.remove(&id) else { return };
        if let Some(since) = entry.vacant_since {
            state.vacant.remove(&(since, id));
        }
        state.timers.set(Alarm::Group(id), None);
        if state.ids.get(&entry.key) == Some(&id) {
            state.ids.remove(&entry.key);
        }
        self.dispatcher.unsubscribe(&entry.topics, &self.target(), id);
    }

    /// A group was changed: starts its loop if it is eager, sets its alarm, keeps the books.
    pub(crate) fn settled(&self, state: &mut State<C>, id: GroupId) {
        let Some(entry) = state.groups.get_mut(&id) else { return };
        if entry.group.is_eager()
            && !entry.running
            && let Some(me) = self.me.upgrade()
        {
            entry.running = true;
            let passage = self.underway.begin();
            self.runtime.spawn(me.arm_poll_sleep(id, passage));
        }
        let vacant = (entry.is_vacant() && !entry.running).then(|| entry.group.vacant_since());
        let before = std::mem::replace(&mut entry.vacant_since, vacant);
        // Without waiters that is when it may be forgotten, which what it has taken ahead comes before.
        let at = entry.group.wake_at(&self.rules).filter(|_| !entry.group.is_vacant() || entry.prefetch.is_empty());
        let kept_until = entry.prefetch.until();
        let asleep = entry.group.is_asleep();
        if before != vacant {
            before.map(|since| state.vacant.remove(&(since, id)));
            vacant.map(|since| state.vacant.insert((since, id)));
        }
        if vacant.is_some() && self.options.strategy == Strategy::Broadcast {
            return self.forget(state, id);
        }
        self.set_alarm(state, Alarm::Group(id), at);
        self.set_alarm(state, Alarm::Prefetch(id), kept_until);
        if asleep {
            self.arm_fallback(state);
            self.arm_poll(state);
        }
        self.metrics.size(state.groups.len(), state.waiters);
    }

    fn close(self: &Arc<Self>) {
        let now = Instant::now();
        let (mut waiters, mut kept) = (Vec::new(), Vec::new());
        {
            let mut state = self.state();
            state.closed = true;
            state.waiters = 0;
            let everyone: Vec<GroupId> = state.groups.keys().copied().collect();
            for id in everyone {
                if let Some(entry) = state.groups.get_mut(&id) {
                    waiters.extend(entry.group.drain(now));
                    kept.push((entry.key.clone(), entry.prefetch.drain()));
                    self.settled(&mut state, id);
                }
            }
            for alarm in [Alarm::Poll, Alarm::Fallback, Alarm::Trailing] {
                state.timers.set(alarm, None);
            }
        }
        for waiter in waiters {
            drop(waiter.reply.send(Err(self.closed())));
        }
        self.return_kept(kept);
    }
}

impl<C: Claim> Drop for Inner<C> {
    fn drop(&mut self) {
        // Lets the timekeeper see that there is nothing left to keep time for.
        self.alarm_changed.notify_one();
        let groups = std::mem::take(&mut self.state().groups);
        for (id, entry) in groups {
            self.dispatcher.unsubscribe(&entry.topics, &self.target(), id);
        }
        self.dispatcher.remove(&self.target());
    }
}
