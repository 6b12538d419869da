//! Consumers: the registry of waiters and their groups.
//!
//! [`Consumer::claim`] adds a waiter to the group of its key, in a bounded registry, and sleeps. A waiter whose caller
//! goes away is removed at once. [`group`](crate::wait::group) decides when to poll and [`poll`](crate::wait::poll)
//! does it; [`handover`](crate::wait::handover) has how items reach a waiter and are given back, and
//! [`schedule`](crate::wait::schedule) what happens by the clock.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use reveille_pg::Database;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use crate::error::{Error, Result, broken};
use crate::in_progress::InProgress;
use crate::metrics::{ConsumerMetrics, Counts};
use crate::notify::channel::Topic;
use crate::notify::dispatcher::{Dispatcher, GroupId, ListenerState, WakeTarget};
use crate::options::{AggressiveOn, BROADCAST_CAP, Options, Strategy};
use crate::wait::claim::{Claim, Claimed};
use crate::wait::group::{Group, ListenerEpoch, NewWaiter, Rules, WaiterId};
use crate::wait::mode::{Event, Mode};
use crate::wait::schedule::{SweepState, Timer, run_timers};
use crate::wait::timer::Timers;
use crate::wait::waiting::Latency;

/// How long after its deadline a claim waits for a poll that is being made for it.
const OVERTIME: Duration = Duration::from_secs(1);

/// Claims one kind of work for all who wait for it. Cheap to clone; made by [`Wake::consumer`](crate::Wake::consumer).
pub struct Consumer<C: Claim> {
    pub(crate) inner: Arc<Inner<C>>,
}

impl<C: Claim> Clone for Consumer<C> {
    fn clone(&self) -> Self {
        Consumer { inner: self.inner.clone() }
    }
}

/// The state of a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerHealth {
    /// Its name.
    pub name: Arc<str>,
    /// Whether it polls at `aggressive_poll_interval` instead of sleeping until a wake-up.
    pub polling: bool,
    /// Waiters.
    pub waiters: usize,
    /// Groups, including those remembered without waiters.
    pub groups: usize,
    /// Groups whose waiters sleep until a wake-up or a due time: no poll runs for them, and none is about to.
    pub asleep: usize,
    /// What it has counted since it was made.
    pub counts: Counts,
    /// How long after a wake-up its items came.
    pub latency: Latency,
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
        // At most half the pool: more polls would only queue up there, in front of the writes.
        let half = db.pool().options().get_max_connections() as usize / 2;
        let concurrent_polls = options.concurrent_polls.min(half).max(1);
        let reserved = if options.wake_ups_first { concurrent_polls / 4 } else { 0 };
        let inner = Arc::new_cyclic(|me: &Weak<Inner<C>>| Inner {
            name: name.into(),
            claim,
            db: db.clone(),
            dispatcher: dispatcher.clone(),
            rules: Rules {
                max_sleep: (options.strategy == Strategy::Broadcast).then_some(BROADCAST_CAP),
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
                epoch: None,
                waiters: 0,
                last_id: 0,
                closed: false,
                fallback_at: now + options.fallback_poll_interval,
                notified_at: None,
                sweep: SweepState::Idle,
            }),
            poll_permits: Semaphore::new(concurrent_polls),
            arrival_permits: Semaphore::new(concurrent_polls - reserved),
            in_progress: InProgress::new(),
            timers_changed: Arc::default(),
            metrics: ConsumerMetrics::new(name),
        });
        {
            // Under the lock, so that events of the listener are applied after its state was read here.
            let mut state = inner.state.lock();
            let (epoch, listener) = dispatcher.add(inner.wake_target());
            state.epoch = epoch;
            match listener {
                ListenerState::Off => inner.record_event(&mut state, Event::ListenRefused, now),
                ListenerState::Lost { .. } => inner.record_event(&mut state, Event::ListenerLost, now),
                ListenerState::Connected => inner.record_event(&mut state, Event::ListenerConnected, now),
                // Its result will be reported.
                ListenerState::Connecting => {}
            }
        }
        inner.runtime.spawn(run_timers(Arc::downgrade(&inner), inner.timers_changed.clone()));
        Consumer { inner }
    }

    /// Claims up to `want` items now or as soon as there are some.
    ///
    /// `Ok(None)` means that the deadline has passed. A waiter that joins a group known to be empty causes no
    /// query; in every other case at least one poll is made for it, and a poll that runs at the deadline is waited for,
    /// up to a second. A deadline that is not in the future means [`claim_now`](Self::claim_now).
    ///
    /// # Errors
    /// [`Error::Full`] beyond `max_waiters`; [`Error::Refused`] if the database refuses this claim;
    /// [`Error::Unavailable`] if it could not be reached by the deadline (until then failures are retried);
    /// [`Error::Closed`].
    ///
    /// # Cancel safety
    /// Dropping the future removes the waiter at once; items claimed for it go to another waiter or back to the table,
    /// and the attempt is not counted.
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
        let (registration, mut answer) = self.inner.register(key, want, args, true)?;
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

    /// Claims up to `want` items that are due now; always polls. `Ok(None)` means there were none.
    ///
    /// # Errors
    /// As [`claim`](Self::claim); a failure is not retried.
    ///
    /// # Cancel safety
    /// As [`claim`](Self::claim).
    pub async fn claim_now(&self, key: C::Key, want: usize, args: C::Args) -> Result<Option<Claimed<C>>> {
        let (_registration, answer) = self.inner.register(key, want, args, false)?;
        answer.await.unwrap_or_else(|_| Err(self.inner.closed()))
    }

    /// Ends every wait with [`Error::Closed`], rejects new ones, and returns when nothing is in progress any more: what
    /// a running poll has claimed is then back in the table.
    pub async fn close(&self) {
        self.inner.close();
        self.inner.in_progress.ended().await;
    }

    /// What it has counted since it was made.
    pub fn counts(&self) -> Counts {
        self.inner.metrics.counts()
    }

    /// Its state.
    pub fn health(&self) -> ConsumerHealth {
        WakeTarget::health(&*self.inner)
    }
}

