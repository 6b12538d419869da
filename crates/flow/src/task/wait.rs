//! Waiting for a task, woken and not polled.
//!
//! A task that nobody watches costs no notification, and one whose end is waited for only that of its end. So whoever waits marks it first, and looks then: a change that comes after the mark sees it and rings, and one that came before is
//! seen by the look. Who waits for the end does both at once. A claim does not lock the task, and may just not see a mark that was made beside it: whoever wants to hear of every move looks once more, a moment later.

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
use crate::stored::unknown;

/// How long a wait lasts before its mark is renewed: that of a process that died rings for nobody, and not for long.
const SLICE: Duration = Duration::from_secs(60);
/// How long a mark lasts at least: longer than who relies on it waits.
const MARK: Duration = Duration::from_secs(90);
/// When a claim that did not see the mark has been committed.
const SETTLED: Duration = Duration::from_millis(250);

/// Tells waits apart.
static TURNS: AtomicU64 = AtomicU64::new(0);

/// What became of a task since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct News {
    /// The moves, in order; none if nothing moved by the deadline.
    pub transitions: Vec<Transition>,
    /// The task has ended, and these were the last, unless a person gives it another chance.
    pub over: bool,
}

/// Who waits for what.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    task: Uuid,
    /// For every move, not only for the end.
    moves: bool,
}

/// In what those who wait for the same differ.
#[derive(Debug)]
pub(crate) struct Args {
    seen: Option<TransitionId>,
    /// Nobody relies on what somebody else saw: that may have been before the mark.
    turn: u64,
}

/// What who waits is told.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    NoTask,
    StepReport,
    Moved(Arc<TaskHistory>),
}

/// Watching tasks, through the same engine that waits for steps.
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
    /// That it has happened, and what. Nothing is taken, so there is nothing to give back.
    type Item = Told;

    fn topics(&self, key: &Key) -> Vec<Topic> {
        vec![self.channel.topic_of(&key.task.to_string())]
    }

    async fn poll(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<Key, Args>,
    ) -> reveille_pg::Result<PollResult<Told>> {
        let task = poll.key.task;
        if !poll.key.moves {
            let asked = sqlx::query_scalar(&self.await_task).bind(task).bind(MARK.as_millis() as i64);
            let stands: Option<String> = asked.fetch_one(conn).await?;
            let told = match stands.as_deref() {
                Some("awaited") => return Ok(PollResult::new(None)),
                // It is as with a row that was skipped: looked for again, soon.
                Some("locked") => return Ok(PollResult::new(Some(Duration::ZERO))),
                Some("ended") => Told::StepReport,
                Some(other) => return Err(unknown("answer of await_task", other).into()),
                None => Told::NoTask,
            };
            let mut polled = PollResult::new(None);
            // Nothing is taken by being told: it is there for the next one at once.
            (0..poll.waiters.len()).for_each(|waiter| polled.give(waiter, told.clone(), Some(Duration::ZERO)));
            return Ok(polled);
        }
        let rows = sqlx::query(&self.history).bind(task).fetch_all(conn).await?;
        let Some(known) = TaskHistory::read(task, &rows)?.map(Arc::new) else { return Ok(PollResult::new(None)) };
        let is_new = |waiter: &reveille_wake::Waiter<Args>| waiter.waited < SETTLED;
        let again = poll.waiters.iter().any(is_new).then_some(SETTLED);
        let next = known.next.and_then(|next| Duration::try_from(next).ok());
        let mut polled = PollResult::new([again, next].into_iter().flatten().min());
        for (place, waiter) in poll.waiters.iter().enumerate() {
            if known.over || !known.after(waiter.args.seen.as_ref()).is_empty() {
                polled.give(place, Told::Moved(known.clone()), Some(Duration::ZERO));
            }
        }
        Ok(polled)
    }

    async fn give_back(&self, _: &mut PgConnection, _: &[Told]) -> reveille_pg::Result<()> {
        Ok(())
    }

    async fn sweep(&self, conn: &mut PgConnection, keys: &[Key]) -> reveille_pg::Result<Vec<usize>> {
        let (tasks, moves): (Vec<Uuid>, Vec<bool>) = keys.iter().map(|key| (key.task, key.moves)).unzip();
        let places: Vec<i32> = sqlx::query_scalar(&self.sweep).bind(tasks).bind(moves).fetch_all(conn).await?;
        Ok(places.into_iter().filter_map(|place| usize::try_from(place).ok()).collect())
    }

    fn visibility_key(&self, args: &Args) -> Option<Box<str>> {
        Some(args.turn.to_string().into())
    }
}

impl Flow {
    /// Waits until a task has ended, and answers it. `None`: not by the deadline.
    ///
    /// # Errors
    /// [`Error::NoTask`]; else the engine's or the database's.
    ///
    /// # Cancel safety
    /// Nothing is taken: dropping the future changes nothing.
    pub async fn wait(&self, task: Uuid, deadline: Instant) -> Result<Option<Task>> {
        match self.inner.watch(Key { task, moves: false }, None, deadline).await? {
            Some(Told::NoTask) => Err(Error::NoTask { task }),
            Some(_) => self.task(task).await,
            None => Ok(None),
        }
    }

    /// Waits for what becomes of a task and its steps after a transition (`None`: from the beginning), and answers all of it: at once if there is something already, or if the task has
    /// ended. Nothing is missed, whatever is presented; what happened shortly before a transition may come again, under its own id, if it was seen later than that.
    ///
    /// # Errors
    /// [`Error::NoTask`]; else the engine's or the database's.
    ///
    /// # Cancel safety
    /// Nothing is taken: dropping the future changes nothing.
    pub async fn watch(&self, task: Uuid, after: Option<TransitionId>, deadline: Instant) -> Result<News> {
        Ok(match self.inner.watch(Key { task, moves: true }, after, deadline).await? {
            Some(Told::Moved(known)) => News { transitions: known.after(after.as_ref()).to_vec(), over: known.over },
            _ => News { transitions: Vec::new(), over: false },
        })
    }
}

impl Inner {
    /// `None`: nothing happened by the deadline.
    async fn watch(&self, key: Key, seen: Option<TransitionId>, deadline: Instant) -> Result<Option<Told>> {
        loop {
            let task = key.task;
            let mark = || sqlx::query(&self.sql.mark_watched).bind(task).bind(MARK.as_millis() as i64);
            if key.moves && self.db.ask("mark a task as watched", mark).await?.is_empty() {
                return Err(Error::NoTask { task });
            }
            let args = Args { seen, turn: TURNS.fetch_add(1, Relaxed) };
            let until = deadline.min(Instant::now() + SLICE);
            if let Some(told) = self.watches.claim(key.clone(), 1, args, until).await? {
                return Ok(told.accept().pop());
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
        }
    }
}
