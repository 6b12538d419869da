//! The dispatcher delivers wake-ups to groups: one per database and schema of a process, shared by all its consumers.
//!
//! A wake-up of this process goes directly to the groups that wait for its topics, and to other processes by NOTIFY; a
//! notification of another process goes to the same groups. The dispatcher also owns what must exist once: the
//! listener, the notifier, and the record of this process's own notifications.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;
use reveille_pg::{Database, Schema};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use crate::metrics;
use crate::notify::channel::{Channel, Payload, Topic, WakeUp, merge, payloads_of};
use crate::notify::held::HeldNotifications;
use crate::notify::own::OwnNotifications;
use crate::notify::rate::{NotifyRate, TRAILING};
use crate::notify::received::Clock;
use crate::notify::{listener, notifier};
use crate::options::Options;
use crate::wait::consumer::ConsumerHealth;
use crate::wait::group::ListenerEpoch;
use crate::wait::mode::Event;
use crate::wait::reason::Reason;
use crate::wait::waiting::WaitingGroup;

pub(crate) type GroupId = u64;

/// Groups of one wake-up that are considered for an attached poll.
const ATTACHED_MAX: usize = 16;
/// Concurrent polls of a process after the listener was reconnected, when every group polls.
const RESYNC_POLLS: usize = 4;
/// Concurrent writes that are sent alone; at most a quarter of the pool.
const SINGLE_WRITES: usize = 4;

/// A consumer, as the dispatcher sees it.
pub(crate) trait WakeTarget: Send + Sync {
    /// Wakes one group.
    fn wake_up(&self, group: GroupId, reason: Reason);
    /// One group has work that becomes due at this time.
    fn due_at(&self, group: GroupId, at: Instant);
    /// Another process notified a channel of the consumer: it may die before it notifies of its next write, so all
    /// groups need a recheck.
    fn needs_recheck(&self);
    /// The listener was connected or disconnected.
    fn listener_changed(&self, epoch: ListenerEpoch, event: Event);
    /// The state of the consumer.
    fn health(&self) -> ConsumerHealth;
    /// Its groups with waiters, at most `limit`.
    fn waiting(&self, limit: usize) -> Vec<WaitingGroup>;
}

/// The state of the listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenerState {
    /// Not listening, by configuration or because the database is only reached through a pooler.
    Off,
    /// Connecting for the first time.
    Connecting,
    /// Receiving notifications.
    Connected,
    /// The connection was lost, or LISTEN refused; reconnecting.
    Lost {
        /// Why, without secrets.
        reason: String,
    },
}

pub(crate) struct Dispatcher {
    pub(crate) db: Database,
    pub(crate) schema: Schema,
    pub(crate) options: Arc<Options>,
    pub(crate) runtime: Handle,
    pub(super) state: Mutex<State>,
    /// A channel was added: the listener must listen to it.
    channels_changed: Arc<Notify>,
    notifier: Arc<notifier::Pending>,
    /// For polls after the listener was reconnected.
    pub(crate) resync_permits: Semaphore,
    /// For writes that are sent alone because the database refused their batch.
    pub(crate) single_permits: Semaphore,
    /// For writes that wait for a locked row: each holds a connection, perhaps until a foreign transaction ends.
    pub(crate) patient_permits: Semaphore,
    /// Closed with the dispatcher, which ends its tasks.
    closing: watch::Sender<()>,
    /// Counts notifications of other processes, and reconnects of the listener, before which some may have been lost.
    pub(crate) remote_activity: AtomicU64,
}

pub(super) struct State {
    pub(super) channels: HashMap<Arc<str>, ChannelState>,
    pub(super) targets: Vec<Weak<dyn WakeTarget>>,
    pub(super) own: OwnNotifications,
    pub(super) held: HeldNotifications,
    /// The current epoch of the listener; `None` while it is disconnected or has not caught up with new channels.
    pub(super) epoch: ListenerEpoch,
    pub(super) last_epoch: u64,
    pub(super) listener: ListenerState,
    pub(super) listener_started: bool,
    pub(super) clock: Option<Clock>,
    /// A due time was received since the clock was last read.
    pub(super) clock_used: bool,
}

