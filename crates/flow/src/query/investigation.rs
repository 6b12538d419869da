//! Dead-letter entries: tasks that exceeded a time limit and steps that failed permanently, for an operator to
//! investigate.

use reveille_pg::audit::Entry;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::claim::response_size::RESPONSE_BYTES_MAX;
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::query::list::SCANNED_MAX;
use crate::task::stored::unknown;
use crate::template::NAME_MAX;

/// A page of dead-letter entries, newest first.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "http", schema(as = Investigations))]
pub struct InvestigationPage {
    /// The entries of this page.
    pub entries: Vec<Investigation>,
    /// The `before` of the next page; none if this is the last. A page may be short or empty although there are more.
    pub next: Option<i64>,
}

/// The most entries of a page.
const ENTRIES_MAX: usize = 1_000;

/// A dead-letter entry.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Investigation {
    /// The id of the entry.
    pub id: i64,
    /// The task.
    #[cfg_attr(feature = "http", schema(value_type = String, format = "uuid"))]
    pub task_uuid: Uuid,
    /// The namespace of the template.
    pub namespace: String,
    /// The name of the template.
    pub name: String,
    /// The version of the template.
    pub version: String,
    /// The step, if the entry concerns one.
    pub step: Option<String>,
    /// `retries_exhausted`, `not_retryable`, `part_failed`, `max_duration`, or `too_long_` and a state.
    pub reason: String,
    /// The status of the task at that time.
    #[cfg_attr(feature = "http", schema(value_type = Value))]
    pub snapshot: Box<RawValue>,
    /// When the entry was created.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "http", schema(value_type = String, format = "date-time"))]
    pub created_at: OffsetDateTime,
    /// The resolution; none while the entry is open.
    pub resolution: Option<Resolution>,
    /// The operator who resolved it.
    pub resolved_by: Option<String>,
    /// The operator's notes.
    pub notes: Option<String>,
    /// When it was resolved.
    #[serde(with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = "date-time"))]
    pub resolved_at: Option<OffsetDateTime>,
}

/// The resolution of a dead-letter entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// Resolved by other means.
    ManuallyResolved,
    /// It cannot be resolved.
    PermanentlyFailed,
    /// No longer wanted.
    Cancelled,
    /// Retried.
    Retried,
}

impl Resolution {
    const ALL: [(Resolution, &'static str); 4] = [
        (Resolution::ManuallyResolved, "manually_resolved"),
        (Resolution::PermanentlyFailed, "permanently_failed"),
        (Resolution::Cancelled, "cancelled"),
        (Resolution::Retried, "retried"),
    ];

    fn named(word: &str) -> Option<Resolution> {
        Self::ALL.iter().find(|(_, name)| *name == word).map(|(resolution, _)| *resolution)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(resolution, _)| *resolution == self).map_or("", |(_, name)| name)
    }
}

/// Selects entries. Fields that are not given match everything.
#[derive(Debug, Clone, Default)]
pub struct InvestigationFilter {
    /// Of tasks in this namespace.
    pub namespace: Option<String>,
    /// Of this task.
    pub task: Option<Uuid>,
    /// With this reason.
    pub reason: Option<String>,
    /// Only open entries, or only resolved ones.
    pub open: Option<bool>,
    /// Entries older than this one.
    pub before: Option<i64>,
}

impl Flow {
    /// A page of dead-letter entries, newest first. A page scans at most ten thousand entries and has at most 16 MiB of
    /// snapshots, and at least one entry. It may be short and still have a `next`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a limit not between 1 and 1 000; otherwise a database error.
    pub async fn investigations(&self, filter: &InvestigationFilter, limit: usize) -> Result<InvestigationPage> {
        if !(1..=ENTRIES_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("must be between 1 and {ENTRIES_MAX}, got {limit}")));
        }
        self.entries(None, filter, limit).await
    }

    /// An entry by its id. `None`: there is no such entry.
    ///
    /// # Errors
    /// A database error.
    pub async fn investigation(&self, id: i64) -> Result<Option<Investigation>> {
        Ok(self.entries(Some(id), &InvestigationFilter::default(), 1).await?.entries.pop())
    }

    /// Resolves an entry. The first resolution is kept. `None`: there is no such entry.
    ///
    /// # Errors
    /// [`Error::Invalid`] for text that cannot be stored; otherwise a database error.
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
                return Err(Error::invalid(what, "must not contain NUL characters"));
            }
            if text.chars().count() > 10 * NAME_MAX {
                return Err(Error::invalid(what, format!("at most {} characters are allowed", 10 * NAME_MAX)));
            }
        }
        let query = || {
            let query = sqlx::query(&self.inner.sql.close_investigation).bind(id).bind(resolution.name());
            query.bind(by).bind(notes)
        };
        self.inner
            .db
            .act("close an investigation", Entry::new("investigation.close", id.to_string()), query, |_| true)
            .await?;
        self.investigation(id).await
    }

    async fn entries(&self, id: Option<i64>, filter: &InvestigationFilter, limit: usize) -> Result<InvestigationPage> {
        // With an index no scan is needed.
        let by_index = filter.namespace.is_none() && filter.reason.is_none() && filter.open != Some(false);
        let scan_max = if by_index { limit } else { SCANNED_MAX };
        let query = || {
            sqlx::query(&self.inner.sql.investigations)
                .bind(id)
                .bind(filter.before)
                .bind(filter.namespace.as_deref())
                .bind(filter.task)
                .bind(filter.reason.as_deref())
                .bind(filter.open)
                .bind(limit as i64)
                .bind(scan_max as i64)
                .bind(RESPONSE_BYTES_MAX as i64)
                // Plan for the current size of the tables: a plan cached while they were small would scan them.
                .persistent(false)
        };
        let rows = self.inner.db.ask("read investigations", query).await?;
        let head = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        let (scanned_rows, edge): (i64, Option<i64>) = (head.try_get("scanned_rows")?, head.try_get("edge")?);
        let entries: Vec<Investigation> =
            rows.iter().filter_map(|row| read(row).transpose()).collect::<sqlx::Result<_>>()?;
        let matched: Option<i64> = head.try_get("matched")?;
        // If not all matches fit into the page, continue after its last entry, otherwise after the last one scanned.
        let full = entries.len() == limit || matched > Some(entries.len() as i64);
        let last = entries.last().filter(|_| full).map(|last| last.id).or(edge);
        let next = last.filter(|last| scanned_rows == scan_max as i64 || Some(*last) > edge);
        Ok(InvestigationPage { entries, next })
    }
}

/// `None`: the row has no entry.
fn read(row: &PgRow) -> sqlx::Result<Option<Investigation>> {
    let Some(id) = row.try_get("id")? else { return Ok(None) };
    let snapshot =
        RawValue::from_string(row.try_get("snapshot")?).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let resolution: Option<String> = row.try_get("resolution")?;
    let named = |word: String| Resolution::named(&word).ok_or_else(|| unknown("resolution", &word));
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
        resolution: resolution.map(named).transpose()?,
        resolved_by: row.try_get("resolved_by")?,
        notes: row.try_get("notes")?,
        resolved_at: row.try_get("resolved_at")?,
    }))
}
