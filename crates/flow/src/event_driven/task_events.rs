//! What has happened to tasks, told to whoever wants to hear of it: listeners outside, and coordinators of this process.
//!
//! Whoever commits something about a task says so here, once it is committed. Of namespaces that nobody wants to hear of nothing is kept: that costs a look into a table. The others wait in a bounded queue
//! for a moment; then one statement reads how all of these tasks stand, and another tells the listeners outside. One task does that, one batch after the other, so it never uses more than one connection. What
//! does not fit into the queue is dropped and counted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use sqlx::Row;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::announce::Standing;
use super::coordination::Coordination;
use super::event::{EventSource, TaskReadyEvent};
use super::meter::Meter;
use crate::error::Result;
use crate::flow::Inner;
use crate::namespace::{Known, Mode, Namespace};

/// Words that wait to be told: a second of a busy server.
const QUEUE: usize = 10_000;
/// How long words are collected.
const WINDOW: Duration = Duration::from_millis(5);
/// Tasks told of at a time: a statement of moderate size.
const BATCH: usize = 500;
/// Announcements of this process whose way back is measured; beyond it they are not.
const SENT_MAX: usize = 1_000;

/// Why steps of a task may be ready now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Submitted,
    ReportedStep,
    Operated,
    /// None are: it has ended, or may have.
    StepReport,
}

impl Cause {
    fn name(self) -> Option<&'static str> {
        match self {
            Cause::Submitted => Some("task_start"),
            Cause::ReportedStep => Some("step_transition"),
            Cause::Operated => Some("manual_operation"),
            Cause::StepReport => None,
        }
    }
}

/// That something has happened to a task.
pub(crate) struct Word {
    task: Uuid,
    cause: Cause,
    at: Instant,
}

/// Where to say what has happened to tasks.
pub(crate) struct News {
    known: watch::Receiver<Known>,
    queue: mpsc::Sender<Word>,
    meter: Arc<Meter>,
    /// Orchestrators of this process, and how many of them want to hear of every namespace.
    orchestrators: RwLock<Vec<Weak<Coordination>>>,
    everything: AtomicUsize,
    /// When what was announced had happened, by task and stamp.
    sent: Mutex<HashMap<(Uuid, i64), Instant>>,
}

/// Whether listeners outside are told of a namespace. What is only listened to is told, too: that is what is measured.
pub(crate) fn is_announced(namespace: &Namespace) -> bool {
    namespace.settings.announces || namespace.settings.mode == Mode::Shadow
}

impl News {
    pub(crate) fn new(known: watch::Receiver<Known>, meter: Arc<Meter>) -> (News, mpsc::Receiver<Word>) {
        let (queue, words) = mpsc::channel(QUEUE);
        let news = News {
            known,
            queue,
            meter,
            orchestrators: RwLock::default(),
            everything: AtomicUsize::new(0),
            sent: Mutex::default(),
        };
        (news, words)
    }

    /// Something has happened to a task; of an unknown namespace, if none is given. Never waits.
    pub(crate) fn tell(&self, namespace: Option<&str>, task: Uuid, cause: Cause) {
        if !self.is_wanted(namespace) {
            return;
        }
        if self.queue.try_send(Word { task, cause, at: Instant::now() }).is_err() {
            self.meter.untold.add(1);
        }
    }

    fn is_wanted(&self, namespace: Option<&str>) -> bool {
        if self.everything.load(Relaxed) > 0 {
            return true;
        }
        let known = self.known.borrow();
        match namespace {
            Some(name) => known.get(name).is_some_and(is_announced),
            None => known.values().any(is_announced),
        }
    }

    /// An orchestrator that hears of tasks from now on; of those of all namespaces, if it says so.
    pub(crate) fn attach(&self, orchestrator: &Arc<Coordination>, everything: bool) {
        let mut all = self.orchestrators.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(orchestrator));
        self.everything.fetch_add(usize::from(everything), Relaxed);
    }

    /// The orchestrators of this process that run.
    pub(crate) fn running(&self) -> Vec<Arc<Coordination>> {
        let all = self.orchestrators.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(Weak::upgrade).filter(|one| !one.is_stopped()).collect()
    }

    /// One that wanted to hear of all namespaces does not any more.
    pub(crate) fn detach(&self, everything: bool) {
        self.everything.fetch_sub(usize::from(everything), Relaxed);
    }

    /// How long ago something happened that comes back now through PostgreSQL; `None`: it is not known to have happened here.
    pub(crate) fn returned(&self, event: &TaskReadyEvent) -> Option<Duration> {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.remove(&(event.task_uuid, event.updated_at_us)).map(|at| at.elapsed())
    }

    fn sending(&self, standing: &Standing, at: Instant) {
        // Only who listens hears them again.
        let listening = |one: &Weak<Coordination>| one.upgrade().is_some_and(|one| one.is_listening());
        if !self.orchestrators.read().unwrap_or_else(PoisonError::into_inner).iter().any(listening) {
            return;
        }
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        if sent.len() >= SENT_MAX {
            sent.clear();
        }
        sent.insert((standing.task, standing.updated_at_us), at);
    }

    fn pass_on(&self, event: &TaskReadyEvent, at: Instant) {
        let orchestrators = self.orchestrators.read().unwrap_or_else(PoisonError::into_inner).clone();
        for one in orchestrators.iter().filter_map(Weak::upgrade) {
            one.offer(event.clone(), Some(at));
        }
    }
}

/// Tells what is said, for as long as anybody has the flow.
pub(crate) async fn run(inner: Weak<Inner>, mut words: mpsc::Receiver<Word>) {
    while let Some(first) = words.recv().await {
        sleep(WINDOW).await;
        let mut batch: HashMap<Uuid, Word> = HashMap::new();
        let mut next = Some(first);
        while let Some(word) = next {
            match batch.get_mut(&word.task) {
                // The first word is the oldest; what may have made steps ready says more than an end.
                Some(known) if known.cause == Cause::StepReport => known.cause = word.cause,
                Some(_) => {}
                None => drop(batch.insert(word.task, word)),
            }
            next = if batch.len() < BATCH { words.try_recv().ok() } else { None };
        }
        let Some(inner) = inner.upgrade() else { return };
        if let Err(error) = inner.tell(&batch).await {
            inner.meter.untold.add(batch.len() as u64);
            tracing::warn!(error = reveille_pg::causes(&error), "what happened to tasks could not be told");
        }
    }
}

impl Inner {
    async fn tell(&self, batch: &HashMap<Uuid, Word>) -> Result<()> {
        let tasks: Vec<Uuid> = batch.keys().copied().collect();
        let rows = self.db.ask("read how tasks stand", || sqlx::query(&self.sql.task_events).bind(&tasks)).await?;
        let (mut channels, mut payloads) = (Vec::new(), Vec::new());
        for row in &rows {
            let standing = Standing::of(row)?;
            let Some(Word { cause, at, .. }) = batch.get(&standing.task) else { continue };
            if row.try_get("announced")? {
                self.news.sending(&standing, *at);
                for (channel, payload) in standing.announcements(self.schema.name(), cause.name()) {
                    channels.push(channel);
                    payloads.push(payload);
                }
            }
            if cause.name().is_some() && standing.ended.is_none() {
                self.news.pass_on(&standing.event(EventSource::InProcess), *at);
            }
        }
        if channels.is_empty() {
            return Ok(());
        }
        let query = || sqlx::query(&self.sql.announce).bind(&channels).bind(&payloads);
        self.db.ask("tell listeners outside", query).await?;
        self.meter.announced.add(channels.len() as u64);
        Ok(())
    }
}
