//! `reveille up`: everything on one machine, PostgreSQL included.
//!
//! The private PostgreSQL lives in the data directory and is started and stopped with the server. It is detached from
//! the terminal, so that Ctrl-C reaches only this process, which then shuts down in order. If PostgreSQL exits, it is
//! restarted. A killed `up` leaves PostgreSQL running; the next `up` on that directory attaches to it, and `reveille
//! down` stops it. A second `up` on one directory fails, because the first to end would stop the PostgreSQL of both.
//!
//! The address responds at once, with "starting", while PostgreSQL is downloaded, created and started; signals are
//! handled meanwhile.
//!
//! If root runs it, this process stays root to run PostgreSQL as another user, and the HTTP server is a process of that
//! user ([`server_process`]).

mod browser;
mod postgres;
mod restart;
mod server_process;

use std::fmt::Write as _;

use reveille_pg::embedded::{Cluster, Directory};
use server_process::ServerProcess;

use super::{open, open_configured, owner::Owner};
use crate::{
    config,
    error::Error,
    http::{CONSOLE, Listener, Metrics},
    logging::announce,
    serve::{Server, Settings, answering, site},
    shutdown::Shutdown,
};

/// `reveille up`.
pub(super) async fn run(args: config::Up) -> Result<(), Error> {
    if args.server_process {
        return Box::pin(server_process::run(args)).await;
    }
    let shutdown = Shutdown::on_signals()?;
    let listen = args.server.listen()?;
    let schema = args.database.schema()?;
    let settings = Settings::of(&args.database, &args.server, &args.queue, &args.flow)?.demo(args.demo);
    let tls = args.server.tls()?;
    if args.database.url().is_some() {
        announce("DATABASE_URL is set: using that database, starting no PostgreSQL");
        let database = open_configured(&args.database)?;
        let listener = Listener::bind(listen, args.server.max_connections_per_peer()).await?.secured(tls);
        let site = site(&listener);
        let metrics = Metrics::install()?;
        let server = Server { listener, metrics, database, schema, shutdown, settings };
        return server.run(|| welcome(&args, &site, None)).await;
    }

    let data_dir = args.embedded.data_dir()?;
    // The address first: if it is in use, nothing has been started yet.
    let listener = Listener::bind(listen, args.server.max_connections_per_peer()).await?.secured(tls);
    let site = site(&listener);
    let directory = Directory::open(&data_dir).await?;
    let _owner = Owner::take(&directory)?;
    let mut front = match directory.account() {
        None => Front::Here(Box::new(Here { listener, metrics: Metrics::install()?, schema, settings })),
        Some(account) => Front::ServerProcess(Box::new(ServerProcess::start(account, listener)?)),
    };
    let starting = Box::pin(postgres::start(&args.embedded, directory.path(), &shutdown));
    let cluster = match front.answer_during(starting).await {
        Ok(Some(cluster)) => cluster,
        other => {
            front.end().await;
            other?;
            announce("stopped");
            return Ok(());
        }
    };
    let served = match open(cluster.url(), direct(&args.database)) {
        Err(error) => Err(error),
        Ok(database) => {
            let ready = || welcome(&args, &site, Some(&cluster));
            let serving = front.serve(&cluster, database.clone(), &shutdown, ready);
            Box::pin(restart::keep_running(&cluster, &database, &shutdown, serving)).await
        }
    };
    announce("stopping PostgreSQL");
    let stopped = cluster.stop().await;
    served?;
    stopped?;
    announce("stopped");
    Ok(())
}

/// What serves the address.
enum Front {
    /// This process.
    Here(Box<Here>),
    /// Another one, because this one runs as root.
    ServerProcess(Box<ServerProcess>),
}

/// A server in this process that waits for its database.
struct Here {
    listener: Listener,
    metrics: Metrics,
    schema: reveille_pg::Schema,
    settings: Settings,
}

impl Front {
    /// Serves "starting PostgreSQL" until `starting` is done.
    async fn answer_during<T>(&mut self, starting: impl Future<Output = T>) -> T {
        match self {
            Front::Here(here) => {
                let answering = answering(
                    &here.listener,
                    here.metrics.clone(),
                    &here.settings.allowed_hosts,
                    &here.settings.authentication,
                    None,
                    async |health| {
                        health.starting("starting PostgreSQL");
                        starting.await
                    },
                );
                answering.await
            }
            Front::ServerProcess(_) => starting.await,
        }
    }

    /// Stops serving before the start is complete.
    async fn end(self) {
        if let Front::ServerProcess(mut server_process) = self {
            // Its exit status does not matter.
            let _ = server_process.stop().await;
        }
    }

    /// Serves until a shutdown is requested. Calls `ready` when it is.
    async fn serve(
        self,
        cluster: &Cluster,
        database: reveille_pg::Database,
        shutdown: &Shutdown,
        ready: impl FnOnce(),
    ) -> Result<(), Error> {
        match self {
            Front::Here(here) => {
                let Here { listener, metrics, schema, settings } = *here;
                let server = Server { listener, metrics, database, schema, shutdown: shutdown.clone(), settings };
                server.run(ready).await
            }
            Front::ServerProcess(server_process) => server_process.serve(cluster.url(), shutdown, ready).await,
        }
    }
}

/// The pool options for a private PostgreSQL: without a pooler, whatever the environment says about another database.
fn direct(settings: &config::Database) -> reveille_pg::Options {
    settings.options().pooler(false).listen_url(None)
}

/// Says that the server is ready, and opens the browser if that is wanted.
fn welcome(args: &config::Up, site: &str, cluster: Option<&Cluster>) {
    for line in banner(site, cluster, args.demo).lines() {
        announce(line);
    }
    if args.open {
        browser::open(format!("{site}{CONSOLE}"));
    }
}

/// Where the console is, where the data is, and how to stop.
fn banner(site: &str, cluster: Option<&Cluster>, demo: bool) -> String {
    let mut text = format!("reveille {} is ready\n\n", env!("CARGO_PKG_VERSION"));
    let mut row = |name: &str, what: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "  {name:<11} {what}");
    };
    row("console", format!("{site}{CONSOLE}"));
    row("API", format!("{site}, described in /openapi.json"));
    if let Some(cluster) = cluster {
        row("PostgreSQL", format!("{} on 127.0.0.1:{}, for this server only", cluster.version(), cluster.port()));
        row("its files", cluster.data_dir().display().to_string());
        row("its log", cluster.log_path().display().to_string());
    }
    let demo = if demo { "running, in queues demo.… and the namespace demo" } else { "add --demo to this command" };
    row("demo", demo.to_owned());
    text.push_str(if cluster.is_some() { "\nCtrl-C stops both" } else { "\nCtrl-C stops it" });
    text
}
