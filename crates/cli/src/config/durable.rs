//! `reveille durable`: what can be asked of the durable product from a command line.

use clap::{Args, Subcommand};

use super::Database;
use crate::error::Error;

const IMPORT_EXAMPLES: &str = "\
Examples:
  reveille durable import --from duroxide --dry-run
                                            count, and say what stands in the way
  reveille durable import --from duroxide   carry everything over into the schema `reveille`
  reveille durable import --from public --to durable
                                            … from the default schema of duroxide-pg into another

Stop every runtime on the old schema first, and do not start one again: afterwards the orchestrations go on in the new one.
Nothing in the old schema is changed. Both are in the database that DATABASE_URL names. It goes by batches: if it breaks
off, call it again and it goes on. Read by this program: duroxide-pg 0.1.38 and duroxide-pg-opt 0.1.28, and others with
the same tables.";

/// The commands of `reveille durable`.
#[derive(Debug, Subcommand)]
pub enum Durable {
    /// Carry everything over from a schema of duroxide-pg: instances, histories, queues
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(Import),
}

/// `reveille durable import`.
#[derive(Debug, Args)]
pub struct Import {
    /// Schema of duroxide-pg, or duroxide-pg-opt, to read
    #[arg(long, value_name = "NAME")]
    pub from: String,
    /// Schema to carry it into; made if it is missing [default: --schema]
    #[arg(long, value_name = "NAME")]
    to: Option<String>,
    /// Count and check, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The database.
    #[command(flatten)]
    pub database: Database,
}

impl Import {
    /// The schema to carry everything into, or why its name cannot be one.
    pub fn target(&self) -> Result<pg::Schema, Error> {
        match &self.to {
            None => self.database.schema(),
            Some(name) => {
                pg::Schema::new(name).map_err(|source| Error::Setting { key: "--to", source: Box::new(source) })
            }
        }
    }
}
