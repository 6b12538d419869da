//! `reveille queue`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Confirmation, seek::SeekTarget};
use crate::terminal::parse_when;

/// The most messages of one request: the server's limit.
const BATCH_MAX: i64 = 10_000;

const LIST_EXAMPLES: &str = "\
Examples:
  reveille queue list                       every queue with its depth, its oldest message and its rates
  reveille queue list --search shop.        those with `shop.` in their name
  reveille queue list --json | jq -r '.queues[].name'";

const SHOW_EXAMPLES: &str = "\
Examples:
  reveille queue show orders                options, consumer groups and partitions
  reveille queue show orders --partition customer-7
  reveille queue show orders --json | jq .options.leaseTime";

const PUSH_EXAMPLES: &str = "\
Examples:
  reveille queue push orders '{\"total\": 42}'
  reveille queue push orders @order.json --partition customer-7 --id order-1
  reveille queue push log --text 'plain text'
  reveille queue push orders --lines orders.jsonl --ids import-7-
                                            a message per line, with the ids import-7-1, import-7-2, …
  zcat old.gz | reveille queue push orders --lines - --skip 12000

A push of lines sends them in batches, one after another. If it is interrupted it says how many lines are pushed: --skip
continues there. With --ids it can be repeated as a whole: messages with the same id in the same partition are
duplicates, and are pushed once.

With --items each line is an object with `payload` and, if wanted, `partition`, `transactionId` and `traceId`.";

const POP_EXAMPLES: &str = "\
Examples:
  reveille queue pop orders                 lease a message and show it; it is delivered again after the lease
  reveille queue pop orders --ack           … and acknowledge it once it is printed
  reveille queue pop orders --group billing --batch 100 --wait --ack --json
  reveille queue pop orders --wait=30s      wait for a message for 30 seconds

Ends with 1 if there is no message.";

const PEEK_EXAMPLES: &str = "\
Examples:
  reveille queue peek orders                the 10 newest messages, without leasing them
  reveille queue peek orders --status pending --partition customer-7
  reveille queue peek orders --group billing
                                            what this group gets next, oldest first
  reveille queue peek orders --limit 1 --json | jq '.messages[].payload'";

const TAIL_EXAMPLES: &str = "\
Examples:
  reveille queue tail orders                the last 10 messages, and every message as it is pushed
  reveille queue tail orders --lines 0 --json | jq .payload

Nothing is leased, and no consumer is disturbed. Ctrl-C ends it.";

const PAUSE_EXAMPLES: &str = "\
Examples:
  reveille queue pause orders               pops find nothing, and wait, until it is resumed; pushes go on";

const RESUME_EXAMPLES: &str = "\
Examples:
  reveille queue resume orders";

const SEEK_EXAMPLES: &str = "\
Examples:
  reveille queue seek orders --group billing --to 2h
                                            deliver the messages of the last two hours again
  reveille queue seek orders --group billing --to 2026-11-19T08:00:00Z --partition customer-7
  reveille queue seek orders --end          skip everything that waits; without --group: the queue itself";

const CONFIGURE_EXAMPLES: &str = "\
Examples:
  reveille queue configure orders leaseTime=60 retryLimit=5
  reveille queue configure orders deadLetterQueue=true retentionEnabled=true retentionSeconds=86400
  reveille queue configure orders           create it with the defaults, or show its options

Options that are not given stay as they are. docs/queue.md explains each.";

const CLEAR_EXAMPLES: &str = "\
Examples:
  reveille queue clear orders               remove all messages; asks before it does
  reveille queue clear orders --partition customer-7 --yes";

const DELETE_EXAMPLES: &str = "\
Examples:
  reveille queue delete orders              shows what it holds, and asks
  reveille queue delete orders --yes";

/// The commands of `reveille queue`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List queues with their depth, oldest message and rates
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Show a queue: its options, consumer groups and partitions
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Show),
    /// Push a message, or a message per line of a file
    #[command(after_help = PUSH_EXAMPLES)]
    Push(Push),
    /// Lease messages and print them
    #[command(after_help = POP_EXAMPLES)]
    Pop(Pop),
    /// Print messages without leasing them
    #[command(after_help = PEEK_EXAMPLES)]
    Peek(Peek),
    /// Print messages as they are pushed, without leasing them
    #[command(after_help = TAIL_EXAMPLES)]
    Tail(Tail),
    /// Pause a queue: pops find nothing until it is resumed
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(Name),
    /// Resume a queue
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(Name),
    /// Move a consumer group to a time or to the end
    #[command(after_help = SEEK_EXAMPLES)]
    Seek(Seek),
    /// Create a queue, or change its options
    #[command(after_help = CONFIGURE_EXAMPLES)]
    Configure(Configure),
    /// Remove the messages of a queue
    #[command(after_help = CLEAR_EXAMPLES)]
    Clear(Clear),
    /// Delete a queue with its messages and consumer groups
    #[command(after_help = DELETE_EXAMPLES)]
    Delete(Delete),
}

/// `reveille queue list`.
#[derive(Debug, Args)]
pub struct List {
    /// Part of the name
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
    /// Only those of this namespace
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// The most queues to list
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub limit: u32,
    /// Continue a list after this queue
    #[arg(long, value_name = "NAME")]
    pub after: Option<String>,
}

