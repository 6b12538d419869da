//! `reveille up`: everything on one machine, PostgreSQL included.
//!
//! The private PostgreSQL lives in the data directory and is started and stopped with the server. It runs apart from the
//! terminal, so that Ctrl-C reaches only this process, which then stops things in order. A process that is killed leaves
//! PostgreSQL running; the next `up` on that directory finds it and carries on.

mod postgres;

use std::net::SocketAddr;

use tokio::sync::Notify;

use super::{open, open_given, say};
use crate::{config, error::Error, http::Listener, serve::Server, shutdown::Shutdown};

/// `reveille up`.
pub(super) async fn run(args: config::Up) -> Result<(), Error> {
    let shutdown = Shutdown::on_signals()?;
    let schema = args.database.schema()?;
    let shutdown_delay = args.server.shutdown_delay;
    if args.database.url().is_some() {
        say("DATABASE_URL is set: using that database, starting no PostgreSQL");
        let database = open_given(&args.database)?;
        let listener = Listener::bind(args.server.listen).await?;
        let address = listener.address();
        let server = Server { listener, database, schema, shutdown, shutdown_delay };
        return server.run(|| say(format_args!("{}\nCtrl-C stops it", greeting(address)))).await;
    }

    let data_dir = args.embedded.data_dir()?;
    // The address first: if it is taken, nothing has been started yet.
    let listener = Listener::bind(args.server.listen).await?;
    let address = listener.address();
    let cluster = postgres::start(&args.embedded, data_dir).await?;
    // The way to a private PostgreSQL is direct, whatever the environment says about another database.
    let options = pg::Options { pooler: false, listen_url: None, ..args.database.options() };
    let served = match open(cluster.url(), options) {
        Err(error) => Err(error),
        Ok(database) => {
            let server = Server { listener, database: database.clone(), schema, shutdown, shutdown_delay };
            let done = Notify::new();
            let serving = async {
                let served = server.run(|| say(banner(&cluster, address))).await;
                done.notify_one();
                served
            };
            tokio::join!(serving, postgres::watch(&cluster, &database, done.notified())).0
        }
    };
    say("stopping PostgreSQL");
    let stopped = cluster.stop().await;
    served?;
    stopped?;
    say("stopped");
    Ok(())
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
