//! Task graphs on PostgreSQL: ready steps are claimed within milliseconds, by workers in any language, and nothing is lost when anything dies.
//!
//! A [`Template`] says which steps a task has and which come after which. [`Flow`] is the engine: it registers templates, takes tasks, hands out the steps that are ready, and goes on
//! with a task when a step ends. A step row is its own queue entry: it knows when it is next due, so what a task is and what workers see cannot come apart.
//!
//! Where to read on: what is stored in `migrations/`; how tasks are made, steps claimed and ended in `functions/`, one file each with its reasons; the states as people see them
//! in `state.rs`. Everything that waits, rings and groups is the engine's: see the crate `wake`.

mod catalog;
mod claim;
mod complete;
mod error;
pub mod event_driven;
mod events;
mod figures;
mod flat;
mod flow;
pub mod http;
mod json;
mod name;
mod namespace;
mod operate;
mod provider;
mod queries;
mod query;
mod register;
mod response_size;
mod schedule;
mod stored;
mod task;
mod template;
mod templates;
mod version;
mod worker;

pub use claim::limit::Limit;
pub use claim::renew::Renewal;
pub use claim::token::Token;
pub use claim::{ClaimRequest, ClaimedStep};
pub use complete::{AttemptResult, Failure, Refused, ReportedStep, StepReport};
pub use error::{Error, Result};
pub use event_driven::{
    EventDrivenMetrics, EventDrivenOrchestrator, EventRouter, METRICS, OrchestrationConfig, OrchestrationMode,
    WorkerPool,
};
pub use figures::{COUNTED_MAX, Figures, StateFigures};
pub use flow::{Flow, Options};
pub use json::{Json, NotJson};
pub use namespace::template::NamespaceTemplate;
pub use namespace::{Mode, Namespace, NamespaceChange, NamespaceSettings, Provider};
pub use operate::{
    BULK_MAX, BulkFilter, BulkItem, BulkOperation, BulkRefusal, BulkReport, BulkRequest, Cancelled, Obstacle, Operated,
    Operation, REASON_MAX, Who,
};
pub use provider::{
    Delivery, EventDrivenQueueProvider, ProviderOptions, QueueError, QueueEvent, QueueProvider, Receipt, Sent, Source,
    StepMessage,
};
pub use query::analytics::{
    ANALYSED_ATTEMPTS_MAX, ANALYSED_TASKS_MAX, Bottleneck, Bottlenecks, Performance, Spread, TemplatePerformance,
};
pub use query::audit::{Attempt, AttemptPage, Outcome};
pub use query::domain_event::{DomainEvent, EventFilter, EventPage};
pub use query::investigation::{Investigation, InvestigationFilter, InvestigationPage, Resolution};
pub use query::list::{PAGE_MAX, TaskFilter, TaskPage};
pub use query::task::{STEP_PAGE_MAX, StepPage, Task, TaskStep, TaskSummary};
pub use query::transition::{InvalidTransitionId, Transition, TransitionId, TransitionPage};
pub use register::Registered;
pub use schedule::{Missed, Schedule, ScheduleFilter, SchedulePage, Scheduled};
pub use task::decision::{Branches, Decision, Parts};
pub use task::retention::{FAILED_RETENTION_DEFAULT, RETENTION_DEFAULT};
pub use task::state::{By, StepState, TaskState};
pub use task::status::{ExecutionStatus, HealthStatus, RecommendedAction, StepCounts};
pub use task::submit::{Submission, Submitted};
pub use task::wait::News;
pub use template::{
    ATTEMPTS_MAX, Backoff, BatchConfig, FailureStrategy, Fault, Faults, HandlerDefinition, IdentityStrategy, Lifecycle,
    NAME_MAX, PublishWhen, PublishedEvent, Retry, STEPS_MAX, StalenessAction, StepDefinition, StepKind, Template,
};
pub use templates::{ListedTemplate, TemplateFilter, TemplatePage};
pub use worker::{Answer, Handled, Handler, Handlers, Signal, Step, Worker, WorkerBuilder, WorkerCounts};

// The program in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
