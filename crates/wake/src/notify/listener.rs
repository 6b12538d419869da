//! The connection on which a process receives notifications.
//!
//! Notifications sent while the listener is disconnected are lost, and a driver that reconnects by itself would hide
//! that. So a broken connection is dropped and a new one is made, and once it listens to every channel all groups poll.
//! Two kinds of silent failure are detected: a half-open connection, by a heartbeat (an empty message, which is no
//! statement); and a pooler that accepts LISTEN and delivers nothing, by a probe, a notification to the process itself,
//! after every connect.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use reveille_pg::retry::Backoff;
use sqlx::postgres::{PgListener, PgNotification};
use sqlx::{Acquire, Connection as _, PgConnection, PgPool};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::notify::channel::channel_name;
use crate::notify::dispatcher::Dispatcher;
use crate::notify::received::Clock;
use crate::wait::mode::Event;

/// How long connecting and LISTEN may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the probe may take before the connection counts as one that delivers nothing.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between attempts grows from this to that.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LONGEST: Duration = Duration::from_secs(5);
/// The channel of the probe.
const PROBE: &str = "probe";

/// Why a listener ended.
enum Lost {
    /// The dispatcher is gone.
    Closed,
    /// The connection broke or could not be made.
    Broken(String),
    /// The server refuses LISTEN, or delivers nothing.
    Refused(String),
}

impl From<sqlx::Error> for Lost {
    fn from(error: sqlx::Error) -> Lost {
        reveille_pg::Error::from(error).into()
    }
}

impl From<reveille_pg::Error> for Lost {
    fn from(error: reveille_pg::Error) -> Lost {
        let reason = reveille_pg::causes(&error);
        if error.is_transient() { Lost::Broken(reason) } else { Lost::Refused(reason) }
    }
}

/// Listens until the dispatcher is gone.
pub(crate) async fn run(dispatcher: Weak<Dispatcher>, changed: Arc<Notify>, mut closed: watch::Receiver<()>) {
    let mut backoff = Backoff::new(PAUSE_FIRST, PAUSE_LONGEST);
    let mut logged = None;
    loop {
        let started = Instant::now();
        // In a task of its own, so that a panic is handled like a lost connection.
        let mut listening = AbortOnDrop(tokio::spawn(listen(dispatcher.clone(), changed.clone())));
        let lost = tokio::select! {
            biased;
            _ = closed.changed() => return,
            lost = &mut listening.0 => lost.unwrap_or_else(|_| Lost::Broken("the listener panicked".to_owned())),
        };
        let (event, reason) = match lost {
            Lost::Closed => return,
            Lost::Broken(reason) => (Event::ListenerLost, reason),
            Lost::Refused(reason) => (Event::ListenRefused, reason),
        };
        let Some(here) = dispatcher.upgrade() else { return };
        if logged.as_ref() != Some(&reason) || started.elapsed() > PAUSE_LONGEST * 2 {
            tracing::warn!(schema = here.schema.name(), reason, "listener disconnected; polling until it is connected");
            logged = Some(reason.clone());
        }
        here.disconnected(event, reason);
        drop(here);
        if started.elapsed() > PAUSE_LONGEST {
            backoff.reset();
        }
        tokio::select! {
            biased;
            _ = closed.changed() => return,
            () = sleep(backoff.pause()) => {}
        }
    }
}

struct AbortOnDrop(JoinHandle<Lost>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs one connection until it is lost.
async fn listen(dispatcher: Weak<Dispatcher>, changed: Arc<Notify>) -> Lost {
    let pool =
        match dispatcher.upgrade().map(|here| here.db.dedicated("reveille listener", &[("idle_session_timeout", "0")]))
        {
            Some(Ok(pool)) => pool,
            Some(Err(error)) => return error.into(),
            None => return Lost::Closed,
        };
    let pool = CloseOnDrop(pool);
    listen_on(&pool.0, &dispatcher, &changed).await
}

/// Closes its pool however the listener ends. In the background, because the server may not answer.
struct CloseOnDrop(PgPool);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        let pool = self.0.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { timeout(CONNECT_TIMEOUT, pool.close()).await });
        }
    }
}

async fn listen_on(pool: &PgPool, dispatcher: &Weak<Dispatcher>, changed: &Notify) -> Lost {
    let mut connection = match timeout(CONNECT_TIMEOUT, Connection::connect(pool, dispatcher)).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(lost)) => return lost,
        Err(_) => return Lost::Broken("connecting took too long".to_owned()),
    };
    // The dispatcher is held only briefly, so that it can be dropped while its listener waits.
    let Some(interval) = dispatcher.upgrade().map(|here| here.options.heartbeat_interval) else { return Lost::Closed };
    let mut next_beat = Instant::now() + interval;
    loop {
        let step = tokio::select! {
            biased;
            () = changed.notified() => connection.listen_to_new_channels(dispatcher).await,
            received = timeout_at(next_beat, connection.listener.try_recv()) => match received {
                Ok(Ok(Some(notification))) => connection.dispatch(dispatcher, &notification),
                Ok(Ok(None)) => Err(Lost::Broken("the connection was closed".to_owned())),
                Ok(Err(error)) => Err(error.into()),
                Err(_) => {
                    next_beat = Instant::now() + interval;
                    connection.heartbeat(dispatcher).await
                }
            },
        };
        if let Err(lost) = step {
            return lost;
        }
    }
}

