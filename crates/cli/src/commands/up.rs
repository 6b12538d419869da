//! `reveille up`: everything on one machine, PostgreSQL included.
//!
//! The private PostgreSQL lives in the data directory and is started and stopped with the server. It runs apart from the
//! terminal, so that Ctrl-C reaches only this process, which then stops things in order. A process that is killed leaves
//! PostgreSQL running; the next `up` on that directory finds it and carries on. Two on one directory at the same time are
//! refused, because the first to end would stop the PostgreSQL of both.
//!
//! The address answers from the first moment, with "starting", while PostgreSQL is downloaded, made and started; and a signal
//! is obeyed meanwhile.

mod postgres;

use std::{net::SocketAddr, path::Path};

use tokio::sync::Notify;

use super::{open, open_given, owner::Owner, say};
use crate::{
    config,
    error::Error,
    http::{Listener, Metrics},
    serve::{Server, Settings, answering},
    shutdown::Shutdown,
};

/// `reveille up`.
pub(super) async fn run(args: config::Up) -> Result<(), Error> {
    let shutdown = Shutdown::on_signals()?;
    let schema = args.database.schema()?;
    let settings = Settings::of(&args.database, &args.server, &args.queue, &args.flow)?;
    if args.database.url().is_some() {
        say("DATABASE_URL is set: using that database, starting no PostgreSQL");
        let database = open_given(&args.database)?;
        let listener = Listener::bind(args.server.listen).await?;
        let address = listener.address();
        let metrics = Metrics::install()?;
        let server = Server { listener, metrics, database, schema, shutdown, settings };
        return server.run(|| say(format_args!("{}\nCtrl-C stops it", greeting(address)))).await;
    }

    let data_dir = args.embedded.data_dir()?;
    // The address first: if it is taken, nothing has been started yet.
    let listener = Listener::bind(args.server.listen).await?;
    let address = listener.address();
    let metrics = Metrics::install()?;
    let starting = Box::pin(own_and_start(&args.embedded, &data_dir, &shutdown));
    let started = answering(&listener, metrics.clone(), async |health| {
        health.starting("starting PostgreSQL");
        starting.await
    });
    let Some((_owner, cluster)) = started.await? else {
        say("stopped");
        return Ok(());
    };
    // The way to a private PostgreSQL is direct, whatever the environment says about another database.
    let options = pg::Options { pooler: false, listen_url: None, ..args.database.options() };
    let served = match open(cluster.url(), options) {
        Err(error) => Err(error),
        Ok(database) => {
            let database_of_server = database.clone();
            let server = Server { listener, metrics, database: database_of_server, schema, shutdown, settings };
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

/// Takes the data directory and starts its PostgreSQL; `None` if a signal ended that.
///
/// A directory that had an owner before is taken before anything is done. In a new one that is too early, because it may turn
/// out to be somebody else's; of two that start in it at once, the one that comes too late has merely connected to what the
/// other will stop.
async fn own_and_start(
    settings: &config::Embedded,
    data_dir: &Path,
    shutdown: &Shutdown,
) -> Result<Option<(Owner, pg::embedded::Cluster)>, Error> {
    let before = Owner::take_again(data_dir)?;
    let Some(cluster) = postgres::start(settings, data_dir, shutdown).await? else { return Ok(None) };
    let owner = match before {
        Some(owner) => owner,
        None => Owner::take(data_dir)?,
    };
    Ok(Some((owner, cluster)))
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
