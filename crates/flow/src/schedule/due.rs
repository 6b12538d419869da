//! Schedules whose time has come: taken by one server at a time, submitted, and advanced.

use std::time::Duration;

use futures_util::future::join_all;
use pg::{Schema, Sql};
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;
use tokio::time::Instant;
use uuid::Uuid;
use wake::{Boarded, Channel, Claim, Flight, Landed, Look, Looked, Ring, Topic, Wake};

use super::standing::Standing;
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::identity::identity_of_tick;

/// Schedules that are dealt with at a time. They wait for each other, and each has a few ticks.
pub(crate) const SCHEDULES_MAX: usize = 100;
/// How long a schedule is one server's. Should that die, another one goes on after it; should it only be slow, both do the same, which changes nothing.
const LEASE: Duration = Duration::from_secs(10);
/// The pause after a failure that may pass.
const RETRY: Duration = Duration::from_secs(5);
/// The pause after a schedule that this server does not understand: another one may, or this one after an update.
const STRANGE: Duration = Duration::from_secs(60);

/// A schedule whose time has come.
#[derive(Debug)]
pub(crate) struct Due {
    standing: Standing,
    /// What time it was by the database's clock, and by ours when we heard it.
    asked_at: OffsetDateTime,
    heard: Instant,
}

impl Flow {
    /// Submits what is due, and advances the schedules.
    pub(crate) async fn run_due(&self, due: Vec<Due>) -> Result<()> {
        join_all(due.into_iter().map(|due| self.run_one(due))).await.into_iter().collect()
    }

    async fn run_one(&self, due: Due) -> Result<()> {
        let Due { standing, asked_at, heard } = due;
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
                            tracing::warn!(%namespace, %name, %tick, error = pg::causes(&error), "a tick made no task");
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
            | Error::Wake(wake::Error::Refused { .. })
    )
}

/// How schedules are taken that are due.
pub(crate) struct Schedules {
    channel: Channel,
    claim: Sql,
    give_back: Sql,
    any: Sql,
}

impl Schedules {
    pub(crate) fn new(schema: &Schema, channel: Channel) -> Schedules {
        Schedules {
            channel,
            claim: schema.sql(include_str!("../../sql/claim_schedules.sql")),
            give_back: schema.sql(include_str!("../../sql/return_schedules.sql")),
            any: schema.sql(include_str!("../../sql/any_due_schedule.sql")),
        }
    }
}

impl Claim for Schedules {
    type Key = ();
    type Args = ();
    type Item = Due;

    fn topics(&self, (): &()) -> Vec<Topic> {
        vec![self.channel.topic()]
    }

    async fn look(&self, conn: &mut PgConnection, look: &Look<(), ()>) -> pg::Result<Looked<Due>> {
        let wanted = look.wanted().min(SCHEDULES_MAX) as i64;
        let query = sqlx::query(&self.claim).bind(wanted).bind(LEASE.as_millis() as i64);
        let rows = query.fetch_all(conn).await?;
        let heard = Instant::now();
        let (last, due) = rows.split_last().ok_or(sqlx::Error::RowNotFound)?;
        let due = due.iter().map(|row| {
            let asked_at = row.try_get("asked_at")?;
            Ok(Due { standing: Standing::read(row)?, asked_at, heard })
        });
        let due = due.collect::<sqlx::Result<Vec<Due>>>()?;
        Ok(Looked::next_due_ms(last.try_get("next_due_ms")?).deal(look, due, Some(LEASE)))
    }

    async fn give_back(&self, conn: &mut PgConnection, due: &[Due]) -> pg::Result<()> {
        let (channels, payloads) = Wake::notifications(&[self.channel.ring()]);
        sqlx::query(&self.give_back)
            .bind(channels)
            .bind(payloads)
            .bind(due.iter().map(|due| due.standing.id).collect::<Vec<_>>())
            .bind(due.iter().map(|due| due.standing.version).collect::<Vec<_>>())
            .bind(due.iter().map(|due| due.standing.next_at).collect::<Vec<_>>())
            .execute(conn)
            .await?;
        Ok(())
    }

    async fn sweep(&self, conn: &mut PgConnection, keys: &[()]) -> pg::Result<Vec<usize>> {
        let any: bool = sqlx::query_scalar(&self.any).fetch_one(conn).await?;
        Ok((0..keys.len()).filter(|_| any).collect())
    }
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

pub(crate) enum Fate {
    /// It is due again after this.
    Advanced(Option<Duration>),
    /// Somebody else has advanced or changed it.
    Lost,
}

/// Sends what became of schedules.
pub(crate) struct Advances {
    channel: Channel,
    advance: Sql,
}

impl Advances {
    pub(crate) fn new(schema: &Schema, channel: Channel) -> Advances {
        Advances { channel, advance: schema.sql(include_str!("../../sql/advance_schedules.sql")) }
    }
}

impl Flight for Advances {
    type Member = Advance;
    type Key = Uuid;
    type Outcome = Fate;
    const KEPT: bool = false;

    fn key(&self, member: &Advance) -> Uuid {
        member.id
    }

    fn rings(&self, member: &Advance, fate: Option<&Fate>) -> Vec<Ring> {
        let due_in = match fate {
            None => member.due_in,
            Some(Fate::Advanced(due_in)) => *due_in,
            Some(Fate::Lost) => None,
        };
        due_in.map(|due_in| self.channel.ring().after(due_in)).into_iter().collect()
    }

    async fn fly(&self, conn: &mut PgConnection, boarded: &Boarded<'_, Advance>) -> pg::Result<Landed> {
        let members = &boarded.members;
        let last = || members.iter().map(|member| member.last.as_ref());
        let query = boarded
            .query(&self.advance)
            .bind(members.iter().map(|member| member.id).collect::<Vec<_>>())
            .bind(members.iter().map(|member| member.version).collect::<Vec<_>>())
            .bind(members.iter().map(|member| member.from).collect::<Vec<_>>())
            .bind(members.iter().map(|member| member.next).collect::<Vec<_>>())
            .bind(members.iter().map(|member| member.retry.map(|retry| retry.as_millis() as i64)).collect::<Vec<_>>())
            .bind(last().map(|last| last.map(|last| last.tick)).collect::<Vec<_>>())
            .bind(last().map(|last| last.and_then(|last| last.task)).collect::<Vec<_>>())
            .bind(last().map(|last| last.and_then(|last| last.error.as_deref())).collect::<Vec<_>>());
        Landed::of(&query.fetch_one(conn).await?)
    }

    fn outcome(&self, _: &Advance, text: &str) -> Fate {
        match text.strip_prefix('o') {
            Some(ms) => Fate::Advanced(ms.parse().ok().map(Duration::from_millis)),
            None => Fate::Lost,
        }
    }
}
