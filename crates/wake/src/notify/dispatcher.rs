//! Where rings meet groups: one dispatcher per database and schema of a process, shared by everything that waits there.
//!
//! A ring of this process goes straight to the groups that wait for its topics, then to other processes by NOTIFY; a
//! notification of another process goes to the same groups. The dispatcher also owns what must exist once: the listener, the
//! connection that rings for busy channels, and the memory of which notifications are echoes of our own.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pg::{Database, Schema};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::Instant;

use crate::metrics;
use crate::notify::channel::{Channel, Heard, Payload, Topic, WakeUp, merge, payloads_of, read};
use crate::notify::own::OwnNotifications;
use crate::notify::rate::{NotifyRate, TRAILING};
use crate::notify::{listener, notifier};
use crate::options::Options;
use crate::wait::consumer::ConsumerHealth;
use crate::wait::group::ListenerEpoch;
use crate::wait::mode::Event;
use crate::wait::reason::Reason;

pub(crate) type GroupId = u64;

/// Looks of a process at a time after the listener came back.
const RESYNCS_AT_A_TIME: usize = 4;
/// Members that travel alone at a time, and at most a quarter of the pool.
const ALONE_AT_A_TIME: usize = 4;

/// A consumer, as the dispatcher sees it.
pub(crate) trait WakeTarget: Send + Sync {
    /// Rings one group.
    fn wake_up(&self, group: GroupId, reason: Reason);
    /// Tells one group of work that becomes due.
    fn due(&self, group: GroupId, at: Instant);
    /// Another process rang a channel the consumer waits on: its next ring may be lost with it.
    fn doubt(&self);
    /// The listener changed.
    fn hearing(&self, hearing: ListenerEpoch, event: Event);
    /// How the consumer is doing.
    fn health(&self) -> ConsumerHealth;
}

/// What became of the listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenerState {
    /// Not listening, by configuration or because the database is only reached through a pooler.
    Off,
    /// Being connected for the first time.
    Connecting,
    /// Notifications are heard.
    Connected,
    /// The connection was lost, or LISTEN refused; being connected again.
    Lost {
        /// Why, without secrets.
        reason: String,
    },
}

/// A point at which the database's clock was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) here: Instant,
    pub(crate) there_ms: i64,
}

pub(crate) struct Dispatcher {
    pub(crate) db: Database,
    pub(crate) schema: Schema,
    pub(crate) options: Arc<Options>,
    pub(crate) runtime: Handle,
    state: Mutex<State>,
    /// A channel was added: the listener must listen to it.
    channels_changed: Arc<Notify>,
    notifier: Arc<notifier::Pending>,
    /// Looks at a time after the listener came back, when every group looks at once.
    pub(crate) resyncs: Semaphore,
    /// Members of all flights that may travel alone at a time because a flight they were in was refused.
    pub(crate) alone: Semaphore,
    /// Members of all flights that may wait for a locked row at a time: each holds a connection, perhaps until somebody's
    /// transaction ends.
    pub(crate) patient: Semaphore,
    /// Ends with the dispatcher, and its tasks with it.
    closing: watch::Sender<()>,
    /// Notifications of other processes, and times the listener came back after a gap in which some may have been lost.
    pub(crate) heard: AtomicU64,
}

struct State {
    channels: HashMap<Arc<str>, Registered>,
    targets: Vec<Weak<dyn WakeTarget>>,
    own: OwnNotifications,
    hearing: ListenerEpoch,
    epoch: u64,
    listener: ListenerState,
    listener_started: bool,
    clock: Option<Clock>,
    dated_rings: bool,
}

struct Registered {
    payload: Payload,
    topics: HashMap<Arc<str>, HashMap<Subscriber, Weak<dyn WakeTarget>>>,
    /// Who has waited here.
    targets: HashMap<usize, Weak<dyn WakeTarget>>,
    rate: NotifyRate,
    rung_elsewhere_at: Option<Instant>,
}

