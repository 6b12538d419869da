//! Noticing that something is another than it was: what can be received in a namespace, and how namespaces are set. Nothing is taken.

use std::sync::Arc;
use std::time::Duration;

use reveille_pg::{Schema, Sql};
use reveille_wake::{Channel, Claim, Consumer, PollRequest, PollResult, Topic};
use sqlx::PgConnection;
use tokio::time::{Instant, sleep};

use crate::name::of_namespace;

/// How long one wait is; it is only begun again.
const WAIT: Duration = Duration::from_secs(86_400);
/// The pause after a failure, which the log tells.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// What is to be noticed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    /// That a namespace was made or changed.
    Namespaces,
    /// That there is something newer to be received in a namespace.
    Steps(Arc<str>),
}

/// How it is noticed: by a number that is another one then.
pub(crate) struct ChangeWatches {
    namespaces: Channel,
    /// Rung when steps may be due, and when some were sent.
    steps: Channel,
    deliveries: Channel,
    namespaces_changed: Sql,
    newest_steps: Sql,
}

impl ChangeWatches {
    pub(crate) fn new(schema: &Schema, namespaces: Channel, steps: Channel, deliveries: Channel) -> ChangeWatches {
        ChangeWatches {
            namespaces,
            steps,
            deliveries,
            namespaces_changed: schema.sql(reveille_pg::statement!("namespaces_changed")),
            newest_steps: schema.sql(reveille_pg::statement!("newest_steps")),
        }
    }
}

impl Claim for ChangeWatches {
    type Key = Subject;
    /// The number that was seen.
    type Args = Option<i64>;
    /// The number that is there.
    type Item = i64;

    fn topics(&self, subject: &Subject) -> Vec<Topic> {
        match subject {
            Subject::Namespaces => vec![self.namespaces.topic()],
            Subject::Steps(namespace) => {
                let key = of_namespace(namespace);
                vec![self.steps.topic_of(&key), self.deliveries.topic_of(&key)]
            }
        }
    }

    async fn poll(
        &self,
        conn: &mut PgConnection,
        poll: &PollRequest<Subject, Option<i64>>,
    ) -> reveille_pg::Result<PollResult<i64>> {
        let query = match &poll.key {
            Subject::Namespaces => sqlx::query_scalar(&self.namespaces_changed),
            Subject::Steps(namespace) => sqlx::query_scalar(&self.newest_steps).bind(&**namespace),
        };
        let now: Option<i64> = query.fetch_one(conn).await?;
        let mut polled = PollResult::new(None);
        for (place, waiter) in poll.waiters.iter().enumerate() {
            if let Some(now) = now.filter(|_| *waiter.args != now) {
                polled.give(place, now, None);
            }
        }
        Ok(polled)
    }

    async fn give_back(&self, _: &mut PgConnection, _: &[i64]) -> reveille_pg::Result<()> {
        Ok(())
    }

    async fn sweep(&self, _: &mut PgConnection, keys: &[Subject]) -> reveille_pg::Result<Vec<usize>> {
        // Whether anything changed, who looks knows best.
        Ok((0..keys.len()).collect())
    }

    fn visibility_key(&self, seen: &Option<i64>) -> Option<Box<str>> {
        Some(format!("{seen:?}").into())
    }
}

/// The next number of a subject after the one that was seen. `None`: the flow is closed.
///
/// # Cancel safety
/// Nothing is taken, so nothing is lost.
pub(crate) async fn next(
    change_watches: &Consumer<ChangeWatches>,
    subject: &Subject,
    seen: Option<i64>,
) -> Option<i64> {
    loop {
        match change_watches.claim(subject.clone(), 1, seen, Instant::now() + WAIT).await {
            Ok(Some(found)) => match found.accept().pop() {
                Some(now) => return Some(now),
                None => continue,
            },
            Ok(None) => {}
            Err(reveille_wake::Error::Closed { .. }) => return None,
            Err(error) => {
                tracing::warn!(?subject, error = reveille_pg::causes(&error), "what changes is not noticed for now");
                sleep(PAUSE).await;
            }
        }
    }
}
