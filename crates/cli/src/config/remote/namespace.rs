//! `reveille namespace`.

use clap::{Args, Subcommand};

const LIST_EXAMPLES: &str = "\
Examples:
  reveille namespace list                   every namespace of task graphs with its mode";

const SHOW_EXAMPLES: &str = "\
Examples:
  reveille namespace show shop              its settings and its limits";

const SET_EXAMPLES: &str = "\
Examples:
  reveille namespace set shop --mode polling --poll-ms 5000
  reveille namespace set shop --retention-seconds 604800 --description 'orders and returns'

Creates the namespace if it does not exist. Settings that are not given stay as they are.";

const LIMIT_EXAMPLES: &str = "\
Examples:
  reveille namespace limit shop 20          at most 20 steps of the namespace run at a time
  reveille namespace limit shop 2 --step charge
  reveille namespace limit shop none --step charge
                                            removes that limit";

/// The commands of `reveille namespace`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the namespaces of task graphs
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Show the settings and limits of a namespace
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Show),
    /// Create a namespace, or change its settings
    #[command(after_help = SET_EXAMPLES)]
    Set(Set),
    /// Limit how many steps run at a time
    #[command(after_help = LIMIT_EXAMPLES)]
    Limit(Limit),
}

/// `reveille namespace show`.
#[derive(Debug, Args)]
pub struct Show {
    /// Its name
    pub namespace: String,
}

/// `reveille namespace set`.
#[derive(Debug, Args)]
pub struct Set {
    /// Its name
    pub namespace: String,
    /// A namespace template with the first settings of a new namespace
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// How its steps are found
    #[arg(long, value_name = "MODE", value_parser = ["event_driven", "polling", "shadow"])]
    pub mode: Option<String>,
    /// Time between two polls in mode `polling`, in milliseconds
    #[arg(long, value_name = "N")]
    pub poll_ms: Option<u64>,
    /// Whether what was missed is found by polling
    #[arg(long, value_name = "BOOL")]
    pub fallback_enabled: Option<bool>,
    /// What hands steps to workers
    #[arg(long, value_name = "NAME", value_parser = ["table", "pgmq", "rabbitmq"])]
    pub provider: Option<String>,
    /// Whether ready steps are announced by NOTIFY
    #[arg(long, value_name = "BOOL")]
    pub announces: Option<bool>,
    /// Seconds after which complete tasks are deleted, or `none`
    #[arg(long, value_name = "N", value_parser = parse_number)]
    pub retention_seconds: Option<NumberOrNone>,
    /// Seconds after which failed tasks are deleted, or `none`
    #[arg(long, value_name = "N", value_parser = parse_number)]
    pub failed_retention_seconds: Option<NumberOrNone>,
}

/// `reveille namespace limit`.
#[derive(Debug, Args)]
pub struct Limit {
    /// The namespace
    pub namespace: String,
    /// How many, or `none`
    #[arg(value_name = "N", value_parser = parse_number)]
    pub limit: NumberOrNone,
    /// Only steps of this name
    #[arg(long, value_name = "NAME")]
    pub step: Option<String>,
}

/// A number, or `none`.
#[derive(Clone, Copy, Debug)]
pub struct NumberOrNone(pub Option<u64>);

fn parse_number(text: &str) -> Result<NumberOrNone, String> {
    if text == "none" {
        return Ok(NumberOrNone(None));
    }
    let number = text.parse().map_err(|_| "must be a number or `none`")?;
    Ok(NumberOrNone(Some(number)))
}