/// `reveille queue show`.
#[derive(Debug, Args)]
pub struct Show {
    /// The queue
    pub queue: String,
    /// Only this partition
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// The most partitions to show
    #[arg(long, value_name = "N", default_value = "20")]
    pub limit: u32,
    /// How many partitions to skip
    #[arg(long, value_name = "N", default_value = "0")]
    pub offset: u32,
}

/// `reveille queue push`.
#[derive(Debug, Args)]
pub struct Push {
    /// The queue; it is created if it does not exist
    pub queue: String,
    /// The message as JSON, or @FILE
    #[arg(conflicts_with = "lines", required_unless_present = "lines")]
    pub payload: Option<String>,
    /// The partition, in which messages keep their order [default: Default]
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// The message's own id: a second one with the same id in the partition is a duplicate
    #[arg(long, value_name = "ID", conflicts_with = "lines")]
    pub id: Option<String>,
    /// An id for tracing
    #[arg(long, value_name = "ID")]
    pub trace_id: Option<String>,
    /// The message is text, not JSON
    #[arg(long, conflicts_with = "items")]
    pub text: bool,
    /// A message per line of this file; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub lines: Option<PathBuf>,
    /// Give each line an id: this text and the line's number
    #[arg(long, value_name = "PREFIX", requires = "lines", conflicts_with = "items")]
    pub ids: Option<String>,
    /// Each line is an object with `payload`, `partition`, `transactionId`, `traceId`
    #[arg(long, requires = "lines")]
    pub items: bool,
    /// Skip this many lines, to continue a push
    #[arg(long, value_name = "N", requires = "lines", default_value = "0")]
    pub skip: u64,
    /// The most messages of a batch
    #[arg(long, value_name = "N", requires = "lines", default_value = "1000",
          value_parser = clap::value_parser!(u32).range(1..=BATCH_MAX))]
    pub batch: u32,
}

/// `reveille queue pop`.
#[derive(Debug, Args)]
pub struct Pop {
    /// The queue
    pub queue: String,
    /// The consumer group [default: the queue itself]
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// Only this partition
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// The most messages
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=BATCH_MAX))]
    pub batch: u32,
    /// The most partitions
    #[arg(long, value_name = "N", default_value = "1", conflicts_with = "partition")]
    pub partitions: u32,
    /// Acknowledge the messages once they are printed
    #[arg(long)]
    pub ack: bool,
    /// Wait for a message: without end, or so long
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "0",
          value_parser = crate::config::duration::parse)]
    pub wait: Option<std::time::Duration>,
    /// Where a new group begins: a time, or `now` [default: at the first message]
    #[arg(long, value_name = "TIME", value_parser = parse_from, requires = "group")]
    pub from: Option<String>,
}

/// `reveille queue peek`.
#[derive(Debug, Args)]
pub struct Peek {
    /// The queue
    pub queue: String,
    /// Only this partition
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// Only messages of this status
    #[arg(long, value_name = "STATUS", value_parser = ["pending", "processing", "completed"])]
    pub status: Option<String>,
    /// Pushed at this time or later, or so long ago at most
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub from: Option<String>,
    /// Pushed before this time
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub to: Option<String>,
    /// The most messages
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub limit: u32,
    /// What this consumer group gets next, oldest first
    #[arg(long, value_name = "NAME", conflicts_with_all = ["status", "from", "to", "after", "no_payload"])]
    pub group: Option<String>,
    /// Continue a list
    #[arg(long, value_name = "NEXT")]
    pub after: Option<String>,
    /// Do not print payloads
    #[arg(long)]
    pub no_payload: bool,
}

/// `reveille queue tail`.
#[derive(Debug, Args)]
pub struct Tail {
    /// The queue
    pub queue: String,
    /// Only this partition
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// How many messages to begin with
    #[arg(long, short = 'n', value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub lines: u32,
}

/// `reveille queue pause` and `resume`.
#[derive(Debug, Args)]
pub struct Name {
    /// The queue
    pub queue: String,
}

/// `reveille queue seek`.
#[derive(Debug, Args)]
pub struct Seek {
    /// The queue
    pub queue: String,
    /// The consumer group [default: the queue itself]
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// Where to.
    #[command(flatten)]
    pub target: SeekTarget,
}

/// `reveille queue configure`.
#[derive(Debug, Args)]
pub struct Configure {
    /// The queue; it is created if it does not exist
    pub queue: String,
    /// Options to change
    #[arg(value_name = "OPTION=VALUE")]
    pub options: Vec<String>,
    /// Its namespace
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Its task
    #[arg(long, value_name = "NAME")]
    pub task: Option<String>,
}

/// `reveille queue clear`.
#[derive(Debug, Args)]
pub struct Clear {
    /// The queue
    pub queue: String,
    /// Only this partition
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// Whether to ask.
    #[command(flatten)]
    pub confirmation: Confirmation,
}

/// `reveille queue delete`.
#[derive(Debug, Args)]
pub struct Delete {
    /// The queue
    pub queue: String,
    /// Whether to ask.
    #[command(flatten)]
    pub confirmation: Confirmation,
}

/// Where a new group begins.
fn parse_from(text: &str) -> Result<String, String> {
    match text {
        "now" => Ok(text.to_owned()),
        time => parse_when(time).map_err(|error| format!("{error}, or `now`")),
    }
}