pub(super) struct ChannelState {
    pub(super) payload: Payload,
    pub(super) topics: HashMap<Arc<str>, HashMap<Subscriber, Weak<dyn WakeTarget>>>,
    /// The consumers that have subscribed to a topic of this channel.
    pub(super) targets: HashMap<usize, Weak<dyn WakeTarget>>,
    pub(super) rate: NotifyRate,
    /// Writes under way that notify it in their transactions.
    pub(super) writes: usize,
    /// When another process last notified it.
    pub(super) notified_at: Option<Instant>,
}

/// A group of a consumer: the consumer's address, and the group.
pub(crate) type Subscriber = (usize, GroupId);

pub(crate) fn address(target: &Weak<dyn WakeTarget>) -> usize {
    target.as_ptr().cast::<()>().addr()
}

/// How one attempt of a write notifies: in its transaction, or after its commit.
pub(crate) struct NotifyPlan {
    /// Notifications in the transaction.
    pub(crate) channels: Vec<String>,
    pub(crate) payloads: Vec<String>,
    /// Notifications after the commit.
    pub(crate) after_commit: Vec<(Arc<str>, String)>,
    since: Instant,
    epoch: ListenerEpoch,
    dispatcher: Weak<Dispatcher>,
}

impl Drop for NotifyPlan {
    fn drop(&mut self) {
        if let Some(dispatcher) = self.dispatcher.upgrade().filter(|_| !self.channels.is_empty()) {
            let mut state = dispatcher.state.lock();
            for channel in &self.channels {
                if let Some(channel) = state.channels.get_mut(channel.as_str()) {
                    channel.writes = channel.writes.saturating_sub(1);
                }
            }
        }
    }
}

type DispatcherKey = (String, String, String);
static DISPATCHERS: LazyLock<Mutex<HashMap<DispatcherKey, Weak<Dispatcher>>>> = LazyLock::new(Mutex::default);

impl Dispatcher {
    /// The dispatcher of this database and schema in this process and runtime; created if there is none.
    pub(crate) fn shared(db: &Database, schema: &Schema, options: &Arc<Options>) -> Arc<Dispatcher> {
        let runtime = Handle::current();
        let key = (db.identity(), schema.name().to_owned(), runtime.id().to_string());
        let mut dispatchers = DISPATCHERS.lock();
        dispatchers.retain(|_, dispatcher| dispatcher.strong_count() > 0);
        if let Some(dispatcher) = dispatchers.get(&key).and_then(Weak::upgrade) {
            return dispatcher;
        }
        let single_writes = (db.pool().options().get_max_connections() as usize / 4).clamp(1, SINGLE_WRITES);
        let dispatcher = Arc::new(Dispatcher {
            db: db.clone(),
            schema: schema.clone(),
            options: options.clone(),
            runtime,
            state: Mutex::new(State {
                channels: HashMap::new(),
                targets: Vec::new(),
                own: OwnNotifications::default(),
                held: HeldNotifications::default(),
                epoch: None,
                last_epoch: 0,
                listener: ListenerState::Off,
                listener_started: false,
                clock: None,
                clock_used: false,
            }),
            channels_changed: Arc::default(),
            notifier: Arc::default(),
            resync_permits: Semaphore::new(RESYNC_POLLS),
            single_permits: Semaphore::new(single_writes),
            patient_permits: Semaphore::new(single_writes),
            closing: watch::Sender::new(()),
            remote_activity: AtomicU64::new(0),
        });
        dispatcher.runtime.spawn(notifier::run(
            Arc::downgrade(&dispatcher),
            dispatcher.notifier.clone(),
            options.notify_window,
            dispatcher.closed(),
        ));
        dispatchers.insert(key, Arc::downgrade(&dispatcher));
        dispatcher
    }

