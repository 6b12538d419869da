//! Stored schedules, and changing one without overwriting a concurrent change.

use reveille_pg::audit::Entry;
use reveille_wake::Wake;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use uuid::Uuid;

use super::change::unknown;
use super::ticks::{Missed, Ticks};
use super::{Schedule, ScheduleFilter, Scheduled};
use crate::claim::response_size::RESPONSE_BYTES_MAX;
use crate::error::{Error, Result};
use crate::flow::Inner;
use crate::json::Json;
use crate::query::list::SCANNED_MAX;
use crate::task::stored;

/// How often a change is tried again after a concurrent one.
const CHANGES_MAX: usize = 100;

/// The row of a schedule.
#[derive(Debug)]
pub(crate) struct StoredSchedule {
    pub(super) id: Uuid,
    /// Compared by every change.
    pub(super) version: i64,
    /// `paused` is always set.
    pub(super) schedule: Schedule,
    pub(super) next_at: Option<OffsetDateTime>,
    last_at: Option<OffsetDateTime>,
    last_task: Option<Uuid>,
    last_error: Option<String>,
    created_at: OffsetDateTime,
    updated_at: OffsetDateTime,
}

impl StoredSchedule {
    pub(super) fn read(row: &PgRow) -> sqlx::Result<StoredSchedule> {
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
        Ok(StoredSchedule {
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

    /// Whether another schedule has the same times.
    pub(super) fn has_times_of(&self, other: &Schedule) -> bool {
        let times = |schedule: &Schedule| (schedule.cron.clone(), schedule.time_zone.clone(), schedule.at);
        times(&self.schedule) == times(other)
    }

    /// The next tick after a pause. Ticks during the pause are skipped; a single time that has not run is not.
    pub(super) fn resumed(&self, ticks: &Ticks, asked_at: OffsetDateTime) -> Option<OffsetDateTime> {
        match ticks {
            Ticks::Once(at) if self.last_at == Some(*at) && self.last_error.is_none() => None,
            Ticks::Once(at) => Some(*at),
            Ticks::Cron { .. } => ticks.after(asked_at),
        }
    }
}

impl From<StoredSchedule> for Scheduled {
    fn from(stored: StoredSchedule) -> Scheduled {
        Scheduled {
            schedule_uuid: stored.id,
            in_words: stored.schedule.in_words(),
            schedule: stored.schedule,
            next_at: stored.next_at,
            last_at: stored.last_at,
            last_task: stored.last_task,
            last_error: stored.last_error,
            created_at: stored.created_at,
            updated_at: stored.updated_at,
            upcoming: Vec::new(),
        }
    }
}

impl Inner {
    /// The database's time, the schedules that match, and where the next page begins.
    pub(super) async fn find_schedules(
        &self,
        filter: &ScheduleFilter,
        name: Option<&str>,
        limit: u32,
    ) -> Result<(OffsetDateTime, Vec<StoredSchedule>, Option<Uuid>)> {
        let straight = filter.namespace.is_none() && filter.template.is_none() && filter.paused.is_none();
        let scan_max = if straight { i64::from(limit) } else { SCANNED_MAX as i64 };
        let query = || {
            sqlx::query(&self.sql.find_schedules)
                .bind(&filter.namespace)
                .bind(name)
                .bind(&filter.template)
                .bind(filter.paused)
                .bind(filter.after)
                .bind(i64::from(limit))
                .bind(scan_max)
                .bind(RESPONSE_BYTES_MAX as i64)
                // Plan for the current size of the tables: a plan cached while they were small would scan them.
                .persistent(false)
        };
        let rows = self.db.ask("find schedules", query).await?;
        let head = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        let (asked_at, edge): (_, Option<Uuid>) = (head.try_get("asked_at")?, head.try_get("edge")?);
        let (scanned_rows, matched): (i64, Option<i64>) = (head.try_get("scanned_rows")?, head.try_get("matched")?);
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            if row.try_get::<Option<Uuid>, _>("id")?.is_some() {
                found.push(StoredSchedule::read(row)?);
            }
        }
        // If not all matches fit into the page, continue after its last schedule, otherwise after the last one scanned.
        let full = found.len() == limit as usize || matched > Some(found.len() as i64);
        let last = found.last().filter(|_| full).map(|last| last.id).or(edge);
        let next = last.filter(|last| scanned_rows == scan_max || Some(*last) < edge);
        Ok((asked_at, found, next))
    }

    /// The database's time, and the schedule with this name.
    pub(super) async fn find_schedule(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<(OffsetDateTime, Option<StoredSchedule>)> {
        let filter = ScheduleFilter { namespace: Some(namespace.to_owned()), ..ScheduleFilter::default() };
        let (asked_at, mut found, _) = self.find_schedules(&filter, Some(name), 1).await?;
        Ok((asked_at, found.pop()))
    }

    /// Changes a schedule, as `action` of the audit. `wanted` gets the current one, and returns the new one and its next tick, or `None` if the
    /// current one is as wanted. It is called again after a concurrent change.
    pub(super) async fn change(
        &self,
        action: &'static str,
        namespace: &str,
        name: &str,
        wanted: impl Fn(OffsetDateTime, Option<&StoredSchedule>) -> Result<Option<(Schedule, Option<OffsetDateTime>)>>,
    ) -> Result<Scheduled> {
        for _ in 0..CHANGES_MAX {
            let (asked_at, stored) = self.find_schedule(namespace, name).await?;
            match (wanted(asked_at, stored.as_ref())?, stored) {
                (Some((schedule, next_at)), stored) => {
                    self.write(action, &schedule, next_at, asked_at, stored.map(|stored| stored.version)).await?
                }
                (None, Some(stored)) => return Ok(stored.into()),
                (None, None) => return Err(unknown(namespace, name)),
            }
        }
        Err(Error::invalid("name", "this schedule is being changed by other requests; retry"))
    }

    /// Writes a schedule. The caller reads it again to see whether it was written, because the answer may be lost.
    async fn write(
        &self,
        action: &'static str,
        schedule: &Schedule,
        next_at: Option<OffsetDateTime>,
        asked_at: OffsetDateTime,
        version: Option<i64>,
    ) -> Result<()> {
        let wake_up = next_at.map(|next| {
            let delay = std::time::Duration::try_from(next - asked_at).unwrap_or_default();
            self.schedules_channel.wake_up().after(delay)
        });
        let (channels, payloads) = Wake::notifications(&wake_up.into_iter().collect::<Vec<_>>());
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
        let entry = Entry::new(action, format!("{}/{}", schedule.namespace, schedule.name));
        self.db.act("put a schedule", entry, query, |rows| !rows.is_empty()).await?;
        Ok(())
    }
}
