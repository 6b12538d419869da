//! Waiting for a task, without polling.
//!
//! Only changes of watched tasks are notified, and of a task whose end is awaited only the end. So a waiter first marks
//! the task as watched and then reads it: a later change sees the mark and notifies, an earlier one is read. Waiting
//! for the end does both in one statement. A claim does not lock the task, so it may miss a concurrent mark: a waiter
//! for every change reads once more after [`MARK_DELAY`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use reveille_pg::{Schema, Sql};
use reveille_wake::{Channel, Claim, PollRequest, PollResult, Topic};
use serde::Serialize;
use sqlx::PgConnection;
use tokio::time::Instant;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::flow::{Flow, Inner};
use crate::query::task::Task;
use crate::query::transition::{TaskHistory, Transition, TransitionId};
use crate::task::stored::unknown;

/// How long a wait lasts before its mark is renewed. Marks are short, because that of a crashed process causes
/// notifications that have no receiver.
const SLICE: Duration = Duration::from_secs(60);
/// How long a mark lasts at least: longer than a wait that relies on it.
const MARK: Duration = Duration::from_secs(90);
/// After this time a claim that did not see the mark has committed.
const MARK_DELAY: Duration = Duration::from_millis(250);

/// Numbers the waits.
static WAITS: AtomicU64 = AtomicU64::new(0);

/// The changes of a task since a transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct TaskProgress {
    /// The transitions, in order; none if there was none by the deadline.
    pub transitions: Vec<Transition>,
    /// Whether the task has ended: there are no more transitions, unless an operator resets it.
    pub over: bool,
}

/// What equal waits have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    task: Uuid,
    /// Whether every change is awaited, or only the end.
    every_change: bool,
}

/// What equal waits differ in.
#[derive(Debug)]
pub(crate) struct Args {
    seen: Option<TransitionId>,
    /// The number of the wait. A result of another wait is not used: it may have been read before the mark.
    wait: u64,
}

/// The result of a wait.
#[derive(Debug, Clone)]
pub(crate) enum WatchResult {
    NoTask,
    Ended,
    Changed(Arc<TaskHistory>),
}

/// Watches tasks.
pub(crate) struct Watches {
    channel: Channel,
    await_task: Sql,
    history: Sql,
    sweep: Sql,
}

impl Watches {
    pub(crate) fn new(schema: &Schema, channel: Channel) -> Watches {
        Watches {
            channel,
            await_task: schema.sql(reveille_pg::statement!("await_task")),
            history: schema.sql(reveille_pg::statement!("task_history")),
            sweep: schema.sql(reveille_pg::statement!("watched_tasks")),
        }
    }
}

impl Claim for Watches {
    type Key = Key;
    type Args = Args;
    /// Nothing is claimed, so there is nothing to give back.
    type Item = WatchResult;

    fn topics(&self, key: &Key) -> Vec<Topic> {
        vec![self.channel.topic_of(&key.task.to_string())]
    }

