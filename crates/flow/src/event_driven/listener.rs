//! Hears what is announced, in whatever process it happened: for who routes events, and to measure how long they take.
//!
//! On a connection of its own, and only while there is something to hear and somebody who wants to: nothing that Reveille does depends on it. A connection that is lost is made anew; what was announced meanwhile is lost, and found by
//! the fallback poller if nobody claims it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use reveille_pg::retry::Backoff;
use sqlx::postgres::PgListener;
use tokio::time::sleep;

use super::announce::{TASK_READY, outside_channel};
use super::coordination::Coordination;
use super::event::{EventSource, TaskReadyEvent};

/// The pause between attempts grows from this to that.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LONGEST: Duration = Duration::from_secs(5);

/// Listens until it is dropped.
pub(super) async fn run(shared: Arc<Coordination>) -> Infallible {
    let mut backoff = Backoff::new(PAUSE_FIRST, PAUSE_LONGEST);
    let _deaf = Deaf(&shared);
    loop {
        let Err(error) = listen(&shared, &mut backoff).await;
        shared.hears.store(false, Relaxed);
        tracing::warn!(error = reveille_pg::causes(&error), "what is announced is not heard for now");
        sleep(backoff.pause()).await;
    }
}

/// However it ends, it hears nothing then.
struct Deaf<'a>(&'a Coordination);

impl Drop for Deaf<'_> {
    fn drop(&mut self) {
        self.0.hears.store(false, Relaxed);
    }
}

async fn listen(shared: &Coordination, backoff: &mut Backoff) -> reveille_pg::Result<Infallible> {
    let inner = &shared.flow.inner;
    let pool = inner.db.dedicated("reveille events", &[("idle_session_timeout", "0")])?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(&outside_channel(inner.schema.name(), TASK_READY, None)).await?;
    shared.hears.store(true, Relaxed);
    backoff.reset();
    loop {
        let Some(notification) = listener.try_recv().await? else {
            return Err(sqlx::Error::PoolClosed.into());
        };
        match serde_json::from_str::<TaskReadyEvent>(notification.payload()) {
            Ok(event) => {
                let lag = inner.news.returned(&event);
                lag.into_iter().for_each(|lag| inner.meter.lag(lag));
                shared.offer(TaskReadyEvent { source: EventSource::Notification, ..event }, None);
            }
            // Anybody may notify.
            Err(_) => {
                inner.meter.received(EventSource::Notification);
                inner.meter.failed.add(1);
            }
        }
    }
}
