//! The same operation for many steps or tasks, with a preview.
//!
//! Each is done in a transaction of its own, so that nobody waits for all; at most so many at a time, and the report says what remains. What was done does not match any more, so
//! sending the same again goes on where it stopped.

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::act::CONCURRENCY;
use super::{Act, Answer, Manner, Operation, REASON_MAX, StepAct, TaskAct, Who, check, steps_before, tasks_before};
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::json::Json;
use crate::stored::{ENDED_TASKS, step_state};
use crate::task::state::{StepState, TaskState};
use crate::template::NAME_MAX;

/// Steps or tasks of one request at most: about as many as are done within seconds.
pub const BULK_MAX: usize = 1_000;
/// What remains is counted as far as this, so that counting ends.
const REMAINING_MAX: i64 = 10_000;

/// An operation for many.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BulkRequest {
    /// For which.
    pub filter: BulkFilter,
    /// What is done with each.
    pub operation: BulkOperation,
    /// How many at most, up to 1 000.
    #[serde(default = "most")]
    pub limit: usize,
    /// Changes nothing, and says what would be done.
    #[serde(default)]
    pub preview: bool,
}

fn most() -> usize {
    BULK_MAX
}

/// Which steps or tasks. Everything that is given must be so; something must be given.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct BulkFilter {
    /// Tasks of this namespace.
    pub namespace: Option<String>,
    /// Of the template of this name.
    pub name: Option<String>,
    /// And this version.
    pub version: Option<String>,
    /// That are there.
    pub state: Option<TaskState>,
    /// Steps of this name, or all parts of it; for an operation on tasks, those that have such a step. Without it an operation on steps is about those that failed for good and that their tasks
    /// cannot go on without.
    pub step_name: Option<String>,
    /// Whose last error contains this text, message or type.
    pub error_contains: Option<String>,
    /// Tasks that were submitted then or later.
    #[serde(default, deserialize_with = "moment")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
    pub created_after: Option<OffsetDateTime>,
    /// Or before then.
    #[serde(default, deserialize_with = "moment")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
    pub created_before: Option<OffsetDateTime>,
    /// One of these tasks.
    #[cfg_attr(feature = "http", schema(value_type = Option<Vec<String>>))]
    pub tasks: Option<Vec<Uuid>>,
}

fn moment<'de, D: Deserializer<'de>>(from: D) -> Result<Option<OffsetDateTime>, D::Error> {
    let text: Option<String> = Option::deserialize(from)?;
    let read = |text: String| OffsetDateTime::parse(&text, &Rfc3339).map_err(serde::de::Error::custom);
    text.map(read).transpose()
}

/// What is done with each.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case", try_from = "Written")]
pub enum BulkOperation {
    /// As [`Operation::ResetForRetry`].
    ResetForRetry,
    /// As [`Operation::ResolveManually`].
    ResolveManually,
    /// As [`Operation::CompleteManually`].
    CompleteManually {
        /// The result of each.
        #[cfg_attr(feature = "http", schema(value_type = serde_json::Value))]
        result: Json,
    },
    /// As [`Flow::cancel`].
    CancelTask,
    /// As [`Flow::resolve`].
    ResolveTask,
    /// As [`Flow::resume`].
    ResumeTask,
    /// Removes tasks that have ended, with everything that belongs to them. Those that have not are left out: cancel them first.
    DeleteTask,
}

/// What an operation is about.
pub(super) enum Each {
    /// A step.
    Step(Operation),
    /// A task that ends there.
    End(TaskState),
    /// A task that goes on.
    Resume,
    /// A task that is removed.
    Delete,
}

/// The same as it is written. A tagged enum is read by way of values, in which numbers lose digits.
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
            (_, Some(_)) => Err("unknown field `result`: it is of complete_manually alone".to_owned()),
        }
    }
}

impl BulkOperation {
    /// What it means for a step, or for a task.
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

/// What became of an operation for many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct BulkReport {
    /// Nothing was changed.
    pub preview: bool,
    /// How many there were to do, of which at most as many as the limit were.
    pub matched: u64,
    /// How many were done, or would be.
    pub done: u64,
    /// Those, one by one.
    pub items: Vec<BulkItem>,
    /// What could not be done, and why.
    pub refused: Vec<BulkRefusal>,
    /// How many were beyond the limit; 10 000 stands for as many or more.
    pub remaining: u64,
}

/// A step or a task that something was done with, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct BulkItem {
    /// The task.
    #[cfg_attr(feature = "http", schema(value_type = String, format = "uuid"))]
    pub task_uuid: Uuid,
    /// The step, if it is about one.
    pub step_name: Option<String>,
}

/// One that could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct BulkRefusal {
    /// The task.
    #[cfg_attr(feature = "http", schema(value_type = String, format = "uuid"))]
    pub task_uuid: Uuid,
    /// The step, if it is about one.
    pub step_name: Option<String>,
    /// Why.
    pub reason: String,
}

impl BulkFilter {
    /// Refuses what cannot be meant.
    fn check(&self) -> Result<()> {
        if *self == BulkFilter::default() {
            return Err(Error::invalid("filter", "it is empty, and would be about everything; say which are meant"));
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
                Err(Error::invalid("tasks", format!("there are {}; the limit is {BULK_MAX}", tasks.len())))
            }
            _ => Ok(()),
        }
    }

    /// The text to look for as it is within an error, which is stored as JSON.
    fn error(&self) -> Option<String> {
        let quoted = Value::from(self.error_contains.as_deref()?).to_string();
        Some(quoted[1..quoted.len() - 1].to_owned())
    }
}

