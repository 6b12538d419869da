//! Schedules: tasks that are submitted when their time comes, once for each tick, whatever dies.
//!
//! The danger is a tick that runs twice, or never. A tick's task has an identity that is made of the schedule and the tick, and there can be one task of an identity. It is submitted
//! first; then the schedule's row is advanced, if it is still what it was. Whoever dies in between leaves a row that is still at that tick: the next one submits it again, is told that the
//! task is there, and advances. What is due is decided by the database's clock alone; what comes after a tick follows from the tick.

mod due;
mod standing;
mod ticks;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

pub(crate) use due::{Advances, SCHEDULES_MAX, Schedules};
pub use ticks::Missed;

use crate::error::{Error, Result};
use crate::flow::{Flow, Inner};
use crate::submit::{Submission, Submitted};
use standing::Standing;
use ticks::{Ticks, zone};

/// The longest name: with a tick beside it, it is a task's `correlation_id`.
const NAME_MAX: usize = 100;
/// The longest grace: a week.
const GRACE_MAX: u32 = 7 * 86_400;
/// How late a tick may be, if nobody says: the restart of a server is no reason to skip.
const GRACE: u32 = 60;
/// Schedules of one answer, and if nobody says how many.
const LIMIT_MAX: u32 = 1_000;
const LIMIT: u32 = 100;
/// Ticks of one answer.
const UPCOMING_MAX: usize = 100;
/// How often a change is begun again because somebody else was faster.
const CHANGES_MAX: usize = 100;

/// When which task is to be submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The namespace of the schedule and of its template.
    pub namespace: String,
    /// What it is called there.
    pub name: String,
    /// The template of its tasks,
    pub template: String,
    /// and its version.
    pub version: String,
    /// What the steps of its tasks work on.
    #[serde(default)]
    pub context: Value,
    /// The priority of its tasks.
    #[serde(default)]
    pub priority: i16,
    /// The tags of its tasks.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Again and again: a cron expression of five fields, or six, the first of which is seconds; or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// By the clock of which place, as `Europe/Berlin`; UTC if it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Or once, at this time.
    #[serde(default, with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<OffsetDateTime>,
    /// What becomes of ticks that nobody was there for.
    #[serde(default)]
    pub missed: Missed,
    /// How late a tick is when it is missed.
    #[serde(default = "grace")]
    pub grace_seconds: u32,
    /// Whether it rests. If it is not said, it goes on as it was; a new one does not rest.
    #[serde(default)]
    pub paused: Option<bool>,
}

fn grace() -> u32 {
    GRACE
}

/// A schedule, and how it stands.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Scheduled {
    /// Which of all that have ever been called like this.
    #[schema(value_type = String, format = "uuid")]
    pub schedule_uuid: Uuid,
    /// As it was put.
    #[serde(flatten)]
    pub schedule: Schedule,
    /// The next tick; `None` if there is none, and while it rests.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_at: Option<OffsetDateTime>,
    /// The last tick that ran.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_at: Option<OffsetDateTime>,
    /// The last task that was made.
    #[schema(value_type = Option<String>, format = "uuid")]
    pub last_task: Option<Uuid>,
    /// Why the last tick made none.
    pub last_error: Option<String>,
    /// When it was put first,
    #[serde(with = "time::serde::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub created_at: OffsetDateTime,
    /// and changed last.
    #[serde(with = "time::serde::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: OffsetDateTime,
    /// The next ticks, as many as were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "written")]
    #[schema(value_type = Vec<String>)]
    pub upcoming: Vec<OffsetDateTime>,
}

fn written<S: Serializer>(times: &[OffsetDateTime], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(times.iter().map(tick_text))
}

/// A tick as people read it.
fn tick_text(tick: &OffsetDateTime) -> String {
    tick.format(&Rfc3339).unwrap_or_else(|_| tick.to_string())
}

/// Which schedules. What is not said is not asked.
#[derive(Debug, Clone, Default, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ScheduleFilter {
    /// Of this namespace.
    pub namespace: Option<String>,
    /// Of this template.
    pub template: Option<String>,
    /// That rest, or do not.
    pub paused: Option<bool>,
    /// That were made after this one: the last of the answer before.
    #[schema(value_type = Option<String>, format = "uuid")]
    #[param(value_type = Option<String>, format = "uuid")]
    pub after: Option<Uuid>,
    /// As many at most.
    pub limit: Option<u32>,
}

