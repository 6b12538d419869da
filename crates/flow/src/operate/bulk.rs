//! The same operation for many steps or tasks, with a preview.
//!
//! Each item is changed in a transaction of its own, so that no row is locked for long. A request changes a limited
//! number of items and reports how many remain. Changed items do not match the filter any more, so the same request
//! sent again continues with the rest.

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::change::CONCURRENCY;
use super::{
    Change, ChangeOutcome, Effect, Operation, Operator, REASON_MAX, StepChange, TaskChange, check, steps_before,
    tasks_before,
};
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::json::Json;
use crate::query::task::part_name;
use crate::task::state::{StepState, TaskState};
use crate::task::stored::{ENDED_TASKS, step_state};
use crate::template::NAME_MAX;

/// The most steps or tasks of one request: about as many as are changed within seconds.
pub const BULK_MAX: usize = 1_000;
/// Remaining items are counted up to this number.
const REMAINING_MAX: i64 = 10_000;

/// A bulk operation.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BulkRequest {
    /// The steps or tasks.
    pub filter: BulkFilter,
    /// The operation on each of them.
    pub operation: BulkOperation,
    /// The most items, between 1 and 1 000.
    #[serde(default = "most")]
    pub limit: usize,
    /// If true, nothing is changed, and the report says what would be.
    #[serde(default)]
    pub preview: bool,
}

fn most() -> usize {
    BULK_MAX
}

/// Selects steps or tasks. All given fields must match; at least one must be given.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BulkFilter {
    /// In this namespace.
    pub namespace: Option<String>,
    /// Of the template with this name.
    pub name: Option<String>,
    /// Of this version of the template.
    pub version: Option<String>,
    /// Of tasks in this state.
    pub state: Option<TaskState>,
    /// Steps with this name, or all parts of it; for an operation on tasks, tasks that have such a step. Without it, an
    /// operation on steps selects those that failed permanently and block their tasks.
    pub step_name: Option<String>,
    /// The last error contains this text, in its message or type.
    pub error_contains: Option<String>,
    /// Of tasks submitted at or after this time.
    #[serde(default, deserialize_with = "timestamp")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
    pub created_after: Option<OffsetDateTime>,
    /// Of tasks submitted before this time.
    #[serde(default, deserialize_with = "timestamp")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
    pub created_before: Option<OffsetDateTime>,
    /// Of these tasks.
    #[cfg_attr(feature = "http", schema(value_type = Option<Vec<String>>))]
    pub tasks: Option<Vec<Uuid>>,
}

fn timestamp<'de, D: Deserializer<'de>>(from: D) -> Result<Option<OffsetDateTime>, D::Error> {
    let text: Option<String> = Option::deserialize(from)?;
    let read = |text: String| OffsetDateTime::parse(&text, &Rfc3339).map_err(serde::de::Error::custom);
    text.map(read).transpose()
}

/// The operation on each step or task.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case", try_from = "Written")]
pub enum BulkOperation {
    /// See [`Operation::ResetForRetry`].
    ResetForRetry,
    /// See [`Operation::ResolveManually`].
    ResolveManually,
    /// See [`Operation::CompleteManually`].
    CompleteManually {
        /// The result of each step.
        #[cfg_attr(feature = "http", schema(value_type = serde_json::Value))]
        result: Json,
    },
    /// See [`Flow::cancel`].
    CancelTask,
    /// See [`Flow::resolve`].
    ResolveTask,
    /// See [`Flow::resume`].
    ResumeTask,
    /// Deletes ended tasks with all their rows. Open tasks are not selected: cancel them first.
    DeleteTask,
}

/// A bulk operation, as it applies to one item.
pub(super) enum Each {
    /// Changes a step.
    Step(Operation),
    /// Ends a task in this state.
    End(TaskState),
    /// Resumes a task.
    Resume,
    /// Deletes a task.
    Delete,
}

/// The JSON format of [`BulkOperation`]. serde buffers a tagged enum as values, which lose digits of large numbers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    r#type: String,
    result: Option<Json>,
}

impl TryFrom<Written> for BulkOperation {
    type Error = String;

