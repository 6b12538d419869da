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

mod postgres;
mod restart;
mod server_process;

use std::net::SocketAddr;

use reveille_pg::embedded::{Cluster, Directory};
use server_process::ServerProcess;

use super::{open, open_configured, owner::Owner, say};
use crate::{
    config,
    error::Error,
    http::{Listener, Metrics},
    serve::{Server, Settings, answering},
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
    let settings = Settings::of(&args.database, &args.server, &args.queue, &args.flow)?;
    if args.database.url().is_some() {
        say("DATABASE_URL is set: using that database, starting no PostgreSQL");
        let database = open_configured(&args.database)?;
        let listener = Listener::bind(listen, args.server.max_connections_per_peer()).await?;
        let address = listener.address();
        let metrics = Metrics::install()?;
        let server = Server { listener, metrics, database, schema, shutdown, settings };
        return server.run(|| say(format_args!("{}\nCtrl-C stops it", greeting(address)))).await;
    }

    let data_dir = args.embedded.data_dir()?;
    // The address first: if it is in use, nothing has been started yet.
    let listener = Listener::bind(listen, args.server.max_connections_per_peer()).await?;
    let address = listener.address();
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
            say("stopped");
            return Ok(());
        }
    };
    let served = match open(cluster.url(), direct(&args.database)) {
        Err(error) => Err(error),
        Ok(database) => {
            let serving = front.serve(&cluster, database.clone(), &shutdown, || say(banner(&cluster, address)));
            Box::pin(restart::keep_running(&cluster, &database, &shutdown, serving)).await
        }
    };
    say("stopping PostgreSQL");
    let stopped = cluster.stop().await;
    served?;
    stopped?;
    say("stopped");
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

/// The version and the URLs of the server.
fn greeting(address: SocketAddr) -> String {
    format!(
        "reveille {} is ready\n  \
           server      http://{address}\n  \
           health      http://{address}/health\n  \
           metrics     http://{address}/metrics",
        env!("CARGO_PKG_VERSION")
    )
}

/// The URLs, PostgreSQL, its files, and how to stop.
fn banner(cluster: &reveille_pg::embedded::Cluster, address: SocketAddr) -> String {
    format!(
        "{}\n  \
           PostgreSQL  {} on 127.0.0.1:{}, for this data directory only\n  \
           programs    {}\n  \
           data        {}\n  \
           log         {}\n\
         Ctrl-C stops both",
        greeting(address),
        cluster.version(),
        cluster.port(),
        cluster.installation().bin.display(),
        cluster.data_dir().display(),
        cluster.log_path().display(),
    )
}