    /// Starts the listener, once.
    pub(crate) fn listen(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if !std::mem::replace(&mut state.listener_started, true) {
            state.listener = ListenerState::Connecting;
            self.runtime.spawn(listener::run(Arc::downgrade(self), self.channels_changed.clone(), self.closed()));
        }
    }

    /// Fails when the dispatcher is gone.
    fn closed(&self) -> watch::Receiver<()> {
        self.closing.subscribe()
    }

    pub(crate) fn listener_state(&self) -> ListenerState {
        self.state.lock().listener.clone()
    }

    pub(crate) fn consumers(&self) -> Vec<ConsumerHealth> {
        let targets = self.state.lock().targets.clone();
        targets.iter().filter_map(Weak::upgrade).map(|target| target.health()).collect()
    }

    pub(crate) fn waiting(&self, limit: usize) -> Vec<WaitingGroup> {
        let targets = self.state.lock().targets.clone();
        targets.iter().filter_map(Weak::upgrade).flat_map(|target| target.waiting(limit)).collect()
    }

    // Channels, topics, wake targets
    // ------------------------------------------------------------------------------------

    pub(crate) fn channel(&self, suffix: &str, payload: Payload) -> Channel {
        let channel = Channel::new(self.schema.name(), suffix, payload);
        let mut state = self.state.lock();
        let known = self.channel_state(&mut state, &channel);
        assert_eq!(known.payload, payload, "channel {suffix:?} is used with two kinds of payload");
        drop(state);
        channel
    }

