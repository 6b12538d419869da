//! Task graphs on PostgreSQL: ready steps are claimed within milliseconds, by workers in any language, and no step is
//! lost when a worker, a server or the database crashes.
//!
//! A [`Template`] defines the steps of a task and their dependencies. [`Flow`] is the engine: it registers templates,
//! accepts tasks, lets workers claim the steps that are ready, and continues a task when a step ends. A step row is its
//! own queue entry: it has the time when it is next due, so the state of a task and what workers claim cannot differ.
//!
//! The tables are in `db/migrations`, the stored functions in `db/functions`, one file each. `task/state.rs` has the
//! public states. Waiting, waking and write batches are those of the crate `reveille-wake`.

mod claim;
mod complete;
mod error;
pub mod events;
mod flow;
#[cfg(feature = "http")]
pub mod http;
mod json;
mod name;
mod namespace;
mod operate;
mod provider;
mod queries;
mod query;
mod schedule;
mod task;
mod template;
mod worker;

pub use claim::renew::Renewal;
pub use claim::token::Token;
pub use claim::{ClaimRequest, ClaimedStep};
pub use complete::{AttemptResult, Failure, Refused, ReportedStep, StepReport};
pub use error::{Error, Result};
pub use events::{
    EventDrivenMetrics, EventDrivenOrchestrator, EventRouter, METRICS, OrchestrationConfig, OrchestrationMode,
    WorkerPool,
};
pub use flow::{Flow, Options};
pub use json::{Json, NotJson};
pub use namespace::template::NamespaceTemplate;
pub use namespace::{Mode, Namespace, NamespaceChange, NamespaceSettings, Provider};
pub use operate::limit::Limit;
pub use operate::{
    BULK_MAX, BulkFailure, BulkFilter, BulkItem, BulkOperation, BulkReport, BulkRequest, Cancelled, FORK_STEPS_MAX,
    Fork, Forked, Obstacle, Operated, Operation, Operator, REASON_MAX,
};
pub use provider::{
    Delivery, EventDrivenQueueProvider, ProviderOptions, QueueError, QueueEvent, QueueProvider, Receipt, Sent, Source,
    StepMessage,
};
pub use query::analytics::{
    ANALYSED_ATTEMPTS_MAX, ANALYSED_TASKS_MAX, Bottleneck, Bottlenecks, Performance, Spread, TemplatePerformance,
};
pub use query::audit::{Attempt, AttemptPage, Outcome, TaskAttempt, TaskAttemptPage};
pub use query::domain_event::{DomainEvent, EventFilter, EventPage};
pub use query::figures::{COUNTED_MAX, Figures, StateFigures};
pub use query::investigation::{Investigation, InvestigationFilter, InvestigationPage, Resolution};
pub use query::list::{PAGE_MAX, TaskFilter, TaskPage};
pub use query::task::{STEP_PAGE_MAX, StepPage, Task, TaskStep, TaskSummary};
pub use query::transition::{InvalidTransitionId, Transition, TransitionId, TransitionPage};
pub use query::waiting::{OpenDependency, WaitReason, WaitingStep, WaitingSteps};
pub use query::workers::{HeldStep, Worker as WorkerView, WorkerClaim, WorkerFilter, Workers};
pub use schedule::{Missed, Schedule, ScheduleFilter, SchedulePage, Scheduled};
pub use task::decision::{Branches, Decision, Parts};
pub use task::retention::{FAILED_RETENTION_DEFAULT, RETENTION_DEFAULT};
pub use task::state::{By, StepState, TaskState};
pub use task::status::{ExecutionStatus, HealthStatus, RecommendedAction, StepCounts};
pub use task::submit::{Submission, Submitted};
pub use task::wait::TaskProgress;
pub use template::list::{ListedTemplate, TemplateFilter, TemplatePage};
pub use template::register::Registered;
pub use template::{
    ATTEMPTS_MAX, Backoff, BatchConfig, FailureStrategy, Fault, Faults, HandlerDefinition, IdentityStrategy, Lifecycle,
    NAME_MAX, PublishWhen, PublishedEvent, Retry, STEPS_MAX, StalenessAction, StepDefinition, StepKind, Template,
};
pub use worker::{Handled, Handler, HandlerOutput, Handlers, Signal, Step, Worker, WorkerBuilder, WorkerCounts};

// The program in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