impl Flow {
    /// Makes a schedule, or replaces the one of that name. The same again changes nothing. While its times stay the same, so does its next tick; otherwise it begins anew, and what was due
    /// by the old times and has not run does not.
    ///
    /// # Errors
    /// [`Error::NoTemplate`], [`Error::Invalid`] for what cannot be meant, as a context that the template does not allow; else the database's. Nothing was changed then.
    pub async fn put_schedule(&self, schedule: Schedule) -> Result<Scheduled> {
        let (schedule, ticks) = self.inner.meant(schedule).await?;
        self.inner
            .change(&schedule.namespace, &schedule.name, |asked_at, standing| {
                let was_paused = standing.is_some_and(Standing::paused);
                let wanted = Schedule { paused: Some(schedule.paused.unwrap_or(was_paused)), ..schedule.clone() };
                let next_at = match standing {
                    Some(standing) if standing.schedule == wanted => return Ok(None),
                    _ if wanted.paused == Some(true) => None,
                    Some(standing) if standing.has_times_of(&wanted) && was_paused => {
                        standing.resumed(&ticks, asked_at)
                    }
                    Some(standing) if standing.has_times_of(&wanted) => standing.next_at,
                    _ => Some(first(&ticks, asked_at, &wanted)?),
                };
                Ok(Some((wanted, next_at)))
            })
            .await
    }

    /// Lets a schedule rest. What comes while it does is not missed.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; else the database's.
    pub async fn pause_schedule(&self, namespace: &str, name: &str) -> Result<Scheduled> {
        self.inner
            .change(namespace, name, |_, standing| {
                let standing = standing.ok_or_else(|| unknown(namespace, name))?;
                let wanted = Schedule { paused: Some(true), ..standing.schedule.clone() };
                Ok((!standing.paused()).then_some((wanted, None)))
            })
            .await
    }

    /// Lets a schedule go on: with the next tick from now, or with its one time, if it has not run.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; else the database's.
    pub async fn resume_schedule(&self, namespace: &str, name: &str) -> Result<Scheduled> {
        self.inner
            .change(namespace, name, |asked_at, standing| {
                let standing = standing.ok_or_else(|| unknown(namespace, name))?;
                if !standing.paused() {
                    return Ok(None);
                }
                let wanted = Schedule { paused: Some(false), ..standing.schedule.clone() };
                let next_at = standing.resumed(&standing.schedule.ticks()?, asked_at);
                Ok(Some((wanted, next_at)))
            })
            .await
    }

    /// Removes a schedule. Its tasks stay.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; else the database's.
    pub async fn delete_schedule(&self, namespace: &str, name: &str) -> Result<()> {
        let query = || sqlx::query(&self.inner.sql.delete_schedule).bind(namespace).bind(name);
        let rows = self.inner.db.ask("delete a schedule", query).await?;
        rows.first().map(|_| ()).ok_or_else(|| unknown(namespace, name))
    }

    /// Submits a task of a schedule now, beside its ticks, even while it rests.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; else as [`submit`](Flow::submit).
    pub async fn run_schedule(&self, namespace: &str, name: &str) -> Result<Submitted> {
        let (_, standing) = self.inner.standing(namespace, name).await?;
        let standing = standing.ok_or_else(|| unknown(namespace, name))?;
        let submission = standing.schedule.submission(None);
        let kept = self.inner.allowed(&submission).await?;
        self.inner.make(kept, submission, None).await
    }

    /// A schedule, with as many of its next ticks.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]; else the database's.
    pub async fn schedule(&self, namespace: &str, name: &str, upcoming: usize) -> Result<Scheduled> {
        let (_, standing) = self.inner.standing(namespace, name).await?;
        let standing = standing.ok_or_else(|| unknown(namespace, name))?;
        let next: Vec<OffsetDateTime> = match standing.schedule.ticks() {
            Ok(ticks) => std::iter::successors(standing.next_at, |tick| ticks.after(*tick))
                .take(upcoming.min(UPCOMING_MAX))
                .collect(),
            // By the zones that another server knows.
            Err(_) => Vec::new(),
        };
        Ok(Scheduled { upcoming: next, ..standing.into() })
    }

