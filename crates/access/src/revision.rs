//! Watches for revocations. Nothing is claimed.

use std::time::Duration;

use reveille_pg::{Schema, Sql};
use reveille_wake::{Channel, Claim, Consumer, PollRequest, PollResult, Topic};
use sqlx::PgConnection;
use tokio::time::{Instant, sleep};

/// How long one wait lasts before it is repeated.
const WAIT: Duration = Duration::from_secs(86_400);
/// The pause after a failure, which is logged.
const PAUSE: Duration = Duration::from_secs(1);

/// The revision of all tokens: a number that changes with each revocation.
pub(crate) struct Revisions {
    channel: Channel,
    read: Sql,
}

impl Revisions {
    pub(crate) fn new(schema: &Schema, channel: Channel) -> Revisions {
        Revisions { channel, read: schema.sql(reveille_pg::statement!("read_revision")) }
    }
}

impl Claim for Revisions {
    type Key = ();
    /// The revision that the waiter has seen.
    type Args = Option<i64>;
    /// The current revision.
    type Item = i64;

    fn topics(&self, (): &()) -> Vec<Topic> {
        vec![self.channel.topic()]
    }

    async fn poll(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<(), Option<i64>>,
    ) -> reveille_pg::Result<PollResult<i64>> {
        let now: i64 = sqlx::query_scalar(&self.read).fetch_one(conn).await?;
        let mut polled = PollResult::new(None);
        for (index, waiter) in poll.waiters.iter().enumerate() {
            if *waiter.args != Some(now) {
                polled.give(index, now, None);
            }
        }
        Ok(polled)
    }

    async fn give_back(&self, _: &mut PgConnection, _: &[i64]) -> reveille_pg::Result<()> {
        Ok(())
    }

    async fn sweep(&self, _: &mut PgConnection, keys: &[()]) -> reveille_pg::Result<Vec<usize>> {
        // A poll is as cheap as a sweep.
        Ok((0..keys.len()).collect())
    }

    fn visibility_key(&self, seen: &Option<i64>) -> Option<Box<str>> {
        Some(format!("{seen:?}").into())
    }
}

/// The next revision after `seen`. `None`: the engine is closed.
///
/// # Cancel safety
/// Dropping the future changes nothing.
pub(crate) async fn next(revisions: &Consumer<Revisions>, seen: Option<i64>) -> Option<i64> {
    loop {
        match revisions.claim((), 1, seen, Instant::now() + WAIT).await {
            Ok(Some(found)) => match found.accept().pop() {
                Some(now) => return Some(now),
                None => continue,
            },
            Ok(None) => {}
            Err(reveille_wake::Error::Closed { .. }) => return None,
            Err(error) => {
                tracing::warn!(error = reveille_pg::causes(&error), "watching for revoked tokens failed; retrying");
                sleep(PAUSE).await;
            }
        }
    }
}
