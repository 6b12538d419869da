//! Following the primary among several hosts.
//!
//! An sqlx pool connects to one address and retries that address until its acquire timeout. [`Route`] keeps the list of
//! hosts, finds the one that accepts writes ([`Route::scout`]) and points its pools at it; a pool that is waiting for a
//! connection uses the new address at its next attempt.
//!
//! Nothing here runs in normal operation. A probe of the hosts starts when a session waits too long, when a new
//! connection reaches a standby, and after any report of a broken connection in the process. With one host there is no
//! probe and no standby check, unless the URL asks for it: a connection costs no extra round trip.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgConnection, PgPool, Row};

use super::options::Startup;
use super::suspicion;
use super::url::{Address, server};
use super::version;
use crate::{Error, Result};

/// How long a probe result is reused: the cluster is probed at most twice a second, however many sessions wait.
const SCOUT_AT_MOST_EVERY: Duration = Duration::from_millis(500);

/// How long a suspect idle connection may take to answer a ping before it is closed; normally it takes one round trip.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// The hosts of one cluster, and which of them to use.
pub(super) struct Route {
    address: Address,
    /// The hosts of the address with the main pool's startup settings.
    hosts: Vec<PgConnectOptions>,
    current: AtomicUsize,
    followers: Mutex<Vec<Follower>>,
    /// Time and result (index of the host) of the last probe. Locked while a probe runs.
    last_scout: tokio::sync::Mutex<Option<(Instant, Result<usize>)>>,
}

/// A pool to point at the primary, and the hosts with that pool's startup settings.
struct Follower {
    pool: PgPool,
    hosts: Vec<PgConnectOptions>,
}

impl Route {
    /// Must be called within a tokio runtime if there are several hosts.
    pub(super) fn new(address: Address, startup: &Startup) -> Arc<Route> {
        let hosts = address.hosts.iter().map(|host| startup.apply(host)).collect();
        let route = Arc::new(Route {
            address,
            hosts,
            current: AtomicUsize::new(0),
            followers: Mutex::default(),
            last_scout: tokio::sync::Mutex::default(),
        });
        if route.has_alternatives() {
            tokio::spawn(scout_after_reports(Arc::downgrade(&route)));
        }
        route
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Whether there is more than one host to choose from.
    pub(super) fn has_alternatives(&self) -> bool {
        self.hosts.len() > 1
    }

    /// Index of the host in use, in the order of the URL.
    pub(super) fn current(&self) -> usize {
        self.current.load(Ordering::Acquire)
    }

    /// A lazy pool that follows this route. Must be called within a tokio runtime.
    pub(super) fn pool(self: &Arc<Self>, options: PgPoolOptions, startup: &Startup) -> PgPool {
        let primary_only = self.address.primary_only;
        let route = Arc::downgrade(self);
        let options = options
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    if suspicion::should_replace(meta.age) {
                        return Ok(false);
                    }
                    Ok(!suspicion::should_ping(meta.idle_for) || answers(connection).await)
                })
            })
            // The pool pings a returned connection without a timeout: on a silent network the connection would count as
            // in use until the TCP timeout, a quarter of an hour later.
            .after_release(|connection, _| {
                Box::pin(async move { Ok(!suspicion::is_trouble() || answers(connection).await) })
            })
            .after_connect(move |connection, _| {
                let route = route.clone();
                Box::pin(async move {
                    if primary_only && is_standby(connection).await? {
                        if let Some(route) = Weak::upgrade(&route) {
                            route.scout().await.ok();
                        }
                        return Err(sqlx::Error::Protocol("the server is a standby".into()));
                    }
                    Ok(())
                })
            });
        let hosts: Vec<_> = self.address.hosts.iter().map(|host| startup.apply(host)).collect();
        let pool = options.connect_lazy_with(hosts[self.current()].clone());
        if self.has_alternatives() {
            let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
            followers.retain(|follower| !follower.pool.is_closed());
            followers.push(Follower { pool: pool.clone(), hosts });
        }
        pool
    }

    /// Probes the hosts in order, points every pool at the first usable one, and returns its index in the URL.
    ///
    /// Concurrent calls share one probe.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Rejected`] or [`Error::OldServer`] of the last host that was probed,
    /// [`Error::NoPrimary`] if that was a standby.
    ///
    /// # Cancel safety
    /// The probe runs in its own task: a dropped or unpolled caller does not delay the other callers.
    pub(super) async fn scout(self: &Arc<Self>) -> Result<usize> {
        let route = Arc::clone(self);
        let scout = tokio::spawn(async move { route.find_primary_or_cached().await });
        // The task is cancelled only when the runtime shuts down.
        scout.await.unwrap_or_else(|_| Err(self.no_primary()))
    }

    async fn find_primary_or_cached(&self) -> Result<usize> {
        let mut last = self.last_scout.lock().await;
        let repeated =
            |answer: &Result<usize>| answer.as_ref().map_or_else(|error| Err(error.repeated()), |at| Ok(*at));
        if let Some((at, answer)) = &*last
            && at.elapsed() < SCOUT_AT_MOST_EVERY
        {
            return repeated(answer);
        }
        let answer = self.find_primary().await;
        *last = Some((Instant::now(), repeated(&answer)));
        answer
    }

    async fn find_primary(&self) -> Result<usize> {
        let mut failure = self.no_primary();
        for (index, host) in self.hosts.iter().enumerate() {
            match self.probe(host).await {
                Ok(true) => {
                    self.point_at(index);
                    return Ok(index);
                }
                Ok(false) => failure = self.no_primary(),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn no_primary(&self) -> Error {
        Error::NoPrimary { servers: self.address.servers() }
    }

    /// Opens and closes a connection. `Ok(false)` means a standby where a primary is required.
    async fn probe(&self, host: &PgConnectOptions) -> Result<bool> {
        let at = server(host);
        let attempt = async {
            let mut connection = host.connect().await.map_err(|error| Error::connecting(&at, error))?;
            if let Some(version) = connection.server_version_num() {
                version::check(&at, version)?;
            }
            let standby = self.address.primary_only
                && is_standby(&mut connection).await.map_err(|error| Error::connecting(&at, error))?;
            connection.close().await.ok();
            Ok(!standby)
        };
        match tokio::time::timeout(self.address.host_timeout, attempt).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::silent(&at)),
        }
    }

    fn point_at(&self, index: usize) {
        if self.current.swap(index, Ordering::AcqRel) == index {
            return;
        }
        tracing::info!(server = server(&self.hosts[index]), "primary changed");
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.retain(|follower| !follower.pool.is_closed());
        for follower in followers.iter() {
            follower.pool.set_connect_options(follower.hosts[index].clone());
        }
        // Connections to the previous host may hang rather than fail.
        suspicion::outdated();
    }
}

async fn scout_after_reports(route: Weak<Route>) {
    let mut report = suspicion::next_report();
    loop {
        report.await;
        // Registered before the probe, so that a report during the probe is not lost.
        report = suspicion::next_report();
        let Some(route) = Weak::upgrade(&route) else { return };
        route.scout().await.ok();
    }
}

/// Whether a suspect connection answers a ping within [`PING_TIMEOUT`].
async fn answers(connection: &mut PgConnection) -> bool {
    matches!(tokio::time::timeout(PING_TIMEOUT, connection.ping()).await, Ok(Ok(())))
}

async fn is_standby(connection: &mut PgConnection) -> sqlx::Result<bool> {
    sqlx::raw_sql("select pg_is_in_recovery()").fetch_one(connection).await?.try_get(0)
}
