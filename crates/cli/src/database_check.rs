//! Whether the database answers, asked so that asking does no harm.
//!
//! A question over a network that went silent is never answered, and a connection that waits for the answer is missing from
//! the pool: probes could drain it. Every wait here has a bound, and a bound that is reached is reported ([`within`]) before
//! the connection goes back, so that the pool tests it first.
//!
//! A pool whose connections are all busy is a sign of much work, not of a database that is away: requests sent elsewhere
//! would only move the crowd. Then the question is asked on a connection of its own.

use std::{future::Future, pin::Pin, time::Duration};

use pg::retry::{Policy, retry};
use pg::shortage::{self, Shortage};
use pg::within;
use tokio::time::timeout;

use crate::http::{Check, Verdict};

/// How long a connection and an answer may each take. Both of the two ways together fit into what a check may take.
const ANSWER_WITHIN: Duration = Duration::from_millis(450);

/// How the check gets past connections that died with a restarted server: a few attempts, none of which starts late.
const PING: Policy = Policy {
    attempts: 4,
    first: Duration::from_millis(10),
    longest: Duration::from_millis(50),
    give_up_after: Duration::from_millis(100),
};

/// The check of the database.
pub(crate) struct DatabaseCheck {
    pub(crate) database: pg::Database,
    /// How many connections the pool may have.
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

    /// Why there is no connection. The pool waits for one as long as it may, so it is tried once beside it.
    async fn why_down(&self, error: &pg::Error) -> &'static str {
        let short = match error.shortage() {
            None => {
                let tried = timeout(ANSWER_WITHIN, self.database.check()).await.ok().and_then(Result::err);
                tried.and_then(|error| error.shortage())
            }
            short => short,
        };
        short.map_or("cannot be reached", Shortage::reason)
    }

    /// Asks on a connection of its own. Where a pooler leaves no way to open one, a full pool has to be proof enough.
    async fn responds_outside_the_pool(&self) -> bool {
        let Ok(own) = self.database.dedicated("reveille health", &[]) else { return true };
        let asked = async { sqlx::query("select 1").execute(&own).await.map_err(pg::Error::from) };
        let answered = within(ANSWER_WITHIN, asked).await.is_ok();
        // Said in the background: a server that does not answer does not say goodbye either.
        tokio::spawn(async move { timeout(ANSWER_WITHIN, own.close()).await });
        answered
    }
}

/// Whether the database can do its work: it may answer, and have no room left. Nothing is asked unless a write has failed for that; then it counts until one succeeds, and if nothing else
/// is written, a small one is tried. Reads may still work, so the process stays ready.
pub(crate) struct CapacityCheck {
    pub(crate) database: pg::Database,
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

/// Asks the least there is to ask.
async fn ping(database: &pg::Database) -> pg::Result<()> {
    // Nothing has been asked yet, so it is not the connection that is in doubt.
    let session = timeout(ANSWER_WITHIN, database.session()).await;
    let mut session = session.unwrap_or(Err(pg::Error::Exhausted))?;
    within(ANSWER_WITHIN, async {
        sqlx::query("select 1").execute(&mut *session).await?;
        session.finish().await
    })
    .await
}

#[cfg(test)]
mod tests {
    use pg::testing::{Mode, PrivateCluster, Proxy, TestDb};
    use sqlx::Connection as _;

    use super::*;

    fn reachable(database: pg::Database) -> DatabaseCheck {
        DatabaseCheck { database, pool_size: 1 }
    }

    async fn one_connection(url: &str) -> pg::Database {
        let options = pg::Options { max_connections: 1, ..pg::Options::default() };
        pg::Database::connect(url, options).await.expect("the database answers")
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

    /// A pool that is all in use degrades the process; it is no reason to send requests elsewhere.
    /// The only connection is held while the check is made, and given back before the next.
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

    /// A server that has too many connections must be told from one that is away: the reason says what to do about it, also for whoever asks next.
    /// The test holds all connections of a server with few.
    #[tokio::test]
    async fn too_many_connections_are_named() {
        let few = [("max_connections", "4"), ("superuser_reserved_connections", "0"), ("max_wal_senders", "0")];
        let Some(cluster) = PrivateCluster::start_with(&few).await else { return };
        let check = reachable(pg::Database::connect_lazy(cluster.url(), pg::Options::default()).expect("a pool"));
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

    /// A network that goes silent is an outage, and asking about it must not use the pool up: when the network is back, so is the
    /// database. The proxy swallows everything; more checks are made than the pool has connections.
    #[tokio::test]
    async fn a_silent_network_is_an_outage_and_drains_nothing() {
        let db = TestDb::new().await;
        let proxy = Proxy::start(&db).await;
        let check = reachable(one_connection(proxy.url()).await);
        becomes_good(&check).await;
        // The driver asks a connection that comes back whether it is well, without a limit: that is to be over.
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
