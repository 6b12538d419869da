//! Health checks of the database that do not harm the pool.
//!
//! On a silent network a query never returns, and its connection is missing from the pool: probes could drain it. Every
//! wait here has a timeout, and a timeout is reported ([`within`]) before the connection is returned, so that the pool
//! tests it first.
//!
//! A pool whose connections are all in use means load, not an outage: moving requests to another server would not help.
//! Then the check uses a connection of its own.

use std::{future::Future, pin::Pin, time::Duration};

use reveille_pg::retry::{Policy, retry};
use reveille_pg::shortage::{self, Shortage};
use reveille_pg::within;
use tokio::time::timeout;

use crate::http::{Check, Verdict};

/// How long connecting and a query may each take. Both attempts together fit into the deadline of a check.
const ANSWER_WITHIN: Duration = Duration::from_millis(450);

/// How the check gets past connections that a restarted server has closed: a few attempts, none of which starts late.
const PING: Policy = Policy {
    attempts: 4,
    first: Duration::from_millis(10),
    longest: Duration::from_millis(50),
    give_up_after: Duration::from_millis(100),
};

/// Whether the database is reachable.
pub(crate) struct DatabaseCheck {
    pub(crate) database: reveille_pg::Database,
    /// The maximum size of the pool.
    pub(crate) pool_size: u32,
}

impl Check for DatabaseCheck {
    fn name(&self) -> &'static str {
        "database"
    }

    fn check(&self) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async {
            match retry(&PING, "health check", |_| ping(&self.database)).await {
                Ok(()) => Verdict::Good,
                Err(error) if !error.is_transient() => Verdict::Down(error.client_message().into()),
                Err(_) if self.is_saturated() && self.responds_outside_the_pool().await => {
                    Verdict::Degraded(format!("all {} connections are in use (--pool-size)", self.pool_size))
                }
                Err(error) => Verdict::Down(self.why_down(&error).await.into()),
            }
        })
    }
}

impl DatabaseCheck {
    fn is_saturated(&self) -> bool {
        let pool = self.database.pool();
        pool.size() >= self.pool_size && pool.num_idle() == 0
    }

    /// Why there is no connection. The pool only reports a timeout, so one attempt is made outside of it.
    async fn why_down(&self, error: &reveille_pg::Error) -> &'static str {
        let short = match error.shortage() {
            None => {
                let tried = timeout(ANSWER_WITHIN, self.database.check()).await.ok().and_then(Result::err);
                tried.and_then(|error| error.shortage())
            }
            short => short,
        };
        short.map_or("not reachable", Shortage::reason)
    }

    /// Queries on a connection of its own. If a pooler does not allow one, a full pool counts as proof.
    async fn responds_outside_the_pool(&self) -> bool {
        let Ok(own) = self.database.dedicated("reveille health", &[]) else { return true };
        let asked = async { sqlx::query("select 1").execute(&own).await.map_err(reveille_pg::Error::from) };
        let answered = within(ANSWER_WITHIN, asked).await.is_ok();
        // Closed in the background: a server that does not respond does not acknowledge the close either.
        tokio::spawn(async move { timeout(ANSWER_WITHIN, own.close()).await });
        answered
    }
}

/// Whether the database has the resources for writes. No statement is sent unless a write has failed for lack of one;
/// then the process is degraded until a write succeeds, and if there is none, a small one is tried. Reads may still
/// work, so the process stays ready.
pub(crate) struct CapacityCheck {
    pub(crate) database: reveille_pg::Database,
}

impl Check for CapacityCheck {
    fn name(&self) -> &'static str {
        "database"
    }

    fn check(&self) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async {
            shortage::is_over(&self.database, ANSWER_WITHIN).await;
            shortage::current().map_or(Verdict::Good, |short| Verdict::Degraded(short.reason().into()))
        })
    }
}

