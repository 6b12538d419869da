//! Schedules: tasks that are submitted at certain times, once per tick, even if servers crash.
//!
//! The danger is a tick that runs twice or never. The identity of a tick's task consists of the schedule and the tick,
//! and there is at most one task per identity. The task is submitted first; then the row of the schedule is advanced,
//! unless it has changed meanwhile. If a server crashes in between, the row is still at that tick: the next server
//! submits the task again, which is a duplicate, and advances the row. Only the database's clock decides what is due;
//! the next tick is computed from the last one.

mod change;
mod due;
mod stored;
mod ticks;
mod words;

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

/// The default grace period: longer than the restart of a server.
const GRACE: u32 = 60;

/// When to submit which task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The namespace of the schedule and of its template.
    pub namespace: String,
    /// The name of the schedule within its namespace.
    pub name: String,
    /// The name of the template.
    pub template: String,
    /// The version of the template.
    pub version: String,
    /// The context of its tasks.
    #[serde(default)]
    #[cfg_attr(feature = "http", schema(value_type = serde_json::Value, required = false))]
    pub context: Json,
    /// The priority of its tasks.
    #[serde(default)]
    pub priority: i16,
    /// The tags of its tasks.
    #[serde(default)]
    pub tags: Vec<String>,
    /// A cron expression with five fields, or with six, beginning with seconds; or `@hourly`, `@daily`, `@weekly`,
    /// `@monthly`, `@yearly`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// The time zone of the cron expression, such as `Europe/Berlin`; default: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// A single time, instead of a cron expression.
    #[serde(default, with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
    pub at: Option<OffsetDateTime>,
    /// What happens to missed ticks.
    #[serde(default)]
    pub missed: Missed,
    /// A tick is missed if it is later than this many seconds.
    #[serde(default = "grace")]
    pub grace_seconds: u32,
    /// Whether the schedule is paused. If not given, it stays as it is; a new schedule is not paused.
    #[serde(default)]
    pub paused: Option<bool>,
}

fn grace() -> u32 {
    GRACE
}

/// A schedule with its state.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Scheduled {
    /// The id of the schedule. One that is deleted and created again has another id.
    #[cfg_attr(feature = "http", schema(value_type = String, format = "uuid"))]
    pub schedule_uuid: Uuid,
    /// The schedule as it was put.
    #[serde(flatten)]
    pub schedule: Schedule,
    /// When it runs, in words, with the time zone: `at 09:00, on weekdays (Europe/Berlin)`.
    pub in_words: String,
    /// The next tick; `None` if there is none, or while the schedule is paused.
    #[serde(with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
    pub next_at: Option<OffsetDateTime>,
    /// The last tick that ran.
    #[serde(with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
    pub last_at: Option<OffsetDateTime>,
    /// The last created task.
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = "uuid"))]
    pub last_task: Option<Uuid>,
    /// Why the last tick created no task.
    pub last_error: Option<String>,
    /// When it was created.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "http", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
    /// When it was last changed.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "http", schema(value_type = String, format = DateTime))]
    pub updated_at: OffsetDateTime,
    /// The next ticks, as many as requested.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "written")]
    #[cfg_attr(feature = "http", schema(value_type = Vec<String>))]
    pub upcoming: Vec<OffsetDateTime>,
}

fn written<S: Serializer>(times: &[OffsetDateTime], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(times.iter().map(tick_text))
}

/// A tick as text.
fn tick_text(tick: &OffsetDateTime) -> String {
    tick.format(&Rfc3339).unwrap_or_else(|_| tick.to_string())
}

/// A page of schedules, in the order of their creation.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "http", schema(as = Schedules))]
pub struct SchedulePage {
    /// The schedules of this page.
    pub schedules: Vec<Scheduled>,
    /// The `after` of the next page; none if this is the last. A page may be short or empty although there are more.
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = "uuid"))]
    pub next: Option<Uuid>,
}

/// Selects schedules. Fields that are not given match everything.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema, utoipa::IntoParams))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "http", into_params(parameter_in = Query))]
pub struct ScheduleFilter {
    /// In this namespace.
    pub namespace: Option<String>,
    /// Of this template.
    pub template: Option<String>,
    /// Only paused schedules, or only others.
    pub paused: Option<bool>,
    /// Schedules after this one: the `next` of the previous page.
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = "uuid"))]
    #[cfg_attr(feature = "http", param(value_type = Option<String>, format = "uuid"))]
    pub after: Option<Uuid>,
    /// The most schedules of the page.
    pub limit: Option<u32>,
}

impl Schedule {
    /// Its ticks.
    fn ticks(&self) -> Result<Ticks> {
        match (&self.cron, self.at) {
            (Some(cron), None) => {
                let zone = zone(self.time_zone.as_deref().unwrap_or("UTC"));
                let zone = zone.map_err(|reason| Error::invalid("time_zone", reason))?;
                Ticks::cron(cron, zone).map_err(|reason| Error::invalid("cron", reason))
            }
            (None, Some(at)) => Ok(Ticks::Once(at)),
            (Some(_), Some(_)) => Err(Error::invalid("at", "cannot be combined with `cron`: give one of them")),
            (None, None) => Err(Error::invalid("cron", "give either `cron` or `at`")),
        }
    }

    fn grace(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.grace_seconds.into())
    }

    /// The task of a tick; `None`: of a manual run.
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