impl Flow {
    /// Does the same with many steps or tasks, each in a transaction of its own, or says what would be done. What could not be done is in the report.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what cannot be meant; else the database's, and then some may have been done: sending it again goes on with the others.
    pub async fn bulk(&self, request: BulkRequest, who: Who) -> Result<BulkReport> {
        who.check()?;
        request.filter.check()?;
        if !(1..=BULK_MAX).contains(&request.limit) {
            let reason = format!("it is {}; it must be between 1 and {BULK_MAX}", request.limit);
            return Err(Error::invalid("limit", reason));
        }
        let manner = if request.preview { Manner::Preview } else { Manner::Earnest };
        let rows = self.operable(&request).await?;
        let matched = rows.first().map_or(Ok(0), |row| row.try_get::<i64, _>("matched"))? as u64;
        let operation = request.operation.each();
        if let Each::Delete = operation {
            return self.delete_many(&rows, matched, &who, request.preview).await;
        }
        // Collected, so that whoever waits for this may do so in any thread.
        let each: Vec<_> = rows.iter().map(|row| self.one(row, &operation, &who, manner)).collect();
        let all: Vec<_> = stream::iter(each).buffered(CONCURRENCY).try_collect().await?;
        let remaining = matched - all.len() as u64;
        let (mut items, mut refused) = (Vec::new(), Vec::new());
        for (item, error) in all {
            match error {
                None => items.push(item),
                Some(error) => refused.push(BulkRefusal {
                    task_uuid: item.task_uuid,
                    step_name: item.step_name,
                    reason: error.to_string(),
                }),
            }
        }
        Ok(BulkReport { preview: request.preview, matched, done: items.len() as u64, items, refused, remaining })
    }

    /// Removes tasks that have ended: all in one short transaction, because nothing waits for them.
    async fn delete_many(&self, rows: &[PgRow], matched: u64, who: &Who, preview: bool) -> Result<BulkReport> {
        let tasks = rows.iter().map(|row| row.try_get("id")).collect::<sqlx::Result<Vec<Uuid>>>()?;
        let removed = if preview { tasks.clone() } else { self.remove(&tasks).await? };
        if !preview && !removed.is_empty() {
            tracing::info!(tasks = removed.len(), by = who.name, reason = who.reason, "removed tasks");
        }
        let remaining = matched - tasks.len() as u64;
        let (done, held): (Vec<Uuid>, Vec<Uuid>) = tasks.into_iter().partition(|task| removed.contains(task));
        let items: Vec<_> = done.into_iter().map(|task_uuid| BulkItem { task_uuid, step_name: None }).collect();
        let reason = || "the task is being changed by another request, or was removed before; try again".to_owned();
        let refusal = |task_uuid| BulkRefusal { task_uuid, step_name: None, reason: reason() };
        let refused = held.into_iter().map(refusal).collect();
        Ok(BulkReport { preview, matched, done: items.len() as u64, items, refused, remaining })
    }

    /// What a request is about.
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
            // What is done is not undone by the hundred.
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
            // Planned for this filter: another one is found by another index.
            query.bind(*limit as i64).bind(REMAINING_MAX).persistent(false)
        };
        Ok(self.inner.db.ask("find what an operation is about", query).await?)
    }

    /// Does it with one, and says why not, if it could not.
    pub(super) async fn one(
        &self,
        row: &PgRow,
        operation: &Each,
        who: &Who,
        manner: Manner,
    ) -> Result<(BulkItem, Option<Error>)> {
        let task = row.try_get("id")?;
        let mut item = BulkItem { task_uuid: task, step_name: None };
        let act = match operation {
            Each::End(to) => Ok(Act::Task(TaskAct { task, to: *to })),
            Each::Resume | Each::Delete if manner == Manner::Preview => return Ok((item, None)),
            // Removed together: see `delete_many`.
            Each::Delete => return Ok((item, None)),
            Each::Resume => {
                return match Box::pin(self.resume(task, who.clone())).await {
                    Ok(_) => Ok((item, None)),
                    Err(error @ (Error::NoTask { .. } | Error::NotAllowed { .. })) => Ok((item, Some(error))),
                    Err(error) => Err(error),
                };
            }
            Each::Step(operation) => {
                let kept = self.inner.numbered(row.try_get("template_id")?).await?.ok_or(Error::NoTask { task })?;
                let at = (row.try_get::<i32, _>("slot")? as usize, row.try_get("part")?);
                item.step_name = Some(super::public(&kept.template, at.0, at.1));
                StepAct::new(task, kept, at, operation).await.map(Act::Step)
            }
        };
        let answer = match act {
            Ok(act) => self.act(act, who, manner).await?,
            Err(error) => Answer::Refused(error),
        };
        match answer {
            Answer::Refused(
                error
                @ (Error::Invalid { .. } | Error::NoTask { .. } | Error::NoStep { .. } | Error::NotAllowed { .. }),
            ) => Ok((item, Some(error))),
            Answer::Refused(error) => Err(error),
            _ => Ok((item, None)),
        }
    }
}
