//! A proxy in front of the server that misbehaves on request.
//!
//! Network faults do not occur on their own in a test. [`Proxy`] causes them at a chosen point: a server that refuses
//! connections, a connection that is open at this end and dead at the other, a connection that breaks between a commit
//! and its answer.

mod connection;
mod wire;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::{TestDb, address};
use connection::Connection;

/// How long the port of a proxy that stopped refusing is waited for, in case another program is using it.
const REBIND_TRIES: u32 = 100;
const REBIND_EVERY: Duration = Duration::from_millis(20);

/// What a [`Proxy`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Carries everything.
    Pass,
    /// Refuses new connections, as a server that is not running. Open ones are carried on.
    Refuse,
    /// Loses everything in both directions and closes nothing: open connections become half-open and stay so even in
    /// another mode, and new ones are accepted and never answered.
    Swallow,
}

/// A TCP proxy on loopback to the server, with faults on request.
///
/// Dropping it closes its port and all its connections.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    traffic: Arc<Traffic>,
    mode: watch::Sender<Mode>,
    accepting: JoinHandle<()>,
}

/// Tells when a cut that was asked for has happened.
#[derive(Debug)]
pub struct Cut(oneshot::Receiver<()>);

impl Cut {
    /// Waits until the connection was cut.
    ///
    /// # Panics
    /// If the proxy is dropped before that.
    pub async fn happened(self) {
        self.0.await.expect("the proxy was dropped before its cut happened");
    }
}

/// When a connection is cut that carries a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    BeforeRequest,
    BeforeReply,
}

#[derive(Debug)]
struct Armed {
    marker: Vec<u8>,
    when: When,
    tell: oneshot::Sender<()>,
}

/// The open connections and the cuts that were asked for.
#[derive(Debug)]
struct Traffic {
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    count: watch::Sender<usize>,
    listening: watch::Sender<bool>,
    armed: Mutex<Vec<Armed>>,
    /// The major version that the server pretends to be, as two digits.
    version: Mutex<Option<[u8; 2]>>,
}

impl Proxy {
    /// A proxy to the server of a test's database.
    pub async fn start(db: &TestDb) -> Proxy {
        Proxy::to(db.url()).await
    }

    /// A proxy to the server of any URL, such as a private server's.
    pub async fn to(url: &str) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port for the proxy");
        let address = listener.local_addr().expect("the proxy's port");
        let traffic = Arc::new(Traffic {
            open: Mutex::default(),
            count: watch::Sender::new(0),
            listening: watch::Sender::new(true),
            armed: Mutex::default(),
            version: Mutex::default(),
        });
        let (mode, modes) = watch::channel(Mode::Pass);
        let accepting = tokio::spawn(accept(listener, address, address::target(url), modes, Arc::clone(&traffic)));
        Proxy { url: address::redirect(url, address), traffic, mode, accepting }
    }

    /// The server's URL, by way of this proxy. Do not print it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Changes what the proxy does. When this returns, its port is closed or open as the mode says.
    pub async fn set(&self, mode: Mode) {
        if mode == Mode::Swallow {
            self.traffic.open().values().for_each(|connection| connection.kill());
        }
        self.mode.send_replace(mode);
        let mut listening = self.traffic.listening.subscribe();
        let changed = listening.wait_for(|listening| *listening == (mode != Mode::Refuse)).await;
        changed.expect("the sender lives as long as the proxy");
    }

    /// Closes every connection that is open now; new ones are treated as the mode says.
    pub fn cut(&self) {
        self.traffic.open().values().for_each(|connection| connection.close());
    }

    /// Cuts the next connection whose client sends `marker`, after the server has executed the request and before the
    /// client receives the reply: the request has taken effect, and the client cannot know.
    ///
    /// The marker is searched in the bytes that the client sends: the text of a simple query such as `COMMIT`, or a
    /// parameter. The text of a statement that was prepared before is not sent again.
    pub fn cut_reply_to(&self, marker: impl Into<Vec<u8>>) -> Cut {
        self.arm(marker.into(), When::BeforeReply)
    }

    /// Cuts the next connection whose client sends `marker`, before the server sees it: what was asked does not happen,
    /// and the client cannot know.
    pub fn cut_request_with(&self, marker: impl Into<Vec<u8>>) -> Cut {
        self.arm(marker.into(), When::BeforeRequest)
    }

    /// From now on the server says to new connections that it is of this major version, which has two digits: servers
    /// that are too old cannot be installed everywhere. What it answers to statements is not changed.
    pub fn pretend_version(&self, major: u8) {
        let digits = [b'0' + major / 10 % 10, b'0' + major % 10];
        *self.traffic.version.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(digits);
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        *self.traffic.count.borrow()
    }

    /// Waits until exactly `count` connections are open.
    pub async fn until_connections(&self, count: usize) {
        let mut counts = self.traffic.count.subscribe();
        counts.wait_for(|open| *open == count).await.expect("the sender lives as long as the proxy");
    }

    fn arm(&self, marker: Vec<u8>, when: When) -> Cut {
        let (tell, notified) = oneshot::channel();
        self.traffic.armed().push(Armed { marker, when, tell });
        Cut(notified)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

impl Traffic {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn armed(&self) -> MutexGuard<'_, Vec<Armed>> {
        self.armed.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn pretended_version(&self) -> Option<[u8; 2]> {
        *self.version.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes the first cut whose marker is in `bytes`.
    fn take_armed(&self, bytes: &[u8]) -> Option<Armed> {
        let mut armed = self.armed();
        let found = armed.iter().position(|cut| bytes.windows(cut.marker.len()).any(|part| part == cut.marker))?;
        Some(armed.remove(found))
    }

    /// The length of the longest marker: that much of what was sent before belongs to the next search.
    fn longest_marker(&self) -> usize {
        self.armed().iter().map(|cut| cut.marker.len()).max().unwrap_or(0)
    }
}

/// Accepts connections in the modes that do, on a port that is closed in the one that does not.
async fn accept(
    listener: TcpListener,
    address: SocketAddr,
    server: (String, u16),
    mut modes: watch::Receiver<Mode>,
    traffic: Arc<Traffic>,
) {
    let mut listener = Some(listener);
    let mut next = 0;
    loop {
        let mode = *modes.borrow_and_update();
        if mode == Mode::Refuse {
            listener = None;
        } else if listener.is_none() {
            listener = Some(rebind(address).await);
        }
        traffic.listening.send_replace(listener.is_some());
        let Some(listening) = &listener else {
            if modes.changed().await.is_err() {
                return;
            }
            continue;
        };
        let client = tokio::select! {
            accepted = listening.accept() => accepted,
            changed = modes.changed() => if changed.is_ok() { continue } else { return },
        };
        let Ok((client, _)) = client else { continue };
        let connection = Arc::new(Connection::default());
        if mode == Mode::Swallow {
            connection.kill();
        }
        traffic.open().insert(next, Arc::clone(&connection));
        traffic.count.send_modify(|count| *count += 1);
        tokio::spawn({
            let (traffic, server, id) = (Arc::clone(&traffic), server.clone(), next);
            async move {
                connection.carry(client, &server, &traffic).await;
                traffic.open().remove(&id);
                traffic.count.send_modify(|count| *count -= 1);
            }
        });
        next += 1;
    }
}

async fn rebind(address: SocketAddr) -> TcpListener {
    for _ in 0..REBIND_TRIES {
        if let Ok(listener) = TcpListener::bind(address).await {
            return listener;
        }
        tokio::time::sleep(REBIND_EVERY).await;
    }
    panic!("another program took the proxy's port {address}");
}
