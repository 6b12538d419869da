//! Templates: the definition of a task and its steps.
//!
//! A template is written in YAML or JSON; one parser reads both. All faults are found when the template is registered
//! and reported together, each with its line. A task that was accepted has steps that can run.

pub(crate) mod cache;
mod check;
mod document;
mod fault;
mod free;
pub(crate) mod graph;
mod kinds;
pub(crate) mod list;
pub(crate) mod register;
pub(crate) mod schema;
mod version;

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

pub use fault::{Fault, Faults};

/// The most steps of a template.
pub const STEPS_MAX: usize = 10_000;
/// The longest name, in characters.
pub const NAME_MAX: usize = 200;
/// The most attempts of a step.
pub const ATTEMPTS_MAX: u16 = 1_000;

/// A checked template.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Template {
    /// The name of the template within its namespace.
    pub name: String,
    /// The namespace of the template.
    #[serde(rename = "namespace_name")]
    pub namespace: String,
    /// The version of the template.
    pub version: String,
    /// A description for people.
    pub description: String,
    /// What makes two submissions the same task.
    pub identity_strategy: IdentityStrategy,
    /// Limits on the duration of a task.
    pub lifecycle: Lifecycle,
    /// The JSON Schema of a task's context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// The steps. Other parts of the engine refer to a step by its index here.
    pub steps: Vec<StepDefinition>,
}

/// A step of a template.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepDefinition {
    /// The name of the step; workers claim steps by this name.
    pub name: String,
    /// A description for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The kind of step.
    #[serde(rename = "type")]
    pub kind: StepKind,
    /// The handler that runs the step.
    pub handler: HandlerDefinition,
    /// The names of the steps that must be complete before it starts.
    pub dependencies: Vec<String>,
    /// How often and when the step is retried.
    pub retry: Retry,
    /// The longest an attempt may take, heartbeats or not.
    #[serde(rename = "timeout_seconds", serialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// The domain events published when the step ends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub publishes_events: Vec<PublishedEvent>,
    /// Of a batchable step: how it is divided into parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_config: Option<BatchConfig>,
    /// The JSON Schema of the step's result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_schema: Option<Value>,
    /// The indexes of the steps it depends on.
    #[serde(skip)]
    pub(crate) parents: Vec<usize>,
    /// The indexes of the steps that depend on it.
    #[serde(skip)]
    pub(crate) children: Vec<usize>,
    /// The step is created while the task runs, if at all.
    #[serde(skip)]
    pub(crate) absent: bool,
}

/// The handler of a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HandlerDefinition {
    /// The name by which workers find the handler.
    pub callable: String,
    /// Settings passed to the handler.
    pub initialization: Value,
}

/// The kind of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "http", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Runs when all its dependencies are complete.
    Standard,
    /// Its result names which of the steps that depend on it are created.
    Decision,
    /// Runs when all its dependencies that were created are complete.
    DeferredConvergence,
    /// Its result lists the parts into which the next step is divided.
    Batchable,
    /// One of the parts.
    BatchWorker,
}

/// How often and when a step is retried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Retry {
    /// Whether the step is retried at all.
    pub retryable: bool,
    /// The most attempts in total.
    pub max_attempts: u16,
    /// How the pauses grow.
    pub backoff: Backoff,
    /// The first pause.
    pub backoff_base_ms: u32,
    /// The longest pause.
    pub max_backoff_ms: u32,
    /// The fraction by which a pause may be longer or shorter, at random: from 0 to 1.
    pub jitter: f32,
}

/// How the pauses between attempts grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// No pauses.
    None,
    /// 1, 2, 3, 4, 5 times the first.
    Linear,
    /// 1, 2, 4, 8, 16 times the first.
    Exponential,
    /// 1, 1, 2, 3, 5 times the first.
    Fibonacci,
}

/// A domain event that a step publishes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedEvent {
    /// The name of the event.
    pub name: String,
    /// When the event is published.
    pub condition: PublishWhen,
}

/// When a domain event is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PublishWhen {
    /// When the step is complete.
    Success,
    /// When the step failed permanently.
    Failure,
    /// In both cases.
    Always,
}

/// How a step is divided into parts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BatchConfig {
    /// The step that runs once per part.
    pub worker_template: String,
    /// What the permanent failure of a part means for the rest.
    pub failure_strategy: FailureStrategy,
    /// Settings for the handler that divides the work; passed on unchanged.
    #[serde(flatten)]
    pub hints: serde_json::Map<String, Value>,
}

/// What the permanent failure of a part means for the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureStrategy {
    /// The task fails, as with any step.
    FailFast,
    /// The other parts continue, and the steps that follow see which parts failed.
    ContinueOnFailure,
    /// Like `ContinueOnFailure`, and the part gets a dead-letter entry.
    Isolate,
}

/// What makes two submissions the same task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IdentityStrategy {
    /// The same template and the same context.
    Strict,
    /// The same `idempotency_key`, which is required.
    CallerProvided,
    /// Nothing: every submission is a new task.
    AlwaysUnique,
}

/// Limits on the duration of a task. A limit that is not given does not apply.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Default)]
pub struct Lifecycle {
    /// From submission to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration_minutes: Option<f64>,
    /// With no step ready and none in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_waiting_for_dependencies_minutes: Option<f64>,
    /// With only retries to wait for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_waiting_for_retry_minutes: Option<f64>,
    /// With steps in progress and none that ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps_in_process_minutes: Option<f64>,
    /// What happens when a task exceeds a limit.
    pub staleness_action: StalenessAction,
}

impl Lifecycle {
    /// The shortest of the limits. `None`: there is none.
    pub(crate) fn first_limit(&self) -> Option<Duration> {
        let limits = [
            self.max_duration_minutes,
            self.max_waiting_for_dependencies_minutes,
            self.max_waiting_for_retry_minutes,
            self.max_steps_in_process_minutes,
        ];
        limits.into_iter().flatten().reduce(f64::min).map(|minutes| Duration::from_secs_f64(minutes * 60.0))
    }

    /// The shortest limit in milliseconds.
    pub(crate) fn limit_ms(&self) -> Option<i64> {
        self.first_limit().map(|limit| limit.as_millis() as i64)
    }
}

/// What happens when a task exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum StalenessAction {
    /// The task ends in error and gets a dead-letter entry.
    #[default]
    Dlq,
    /// The task gets a dead-letter entry and continues.
    Alert,
    /// The task ends in error.
    Error,
}

impl Template {
    /// Parses a template from YAML or JSON for one environment: the overrides under `environments` with that name
    /// apply.
    ///
    /// # Errors
    /// All faults of the template, each with its line.
    pub fn parse(text: &str, environment: Option<&str>) -> Result<Template, Faults> {
        check::template(document::read(text)?, environment)
    }

    /// Parses the text of a registered template. Environments were applied when it was registered.
    pub(crate) fn parse_registered(text: &str) -> Result<Template, Faults> {
        check::registered(document::read(text)?)
    }

    /// The index of a step.
    pub(crate) fn index_of(&self, step: &str) -> Option<usize> {
        self.steps.iter().position(|definition| definition.name == step)
    }
}

fn seconds<S: serde::Serializer>(timeout: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    timeout.map(|timeout| timeout.as_secs_f64()).serialize(to)
}

#[cfg(test)]
mod tests;
