//! The one connection on which a process hears notifications.
//!
//! What is sent while nobody listens is lost, and a driver that reconnects by itself hides that it was. So the connection
//! is never mended behind our back: when it breaks it is given up, a new one is made, and only when it hears every
//! channel does everybody look once. Two kinds of silence are told from peace: a half-open connection, by asking it for an
//! answer now and then (an empty message, which is no statement); and a pooler that accepts LISTEN and delivers
//! nothing, by a notification to ourselves after every connect.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pg::retry::Backoff;
use sqlx::postgres::{PgListener, PgNotification};
use sqlx::{Acquire, Connection, PgConnection, PgPool};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::notify::channel::channel_name;
use crate::notify::dispatcher::{Clock, Dispatcher};
use crate::wait::mode::Event;

/// How long connecting and LISTEN may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a notification to ourselves may take before the line counts as deaf.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between attempts grows from this to that.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_LONGEST: Duration = Duration::from_secs(5);
/// The channel of the notification to ourselves.
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
        pg::Error::from(error).into()
    }
}

impl From<pg::Error> for Lost {
    fn from(error: pg::Error) -> Lost {
        let reason = pg::causes(&error);
        if error.is_transient() { Lost::Broken(reason) } else { Lost::Refused(reason) }
    }
}

/// Listens until the dispatcher is gone.
pub(crate) async fn run(dispatcher: Weak<Dispatcher>, changed: Arc<Notify>, mut closed: watch::Receiver<()>) {
    let mut backoff = Backoff::new(PAUSE_FIRST, PAUSE_LONGEST);
    let mut said = None;
    loop {
        let started = Instant::now();
        // In a task of its own, so that a panic in it is an end like any other.
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
        if said.as_ref() != Some(&reason) || started.elapsed() > PAUSE_LONGEST * 2 {
            tracing::warn!(schema = here.schema.name(), reason, "notifications are not heard; polling until they are");
            said = Some(reason.clone());
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

/// One connection, from its making to its end.
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

/// Closes its pool however the listener ends. The driver says goodbye in the background, to a server that may be gone: nobody
/// waits for that.
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
    let mut line = match timeout(CONNECT_TIMEOUT, Line::connect(pool, dispatcher)).await {
        Ok(Ok(line)) => line,
        Ok(Err(lost)) => return lost,
        Err(_) => return Lost::Broken("connecting took too long".to_owned()),
    };
    // The dispatcher must be free to go while its listener waits: it is held for a moment at a time.
    let Some(interval) = dispatcher.upgrade().map(|here| here.options.heartbeat_interval) else { return Lost::Closed };
    let mut next_beat = Instant::now() + interval;
    loop {
        let step = tokio::select! {
            biased;
            () = changed.notified() => line.catch_up(dispatcher).await,
            heard = timeout_at(next_beat, line.listener.try_recv()) => match heard {
                Ok(Ok(Some(notification))) => line.pass_on(dispatcher, &notification),
                Ok(Ok(None)) => Err(Lost::Broken("the connection was closed".to_owned())),
                Ok(Err(error)) => Err(error.into()),
                Err(_) => {
                    next_beat = Instant::now() + interval;
                    line.heartbeat(dispatcher).await
                }
            },
        };
        if let Err(lost) = step {
            return lost;
        }
    }
}

/// A connection that listens.
struct Line {
    listener: PgListener,
    channels: HashSet<String>,
}

impl Line {
    /// Connects, listens to every channel, and makes sure that something is heard.
    async fn connect(pool: &PgPool, dispatcher: &Weak<Dispatcher>) -> Result<Line, Lost> {
        let here = dispatcher.upgrade().ok_or(Lost::Closed)?;
        let mut listener = PgListener::connect_with(pool).await?;
        listener.eager_reconnect(false);
        let mut line = Line { listener, channels: HashSet::new() };
        line.listen_to_missing(&here).await?;
        line.probe(&here).await?;
        let clock = if here.has_dated_channels() { Some(line.read_clock().await?) } else { None };
        here.connected(clock);
        Ok(line)
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

    async fn catch_up(&mut self, dispatcher: &Weak<Dispatcher>) -> Result<(), Lost> {
        let here = dispatcher.upgrade().ok_or(Lost::Closed)?;
        let caught_up = timeout(CONNECT_TIMEOUT, async {
            if self.listen_to_missing(&here).await? {
                let clock = if here.has_dated_channels() { Some(self.read_clock().await?) } else { None };
                here.connected(clock);
            }
            Ok(())
        });
        caught_up.await.unwrap_or_else(|_| Err(Lost::Broken("LISTEN took too long".to_owned())))
    }

    fn pass_on(&mut self, dispatcher: &Weak<Dispatcher>, notification: &PgNotification) -> Result<(), Lost> {
        let here = dispatcher.upgrade().ok_or(Lost::Closed)?;
        here.heard(notification.channel(), notification.payload(), notification.process_id());
        Ok(())
    }

    /// Sends a notification to ourselves the way writes are sent, and waits for it. A pooler that swallows it, and a direct
    /// address that leads to another database, are found out here.
    async fn probe(&mut self, here: &Dispatcher) -> Result<(), Lost> {
        let channel = channel_name(here.schema.name(), PROBE);
        let token = format!("{:016x}", fastrand::u64(..));
        self.listener.listen(&channel).await?;
        let notify = sqlx::query(pg::statement!("probe")).bind(&channel).bind(&token);
        if here.db.pool().is_closed() {
            // The pool of the first engine here; another one's still works, and needs to hear.
            notify.execute(&mut self.listener).await?;
        } else {
            let mut session = here.db.session().await?;
            notify.execute(&mut *session).await?;
            session.finish().await?;
        }
        let heard = timeout(PROBE_TIMEOUT, async {
            loop {
                match self.listener.try_recv().await? {
                    Some(heard) if heard.channel() == channel && heard.payload() == token => return Ok(()),
                    Some(_) => {}
                    None => return Err(Lost::Broken("the connection was closed".to_owned())),
                }
            }
        });
        heard.await.unwrap_or_else(|_| {
            let disconnected = "LISTEN was accepted but nothing is delivered; a transaction-mode pooler does that, or a direct address of another database";
            Err(Lost::Refused(disconnected.to_owned()))
        })
    }

    /// Asks the server for a sign of life.
    async fn heartbeat(&mut self, dispatcher: &Weak<Dispatcher>) -> Result<(), Lost> {
        let here = dispatcher.upgrade().ok_or(Lost::Closed)?;
        let deadline = here.options.heartbeat_deadline;
        let answer = timeout(deadline, async {
            if here.wants_clock() {
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
        let read = sqlx::query_scalar(pg::statement!("clock"));
        let there_ms: i64 = read.fetch_one(&mut self.listener).await?;
        Ok(Clock { here: asked + asked.elapsed() / 2, there_ms })
    }
}
