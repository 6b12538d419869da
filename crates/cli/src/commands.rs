//! One module per command.

mod changes;
mod completions;
mod config_show;
mod demo;
mod dlq;
mod doctor;
mod down;
mod durable;
mod group;
mod input;
mod migrate;
mod namespace;
mod owner;
mod psql;
mod queue;
mod remote;
mod schedule;
mod task;
mod template;
mod token;
mod top;
mod up;
mod worker;

use std::io::Write as _;

use crate::{
    config::{Cli, Command, Config, Database, Server},
    error::Error,
    logging, serve,
    telemetry::Exporter,
};

/// Runs the command.
pub async fn run(cli: Cli) -> Result<(), Error> {
    let server = match &cli.command {
        Command::Up(args) => Some(&args.server),
        Command::Serve(args) => Some(&args.server),
        _ => None,
    };
    let Some(collector) = server.map(Server::collector).transpose()?.flatten() else {
        logging::start(&cli.log, cli.log_format, None)?;
        return Box::pin(run_logged(cli)).await;
    };
    let (exporter, collected, telemetry) = Exporter::new(collector);
    logging::start(&cli.log, cli.log_format, Some(collected))?;
    tokio::spawn(exporter.run());
    let done = Box::pin(run_logged(cli)).await;
    telemetry.flush().await;
    done
}

/// Runs the command. The log has been started.
async fn run_logged(cli: Cli) -> Result<(), Error> {
    if let Some(file) = &cli.exposed_file {
        tracing::warn!(file = %file.display(), "the configuration file has a secret and is readable by every user: chmod 600");
    }
    match cli.command {
        Command::Up(args) => Box::pin(up::run(args)).await,
        Command::Down(args) => down::run(args).await,
        Command::Psql(args) => psql::run(args).await,
        Command::Serve(args) => Box::pin(serve::run(args)).await,
        Command::Migrate(args) => migrate::run(args).await,
        Command::Doctor(args) => Box::pin(doctor::run(args)).await,
        Command::Remote(noun) => remote::ended(Box::pin(remote::run(noun)).await),
        Command::Completions(args) => remote::ended(completions::run(&args)),
        Command::Demo(args) => remote::ended(Box::pin(demo::run(&args)).await),
        Command::Config { command: Config::Show(args) } => remote::ended(config_show::run(&args, &cli.settings)),
        Command::Durable { remote, command } => remote::ended(durable::run(&remote, command).await),
    }
}

/// Prints a line to standard output. A closed standard output is ignored.
pub(crate) fn say(text: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// The configured database, not yet connected.
pub(crate) fn open_configured(settings: &Database) -> Result<reveille_pg::Database, Error> {
    let url = settings.url().ok_or(Error::NoDatabase)?;
    open(url.reveal(), settings.options())
}

/// The database at `url`, not yet connected.
fn open(url: &str, options: reveille_pg::Options) -> Result<reveille_pg::Database, Error> {
    reveille_pg::Database::connect_lazy(url, options).map_err(|error| Error::database("opening the database", error))
}
