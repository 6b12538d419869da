//! Templates: what a task of a kind consists of.
//!
//! A template is written in YAML or JSON, one parser for both. Everything that can be wrong with it is found when it is registered, all of it at once, each with its line: a
//! task that was accepted has steps that can run.

mod check;
mod document;
mod fault;
pub(crate) mod graph;
mod kinds;
pub(crate) mod schema;

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

pub use fault::{Fault, Faults};

/// The most steps a template may have.
pub const STEPS_MAX: usize = 10_000;
/// The longest name, in characters.
pub const NAME_MAX: usize = 200;
/// The most attempts a step may have.
pub const ATTEMPTS_MAX: u16 = 1_000;

/// What a task of a kind consists of, checked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Template {
    /// What it is called within its namespace.
    pub name: String,
    /// Whose it is.
    #[serde(rename = "namespace_name")]
    pub namespace: String,
    /// Which of those of the same name.
    pub version: String,
    /// For people.
    pub description: String,
    /// What makes two submissions the same task.
    pub identity_strategy: IdentityStrategy,
    /// How long a task may take.
    pub lifecycle: Lifecycle,
    /// What a task's context must look like: a JSON Schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// The steps. The place of a step here is its number.
    pub steps: Vec<StepDefinition>,
}

/// A step of a template.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepDefinition {
    /// What it is called; workers claim steps by this name.
    pub name: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What kind of step.
    #[serde(rename = "type")]
    pub kind: StepKind,
    /// What carries it out.
    pub handler: HandlerDefinition,
    /// The names of the steps that come before it.
    pub dependencies: Vec<String>,
    /// How often it is tried, and when.
    pub retry: Retry,
    /// How long an attempt may take, however often its worker says that it is still alive.
    #[serde(rename = "timeout_seconds", serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// What is told when it ends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub publishes_events: Vec<PublishedEvent>,
    /// Of a step that is divided into parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_config: Option<BatchConfig>,
    /// What its result must look like: a JSON Schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_schema: Option<Value>,
    /// The places of the steps that come before it.
    #[serde(skip)]
    pub(crate) parents: Vec<usize>,
    /// And of those that come after it.
    #[serde(skip)]
    pub(crate) children: Vec<usize>,
    /// It comes to be while its task runs, if at all.
    #[serde(skip)]
    pub(crate) absent: bool,
}

/// What carries a step out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HandlerDefinition {
    /// What the worker calls it.
    pub callable: String,
    /// What it is told beside its inputs.
    pub initialization: Value,
}

/// What kind of step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// It runs when all before it are done.
    Standard,
    /// Its result names which of the steps behind it come to be.
    Decision,
    /// It runs when all before it that came to be are done.
    DeferredConvergence,
    /// Its result says into how many parts the next step is divided.
    Batchable,
    /// One of the parts.
    BatchWorker,
}

/// How often a step is tried, and when.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Retry {
    /// Whether it is tried again at all.
    pub retryable: bool,
    /// How often it is tried altogether.
    pub max_attempts: u16,
    /// How the pauses grow.
    pub backoff: Backoff,
    /// The first pause.
    pub backoff_base_ms: u32,
    /// The longest pause.
    pub max_backoff_ms: u32,
    /// By which part of itself a pause may be longer or shorter, at random: from 0 to 1.
    pub jitter: f32,
}

/// How pauses between attempts grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// There are none.
    None,
    /// 1, 2, 3, 4, 5 times the first.
    Linear,
    /// 1, 2, 4, 8, 16 times the first.
    Exponential,
    /// 1, 1, 2, 3, 5 times the first.
    Fibonacci,
}

/// A domain event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedEvent {
    /// What it is called.
    pub name: String,
    /// When it is told.
    pub condition: PublishWhen,
}

/// When a domain event is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PublishWhen {
    /// When the step is done.
    Success,
    /// When it failed for good.
    Failure,
    /// In both cases.
    Always,
}

/// How a step is divided into parts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BatchConfig {
    /// The step that is divided.
    pub worker_template: String,
    /// What a part that fails for good means for the rest.
    pub failure_strategy: FailureStrategy,
    /// What the step that divides is told of how to: passed on as it is.
    #[serde(flatten)]
    pub hints: serde_json::Map<String, Value>,
}

/// What a part that fails for good means for the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureStrategy {
    /// The task fails, as with any step.
    FailFast,
    /// The others go on, and what follows is told which failed.
    ContinueOnFailure,
    /// The same, and the part is put on the list of what has to be looked into.
    Isolate,
}

/// What makes two submissions the same task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IdentityStrategy {
    /// The same template and the same context.
    Strict,
    /// The same `idempotency_key`, which must be given.
    CallerProvided,
    /// Nothing.
    AlwaysUnique,
}

/// How long a task may take. Everything that is not given is not limited.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Default)]
pub struct Lifecycle {
    /// From its submission to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration_minutes: Option<f64>,
    /// With nothing ready and nothing under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_waiting_for_dependencies_minutes: Option<f64>,
    /// With nothing but retries to wait for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_waiting_for_retry_minutes: Option<f64>,
    /// With steps under way and none that ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps_in_process_minutes: Option<f64>,
    /// What happens to a task that took too long.
    pub staleness_action: StalenessAction,
}

impl Lifecycle {
    /// After how long a task may have taken too long. `None`: never.
    pub(crate) fn first_limit(&self) -> Option<Duration> {
        let limits = [
            self.max_duration_minutes,
            self.max_waiting_for_dependencies_minutes,
            self.max_waiting_for_retry_minutes,
            self.max_steps_in_process_minutes,
        ];
        limits.into_iter().flatten().reduce(f64::min).map(|minutes| Duration::from_secs_f64(minutes * 60.0))
    }

    /// The same in milliseconds.
    pub(crate) fn limit_ms(&self) -> Option<i64> {
        self.first_limit().map(|limit| limit.as_millis() as i64)
    }
}

/// What happens to a task that took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum StalenessAction {
    /// It ends as an error, and is put on the list of what has to be looked into.
    #[default]
    Dlq,
    /// It is put on that list, and goes on.
    Alert,
    /// It ends as an error.
    Error,
}

impl Template {
    /// Reads a template from YAML or JSON, for one environment: what the template says under `environments` for that name counts instead of what it says otherwise.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its line.
    pub fn parse(text: &str, environment: Option<&str>) -> Result<Template, Faults> {
        check::template(document::read(text)?, environment)
    }

    /// Reads a template that was registered. What it is was chosen for its environment then.
    pub(crate) fn parse_registered(text: &str) -> Result<Template, Faults> {
        check::registered(document::read(text)?)
    }

    /// The place of a step.
    pub(crate) fn place(&self, step: &str) -> Option<usize> {
        self.steps.iter().position(|definition| definition.name == step)
    }
}

fn seconds<S: serde::Serializer>(timeout: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    timeout.map(|timeout| timeout.as_secs_f64()).serialize(to)
}

#[cfg(test)]
mod tests;
