//! `reveille dlq`.

use clap::{Args, Subcommand};

use super::Confirmation;
use crate::terminal::parse_when;

const LIST_EXAMPLES: &str = "\
Examples:
  reveille dlq list                         the newest dead letters, with their errors
  reveille dlq list --queue orders --from 1h
  reveille dlq list --json | jq '.messages[].data'";

const REPLAY_EXAMPLES: &str = "\
Examples:
  reveille dlq replay --queue orders        shows how many, asks, and pushes them again
  reveille dlq replay --number 7 --number 9
  reveille dlq replay --all --yes

Each becomes a new message at the end of its partition, for every consumer group.";

const PURGE_EXAMPLES: &str = "\
Examples:
  reveille dlq purge --queue orders --to 30d
                                            those that failed more than 30 days ago; asks before it deletes
  reveille dlq purge --all --yes";

/// The commands of `reveille dlq`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List dead letters, newest first
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
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
        let Filter { queue, partition, group, from, to } = self;
        [queue, partition, group, from, to].iter().all(|given| given.is_none())
    }
}

/// `reveille dlq list`.
#[derive(Debug, Args)]
pub struct List {
    /// Which.
    #[command(flatten)]
    pub filter: Filter,
    /// The most dead letters to list
    #[arg(long, value_name = "N", default_value = "100")]
    pub limit: u32,
    /// How many to skip
    #[arg(long, value_name = "N", default_value = "0")]
    pub offset: u32,
}

/// `reveille dlq replay`.
#[derive(Debug, Args)]
pub struct Replay {
    /// Which.
    #[command(flatten)]
    pub filter: Filter,
    /// Those with these numbers
    #[arg(long, value_name = "N")]
    pub number: Vec<i64>,
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
