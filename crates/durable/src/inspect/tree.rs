//! An instance with its sub-orchestrations.

use reveille_web::Timestamp;
use serde::Serialize;
use sqlx::Row;
use sqlx::postgres::PgRow;
use utoipa::ToSchema;

use super::{Instances, Status, maybe_text, number, text};
use crate::error::Result;
use crate::text::escape;

/// The most instances of an answer.
pub(crate) const TREE_MAX: u64 = 1_000;
/// The most levels.
const DEPTH_MAX: i64 = 100;

/// An instance and its descendants.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InstanceTree)]
pub(crate) struct Tree {
    /// Level by level, and within a level in the order of creation. The first is the instance itself.
    pub(crate) instances: Vec<Node>,
    /// Whether there are more.
    pub(crate) truncated: bool,
}

/// An instance in a tree.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TreeNode)]
pub(crate) struct Node {
    /// Its id.
    pub(crate) instance: String,
    /// The instance that started it.
    pub(crate) parent: Option<String>,
    /// Levels below the first.
    pub(crate) depth: u64,
    /// The name of its orchestration.
    pub(crate) name: String,
    /// The version of its orchestration.
    pub(crate) version: Option<String>,
    /// Its state.
    pub(crate) status: Status,
    /// The number of its current execution.
    pub(crate) execution: u64,
    /// When it began.
    #[schema(value_type = String, format = "date-time")]
    pub(crate) created_at: Timestamp,
    /// When an execution began or ended, or the custom status changed.
    #[schema(value_type = String, format = "date-time")]
    pub(crate) updated_at: Timestamp,
}

impl Instances {
    /// An instance and its descendants; empty if there is none.
    pub(crate) async fn tree(&self, instance: &str, limit: u64) -> Result<Tree> {
        let id = escape(instance).into_owned();
        let rows = self.ask("read a tree of instances", || {
            sqlx::query(&self.inner.sql.tree).bind(id.clone()).bind(limit as i64 + 1).bind(DEPTH_MAX)
        });
        let rows = rows.await?;
        let shown = &rows[..rows.len().min(limit as usize)];
        let instances = shown.iter().map(read).collect::<reveille_pg::Result<_>>()?;
        Ok(Tree { instances, truncated: rows.len() > shown.len() })
    }
}

fn read(row: &PgRow) -> reveille_pg::Result<Node> {
    Ok(Node {
        instance: text(row, "instance_id")?,
        parent: maybe_text(row, "parent_instance_id")?,
        depth: number(row, "depth")?,
        name: text(row, "orchestration_name")?,
        version: maybe_text(row, "orchestration_version")?,
        status: Status::stored(row.try_get("status")?),
        execution: number(row, "current_execution_id")?,
        created_at: Timestamp(row.try_get("created_at")?),
        updated_at: Timestamp(row.try_get("updated_at")?),
    })
}
