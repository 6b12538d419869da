//! `reveille dlq`.

use clap::{Args, Subcommand};

use super::Confirmation;
use crate::terminal::parse_when;

const LIST_EXAMPLES: &str = "\
Examples:
  reveille dlq list                         the newest dead letters, with their errors
  reveille dlq list --queue orders --from 1h
  reveille dlq list --error timeout --json | jq '.dead_letters[].payload'";

const SHOW_EXAMPLES: &str = "\
Examples:
  reveille dlq show 7                       its error, and its payload";

const REPLAY_EXAMPLES: &str = "\
Examples:
  reveille dlq replay 7                     one of them
  reveille dlq replay 7 --payload @repaired.json
                                            … with another payload
  reveille dlq replay --queue orders        shows how many, asks, and pushes them again
  reveille dlq replay --all --yes

Each becomes a new message at the end of its partition, for every consumer group. If it is interrupted, the same command
continues.";

const PURGE_EXAMPLES: &str = "\
Examples:
  reveille dlq purge 7                      one of them; asks before it deletes
  reveille dlq purge --queue orders --to 30d
                                            those that failed more than 30 days ago; asks before it deletes
  reveille dlq purge --all --yes";

/// The commands of `reveille dlq`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List dead letters, newest first
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Show a dead letter with its payload
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Show),
    /// Push dead letters again
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(Replay),
    /// Delete dead letters
    #[command(after_help = PURGE_EXAMPLES)]
    Purge(Purge),
}

/// Which dead letters.
#[derive(Clone, Debug, Args)]
pub struct Filter {
    /// Those of this queue
    #[arg(long, value_name = "NAME")]
    pub queue: Option<String>,
    /// Those of partitions of this name
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// Those of this consumer group
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// Those whose error contains this text
    #[arg(long, value_name = "TEXT")]
    pub error: Option<String>,
    /// Those that failed at this time or later, or so long ago at most
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub from: Option<String>,
    /// Those that failed before this time
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub to: Option<String>,
}

impl Filter {
    /// Whether it matches everything.
    pub fn is_empty(&self) -> bool {
        let Filter { queue, partition, group, error, from, to } = self;
        [queue, partition, group, error, from, to].iter().all(|given| given.is_none())
    }
}

/// `reveille dlq list`.
#[derive(Debug, Args)]
pub struct List {
    /// Which.
    #[command(flatten)]
    pub filter: Filter,
    /// The most dead letters to list
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub limit: u32,
    /// Continue a list
    #[arg(long, value_name = "NEXT")]
    pub after: Option<i64>,
}

/// `reveille dlq show`.
#[derive(Debug, Args)]
pub struct Show {
    /// Its number, as `dlq list` shows it
    pub number: i64,
}

/// `reveille dlq replay`.
#[derive(Debug, Args)]
pub struct Replay {
    /// One of them, by its number
    #[arg(conflicts_with_all = ["queue", "partition", "group", "error", "from", "to", "all"])]
    pub number: Option<i64>,
    /// Push it with this payload: JSON, or @FILE
    #[arg(long, value_name = "JSON", requires = "number")]
    pub payload: Option<String>,
    /// Which.
    #[command(flatten)]
    pub filter: Filter,
    /// All
    #[arg(long)]
    pub all: bool,
    /// Whether to ask.
    #[command(flatten)]
    pub confirmation: Confirmation,
}

/// `reveille dlq purge`.
#[derive(Debug, Args)]
pub struct Purge {
    /// One of them, by its number
    #[arg(conflicts_with_all = ["queue", "partition", "group", "error", "from", "to", "all"])]
    pub number: Option<i64>,
    /// Which.
    #[command(flatten)]
    pub filter: Filter,
    /// All
    #[arg(long)]
    pub all: bool,
    /// Whether to ask.
    #[command(flatten)]
    pub confirmation: Confirmation,
}
