//! `reveille group`.

use clap::{Args, Subcommand};

use super::{Confirmation, seek::SeekTarget};

const LIST_EXAMPLES: &str = "\
Examples:
  reveille group list                       every consumer group of every queue, with its lag
  reveille group list --queue orders
  reveille group list --json | jq '.[] | select(.state == \"Lagging\")'";

const SHOW_EXAMPLES: &str = "\
Examples:
  reveille group show billing               its queues, and the partitions with messages it has not consumed";

const LAGGING_EXAMPLES: &str = "\
Examples:
  reveille group lagging                    partitions in which a message has waited for more than a minute
  reveille group lagging --seconds 600";

const SEEK_EXAMPLES: &str = "\
Examples:
  reveille group seek billing orders --to 2h
                                            deliver the messages of the last two hours again
  reveille group seek billing orders --end  skip everything that waits";

const PAUSE_EXAMPLES: &str = "\
Examples:
  reveille group pause billing orders       its pops find nothing, and wait, until it is resumed";

const RESUME_EXAMPLES: &str = "\
Examples:
  reveille group resume billing orders";

const SUBSCRIBE_EXAMPLES: &str = "\
Examples:
  reveille group subscribe billing 2026-11-01
                                            where the group begins in partitions that it has not read yet";

const DELETE_EXAMPLES: &str = "\
Examples:
  reveille group delete billing             in all queues; shows its lag, and asks
  reveille group delete billing --queue orders --yes
  reveille group delete billing --keep-subscription
                                            begins again where it once began";

/// The commands of `reveille group`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List consumer groups with their lag
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Show a consumer group in all its queues
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Show),
    /// List partitions with messages that have waited for long
    #[command(after_help = LAGGING_EXAMPLES)]
    Lagging(Lagging),
    /// Move a consumer group to a time or to the end
    #[command(after_help = SEEK_EXAMPLES)]
    Seek(Seek),
    /// Pause a consumer group of a queue
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(InQueue),
    /// Resume a consumer group of a queue
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(InQueue),
    /// Change where a consumer group begins
    #[command(after_help = SUBSCRIBE_EXAMPLES)]
    Subscribe(Subscribe),
    /// Delete a consumer group
    #[command(after_help = DELETE_EXAMPLES)]
    Delete(Delete),
}

/// `reveille group list`.
#[derive(Debug, Args)]
pub struct List {
    /// Only those of this queue
    #[arg(long, value_name = "NAME")]
    pub queue: Option<String>,
}

/// `reveille group show`.
#[derive(Debug, Args)]
pub struct Show {
    /// The consumer group
    pub group: String,
}

/// `reveille group lagging`.
#[derive(Debug, Args)]
pub struct Lagging {
    /// The shortest wait
    #[arg(long, value_name = "N", default_value = "60")]
    pub seconds: u32,
}

/// `reveille group seek`.
#[derive(Debug, Args)]
pub struct Seek {
    /// The consumer group
    pub group: String,
    /// The queue
    pub queue: String,
    /// Where to.
    #[command(flatten)]
    pub target: SeekTarget,
}

/// `reveille group pause` and `resume`.
#[derive(Debug, Args)]
pub struct InQueue {
    /// The consumer group
    pub group: String,
    /// The queue
    pub queue: String,
}

/// `reveille group subscribe`.
#[derive(Debug, Args)]
pub struct Subscribe {
    /// The consumer group
    pub group: String,
    /// A time, a date, or how long ago
    #[arg(value_name = "TIME", value_parser = crate::terminal::parse_when)]
    pub from: String,
}

/// `reveille group delete`.
#[derive(Debug, Args)]
pub struct Delete {
    /// The consumer group
    pub group: String,
    /// Only in this queue
    #[arg(long, value_name = "NAME")]
    pub queue: Option<String>,
    /// Keep its subscription: it begins again where it once began
    #[arg(long)]
    pub keep_subscription: bool,
    /// Whether to ask.
    #[command(flatten)]
    pub confirmation: Confirmation,
}
