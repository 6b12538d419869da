//! Watches for changes: of namespaces, and of the steps that can be received in a namespace. Nothing is claimed.

use std::sync::Arc;
use std::time::Duration;

use reveille_pg::{Schema, Sql};
use reveille_wake::{Channel, Claim, Consumer, PollRequest, PollResult, Topic};
use sqlx::PgConnection;
use tokio::time::{Instant, sleep};

use crate::name::of_namespace;

/// How long one wait lasts before it is repeated.
const WAIT: Duration = Duration::from_secs(86_400);
/// The pause after a failure, which is logged.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// What is watched.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    /// Created and changed namespaces.
    Namespaces,
    /// Newer steps that can be received in a namespace.
    Steps(Arc<str>),
}

/// Watches subjects by a number that changes with them.
pub(crate) struct ChangeWatches {
    namespaces: Channel,
    /// Wake-ups for due steps, and for steps that were sent to a queue.
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
    /// The number that the waiter has seen.
    type Args = Option<i64>;
    /// The current number.
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
        for (index, waiter) in poll.waiters.iter().enumerate() {
            if let Some(now) = now.filter(|_| *waiter.args != now) {
                polled.give(index, now, None);
            }
        }
        Ok(polled)
    }

    async fn give_back(&self, _: &mut PgConnection, _: &[i64]) -> reveille_pg::Result<()> {
        Ok(())
    }

    async fn sweep(&self, _: &mut PgConnection, keys: &[Subject]) -> reveille_pg::Result<Vec<usize>> {
        // A poll is as cheap as a sweep.
        Ok((0..keys.len()).collect())
    }

    fn visibility_key(&self, seen: &Option<i64>) -> Option<Box<str>> {
        Some(format!("{seen:?}").into())
    }
}

/// The next number of a subject after `seen`. `None`: the flow is closed.
///
/// # Cancel safety
/// Dropping the future changes nothing.
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
                tracing::warn!(?subject, error = reveille_pg::causes(&error), "watching for changes failed; retrying");
                sleep(PAUSE).await;
            }
        }
    }
}
