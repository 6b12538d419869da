//! Ringing after the commit, for channels too busy to notify in every transaction.
//!
//! The first ring goes out at once; those that come within a few milliseconds of one go out together, on a connection of their
//! own that does not wait for its commit to be flushed: a ring lost in a crash of the server is lost together with
//! everybody who would have heard it. Sending fails only while the server is away, and then whoever listens looks when it is
//! back; so a failed ring is kept and sent again, but never makes anybody wait.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, PgPool, Postgres};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::notify::channel::is_delay;
use crate::notify::dispatcher::Dispatcher;

/// Payloads kept per channel; beyond it the whole channel is rung instead.
const PAYLOADS_MAX: usize = 1_000;
/// How long the connection is kept without a ring to send.
const IDLE: Duration = Duration::from_secs(60);
/// How long sending may take before the connection is taken for dead.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// How long closing may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(500);

/// Rings to be sent.
#[derive(Default)]
pub(crate) struct Pending {
    state: Mutex<State>,
    added: Notify,
    sent: Notify,
}

#[derive(Default)]
struct State {
    wake_ups: BTreeMap<Arc<str>, BTreeSet<String>>,
    /// How often something was added, and as of which of these everything has been sent.
    added: u64,
    taken: u64,
    sent: u64,
}

impl Pending {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, wake_ups: impl IntoIterator<Item = (Arc<str>, String)>) {
        let mut state = self.state();
        let mut any = false;
        for (channel, payload) in wake_ups {
            any = true;
            let payloads = state.wake_ups.entry(channel).or_default();
            if payloads.len() >= PAYLOADS_MAX {
                payloads.clear();
                payloads.insert(String::new());
            } else if !payloads.contains("") {
                // An empty payload rings the whole channel: what else is there to say.
                payloads.insert(payload);
            }
        }
        if any {
            state.added += 1;
            self.added.notify_one();
        }
    }

    /// Returns when everything added before has been sent.
    pub(crate) async fn flush(&self) {
        let as_of = self.state().added;
        loop {
            let mut sent = pin!(self.sent.notified());
            sent.as_mut().enable();
            if self.state().sent >= as_of {
                return;
            }
            sent.await;
        }
    }

    fn take(&self) -> (Vec<String>, Vec<String>) {
        let mut state = self.state();
        let taken = std::mem::take(&mut state.wake_ups);
        state.taken = state.added;
        taken
            .into_iter()
            .flat_map(|(channel, payloads)| payloads.into_iter().map(move |payload| (channel.to_string(), payload)))
            .unzip()
    }

    fn done(&self) {
        let mut state = self.state();
        state.sent = state.taken;
        drop(state);
        self.sent.notify_waiters();
    }

    /// Puts back what could not be sent. Delays counted from then, so they are over: look now.
    fn put_back(&self, channels: Vec<String>, payloads: Vec<String>) {
        let now = payloads.into_iter().map(|payload| if is_delay(&payload) { "+0".to_owned() } else { payload });
        self.add(channels.into_iter().map(Arc::from).zip(now));
    }
}

/// Sends what is pending until the dispatcher is gone.
pub(crate) async fn run(
    dispatcher: Weak<Dispatcher>,
    pending: Arc<Pending>,
    window: Duration,
    mut closed: watch::Receiver<()>,
) {
    let mut line = Line::default();
    loop {
        let added = tokio::select! {
            biased;
            _ = closed.changed() => return line.close().await,
            added = timeout(IDLE, pending.added.notified()) => added.is_ok(),
        };
        let Some(here) = dispatcher.upgrade() else { return line.close().await };
        if !added {
            here.notifier_backend(None);
            line.close().await;
            continue;
        }
        let (channels, payloads) = pending.take();
        if channels.is_empty() {
            continue;
        }
        let since = Instant::now();
        let failure = match timeout(SEND_TIMEOUT, line.send(&here, &channels, &payloads)).await {
            Ok(Ok(())) => {
                here.rung(&channels, since);
                pending.done();
                drop(here);
                // What is rung in the meantime goes out together.
                sleep(window).await;
                continue;
            }
            Ok(Err(error)) if !error.is_transient() => {
                // It would be refused again, and keep back all other rings: those who wait find out by their fallback.
                tracing::error!(schema = here.schema.name(), %error, "the server refuses to ring");
                pending.done();
                here.notifier_backend(None);
                line.close().await;
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        tracing::warn!(schema = here.schema.name(), failure, "rings could not be sent; trying again");
        here.notifier_backend(None);
        pending.put_back(channels, payloads);
        drop(here);
        line.close().await;
        sleep(PAUSE).await;
    }
}

/// The notifier's own connection, while it has one.
#[derive(Default)]
struct Line {
    pool: Option<PgPool>,
    conn: Option<PoolConnection<Postgres>>,
}

impl Line {
    async fn send(&mut self, dispatcher: &Dispatcher, channels: &[String], payloads: &[String]) -> pg::Result<()> {
        let wake_up = dispatcher.schema.sql(pg::statement!("notify"));
        let query = sqlx::query(&wake_up).bind(channels).bind(payloads);
        if !dispatcher.db.can_listen() {
            // There is no direct address: through the pool, like everything else.
            let mut session = dispatcher.db.session().await?;
            query.execute(&mut *session).await?;
            return session.finish().await;
        }
        let conn = self.connect(dispatcher).await?;
        query.execute(conn).await?;
        Ok(())
    }

    async fn connect(&mut self, dispatcher: &Dispatcher) -> pg::Result<&mut PgConnection> {
        let fresh = self.conn.is_none();
        if fresh {
            let pool = dispatcher
                .db
                .dedicated("reveille notifier", &[("synchronous_commit", "off"), ("idle_session_timeout", "0")])?;
            self.conn = Some(self.pool.insert(pool).acquire().await?);
        }
        let Some(conn) = &mut self.conn else { return Err(pg::Error::Closed) };
        if fresh || !dispatcher.knows_notifier() {
            let backend: i32 = sqlx::query_scalar(pg::statement!("backend")).fetch_one(&mut **conn).await?;
            dispatcher.notifier_backend(u32::try_from(backend).ok());
        }
        Ok(conn)
    }

    /// Closes the connection, whatever state it is in. A server that does not say goodbye is not waited for.
    async fn close(&mut self) {
        if let Some(mut conn) = self.conn.take() {
            conn.close_on_drop();
        }
        if let Some(pool) = self.pool.take() {
            let _ = timeout(CLOSE_TIMEOUT, pool.close()).await;
        }
    }
}
