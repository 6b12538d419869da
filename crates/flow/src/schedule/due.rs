//! Schedules whose time has come: taken by one server at a time, submitted, and advanced.

use std::time::Duration;

use futures_util::future::join_all;
use reveille_pg::{Schema, Sql};
use reveille_wake::{BatchResult, BatchedWrite, Channel, WakeUp, WriteBatch};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use tokio::time::Instant;
use uuid::Uuid;

use super::stored::Standing;
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::task::identity::identity_of_tick;

/// The pause after a failure that may pass.
const RETRY: Duration = Duration::from_secs(5);
/// The pause after a schedule that this server does not understand: another one may, or this one after an update.
const STRANGE: Duration = Duration::from_secs(60);

/// A schedule whose time has come. Until its lease ends it is this server's; should that only be slow, another one does the same beside it, which changes nothing.
#[derive(Debug)]
pub(crate) struct DueSchedule {
    standing: Standing,
    /// What time it was by the database's clock, and by ours when we heard it.
    asked_at: OffsetDateTime,
    heard: Instant,
}

impl DueSchedule {
    pub(crate) fn of(row: &PgRow) -> sqlx::Result<DueSchedule> {
        Ok(DueSchedule { standing: Standing::read(row)?, asked_at: row.try_get("asked_at")?, heard: Instant::now() })
    }
}

impl Flow {
    /// Submits what is due, and advances the schedules.
    pub(crate) async fn run_due(&self, due: Vec<DueSchedule>) -> Result<()> {
        join_all(due.into_iter().map(|due| self.run_one(due))).await.into_iter().collect()
    }

    async fn run_one(&self, due: DueSchedule) -> Result<()> {
        let DueSchedule { standing, asked_at, heard } = due;
        let Some(from) = standing.next_at else { return Ok(()) };
        let schedule = &standing.schedule;
        let (mut last, mut retry) = (None, None);
        let next = match schedule.ticks() {
            Ok(ticks) => {
                let plan = ticks.plan(schedule.missed, from, asked_at, schedule.grace());
                let mut next = plan.next;
                for tick in plan.run {
                    let ran = last.get_or_insert(Last { tick, task: None, error: None });
                    ran.tick = tick;
                    match self.run_tick(&standing, tick).await {
                        Ok(task) => (ran.task, ran.error) = (Some(task), None),
                        Err(error) => {
                            let (namespace, name) = (&schedule.namespace, &schedule.name);
                            tracing::warn!(%namespace, %name, %tick, error = reveille_pg::causes(&error), "a tick made no task");
                            ran.error = Some(error.to_string());
                            if !is_for_good(&error) {
                                (next, retry) = (Some(tick), Some(RETRY));
                                break;
                            }
                        }
                    }
                }
                next
            }
            Err(error) => {
                last = Some(Last { tick: from, task: None, error: Some(error.to_string()) });
                retry = Some(STRANGE);
                Some(from)
            }
        };
        let due_in = retry.or_else(|| {
            let left = Duration::try_from(next? - asked_at).unwrap_or_default();
            Some(left.saturating_sub(heard.elapsed()))
        });
        let advance = Advance { id: standing.id, version: standing.version, from, next, retry, due_in, last };
        self.inner.advances.submit(advance).await?;
        Ok(())
    }

    /// The task of a tick: made now, or before.
    async fn run_tick(&self, standing: &Standing, tick: OffsetDateTime) -> Result<Uuid> {
        let submission = standing.schedule.submission(Some(tick));
        let kept = self.inner.allowed(&submission).await?;
        match self.inner.make(kept, submission, Some(identity_of_tick(standing.id, tick))).await {
            Ok(made) => Ok(made.task_uuid),
            Err(Error::Duplicate { task }) => Ok(task),
            Err(error) => Err(error),
        }
    }
}

/// Whether the same submission would fail again: the tick is given up, and the schedule goes on with the next.
fn is_for_good(error: &Error) -> bool {
    matches!(
        error,
        Error::Invalid { .. }
            | Error::NoTemplate { .. }
            | Error::Template(_)
            | Error::Wake(reveille_wake::Error::Refused { .. })
    )
}

/// What became of a schedule that was due.
pub(crate) struct Advance {
    id: Uuid,
    version: i64,
    from: OffsetDateTime,
    next: Option<OffsetDateTime>,
    retry: Option<Duration>,
    /// About: the answer says it exactly.
    due_in: Option<Duration>,
    last: Option<Last>,
}

/// The last tick that ran.
struct Last {
    tick: OffsetDateTime,
    /// The last task that was made.
    task: Option<Uuid>,
    error: Option<String>,
}

pub(crate) enum AdvanceOutcome {
    /// It is due again after this.
    Advanced(Option<Duration>),
    /// Another server advanced it, or a user changed or deleted it.
    Changed,
}

/// Sends what became of schedules.
pub(crate) struct Advances {
    channel: Channel,
    advance: Sql,
}

impl Advances {
    pub(crate) fn new(schema: &Schema, channel: Channel) -> Advances {
        Advances { channel, advance: schema.sql(reveille_pg::statement!("advance_schedules")) }
    }
}

impl BatchedWrite for Advances {
    type Write = Advance;
    type Key = Uuid;
    type Outcome = AdvanceOutcome;
    const RECORDS_OUTCOMES: bool = false;

    fn key(&self, write: &Advance) -> Uuid {
        write.id
    }

    fn wake_ups(&self, write: &Advance, outcome: Option<&AdvanceOutcome>) -> Vec<WakeUp> {
        let due_in = match outcome {
            None => write.due_in,
            Some(AdvanceOutcome::Advanced(due_in)) => *due_in,
            Some(AdvanceOutcome::Changed) => None,
        };
        due_in.map(|due_in| self.channel.wake_up().after(due_in)).into_iter().collect()
    }

    async fn send(
        &self,
        conn: &mut PgConnection,
        batch: &WriteBatch<'_, Advance>,
    ) -> reveille_pg::Result<BatchResult<Self::Outcome>> {
        let writes = &batch.writes;
        let last = || writes.iter().map(|write| write.last.as_ref());
        let query = batch
            .query(&self.advance)
            .bind(writes.iter().map(|write| write.id).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.version).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.from).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.next).collect::<Vec<_>>())
            .bind(writes.iter().map(|write| write.retry.map(|retry| retry.as_millis() as i64)).collect::<Vec<_>>())
            .bind(last().map(|last| last.map(|last| last.tick)).collect::<Vec<_>>())
            .bind(last().map(|last| last.and_then(|last| last.task)).collect::<Vec<_>>())
            .bind(last().map(|last| last.and_then(|last| last.error.as_deref())).collect::<Vec<_>>());
        batch.result(self, &query.fetch_one(conn).await?)
    }

    fn decode(&self, _: &Advance, text: &str) -> Option<AdvanceOutcome> {
        match text.split_once(' ') {
            None if text == "changed" => Some(AdvanceOutcome::Changed),
            None if text == "advanced" => Some(AdvanceOutcome::Advanced(None)),
            Some(("advanced", ms)) => Some(AdvanceOutcome::Advanced(Some(Duration::from_millis(ms.parse().ok()?)))),
            _ => None,
        }
    }
}
