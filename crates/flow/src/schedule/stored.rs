//! Schedules as they are stored, and changing them when nobody else does.

use reveille_wake::Wake;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use uuid::Uuid;

use super::change::unknown;
use super::ticks::{Missed, Ticks};
use super::{Schedule, ScheduleFilter, Scheduled};
use crate::error::{Error, Result};
use crate::flow::Inner;
use crate::json::Json;
use crate::query::list::SCANNED_MAX;
use crate::response_size::RESPONSE_BYTES_MAX;
use crate::stored;

/// How often a change is begun again because somebody else was faster.
const CHANGES_MAX: usize = 100;

/// A schedule's row.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(super) id: Uuid,
    /// Whoever wants to change it says which it saw.
    pub(super) version: i64,
    /// It says whether it is paused.
    pub(super) schedule: Schedule,
    pub(super) next_at: Option<OffsetDateTime>,
    last_at: Option<OffsetDateTime>,
    last_task: Option<Uuid>,
    last_error: Option<String>,
    created_at: OffsetDateTime,
    updated_at: OffsetDateTime,
}

impl Standing {
    pub(super) fn read(row: &PgRow) -> sqlx::Result<Standing> {
        let context: String = row.try_get("context")?;
        let context = Json::stored(context).map_err(|error| sqlx::Error::Decode(error.into()))?;
        let schedule = Schedule {
            namespace: row.try_get("namespace")?,
            name: row.try_get("name")?,
            template: row.try_get("template_name")?,
            version: row.try_get("template_version")?,
            context,
            priority: row.try_get("priority")?,
            tags: row.try_get("tags")?,
            cron: row.try_get("cron")?,
            time_zone: row.try_get("time_zone")?,
            at: row.try_get("at")?,
            missed: match row.try_get("missed")? {
                "skip" => Missed::Skip,
                "latest" => Missed::Latest,
                "all" => Missed::All,
                other => return Err(stored::unknown("treatment of missed ticks", other)),
            },
            grace_seconds: row.try_get::<i32, _>("grace_seconds")?.unsigned_abs(),
            paused: Some(row.try_get("paused")?),
        };
        Ok(Standing {
            id: row.try_get("id")?,
            version: row.try_get("version")?,
            schedule,
            next_at: row.try_get("next_at")?,
            last_at: row.try_get("last_at")?,
            last_task: row.try_get("last_task")?,
            last_error: row.try_get("last_error")?,
            created_at: row.try_get("created_at")?,
            updated_at: row.try_get("updated_at")?,
        })
    }

    pub(super) fn paused(&self) -> bool {
        self.schedule.paused == Some(true)
    }

    /// Whether another comes when this does.
    pub(super) fn has_times_of(&self, other: &Schedule) -> bool {
        let times = |schedule: &Schedule| (schedule.cron.clone(), schedule.time_zone.clone(), schedule.at);
        times(&self.schedule) == times(other)
    }

    /// The next tick after a rest. What came meanwhile is not missed, but for a single time, which has not been then.
    pub(super) fn resumed(&self, ticks: &Ticks, asked_at: OffsetDateTime) -> Option<OffsetDateTime> {
        match ticks {
            Ticks::Once(at) if self.last_at == Some(*at) && self.last_error.is_none() => None,
            Ticks::Once(at) => Some(*at),
            Ticks::Cron { .. } => ticks.after(asked_at),
        }
    }
}

impl From<Standing> for Scheduled {
    fn from(standing: Standing) -> Scheduled {
        Scheduled {
            schedule_uuid: standing.id,
            schedule: standing.schedule,
            next_at: standing.next_at,
            last_at: standing.last_at,
            last_task: standing.last_task,
            last_error: standing.last_error,
            created_at: standing.created_at,
            updated_at: standing.updated_at,
            upcoming: Vec::new(),
        }
    }
}

