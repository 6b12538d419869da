//! Word that there is something to be received, as a stream.

use std::sync::Arc;

use futures_util::stream::{BoxStream, StreamExt as _, unfold};
use pg::{Schema, Sql};
use sqlx::PgConnection;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use wake::{Channel, Claim, Consumer, Look, Looked, Topic};

use super::QueueEvent;
use crate::name::of_namespace;

/// How long one wait is; it is only begun again.
const WAIT: Duration = Duration::from_secs(86_400);
/// The pause after a failure, which the log tells.
const PAUSE: Duration = Duration::from_secs(1);

/// How it is noticed. Nothing is taken.
pub(crate) struct Events {
    /// Rung when steps may be due, and when some were sent.
    steps: Channel,
    deliveries: Channel,
    newest: Sql,
}

impl Events {
    pub(crate) fn new(schema: &Schema, steps: Channel, deliveries: Channel) -> Events {
        Events { steps, deliveries, newest: schema.sql(include_str!("../../sql/newest_steps.sql")) }
    }
}

impl Claim for Events {
    /// The namespace.
    type Key = Arc<str>;
    /// The newest that was seen.
    type Args = Option<i64>;
    /// The newest that is there.
    type Item = i64;

    fn topics(&self, namespace: &Arc<str>) -> Vec<Topic> {
        let key = of_namespace(namespace);
        vec![self.steps.topic_of(&key), self.deliveries.topic_of(&key)]
    }

    async fn look(&self, conn: &mut PgConnection, look: &Look<Arc<str>, Option<i64>>) -> pg::Result<Looked<i64>> {
        let query = sqlx::query_scalar(&self.newest).bind(&*look.key);
        let newest: Option<i64> = query.fetch_one(conn).await?;
        let mut looked = Looked::new(None);
        for (place, seat) in look.seats.iter().enumerate() {
            if let Some(newest) = newest.filter(|_| *seat.args != newest) {
                looked.give(place, newest, None);
            }
        }
        Ok(looked)
    }

    async fn give_back(&self, _: &mut PgConnection, _: &[i64]) -> pg::Result<()> {
        Ok(())
    }

    async fn sweep(&self, _: &mut PgConnection, keys: &[Arc<str>]) -> pg::Result<Vec<usize>> {
        Ok((0..keys.len()).collect())
    }

    fn sight(&self, seen: &Option<i64>) -> Option<Box<str>> {
        Some(format!("{seen:?}").into())
    }
}

/// Word of what can be received in a namespace.
pub(super) fn stream(events: &Consumer<Events>, namespace: &str) -> BoxStream<'static, QueueEvent> {
    let namespace: Arc<str> = namespace.into();
    let next = async |(events, namespace, mut seen): (Consumer<Events>, Arc<str>, Option<i64>)| {
        loop {
            match events.claim(namespace.clone(), 1, seen, Instant::now() + WAIT).await {
                Ok(Some(found)) => {
                    seen = found.accept().pop().or(seen);
                    let event = QueueEvent { namespace: namespace.to_string() };
                    return Some((event, (events, namespace, seen)));
                }
                Ok(None) => {}
                Err(wake::Error::Closed { .. }) => return None,
                Err(error) => {
                    tracing::warn!(error = pg::causes(&error), "what can be received is not known for now");
                    sleep(PAUSE).await;
                }
            }
        }
    };
    unfold((events.clone(), namespace, None), next).boxed()
}
