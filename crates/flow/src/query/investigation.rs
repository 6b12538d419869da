//! The list of what somebody has to look into: tasks that took too long, and steps that used up their attempts.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::query::list::LOOKED_MAX;
use crate::response_size::ANSWER_BYTES_MAX;
use crate::template::NAME_MAX;

/// Some of what has to be looked into, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Investigations)]
pub struct InvestigationPage {
    /// These.
    pub entries: Vec<Investigation>,
    /// What to present as `before` for the next page; none: there are no more. A page may be short, or empty, although there are more.
    pub next: Option<i64>,
}

/// Entries that one answer has at most.
const ENTRIES_MAX: usize = 1_000;

/// Something that somebody has to look into.
#[derive(Debug, Serialize, ToSchema)]
pub struct Investigation {
    /// Its number.
    pub id: i64,
    /// The task that it is about.
    #[schema(value_type = String, format = "uuid")]
    pub task_uuid: Uuid,
    /// Its namespace,
    pub namespace: String,
    /// template,
    pub name: String,
    /// and version.
    pub version: String,
    /// The step that it is about, if it is about one.
    pub step: Option<String>,
    /// `retries_exhausted`, `not_retryable`, `part_failed`, `max_duration`, or `too_long_` and a state.
    pub reason: String,
    /// How the task stood then.
    #[schema(value_type = Value)]
    pub snapshot: Box<RawValue>,
    /// Since when it is on the list.
    #[serde(with = "time::serde::rfc3339")]
    #[schema(value_type = String, format = "date-time")]
    pub created_at: OffsetDateTime,
    /// What became of it; `None`: nobody has dealt with it.
    pub resolution: Option<Resolution>,
    /// Who said so,
    pub resolved_by: Option<String>,
    /// and what else.
    pub notes: Option<String>,
    /// And when.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schema(value_type = Option<String>, format = "date-time")]
    pub resolved_at: Option<OffsetDateTime>,
}

/// What became of something that had to be looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// Somebody dealt with it.
    ManuallyResolved,
    /// Nothing can be done about it.
    PermanentlyFailed,
    /// It is not wanted any more.
    Cancelled,
    /// It was tried again.
    Retried,
}

impl Resolution {
    const ALL: [(Resolution, &'static str); 4] = [
        (Resolution::ManuallyResolved, "manually_resolved"),
        (Resolution::PermanentlyFailed, "permanently_failed"),
        (Resolution::Cancelled, "cancelled"),
        (Resolution::Retried, "retried"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(resolution, _)| *resolution == self).map_or("", |(_, name)| name)
    }
}

/// Which entries. Everything that is not given is not asked.
#[derive(Debug, Clone, Default)]
pub struct InvestigationFilter {
    /// Of tasks in this namespace.
    pub namespace: Option<String>,
    /// Of this task.
    pub task: Option<Uuid>,
    /// For this reason.
    pub reason: Option<String>,
    /// Those that nobody has dealt with, or the others.
    pub open: Option<bool>,
    /// Those that came before this one.
    pub before: Option<i64>,
}

impl Flow {
    /// What has to be looked into, newest first. A page looks at ten thousand entries at most, and has no more than 16 MiB of snapshots, and one entry at least; one that is short because of that
    /// says where to go on.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit that is not between 1 and 1 000; else the database's.
    pub async fn investigations(&self, filter: &InvestigationFilter, limit: usize) -> Result<InvestigationPage> {
        if !(1..=ENTRIES_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("it is {limit}; it must be between 1 and {ENTRIES_MAX}")));
        }
        self.entries(None, filter, limit).await
    }

    /// One of them. `None`: there is none of that number.
    ///
    /// # Errors
    /// The database's.
    pub async fn investigation(&self, id: i64) -> Result<Option<Investigation>> {
        Ok(self.entries(Some(id), &InvestigationFilter::default(), 1).await?.entries.pop())
    }

    /// Says what became of it. What was said first stays. `None`: there is none of that number.
    ///
    /// # Errors
    /// [`Error::Invalid`] for text that cannot be stored; else the database's.
    pub async fn close_investigation(
        &self,
        id: i64,
        resolution: Resolution,
        by: &str,
        notes: Option<&str>,
    ) -> Result<Option<Investigation>> {
        for (what, text) in [("resolved_by", Some(by)), ("notes", notes)] {
            let text = text.unwrap_or_default();
            if text.contains('\0') {
                return Err(Error::invalid(what, "it contains a NUL character, which PostgreSQL cannot store"));
            }
            if text.chars().count() > 10 * NAME_MAX {
                return Err(Error::invalid(what, format!("it has more than {} characters", 10 * NAME_MAX)));
            }
        }
        let query = || {
            let query = sqlx::query(&self.inner.sql.close_investigation).bind(id).bind(resolution.name());
            query.bind(by).bind(notes)
        };
        self.inner.db.ask("close an investigation", query).await?;
        self.investigation(id).await
    }

    async fn entries(&self, id: Option<i64>, filter: &InvestigationFilter, limit: usize) -> Result<InvestigationPage> {
        // What an index leads to is not looked for.
        let straight = filter.namespace.is_none() && filter.reason.is_none() && filter.open != Some(false);
        let looked_max = if straight { limit } else { LOOKED_MAX };
        let query = || {
            sqlx::query(&self.inner.sql.investigations)
                .bind(id)
                .bind(filter.before)
                .bind(filter.namespace.as_deref())
                .bind(filter.task)
                .bind(filter.reason.as_deref())
                .bind(filter.open)
                .bind(limit as i64)
                .bind(looked_max as i64)
                .bind(ANSWER_BYTES_MAX as i64)
                // A plan made while the tables were small would read them whole.
                .persistent(false)
        };
        let rows = self.inner.db.ask("read investigations", query).await?;
        let head = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        let (looked_at, edge): (i64, Option<i64>) = (head.try_get("looked_at")?, head.try_get("edge")?);
        let entries: Vec<Investigation> =
            rows.iter().filter_map(|row| read(row).transpose()).collect::<sqlx::Result<_>>()?;
        let matched: Option<i64> = head.try_get("matched")?;
        // Where the page has no room for all that fit, it goes on after its last; else after all that was looked at.
        let full = entries.len() == limit || matched > Some(entries.len() as i64);
        let last = entries.last().filter(|_| full).map(|last| last.id).or(edge);
        let next = last.filter(|last| looked_at == looked_max as i64 || Some(*last) > edge);
        Ok(InvestigationPage { entries, next })
    }
}

/// `None`: the row has none.
fn read(row: &PgRow) -> sqlx::Result<Option<Investigation>> {
    let Some(id) = row.try_get("id")? else { return Ok(None) };
    let snapshot =
        RawValue::from_string(row.try_get("snapshot")?).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let resolution: Option<String> = row.try_get("resolution")?;
    let named = |name: String| Resolution::ALL.iter().find(|(_, known)| *known == name).map(|(known, _)| *known);
    Ok(Some(Investigation {
        id,
        task_uuid: row.try_get("task_id")?,
        namespace: row.try_get("namespace")?,
        name: row.try_get("name")?,
        version: row.try_get("version")?,
        step: row.try_get("step")?,
        reason: row.try_get("reason")?,
        snapshot,
        created_at: row.try_get("created_at")?,
        resolution: resolution.and_then(named),
        resolved_by: row.try_get("resolved_by")?,
        notes: row.try_get("notes")?,
        resolved_at: row.try_get("resolved_at")?,
    }))
}
