//! Following the primary among several hosts.
//!
//! A pool of sqlx connects to one address, and while nobody listens there it tries that address again until its time is
//! up. [`Route`] keeps the list, finds the host that accepts writes ([`Route::scout`]) and points its pools at it; a pool
//! that is waiting for a connection reads the new address at its next try.
//!
//! Nothing here runs while all is well. A scout goes out when a session waits suspiciously long, when a new connection turns
//! out to lead to a standby, and after any report of a broken connection in the process. With one host there is no scouting
//! and no question about standbys, unless the URL asks for it: a connection costs no extra round trip.

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

/// How long an answer of a scout is good for: however many sessions wait, the cluster is asked twice a second at most.
const SCOUT_AT_MOST_EVERY: Duration = Duration::from_millis(500);

/// How long a suspect idle connection may take to answer a ping before it is given up; on a healthy one it is a round trip.
const PING_TIMEOUT: Duration = Duration::from_secs(2);

/// The hosts of one cluster, and which of them to use.
pub(super) struct Route {
    address: Address,
    /// The address's hosts with the main pool's startup.
    hosts: Vec<PgConnectOptions>,
    current: AtomicUsize,
    followers: Mutex<Vec<Follower>>,
    /// When the last scout came back, and with which place; holding it means being out.
    last_scout: tokio::sync::Mutex<Option<(Instant, Result<usize>)>>,
}

/// A pool to point at the primary, with the address's hosts as that pool wants them.
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

    /// Which host is in use, by its place in the URL.
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
            // The pool pings what comes back, but without a limit: on a network that went silent the connection would count
            // as in use until the system gives up on it, a quarter of an hour later.
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

    /// Asks the hosts in order, points every pool at the first that will do, and returns its place in the URL.
    ///
    /// Many may call this at once; one goes, the others get its answer.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Rejected`] or [`Error::OldServer`] of the last host that was asked,
    /// [`Error::NoPrimary`] if that was a standby.
    ///
    /// # Cancel safety
    /// The scout is a task of its own: a caller that goes away, or is not polled, keeps nobody else waiting.
    pub(super) async fn scout(self: &Arc<Self>) -> Result<usize> {
        let route = Arc::clone(self);
        let scout = tokio::spawn(async move { route.look_or_remember().await });
        // It ends early only with the runtime.
        scout.await.unwrap_or_else(|_| Err(self.no_primary()))
    }

    async fn look_or_remember(&self) -> Result<usize> {
        let mut last = self.last_scout.lock().await;
        let repeated =
            |answer: &Result<usize>| answer.as_ref().map_or_else(|error| Err(error.repeated()), |at| Ok(*at));
        if let Some((at, answer)) = &*last
            && at.elapsed() < SCOUT_AT_MOST_EVERY
        {
            return repeated(answer);
        }
        let answer = self.look().await;
        *last = Some((Instant::now(), repeated(&answer)));
        answer
    }

    async fn look(&self) -> Result<usize> {
        let mut failure = self.no_primary();
        for (place, host) in self.hosts.iter().enumerate() {
            match self.probe(host).await {
                Ok(true) => {
                    self.point_at(place);
                    return Ok(place);
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

    /// Opens a connection and closes it again. `Ok(false)` means a standby where a primary is wanted.
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

    fn point_at(&self, place: usize) {
        if self.current.swap(place, Ordering::AcqRel) == place {
            return;
        }
        tracing::info!(server = server(&self.hosts[place]), "the primary has moved");
        let mut followers = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        followers.retain(|follower| !follower.pool.is_closed());
        for follower in followers.iter() {
            follower.pool.set_connect_options(follower.hosts[place].clone());
        }
        // Connections to the host that was left may hang rather than fail.
        suspicion::outdated();
    }
}

async fn scout_after_reports(route: Weak<Route>) {
    let mut news = suspicion::news();
    loop {
        news.await;
        // From here on, so that a report during the scout is not lost.
        news = suspicion::news();
        let Some(route) = Weak::upgrade(&route) else { return };
        route.scout().await.ok();
    }
}

/// Whether a connection that is suspected answers within a bounded time.
async fn answers(connection: &mut PgConnection) -> bool {
    matches!(tokio::time::timeout(PING_TIMEOUT, connection.ping()).await, Ok(Ok(())))
}

async fn is_standby(connection: &mut PgConnection) -> sqlx::Result<bool> {
    sqlx::raw_sql("select pg_is_in_recovery()").fetch_one(connection).await?.try_get(0)
}
