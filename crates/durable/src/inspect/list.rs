//! Lists of instances.
//!
//! The work for a page is bounded: it scans a limited number of instances from the newest, and says where to continue.
//! So a page may be short or empty although more instances match. An index on the status or the name would make every
//! end of an execution more expensive.

use reveille_web::Timestamp;
use serde::Serialize;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::{Cursor, FIRST, Instances, LAST, Status, json_text, maybe_text, number, text};
use crate::error::{Error, Result};
use crate::text::{escape, unescape};

/// The largest page.
pub(crate) const INSTANCES_MAX: u64 = 1_000;
/// The most instances that one page scans: some milliseconds.
const SCANNED_MAX: i64 = 20_000;

/// Selects instances. Fields that are not given match everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListFilter {
    pub(crate) status: Option<Status>,
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) prefix: Option<String>,
    pub(crate) created_after: Option<OffsetDateTime>,
    pub(crate) created_before: Option<OffsetDateTime>,
}

/// A page of instances.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InstancePage)]
pub(crate) struct InstancePage {
    /// Those of this page.
    pub(crate) instances: Vec<InstanceSummary>,
    /// The `after` of the next page; null if this is the last.
    pub(crate) next: Option<String>,
}

/// An instance in a list.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InstanceSummary)]
pub(crate) struct InstanceSummary {
    /// Its id.
    pub(crate) instance: String,
    /// The name of its orchestration.
    pub(crate) name: String,
    /// The version; null if no turn has chosen one yet.
    pub(crate) version: Option<String>,
    /// Its state.
    pub(crate) status: Status,
    /// The instance that it is a sub-orchestration of.
    pub(crate) parent: Option<String>,
    /// The number of its current execution; 0 if it has none yet.
    pub(crate) execution: u64,
    /// When its first turn began; of one that has not run yet: when it was started.
    #[schema(value_type = String, format = "date-time")]
    pub(crate) created_at: Timestamp,
    /// When an execution began or ended, or the custom status changed.
    #[schema(value_type = String, format = "date-time")]
    pub(crate) updated_at: Timestamp,
    /// The beginning of its custom status, at most 1 000 characters.
    pub(crate) custom_status: Option<String>,
}

impl Instances {
    /// A page of instances, newest first; of those that have not run yet, oldest first. `after` is the `next` of the
    /// previous page.
    pub(crate) async fn list(&self, filter: &ListFilter, after: Option<&str>, limit: u64) -> Result<InstancePage> {
        let after = after.map(|text| Cursor::parse(text).ok_or_else(|| not_a_cursor(text))).transpose()?;
        match filter.status {
            Some(Status::Pending) => self.unstarted(filter, after, limit).await,
            _ => self.begun(filter, after, limit).await,
        }
    }

    async fn begun(&self, filter: &ListFilter, after: Option<Cursor>, limit: u64) -> Result<InstancePage> {
        let before = Cursor { time: filter.created_before.unwrap_or(LAST), text: String::new() };
        let from = match after {
            Some(after) if after.time < before.time => after,
            _ => before,
        };
        let escaped = |text: &Option<String>| text.as_deref().map(|text| escape(text).into_owned());
        let (name, version, prefix) = (escaped(&filter.name), escaped(&filter.version), escaped(&filter.prefix));
        let id = escape(&from.text).into_owned();
        let rows = self.ask("find instances", || {
            sqlx::query(&self.inner.sql.find_instances)
                .bind(filter.status.map(Status::name))
                .bind(name.clone())
                .bind(version.clone())
                .bind(prefix.clone())
                .bind(filter.created_after.unwrap_or(FIRST))
                .bind(from.time)
                .bind(id.clone())
                .bind(limit as i64 + 1)
                .bind(SCANNED_MAX)
        });
        let rows = rows.await?;
        let mut instances = Vec::new();
        let mut next = None;
        for row in &rows {
            let flag = |name| row.try_get::<bool, _>(name).map_err(reveille_pg::Error::from);
            if instances.len() as u64 == limit {
                next = instances.last().map(InstanceSummary::cursor);
                break;
            }
            if flag("matches")? {
                instances.push(summary(row)?);
            }
            if flag("ends_scan")? {
                let time = row.try_get("created_at").map_err(reveille_pg::Error::from)?;
                next = Some(Cursor { time, text: text(row, "instance_id")? }.to_string());
            }
        }
        Ok(InstancePage { instances, next })
    }

    async fn unstarted(&self, filter: &ListFilter, after: Option<Cursor>, limit: u64) -> Result<InstancePage> {
        let after = after.unwrap_or_else(Cursor::first);
        let message: i64 = after.text.parse().unwrap_or(0);
        let escaped = |text: &Option<String>| text.as_deref().map(|text| escape(text).into_owned());
        let (name, prefix) = (escaped(&filter.name), escaped(&filter.prefix));
        let rows = self.ask("find unstarted instances", || {
            sqlx::query(&self.inner.sql.find_unstarted)
                .bind(name.clone())
                .bind(prefix.clone())
                .bind(after.time)
                .bind(message)
                .bind(limit as i64 + 1)
                .bind(SCANNED_MAX)
        });
        let rows = rows.await?;
        let shown = &rows[..rows.len().min(limit as usize)];
        let next = shown.last().filter(|_| rows.len() > shown.len()).map(|row| -> reveille_pg::Result<String> {
            let message = row.try_get::<i64, _>("id")?.to_string();
            Ok(Cursor { time: row.try_get("visible_at")?, text: message }.to_string())
        });
        let instances = shown.iter().map(unstarted_summary).collect::<reveille_pg::Result<_>>()?;
        Ok(InstancePage { instances, next: next.transpose()? })
    }
}

impl InstanceSummary {
    fn cursor(&self) -> String {
        Cursor { time: self.created_at.0, text: self.instance.clone() }.to_string()
    }
}

fn summary(row: &PgRow) -> reveille_pg::Result<InstanceSummary> {
    Ok(InstanceSummary {
        instance: text(row, "instance_id")?,
        name: text(row, "orchestration_name")?,
        version: maybe_text(row, "orchestration_version")?,
        status: Status::stored(row.try_get("status")?),
        parent: maybe_text(row, "parent_instance_id")?,
        execution: number(row, "current_execution_id")?,
        created_at: Timestamp(row.try_get("created_at")?),
        updated_at: Timestamp(row.try_get("updated_at")?),
        custom_status: maybe_text(row, "custom_status")?,
    })
}

fn unstarted_summary(row: &PgRow) -> reveille_pg::Result<InstanceSummary> {
    let since = Timestamp(row.try_get("visible_at")?);
    Ok(InstanceSummary {
        instance: unescape(row.try_get("instance_id")?),
        name: json_text(row, "name")?.unwrap_or_default(),
        version: None,
        status: Status::Pending,
        parent: None,
        execution: 0,
        created_at: since,
        updated_at: since,
        custom_status: None,
    })
}

pub(crate) fn not_a_cursor(text: &str) -> Error {
    let reason = format!("must be the `next` of an earlier page, got {text:?}");
    Error::Invalid { what: "after", reason }
}