    fn try_from(Written { r#type: kind, result }: Written) -> Result<BulkOperation, String> {
        match (kind.as_str(), result) {
            ("reset_for_retry", None) => Ok(BulkOperation::ResetForRetry),
            ("resolve_manually", None) => Ok(BulkOperation::ResolveManually),
            ("complete_manually", Some(result)) => Ok(BulkOperation::CompleteManually { result }),
            ("complete_manually", None) => Err("missing field `result`".to_owned()),
            ("cancel_task", None) => Ok(BulkOperation::CancelTask),
            ("resolve_task", None) => Ok(BulkOperation::ResolveTask),
            ("resume_task", None) => Ok(BulkOperation::ResumeTask),
            ("delete_task", None) => Ok(BulkOperation::DeleteTask),
            (other, None) => Err(format!(
                "unknown type {other:?}, expected one of reset_for_retry, resolve_manually, complete_manually, \
                 cancel_task, resolve_task, resume_task, delete_task"
            )),
            (_, Some(_)) => Err("unknown field `result`: only complete_manually has one".to_owned()),
        }
    }
}

impl BulkOperation {
    /// The operation on one item.
    fn each(&self) -> Each {
        match self {
            BulkOperation::ResetForRetry => Each::Step(Operation::ResetForRetry),
            BulkOperation::ResolveManually => Each::Step(Operation::ResolveManually),
            BulkOperation::CompleteManually { result } => {
                Each::Step(Operation::CompleteManually { result: result.clone() })
            }
            BulkOperation::CancelTask => Each::End(TaskState::Cancelled),
            BulkOperation::ResolveTask => Each::End(TaskState::ResolvedManually),
            BulkOperation::ResumeTask => Each::Resume,
            BulkOperation::DeleteTask => Each::Delete,
        }
    }
}

/// The report of a bulk operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct BulkReport {
    /// Whether nothing was changed.
    pub preview: bool,
    /// The number of matching items, including those beyond the limit.
    pub matched: u64,
    /// The number of changed items, or of those that would be.
    pub done: u64,
    /// The changed items.
    pub items: Vec<BulkItem>,
    /// The items that were not changed, with the reason.
    pub refused: Vec<BulkFailure>,
    /// The number of matching items beyond the limit; 10 000 means at least as many.
    pub remaining: u64,
}

/// A changed step or task, or one that would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct BulkItem {
    /// The task.
    #[cfg_attr(feature = "http", schema(value_type = String, format = "uuid"))]
    pub task_uuid: Uuid,
    /// The step; none for an operation on tasks.
    pub step_name: Option<String>,
}

/// A step or task that was not changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct BulkFailure {
    /// The task.
    #[cfg_attr(feature = "http", schema(value_type = String, format = "uuid"))]
    pub task_uuid: Uuid,
    /// The step; none for an operation on tasks.
    pub step_name: Option<String>,
    /// The reason.
    pub reason: String,
}

impl BulkFilter {
    /// Checks the parameters.
    fn check(&self) -> Result<()> {
        if *self == BulkFilter::default() {
            return Err(Error::invalid("filter", "must not be empty: it would select everything"));
        }
        let names = [
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("version", &self.version),
            ("step_name", &self.step_name),
        ];
        let names = names.into_iter().map(|(what, text)| (what, text, NAME_MAX));
        for (what, text, max) in names.chain([("error_contains", &self.error_contains, REASON_MAX)]) {
            text.as_ref().map_or(Ok(()), |text| check(what, text, max))?;
        }
        match &self.tasks {
            Some(tasks) if tasks.len() > BULK_MAX => {
                Err(Error::invalid("tasks", format!("must have at most {BULK_MAX} elements, got {}", tasks.len())))
            }
            _ => Ok(()),
        }
    }

    /// The text to search for, escaped as in JSON, because errors are stored as JSON.
    fn error(&self) -> Option<String> {
        let quoted = Value::from(self.error_contains.as_deref()?).to_string();
        Some(quoted[1..quoted.len() - 1].to_owned())
    }
}

impl Flow {
    /// Applies an operation to many steps or tasks, each in a transaction of its own, or reports what would be changed.
    /// Items that could not be changed are in the report.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid parameter; otherwise a database error. After a database error some items may
    /// have been changed: the same request sent again continues with the rest.
    pub async fn bulk(&self, request: BulkRequest, operator: Operator) -> Result<BulkReport> {
        operator.check()?;
        request.filter.check()?;
        if !(1..=BULK_MAX).contains(&request.limit) {
            let reason = format!("must be between 1 and {BULK_MAX}, got {}", request.limit);
            return Err(Error::invalid("limit", reason));
        }
        let effect = if request.preview { Effect::Preview } else { Effect::Apply };
        let rows = self.operable(&request).await?;
        let matched = rows.first().map_or(Ok(0), |row| row.try_get::<i64, _>("matched"))? as u64;
        let operation = request.operation.each();
        if let Each::Delete = operation {
            return self.delete_many(&rows, matched, &operator, request.preview).await;
        }
        // Collected first: a lazy iterator would make this future not `Send`.
        let each: Vec<_> = rows.iter().map(|row| self.one(row, &operation, &operator, effect)).collect();
        let all: Vec<_> = stream::iter(each).buffered(CONCURRENCY).try_collect().await?;
        let remaining = matched - all.len() as u64;
        let (mut items, mut refused) = (Vec::new(), Vec::new());
        for (item, error) in all {
            match error {
                None => items.push(item),
                Some(error) => refused.push(BulkFailure {
                    task_uuid: item.task_uuid,
                    step_name: item.step_name,
                    reason: error.to_string(),
                }),
            }
        }
        Ok(BulkReport { preview: request.preview, matched, done: items.len() as u64, items, refused, remaining })
    }

