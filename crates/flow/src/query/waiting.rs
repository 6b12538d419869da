//! Why a step is not running, in one sentence.
//!
//! One statement reads the open steps of the task with the settings that can hold them back. The rest is decided
//! without the database: see [`Situation`]. Which workers wait is known only for this server.

use std::sync::Arc;

use serde::Serialize;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use time::serde::rfc3339;
use uuid::Uuid;

use super::situation::{Claimers, OpenStep, Situation, shown};
use crate::error::Result;
use crate::flow::{Flow, Inner};
use crate::operate::limit::Limit;
use crate::task::state::StepState;
use crate::template::cache::CachedTemplate;

/// The most steps of a response.
const WAITING_MAX: usize = 1_000;
/// The most open steps of a task that are read: a template's, and as many parts.
const OPEN_MAX: i64 = 20_000;

/// What a step waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// For steps that it depends on.
    Dependencies,
    /// For a decision or the parts of a batch: the step has not been created.
    Creation,
    /// For its next attempt.
    Retry,
    /// For an operator: another step of the task failed permanently.
    FailedTask,
    /// For the end of the namespace's shadow mode.
    Shadow,
    /// For a free slot of a limit.
    Limit,
    /// For an external queue that delivers it.
    Queue,
    /// For a worker: none waits for such steps at this server.
    Worker,
    /// For the next claim of a worker.
    Claim,
    /// For the end of an attempt: a worker holds it.
    Attempt,
    /// For an operator: it failed permanently.
    Failed,
    /// For nothing: it has ended.
    Ended,
}

/// Why a step is not running, or who runs it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct WaitingStep {
    /// The name of the step.
    pub name: String,
    /// Its state; none if it has not been created.
    pub state: Option<StepState>,
    /// What it waits for.
    pub reason: WaitReason,
    /// The same as a sentence.
    pub sentence: String,
    /// Steps that it depends on and that are not complete: the first ten.
    pub waits_for: Vec<OpenDependency>,
    /// The number of further such steps.
    pub waits_for_more: u32,
    /// When the wait ends by itself: the time of the next attempt, or the end of the lease.
    #[serde(with = "rfc3339::option")]
    #[cfg_attr(feature = "http", schema(value_type = Option<String>, format = DateTime))]
    pub until: Option<OffsetDateTime>,
    /// The worker that holds it.
    pub worker: Option<String>,
    /// The limit that is reached.
    pub limit: Option<Limit>,
    /// Workers that wait for such steps at this server.
    pub waiting_workers: u32,
}

/// A step that another one depends on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct OpenDependency {
    /// The name of the step; of a batch, that of its first open part.
    pub name: String,
    /// Its state; none if it has not been created.
    pub state: Option<StepState>,
}

/// The steps of a task that have not ended well, and what each waits for.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
pub struct WaitingSteps {
    /// The steps, in the order of the template: the first thousand.
    pub steps: Vec<WaitingStep>,
    /// Whether there are more.
    pub more: bool,
}

impl Flow {
    /// What each open step of a task waits for. `None`: there is no such task.
    ///
    /// # Errors
    /// A database error.
    pub async fn waiting(&self, task: Uuid) -> Result<Option<WaitingSteps>> {
        let Some((rows, cached)) = self.inner.open_steps(task).await? else { return Ok(None) };
        let situation = Situation::of(&rows, &cached.template)?;
        let created = situation.steps.iter().filter(|step| step.state.is_some());
        let steps: Vec<_> = created.clone().take(WAITING_MAX).map(|step| self.why(&situation, step)).collect();
        Ok(Some(WaitingSteps { more: created.count() > steps.len(), steps }))
    }

    /// What a step waits for. `None`: there is no such task, or no such step in its template.
    ///
    /// # Errors
    /// A database error.
    pub async fn why_waiting(&self, task: Uuid, name: &str) -> Result<Option<WaitingStep>> {
        let Some((cached, position)) = self.inner.find_step(task, name).await? else { return Ok(None) };
        let Some((rows, _)) = self.inner.open_steps(task).await? else { return Ok(None) };
        let situation = Situation::of(&rows, &cached.template)?;
        let at = |step: &&OpenStep| step.slot as i32 == position.slot && step.part == position.part;
        if let Some(step) = situation.steps.iter().find(at) {
            return Ok(Some(self.why(&situation, step)));
        }
        let state = self.step(task, name).await?.map(|step| step.state);
        let sentence = match state {
            Some(state) => format!("It has ended: {}.", shown(state)),
            None => "It was left out: a decision did not choose it.".to_owned(),
        };
        Ok(Some(WaitingStep { state, ..WaitingStep::new(name.to_owned(), WaitReason::Ended, sentence) }))
    }

    fn why(&self, situation: &Situation<'_>, step: &OpenStep) -> WaitingStep {
        let name = &situation.template.steps[step.slot].name;
        let (waiting, last) = self.inner.claiming_workers.of_step(&situation.template.namespace, name);
        situation.reason(step, Claimers { waiting, last })
    }
}

impl Inner {
    async fn open_steps(&self, task: Uuid) -> Result<Option<(Vec<PgRow>, Arc<CachedTemplate>)>> {
        let query = || sqlx::query(&self.sql.open_steps).bind(task).bind(OPEN_MAX).persistent(false);
        let rows = self.db.ask("read open steps", query).await?;
        let Some(head) = rows.first() else { return Ok(None) };
        let cached = self.template_by_id(head.try_get("template_id")?).await?;
        Ok(cached.map(|cached| (rows, cached)))
    }
}

impl WaitingStep {
    pub(super) fn new(name: String, reason: WaitReason, sentence: String) -> WaitingStep {
        WaitingStep {
            name,
            state: None,
            reason,
            sentence,
            waits_for: Vec::new(),
            waits_for_more: 0,
            until: None,
            worker: None,
            limit: None,
            waiting_workers: 0,
        }
    }
}
