//! Publishes events of tasks to outside listeners and to the coordinators of this process.
//!
//! Every committed write adds an event here. Events of namespaces without subscribers are discarded, which costs one
//! map lookup. The others wait in a bounded queue for some milliseconds; then one statement reads the state of all
//! these tasks, and another notifies the outside listeners. A single tokio task does this, one batch after the other,
//! so it never uses more than one connection. Events beyond the bound of the queue are dropped and counted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use sqlx::Row;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::announce::TaskSnapshot;
use super::coordination::Coordination;
use super::event::{EventSource, TaskReadyEvent};
use super::meter::Meter;
use crate::error::Result;
use crate::flow::Inner;
use crate::namespace::{Mode, Namespace, NamespaceMap};

/// The most waiting events: a second of a busy server.
const QUEUE: usize = 10_000;
/// How long events are collected.
const WINDOW: Duration = Duration::from_millis(5);
/// The most tasks of a batch: a statement of moderate size.
const BATCH: usize = 500;
/// The most announcements of this process whose return is measured.
const SENT_MAX: usize = 1_000;

/// Why steps of a task may have become ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Submitted,
    Reported,
    Operated,
    /// The task has ended, or may have.
    Ended,
}

impl Cause {
    fn name(self) -> Option<&'static str> {
        match self {
            Cause::Submitted => Some("task_start"),
            Cause::Reported => Some("step_transition"),
            Cause::Operated => Some("manual_operation"),
            Cause::Ended => None,
        }
    }
}

/// A change of a task.
pub(crate) struct TaskEvent {
    task: Uuid,
    cause: Cause,
    at: Instant,
}

/// Receives the events of tasks.
pub(crate) struct TaskEvents {
    namespaces: watch::Receiver<NamespaceMap>,
    queue: mpsc::Sender<TaskEvent>,
    meter: Arc<Meter>,
    /// The orchestrators of this process, and how many of them subscribe to all namespaces.
    orchestrators: RwLock<Vec<Weak<Coordination>>>,
    everything: AtomicUsize,
    /// When announced changes were committed, by task and stamp.
    sent: Mutex<HashMap<(Uuid, i64), Instant>>,
}

/// Whether changes in a namespace are announced. In shadow mode they are, too, to measure them.
pub(crate) fn is_announced(namespace: &Namespace) -> bool {
    namespace.settings.announces || namespace.settings.mode == Mode::Shadow
}

impl TaskEvents {
    pub(crate) fn new(
        namespaces: watch::Receiver<NamespaceMap>,
        meter: Arc<Meter>,
    ) -> (TaskEvents, mpsc::Receiver<TaskEvent>) {
        let (queue, events) = mpsc::channel(QUEUE);
        let task_events = TaskEvents {
            namespaces,
            queue,
            meter,
            orchestrators: RwLock::default(),
            everything: AtomicUsize::new(0),
            sent: Mutex::default(),
        };
        (task_events, events)
    }

    /// Adds an event of a task; `None`: its namespace is unknown. Never waits.
    pub(crate) fn publish(&self, namespace: Option<&str>, task: Uuid, cause: Cause) {
        if !self.is_wanted(namespace) {
            return;
        }
        if self.queue.try_send(TaskEvent { task, cause, at: Instant::now() }).is_err() {
            self.meter.unannounced.add(1);
        }
    }

    fn is_wanted(&self, namespace: Option<&str>) -> bool {
        if self.everything.load(Relaxed) > 0 {
            return true;
        }
        let namespaces = self.namespaces.borrow();
        match namespace {
            Some(name) => namespaces.get(name).is_some_and(is_announced),
            None => namespaces.values().any(is_announced),
        }
    }

