//! duroxide's `ProviderAdmin` (each answer is one query), figures for operators, and retention.

mod cached;
mod figures;
mod retention;

use async_trait::async_trait;
use duroxide::Event;
use duroxide::providers::{
    DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, InstanceTree, ProviderAdmin, ProviderError,
    PruneOptions, PruneResult, QueueDepths, SystemMetrics,
};
use reveille_pg::Sql;
use reveille_pg::audit::Entry;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

pub(crate) use cached::{Activity, Cached};
pub use figures::{Figures, Watch};
pub(crate) use retention::Retention;

use crate::provider::PostgresProvider;
use crate::queries::column;
use crate::text::{escape, unescape};

/// The limit of a bulk operation if the caller sets none.
const BULK_DEFAULT: u32 = 1_000;

fn number(operation: &'static str, row: &PgRow, at: usize) -> Result<u64, ProviderError> {
    Ok(column::<Option<i64>>(operation, row, at)?.map_or(0, |number| number as u64))
}

/// Whether a change has counted anything in a column.
fn any(row: &PgRow, at: usize) -> bool {
    row.try_get::<Option<i64>, _>(at).is_ok_and(|count| count.is_some_and(|count| count > 0))
}

fn texts(operation: &'static str, rows: &[PgRow]) -> Result<Vec<String>, ProviderError> {
    rows.iter().map(|row| Ok(unescape(column(operation, row, 0)?))).collect()
}

fn escape_all(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| escape(text).into_owned()).collect()
}

impl PostgresProvider {
    async fn instances(&self, operation: &'static str, status: Option<&str>) -> Result<Vec<String>, ProviderError> {
        let status = status.map(|status| escape(status).into_owned());
        let rows = self.rows(operation, &self.inner.queries.list_instances, |query| query.bind(status.clone())).await?;
        texts(operation, &rows)
    }

    /// Deletes instances, given with escaped ids, and writes `entry` in the same transaction if there were any.
    pub(crate) async fn delete(
        &self,
        ids: Vec<String>,
        force: bool,
        entry: Option<Entry>,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        const OPERATION: &str = "delete_instances_atomic";
        if ids.is_empty() {
            return Ok(DeleteInstanceResult::default());
        }
        // Acks of deleted turns and activities must be rejected.
        self.inner.leases.cancelled(|_| true);
        let deleted = self
            .change_audited(
                OPERATION,
                &self.inner.queries.delete_instances,
                entry,
                |row| any(row, 2),
                |query| query.bind(ids.clone()).bind(force),
            )
            .await;
        for id in &ids {
            self.inner.histories.forget(id);
        }
        let row = deleted?.ok_or_else(|| no_answer(OPERATION))?;
        let problem: Option<String> = column(OPERATION, &row, 0)?;
        let subject = unescape(column::<Option<String>>(OPERATION, &row, 1)?.unwrap_or_default());
        match problem.as_deref() {
            None => Ok(DeleteInstanceResult {
                instances_deleted: number(OPERATION, &row, 2)?,
                executions_deleted: number(OPERATION, &row, 3)?,
                events_deleted: number(OPERATION, &row, 4)?,
                queue_messages_deleted: number(OPERATION, &row, 5)?,
            }),
            // duroxide's client recognizes the words "still running".
            Some("running") => Err(ProviderError::permanent(
                OPERATION,
                format!("instance {subject} is still running: cancel it first, or delete with force"),
            )),
            Some("orphan") => Err(ProviderError::permanent(
                OPERATION,
                format!(
                    "instance {subject} is a child of one of the instances and missing in the list: read the tree again"
                ),
            )),
            Some(other) => Err(ProviderError::permanent(OPERATION, format!("unknown answer of the database: {other}"))),
        }
    }

