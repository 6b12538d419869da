//! The commands of `reveille durable` that speak to a server.

use std::time::Duration;

use clap::Args;

use crate::{
    config::{duration, remote::Confirmation},
    terminal::parse_when,
};

pub(super) const LIST_EXAMPLES: &str = "\
Examples:
  reveille durable list                     the newest hundred
  reveille durable list --status Running --name ProcessOrder
  reveille durable list --status Pending    started, and no runtime has begun them
  reveille durable list --since 1h --json | jq -r '.instances[].instance'";

pub(super) const SHOW_EXAMPLES: &str = "\
Examples:
  reveille durable show order-42            state, output, messages, activities, sub-orchestrations
  reveille durable show order-42 --wait 30s when it has ended, or after half a minute";

pub(super) const HISTORY_EXAMPLES: &str = "\
Examples:
  reveille durable history order-42         the current execution as a timeline
  reveille durable history order-42 --execution 1
  reveille durable history order-42 --raw --json | jq '.events[].event'";

pub(super) const START_EXAMPLES: &str = "\
Examples:
  reveille durable start order-42 ProcessOrder --input '{\"total\": 7}'
  reveille durable start hello-1 Hello --text World
                                            the input is the text itself, not JSON";

pub(super) const RAISE_EXAMPLES: &str = "\
Examples:
  reveille durable raise order-42 Paid --data '{\"amount\": 7}'
  reveille durable raise order-42 Mail --text hello --queue
                                            stays in the queue until the orchestration takes it";

pub(super) const CANCEL_EXAMPLES: &str = "\
Examples:
  reveille durable cancel order-42 --reason 'ordered twice'";

pub(super) const DELETE_EXAMPLES: &str = "\
Examples:
  reveille durable delete order-42          asks, after showing what would be deleted
  reveille durable delete order-42 --force --yes
                                            also if it has not ended";

pub(super) const PRUNE_EXAMPLES: &str = "\
Examples:
  reveille durable prune --ended-before 30d --dry-run
                                            what would be deleted
  reveille durable prune --ended-before 30d --status Completed --yes
  reveille durable prune --executions --keep-last 3
                                            old executions of instances that continue as new

It deletes in small steps. If it is interrupted, run it again to continue.";

/// `reveille durable list`.
#[derive(Debug, Args)]
pub struct ListInstances {
    /// Pending, Running, Completed, Failed or ContinuedAsNew
    #[arg(long, value_name = "STATUS")]
    pub status: Option<String>,
    /// The orchestration
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Its version
    #[arg(long = "of-version", value_name = "VERSION")]
    pub of_version: Option<String>,
    /// How the id begins
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<String>,
    /// Created since: a time, or how long ago, such as 2h
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    pub since: Option<String>,
    /// Created before: a time, or how long ago
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    pub until: Option<String>,
    /// The most instances to list
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub limit: u32,
    /// Continue after an earlier list
    #[arg(long, value_name = "NEXT")]
    pub after: Option<String>,
}

/// `reveille durable show`.
#[derive(Debug, Args)]
pub struct ShowInstance {
    /// The instance
    pub instance: String,
    /// Wait for its end, at most so long, up to 10m
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub wait: Option<Duration>,
}

/// `reveille durable history`.
#[derive(Debug, Args)]
pub struct HistoryOf {
    /// The instance
    pub instance: String,
    /// The execution [default: the current one]
    #[arg(long, value_name = "N")]
    pub execution: Option<u64>,
    /// With the payloads of events
    #[arg(long)]
    pub raw: bool,
    /// The most events to show
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub limit: u32,
    /// After this event
    #[arg(long, value_name = "N")]
    pub after: Option<u64>,
}

/// `reveille durable start`.
#[derive(Debug, Args)]
pub struct StartInstance {
    /// The id of the new instance
    pub instance: String,
    /// The orchestration
    pub name: String,
    /// Its version [default: the runtime chooses]
    #[arg(long = "of-version", value_name = "VERSION")]
    pub of_version: Option<String>,
    /// The input, as JSON
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
    /// The input, as the text itself
    #[arg(long, value_name = "TEXT", conflicts_with = "input")]
    pub text: Option<String>,
}

/// `reveille durable raise`.
#[derive(Debug, Args)]
pub struct RaiseEvent {
    /// The instance
    pub instance: String,
    /// The event, or the queue
    pub event: String,
    /// Its data, as JSON
    #[arg(long, value_name = "JSON")]
    pub data: Option<String>,
    /// Its data, as the text itself
    #[arg(long, value_name = "TEXT", conflicts_with = "data")]
    pub text: Option<String>,
    /// Put it into the queue of that name
    #[arg(long)]
    pub queue: bool,
}

/// `reveille durable cancel`.
#[derive(Debug, Args)]
pub struct CancelInstance {
    /// The instance
    pub instance: String,
    /// The reason, which its history shows
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Whether to ask.
    #[command(flatten)]
    pub confirmation: Confirmation,
}

/// `reveille durable delete`.
#[derive(Debug, Args)]
pub struct DeleteInstance {
    /// The instance
    pub instance: String,
    /// Also if it has not ended
    #[arg(long)]
    pub force: bool,
    /// Whether to ask.
    #[command(flatten)]
    pub confirmation: Confirmation,
}

/// `reveille durable prune`.
#[derive(Debug, Args)]
pub struct PruneInstances {
    /// What ended before: a time, or how long ago, such as 30d
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    pub ended_before: Option<String>,
    /// Completed or Failed [default: both]
    #[arg(long, value_name = "STATUS")]
    pub status: Option<String>,
    /// Only of this orchestration
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Old executions instead of whole instances
    #[arg(long)]
    pub executions: bool,
    /// Keep so many of the latest executions of each instance
    #[arg(long, value_name = "N", requires = "executions")]
    pub keep_last: Option<u32>,
    /// Show what would be deleted
    #[arg(long)]
    pub dry_run: bool,
    /// Whether to ask.
    #[command(flatten)]
    pub confirmation: Confirmation,
}
