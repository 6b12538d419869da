//! The step as its handler sees it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::watch;
use uuid::Uuid;

use super::handler::Handled;
use crate::claim::ClaimedStep;
use crate::claim::renew::Renewal;
use crate::complete::{Failure, Refused};
use crate::flow::Flow;

/// Marks the result of the placeholder of an empty batch.
const PLACEHOLDER: &str = "batch_placeholder";

/// Results by step name.
type Results<'a> = HashMap<String, &'a RawValue>;

/// One attempt of a step, as its handler sees it.
///
/// Values are deserialized to the type that the handler asks for. A value of another type is a permanent failure that
/// names the value, so `?` is all that a handler needs.
#[derive(Debug)]
pub struct Step<C> {
    /// The context of the task.
    pub context: C,
    claimed: ClaimedStep,
    link: Link,
}

/// What a handler needs of its worker.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) flow: Flow,
    pub(super) lease: Duration,
    pub(super) signal: Signal,
}

impl<C: DeserializeOwned> Step<C> {
    pub(super) fn read(mut claimed: ClaimedStep, link: Link) -> Result<Step<C>, Failure> {
        let context = read("the task's context", &claimed.context)?;
        // It may be large, and is not needed any more.
        claimed.context = RawValue::NULL.to_owned();
        Ok(Step { context, claimed, link })
    }
}

impl<C> Step<C> {
    /// The id of the task.
    pub fn task(&self) -> Uuid {
        self.claimed.token.task
    }

    /// The task's namespace.
    pub fn namespace(&self) -> &str {
        &self.claimed.namespace
    }

    /// The name of the step. That of a part ends with its number.
    pub fn name(&self) -> &str {
        &self.claimed.name
    }

    /// The number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.claimed.attempt
    }

    /// The most attempts of the step.
    pub fn max_attempts(&self) -> u32 {
        self.claimed.max_attempts
    }

    /// The correlation id of the task.
    pub fn correlation_id(&self) -> Option<&str> {
        self.claimed.correlation_id.as_deref()
    }

    /// The handler's settings: `initialization` in the template.
    ///
    /// # Errors
    /// If it has another type.
    pub fn initialization<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        read("the handler's initialization", &self.claimed.initialization)
    }

    /// The result of an earlier step: a dependency, direct or not.
    ///
    /// # Errors
    /// If there is none, or it has another type.
    pub fn result<T: DeserializeOwned>(&self, step: &str) -> Result<T, Failure> {
        self.result_if_any(step)?
            .ok_or_else(|| Failure::shape(format!("no result of step {step:?} before {:?}", self.name())))
    }

    /// The result of an earlier step that may not have been created; `None` if there is none.
    ///
    /// # Errors
    /// If it has another type.
    pub fn result_if_any<T: DeserializeOwned>(&self, step: &str) -> Result<Option<T>, Failure> {
        let results = self.results()?;
        results.get(step).map(|result| read(&format!("the result of step {step:?}"), result)).transpose()
    }

    /// The results of the complete parts of a batch, in order.
    ///
    /// # Errors
    /// If a result has another type.
    pub fn results_of_parts<T: DeserializeOwned>(&self, step: &str) -> Result<Vec<T>, Failure> {
        let results = self.results()?;
        let parts = parts(&results, step).filter(|(_, result)| !is_placeholder(result) && failed(result).is_none());
        parts.map(|(name, result)| read(&format!("the result of step {name:?}"), result)).collect()
    }

    /// The failed parts of a batch by name. Empty unless the failure strategy lets the batch continue.
    ///
    /// # Errors
    /// If the results cannot be read.
    pub fn failures_of_parts(&self, step: &str) -> Result<Vec<(String, Failure)>, Failure> {
        let results = self.results()?;
        Ok(parts(&results, step).filter_map(|(name, result)| Some((name.to_owned(), failed(result)?))).collect())
    }

    /// The input of this part of a batch.
    ///
    /// # Errors
    /// If the step is not a part of a batch, or its input has another type.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let input = self.claimed.input.as_deref();
        read("the part's input", input.ok_or_else(|| Failure::shape("the step is not a part of a batch".to_owned()))?)
    }

    /// The checkpoint of an earlier attempt, if there is one.
    ///
    /// # Errors
    /// If it has another type.
    pub fn checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        self.claimed.checkpoint.as_deref().map(|checkpoint| read("the checkpoint", checkpoint)).transpose()
    }

    /// Saves progress: if this worker dies, the next attempt resumes from it. It is durable when this returns.
    /// Concurrent saves are combined into one write batch.
    ///
    /// # Errors
    /// If it cannot be serialized, the database is unavailable, or the lease is lost.
    pub async fn save_checkpoint(&self, checkpoint: &impl Serialize) -> Result<(), Failure> {
        let Link { flow, lease, .. } = &self.link;
        let checkpoint = Some(written(checkpoint)?);
        let alive = Renewal { token: self.claimed.token, lease: *lease, checkpoint };
        let answers = flow.heartbeat(vec![alive]).await;
        let answers = answers.map_err(|error| Failure::new(format!("cannot save the checkpoint: {error}")))?;
        Ok(answers.into_iter().collect::<Result<(), Refused>>()?)
    }

    /// Releases the step: the next claim resumes from this checkpoint. The attempt is not counted.
    ///
    /// # Errors
    /// If it cannot be serialized.
    pub fn yield_with<T>(self, checkpoint: &impl Serialize) -> Result<Handled<T>, Failure> {
        written(checkpoint).map(Handled::Yielded)
    }

    /// Tells threads of the handler whether the attempt is still wanted.
    pub fn signal(&self) -> Signal {
        self.link.signal.clone()
    }

    fn results(&self) -> Result<Results<'_>, Failure> {
        let results = serde_json::from_str(self.claimed.results.get());
        results.map_err(|error| Failure::shape(format!("cannot read the results of earlier steps: {error}")))
    }
}