/// A group of a consumer: which consumer, by its address, and which group.
type Subscriber = (usize, GroupId);

fn address(target: &Weak<dyn WakeTarget>) -> usize {
    target.as_ptr().cast::<()>().addr()
}

/// The rings of one attempt of a write: which travel inside its transaction, and which after it.
pub(crate) struct Announcement {
    pub(crate) channels: Vec<String>,
    pub(crate) payloads: Vec<String>,
    pub(crate) later: Vec<(Arc<str>, String)>,
    since: Instant,
    hearing: ListenerEpoch,
}

type DispatcherKey = (String, String, String);
static HUBS: LazyLock<Mutex<HashMap<DispatcherKey, Weak<Dispatcher>>>> = LazyLock::new(Mutex::default);

impl Dispatcher {
    /// The dispatcher of this database and schema in this process and runtime; made if there is none.
    pub(crate) fn shared(db: &Database, schema: &Schema, options: &Arc<Options>) -> Arc<Dispatcher> {
        let runtime = Handle::current();
        let key = (db.identity(), schema.name().to_owned(), runtime.id().to_string());
        let mut dispatchers = HUBS.lock().unwrap_or_else(PoisonError::into_inner);
        dispatchers.retain(|_, dispatcher| dispatcher.strong_count() > 0);
        if let Some(dispatcher) = dispatchers.get(&key).and_then(Weak::upgrade) {
            return dispatcher;
        }
        let alone = (db.pool().options().get_max_connections() as usize / 4).clamp(1, ALONE_AT_A_TIME);
        let dispatcher = Arc::new(Dispatcher {
            db: db.clone(),
            schema: schema.clone(),
            options: options.clone(),
            runtime,
            state: Mutex::new(State {
                channels: HashMap::new(),
                targets: Vec::new(),
                own: OwnNotifications::default(),
                hearing: None,
                epoch: 0,
                listener: ListenerState::Off,
                listener_started: false,
                clock: None,
                dated_rings: false,
            }),
            channels_changed: Arc::default(),
            notifier: Arc::default(),
            resyncs: Semaphore::new(RESYNCS_AT_A_TIME),
            alone: Semaphore::new(alone),
            patient: Semaphore::new(alone),
            closing: watch::Sender::new(()),
            heard: AtomicU64::new(0),
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
        let mut state = self.state();
        if !std::mem::replace(&mut state.listener_started, true) {
            state.listener = ListenerState::Connecting;
            self.runtime.spawn(listener::run(Arc::downgrade(self), self.channels_changed.clone(), self.closed()));
        }
    }

    /// Ends with an error when the dispatcher is gone.
    fn closed(&self) -> watch::Receiver<()> {
        self.closing.subscribe()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn listener_state(&self) -> ListenerState {
        self.state().listener.clone()
    }

    pub(crate) fn consumers(&self) -> Vec<ConsumerHealth> {
        let targets = self.state().targets.clone();
        targets.iter().filter_map(Weak::upgrade).map(|target| target.health()).collect()
    }

    // Channels, topics, bells -------------------------------------------------------------------------------------------

    pub(crate) fn channel(&self, suffix: &str, payload: Payload) -> Channel {
        let channel = Channel::new(self.schema.name(), suffix, payload);
        let mut state = self.state();
        let registered = self.registered(&mut state, &channel);
        assert_eq!(registered.payload, payload, "channel {suffix:?} is used with two kinds of payload");
        drop(state);
        channel
    }

    /// A channel's entry; one that is not known yet (new, or of another engine) is heard from here on.
    fn registered<'a>(&self, state: &'a mut State, channel: &Channel) -> &'a mut Registered {
        let State { channels, hearing, .. } = state;
        channels.entry(channel.name().into()).or_insert_with(|| {
            // Until the listener has caught up nothing may be believed to be empty.
            *hearing = None;
            self.channels_changed.notify_one();
            Registered::new(channel.payload())
        })
    }

    pub(crate) fn channel_names(&self) -> Vec<String> {
        self.state().channels.keys().map(|name| name.to_string()).collect()
    }

    pub(crate) fn has_dated_channels(&self) -> bool {
        self.state().channels.values().any(|channel| channel.payload == Payload::Due)
    }

    /// Adds a consumer and answers what it may believe of the listener.
    pub(crate) fn add(&self, target: Weak<dyn WakeTarget>) -> (ListenerEpoch, ListenerState) {
        let mut state = self.state();
        state.targets.retain(|target| target.strong_count() > 0);
        state.targets.push(target);
        (state.hearing, state.listener.clone())
    }

    /// Adds a group. `true`: another process rang one of its channels just now, so doubt is due.
    pub(crate) fn subscribe(&self, topics: &[Topic], target: &Weak<dyn WakeTarget>, group: GroupId) -> bool {
        let now = Instant::now();
        let mut doubt = false;
        let mut state = self.state();
        for topic in topics {
            let channel = self.registered(&mut state, &topic.channel);
            channel.targets.insert(address(target), target.clone());
            channel.topics.entry(topic.key.clone()).or_default().insert((address(target), group), target.clone());
            doubt |= channel.rung_elsewhere_at.is_some_and(|at| now.saturating_duration_since(at) < TRAILING);
        }
        doubt
    }

    pub(crate) fn unsubscribe(&self, topics: &[Topic], target: &Weak<dyn WakeTarget>, group: GroupId) {
        let mut state = self.state();
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
        let mut state = self.state();
        state.targets.retain(|other| !other.ptr_eq(target));
        for channel in state.channels.values_mut() {
            channel.targets.remove(&address(target));
        }
    }

    // Rings from here ---------------------------------------------------------------------------------------------------

    /// Rings the waiters of this process. Delays count from `since`.
    pub(crate) fn wake_local(&self, wake_ups: &[WakeUp], since: Instant) {
        for wake_up in merge(wake_ups.iter().cloned()) {
            let keys: Vec<&str> = wake_up.keys.iter().map(AsRef::as_ref).collect();
            let targets = self.targets(wake_up.channel.name(), if keys.is_empty() { None } else { Some(&keys) });
            for (target, group) in targets {
                if wake_up.delay.is_zero() {
                    target.wake_up(group, Reason::Rung)
                } else {
                    target.due(group, since + wake_up.delay)
                }
            }
        }
    }

    /// Rings the waiters of other processes, after the fact.
    pub(crate) fn notify_others(&self, wake_ups: &[WakeUp]) {
        self.notifier.add(payloads(wake_ups));
    }

    /// Returns when every ring for other processes has been sent.
    pub(crate) async fn flush(&self) {
        self.notifier.flush().await;
    }

    /// Decides how the rings of a write that is sent now travel. `muted`: none inside its transaction.
    pub(crate) fn announce(&self, wake_ups: &[WakeUp], muted: bool) -> Announcement {
        let now = Instant::now();
        let mut state = self.state();
        let hearing = state.hearing;
        let mut out = Announcement { channels: vec![], payloads: vec![], later: vec![], since: now, hearing };
        for (name, payload) in payloads(wake_ups) {
            let busy = state.channels.get_mut(&name).is_some_and(|channel| channel.rate.after_commit(now));
            if busy || muted {
                out.later.push((name, payload));
            } else {
                out.channels.push(name.to_string());
                out.payloads.push(payload);
            }
        }
        out
    }

    /// A write has committed its announcement on `backend` (`None`: or may have). Its waiters here are rung first, so that
    /// its echo may be ignored.
    pub(crate) fn announced(&self, announcement: Announcement, wake_ups: &[WakeUp], backend: Option<u32>) {
        self.wake_local(wake_ups, announcement.since);
        if let Some(backend) = backend {
            let now = Instant::now();
            let mut state = self.state();
            if announcement.hearing.is_some() && announcement.hearing == state.hearing {
                state.own.announced(now, announcement.since, backend, &announcement.channels);
            }
            for name in &announcement.channels {
                ::metrics::counter!(metrics::NOTIFICATIONS_SENT, "channel" => name.clone(), "how" => "transaction")
                    .increment(1);
                if let Some(channel) = state.channels.get_mut(name.as_str()) {
                    channel.rate.sent(announcement.since);
                }
            }
        }
        // What the write did, as far as it was not announced in its transaction: less than what it might have done.
        let is_late = |channel: &Arc<str>| announcement.later.iter().any(|(late, _)| late == channel);
        self.notifier
            .add(payloads(&merge(wake_ups.iter().cloned())).into_iter().filter(|(channel, _)| is_late(channel)));
    }

    /// The announcement of a busy write that is late: rings now as well, so that hearers look once more after its end.
    pub(crate) fn announce_again(&self, announcement: &Announcement) {
        self.notifier.add(announcement.later.iter().cloned());
    }

    /// The notifier has sent rings of these channels, no earlier than at `since`.
    pub(crate) fn rung(&self, channels: &[String], since: Instant) {
        let mut state = self.state();
        for name in channels {
            ::metrics::counter!(metrics::NOTIFICATIONS_SENT, "channel" => name.clone(), "how" => "after").increment(1);
            if let Some(channel) = state.channels.get_mut(name.as_str()) {
                channel.rate.sent(since);
            }
        }
    }

    pub(crate) fn knows_notifier(&self) -> bool {
        self.state().own.knows_notifier()
    }

    pub(crate) fn notifier_backend(&self, backend: Option<u32>) {
        self.state().own.notifier(backend);
    }

    fn targets(&self, channel: &str, keys: Option<&[&str]>) -> Vec<(Arc<dyn WakeTarget>, GroupId)> {
        let state = self.state();
        let Some(registered) = state.channels.get(channel) else { return Vec::new() };
        let subscribers: HashMap<&Subscriber, &Weak<dyn WakeTarget>> = match keys {
            None => registered.topics.values().flatten().collect(),
            Some(keys) => keys.iter().filter_map(|key| registered.topics.get(*key)).flatten().collect(),
        };
        subscribers.into_iter().filter_map(|((_, group), target)| Some((target.upgrade()?, *group))).collect()
    }

    // Rings from elsewhere ----------------------------------------------------------------------------------------------

    /// A notification was heard.
    pub(crate) fn heard(&self, channel: &str, payload: &str, backend: u32) {
        let now = Instant::now();
        let (own, kind, clock) = {
            let mut state = self.state();
            let Some(kind) = state.channels.get(channel).map(|channel| channel.payload) else { return };
            state.dated_rings |= kind == Payload::Due;
            (state.own.is_own(now, backend, channel), kind, state.clock)
        };
        let from = if own { "self" } else { "other" };
        ::metrics::counter!(metrics::NOTIFICATIONS_RECEIVED, "channel" => channel.to_owned(), "from" => from)
            .increment(1);
        if own {
            return;
        }
        self.heard.fetch_add(1, Ordering::Relaxed);
        self.spread_doubt(channel, now);
        match read(kind, payload) {
            Heard::All => self.ring_from_elsewhere(channel, None),
            Heard::Keys(keys) => self.ring_from_elsewhere(channel, Some(&keys)),
            Heard::AllAt(due_ms) => match clock.and_then(|clock| clock.when(due_ms)).filter(|at| *at > now) {
                None => self.ring_from_elsewhere(channel, None),
                Some(at) => {
                    for (target, group) in self.targets(channel, None) {
                        target.due(group, at);
                    }
                }
            },
        }
    }

    /// A busy sender rings after its commits: one that dies between the two is covered by the ring it sent before, on the
    /// same channel but perhaps for another topic.
    fn spread_doubt(&self, channel: &str, now: Instant) {
        let targets: Vec<Weak<dyn WakeTarget>> = {
            let mut state = self.state();
            let Some(registered) = state.channels.get_mut(channel) else { return };
            registered.rung_elsewhere_at = Some(now);
            registered.targets.values().cloned().collect()
        };
        for target in targets.iter().filter_map(Weak::upgrade) {
            target.doubt();
        }
    }

    fn ring_from_elsewhere(&self, channel: &str, keys: Option<&[&str]>) {
        for (target, group) in self.targets(channel, keys) {
            target.wake_up(group, Reason::Notified);
        }
    }

    /// The listener hears all channels on a new connection, or new channels on its old one: everybody looks once.
    pub(crate) fn connected(&self, clock: Option<Clock>) {
        self.heard.fetch_add(1, Ordering::Relaxed);
        let (targets, hearing) = {
            let mut state = self.state();
            state.epoch += 1;
            state.hearing = Some(state.epoch);
            state.listener = ListenerState::Connected;
            let now = Instant::now();
            state.own.clear(now);
            for channel in state.channels.values_mut() {
                // What rang while nobody heard counts as having rung just now.
                channel.rung_elsewhere_at = Some(now);
            }
            if clock.is_some() {
                state.clock = clock;
                state.dated_rings = false;
            }
            (state.targets.clone(), state.hearing)
        };
        ::metrics::gauge!(metrics::LISTENER_UP, "schema" => self.schema.name().to_owned()).set(1.0);
        for target in targets.iter().filter_map(Weak::upgrade) {
            target.hearing(hearing, Event::ListenerHears);
        }
    }

    /// The listener hears nothing.
    pub(crate) fn disconnected(&self, event: Event, reason: String) {
        let targets = {
            let mut state = self.state();
            state.hearing = None;
            state.listener = ListenerState::Lost { reason };
            state.targets.clone()
        };
        ::metrics::gauge!(metrics::LISTENER_UP, "schema" => self.schema.name().to_owned()).set(0.0);
        ::metrics::counter!(metrics::LISTENER_LOSSES, "schema" => self.schema.name().to_owned()).increment(1);
        for target in targets.iter().filter_map(Weak::upgrade) {
            target.hearing(None, event);
        }
    }

    /// Whether a due time was heard since the database's clock was last read.
    pub(crate) fn wants_clock(&self) -> bool {
        self.state().dated_rings
    }

    pub(crate) fn set_clock(&self, clock: Clock) {
        let mut state = self.state();
        state.clock = Some(clock);
        state.dated_rings = false;
    }
}

impl Registered {
    fn new(payload: Payload) -> Registered {
        let (topics, targets) = (HashMap::new(), HashMap::new());
        Registered { payload, topics, targets, rate: NotifyRate::default(), rung_elsewhere_at: None }
    }
}

/// Channels, and as few payloads as possible for each, that say these rings to other processes.
pub(crate) fn payloads(wake_ups: &[WakeUp]) -> Vec<(Arc<str>, String)> {
    let mut by_channel: BTreeMap<&str, Vec<WakeUp>> = BTreeMap::new();
    for wake_up in wake_ups {
        by_channel.entry(wake_up.channel.name()).or_default().push(wake_up.clone());
    }
    let said = by_channel.into_iter().map(|(name, wake_ups)| (Arc::<str>::from(name), payloads_of(&wake_ups)));
    said.flat_map(|(name, payloads)| payloads.into_iter().map(move |payload| (name.clone(), payload))).collect()
}

impl Clock {
    /// The moment here at which the database's clock reads `ms`; `None` if that is in the past.
    fn when(&self, ms: i64) -> Option<Instant> {
        let prefetch = u64::try_from(ms.checked_sub(self.there_ms)?).ok()?;
        self.here.checked_add(Duration::from_millis(prefetch))
    }
}
