//! `reveille worker`.

use clap::{Args, Subcommand};

const LIST_EXAMPLES: &str = "\
Examples:
  reveille worker list                      every worker: what it waits for, and the steps that it holds
  reveille worker list --step charge        is there one for this step?
  reveille worker list --json | jq -r '.workers[].worker'";

/// The commands of `reveille worker`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the workers of task graphs
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
}

/// `reveille worker list`.
#[derive(Debug, Args)]
pub struct List {
    /// That claim from this namespace, or hold a step of it
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// That claim or hold a step with this name
    #[arg(long, value_name = "NAME")]
    pub step: Option<String>,
}