    /// The state of a channel; the listener begins to listen to one that is new here.
    fn channel_state<'a>(&self, state: &'a mut State, channel: &Channel) -> &'a mut ChannelState {
        let State { channels, epoch, .. } = state;
        channels.entry(channel.name().into()).or_insert_with(|| {
            // Until the listener listens to it no group may be known to be empty.
            *epoch = None;
            self.channels_changed.notify_one();
            ChannelState::new(channel.payload())
        })
    }

    pub(crate) fn channel_names(&self) -> Vec<String> {
        self.state.lock().channels.keys().map(|name| name.to_string()).collect()
    }

    pub(crate) fn has_due_channels(&self) -> bool {
        self.state.lock().channels.values().any(|channel| channel.payload == Payload::Due)
    }

    /// Adds a consumer and returns the current state of the listener.
    pub(crate) fn add(&self, target: Weak<dyn WakeTarget>) -> (ListenerEpoch, ListenerState) {
        let mut state = self.state.lock();
        state.targets.retain(|target| target.strong_count() > 0);
        state.targets.push(target);
        (state.epoch, state.listener.clone())
    }

    /// Adds a group. `true`: another process notified one of its channels just now, so it needs a recheck.
    pub(crate) fn subscribe(&self, topics: &[Topic], target: &Weak<dyn WakeTarget>, group: GroupId) -> bool {
        let now = Instant::now();
        let mut needs_recheck = false;
        let mut state = self.state.lock();
        for topic in topics {
            let channel = self.channel_state(&mut state, &topic.channel);
            channel.targets.insert(address(target), target.clone());
            channel.topics.entry(topic.key.clone()).or_default().insert((address(target), group), target.clone());
            needs_recheck |= channel.notified_at.is_some_and(|at| now.saturating_duration_since(at) < TRAILING);
        }
        needs_recheck
    }

    pub(crate) fn unsubscribe(&self, topics: &[Topic], target: &Weak<dyn WakeTarget>, group: GroupId) {
        let mut state = self.state.lock();
        for topic in topics {
            let Some(channel) = state.channels.get_mut(topic.channel.name()) else { continue };
            let Some(subscribers) = channel.topics.get_mut(&topic.key) else { continue };
            subscribers.remove(&(address(target), group));
            if subscribers.is_empty() {
                channel.topics.remove(&topic.key);
            }
        }
    }

    /// Removes a consumer that is going away.
    pub(crate) fn remove(&self, target: &Weak<dyn WakeTarget>) {
        let mut state = self.state.lock();
        state.targets.retain(|other| !other.ptr_eq(target));
        for channel in state.channels.values_mut() {
            channel.targets.remove(&address(target));
        }
    }

    // Wake-ups of this process
    // ------------------------------------------------------------------------------------------

    /// Wakes the waiters of this process. Delays count from `since`.
    pub(crate) fn wake_local(&self, wake_ups: &[WakeUp], since: Instant) {
        self.wake_others(wake_ups, since, &[]);
    }

    /// Wakes the waiters of this process, but for groups whose polls have seen the work already.
    fn wake_others(&self, wake_ups: &[WakeUp], since: Instant, covered: &[Subscriber]) {
        for wake_up in merge(wake_ups.iter().cloned()) {
            let keys: Vec<&str> = wake_up.keys.iter().map(AsRef::as_ref).collect();
            let groups = self.groups(wake_up.channel.name(), if keys.is_empty() { None } else { Some(&keys) });
            for (target, group) in groups {
                if covered.contains(&(address(&Arc::downgrade(&target)), group)) {
                    continue;
                }
                if wake_up.delay.is_zero() {
                    target.wake_up(group, Reason::Local)
                } else {
                    target.due_at(group, since + wake_up.delay)
                }
            }
        }
    }

    /// Notifies other processes, after the commit.
    pub(crate) fn notify_others(&self, wake_ups: &[WakeUp]) {
        self.notifier.add(payloads(wake_ups));
    }

    /// Returns when all pending notifications have been sent.
    pub(crate) async fn flush(&self) {
        self.notifier.flush().await;
    }

    /// Counts the wake-ups of a write that is about to be sent, and decides how it notifies. `muted`: not in its
    /// transaction.
    pub(crate) fn plan_notify(self: &Arc<Self>, wake_ups: &[WakeUp], muted: bool) -> NotifyPlan {
        let now = Instant::now();
        let mut state = self.state.lock();
        let epoch = state.epoch;
        let mut plan = NotifyPlan {
            channels: Vec::new(),
            payloads: Vec::new(),
            after_commit: Vec::new(),
            since: now,
            epoch,
            dispatcher: Arc::downgrade(self),
        };
        for (name, payload) in payloads(wake_ups) {
            let busy = state.channels.get_mut(&name).is_some_and(|channel| {
                channel.rate.count(now);
                channel.rate.may_follow_commit(now)
            });
            if busy || muted {
                plan.after_commit.push((name, payload));
            } else {
                if let Some(channel) = state.channels.get_mut(&name) {
                    channel.writes += 1;
                }
                plan.channels.push(name.to_string());
                plan.payloads.push(payload);
            }
        }
        plan
    }

    /// A write has committed on `backend` (`None`: or may have). Wakes its waiters here first, so that its own
    /// notification can be ignored; `covered` are groups for which the write has claimed.
    pub(crate) fn committed(
        &self,
        plan: NotifyPlan,
        wake_ups: &[WakeUp],
        backend: Option<u32>,
        covered: &[Subscriber],
    ) {
        self.wake_others(wake_ups, plan.since, covered);
        if let Some(backend) = backend {
            let now = Instant::now();
            let mut state = self.state.lock();
            if plan.epoch.is_some() && plan.epoch == state.epoch {
                state.own.sent(now, plan.since, backend, &plan.channels);
                for (channel, payload) in plan.channels.iter().zip(&plan.payloads) {
                    let own = u64::from(state.held.drop_own(backend, channel, payload));
                    ::metrics::counter!(metrics::NOTIFICATIONS_RECEIVED, "channel" => channel.clone(), "from" => "self")
                        .increment(own);
                }
            }
            for name in &plan.channels {
                ::metrics::counter!(metrics::NOTIFICATIONS_SENT, "channel" => name.clone(), "how" => "transaction")
                    .increment(1);
                if let Some(channel) = state.channels.get_mut(name.as_str()) {
                    channel.rate.sent(plan.since);
                }
            }
        }
        // The wake-ups of the actual outcomes may be fewer than the planned ones.
        let is_planned = |channel: &Arc<str>| plan.after_commit.iter().any(|(planned, _)| planned == channel);
        let notifications = payloads(&merge(wake_ups.iter().cloned()));
        self.notifier.add(notifications.into_iter().filter(|(channel, _)| is_planned(channel)));
    }

    /// A write that notifies after its commit takes long: notifies before it as well, so that receivers recheck after
    /// it.
    pub(crate) fn notify_early(&self, plan: &NotifyPlan) {
        self.notifier.add(plan.after_commit.iter().cloned());
    }

    /// The notifier has notified these channels, no earlier than at `since`.
    pub(crate) fn notifications_sent(&self, channels: &[String], since: Instant) {
        let mut state = self.state.lock();
        for name in channels {
            ::metrics::counter!(metrics::NOTIFICATIONS_SENT, "channel" => name.clone(), "how" => "after").increment(1);
            if let Some(channel) = state.channels.get_mut(name.as_str()) {
                channel.rate.sent(since);
            }
        }
    }

    pub(crate) fn knows_notifier(&self) -> bool {
        self.state.lock().own.knows_notifier()
    }

    pub(crate) fn set_notifier(&self, backend: Option<u32>) {
        self.state.lock().own.set_notifier(backend);
    }

    /// The groups that wait for these keys of a channel, or for any.
    pub(super) fn groups(&self, channel: &str, keys: Option<&[&str]>) -> Vec<(Arc<dyn WakeTarget>, GroupId)> {
        let state = self.state.lock();
        let Some(channel) = state.channels.get(channel) else { return Vec::new() };
        let subscribers: HashMap<&Subscriber, &Weak<dyn WakeTarget>> = match keys {
            None => channel.topics.values().flatten().collect(),
            Some(keys) => keys.iter().filter_map(|key| channel.topics.get(*key)).flatten().collect(),
        };
        subscribers.into_iter().filter_map(|((_, group), target)| Some((target.upgrade()?, *group))).collect()
    }

    /// Groups of a consumer that these wake-ups concern now, a bounded number of them.
    pub(crate) fn groups_of(&self, target: &Weak<dyn WakeTarget>, wake_ups: &[WakeUp]) -> Vec<GroupId> {
        let state = self.state.lock();
        let mut groups = Vec::new();
        for wake_up in wake_ups.iter().filter(|wake_up| wake_up.delay.is_zero()) {
            let Some(channel) = state.channels.get(wake_up.channel.name()) else { continue };
            let of_target = |subscriber: &Subscriber| (subscriber.0 == address(target)).then_some(subscriber.1);
            let room = ATTACHED_MAX - groups.len();
            if wake_up.keys.is_empty() {
                groups.extend(channel.topics.values().flat_map(HashMap::keys).filter_map(of_target).take(room));
            } else {
                let topics = wake_up.keys.iter().filter_map(|key| channel.topics.get(key));
                groups.extend(topics.flat_map(HashMap::keys).filter_map(of_target).take(room));
            }
        }
        groups
    }
}

impl ChannelState {
    fn new(payload: Payload) -> ChannelState {
        let (topics, targets) = (HashMap::new(), HashMap::new());
        ChannelState { payload, topics, targets, rate: NotifyRate::default(), writes: 0, notified_at: None }
    }
}

/// The notifications of these wake-ups for other processes: channels, and as few payloads as possible for each.
pub(crate) fn payloads(wake_ups: &[WakeUp]) -> Vec<(Arc<str>, String)> {
    let mut by_channel: BTreeMap<&str, Vec<WakeUp>> = BTreeMap::new();
    for wake_up in wake_ups {
        by_channel.entry(wake_up.channel.name()).or_default().push(wake_up.clone());
    }
    let by_channel = by_channel.into_iter().map(|(name, wake_ups)| (Arc::<str>::from(name), payloads_of(&wake_ups)));
    by_channel.flat_map(|(name, payloads)| payloads.into_iter().map(move |payload| (name.clone(), payload))).collect()
}