/// The smallest possible query.
async fn ping(database: &reveille_pg::Database) -> reveille_pg::Result<()> {
    // No query has been sent yet, so a timeout says nothing about the connection.
    let session = timeout(ANSWER_WITHIN, database.session()).await;
    let mut session = session.unwrap_or(Err(reveille_pg::Error::Exhausted))?;
    within(ANSWER_WITHIN, async {
        sqlx::query("select 1").execute(&mut *session).await?;
        session.finish().await
    })
    .await
}

#[cfg(test)]
mod tests {
    use reveille_pg::testing::{Mode, PrivateCluster, Proxy, TestDb};
    use sqlx::Connection as _;

    use super::*;

    fn reachable(database: reveille_pg::Database) -> DatabaseCheck {
        DatabaseCheck { database, pool_size: 1 }
    }

    async fn one_connection(url: &str) -> reveille_pg::Database {
        let options = reveille_pg::Options::default().max_connections(1);
        reveille_pg::Database::connect(url, options).await.expect("the database answers")
    }

    /// Checks until the verdict is the expected one: on a busy machine a single check may take longer than its limit.
    async fn becomes(check: &DatabaseCheck, expected: impl Fn(&Verdict) -> bool) -> Verdict {
        let checked = async {
            loop {
                let verdict = check.check().await;
                if expected(&verdict) {
                    return verdict;
                }
            }
        };
        timeout(Duration::from_secs(60), checked).await.expect("the expected verdict")
    }

    async fn becomes_good(check: &DatabaseCheck) {
        becomes(check, |verdict| *verdict == Verdict::Good).await;
    }

    /// A pool whose connections are all in use degrades the process, which stays ready.
    /// The test holds the only connection during the check and returns it before the next.
    #[tokio::test]
    async fn a_busy_pool_degrades_and_is_not_an_outage() {
        let db = TestDb::new().await;
        let check = reachable(one_connection(db.url()).await);
        let held = check.database.session().await.expect("a connection");
        let degraded = becomes(&check, |verdict| matches!(verdict, Verdict::Degraded(_))).await;
        let Verdict::Degraded(reason) = degraded else { unreachable!("it was compared") };
        assert!(reason.contains("--pool-size"), "{reason}");
        held.finish().await.expect("given back");
        becomes_good(&check).await;
    }

    /// "Too many connections" must be distinguished from an unreachable server: the reason names it, in the next check,
    /// too. The test holds all connections of a server with few.
    #[tokio::test]
    async fn too_many_connections_are_named() {
        let few = [("max_connections", "4"), ("superuser_reserved_connections", "0"), ("max_wal_senders", "0")];
        let Some(cluster) = PrivateCluster::start_with(&few).await else { return };
        let check = reachable(
            reveille_pg::Database::connect_lazy(cluster.url(), reveille_pg::Options::default()).expect("a pool"),
        );
        let mut held = Vec::new();
        while let Ok(connection) = sqlx::PgConnection::connect(cluster.url()).await {
            held.push(connection);
        }
        for _ in 0..2 {
            let named =
                |verdict: &Verdict| matches!(verdict, Verdict::Down(reason) if reason.contains("too many connections"));
            becomes(&check, named).await;
        }
        assert_eq!(
            CapacityCheck { database: check.database.clone() }.check().await,
            Verdict::Degraded(Shortage::Connections.reason().into())
        );
        drop(held);
        becomes_good(&check).await;
    }

    /// A silent network is an outage, and checks must not drain the pool: when the network is back, so is the database.
    /// The proxy drops everything; more checks are made than the pool has connections.
    #[tokio::test]
    async fn a_silent_network_is_an_outage_and_drains_nothing() {
        let db = TestDb::new().await;
        let proxy = Proxy::start(&db).await;
        let check = reachable(one_connection(proxy.url()).await);
        becomes_good(&check).await;
        // The driver pings a returned connection without a timeout: wait until that is over.
        while check.database.pool().num_idle() == 0 {
            tokio::task::yield_now().await;
        }
        proxy.set(Mode::Swallow).await;
        for _ in 0..3 {
            assert!(matches!(check.check().await, Verdict::Down(_)));
        }
        proxy.set(Mode::Pass).await;
        becomes_good(&check).await;
    }
}
