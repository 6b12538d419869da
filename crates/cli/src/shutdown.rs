//! Orderly shutdown on a signal.
//!
//! The first SIGINT, SIGTERM or SIGHUP (a closed terminal) requests a shutdown; its parts wait on
//! [`Shutdown::requested`].
//! A second signal ends the process at once, with the exit code that shells expect; to the rest of the system this is a
//! crash.
//!
//! A process started with `nohup` ignores SIGHUP, and continues to do so.
//!
//! One Ctrl-C can arrive twice, from the terminal and from a program in between that forwards it. Signals within
//! [`SAME_REQUEST`] therefore count as one.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::{error::Error, logging::announce};

/// Shells add this to a signal's number to get an exit code.
const KILLED_BY: i32 = 128;

/// Two signals within this time count as one.
const SAME_REQUEST: Duration = Duration::from_millis(500);

/// Whether a shutdown was requested.
#[derive(Clone)]
pub(crate) struct Shutdown(Arc<watch::Sender<bool>>);

impl Shutdown {
    /// Starts receiving signals. Before, they end the process; so call it before anything that needs cleaning up.
    pub(crate) fn on_signals() -> Result<Self, Error> {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Signals)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Error::Signals)?;
        let mut hangup = match ignores_hangup() {
            true => None,
            false => Some(signal(SignalKind::hangup()).map_err(Error::Signals)?),
        };
        let shutdown = Self(Arc::new(watch::Sender::new(false)));
        let requested = shutdown.clone();
        tokio::spawn(async move {
            let mut first = None;
            loop {
                let kind = tokio::select! {
                    _ = interrupt.recv() => SignalKind::interrupt(),
                    _ = terminate.recv() => SignalKind::terminate(),
                    Some(_) = async { hangup.as_mut()?.recv().await } => SignalKind::hangup(),
                };
                match first {
                    None => {
                        first = Some(Instant::now());
                        announce("stopping; a second signal ends the process at once");
                        requested.request();
                    }
                    Some(first) if first.elapsed() < SAME_REQUEST => {}
                    Some(_) => {
                        tracing::warn!("second signal: exiting at once");
                        std::process::exit(KILLED_BY + kind.as_raw_value());
                    }
                }
            }
        });
        Ok(shutdown)
    }

    /// Ignores signals: the parent process receives the same Ctrl-C and requests the shutdown over the control socket.
    pub(crate) fn by_parent() -> Result<Self, Error> {
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            // Once a handler is installed, the signal no longer ends the process.
            drop(signal(kind).map_err(Error::Signals)?);
        }
        Ok(Self(Arc::new(watch::Sender::new(false))))
    }

    /// Requests a shutdown.
    pub(crate) fn request(&self) {
        self.0.send_replace(true);
    }

    /// Resolves once a shutdown was requested.
    pub(crate) async fn requested(&self) {
        // `self` keeps the sender, so the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|requested| *requested).await;
    }

    /// Whether a shutdown was requested.
    pub(crate) fn is_requested(&self) -> bool {
        *self.0.borrow()
    }
}

/// Whether this process was started with SIGHUP ignored. True if the system does not tell: a handler would end that.
fn ignores_hangup() -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return true };
    ignored(&status).is_none_or(|signals| signals & 1 << (SignalKind::hangup().as_raw_value() - 1) != 0)
}

/// The ignored signals in `/proc/self/status`; `None` if they are missing.
fn ignored(status: &str) -> Option<u64> {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}
