//! `reveille task`.

use clap::{Args, Subcommand};

use super::{Confirmation, operator::Operator};
use crate::terminal::parse_when;

/// The states of tasks.
const STATES: [&str; 12] = [
    "pending",
    "initializing",
    "enqueuing_steps",
    "steps_in_process",
    "evaluating_results",
    "waiting_for_dependencies",
    "waiting_for_retry",
    "blocked_by_failures",
    "complete",
    "error",
    "cancelled",
    "resolved_manually",
];

const SUBMIT_EXAMPLES: &str = "\
Examples:
  reveille task submit shop order '{\"order_id\": 7}'
  reveille task submit shop order @context.json --version 1.0.0 --tag eu --watch
  reveille task submit shop order --idempotency-key order-7
  uuid=$(reveille task submit shop order --json | jq -r .task_uuid)";

const LIST_EXAMPLES: &str = "\
Examples:
  reveille task list                        the newest tasks
  reveille task list --state error --from 1d
  reveille task list --namespace shop --name order --tag eu --limit 100";

const SHOW_EXAMPLES: &str = "\
Examples:
  reveille task show 01a1f587-d8b1-7282-a79d-0f1f9a3625d4
                                            the graph of its steps, and why each is not running
  reveille task show 01a1f587-d8b1-7282-a79d-0f1f9a3625d4 --timeline
  reveille task show 01a1f587-d8b1-7282-a79d-0f1f9a3625d4 --step charge
                                            one step with its input, result, error and attempts";

const WATCH_EXAMPLES: &str = "\
Examples:
  reveille task watch 01a1f587-d8b1-7282-a79d-0f1f9a3625d4
                                            the graph on a terminal, or a line for each transition
  reveille task watch 01a1f587-d8b1-7282-a79d-0f1f9a3625d4 --json | jq .to

Ends when the task ends: with 0 if it is complete or resolved, with 1 if it failed or was cancelled. Ctrl-C ends the
command, not the task.";

const RETRY_EXAMPLES: &str = "\
Examples:
  reveille task retry 01a1f587-d8b1-7282-a79d-0f1f9a3625d4
                                            its failed steps get all their attempts again
  reveille task retry 01a1f587-d8b1-7282-a79d-0f1f9a3625d4 --step charge
  reveille task retry --namespace shop --state error --error timeout
                                            many: shows how many and an example, and asks";

const RESOLVE_EXAMPLES: &str = "\
Examples:
  reveille task resolve 01a1f587-d8b1-7282-a79d-0f1f9a3625d4 --reason 'refunded by hand'
                                            the task counts as done
  reveille task resolve 01a1f587-d8b1-7282-a79d-0f1f9a3625d4 --step charge
                                            the steps after it continue
  reveille task resolve 01a1f587-d8b1-7282-a79d-0f1f9a3625d4 --step charge --result '{\"charge_id\": 7}'
                                            completes it with a result, as a worker would";

const CANCEL_EXAMPLES: &str = "\
Examples:
  reveille task cancel 01a1f587-d8b1-7282-a79d-0f1f9a3625d4
  reveille task cancel --namespace shop --name order --to 7d --reason outdated
                                            many: shows how many and an example, and asks";

const DELETE_EXAMPLES: &str = "\
Examples:
  reveille task delete 01a1f587-d8b1-7282-a79d-0f1f9a3625d4
  reveille task delete --state cancelled --to 30d
                                            many: shows how many and an example, and asks

Only tasks that have ended are deleted.";

/// The commands of `reveille task`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Submit a task of a template
    #[command(after_help = SUBMIT_EXAMPLES)]
    Submit(Submit),
    /// List tasks, newest first
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Show a task: the graph of its steps, or one step
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Show),
    /// Follow a task until it ends
    #[command(after_help = WATCH_EXAMPLES)]
    Watch(Watch),
    /// Retry a task that failed, a step of it, or many tasks
    #[command(after_help = RETRY_EXAMPLES)]
    Retry(Retry),
    /// Mark a task or a step as resolved by other means
    #[command(after_help = RESOLVE_EXAMPLES)]
    Resolve(Resolve),
    /// Cancel a task, or many
    #[command(after_help = CANCEL_EXAMPLES)]
    Cancel(Change),
    /// Delete a task that has ended, or many
    #[command(after_help = DELETE_EXAMPLES)]
    Delete(Change),
}

