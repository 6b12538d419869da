//! `reveille task retry`, `resolve`, `cancel` and `delete`: of one task or step, or of many.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{bulk, route, step_route};
use crate::{
    client::Answer,
    commands::{input, remote::Remote},
    config::remote::{
        Operator,
        task::{Change, Resolve, Retry},
    },
    error::Error,
    terminal::count_of,
};

/// A manual operation.
#[derive(Serialize)]
struct Operation<'a> {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl Operation<'_> {
    fn of<'a>(kind: Option<&'static str>, operator: &'a Operator) -> Operation<'a> {
        Operation { kind, result: None, by: operator.name(), reason: operator.reason.as_deref() }
    }
}

pub(super) async fn retry(remote: &Remote, args: Retry) -> Result<(), Error> {
    let Retry { change, step } = &args;
    match (&change.task, step) {
        (Some(task), Some(step)) => {
            let operation = Operation::of(Some("reset_for_retry"), &change.operator);
            operated(remote, &remote.client.patch(&step_route(task, step), &operation).await?)
        }
        (Some(task), None) => {
            let operation = Operation::of(None, &change.operator);
            let answer = remote.client.post(&route(task).and("resume"), &operation).await?;
            #[derive(Deserialize)]
            struct Resumed {
                status: String,
                ready_steps: u64,
            }
            let Resumed { status, ready_steps } = answer.json()?;
            remote.changed(&answer, format_args!("{status}, {} ready", count_of(ready_steps, "step")))
        }
        (None, _) => bulk::run(remote, change, bulk::RESUME).await,
    }
}

pub(super) async fn resolve(remote: &Remote, args: Resolve) -> Result<(), Error> {
    let Resolve { change, step, result } = &args;
    match (&change.task, step) {
        (Some(task), Some(step)) => {
            let mut operation = Operation::of(Some("resolve_manually"), &change.operator);
            if let Some(result) = result {
                operation.kind = Some("complete_manually");
                operation.result = Some(input::json("the result", result).await?);
            }
            operated(remote, &remote.client.patch(&step_route(task, step), &operation).await?)
        }
        (Some(task), None) => {
            let operation = Operation::of(Some("resolve_manually"), &change.operator);
            ended(remote, &remote.client.patch(&route(task), &operation).await?)
        }
        (None, _) => bulk::run(remote, change, bulk::RESOLVE).await,
    }
}

pub(super) async fn cancel(remote: &Remote, args: Change) -> Result<(), Error> {
    match &args.task {
        Some(task) => {
            let operation = Operation::of(Some("cancel"), &args.operator);
            ended(remote, &remote.client.patch(&route(task), &operation).await?)
        }
        None => bulk::run(remote, &args, bulk::CANCEL).await,
    }
}

pub(super) async fn delete(remote: &Remote, args: Change) -> Result<(), Error> {
    bulk::run(remote, &args, bulk::DELETE).await
}

/// A step after an operation.
fn operated(remote: &Remote, answer: &Answer) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct Operated {
        before: String,
        state: String,
        task_state: Option<String>,
    }
    let Operated { before, state, task_state } = answer.json()?;
    let task = task_state.map(|task| format!("; the task: {task}")).unwrap_or_default();
    remote.changed(answer, format_args!("{before} → {state}{task}"))
}

/// A task after an operation.
fn ended(remote: &Remote, answer: &Answer) -> Result<(), Error> {
    #[derive(Deserialize)]
    struct Ended {
        state: String,
        cancelled_steps: u64,
        repeated: bool,
    }
    let Ended { state, cancelled_steps, repeated } = answer.json()?;
    let already = if repeated { " already" } else { "" };
    remote.changed(answer, format_args!("{state}{already}, {} cancelled", count_of(cancelled_steps, "step")))
}