impl Inner {
    /// What time it is, the schedules of a filter, and after which one to go on.
    pub(super) async fn find_schedules(
        &self,
        filter: &ScheduleFilter,
        name: Option<&str>,
        limit: u32,
    ) -> Result<(OffsetDateTime, Vec<Standing>, Option<Uuid>)> {
        let straight = filter.namespace.is_none() && filter.template.is_none() && filter.paused.is_none();
        let looked_max = if straight { i64::from(limit) } else { SCANNED_MAX as i64 };
        let query = || {
            sqlx::query(&self.sql.find_schedules)
                .bind(&filter.namespace)
                .bind(name)
                .bind(&filter.template)
                .bind(filter.paused)
                .bind(filter.after)
                .bind(i64::from(limit))
                .bind(looked_max)
                .bind(RESPONSE_BYTES_MAX as i64)
                // A plan made while the tables were small would read them whole.
                .persistent(false)
        };
        let rows = self.db.ask("find schedules", query).await?;
        let head = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        let (asked_at, edge): (_, Option<Uuid>) = (head.try_get("asked_at")?, head.try_get("edge")?);
        let (looked_at, matched): (i64, Option<i64>) = (head.try_get("looked_at")?, head.try_get("matched")?);
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            if row.try_get::<Option<Uuid>, _>("id")?.is_some() {
                found.push(Standing::read(row)?);
            }
        }
        // Where the page has no room for all that fit, it goes on after its last; else after all that was looked at.
        let full = found.len() == limit as usize || matched > Some(found.len() as i64);
        let last = found.last().filter(|_| full).map(|last| last.id).or(edge);
        let next = last.filter(|last| looked_at == looked_max || Some(*last) < edge);
        Ok((asked_at, found, next))
    }

    /// What time it is, and the schedule of that name.
    pub(super) async fn standing(&self, namespace: &str, name: &str) -> Result<(OffsetDateTime, Option<Standing>)> {
        let filter = ScheduleFilter { namespace: Some(namespace.to_owned()), ..ScheduleFilter::default() };
        let (asked_at, mut found, _) = self.find_schedules(&filter, Some(name), 1).await?;
        Ok((asked_at, found.pop()))
    }

    /// Makes of a schedule what `wanted` says of what there is: another, and its next tick, or `None` for what it is. Again, if somebody else was faster.
    pub(super) async fn change(
        &self,
        namespace: &str,
        name: &str,
        wanted: impl Fn(OffsetDateTime, Option<&Standing>) -> Result<Option<(Schedule, Option<OffsetDateTime>)>>,
    ) -> Result<Scheduled> {
        for _ in 0..CHANGES_MAX {
            let (asked_at, standing) = self.standing(namespace, name).await?;
            match (wanted(asked_at, standing.as_ref())?, standing) {
                (Some((schedule, next_at)), standing) => {
                    self.write(&schedule, next_at, asked_at, standing.map(|standing| standing.version)).await?
                }
                (None, Some(standing)) => return Ok(standing.into()),
                (None, None) => return Err(unknown(namespace, name)),
            }
        }
        Err(Error::invalid("name", "others change this schedule all the time; try again"))
    }

    /// Whether it was written is seen by reading it again: the answer may be lost.
    async fn write(
        &self,
        schedule: &Schedule,
        next_at: Option<OffsetDateTime>,
        asked_at: OffsetDateTime,
        version: Option<i64>,
    ) -> Result<()> {
        let ring = next_at.map(|next| {
            let delay = std::time::Duration::try_from(next - asked_at).unwrap_or_default();
            self.schedules_channel.wake_up().after(delay)
        });
        let (channels, payloads) = Wake::notifications(&ring.into_iter().collect::<Vec<_>>());
        let id = Uuid::now_v7();
        let context = schedule.context.get().to_owned();
        let query = || {
            sqlx::query(&self.sql.put_schedule)
                .bind(&channels)
                .bind(&payloads)
                .bind(version)
                .bind(id)
                .bind(&schedule.namespace)
                .bind(&schedule.name)
                .bind(&schedule.template)
                .bind(&schedule.version)
                .bind(&context)
                .bind(schedule.priority)
                .bind(&schedule.tags)
                .bind(&schedule.cron)
                .bind(&schedule.time_zone)
                .bind(schedule.at)
                .bind(match schedule.missed {
                    Missed::Skip => "skip",
                    Missed::Latest => "latest",
                    Missed::All => "all",
                })
                .bind(schedule.grace_seconds as i32)
                .bind(schedule.paused.unwrap_or_default())
                .bind(next_at)
        };
        self.db.ask("put a schedule", query).await?;
        Ok(())
    }
}
