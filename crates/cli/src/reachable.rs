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
pub(crate) struct Reachable {
    pub(crate) database: pg::Database,
    /// How many connections the pool may have.
    pub(crate) pool_size: u32,
}

impl Check for Reachable {
    fn name(&self) -> &'static str {
        "database"
    }

    fn check(&self) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async {
            match retry(&PING, "health check", |_| ping(&self.database)).await {
                Ok(()) => Verdict::Good,
                Err(error) if !error.is_transient() => Verdict::Down(error.client_message().into()),
                Err(_) if self.is_saturated() && self.answers_beside_the_pool().await => {
                    Verdict::Degraded(format!("all {} connections are in use (--pool-size)", self.pool_size))
                }
                Err(_) => Verdict::Down("cannot be reached".into()),
            }
        })
    }
}

impl Reachable {
    fn is_saturated(&self) -> bool {
        let pool = self.database.pool();
        pool.size() >= self.pool_size && pool.num_idle() == 0
    }

    /// Asks on a connection of its own. Where a pooler leaves no way to open one, a full pool has to be proof enough.
    async fn answers_beside_the_pool(&self) -> bool {
        let Ok(own) = self.database.dedicated("reveille health", &[]) else { return true };
        let asked = async { sqlx::query("select 1").execute(&own).await.map_err(pg::Error::from) };
        let answered = within(ANSWER_WITHIN, asked).await.is_ok();
        // Said in the background: a server that does not answer does not say goodbye either.
        tokio::spawn(async move { timeout(ANSWER_WITHIN, own.close()).await });
        answered
    }
}

/// Whether the database can do its work: it may answer, and have no room left. Nothing is asked: what failed within the last minute is known. Reads may still work, so the
/// process stays ready.
pub(crate) struct Writable;

impl Check for Writable {
    fn name(&self) -> &'static str {
        "database"
    }

    fn check(&self) -> Pin<Box<dyn Future<Output = Verdict> + Send + '_>> {
        Box::pin(async {
            pg::shortage::current().map_or(Verdict::Good, |short| Verdict::Degraded(short.reason().into()))
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
    use pg::testing::{Mode, Proxy, TestDb};

    use super::*;

    fn reachable(database: pg::Database) -> Reachable {
        Reachable { database, pool_size: 1 }
    }

    async fn one_connection(url: &str) -> pg::Database {
        let options = pg::Options { max_connections: 1, ..pg::Options::default() };
        pg::Database::connect(url, options).await.expect("the database answers")
    }

    /// A pool that is all in use degrades the process; it is no reason to send requests elsewhere.
    /// The only connection is held while the check is made, and given back before the next.
    #[tokio::test]
    async fn a_busy_pool_degrades_and_is_not_an_outage() {
        let db = TestDb::new().await;
        let check = reachable(one_connection(db.url()).await);
        let held = check.database.session().await.expect("a connection");
        let Verdict::Degraded(reason) = check.check().await else { panic!("not degraded") };
        assert!(reason.contains("--pool-size"), "{reason}");
        held.finish().await.expect("given back");
        assert_eq!(check.check().await, Verdict::Good);
    }

    /// A network that goes silent is an outage, and asking about it must not use the pool up: when the network is back, so is the
    /// database. The proxy swallows everything; more checks are made than the pool has connections.
    #[tokio::test]
    async fn a_silent_network_is_an_outage_and_drains_nothing() {
        let db = TestDb::new().await;
        let proxy = Proxy::start(&db).await;
        let check = reachable(one_connection(proxy.url()).await);
        assert_eq!(check.check().await, Verdict::Good);
        // The driver asks a connection that comes back whether it is well, without a limit: that is to be over.
        while check.database.pool().num_idle() == 0 {
            tokio::task::yield_now().await;
        }
        proxy.set(Mode::Swallow).await;
        for _ in 0..3 {
            assert!(matches!(check.check().await, Verdict::Down(_)));
        }
        proxy.set(Mode::Pass).await;
        let back = async { while check.check().await != Verdict::Good {} };
        timeout(Duration::from_secs(60), back).await.expect("the database is reached again");
    }
}
