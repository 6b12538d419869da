//! Where a consumer group is moved to.

use clap::Args;

use crate::terminal::parse_when;

/// A position.
#[derive(Debug, Args)]
pub struct SeekTarget {
    /// To the first message pushed at this time or later: a time, a date, or how long ago
    #[arg(long, value_name = "TIME", value_parser = parse_when, required_unless_present = "end", conflicts_with = "end")]
    pub to: Option<String>,
    /// To the end: skip everything that waits
    #[arg(long)]
    pub end: bool,
    /// Only in this partition
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
}