    async fn poll(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<Key, Args>,
    ) -> reveille_pg::Result<PollResult<WatchResult>> {
        let task = poll.key.task;
        if !poll.key.every_change {
            let asked = sqlx::query_scalar(&self.await_task).bind(task).bind(MARK.as_millis() as i64);
            let status: Option<String> = asked.fetch_one(conn).await?;
            let result = match status.as_deref() {
                Some("awaited") => return Ok(PollResult::new(None)),
                // As if a row was skipped: poll again soon.
                Some("locked") => return Ok(PollResult::new(Some(Duration::ZERO))),
                Some("ended") => WatchResult::Ended,
                Some(other) => return Err(unknown("answer of await_task", other).into()),
                None => WatchResult::NoTask,
            };
            let mut polled = PollResult::new(None);
            // Nothing is claimed: the next waiter gets the same result.
            (0..poll.waiters.len()).for_each(|waiter| polled.give(waiter, result.clone(), Some(Duration::ZERO)));
            return Ok(polled);
        }
        let rows = sqlx::query(&self.history).bind(task).fetch_all(conn).await?;
        let Some(history) = TaskHistory::read(task, &rows)?.map(Arc::new) else { return Ok(PollResult::new(None)) };
        let is_new = |waiter: &reveille_wake::Waiter<Args>| waiter.waited < MARK_DELAY;
        let again = poll.waiters.iter().any(is_new).then_some(MARK_DELAY);
        let next = history.next.and_then(|next| Duration::try_from(next).ok());
        let mut polled = PollResult::new([again, next].into_iter().flatten().min());
        for (index, waiter) in poll.waiters.iter().enumerate() {
            if history.over || !history.after(waiter.args.seen.as_ref()).is_empty() {
                polled.give(index, WatchResult::Changed(history.clone()), Some(Duration::ZERO));
            }
        }
        Ok(polled)
    }

    async fn give_back(&self, _: &mut PgConnection, _: &[WatchResult]) -> reveille_pg::Result<()> {
        Ok(())
    }

    async fn sweep(&self, conn: &mut PgConnection, keys: &[Key]) -> reveille_pg::Result<Vec<usize>> {
        let (tasks, every_change): (Vec<Uuid>, Vec<bool>) = keys.iter().map(|key| (key.task, key.every_change)).unzip();
        let indexes: Vec<i32> = sqlx::query_scalar(&self.sweep).bind(tasks).bind(every_change).fetch_all(conn).await?;
        Ok(indexes.into_iter().filter_map(|index| usize::try_from(index).ok()).collect())
    }

    fn visibility_key(&self, args: &Args) -> Option<Box<str>> {
        Some(args.wait.to_string().into())
    }
}

impl Flow {
    /// Waits until a task has ended and returns it. `None`: it had not ended by the deadline.
    ///
    /// # Errors
    /// [`Error::NoTask`]; otherwise an error of the engine or the database.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn wait(&self, task: Uuid, deadline: Instant) -> Result<Option<Task>> {
        match self.inner.watch(Key { task, every_change: false }, None, deadline).await? {
            Some(WatchResult::NoTask) => Err(Error::NoTask { task }),
            Some(_) => self.task(task).await,
            None => Ok(None),
        }
    }

    /// Waits for transitions of a task and its steps after one (`None`: from the first) and returns all of them; at
    /// once if there are some, or if the task has ended. No transition is missed. Transitions dated shortly before
    /// `after` may be returned again, with their ids, if one of them became visible later.
    ///
    /// # Errors
    /// [`Error::NoTask`]; otherwise an error of the engine or the database.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn watch(&self, task: Uuid, after: Option<TransitionId>, deadline: Instant) -> Result<TaskProgress> {
        Ok(match self.inner.watch(Key { task, every_change: true }, after, deadline).await? {
            Some(WatchResult::Changed(history)) => {
                TaskProgress { transitions: history.after(after.as_ref()).to_vec(), over: history.over }
            }
            _ => TaskProgress { transitions: Vec::new(), over: false },
        })
    }
}

impl Inner {
    /// `None`: there was no change by the deadline.
    async fn watch(&self, key: Key, seen: Option<TransitionId>, deadline: Instant) -> Result<Option<WatchResult>> {
        loop {
            let task = key.task;
            let mark = || sqlx::query(&self.sql.mark_watched).bind(task).bind(MARK.as_millis() as i64);
            if key.every_change && self.db.ask("mark a task as watched", mark).await?.is_empty() {
                return Err(Error::NoTask { task });
            }
            let args = Args { seen, wait: WAITS.fetch_add(1, Relaxed) };
            let until = deadline.min(Instant::now() + SLICE);
            if let Some(result) = self.watches.claim(key.clone(), 1, args, until).await? {
                return Ok(result.accept().pop());
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
        }
    }
}
