//! `reveille queue`.

use clap::{Args, Subcommand};

const LIST_EXAMPLES: &str = "\
Examples:
  reveille queue list                       every queue with the number of its messages
  reveille queue list --search shop.        those with `shop.` in their name
  reveille queue list --json | jq -r '.queues[].name'";

/// The commands of `reveille queue`.
#[derive(Debug, Subcommand)]
pub enum QueueCommand {
    /// List queues with the number of their messages
    #[command(after_help = LIST_EXAMPLES)]
    List(QueueList),
}

/// `reveille queue list`.
#[derive(Debug, Args)]
pub struct QueueList {
    /// Part of the name
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
    /// The most queues to list
    #[arg(long, value_name = "N", default_value = "1000")]
    pub limit: u32,
    /// How many to skip
    #[arg(long, value_name = "N", default_value = "0")]
    pub offset: u32,
}
