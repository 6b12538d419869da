//! `reveille serve`, and the running server that `up` shares with it.
//!
//! The server answers before it can work: the address is bound and `/health` says why it is not ready while the database is
//! still away, being migrated, or starting. What time can heal is waited for, without end; what it cannot (a schema newer
//! than this binary, a wrong password) ends the process with the reason.
//!
//! The end is in order: not ready, then no new connections, then whoever waits is answered, then the requests under way, then the
//! products, then the pool.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use pg::{Schema, retry::Backoff, within};
use tokio::{
    sync::{oneshot, watch},
    time::{sleep, timeout},
};

use crate::{
    commands::{open_configured, say},
    config,
    database_check::{CapacityCheck, DatabaseCheck},
    error::{Error, explain},
    http::{App, Check, Health, Listener, Metrics, health_routes},
    products::{self, Products},
    shutdown::Shutdown,
};

/// The pauses between attempts to reach a database at start: soon after it comes up, and no burden while it is down.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long the pool may take to close. Its connections are idle by then; a server that does not say goodbye is not waited for.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// How long the look at the schema may take that comes before any change to it: a handful of small statements.
const PLAN_WITHIN: Duration = Duration::from_secs(10);

/// How long bringing the schema up to date may take before the connection is taken for lost: more than the wait for another
/// process that is doing the same, and more than a step should take at a start. One that takes longer is a case for
/// `reveille migrate`, which waits for as long as it takes.
const MIGRATE_WITHIN: Duration = Duration::from_secs(60 * 60);

/// `reveille serve`.
pub(crate) async fn run(args: config::Serve) -> Result<(), Error> {
    let shutdown = Shutdown::on_signals()?;
    let listen = args.server.listen()?;
    let database = open_configured(&args.database)?;
    let schema = args.database.schema()?;
    let listener = Listener::bind(listen, args.server.max_connections_per_peer()).await?;
    let metrics = Metrics::install()?;
    say(format_args!("reveille {} listens on http://{}", env!("CARGO_PKG_VERSION"), listener.address()));
    let settings = Settings::of(&args.database, &args.server, &args.queue, &args.flow)?;
    let server = Server { listener, metrics, database, schema, shutdown, settings };
    server.run(|| say("ready")).await
}

/// Takes the address for health and metrics, if there is to be one.
async fn bind_health(address: Option<SocketAddr>) -> Result<Option<Listener>, Error> {
    let Some(address) = address else { return Ok(None) };
    let listener = Listener::bind_health(address).await?;
    say(format_args!("health and metrics on {}", listener.address()));
    Ok(Some(listener))
}

/// How a server is set up.
pub(crate) struct Settings {
    /// How many connections the database may open.
    pool_size: u32,
    shutdown_delay: Duration,
    max_body_bytes: usize,
    /// How many queues, groups and namespaces have metrics of their own.
    metrics_top: u32,
    /// By which names clients may call the server.
    pub(crate) allowed_hosts: Vec<String>,
    /// Where health and metrics are answered beside everything.
    health_listen: Option<SocketAddr>,
    products: products::Settings,
}

impl Settings {
    /// As configured, or which setting cannot be used.
    pub(crate) fn of(
        database: &config::Database,
        server: &config::Server,
        queue: &config::Queue,
        flow: &config::Flow,
    ) -> Result<Self, Error> {
        let max_body_bytes = server.max_body_bytes();
        let products =
            products::Settings { queue: queue.options()?, retention: queue.retention(), flow: flow.options()? };
        let (pool_size, shutdown_delay) = (database.pool_size(), server.shutdown_delay);
        let (metrics_top, health_listen) = (server.metrics_top, server.health_listen);
        let allowed_hosts = server.allowed_hosts.clone();
        Ok(Self { pool_size, shutdown_delay, max_body_bytes, metrics_top, allowed_hosts, health_listen, products })
    }
}

/// A server that is about to run.
pub(crate) struct Server {
    pub(crate) listener: Listener,
    pub(crate) metrics: Metrics,
    pub(crate) database: pg::Database,
    pub(crate) schema: Schema,
    pub(crate) shutdown: Shutdown,
    pub(crate) settings: Settings,
}

impl Server {
    /// Runs until a signal has ended it, or until it turns out that it cannot work. Calls `ready` once, when it can.
    pub(crate) async fn run(self, ready: impl FnOnce()) -> Result<(), Error> {
        let database = self.database.clone();
        let folding = tokio::spawn(self.metrics.clone().fold());
        let served = self.prepare_and_serve(ready).await;
        folding.abort();
        if timeout(CLOSE_WITHIN, database.close()).await.is_err() {
            tracing::warn!("the database did not say goodbye in time: leaving");
        }
        served
    }

