//! `reveille config`: the configuration itself.

use clap::{Args, Subcommand};

use super::{Database, Embedded, Flow, Queue, Remote, Server};

const SHOW_EXAMPLES: &str = "\
Examples:
  reveille config show                      every setting with its value and source
  reveille config show --config reveille.toml
                                            … as a command would have them with this file
  reveille config show --json | jq '.settings[] | select(.source != \"default\")'

Flags have the same effect as on other commands, so that a whole command line can be checked. Secrets are masked: of a
URL its user and password, of anything else everything. Exits with 2 if a value is not valid.";

/// The commands of `reveille config`.
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Show every setting with its value and source
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Box<ConfigShow>),
}

/// `reveille config show`. It has the flags of all commands.
#[derive(Debug, Args)]
pub struct ConfigShow {
    /// The private PostgreSQL.
    #[command(flatten)]
    pub embedded: Embedded,
    /// The HTTP server.
    #[command(flatten)]
    pub server: Server,
    /// The queue.
    #[command(flatten)]
    pub queue: Queue,
    /// Task graphs.
    #[command(flatten)]
    pub flow: Flow,
    /// The database.
    #[command(flatten)]
    pub database: Database,
    /// The server of commands.
    #[command(flatten)]
    pub remote: Remote,
}
