//! Receives announcements of all processes, for the router and to measure how long they take.
//!
//! It has a connection of its own, and only while a namespace has announcements and a router or shadow mode uses them:
//! nothing else in Reveille depends on it. A lost connection is opened again; announcements in between are lost, and
//! the fallback poller finds their steps if they stay unclaimed.

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

/// The first and the longest pause between attempts to connect.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LONGEST: Duration = Duration::from_secs(5);

/// Receives announcements until it is dropped.
pub(super) async fn run(shared: Arc<Coordination>) -> Infallible {
    let mut backoff = Backoff::new(PAUSE_FIRST, PAUSE_LONGEST);
    let _connected = Connected(&shared);
    loop {
        let Err(error) = listen(&shared, &mut backoff).await;
        shared.connected.store(false, Relaxed);
        tracing::warn!(error = reveille_pg::causes(&error), "listening for announcements failed; reconnecting");
        sleep(backoff.pause()).await;
    }
}

/// Resets the state to disconnected when dropped.
struct Connected<'a>(&'a Coordination);

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.connected.store(false, Relaxed);
    }
}

async fn listen(shared: &Coordination, backoff: &mut Backoff) -> reveille_pg::Result<Infallible> {
    let inner = &shared.flow.inner;
    let pool = inner.db.dedicated("reveille events", &[("idle_session_timeout", "0")])?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(&outside_channel(inner.schema.name(), TASK_READY, None)).await?;
    shared.connected.store(true, Relaxed);
    backoff.reset();
    loop {
        let Some(notification) = listener.try_recv().await? else {
            return Err(sqlx::Error::PoolClosed.into());
        };
        match serde_json::from_str::<TaskReadyEvent>(notification.payload()) {
            Ok(event) => {
                let lag = inner.task_events.returned(&event);
                lag.into_iter().for_each(|lag| inner.meter.lag(lag));
                shared.offer(TaskReadyEvent { source: EventSource::Notification, ..event }, None);
            }
            // Any client of the database may send a notification.
            Err(_) => {
                inner.meter.received(EventSource::Notification);
                inner.meter.failed.add(1);
            }
        }
    }
}
