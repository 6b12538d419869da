//! `reveille serve`, and the running server that `up` shares with it.
//!
//! The address is bound at once: while the database is starting, unreachable or being migrated, `/health` reports why
//! the server is not ready. Transient errors are retried without limit; permanent ones (a schema newer than this
//! binary, a wrong password) end the process with the reason.
//!
//! Shutdown order: not ready, no new connections, responses to waiting clients, requests in progress, products, pool.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{Router, middleware::from_fn};
use reveille_pg::{Schema, migrate::Step, retry::Backoff, within};
use tokio::{
    sync::{oneshot, watch},
    time::{sleep, timeout},
};

use crate::{
    client::Client,
    commands::open_configured,
    config,
    database_check::{CapacityCheck, DatabaseCheck},
    demo::Demo,
    error::{Error, explain},
    http::{App, Authentication, CONSOLE, Check, Health, Listener, Metrics, health_routes, login_required},
    logging::announce,
    products::{self, Products},
    shutdown::Shutdown,
    telemetry,
};

/// The pauses between attempts to connect at start: short at first, and no burden while the database is down.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long the pool may take to close. Its connections are idle by then.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// How long planning a migration may take: a handful of small statements.
const PLAN_WITHIN: Duration = Duration::from_secs(10);

/// How long a migration may take before the connection counts as lost: more than waiting for another process that
/// migrates, and more than a step should take at a start. `reveille migrate` has no such limit.
const MIGRATE_WITHIN: Duration = Duration::from_secs(60 * 60);

/// `reveille serve`.
pub(crate) async fn run(args: config::Serve) -> Result<(), Error> {
    let shutdown = Shutdown::on_signals()?;
    let listen = args.server.listen()?;
    let database = open_configured(&args.database)?;
    let schema = args.database.schema()?;
    let tls = args.server.tls()?;
    let listener = Listener::bind(listen, args.server.max_connections_per_peer()).await?.secured(tls);
    let metrics = Metrics::install()?;
    let (version, scheme, address) = (env!("CARGO_PKG_VERSION"), scheme(&listener), listener.address());
    let site = site(&listener);
    announce(format_args!("reveille {version} listens on {scheme}://{address}"));
    let settings = Settings::of(&args.database, &args.server, &args.queue, &args.flow)?;
    let server = Server { listener, metrics, database, schema, shutdown, settings };
    server.run(|| announce(format_args!("ready: the console is at {site}{CONSOLE}"))).await
}

/// The address of a server as a client of this machine uses it.
pub(crate) fn site(listener: &Listener) -> String {
    let listening = listener.address();
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("{}://{}", scheme(listener), SocketAddr::new(ip, listening.port()))
}

fn scheme(listener: &Listener) -> &'static str {
    if listener.is_secure() { "https" } else { "http" }
}

/// Binds the address for health and metrics, if configured.
async fn bind_health(address: Option<SocketAddr>) -> Result<Option<Listener>, Error> {
    let Some(address) = address else { return Ok(None) };
    let listener = Listener::bind_health(address).await?;
    announce(format_args!("health and metrics on {}", listener.address()));
    Ok(Some(listener))
}

/// The settings of a server.
pub(crate) struct Settings {
    /// The size of the pool.
    pool_size: u32,
    shutdown_delay: Duration,
    max_body_bytes: usize,
    /// How many queues, groups and namespaces have metrics of their own.
    metrics_top: u32,
    /// Whether the console may only read.
    console_read_only: bool,
    /// Additional host names that requests may use.
    pub(crate) allowed_hosts: Vec<String>,
    /// How requests are authenticated, without the tokens of the database.
    pub(crate) authentication: Authentication,
    /// A second address for health and metrics.
    health_listen: Option<SocketAddr>,
    products: products::Settings,
    /// Whether a demo runs.
    demo: bool,
    /// Where metrics are sent.
    collector: Option<Client>,
}

impl Settings {
    /// Collects the settings.
    ///
    /// # Errors
    /// The setting that is not valid.
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
        let (allowed_hosts, authentication) = (server.allowed_hosts.clone(), server.authentication()?);
        let (demo, collector) = (false, server.collector()?);
        Ok(Self {
            pool_size,
            shutdown_delay,
            max_body_bytes,
            metrics_top,
            console_read_only: server.console_read_only,
            allowed_hosts,
            authentication,
            health_listen,
            products,
            demo,
            collector,
        })
    }

    /// The same with a demo, or without.
    pub(crate) fn demo(self, demo: bool) -> Self {
        Self { demo, ..self }
    }
}

/// A server that is about to run.
pub(crate) struct Server {
    pub(crate) listener: Listener,
    pub(crate) metrics: Metrics,
    pub(crate) database: reveille_pg::Database,
    pub(crate) schema: Schema,
    pub(crate) shutdown: Shutdown,
    pub(crate) settings: Settings,
}

impl Server {
    /// Runs until a shutdown is requested or a permanent error occurs. Calls `ready` once, when it is.
    pub(crate) async fn run(self, ready: impl FnOnce()) -> Result<(), Error> {
        let database = self.database.clone();
        let folding = tokio::spawn(self.metrics.clone().fold());
        let collector = self.settings.collector.clone();
        let exporting = collector.map(|client| tokio::spawn(telemetry::export_metrics(client, self.metrics.clone())));
        let served = self.prepare_and_serve(ready).await;
        folding.abort();
        exporting.inspect(tokio::task::JoinHandle::abort);
        if timeout(CLOSE_WITHIN, database.close()).await.is_err() {
            tracing::warn!("the connections to the database did not close in time");
        }
        served
    }