/// A connection that listens to channels.
struct Connection {
    listener: PgListener,
    channels: HashSet<String>,
}

impl Connection {
    /// Connects, listens to every channel, and probes that notifications are delivered.
    async fn connect(pool: &PgPool, dispatcher: &Weak<Dispatcher>) -> Result<Connection, Lost> {
        let here = dispatcher.upgrade().ok_or(Lost::Closed)?;
        let mut listener = PgListener::connect_with(pool).await?;
        listener.eager_reconnect(false);
        let mut connection = Connection { listener, channels: HashSet::new() };
        connection.listen_to_missing(&here).await?;
        connection.probe(&here).await?;
        let clock = if here.has_due_channels() { Some(connection.read_clock().await?) } else { None };
        here.connected(clock);
        Ok(connection)
    }

    /// Listens to channels that were added since; `true` if there were any.
    async fn listen_to_missing(&mut self, here: &Dispatcher) -> Result<bool, Lost> {
        let names = here.channel_names();
        let missing: Vec<&str> =
            names.iter().map(String::as_str).filter(|name| !self.channels.contains(*name)).collect();
        if missing.is_empty() {
            return Ok(false);
        }
        self.listener.listen_all(missing.iter().copied()).await?;
        self.channels.extend(missing.into_iter().map(str::to_owned));
        Ok(true)
    }

    async fn listen_to_new_channels(&mut self, dispatcher: &Weak<Dispatcher>) -> Result<(), Lost> {
        let here = dispatcher.upgrade().ok_or(Lost::Closed)?;
        let listening = timeout(CONNECT_TIMEOUT, async {
            if self.listen_to_missing(&here).await? {
                let clock = if here.has_due_channels() { Some(self.read_clock().await?) } else { None };
                here.connected(clock);
            }
            Ok(())
        });
        listening.await.unwrap_or_else(|_| Err(Lost::Broken("LISTEN took too long".to_owned())))
    }

    fn dispatch(&mut self, dispatcher: &Weak<Dispatcher>, notification: &PgNotification) -> Result<(), Lost> {
        let here = dispatcher.upgrade().ok_or(Lost::Closed)?;
        here.notification_received(notification.channel(), notification.payload(), notification.process_id());
        Ok(())
    }

    /// Sends a notification the way writes are sent, and waits for it. This detects a pooler that delivers none, and a
    /// direct address of another database.
    async fn probe(&mut self, here: &Dispatcher) -> Result<(), Lost> {
        let channel = channel_name(here.schema.name(), PROBE);
        let token = format!("{:016x}", fastrand::u64(..));
        self.listener.listen(&channel).await?;
        let notify = sqlx::query(reveille_pg::statement!("probe")).bind(&channel).bind(&token);
        if here.db.pool().is_closed() {
            // The pool of the first engine is closed, but another engine still needs the listener.
            notify.execute(&mut self.listener).await?;
        } else {
            let mut session = here.db.session().await?;
            notify.execute(&mut *session).await?;
            session.finish().await?;
        }
        let received = timeout(PROBE_TIMEOUT, async {
            loop {
                match self.listener.try_recv().await? {
                    Some(received) if received.channel() == channel && received.payload() == token => return Ok(()),
                    Some(_) => {}
                    None => return Err(Lost::Broken("the connection was closed".to_owned())),
                }
            }
        });
        received.await.unwrap_or_else(|_| {
            let reason = "LISTEN was accepted but nothing is delivered; a transaction-mode pooler does that, or a \
                          direct address of another database";
            Err(Lost::Refused(reason.to_owned()))
        })
    }

    /// Checks that the server answers.
    async fn heartbeat(&mut self, dispatcher: &Weak<Dispatcher>) -> Result<(), Lost> {
        let here = dispatcher.upgrade().ok_or(Lost::Closed)?;
        let deadline = here.options.heartbeat_deadline;
        let answer = timeout(deadline, async {
            if here.needs_clock() {
                here.set_clock(self.read_clock().await?);
            } else {
                let conn: &mut PgConnection = (&mut self.listener).acquire().await?;
                conn.ping().await?;
            }
            Ok(())
        });
        answer.await.unwrap_or_else(|_| Err(Lost::Broken("no answer to a heartbeat".to_owned())))
    }

    async fn read_clock(&mut self) -> Result<Clock, Lost> {
        let asked = Instant::now();
        let read = sqlx::query_scalar(reveille_pg::statement!("clock"));
        let there_ms: i64 = read.fetch_one(&mut self.listener).await?;
        Ok(Clock { here: asked + asked.elapsed() / 2, there_ms })
    }
}
