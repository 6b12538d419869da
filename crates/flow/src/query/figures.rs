//! Statistics for monitoring: tasks and steps by state, the longest wait, failures.
//!
//! They are read again only after activity: see [`reveille_wake::Snapshot`]. At most [`COUNTED_MAX`] tasks of a state
//! are counted, so that a million ended tasks cost no more than ten thousand.

use std::time::Duration;

use reveille_wake::{Aged, READ_WITHIN};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::flow::Flow;
use crate::task::stored::unknown;

/// The highest count of tasks of a namespace in a state, of all steps, and of open investigations.
pub const COUNTED_MAX: u32 = 10_000;

/// Statistics of tasks and steps. The namespace `None` is the sum of those that are not listed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figures {
    /// Tasks by namespace and state: `open`, `complete`, `error`, `cancelled`, `resolved_manually`.
    pub tasks: Vec<StateFigures>,
    /// Open tasks by namespace and state: `steps_in_process`, `enqueuing_steps` and `waiting_for_retry`, computed from
    /// at most [`COUNTED_MAX`] active steps; and `waiting_for_dependencies` for the rest, unless there are more active
    /// steps. A failed task is open while a worker holds a step of it.
    pub open_tasks: Vec<StateFigures>,
    /// Steps by namespace and state: `ready`, `in_progress`, `waiting_for_retry`; and of open tasks, up to a tenth of
    /// [`COUNTED_MAX`] of each, `pending`, `complete`, `error`, `cancelled`, `resolved_manually`.
    pub steps: Vec<StateFigures>,
    /// By namespace: how long the longest-waiting claimable step had waited when this was read.
    pub oldest_ready: Vec<(Option<String>, Duration)>,
    /// By namespace: tasks with a permanently failed step.
    pub failed: Vec<(Option<String>, u64)>,
    /// Tasks with an open investigation.
    pub investigations: u64,
}

/// The number of tasks or steps in a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFigures {
    /// The namespace; `None`: all that are not listed.
    pub namespace: Option<String>,
    /// The state.
    pub state: String,
    /// The number.
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
    /// Statistics of tasks and steps: of the `top` largest namespaces, and the sum of the others. Read again only after
    /// activity. `None`: they could not be read yet.
    ///
    /// # Cancel safety
    /// A query that has begun continues.
    pub async fn figures(&self, top: u32) -> Option<Aged<Figures>> {
        let inner = self.inner.clone();
        let activity = inner.wake.activity();
        let read = || async move {
            let query = sqlx::query(&inner.sql.flow_figures).bind(i64::from(top)).bind(i64::from(COUNTED_MAX));
            Figures::of(&inner.db.observer().ask_within(READ_WITHIN, query).await?)
        };
        self.inner.figures.get(activity, read).await
    }

    /// The number of failed queries of [`figures`](Self::figures).
    pub fn failed_figures(&self) -> u64 {
        self.inner.figures.failures()
    }
}