    async fn prepare_and_serve(self, ready: impl FnOnce()) -> Result<(), Error> {
        let Server { listener, metrics, database, schema, shutdown, settings } = self;
        let Settings { pool_size, shutdown_delay, max_body_bytes, metrics_top, allowed_hosts, authentication, .. } =
            settings;
        let read_only = settings.console_read_only;
        let site = site(&listener);
        let (products, probed) = (settings.products, bind_health(settings.health_listen).await?);
        // No product runs until its tables exist.
        let prepared = answering(
            &listener,
            metrics.clone(),
            &allowed_hosts,
            &authentication,
            probed.as_ref(),
            async |health: &Health| {
                tokio::select! {
                    prepared = prepare(&database, &schema, health) => prepared.map(|()| true),
                    () = shutdown.requested() => Ok(false),
                }
            },
        );
        if !prepared.await? {
            return Ok(());
        }

        let products = Products::start(&database, &schema, products);
        metrics.collect(Arc::new(products.statistics(&database, metrics_top)));
        let reachable: Arc<dyn Check> = Arc::new(DatabaseCheck { database: database.observer(), pool_size });
        let writable = Arc::new(CapacityCheck { database: database.observer() });
        let authentication = Authentication { tokens: Some(products.tokens()), ..authentication };
        let (api, changes) = (products.routes(max_body_bytes), products.changes());
        let console = reveille_console::routes(api.clone(), changes.clone(), reveille_console::Options { read_only });
        let api = if read_only { api.layer(from_fn(reveille_console::refuse_effects)) } else { api };
        let app = App::new(metrics.clone())
            .max_body(max_body_bytes)
            .allowed_hosts(&allowed_hosts)
            .authentication(authentication.clone())
            .mount(Router::new(), [reachable, writable])
            .mount(api, products.checks())
            .mount(console.layer(from_fn(login_required)), []);
        let (routes, health) = app.build();
        let probed = probed.map(|listener| {
            let routes = health_routes(&health, metrics, authentication);
            tokio::spawn(async move { listener.serve(routes, std::future::pending()).await })
        });
        let (stop_accepting, stopped) = oneshot::channel::<()>();
        let http = tokio::spawn(listener.serve(routes, async { stopped.await.unwrap_or_default() }));
        health.started();
        let demo = match settings.demo {
            true => Some(Box::pin(Demo::start(&site, &database, &schema)).await?),
            false => None,
        };
        ready();
        shutdown.requested().await;

        if let Some(demo) = demo {
            demo.stop().await;
        }
        health.stopping();
        sleep(shutdown_delay).await;
        let _ = stop_accepting.send(());
        changes.close();
        // Waiting clients get their responses now; requests in progress finish.
        let _ = tokio::join!(http, products.close());
        // Health is served to the end, as "stopping".
        probed.inspect(tokio::task::JoinHandle::abort);
        products.stop().await;
        Ok(())
    }
}

/// Serves health and 503 on the address until `start` is done.
///
/// # Cancel safety
/// Dropping the future drops `start` and closes the connections.
pub(crate) async fn answering<T>(
    listener: &Listener,
    metrics: Metrics,
    allowed_hosts: &[String],
    authentication: &Authentication,
    probed: Option<&Listener>,
    start: impl AsyncFnOnce(&Health) -> T,
) -> T {
    let app = App::new(metrics.clone()).allowed_hosts(allowed_hosts).authentication(authentication.clone());
    let (routes, health) = app.build();
    let (stop, mut stopped) = watch::channel(false);
    let mut stopped_too = stopped.clone();
    let starting = async {
        let started = start(&health).await;
        stop.send_replace(true);
        started
    };
    let serving = listener.serve_for_now(routes, async { drop(stopped.wait_for(|stopped| *stopped).await) });
    let probing = async {
        let routes = health_routes(&health, metrics, authentication.clone());
        let listener = probed?;
        Some(listener.serve_for_now(routes, async { drop(stopped_too.wait_for(|stopped| *stopped).await) }).await)
    };
    let (open, probes, started) = tokio::join!(serving, probing, starting);
    // Responses in progress are short; further requests go to the started server.
    for open in std::iter::once(open).chain(probes) {
        tokio::spawn(open.drain());
    }
    started
}

/// Migrates as soon as the database is reachable.
///
/// # Errors
/// Permanent ones only.
///
/// # Cancel safety
/// Dropping the future rolls back a migration in progress.
async fn prepare(database: &reveille_pg::Database, schema: &Schema, health: &Health) -> Result<(), Error> {
    let migrator = products::migrator(schema);
    health.starting("waiting for the database");
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    let mut logged = String::new();
    loop {
        match migrate(&migrator, database, schema).await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_transient() => {
                let reason = explain(&error);
                // Once per reason: an outage of an hour is one log line.
                if reason != logged {
                    tracing::warn!(error = reason, "the database is not available yet: retrying");
                    logged = reason;
                }
                sleep(backoff.pause()).await;
            }
            Err(error) => return Err(Error::database("preparing the database", error)),
        }
    }
}

/// Applies pending migrations. Most starts have none; only the others get the time that a migration may need.
async fn migrate(
    migrator: &reveille_pg::Migrator,
    database: &reveille_pg::Database,
    schema: &Schema,
) -> reveille_pg::Result<()> {
    // The pool would retry a server that refuses connections; this fails at once with the reason.
    database.check().await?;
    if within(PLAN_WITHIN, migrator.plan(database)).await?.is_empty() {
        return Ok(());
    }
    let done = within(MIGRATE_WITHIN, migrator.run(database)).await?;
    // Another process may have applied them meanwhile, and says so.
    if !done.applied.is_empty() {
        let is_first = |step: &Step| matches!(step, Step::Migration { number: 1, .. });
        let change = if done.applied.iter().any(is_first) { "created" } else { "updated" };
        announce(format_args!("tables {change} in schema {}", schema.quoted()));
    }
    Ok(())
}