pub(crate) type Reply<C> = Result<Option<Claimed<C>>>;

/// What a waiter asked for, and where its reply goes.
pub(crate) struct Request<C: Claim> {
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
    pub(crate) poll_permits: Semaphore,
    /// How many of the polls may be made because a waiter arrived; the others are reserved for wake-ups.
    pub(crate) arrival_permits: Semaphore,
    /// Running poll loops, and items being given back.
    pub(crate) in_progress: InProgress,
    pub(crate) timers_changed: Arc<Notify>,
    pub(crate) metrics: ConsumerMetrics,
}

pub(crate) struct State<C: Claim> {
    pub(crate) groups: HashMap<GroupId, GroupEntry<C>>,
    pub(crate) ids: HashMap<C::Key, GroupId>,
    /// Groups without waiters, longest without first.
    pub(crate) vacant: BTreeSet<(Instant, GroupId)>,
    pub(crate) timers: Timers<Timer>,
    pub(crate) mode: Mode,
    pub(crate) epoch: ListenerEpoch,
    pub(crate) waiters: usize,
    pub(crate) last_id: u64,
    pub(crate) closed: bool,
    pub(crate) fallback_at: Instant,
    /// When another process last notified a channel of this consumer.
    pub(crate) notified_at: Option<Instant>,
    pub(crate) sweep: SweepState,
}

pub(crate) struct GroupEntry<C: Claim> {
    pub(crate) key: C::Key,
    pub(crate) topics: Vec<Topic>,
    pub(crate) group: Group<Request<C>>,
    /// Whether its poll loop is running.
    pub(crate) running: bool,
    /// Its time in [`State::vacant`], if it is there.
    pub(crate) vacant_since: Option<Instant>,
}

/// A registered waiter; dropping this removes it.
struct Registration<C: Claim> {
    inner: Arc<Inner<C>>,
    group: GroupId,
    waiter: WaiterId,
}

impl<C: Claim> Registration<C> {
    fn expire(&self) {
        let now = Instant::now();
        let mut state = self.inner.state.lock();
        let Some(entry) = state.groups.get_mut(&self.group) else { return };
        let dismissed = entry.group.expire(self.waiter, now);
        state.waiters -= usize::from(dismissed.is_some());
        self.inner.group_changed(&mut state, self.group);
        drop(state);
        self.inner.dismiss(dismissed);
    }
}

impl<C: Claim> Drop for Registration<C> {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut state = self.inner.state.lock();
        let Some(entry) = state.groups.get_mut(&self.group) else { return };
        let removed = entry.group.remove_waiter(self.waiter, now);
        if removed.is_some() {
            state.waiters -= 1;
            self.inner.group_changed(&mut state, self.group);
        }
        drop(state);
    }
}

impl<C: Claim> Inner<C> {
    /// This consumer as the dispatcher sees it.
    pub(crate) fn wake_target(&self) -> Weak<dyn WakeTarget> {
        self.me.clone()
    }

    fn closed(&self) -> Error {
        Error::Closed { what: self.name.clone() }
    }

