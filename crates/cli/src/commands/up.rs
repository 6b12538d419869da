//! `reveille up`: everything on one machine, PostgreSQL included.
//!
//! The private PostgreSQL lives in the data directory and is started and stopped with the server. It runs apart from the
//! terminal, so that Ctrl-C reaches only this process, which then stops things in order. If PostgreSQL ends by itself, it is
//! started again. A process that is killed leaves PostgreSQL running; the next `up` on that directory finds it and carries
//! on, and `reveille down` stops it. Two on one directory at the same time are refused, because the first to end would stop
//! the PostgreSQL of both.
//!
//! The address answers from the first moment, with "starting", while PostgreSQL is downloaded, made and started; and a signal
//! is obeyed meanwhile.
//!
//! When root runs it, this process keeps root to run PostgreSQL as another user, and the HTTP server is a process of that user
//! ([`apart`]).

mod postgres;
mod restart;
mod server_process;

use std::net::SocketAddr;

use pg::embedded::{Cluster, Directory};
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
    // The address first: if it is taken, nothing has been started yet.
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

/// What answers on the address.
enum Front {
    /// This process.
    Here(Box<Here>),
    /// Another one, because this one is root's.
    ServerProcess(Box<ServerProcess>),
}

/// A server in this process that waits for its database.
struct Here {
    listener: Listener,
    metrics: Metrics,
    schema: pg::Schema,
    settings: Settings,
}

impl Front {
    /// Answers that PostgreSQL is being started, until `starting` is done.
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

    /// Ends what answers, when there is nothing to serve.
    async fn end(self) {
        if let Front::ServerProcess(mut server_process) = self {
            // However it ends, there is nothing left to do for it.
            let _ = server_process.stop().await;
        }
    }

    /// Serves until a stop is requested. Calls `ready` when it can work.
    async fn serve(
        self,
        cluster: &Cluster,
        database: pg::Database,
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

/// The options of a private PostgreSQL's pool. The way to it is direct, whatever the environment says about another database.
fn direct(settings: &config::Database) -> pg::Options {
    pg::Options { pooler: false, listen_url: None, ..settings.options() }
}

/// What is ready, and where to look at it.
fn greeting(address: SocketAddr) -> String {
    format!(
        "reveille {} is ready\n  \
           server      http://{address}\n  \
           health      http://{address}/health\n  \
           metrics     http://{address}/metrics",
        env!("CARGO_PKG_VERSION")
    )
}

/// What runs, where it keeps its things, and how it ends.
fn banner(cluster: &pg::embedded::Cluster, address: SocketAddr) -> String {
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