    /// Deletes ended tasks, in one short transaction: no other transaction waits for their locks.
    async fn delete_many(
        &self,
        rows: &[PgRow],
        matched: u64,
        operator: &Operator,
        preview: bool,
    ) -> Result<BulkReport> {
        let tasks = rows.iter().map(|row| row.try_get("id")).collect::<sqlx::Result<Vec<Uuid>>>()?;
        let removed = if preview { tasks.clone() } else { self.remove(&tasks).await? };
        if !preview && !removed.is_empty() {
            tracing::info!(tasks = removed.len(), by = operator.name, reason = operator.reason, "removed tasks");
        }
        let remaining = matched - tasks.len() as u64;
        let (done, held): (Vec<Uuid>, Vec<Uuid>) = tasks.into_iter().partition(|task| removed.contains(task));
        let items: Vec<_> = done.into_iter().map(|task_uuid| BulkItem { task_uuid, step_name: None }).collect();
        let reason = || "the task is being changed by another request, or was removed before; try again".to_owned();
        let failure = |task_uuid| BulkFailure { task_uuid, step_name: None, reason: reason() };
        let refused = held.into_iter().map(failure).collect();
        Ok(BulkReport { preview, matched, done: items.len() as u64, items, refused, remaining })
    }

    /// The items that a request selects.
    pub(super) async fn operable(
        &self,
        BulkRequest { filter, operation, limit, .. }: &BulkRequest,
    ) -> Result<Vec<PgRow>> {
        let sql = &self.inner.sql;
        let operation = operation.each();
        let states = match &operation {
            Each::End(to) => tasks_before(*to),
            Each::Resume => vec!["error"],
            Each::Delete => ENDED_TASKS.iter().map(|(word, _)| *word).collect(),
            // Complete steps are changed one by one only.
            Each::Step(operation) => {
                let meant = |word: &&str| match step_state(word) {
                    Some(StepState::Error) => true,
                    Some(StepState::Complete | StepState::ResolvedManually) | None => false,
                    Some(_) => filter.step_name.is_some(),
                };
                steps_before(operation.to()).into_iter().filter(meant).collect()
            }
        };
        let steps = matches!(operation, Each::Step(_));
        let query = || {
            let sql = if steps { &sql.operable_steps } else { &sql.operable_tasks };
            let query = sqlx::query(sql)
                .bind(&filter.namespace)
                .bind(&filter.name)
                .bind(&filter.version)
                .bind(filter.state.map(TaskState::name))
                .bind(&filter.step_name)
                .bind(filter.error())
                .bind(filter.created_after)
                .bind(filter.created_before)
                .bind(&filter.tasks)
                .bind(states.clone());
            let query = if steps { query.bind(filter.step_name.is_none()) } else { query };
            // Plan for this filter: another one may need another index.
            query.bind(*limit as i64).bind(REMAINING_MAX).persistent(false)
        };
        Ok(self.inner.db.ask("find what an operation is about", query).await?)
    }

    /// Changes one item. Returns the reason if that is not allowed.
    pub(super) async fn one(
        &self,
        row: &PgRow,
        operation: &Each,
        operator: &Operator,
        effect: Effect,
    ) -> Result<(BulkItem, Option<Error>)> {
        let task = row.try_get("id")?;
        let mut item = BulkItem { task_uuid: task, step_name: None };
        let change = match operation {
            Each::End(to) => Ok(Change::Task(TaskChange { task, to: *to })),
            Each::Resume | Each::Delete if effect == Effect::Preview => return Ok((item, None)),
            // `delete_many` deletes all tasks at once.
            Each::Delete => return Ok((item, None)),
            Each::Resume => {
                return match Box::pin(self.resume(task, operator.clone())).await {
                    Ok(_) => Ok((item, None)),
                    Err(error @ (Error::NoTask { .. } | Error::NotAllowed { .. })) => Ok((item, Some(error))),
                    Err(error) => Err(error),
                };
            }
            Each::Step(operation) => {
                let cached =
                    self.inner.template_by_id(row.try_get("template_id")?).await?.ok_or(Error::NoTask { task })?;
                let at = (row.try_get::<i32, _>("slot")? as usize, row.try_get("part")?);
                item.step_name = Some(part_name(&cached.template.steps[at.0].name, at.1));
                StepChange::new(task, cached, at, operation).await.map(Change::Step)
            }
        };
        let outcome = match change {
            Ok(change) => self.change(change, operator, effect).await?,
            Err(error) => ChangeOutcome::Refused(error),
        };
        match outcome {
            ChangeOutcome::Refused(
                error
                @ (Error::Invalid { .. } | Error::NoTask { .. } | Error::NoStep { .. } | Error::NotAllowed { .. }),
            ) => Ok((item, Some(error))),
            ChangeOutcome::Refused(error) => Err(error),
            _ => Ok((item, None)),
        }
    }
}
