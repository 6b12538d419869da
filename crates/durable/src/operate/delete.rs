//! Deleting an instance with its sub-orchestrations, and what that would touch.

use duroxide::providers::DeleteInstanceResult;
use reveille_pg::audit::Entry;
use serde::Serialize;
use sqlx::Row;
use utoipa::ToSchema;

use super::message::check_id;
use crate::error::{Error, Result};
use crate::inspect::{Instances, number};
use crate::text::escape;

/// Instances are counted up to this number. Deleting more in one transaction would hold its locks for long.
const TREE_MAX: i64 = 10_000;

/// What was or would be deleted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = DeletedSize)]
pub(crate) struct Size {
    /// Instances, with their sub-orchestrations.
    pub(crate) instances: u64,
    /// Executions of them.
    pub(crate) executions: u64,
    /// Events in their histories.
    pub(crate) events: u64,
    /// Messages and activities that waited for them.
    pub(crate) messages: u64,
}

/// The result of deleting an instance.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeletedInstance)]
pub(crate) struct Deleted {
    /// Its id.
    pub(crate) instance: String,
    /// Whether nothing was changed: this is what would be deleted.
    pub(crate) dry_run: bool,
    /// What was or would be deleted.
    #[serde(flatten)]
    pub(crate) size: Size,
    /// How many of the instances run.
    pub(crate) running: u64,
}

impl Instances {
    /// Deletes an instance and its sub-orchestrations, or tells what that would delete.
    pub(crate) async fn remove(&self, instance: &str, force: bool, dry_run: bool) -> Result<Deleted> {
        check_id(instance)?;
        let known = self.known(instance).await?;
        let known = known.ok_or_else(|| Error::NotFound { instance: instance.to_owned() })?;
        if let Some(parent) = known.parent {
            let what = format!("instance {instance:?} is a sub-orchestration: delete its parent {parent:?}");
            return Err(Error::NotAllowed { what });
        }
        let id = escape(instance).into_owned();
        let (running, size) = self.size(std::slice::from_ref(&id)).await?;
        let deleted = Deleted { instance: instance.to_owned(), dry_run, running, size };
        if dry_run {
            return Ok(deleted);
        }
        if deleted.running > 0 && !force {
            let what = format!("instance {instance:?} has not ended: cancel it first, or delete it with `force=true`");
            return Err(Error::NotAllowed { what });
        }
        if size.instances >= TREE_MAX as u64 {
            let what =
                format!("instance {instance:?} has too many descendants: at most {TREE_MAX} are deleted at once");
            return Err(Error::NotAllowed { what });
        }
        let size = self.delete_trees(vec![id], force, Entry::new("instance.delete", instance)).await?;
        Ok(Deleted { size, ..deleted })
    }

    /// Deletes instances, given with escaped ids, and their descendants; `entry` is the row of the audit.
    pub(super) async fn delete_trees(&self, ids: Vec<String>, force: bool, entry: Option<Entry>) -> Result<Size> {
        let provider = &self.inner.provider;
        let rows = self.ask("find descendants", || sqlx::query(&self.inner.sql.descendants).bind(ids.clone())).await?;
        let ids = rows.iter().map(|row| row.try_get("instance_id"));
        let all: Vec<String> = ids.collect::<sqlx::Result<_>>().map_err(reveille_pg::Error::from)?;
        let deleted = provider.delete(all, force, entry).await.map_err(Error::from_provider)?;
        let DeleteInstanceResult { instances_deleted, executions_deleted, events_deleted, queue_messages_deleted } =
            deleted;
        Ok(Size {
            instances: instances_deleted,
            executions: executions_deleted,
            events: events_deleted,
            messages: queue_messages_deleted,
        })
    }

    /// How many instances run, and the size of all, with all descendants.
    pub(super) async fn size(&self, ids: &[String]) -> Result<(u64, Size)> {
        let rows = self
            .ask("measure instances", || sqlx::query(&self.inner.sql.size_of_trees).bind(ids.to_vec()).bind(TREE_MAX));
        let rows = rows.await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound).map_err(reveille_pg::Error::from)?;
        let size = Size {
            instances: number(row, "instances")?,
            executions: number(row, "executions")?,
            events: number(row, "events")?,
            messages: number(row, "messages")?,
        };
        Ok((number(row, "running")?, size))
    }
}
