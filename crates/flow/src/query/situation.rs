//! What holds the steps of a task back: read from the rows of its open steps, and put into words. Pure.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::waiting::{OpenDependency, WaitReason, WaitingStep};
use crate::error::{Error, Result};
use crate::namespace::{Mode, Provider};
use crate::operate::limit::Limit;
use crate::query::task::part_name;
use crate::task::state::StepState;
use crate::task::stored::{step_state, unknown};
use crate::template::{FailureStrategy, StepKind, Template};

/// The most open dependencies that are named.
const NAMED_MAX: usize = 10;

/// An open step, as it is stored.
#[derive(Debug, Clone)]
pub(super) struct OpenStep {
    pub(super) slot: usize,
    pub(super) part: Option<i32>,
    pub(super) state: Option<StepState>,
    pub(super) attempt: u32,
    pub(super) worker: Option<String>,
    pub(super) due_at: Option<OffsetDateTime>,
    pub(super) sent: bool,
}

/// What holds the steps of a task back.
pub(super) struct Situation<'a> {
    pub(super) template: &'a Template,
    /// The state in which the task ended.
    ended: Option<String>,
    failed: bool,
    mode: Mode,
    poll_ms: i32,
    provider: Provider,
    limits: Vec<Limit>,
    pub(super) steps: Vec<OpenStep>,
    /// The first open step of each definition.
    open: HashMap<usize, usize>,
}

/// The workers of this server that claim a step.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Claimers {
    pub(super) waiting: usize,
    pub(super) last: Option<Duration>,
}

