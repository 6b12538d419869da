//! Deleting what has ended, step by step: ended instances, or old executions of instances that continue as new.
//!
//! A step is a small transaction and says where to continue, so a client can stop at any step and go on later. Without
//! `after` it begins again with the oldest; what was deleted does not come back.

use duroxide::providers::{InstanceFilter, PruneOptions, PruneResult};
use reveille_pg::audit::Entry;
use reveille_web::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::delete::Size;
use crate::error::{Error, Result};
use crate::inspect::{Cursor, Instances, LAST, Status, maybe_time, not_a_cursor, number, text};
use crate::text::escape;

/// The most instances of a step.
pub(crate) const PRUNED_MAX: u64 = 500;
/// The most executions or instances that a step scans.
const SCANNED_MAX: i64 = 10_000;
/// The instances that an answer names.
const SAMPLE: usize = 10;

/// What to delete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = PruneWhat)]
pub(crate) enum What {
    /// Ended instances with their sub-orchestrations.
    #[default]
    Instances,
    /// Ended executions of instances, but never the current one.
    Executions,
}

/// A step of pruning.
#[derive(Debug, Clone)]
pub(crate) struct Prune {
    pub(crate) what: What,
    pub(crate) ended_before: Option<OffsetDateTime>,
    pub(crate) status: Option<Status>,
    pub(crate) name: Option<String>,
    pub(crate) keep_last: Option<u32>,
    pub(crate) after: Option<String>,
    pub(crate) limit: u64,
    pub(crate) dry_run: bool,
}

/// The result of a step.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PruneResult)]
pub(crate) struct Pruned {
    /// Whether nothing was changed: this is what would be deleted.
    pub(crate) dry_run: bool,
    /// Instances, or executions, that this step has deleted; of a dry run: that match, executions only of this step.
    pub(crate) count: u64,
    /// What was or would be deleted by this step. With `what: executions` the instances are not deleted, but those whose
    /// executions are.
    #[serde(flatten)]
    pub(crate) size: Size,
    /// The first instances that match, at most ten.
    pub(crate) sample: Vec<PrunedInstance>,
    /// The `after` of the next step; null if nothing is left.
    pub(crate) next: Option<String>,
    /// How many instances without a parent match after this step, as far as 10 000 ended ones show. Only a dry run
    /// counts them.
    pub(crate) remaining: Option<u64>,
    /// Whether there may be more than `remaining`.
    pub(crate) more: bool,
}

/// An instance that matches.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PrunedInstance)]
pub(crate) struct PrunedInstance {
    /// Its id.
    pub(crate) instance: String,
    /// The name of its orchestration.
    pub(crate) name: String,
    /// Its state.
    pub(crate) status: Status,
    /// When it ended.
    #[schema(value_type = Option<String>, format = "date-time")]
    pub(crate) ended_at: Option<Timestamp>,
}

/// Instances that match, and where the search ended.
struct Found {
    rows: Vec<PgRow>,
    next: Option<String>,
}

impl Instances {
    /// Deletes the next ended instances or executions, or tells which.
    pub(crate) async fn prune(&self, prune: &Prune) -> Result<Pruned> {
        let found = self.candidates(prune, prune.after.as_deref(), prune.limit).await?;
        let ids: Vec<String> = found
            .rows
            .iter()
            .map(|row| row.try_get("instance_id"))
            .collect::<sqlx::Result<_>>()
            .map_err(reveille_pg::Error::from)?;
        let sample = found.rows.iter().take(SAMPLE).map(|row| sampled(row, prune.what));
        let sample = sample.collect::<reveille_pg::Result<_>>()?;
        let size = match (ids.is_empty(), prune.what, prune.dry_run) {
            (true, ..) => Size::default(),
            (_, What::Instances, true) => self.size(&ids).await?.1,
            (_, What::Instances, false) => self.delete_trees(ids, false, prune.entry()).await?,
            (_, What::Executions, true) => self.size_of_executions(&ids, prune).await?,
            (_, What::Executions, false) => self.prune_executions(ids, prune).await?,
        };
        let (mut remaining, mut more) = (None, false);
        if prune.dry_run {
            let rest = match &found.next {
                None => None,
                after => Some(self.candidates(prune, after.as_deref(), SCANNED_MAX as u64).await?),
            };
            more = rest.as_ref().is_some_and(|rest| rest.next.is_some());
            remaining = Some(rest.map_or(0, |rest| rest.rows.len() as u64));
        }
        let count = match prune.what {
            What::Instances => found.rows.len() as u64 + remaining.unwrap_or(0),
            What::Executions => size.executions,
        };
        Ok(Pruned { dry_run: prune.dry_run, count, size, sample, next: found.next, remaining, more })
    }

