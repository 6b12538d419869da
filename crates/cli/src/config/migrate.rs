//! `reveille migrate`.

use clap::Args;

use super::Database;

pub(super) const EXAMPLES: &str = "\
Examples:
  reveille migrate                          bring the schema up to date
  reveille migrate --dry-run                list pending migrations
  reveille migrate --dump > reveille.sql    print the whole schema as SQL; needs no database
  reveille migrate --verify                 exit with 1 if migrations are pending
  reveille migrate --roles                  … and let the role reveille_serve serve, but change nothing else
  reveille migrate --roles=queue_server --print
                                            print the rights of another role as SQL";

/// `reveille migrate`.
#[derive(Debug, Args)]
pub struct Migrate {
    /// List pending migrations without applying them
    #[arg(long, group = "instead")]
    pub dry_run: bool,
    /// Print the whole schema as SQL; needs no database
    #[arg(long, group = "instead")]
    pub dump: bool,
    /// Exit with 1 if the schema is not up to date, without changing it
    #[arg(long, group = "instead")]
    pub verify: bool,
    /// Then give a role just the rights that a server needs; creates it, without a login, if it does not exist
    #[arg(long, value_name = "ROLE", num_args = 0..=1, require_equals = true, default_missing_value = "reveille_serve",
          conflicts_with = "instead")]
    pub roles: Option<String>,
    /// With --roles: only print these rights as SQL; needs no database
    #[arg(long, requires = "roles")]
    pub print: bool,
    /// The database.
    #[command(flatten)]
    pub database: Database,
}