    /// Subscribes an orchestrator; `everything`: to all namespaces, not only those with announcements.
    pub(crate) fn attach(&self, orchestrator: &Arc<Coordination>, everything: bool) {
        let mut all = self.orchestrators.write();
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(orchestrator));
        self.everything.fetch_add(usize::from(everything), Relaxed);
    }

    /// The running orchestrators of this process.
    pub(crate) fn running(&self) -> Vec<Arc<Coordination>> {
        let all = self.orchestrators.read();
        all.iter().filter_map(Weak::upgrade).filter(|one| !one.is_stopped()).collect()
    }

    /// Unsubscribes an orchestrator.
    pub(crate) fn detach(&self, everything: bool) {
        self.everything.fetch_sub(usize::from(everything), Relaxed);
    }

    /// The time since the commit of a change that comes back through PostgreSQL; `None`: it was not committed here.
    pub(crate) fn returned(&self, event: &TaskReadyEvent) -> Option<Duration> {
        let mut sent = self.sent.lock();
        sent.remove(&(event.task_uuid, event.updated_at_us)).map(|at| at.elapsed())
    }

    fn note_sent(&self, snapshot: &TaskSnapshot, at: Instant) {
        // Without a connected listener the announcement does not come back.
        let listening = |one: &Weak<Coordination>| one.upgrade().is_some_and(|one| one.is_listening());
        if !self.orchestrators.read().iter().any(listening) {
            return;
        }
        let mut sent = self.sent.lock();
        if sent.len() >= SENT_MAX {
            sent.clear();
        }
        sent.insert((snapshot.task, snapshot.updated_at_us), at);
    }

    fn pass_on(&self, event: &TaskReadyEvent, at: Instant) {
        let orchestrators = self.orchestrators.read().clone();
        for one in orchestrators.iter().filter_map(Weak::upgrade) {
            one.offer(event.clone(), Some(at));
        }
    }
}

/// Publishes events until the flow is dropped.
pub(crate) async fn run(inner: Weak<Inner>, mut events: mpsc::Receiver<TaskEvent>) {
    while let Some(first) = events.recv().await {
        sleep(WINDOW).await;
        let mut batch: HashMap<Uuid, TaskEvent> = HashMap::new();
        let mut next = Some(first);
        while let Some(event) = next {
            match batch.get_mut(&event.task) {
                // Keep the time of the first event; a cause that may have made steps ready takes precedence over an
                // end.
                Some(waiting) if waiting.cause == Cause::Ended => waiting.cause = event.cause,
                Some(_) => {}
                None => drop(batch.insert(event.task, event)),
            }
            next = if batch.len() < BATCH { events.try_recv().ok() } else { None };
        }
        let Some(inner) = inner.upgrade() else { return };
        if let Err(error) = inner.publish_task_events(&batch).await {
            inner.meter.unannounced.add(batch.len() as u64);
            tracing::warn!(error = reveille_pg::causes(&error), "publishing events of tasks failed");
        }
    }
}

impl Inner {
    async fn publish_task_events(&self, batch: &HashMap<Uuid, TaskEvent>) -> Result<()> {
        let tasks: Vec<Uuid> = batch.keys().copied().collect();
        let rows = self.db.ask("read the state of tasks", || sqlx::query(&self.sql.task_events).bind(&tasks)).await?;
        let (mut channels, mut payloads) = (Vec::new(), Vec::new());
        for row in &rows {
            let snapshot = TaskSnapshot::of(row)?;
            let Some(TaskEvent { cause, at, .. }) = batch.get(&snapshot.task) else { continue };
            if row.try_get("announced")? {
                self.task_events.note_sent(&snapshot, *at);
                for (channel, payload) in snapshot.announcements(self.schema.name(), cause.name()) {
                    channels.push(channel);
                    payloads.push(payload);
                }
            }
            if cause.name().is_some() && snapshot.ended.is_none() {
                self.task_events.pass_on(&snapshot.event(EventSource::InProcess), *at);
            }
        }
        if channels.is_empty() {
            return Ok(());
        }
        let query = || sqlx::query(&self.sql.announce).bind(&channels).bind(&payloads);
        self.db.ask("announce changes of tasks", query).await?;
        self.meter.announced.add(channels.len() as u64);
        Ok(())
    }
}
