//! Due schedules: one server at a time leases each, submits the tasks of its ticks and advances it.

use std::time::Duration;

use futures_util::future::join_all;
use reveille_pg::{Schema, Sql};
use reveille_wake::{BatchResult, BatchedWrite, Channel, WakeUp, WriteBatch};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use tokio::time::Instant;
use uuid::Uuid;

use super::stored::StoredSchedule;
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::task::identity::identity_of_tick;

/// The pause after a transient failure.
const RETRY: Duration = Duration::from_secs(5);
/// The pause after a schedule that this server cannot read: a newer server can.
const UNREADABLE: Duration = Duration::from_secs(60);

/// A due schedule, leased to this server. If the lease ends before it is advanced, another server repeats the same,
/// which changes nothing.
#[derive(Debug)]
pub(crate) struct DueSchedule {
    stored: StoredSchedule,
    /// When it was read, by the database's clock, and by that of this process.
    asked_at: OffsetDateTime,
    read_at: Instant,
}

impl DueSchedule {
    pub(crate) fn of(row: &PgRow) -> sqlx::Result<DueSchedule> {
        Ok(DueSchedule {
            stored: StoredSchedule::read(row)?,
            asked_at: row.try_get("asked_at")?,
            read_at: Instant::now(),
        })
    }
}

impl Flow {
    /// Submits the tasks of due schedules and advances the schedules.
    pub(crate) async fn run_due(&self, due: Vec<DueSchedule>) -> Result<()> {
        join_all(due.into_iter().map(|due| self.run_one(due))).await.into_iter().collect()
    }

    async fn run_one(&self, due: DueSchedule) -> Result<()> {
        let DueSchedule { stored, asked_at, read_at } = due;
        let Some(from) = stored.next_at else { return Ok(()) };
        let schedule = &stored.schedule;
        let (mut last, mut retry) = (None, None);
        let next = match schedule.ticks() {
            Ok(ticks) => {
                let plan = ticks.plan(schedule.missed, from, asked_at, schedule.grace());
                let mut next = plan.next;
                for tick in plan.run {
                    let ran = last.get_or_insert(Last { tick, task: None, error: None });
                    ran.tick = tick;
                    match self.run_tick(&stored, tick).await {
                        Ok(task) => (ran.task, ran.error) = (Some(task), None),
                        Err(error) => {
                            let (namespace, name) = (&schedule.namespace, &schedule.name);
                            tracing::warn!(%namespace, %name, %tick, error = reveille_pg::causes(&error), "submitting the task of a tick failed");
                            ran.error = Some(error.to_string());
                            if !is_permanent(&error) {
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
                retry = Some(UNREADABLE);
                Some(from)
            }
        };
        let due_in = retry.or_else(|| {
            let left = Duration::try_from(next? - asked_at).unwrap_or_default();
            Some(left.saturating_sub(read_at.elapsed()))
        });
        let advance = Advance { id: stored.id, version: stored.version, from, next, retry, due_in, last };
        self.inner.advances.submit(advance).await?;
        Ok(())
    }

    /// The task of a tick, created now or before.
    async fn run_tick(&self, stored: &StoredSchedule, tick: OffsetDateTime) -> Result<Uuid> {
        let submission = stored.schedule.submission(Some(tick));
        let cached = self.inner.allowed(&submission).await?;
        match self.inner.make(cached, submission, Some(identity_of_tick(stored.id, tick)), None).await {
            Ok(created) => Ok(created.task_uuid),
            Err(Error::Duplicate { task }) => Ok(task),
            Err(error) => Err(error),
        }
    }
}

/// Whether the same submission would fail again: then the schedule continues with the next tick.
fn is_permanent(error: &Error) -> bool {
    matches!(
        error,
        Error::Invalid { .. }
            | Error::NoTemplate { .. }
            | Error::Template(_)
            | Error::Wake(reveille_wake::Error::Refused { .. })
    )
}

/// Advances a schedule.
pub(crate) struct Advance {
    id: Uuid,
    version: i64,
    from: OffsetDateTime,
    next: Option<OffsetDateTime>,
    retry: Option<Duration>,
    /// Approximate; the outcome has the exact time.
    due_in: Option<Duration>,
    last: Option<Last>,
}

/// The last tick that ran.
struct Last {
    tick: OffsetDateTime,
    /// The last created task.
    task: Option<Uuid>,
    error: Option<String>,
}

pub(crate) enum AdvanceOutcome {
    /// It is due again after this.
    Advanced(Option<Duration>),
    /// Another server advanced it, or a user changed or deleted it.
    Changed,
}

/// Writes advances of schedules.
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