    /// Schedules, in the order in which they were made.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit that cannot be meant; else the database's.
    pub async fn schedules(&self, filter: &ScheduleFilter) -> Result<Vec<Scheduled>> {
        let limit = filter.limit.unwrap_or(LIMIT);
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("it is {limit}; it must be between 1 and {LIMIT_MAX}")));
        }
        let (_, found) = self.inner.find_schedules(filter, None, limit).await?;
        Ok(found.into_iter().map(Scheduled::from).collect())
    }
}

impl Inner {
    /// A schedule as it is kept, if it can be meant.
    async fn meant(&self, mut schedule: Schedule) -> Result<(Schedule, Ticks)> {
        let length = schedule.name.chars().count();
        if !(1..=NAME_MAX).contains(&length) {
            let reason = format!("it has {length} characters; it must have between 1 and {NAME_MAX}");
            return Err(Error::invalid("name", reason));
        }
        if let Some(odd) = schedule.name.chars().find(|character| character.is_control()) {
            return Err(Error::invalid("name", format!("it contains the control character {odd:?}")));
        }
        if !(1..=GRACE_MAX).contains(&schedule.grace_seconds) {
            let reason = format!("it is {}; it must be between 1 and {GRACE_MAX}", schedule.grace_seconds);
            return Err(Error::invalid("grace_seconds", reason));
        }
        if schedule.cron.is_some() {
            let known = zone(schedule.time_zone.as_deref().unwrap_or("UTC"));
            let known = known.map_err(|reason| Error::invalid("time_zone", reason))?;
            schedule.time_zone = known.iana_name().map(str::to_owned);
        } else if schedule.time_zone.is_some() {
            return Err(Error::invalid("time_zone", "a single time has its own; it goes with cron"));
        }
        // As the database keeps it.
        schedule.at = schedule.at.and_then(|at| at.replace_nanosecond(at.microsecond() * 1_000).ok());
        let ticks = schedule.ticks()?;
        self.allowed(&schedule.submission(None)).await?;
        Ok((schedule, ticks))
    }
}

/// The first tick of a schedule whose times are new.
fn first(ticks: &Ticks, asked_at: OffsetDateTime, schedule: &Schedule) -> Result<OffsetDateTime> {
    match ticks {
        Ticks::Once(at) if asked_at - *at < schedule.grace() => Ok(*at),
        Ticks::Once(_) => Err(Error::invalid("at", "it passed longer than grace_seconds ago, by the database's clock")),
        Ticks::Cron { .. } => ticks.after(asked_at).ok_or_else(|| Error::invalid("cron", "there is no such day")),
    }
}

fn unknown(namespace: &str, name: &str) -> Error {
    Error::NoSchedule { namespace: namespace.to_owned(), name: name.to_owned() }
}

impl Schedule {
    /// When it comes.
    fn ticks(&self) -> Result<Ticks> {
        match (&self.cron, self.at) {
            (Some(cron), None) => {
                let zone = zone(self.time_zone.as_deref().unwrap_or("UTC"));
                let zone = zone.map_err(|reason| Error::invalid("time_zone", reason))?;
                Ticks::cron(cron, zone).map_err(|reason| Error::invalid("cron", reason))
            }
            (None, Some(at)) => Ok(Ticks::Once(at)),
            (Some(_), Some(_)) => Err(Error::invalid("at", "there is a cron expression, too; say one of them")),
            (None, None) => Err(Error::invalid("cron", "there is none, and no single time (at) either")),
        }
    }

    fn grace(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.grace_seconds.into())
    }

    /// The task of a tick; `None`: of somebody who could not wait for one.
    fn submission(&self, tick: Option<OffsetDateTime>) -> Submission {
        let (correlation, reason) = match tick.as_ref().map(tick_text) {
            Some(tick) => (format!("{}@{tick}", self.name), format!("schedule {} at {tick}", self.name)),
            None => (self.name.clone(), format!("schedule {}, by hand", self.name)),
        };
        Submission {
            initiator: Some("schedule".to_owned()),
            reason: Some(reason),
            correlation_id: Some(correlation),
            priority: self.priority,
            tags: self.tags.clone(),
            ..Submission::new(&self.namespace, &self.template, &self.version, self.context.clone())
        }
    }
}
