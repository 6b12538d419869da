//! Forking a task: a new task continues another one from a step, with an edited input.
//!
//! The new task is of the same template version. Every step that was completed in the other task, and does not follow
//! the step, keeps its result; so nothing is done again that the step depends on. Everything is one transaction.

use reveille_pg::audit::Entry;
use serde::Serialize;
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::{Obstacle, Operator};
use crate::error::{Error, Result};
use crate::events::Cause;
use crate::flow::Flow;
use crate::json::Json;
use crate::name::{of_namespace, of_step};
use crate::template::Template;

/// The most steps of a task that can be forked: the transaction reads them for each step of the longest chain.
pub const FORK_STEPS_MAX: usize = 1_000;

/// A fork of a task.
#[derive(Debug, Clone)]
pub struct Fork {
    /// The step from which the new task runs: it, and those that follow it, run again.
    pub step: String,
    /// The context of the new task; `None`: that of the other task.
    pub context: Option<Json>,
    /// If the step is a part of a batch: its input; `None`: that in the other task.
    pub input: Option<Json>,
}

/// A task that was created by a fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct Forked {
    /// The new task.
    #[cfg_attr(feature = "http", schema(value_type = String, format = "uuid"))]
    pub task_uuid: Uuid,
    /// The task that it continues.
    #[cfg_attr(feature = "http", schema(value_type = String, format = "uuid"))]
    pub forked_from: Uuid,
    /// The step from which it runs.
    pub step: String,
    /// The names of the steps that are ready.
    pub ready_steps: Vec<String>,
}

impl Flow {
    /// Creates a task that continues another one from a step. The other task stays as it is.
    ///
    /// # Errors
    /// [`Error::NoTask`], [`Error::NoStep`]; [`Error::NotAllowed`] if a step before it has not been completed, or the
    /// task has more than [`FORK_STEPS_MAX`] steps; [`Error::Invalid`] for a context that the template does not allow
    /// or another invalid parameter. Otherwise a database error; then the task may have been created.
    pub async fn fork(&self, task: Uuid, fork: Fork, operator: Operator) -> Result<Forked> {
        operator.check()?;
        let Fork { step, context, input } = fork;
        if self.inner.template_of(task).await?.is_none() {
            return Err(Error::NoTask { task });
        }
        let missing = || Error::NoStep { task, step: step.clone() };
        let (cached, position) = self.inner.find_step(task, &step).await?.ok_or_else(missing)?;
        if input.is_some() && position.part.is_none() {
            return Err(Error::invalid(
                "input",
                format!("step {step:?} is not a part of a batch: edit `context` instead"),
            ));
        }
        if let Some(context) = &context {
            cached.allows_context(context).await.map_err(|unfit| Error::schema("context", unfit))?;
        }
        let summary = self.summary(task).await?.ok_or(Error::NoTask { task })?;
        self.inner.open_queues(&cached, summary.priority).await?;
        let id = Uuid::now_v7();
        let template = &cached.template;
        let note = format!("fork of task {task} from step {step:?}");
        let reason = operator.reason.as_ref().map_or_else(|| note.clone(), |reason| format!("{note}: {reason}"));
        let keys: Vec<String> = template
            .steps
            .iter()
            .map(|step| of_step(&template.namespace, &step.name))
            .chain([of_namespace(&template.namespace)])
            .collect();
        let overdue = template.lifecycle.first_limit().map(|limit| self.inner.overdue_channel.wake_up().after(limit));
        let mut wake_ups = vec![self.inner.steps_channel.wake_up_keys(keys.iter().map(String::as_str))];
        wake_ups.extend(overdue);
        let (channels, payloads) = reveille_wake::Wake::notifications(&wake_ups);
        let (before, after) = (related(template, position.slot, |step| &step.parents), {
            related(template, position.slot, |step| &step.children)
        });
        let query = || {
            sqlx::query(&self.inner.sql.fork_task)
                .bind(id)
                .bind(cached.id)
                .bind(task)
                .bind(position.slot)
                .bind(position.part)
                .bind(&before)
                .bind(&after)
                .bind(input.as_ref().map(Json::get))
                .bind(context.as_ref().map(Json::get))
                .bind(&operator.name)
                .bind(&reason)
                .bind(&note)
                .bind(template.lifecycle.limit_ms())
                .bind(FORK_STEPS_MAX as i32)
                .bind(&channels)
                .bind(&payloads)
                .persistent(false)
        };
        let entry = Entry::new("task.fork", format!("{task}/{step}"));
        let entry = entry.map(|entry| entry.detail(format!("{{\"task\":\"{id}\"}}")));
        let is_created = |rows: &[PgRow]| {
            rows.first().is_some_and(|row| row.try_get("outcome").is_ok_and(|outcome: &str| outcome == "created"))
        };
        let rows = self.inner.db.act("fork a task", entry, query, is_created).await?;
        let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        let outcome: String = row.try_get("outcome")?;
        let refused = |obstacle| Error::NotAllowed { task, step: Some(step.clone()), operation: "fork", obstacle };
        match outcome.split_once(' ').unwrap_or((&outcome, "")) {
            ("created", _) => {}
            ("no_task", _) => return Err(Error::NoTask { task }),
            ("large", _) => return Err(refused(Obstacle::Large(FORK_STEPS_MAX))),
            ("open", slot) => {
                let open = slot.parse().ok().and_then(|slot: usize| template.steps.get(slot));
                return Err(refused(Obstacle::Open(open.map_or_else(String::new, |open| open.name.clone()))));
            }
            _ => return Err(missing()),
        }
        self.inner.task_events.publish(Some(&template.namespace), id, Cause::Submitted);
        let ready_steps = row.try_get("ready")?;
        Ok(Forked { task_uuid: id, forked_from: task, step, ready_steps })
    }
}

/// The steps that can be reached from one, without it.
fn related(template: &Template, slot: i32, next: fn(&crate::template::StepDefinition) -> &Vec<usize>) -> Vec<i32> {
    let mut found = vec![false; template.steps.len()];
    let mut front = vec![slot as usize];
    while let Some(step) = front.pop() {
        for each in next(&template.steps[step]) {
            if !std::mem::replace(&mut found[*each], true) {
                front.push(*each);
            }
        }
    }
    found.iter().enumerate().filter(|(_, found)| **found).map(|(slot, _)| slot as i32).collect()
}