    async fn prune(
        &self,
        ids: Vec<String>,
        options: &PruneOptions,
        entry: Option<Entry>,
    ) -> Result<PruneResult, ProviderError> {
        const OPERATION: &str = "prune_executions";
        let keep_last = options.keep_last.map(i64::from);
        let before = options.completed_before.map(|before| i64::try_from(before).unwrap_or(i64::MAX));
        let row = self
            .change_audited(
                OPERATION,
                &self.inner.queries.prune_executions,
                entry,
                |row| any(row, 1),
                |query| query.bind(ids.clone()).bind(keep_last).bind(before),
            )
            .await?
            .ok_or_else(|| no_answer(OPERATION))?;
        Ok(PruneResult {
            instances_processed: number(OPERATION, &row, 0)?,
            executions_deleted: number(OPERATION, &row, 1)?,
            events_deleted: number(OPERATION, &row, 2)?,
        })
    }

    /// As `prune_executions_bulk`; writes `entry` in the same transaction if there were any executions.
    pub(crate) async fn prune_selected(
        &self,
        filter: &InstanceFilter,
        options: &PruneOptions,
        entry: Option<Entry>,
    ) -> Result<PruneResult, ProviderError> {
        let instances = self.selected("prune_executions_bulk", &self.inner.queries.prunable, filter).await?;
        self.prune(instances, options, entry).await
    }

    /// The instances that a filter selects, escaped.
    async fn selected(
        &self,
        operation: &'static str,
        sql: &Sql,
        filter: &InstanceFilter,
    ) -> Result<Vec<String>, ProviderError> {
        let among = filter.instance_ids.as_ref().map(|ids| escape_all(ids));
        let before = filter.completed_before.map(|before| i64::try_from(before).unwrap_or(i64::MAX));
        let limit = i64::from(filter.limit.unwrap_or(BULK_DEFAULT));
        let rows = self.rows(operation, sql, |query| query.bind(among.clone()).bind(before).bind(limit)).await?;
        rows.iter().map(|row| column(operation, row, 0)).collect()
    }
}

