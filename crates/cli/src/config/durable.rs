//! `reveille durable`: commands for orchestrations.

mod remote;

use clap::{Args, Subcommand};

pub use remote::{
    CancelInstance, DeleteInstance, HistoryOf, ListInstances, PruneInstances, RaiseEvent, ShowInstance, StartInstance,
};

use super::Database;
use crate::error::Error;

const IMPORT_EXAMPLES: &str = "\
Examples:
  reveille durable import --from duroxide --dry-run
                                            count, and report obstacles
  reveille durable import --from duroxide   import everything into the schema `reveille`
  reveille durable import --from public --to durable
                                            … from the default schema of duroxide-pg into another

Stop every runtime on the old schema first, and do not start one again: the orchestrations continue in the new schema.
The old schema is not changed. Both schemas are in the database of DATABASE_URL. The import runs in batches: if it is
interrupted, run it again to continue. Supported: duroxide-pg 0.1.38, duroxide-pg-opt 0.1.28, and other versions with
the same tables.";

/// The commands of `reveille durable`.
#[derive(Debug, Subcommand)]
pub enum Durable {
    /// List instances, newest first
    #[command(after_help = remote::LIST_EXAMPLES)]
    List(ListInstances),
    /// Show an instance: its state, and why it is not running
    #[command(after_help = remote::SHOW_EXAMPLES)]
    Show(ShowInstance),
    /// Show the history of an instance as a timeline
    #[command(after_help = remote::HISTORY_EXAMPLES)]
    History(HistoryOf),
    /// Start an instance; repeating it changes nothing
    #[command(after_help = remote::START_EXAMPLES)]
    Start(StartInstance),
    /// Raise an event for an instance
    #[command(after_help = remote::RAISE_EXAMPLES)]
    Raise(RaiseEvent),
    /// Ask an instance to end
    #[command(after_help = remote::CANCEL_EXAMPLES)]
    Cancel(CancelInstance),
    /// Delete an instance with its sub-orchestrations
    #[command(after_help = remote::DELETE_EXAMPLES)]
    Delete(DeleteInstance),
    /// Delete ended instances, or old executions of instances that continue as new
    #[command(after_help = remote::PRUNE_EXAMPLES)]
    Prune(PruneInstances),
    /// Import everything from a schema of duroxide-pg: instances, histories, queues
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(Import),
}

/// `reveille durable import`.
#[derive(Debug, Args)]
pub struct Import {
    /// Source schema, of duroxide-pg or duroxide-pg-opt
    #[arg(long, value_name = "NAME")]
    pub from: String,
    /// Target schema; created if it does not exist [default: --schema]
    #[arg(long, value_name = "NAME")]
    to: Option<String>,
    /// Count and check without changing anything
    #[arg(long)]
    pub dry_run: bool,
    /// The database.
    #[command(flatten)]
    pub database: Database,
}

impl Import {
    /// The target schema.
    ///
    /// # Errors
    /// If the name is not valid.
    pub fn target(&self) -> Result<reveille_pg::Schema, Error> {
        match &self.to {
            None => self.database.schema(),
            Some(name) => reveille_pg::Schema::new(name)
                .map_err(|source| Error::Setting { key: "--to", source: Box::new(source) }),
        }
    }
}
