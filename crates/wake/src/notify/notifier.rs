//! The notifier: sends notifications after the commit, for channels too busy to notify in every transaction.
//!
//! The first notification is sent at once; those that come within a few milliseconds of it are sent together, on a
//! dedicated connection with `synchronous_commit = off`: a crash of the server that loses a notification also
//! disconnects every listener. Sending fails only while the server is away, and every listener polls when it is back;
//! so a failed notification is sent again, but no writer waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, PgPool, Postgres};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::notify::channel::is_delay;
use crate::notify::dispatcher::Dispatcher;

/// Pending payloads per channel; beyond it the whole channel is woken instead.
const PAYLOADS_MAX: usize = 1_000;
/// How long the connection is kept without anything to send.
const IDLE: Duration = Duration::from_secs(60);
/// How long sending may take before the connection counts as dead.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// How long closing may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_millis(500);

/// Notifications to be sent.
#[derive(Default)]
pub(crate) struct Pending {
    state: Mutex<State>,
    added: Notify,
    sent: Notify,
}

#[derive(Default)]
struct State {
    payloads: BTreeMap<Arc<str>, BTreeSet<String>>,
    /// How often something was added; up to which of these everything has been taken, and sent.
    added: u64,
    taken: u64,
    sent: u64,
}

impl Pending {
    pub(crate) fn add(&self, notifications: impl IntoIterator<Item = (Arc<str>, String)>) {
        let mut state = self.state.lock();
        let mut any = false;
        for (channel, payload) in notifications {
            any = true;
            let payloads = state.payloads.entry(channel).or_default();
            if payloads.len() >= PAYLOADS_MAX {
                payloads.clear();
                payloads.insert(String::new());
            } else if !payloads.contains("") {
                // With an empty payload, which wakes the whole channel, no other is needed.
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
        let as_of = self.state.lock().added;
        loop {
            let mut sent = pin!(self.sent.notified());
            sent.as_mut().enable();
            if self.state.lock().sent >= as_of {
                return;
            }
            sent.await;
        }
    }

    fn take(&self) -> (Vec<String>, Vec<String>) {
        let mut state = self.state.lock();
        let taken = std::mem::take(&mut state.payloads);
        state.taken = state.added;
        taken
            .into_iter()
            .flat_map(|(channel, payloads)| payloads.into_iter().map(move |payload| (channel.to_string(), payload)))
            .unzip()
    }

    fn done(&self) {
        let mut state = self.state.lock();
        state.sent = state.taken;
        drop(state);
        self.sent.notify_waiters();
    }

    /// Puts back what could not be sent. Delays counted from an earlier time, so they count as over.
    fn put_back(&self, channels: Vec<String>, payloads: Vec<String>) {
        let now = payloads.into_iter().map(|payload| if is_delay(&payload) { "+0".to_owned() } else { payload });
        self.add(channels.into_iter().map(Arc::from).zip(now));
    }
}

/// Sends pending notifications until the dispatcher is gone.
pub(crate) async fn run(
    dispatcher: Weak<Dispatcher>,
    pending: Arc<Pending>,
    window: Duration,
    mut closed: watch::Receiver<()>,
) {
    let mut connection = Connection::default();
    loop {
        let added = tokio::select! {
            biased;
            _ = closed.changed() => return connection.close().await,
            added = timeout(IDLE, pending.added.notified()) => added.is_ok(),
        };
        let Some(here) = dispatcher.upgrade() else { return connection.close().await };
        if !added {
            here.set_notifier(None);
            connection.close().await;
            continue;
        }
        let (channels, payloads) = pending.take();
        if channels.is_empty() {
            continue;
        }
        let since = Instant::now();
        let failure = match timeout(SEND_TIMEOUT, connection.send(&here, &channels, &payloads)).await {
            Ok(Ok(())) => {
                here.notifications_sent(&channels, since);
                pending.done();
                drop(here);
                // What is added in the meantime is sent together.
                sleep(window).await;
                continue;
            }
            Ok(Err(error)) if !error.is_transient() => {
                // It would fail again and block all others. The waiters concerned find their work by the fallback.
                tracing::error!(schema = here.schema.name(), %error, "cannot send notifications");
                pending.done();
                here.set_notifier(None);
                connection.close().await;
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        tracing::warn!(schema = here.schema.name(), failure, "cannot send notifications; retrying");
        here.set_notifier(None);
        pending.put_back(channels, payloads);
        drop(here);
        connection.close().await;
        sleep(PAUSE).await;
    }
}

/// The notifier's dedicated connection, while it has one.
#[derive(Default)]
struct Connection {
    pool: Option<PgPool>,
    conn: Option<PoolConnection<Postgres>>,
}

impl Connection {
    async fn send(
        &mut self,
        dispatcher: &Dispatcher,
        channels: &[String],
        payloads: &[String],
    ) -> reveille_pg::Result<()> {
        let notify = dispatcher.schema.sql(reveille_pg::statement!("notify"));
        let query = sqlx::query(&notify).bind(channels).bind(payloads);
        if !dispatcher.db.can_listen() {
            // Without a direct address, through the pool.
            let mut session = dispatcher.db.session().await?;
            query.execute(&mut *session).await?;
            return session.finish().await;
        }
        let conn = self.connect(dispatcher).await?;
        query.execute(conn).await?;
        Ok(())
    }

    async fn connect(&mut self, dispatcher: &Dispatcher) -> reveille_pg::Result<&mut PgConnection> {
        let fresh = self.conn.is_none();
        if fresh {
            let pool = dispatcher
                .db
                .dedicated("reveille notifier", &[("synchronous_commit", "off"), ("idle_session_timeout", "0")])?;
            self.conn = Some(self.pool.insert(pool).acquire().await?);
        }
        let Some(conn) = &mut self.conn else { return Err(reveille_pg::Error::Closed) };
        if fresh || !dispatcher.knows_notifier() {
            let backend: i32 = sqlx::query_scalar(reveille_pg::statement!("backend")).fetch_one(&mut **conn).await?;
            dispatcher.set_notifier(u32::try_from(backend).ok());
        }
        Ok(conn)
    }

    /// Closes the connection, whatever state it is in, and waits for the server only shortly.
    async fn close(&mut self) {
        if let Some(mut conn) = self.conn.take() {
            conn.close_on_drop();
        }
        if let Some(pool) = self.pool.take() {
            let _ = timeout(CLOSE_TIMEOUT, pool.close()).await;
        }
    }
}