#[async_trait]
impl ProviderAdmin for PostgresProvider {
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError> {
        self.instances("list_instances", None).await
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError> {
        self.instances("list_instances_by_status", Some(status)).await
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError> {
        const OPERATION: &str = "list_executions";
        let rows = self
            .rows(OPERATION, &self.inner.queries.list_executions, |query| query.bind(escape(instance).into_owned()))
            .await?;
        rows.iter().map(|row| number(OPERATION, row, 0)).collect()
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.read_execution("read_history_with_execution_id", instance, execution_id).await
    }

    async fn read_history(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.read_latest("read_history", instance).await
    }

    async fn latest_execution_id(&self, instance: &str) -> Result<u64, ProviderError> {
        let executions = self.list_executions(instance).await?;
        Ok(executions.last().copied().unwrap_or(1))
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError> {
        const OPERATION: &str = "get_instance_info";
        let row = self
            .row(OPERATION, &self.inner.queries.instance_info, |query| query.bind(escape(instance).into_owned()))
            .await?
            .ok_or_else(|| not_found(OPERATION, instance))?;
        let text = |at| column::<Option<String>>(OPERATION, &row, at).map(|text| text.map(unescape));
        Ok(InstanceInfo {
            instance_id: instance.to_owned(),
            orchestration_name: text(0)?.unwrap_or_default(),
            orchestration_version: text(1)?.unwrap_or_else(|| "unknown".to_owned()),
            current_execution_id: number(OPERATION, &row, 2)?,
            status: text(3)?.unwrap_or_default(),
            output: text(4)?,
            parent_instance_id: text(5)?,
            created_at: number(OPERATION, &row, 6)?,
            updated_at: number(OPERATION, &row, 7)?,
        })
    }

    async fn get_execution_info(&self, instance: &str, execution_id: u64) -> Result<ExecutionInfo, ProviderError> {
        const OPERATION: &str = "get_execution_info";
        let row = self
            .row(OPERATION, &self.inner.queries.execution_info, |query| {
                query.bind(escape(instance).into_owned()).bind(execution_id as i64)
            })
            .await?
            .ok_or_else(|| not_found(OPERATION, instance))?;
        let completed_at: Option<i64> = column(OPERATION, &row, 3)?;
        Ok(ExecutionInfo {
            execution_id,
            status: unescape(column(OPERATION, &row, 0)?),
            output: column::<Option<String>>(OPERATION, &row, 1)?.map(unescape),
            started_at: number(OPERATION, &row, 2)?,
            completed_at: completed_at.map(|at| at as u64),
            event_count: number(OPERATION, &row, 4)? as usize,
        })
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        const OPERATION: &str = "get_system_metrics";
        let read = async {
            let row = self.row(OPERATION, &self.inner.queries.system_metrics, |query| query).await?;
            let row = row.ok_or_else(|| no_answer(OPERATION))?;
            Ok(SystemMetrics {
                total_instances: number(OPERATION, &row, 0)?,
                running_instances: number(OPERATION, &row, 1)?,
                completed_instances: number(OPERATION, &row, 2)?,
                failed_instances: number(OPERATION, &row, 3)?,
                total_executions: number(OPERATION, &row, 4)?,
                total_events: number(OPERATION, &row, 5)?,
            })
        };
        self.inner.system_metrics.get_or(self.inner.activity(), self.inner.config.fallback_poll_interval, read).await
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        const OPERATION: &str = "get_queue_depths";
        let read = async {
            let row = self.row(OPERATION, &self.inner.queries.queue_depths, |query| query).await?;
            let row = row.ok_or_else(|| no_answer(OPERATION))?;
            Ok(QueueDepths {
                orchestrator_queue: number(OPERATION, &row, 0)? as usize,
                worker_queue: number(OPERATION, &row, 1)? as usize,
                // Timers are messages that are not due yet, and counted there.
                timer_queue: 0,
            })
        };
        self.inner.queue_depths.get_or(self.inner.activity(), self.inner.config.fallback_poll_interval, read).await
    }

    async fn list_children(&self, instance_id: &str) -> Result<Vec<String>, ProviderError> {
        const OPERATION: &str = "list_children";
        let rows = self
            .rows(OPERATION, &self.inner.queries.list_children, |query| query.bind(escape(instance_id).into_owned()))
            .await?;
        texts(OPERATION, &rows)
    }

    async fn get_parent_id(&self, instance_id: &str) -> Result<Option<String>, ProviderError> {
        Ok(self.get_instance_info(instance_id).await?.parent_instance_id)
    }

    async fn get_instance_tree(&self, instance_id: &str) -> Result<InstanceTree, ProviderError> {
        const OPERATION: &str = "get_instance_tree";
        let rows = self
            .rows(OPERATION, &self.inner.queries.instance_tree, |query| query.bind(escape(instance_id).into_owned()))
            .await?;
        Ok(InstanceTree { root_id: instance_id.to_owned(), all_ids: texts(OPERATION, &rows)? })
    }

    async fn delete_instances_atomic(
        &self,
        ids: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        self.delete(escape_all(ids), force, None).await
    }

    async fn delete_instance_bulk(&self, filter: InstanceFilter) -> Result<DeleteInstanceResult, ProviderError> {
        let trees = self.selected("delete_instance_bulk", &self.inner.queries.ended_trees, &filter).await?;
        self.delete(trees, true, None).await
    }

    async fn prune_executions(&self, instance_id: &str, options: PruneOptions) -> Result<PruneResult, ProviderError> {
        let pruned = self.prune(vec![escape(instance_id).into_owned()], &options, None).await?;
        match pruned.instances_processed {
            0 => Err(not_found("prune_executions", instance_id)),
            _ => Ok(pruned),
        }
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        self.prune_selected(&filter, &options, None).await
    }
}

fn not_found(operation: &'static str, instance: &str) -> ProviderError {
    ProviderError::permanent(operation, format!("instance {instance} not found"))
}

fn no_answer(operation: &'static str) -> ProviderError {
    ProviderError::permanent(operation, "the database returned no row")
}