    async fn prepare_and_serve(self, ready: impl FnOnce()) -> Result<(), Error> {
        let Server { listener, metrics, database, schema, shutdown, settings } = self;
        let Settings { pool_size, shutdown_delay, max_body_bytes, metrics_top, allowed_hosts, .. } = settings;
        let (products, probed) = (settings.products, bind_health(settings.health_listen).await?);
        // No product runs until its tables exist: none asks for a table that is not there yet.
        let prepared =
            answering(&listener, metrics.clone(), &allowed_hosts, probed.as_ref(), async |health: &Health| {
                tokio::select! {
                    prepared = prepare(&database, &schema, health) => prepared.map(|()| true),
                    () = shutdown.requested() => Ok(false),
                }
            });
        if !prepared.await? {
            return Ok(());
        }

        let products = Products::start(&database, &schema, products);
        metrics.collect(Arc::new(products.statistics(&database, metrics_top)));
        let reachable: Arc<dyn Check> = Arc::new(DatabaseCheck { database: database.observer(), pool_size });
        let writable = Arc::new(CapacityCheck { database: database.observer() });
        let app = App::new(metrics.clone())
            .max_body(max_body_bytes)
            .allowed_hosts(&allowed_hosts)
            .mount(Router::new(), [reachable, writable])
            .mount(products.routes(max_body_bytes), products.checks());
        let (routes, health) = app.build();
        let probed = probed.map(|listener| {
            let routes = health_routes(&health, metrics);
            tokio::spawn(async move { listener.serve(routes, std::future::pending()).await })
        });
        let (stop_accepting, stopped) = oneshot::channel::<()>();
        let http = tokio::spawn(listener.serve(routes, async { stopped.await.unwrap_or_default() }));
        health.started();
        ready();
        shutdown.requested().await;

        health.stopping();
        sleep(shutdown_delay).await;
        let _ = stop_accepting.send(());
        // Whoever waits is answered now; the others are waited for.
        let _ = tokio::join!(http, products.close());
        // Health is answered to the last: "stopping" is an answer, too.
        probed.inspect(tokio::task::JoinHandle::abort);
        products.stop().await;
        Ok(())
    }
}

/// Answers on the address that the process is starting, and why it is not ready, until `start` is done.
///
/// # Cancel safety
/// Dropping it drops `start`, and cuts the connections.
pub(crate) async fn answering<T>(
    listener: &Listener,
    metrics: Metrics,
    allowed_hosts: &[String],
    probed: Option<&Listener>,
    start: impl AsyncFnOnce(&Health) -> T,
) -> T {
    let (routes, health) = App::new(metrics.clone()).allowed_hosts(allowed_hosts).build();
    let (stop, mut stopped) = watch::channel(false);
    let mut stopped_too = stopped.clone();
    let starting = async {
        let started = start(&health).await;
        stop.send_replace(true);
        started
    };
    let serving = listener.serve_for_now(routes, async { drop(stopped.wait_for(|stopped| *stopped).await) });
    let probing = async {
        let routes = health_routes(&health, metrics);
        let listener = probed?;
        Some(listener.serve_for_now(routes, async { drop(stopped_too.wait_for(|stopped| *stopped).await) }).await)
    };
    let (open, probes, started) = tokio::join!(serving, probing, starting);
    // Answers under way are short; the next ones come from the whole server.
    for open in std::iter::once(open).chain(probes) {
        tokio::spawn(open.drain());
    }
    started
}

/// Migrates as soon as the database can be reached. Fails only if waiting would not help.
///
/// # Cancel safety
/// Dropping it rolls a migration under way back.
async fn prepare(database: &pg::Database, schema: &Schema, health: &Health) -> Result<(), Error> {
    let migrator = products::migrator(schema);
    health.starting("waiting for the database");
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    let mut logged = String::new();
    loop {
        match migrate(&migrator, database).await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_transient() => {
                let reason = explain(&error);
                // Once per reason: a database that is away for an hour is one piece of news.
                if reason != logged {
                    tracing::warn!(error = reason, "the database is not usable yet: trying again");
                    logged = reason;
                }
                sleep(backoff.pause()).await;
            }
            Err(error) => return Err(Error::database("preparing the database", error)),
        }
    }
}

/// Applies what is missing. Most starts find nothing to do: only the others are given the time that a migration may need.
async fn migrate(migrator: &pg::Migrator, database: &pg::Database) -> pg::Result<()> {
    // The pool would wait for a server that refuses connections. This says at once what is wrong.
    database.check().await?;
    if within(PLAN_WITHIN, migrator.plan(database)).await?.is_empty() {
        return Ok(());
    }
    within(MIGRATE_WITHIN, migrator.run(database)).await.map(drop)
}