    async fn candidates(&self, prune: &Prune, after: Option<&str>, limit: u64) -> Result<Found> {
        let after = after.map(|text| Cursor::parse(text).ok_or_else(|| not_a_cursor(text))).transpose()?;
        let name = prune.name.as_deref().map(|name| escape(name).into_owned());
        let (mut rows, time) = match prune.what {
            What::Instances => {
                let after = after.unwrap_or_else(Cursor::first);
                let id = escape(&after.text).into_owned();
                let rows = self.ask("find ended instances", || {
                    sqlx::query(&self.inner.sql.find_ended)
                        .bind(prune.ended_before.unwrap_or(LAST))
                        .bind(prune.status.map(Status::name))
                        .bind(name.clone())
                        .bind(after.time)
                        .bind(id.clone())
                        .bind(limit as i64 + 1)
                        .bind(SCANNED_MAX)
                });
                (rows.await?, "completed_at")
            }
            What::Executions => {
                let before = after.unwrap_or_else(Cursor::last);
                let id = escape(&before.text).into_owned();
                let rows = self.ask("find continued instances", || {
                    sqlx::query(&self.inner.sql.find_continued)
                        .bind(name.clone())
                        .bind(before.time)
                        .bind(id.clone())
                        .bind(limit as i64 + 1)
                        .bind(SCANNED_MAX)
                });
                (rows.await?, "created_at")
            }
        };
        let cursor = |row: &PgRow| -> reveille_pg::Result<String> {
            Ok(Cursor { time: row.try_get(time)?, text: text(row, "instance_id")? }.to_string())
        };
        let mut next = None;
        if rows.len() as u64 > limit {
            rows.truncate(limit as usize);
            next = rows.last().map(cursor).transpose()?;
        } else if let Some(last) = rows.last() {
            let flag = |name| last.try_get::<bool, _>(name).map_err(reveille_pg::Error::from);
            let (matches, ends_scan) = (flag("matches")?, flag("ends_scan")?);
            next = ends_scan.then(|| cursor(last)).transpose()?;
            if !matches {
                rows.pop();
            }
        }
        Ok(Found { rows, next })
    }

    async fn size_of_executions(&self, ids: &[String], prune: &Prune) -> Result<Size> {
        let (keep_last, before_ms) = (prune.keep_last.map(i64::from), prune.before_ms());
        let rows = self.ask("measure executions", || {
            sqlx::query(&self.inner.sql.size_of_executions).bind(ids.to_vec()).bind(keep_last).bind(before_ms)
        });
        let rows = rows.await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound).map_err(reveille_pg::Error::from)?;
        Ok(Size {
            instances: number(row, "instances")?,
            executions: number(row, "executions")?,
            events: number(row, "events")?,
            messages: 0,
        })
    }

    async fn prune_executions(&self, ids: Vec<String>, prune: &Prune) -> Result<Size> {
        // The instances whose executions go, which the deletion itself does not count.
        let planned = self.size_of_executions(&ids, prune).await?;
        if planned.executions == 0 {
            return Ok(Size::default());
        }
        let ids = ids.into_iter().map(crate::text::unescape).collect();
        let filter = InstanceFilter { instance_ids: Some(ids), completed_before: None, limit: Some(PRUNED_MAX as u32) };
        let completed_before = prune.before_ms().map(|at| at.max(0) as u64);
        let options = PruneOptions { keep_last: prune.keep_last, completed_before };
        let pruned = self.inner.provider.prune_selected(&filter, &options, prune.entry()).await;
        let pruned = pruned.map_err(Error::from_provider)?;
        let PruneResult { executions_deleted, events_deleted, .. } = pruned;
        let Size { instances, .. } = planned;
        Ok(Size { instances, executions: executions_deleted, events: events_deleted, messages: 0 })
    }
}

impl Prune {
    /// The row of the audit for a step.
    fn entry(&self) -> Option<Entry> {
        let what = match self.what {
            What::Instances => "instances",
            What::Executions => "executions",
        };
        let entry = Entry::new("instance.prune", self.name.as_deref().unwrap_or("*"))?;
        Some(entry.detail(format!("{{\"what\":\"{what}\"}}")))
    }

    fn before_ms(&self) -> Option<i64> {
        self.ended_before.map(|at| (at.unix_timestamp_nanos() / 1_000_000) as i64)
    }
}

fn sampled(row: &PgRow, what: What) -> reveille_pg::Result<PrunedInstance> {
    Ok(PrunedInstance {
        instance: text(row, "instance_id")?,
        name: text(row, "orchestration_name")?,
        status: Status::stored(row.try_get("status")?),
        ended_at: match what {
            What::Instances => maybe_time(row, "completed_at")?,
            What::Executions => None,
        },
    })
}
