//! What a handler is given.

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

/// What stands for the parts of a batch that has none.
const PLACEHOLDER: &str = "batch_placeholder";

/// By the names of steps.
type Results<'a> = HashMap<String, &'a RawValue>;

/// One attempt of a step, as its handler sees it.
///
/// Everything that is read here is read as the type that the handler asks for. What has another shape is a failure for good that names it, so `?` is all that is needed.
#[derive(Debug)]
pub struct Step<C> {
    /// What the task works on.
    pub context: C,
    claimed: ClaimedStep,
    link: Link,
}

/// A handler's line to its worker.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) flow: Flow,
    pub(super) lease: Duration,
    pub(super) signal: Signal,
}

impl<C: DeserializeOwned> Step<C> {
    pub(super) fn read(mut claimed: ClaimedStep, link: Link) -> Result<Step<C>, Failure> {
        let context = read("the task's context", &claimed.context)?;
        // It may be large, and is not needed twice.
        claimed.context = RawValue::NULL.to_owned();
        Ok(Step { context, claimed, link })
    }
}

impl<C> Step<C> {
    /// Which task.
    pub fn task(&self) -> Uuid {
        self.claimed.token.task
    }

    /// The task's namespace.
    pub fn namespace(&self) -> &str {
        &self.claimed.namespace
    }

    /// The step's name. A part of a batch has a number behind it.
    pub fn name(&self) -> &str {
        &self.claimed.name
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.claimed.attempt
    }

    /// How many there are.
    pub fn max_attempts(&self) -> u32 {
        self.claimed.max_attempts
    }

    /// What the task belongs to.
    pub fn correlation_id(&self) -> Option<&str> {
        self.claimed.correlation_id.as_deref()
    }

    /// What the template tells the handler, as `initialization`.
    ///
    /// # Errors
    /// If it has another shape.
    pub fn initialization<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        read("the handler's initialization", &self.claimed.initialization)
    }

    /// The result of a step before this one, however far.
    ///
    /// # Errors
    /// If there is none of that name, or it has another shape.
    pub fn result<T: DeserializeOwned>(&self, step: &str) -> Result<T, Failure> {
        self.result_if_any(step)?
            .ok_or_else(|| Failure::shape(format!("there is no result of a step {step:?} before {:?}", self.name())))
    }

    /// The same of a step that may not have come to be; `None` if it has not, or has no result.
    ///
    /// # Errors
    /// If it has another shape.
    pub fn result_if_any<T: DeserializeOwned>(&self, step: &str) -> Result<Option<T>, Failure> {
        let results = self.results()?;
        results.get(step).map(|result| read(&format!("the result of step {step:?}"), result)).transpose()
    }

    /// The results of the parts of a batch that have one, in order.
    ///
    /// # Errors
    /// If one has another shape.
    pub fn results_of_parts<T: DeserializeOwned>(&self, step: &str) -> Result<Vec<T>, Failure> {
        let results = self.results()?;
        let parts = parts(&results, step).filter(|(_, result)| !is_placeholder(result) && failed(result).is_none());
        parts.map(|(name, result)| read(&format!("the result of step {name:?}"), result)).collect()
    }

    /// The parts of a batch that failed for good, by their names, and why. There are none unless the batch goes on all the same.
    ///
    /// # Errors
    /// If the results before it cannot be read.
    pub fn failures_of_parts(&self, step: &str) -> Result<Vec<(String, Failure)>, Failure> {
        let results = self.results()?;
        Ok(parts(&results, step).filter_map(|(name, result)| Some((name.to_owned(), failed(result)?))).collect())
    }

    /// What this part of a batch is to work on.
    ///
    /// # Errors
    /// If it is no part of a batch, or its input has another shape.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let input = self.claimed.input.as_deref();
        read("the part's input", input.ok_or_else(|| Failure::shape("it is no part of a batch".to_owned()))?)
    }

    /// How far an attempt before this one has come; `None` if none has said so.
    ///
    /// # Errors
    /// If it has another shape.
    pub fn checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        self.claimed.checkpoint.as_deref().map(|checkpoint| read("the checkpoint", checkpoint)).transpose()
    }

    /// Saves how far this attempt has come: whoever goes on, should this worker die, begins there. It is on disk when this returns. Saves of several handlers travel together.
    ///
    /// # Errors
    /// If it is not JSON, if the database cannot be reached, or if the step is not this worker's any more.
    pub async fn save_checkpoint(&self, checkpoint: &impl Serialize) -> Result<(), Failure> {
        let Link { flow, lease, .. } = &self.link;
        let checkpoint = Some(written(checkpoint)?);
        let alive = Renewal { token: self.claimed.token, lease: *lease, checkpoint };
        let answers = flow.heartbeat(vec![alive]).await;
        let answers = answers.map_err(|error| Failure::new(format!("the checkpoint could not be saved: {error}")))?;
        Ok(answers.into_iter().collect::<Result<(), Refused>>()?)
    }

    /// Leaves off here: the step is not done, and goes on from this checkpoint when somebody claims it next. Not charged.
    ///
    /// # Errors
    /// If it is not JSON.
    pub fn yield_with<T>(self, checkpoint: &impl Serialize) -> Result<Handled<T>, Failure> {
        written(checkpoint).map(Handled::Yielded)
    }

    /// By which a thread hears that nobody wants its work any more.
    pub fn signal(&self) -> Signal {
        self.link.signal.clone()
    }

    fn results(&self) -> Result<Results<'_>, Failure> {
        let results = serde_json::from_str(self.claimed.results.get());
        results.map_err(|error| Failure::shape(format!("the results before it cannot be read: {error}")))
    }
}

fn read<T: DeserializeOwned>(what: &str, json: &RawValue) -> Result<T, Failure> {
    serde_json::from_str(json.get()).map_err(|error| Failure::shape(format!("{what} is not what is expected: {error}")))
}

fn written(checkpoint: &impl Serialize) -> Result<Box<RawValue>, Failure> {
    to_raw_value(checkpoint).map_err(|error| Failure::shape(format!("the checkpoint is not JSON: {error}")))
}

/// What the parts of a batch left, in order.
fn parts<'a>(results: &'a Results<'a>, step: &str) -> impl Iterator<Item = (&'a str, &'a RawValue)> {
    let number = |name: &str| name.strip_prefix(step)?.strip_prefix('_')?.parse::<u32>().ok();
    let parts = results.iter().filter_map(|(name, result)| Some((number(name)?, name.as_str(), *result)));
    let mut parts: Vec<_> = parts.collect();
    parts.sort_unstable_by_key(|(number, ..)| *number);
    parts.into_iter().map(|(_, name, result)| (name, result))
}

/// Why there is no result, where that is told instead.
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

/// Whether an attempt is still wanted. Cheap to clone; for threads and tasks that a handler starts.
#[derive(Debug, Clone)]
pub struct Signal {
    pub(super) over: Arc<AtomicBool>,
    pub(super) stopping: watch::Receiver<bool>,
}

impl Signal {
    /// Whether the attempt is over: its handler has ended, or was dropped.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Whether the worker stops: what is not done within its grace is given back.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Returns when the worker stops.
    pub async fn stopping(&mut self) {
        // Whoever cannot say it any more has stopped.
        let _ = self.stopping.wait_for(|stopping| *stopping).await;
    }
}

/// Says that an attempt is over when it is dropped.
pub(super) struct Over(pub(super) Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
