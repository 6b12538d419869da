//! Ringing after the commit, for channels too busy to notify in every transaction.
//!
//! Rings collect for a few milliseconds and go out together, on a connection of their own that does not wait for its commit to
//! be flushed: a ring lost in a crash of the server is lost together with everybody who would have heard it. Sending
//! fails only while the server is away, and then whoever listens looks when it is back; so a failed ring is kept and sent
//! again, but never makes anybody wait.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use sqlx::Postgres;
use sqlx::pool::PoolConnection;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::hub::Hub;

/// Payloads kept per channel; beyond it the whole channel is rung instead.
const PAYLOADS_MAX: usize = 1_000;
/// How long the connection is kept without a ring to send.
const IDLE: Duration = Duration::from_secs(60);
/// How long sending may take before the connection is taken for dead.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(500);

/// Rings to be sent.
#[derive(Default)]
pub(crate) struct Pending {
    rings: Mutex<BTreeMap<Arc<str>, BTreeSet<String>>>,
    added: Notify,
}

impl Pending {
    pub(crate) fn add(&self, rings: impl IntoIterator<Item = (Arc<str>, String)>) {
        let mut pending = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut any = false;
        for (channel, payload) in rings {
            any = true;
            let payloads = pending.entry(channel).or_default();
            if payloads.len() >= PAYLOADS_MAX {
                payloads.clear();
                payloads.insert(String::new());
            } else if !payloads.contains("") {
                // An empty payload rings the whole channel: what else is there to say.
                payloads.insert(payload);
            }
        }
        if any {
            self.added.notify_one();
        }
    }

    fn take(&self) -> (Vec<String>, Vec<String>) {
        let taken = std::mem::take(&mut *self.rings.lock().unwrap_or_else(PoisonError::into_inner));
        taken
            .into_iter()
            .flat_map(|(channel, payloads)| payloads.into_iter().map(move |payload| (channel.to_string(), payload)))
            .unzip()
    }

    /// Puts back what could not be sent. Delays counted from then, so they are over: look now.
    fn put_back(&self, channels: Vec<String>, payloads: Vec<String>) {
        let now = payloads.into_iter().map(|payload| if payload.starts_with('+') { "+0".to_owned() } else { payload });
        self.add(channels.into_iter().map(Arc::from).zip(now));
    }
}

/// Sends what is pending until the hub is gone.
pub(crate) async fn run(hub: Weak<Hub>, pending: Arc<Pending>, window: Duration, mut closed: watch::Receiver<()>) {
    let mut line: Option<PoolConnection<Postgres>> = None;
    loop {
        let added = tokio::select! {
            biased;
            _ = closed.changed() => return,
            added = timeout(IDLE, pending.added.notified()) => added.is_ok(),
        };
        if added {
            sleep(window).await;
        }
        let Some(here) = hub.upgrade() else { return };
        let (channels, payloads) = pending.take();
        if !added {
            line = None;
            here.ringer_backend(None);
        }
        if channels.is_empty() {
            continue;
        }
        let failure = match timeout(SEND_TIMEOUT, send(&here, &mut line, &channels, &payloads)).await {
            Ok(Ok(())) => {
                here.rung(&channels);
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        tracing::warn!(schema = here.schema.name(), failure, "rings could not be sent; trying again");
        if let Some(mut dead) = line.take() {
            dead.close_on_drop();
        }
        here.ringer_backend(None);
        pending.put_back(channels, payloads);
        drop(here);
        sleep(PAUSE).await;
    }
}

async fn send(
    hub: &Hub,
    line: &mut Option<PoolConnection<Postgres>>,
    channels: &[String],
    payloads: &[String],
) -> pg::Result<()> {
    let conn = match line {
        Some(conn) => conn,
        None => {
            let mut conn = hub.db.dedicated("reveille ringer", &[("synchronous_commit", "off")])?.acquire().await?;
            let backend: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut *conn).await?;
            hub.ringer_backend(u32::try_from(backend).ok());
            line.insert(conn)
        }
    };
    let ring = hub.schema.sql(include_str!("../sql/ring.sql"));
    sqlx::query(&ring).bind(channels).bind(payloads).execute(&mut **conn).await?;
    Ok(())
}