impl<'a> Situation<'a> {
    pub(super) fn of(rows: &[PgRow], template: &'a Template) -> Result<Situation<'a>> {
        let head = rows.first().ok_or(sqlx::Error::RowNotFound)?;
        let state: String = head.try_get("task_state")?;
        let (mode, provider): (&str, &str) = (head.try_get("mode")?, head.try_get("provider")?);
        let names: Vec<String> = head.try_get::<Option<_>, _>("limited")?.unwrap_or_default();
        let most: Vec<i32> = head.try_get::<Option<_>, _>("most")?.unwrap_or_default();
        let running: Vec<i32> = head.try_get::<Option<_>, _>("running")?.unwrap_or_default();
        let limits = names.into_iter().zip(most.into_iter().zip(running)).map(|(step, (most, running))| Limit {
            namespace: template.namespace.clone(),
            step: Some(step).filter(|step| !step.is_empty()),
            max_in_progress: most.max(0) as u32,
            in_progress: running.max(0) as u32,
        });
        let mut situation = Situation {
            template,
            ended: Some(state).filter(|state| state != crate::task::stored::OPEN),
            failed: head.try_get::<i32, _>("failed")? > 0,
            mode: Mode::of(mode).ok_or_else(|| unknown("mode", mode))?,
            poll_ms: head.try_get("poll_ms")?,
            provider: Provider::of(provider).ok_or_else(|| unknown("provider", provider))?,
            limits: limits.collect(),
            steps: rows.iter().filter_map(|row| open_step(row, template).transpose()).collect::<Result<_>>()?,
            open: HashMap::new(),
        };
        for (index, step) in situation.steps.iter().enumerate().rev() {
            if !(step.state == Some(StepState::Error) && passes(template, step.slot)) {
                situation.open.insert(step.slot, index);
            }
        }
        Ok(situation)
    }

    /// What a step waits for.
    pub(super) fn reason(&self, step: &OpenStep, claimers: Claimers) -> WaitingStep {
        let definition = &self.template.steps[step.slot];
        let name = part_name(&definition.name, step.part);
        let (reason, sentence) = self.words(step, claimers);
        let open = if matches!(reason, WaitReason::Dependencies | WaitReason::Creation) {
            definition.parents.iter().filter_map(|parent| self.open.get(parent)).collect::<Vec<_>>()
        } else {
            Vec::new()
        };
        let named = open.iter().take(NAMED_MAX).map(|index| {
            let step = &self.steps[**index];
            OpenDependency { name: part_name(&self.template.steps[step.slot].name, step.part), state: step.state }
        });
        let timed = matches!(reason, WaitReason::Retry | WaitReason::Attempt | WaitReason::Queue);
        WaitingStep {
            state: step.state,
            waits_for: named.collect(),
            waits_for_more: open.len().saturating_sub(NAMED_MAX) as u32,
            until: step.due_at.filter(|_| timed),
            worker: step.worker.clone().filter(|_| reason == WaitReason::Attempt),
            limit: self.full_limit(&definition.name).cloned().filter(|_| reason == WaitReason::Limit),
            waiting_workers: claimers.waiting as u32,
            ..WaitingStep::new(name, reason, sentence)
        }
    }

    fn full_limit(&self, name: &str) -> Option<&Limit> {
        let full = |limit: &&Limit| limit.in_progress >= limit.max_in_progress;
        self.limits.iter().filter(full).find(|limit| limit.step.as_deref().is_none_or(|step| step == name))
    }

    fn words(&self, step: &OpenStep, claimers: Claimers) -> (WaitReason, String) {
        let definition = &self.template.steps[step.slot];
        let (name, namespace) = (&definition.name, &self.template.namespace);
        let most = if definition.retry.retryable { definition.retry.max_attempts } else { 1 };
        match step.state {
            Some(StepState::Error) => {
                return (
                    WaitReason::Failed,
                    format!("It failed permanently, after {} of {most} attempts.", step.attempt),
                );
            }
            Some(StepState::Cancelled) => return (WaitReason::Ended, "It was cancelled with its task.".to_owned()),
            Some(StepState::InProgress) => {
                let worker = step.worker.as_deref().unwrap_or("a worker");
                let until = step.due_at.map_or_else(String::new, |at| format!(" until {}", when(at)));
                let sentence =
                    format!("Worker {worker:?} runs attempt {} of {most}; its lease is valid{until}.", step.attempt);
                return (WaitReason::Attempt, sentence);
            }
            _ => {}
        }
        if let Some(state) = &self.ended {
            return (WaitReason::Ended, format!("The task has ended: {}.", state.replace('_', " ")));
        }
        if self.failed {
            let failed = self
                .steps
                .iter()
                .find(|step| step.state == Some(StepState::Error) && !passes(self.template, step.slot));
            let failed = failed.map_or_else(String::new, |step| {
                format!(" {:?}", part_name(&self.template.steps[step.slot].name, step.part))
            });
            let sentence = format!("Step{failed} failed permanently, so no further step of the task starts.");
            return (WaitReason::FailedTask, sentence);
        }
        match step.state {
            None | Some(StepState::Pending) => self.dependencies(step),
            Some(StepState::WaitingForRetry) => {
                let at = step.due_at.map_or_else(|| "later".to_owned(), |at| format!("at {}", when(at)));
                (WaitReason::Retry, format!("Attempt {} of {most} failed; the next one is due {at}.", step.attempt))
            }
            _ if self.mode == Mode::Shadow => (
                WaitReason::Shadow,
                format!("Namespace {namespace:?} is in shadow mode: none of its steps is claimed."),
            ),
            _ => {
                if let Some(limit) = self.full_limit(name) {
                    let of = limit.step.as_ref().map_or_else(
                        || format!("namespace {namespace:?}"),
                        |step| format!("step {step:?} in namespace {namespace:?}"),
                    );
                    let sentence = format!(
                        "The limit of {of} is reached: {} of {} steps are in progress.",
                        limit.in_progress, limit.max_in_progress
                    );
                    return (WaitReason::Limit, sentence);
                }
                if step.sent && self.provider != Provider::Table {
                    let queue = if self.provider == Provider::Pgmq { "PGMQ" } else { "RabbitMQ" };
                    return (WaitReason::Queue, format!("It was sent to {queue}, and no worker has received it yet."));
                }
                self.claims(name, claimers)
            }
        }
    }

    fn claims(&self, name: &str, claimers: Claimers) -> (WaitReason, String) {
        let namespace = &self.template.namespace;
        match claimers {
            Claimers { waiting: 0, last: Some(last) } => {
                let ago = last.as_secs();
                let sentence =
                    format!("Ready. A worker claimed steps named {name:?} {ago} s ago, and none waits for more now.");
                (WaitReason::Claim, sentence)
            }
            Claimers { waiting: 0, last: None } => {
                let sentence = format!(
                    "Ready, but no worker asks this server for steps named {name:?} of namespace {namespace:?}."
                );
                (WaitReason::Worker, sentence)
            }
            _ if self.mode == Mode::Polling => {
                (WaitReason::Claim, format!("Ready. Workers poll this namespace every {} ms.", self.poll_ms))
            }
            Claimers { waiting: 1, .. } => (WaitReason::Claim, "Ready, and a worker waits for it.".to_owned()),
            Claimers { waiting, .. } => (WaitReason::Claim, format!("Ready, and {waiting} workers wait for it.")),
        }
    }

    fn dependencies(&self, step: &OpenStep) -> (WaitReason, String) {
        let definition = &self.template.steps[step.slot];
        let open: Vec<_> = definition.parents.iter().filter_map(|parent| self.open.get(parent)).collect();
        let reason = if step.state.is_none() { WaitReason::Creation } else { WaitReason::Dependencies };
        let Some(first) = open.first().map(|index| &self.steps[**index]) else {
            return (
                reason,
                "Its dependencies are complete; it becomes ready with the next change of the task.".to_owned(),
            );
        };
        let parent = &self.template.steps[first.slot];
        let named =
            format!("step {:?} ({})", part_name(&parent.name, first.part), first.state.map_or("not created", shown));
        let sentence = match (reason, open.len() - 1) {
            (WaitReason::Creation, _) => format!("Whether it is created depends on {named}."),
            (_, 0) => format!("It waits for {named}."),
            (_, 1) => format!("It waits for {named} and one more."),
            (_, more) => format!("It waits for {named} and {more} more."),
        };
        (reason, sentence)
    }
}

/// Whether a task goes on without parts of this step that failed.
fn passes(template: &Template, slot: usize) -> bool {
    let step = &template.steps[slot];
    let parent = step.parents.first().filter(|_| step.kind == StepKind::BatchWorker);
    let batch = parent.and_then(|parent| template.steps[*parent].batch_config.as_ref());
    batch.is_some_and(|batch| batch.failure_strategy != FailureStrategy::FailFast)
}

fn open_step(row: &PgRow, template: &Template) -> Result<Option<OpenStep>> {
    let Some(word) = row.try_get::<Option<&str>, _>("state")? else { return Ok(None) };
    let state = match word {
        "not_created" => None,
        word => Some(step_state(word).ok_or_else(|| unknown("step state", word))?),
    };
    let due = state == Some(StepState::WaitingForRetry) && row.try_get("due")?;
    let slot = row.try_get::<i32, _>("slot")? as usize;
    template.steps.get(slot).ok_or_else(|| Error::from(sqlx::Error::RowNotFound))?;
    Ok(Some(OpenStep {
        slot,
        part: row.try_get("part")?,
        state: if due { Some(StepState::Enqueued) } else { state },
        attempt: row.try_get::<i32, _>("attempt")?.max(0) as u32,
        worker: row.try_get("worker")?,
        due_at: row.try_get("due_at")?,
        sent: row.try_get("sent")?,
    }))
}

/// A state as people read it.
pub(super) fn shown(state: StepState) -> &'static str {
    match state {
        StepState::Pending => "pending",
        StepState::Enqueued => "ready",
        StepState::InProgress => "in progress",
        StepState::WaitingForRetry => "waiting for a retry",
        StepState::Complete => "complete",
        StepState::Error => "failed",
        StepState::Cancelled => "cancelled",
        StepState::ResolvedManually => "resolved manually",
        other => other.name(),
    }
}

/// A time to the second.
fn when(at: OffsetDateTime) -> String {
    at.replace_millisecond(0).unwrap_or(at).format(&Rfc3339).unwrap_or_else(|_| at.to_string())
}

#[cfg(test)]
#[path = "situation_tests.rs"]
mod tests;