    /// Adds a waiter, and starts the poll loop of its group if that has to poll.
    fn register(
        self: &Arc<Self>,
        key: C::Key,
        want: usize,
        args: C::Args,
        waits: bool,
    ) -> Result<(Registration<C>, oneshot::Receiver<Reply<C>>)> {
        let now = Instant::now();
        let visibility_key = self.claim.visibility_key(&args);
        let (reply, answer) = oneshot::channel();
        let mut state = self.state.lock();
        if state.closed {
            return Err(self.closed());
        }
        if state.waiters >= self.options.max_waiters {
            self.metrics.refused.add(1);
            return Err(Error::Full { consumer: self.name.clone(), limit: self.options.max_waiters });
        }
        let group = self.group_of(&mut state, key, now);
        state.last_id += 1;
        let (waiter, epoch) = (state.last_id, state.epoch);
        if let Some(entry) = state.groups.get_mut(&group) {
            let request = Request { args: Arc::new(args), reply };
            let new = NewWaiter { request, want: want.max(1), visibility_key, waits };
            entry.group.add_waiter(waiter, new, now, epoch, &self.rules);
        }
        state.waiters += 1;
        self.group_changed(&mut state, group);
        drop(state);
        Ok((Registration { inner: self.clone(), group, waiter }, answer))
    }

    /// The group of a key; created, and subscribed to its topics, if there is none.
    fn group_of(&self, state: &mut State<C>, key: C::Key, now: Instant) -> GroupId {
        let broadcast = self.options.strategy == Strategy::Broadcast;
        if let Some(id) = state.ids.get(&key).filter(|_| !broadcast) {
            return *id;
        }
        if state.groups.len() >= self.options.max_groups
            && let Some((_, longest_vacant)) = state.vacant.first().copied()
        {
            self.forget(state, longest_vacant);
        }
        state.last_id += 1;
        let id = state.last_id;
        let topics = self.claim.topics(&key);
        if self.dispatcher.subscribe(&topics, &self.wake_target(), id) {
            self.recheck_after(state, now);
        }
        if !broadcast {
            state.ids.insert(key.clone(), id);
        }
        let group = Group::new(now);
        state.groups.insert(id, GroupEntry { key, topics, group, running: false, vacant_since: None });
        id
    }

    pub(crate) fn forget(&self, state: &mut State<C>, id: GroupId) {
        let Some(entry) = state.groups.remove(&id) else { return };
        if let Some(since) = entry.vacant_since {
            state.vacant.remove(&(since, id));
        }
        state.timers.set(Timer::Group(id), None);
        if state.ids.get(&entry.key) == Some(&id) {
            state.ids.remove(&entry.key);
        }
        self.dispatcher.unsubscribe(&entry.topics, &self.wake_target(), id);
    }

    /// To be called after every change of a group: starts its poll loop if it wants a poll, sets its timers, and
    /// updates the list of vacant groups and the metrics.
    pub(crate) fn group_changed(&self, state: &mut State<C>, id: GroupId) {
        let Some(entry) = state.groups.get_mut(&id) else { return };
        if entry.group.wants_poll()
            && !entry.running
            && let Some(me) = self.me.upgrade()
        {
            entry.running = true;
            let in_progress = self.in_progress.begin();
            self.runtime.spawn(me.poll_until_asleep(id, in_progress));
        }
        let vacant = (entry.group.is_vacant() && !entry.running).then(|| entry.group.vacant_since());
        let before = std::mem::replace(&mut entry.vacant_since, vacant);
        // For a group without waiters this is when it may be forgotten.
        let wake_at = entry.group.wake_at(&self.rules);
        let asleep = entry.group.is_asleep();
        if before != vacant {
            before.map(|since| state.vacant.remove(&(since, id)));
            vacant.map(|since| state.vacant.insert((since, id)));
        }
        if vacant.is_some() && self.options.strategy == Strategy::Broadcast {
            return self.forget(state, id);
        }
        self.set_timer(state, Timer::Group(id), wake_at);
        if asleep {
            self.schedule_fallback(state);
            self.schedule_poll(state);
        }
        self.metrics.size(state.groups.len(), state.waiters);
    }

    fn close(self: &Arc<Self>) {
        let now = Instant::now();
        let mut requests = Vec::new();
        {
            let mut state = self.state.lock();
            state.closed = true;
            state.waiters = 0;
            let ids: Vec<GroupId> = state.groups.keys().copied().collect();
            for id in ids {
                if let Some(entry) = state.groups.get_mut(&id) {
                    requests.extend(entry.group.drain(now));
                    self.group_changed(&mut state, id);
                }
            }
            for timer in [Timer::Poll, Timer::Fallback, Timer::Trailing] {
                state.timers.set(timer, None);
            }
        }
        for request in requests {
            drop(request.reply.send(Err(self.closed())));
        }
    }
}

impl<C: Claim> Drop for Inner<C> {
    fn drop(&mut self) {
        // Lets the timer task end.
        self.timers_changed.notify_one();
        let groups = std::mem::take(&mut self.state.lock().groups);
        for (id, entry) in groups {
            self.dispatcher.unsubscribe(&entry.topics, &self.wake_target(), id);
        }
        self.dispatcher.remove(&self.wake_target());
    }
}