fn read<T: DeserializeOwned>(what: &str, json: &RawValue) -> Result<T, Failure> {
    serde_json::from_str(json.get()).map_err(|error| Failure::shape(format!("{what} has an unexpected type: {error}")))
}

fn written(checkpoint: &impl Serialize) -> Result<Box<RawValue>, Failure> {
    to_raw_value(checkpoint).map_err(|error| Failure::shape(format!("cannot serialize the checkpoint: {error}")))
}

/// The results of the parts of a batch, in order.
fn parts<'a>(results: &'a Results<'a>, step: &str) -> impl Iterator<Item = (&'a str, &'a RawValue)> {
    let number = |name: &str| name.strip_prefix(step)?.strip_prefix('_')?.parse::<u32>().ok();
    let parts = results.iter().filter_map(|(name, result)| Some((number(name)?, name.as_str(), *result)));
    let mut parts: Vec<_> = parts.collect();
    parts.sort_unstable_by_key(|(number, ..)| *number);
    parts.into_iter().map(|(_, name, result)| (name, result))
}

/// The failure of a part, which its result holds instead.
fn failed(result: &RawValue) -> Option<Failure> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Failed {
        error: Failure,
    }
    serde_json::from_str(result.get()).ok().map(|Failed { error }| error)
}

fn is_placeholder(result: &RawValue) -> bool {
    let fields: Result<HashMap<String, bool>, _> = serde_json::from_str(result.get());
    fields.is_ok_and(|fields| fields.get(PLACEHOLDER) == Some(&true))
}

/// Tells whether an attempt is still wanted. Cheap to clone; for threads and tasks that a handler starts.
#[derive(Debug, Clone)]
pub struct Signal {
    pub(super) over: Arc<AtomicBool>,
    pub(super) stopping: watch::Receiver<bool>,
}

impl Signal {
    /// Whether the attempt is over: its handler has ended or was dropped.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Whether the worker is stopping: steps that do not end within its grace period are released.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Returns when the worker stops.
    pub async fn stopping(&mut self) {
        // An error means that the worker has stopped.
        let _ = self.stopping.wait_for(|stopping| *stopping).await;
    }
}

/// Marks an attempt as over when dropped.
pub(super) struct Over(pub(super) Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
