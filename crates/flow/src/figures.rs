//! What operators watch of task graphs: how tasks and steps stand, what waits for longest, what has failed.
//!
//! Monitoring asks for this for ever: it is read only when something has happened since, see [`reveille_wake::Snapshot`]. Finished tasks are never
//! counted one by one beyond [`COUNTED_MAX`], so that a million of them cost no more than ten thousand.

use std::time::Duration;

use reveille_wake::{Aged, READ_WITHIN};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::flow::Flow;
use crate::stored::unknown;

/// Tasks of a namespace in a state, steps altogether, and tasks to be looked into: more are reported as so many.
pub const COUNTED_MAX: u32 = 10_000;

/// How tasks and steps stand. A namespace of `None` is the sum of those that are not told by themselves.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figures {
    /// Tasks by namespace and state: `open`, `complete`, `error`, `cancelled`, `resolved_manually`.
    pub tasks: Vec<StateFigures>,
    /// Open tasks by namespace and state: `steps_in_process`, `enqueuing_steps`, `waiting_for_retry`, of the first [`COUNTED_MAX`] steps that can go on; and `waiting_for_dependencies`, if
    /// there are no more of those. One that failed is open only while a worker has a step of it.
    pub open_tasks: Vec<StateFigures>,
    /// Steps by namespace and state: `ready`, `in_progress`, `waiting_for_retry`; and of open tasks, up to a tenth of [`COUNTED_MAX`] of each, `pending`, `complete`, `error`, `cancelled`, `resolved_manually`.
    pub steps: Vec<StateFigures>,
    /// By namespace: for how long the step that can be claimed and has waited longest had waited when this was read.
    pub oldest_ready: Vec<(Option<String>, Duration)>,
    /// By namespace: tasks in which something failed for good.
    pub failed: Vec<(Option<String>, u64)>,
    /// Tasks with an open investigation.
    pub investigations: u64,
}

/// How many there are of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFigures {
    /// The namespace; `None`: the others.
    pub namespace: Option<String>,
    /// The state.
    pub state: String,
    /// How many.
    pub amount: u64,
}

impl Figures {
    fn of(rows: &[PgRow]) -> reveille_pg::Result<Figures> {
        let mut figures = Figures::default();
        for row in rows {
            let namespace: Option<String> = row.try_get("namespace")?;
            let state: Option<String> = row.try_get("state")?;
            let amount = row.try_get::<i64, _>("amount")?.max(0) as u64;
            let oldest: Option<f64> = row.try_get("oldest")?;
            let in_state = |namespace| StateFigures { namespace, state: state.unwrap_or_default(), amount };
            match row.try_get::<&str, _>("kind")? {
                "tasks" => figures.tasks.push(in_state(namespace)),
                "open_tasks" => figures.open_tasks.push(in_state(namespace)),
                "steps" => figures.steps.push(in_state(namespace)),
                "oldest_ready" => {
                    let oldest = Duration::try_from_secs_f64(oldest.unwrap_or_default()).unwrap_or_default();
                    figures.oldest_ready.push((namespace, oldest));
                }
                "failed" => figures.failed.push((namespace, amount)),
                "investigations" => figures.investigations = amount,
                other => return Err(unknown("figure", other).into()),
            }
        }
        Ok(figures)
    }
}

impl Flow {
    /// How tasks and steps stand: of `top` namespaces by themselves, of the others summed up. Read again only if something has happened
    /// since; `None` if it could not be read yet.
    ///
    /// # Cancel safety
    /// A reading that has begun goes on.
    pub async fn figures(&self, top: u32) -> Option<Aged<Figures>> {
        let inner = self.inner.clone();
        let activity = inner.wake.activity();
        let read = || async move {
            let query = sqlx::query(&inner.sql.flow_figures).bind(i64::from(top)).bind(i64::from(COUNTED_MAX));
            Figures::of(&inner.db.observer().ask_within(READ_WITHIN, query).await?)
        };
        self.inner.figures.get(activity, read).await
    }

    /// How many readings of [`figures`](Self::figures) have failed.
    pub fn failed_figures(&self) -> u64 {
        self.inner.figures.failures()
    }
}
