//! Schedules: tasks that are submitted when their time comes, once for each tick, whatever dies.
//!
//! The danger is a tick that runs twice, or never. A tick's task has an identity that is made of the schedule and the tick, and there can be one task of an identity. It is submitted
//! first; then the schedule's row is advanced, if it is still what it was. Whoever dies in between leaves a row that is still at that tick: the next one submits it again, is told that the
//! task is there, and advances. What is due is decided by the database's clock alone; what comes after a tick follows from the tick.

mod change;
mod due;
mod stored;
mod ticks;

use serde::{Deserialize, Serialize, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

pub(crate) use due::{Advances, DueSchedule};
pub use ticks::Missed;

use crate::error::{Error, Result};
use crate::json::Json;
use crate::task::submit::Submission;
use ticks::{Ticks, zone};

/// How late a tick may be, if nobody says: the restart of a server is no reason to skip.
const GRACE: u32 = 60;

/// When which task is to be submitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
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
    #[cfg_attr(feature = "http", schema(value_type = serde_json::Value, required = false))]
    pub context: Json,
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
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
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
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Scheduled {
    /// Which of all that have ever been called like this.
    #[cfg_attr(feature = "http", schema(value_type = String, format = "uuid"))]
    pub schedule_uuid: Uuid,
    /// As it was put.
    #[serde(flatten)]
    pub schedule: Schedule,
    /// The next tick; `None` if there is none, and while it rests.
    #[serde(with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
    pub next_at: Option<OffsetDateTime>,
    /// The last tick that ran.
    #[serde(with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
    pub last_at: Option<OffsetDateTime>,
    /// The last task that was made.
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = "uuid"))]
    pub last_task: Option<Uuid>,
    /// Why the last tick made none.
    pub last_error: Option<String>,
    /// When it was put first,
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "http", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
    /// and changed last.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "http", schema(value_type = String, format = DateTime))]
    pub updated_at: OffsetDateTime,
    /// The next ticks, as many as were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "written")]
    #[cfg_attr(feature = "http", schema(value_type = Vec<String>))]
    pub upcoming: Vec<OffsetDateTime>,
}

fn written<S: Serializer>(times: &[OffsetDateTime], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(times.iter().map(tick_text))
}

/// A tick as people read it.
fn tick_text(tick: &OffsetDateTime) -> String {
    tick.format(&Rfc3339).unwrap_or_else(|_| tick.to_string())
}

/// Some schedules, in the order in which they were made.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "http", schema(as = Schedules))]
pub struct SchedulePage {
    /// These.
    pub schedules: Vec<Scheduled>,
    /// What to present as `after` for the next page; none: there are no more. A page may be short, or empty, although there are more.
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = "uuid"))]
    pub next: Option<Uuid>,
}

/// Which schedules. What is not said is not asked.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema, utoipa::IntoParams))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "http", into_params(parameter_in = Query))]
pub struct ScheduleFilter {
    /// Of this namespace.
    pub namespace: Option<String>,
    /// Of this template.
    pub template: Option<String>,
    /// That rest, or do not.
    pub paused: Option<bool>,
    /// That were made after this one: what the page before said as `next`.
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = "uuid"))]
    #[cfg_attr(feature = "http", param(value_type = Option<String>, format = "uuid"))]
    pub after: Option<Uuid>,
    /// As many at most.
    pub limit: Option<u32>,
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