/// `reveille task submit`.
#[derive(Debug, Args)]
pub struct Submit {
    /// The namespace of the template
    pub namespace: String,
    /// The name of the template
    pub name: String,
    /// The context as JSON, @FILE, or `-` for standard input [default: {}]
    pub context: Option<String>,
    /// The version of the template [default: the highest]
    #[arg(long = "version", value_name = "VERSION")]
    pub template_version: Option<String>,
    /// Steps of tasks with a higher priority are claimed first
    #[arg(long, value_name = "N", default_value = "0", allow_negative_numbers = true)]
    pub priority: i16,
    /// A label to find the task by; may be repeated
    #[arg(long, value_name = "TAG")]
    pub tag: Vec<String>,
    /// Groups tasks that belong together
    #[arg(long, value_name = "ID")]
    pub correlation_id: Option<String>,
    /// Submissions with the same key are the same task
    #[arg(long, value_name = "TEXT")]
    pub idempotency_key: Option<String>,
    /// The user or system that wants the task
    #[arg(long, value_name = "NAME")]
    pub initiator: Option<String>,
    /// Why it is submitted
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Follow it until it ends
    #[arg(long)]
    pub watch: bool,
}

/// `reveille task list`.
#[derive(Debug, Args)]
pub struct List {
    /// In this namespace
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Of this template
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Of this version of the template
    #[arg(long = "version", value_name = "VERSION")]
    pub template_version: Option<String>,
    /// In this state
    #[arg(long, value_name = "STATE", value_parser = STATES)]
    pub state: Option<String>,
    /// With this tag
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// With this correlation id
    #[arg(long, value_name = "ID")]
    pub correlation_id: Option<String>,
    /// Of this initiator
    #[arg(long, value_name = "NAME")]
    pub initiator: Option<String>,
    /// Submitted after this time, or so long ago at most
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub from: Option<String>,
    /// Submitted before this time
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub to: Option<String>,
    /// The most tasks to list
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub limit: u32,
    /// Continue a list after this task
    #[arg(long, value_name = "UUID")]
    pub after: Option<String>,
}

/// `reveille task show`.
#[derive(Debug, Args)]
pub struct Show {
    /// The task
    #[arg(value_name = "UUID")]
    pub task: String,
    /// One step, with its input, result, error and attempts
    #[arg(long, value_name = "NAME", conflicts_with = "timeline")]
    pub step: Option<String>,
    /// When each step waited and ran, instead of the graph
    #[arg(long)]
    pub timeline: bool,
}

/// `reveille task watch`.
#[derive(Debug, Args)]
pub struct Watch {
    /// The task
    #[arg(value_name = "UUID")]
    pub task: String,
}

/// Which tasks, if none is named.
#[derive(Debug, Args)]
#[command(next_help_heading = "Many tasks")]
pub struct Filter {
    /// In this namespace
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Of this template
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Of this version of the template
    #[arg(long = "version", value_name = "VERSION")]
    pub template_version: Option<String>,
    /// In this state
    #[arg(long, value_name = "STATE", value_parser = STATES)]
    pub state: Option<String>,
    /// Whose last error contains this text
    #[arg(long, value_name = "TEXT")]
    pub error: Option<String>,
    /// Submitted at this time or later, or so long ago at most
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub from: Option<String>,
    /// Submitted before this time
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub to: Option<String>,
}

/// `reveille task cancel` and `delete`.
#[derive(Debug, Args)]
pub struct Change {
    /// The task; without it, the tasks of a filter
    #[arg(value_name = "UUID", conflicts_with_all = ["namespace", "name", "template_version", "state", "error", "from", "to"])]
    pub task: Option<String>,
    /// Which tasks.
    #[command(flatten)]
    pub filter: Filter,
    /// Who does it, and why.
    #[command(flatten)]
    pub operator: Operator,
    /// Whether to ask.
    #[command(flatten)]
    pub confirmation: Confirmation,
}

/// `reveille task retry`.
#[derive(Debug, Args)]
pub struct Retry {
    /// Which tasks.
    #[command(flatten)]
    pub change: Change,
    /// Only this step of the task
    #[arg(long, value_name = "NAME", requires = "task")]
    pub step: Option<String>,
}

/// `reveille task resolve`.
#[derive(Debug, Args)]
pub struct Resolve {
    /// Which tasks.
    #[command(flatten)]
    pub change: Change,
    /// Only this step of the task
    #[arg(long, value_name = "NAME", requires = "task")]
    pub step: Option<String>,
    /// The result of the step as JSON, or @FILE: completes it, as a worker would
    #[arg(long, value_name = "JSON", requires = "step")]
    pub result: Option<String>,
}
