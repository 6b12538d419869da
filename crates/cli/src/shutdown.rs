//! From a signal to an orderly end.
//!
//! The first SIGINT, SIGTERM or SIGHUP (a terminal that was closed) asks the process to stop; everyone who cares waits on [`Shutdown::requested`]. A second one
//! means "now": the process exits at once with the code a shell expects from that signal. What was under way is then
//! left to what the design makes of any crash.
//!
//! A process that was started to survive its terminal (`nohup`) ignores SIGHUP, and still does here.
//!
//! One Ctrl-C can arrive twice, from the terminal and from a program in between that passes it on. Copies within
//! [`ONE_WISH`] are therefore one wish, not impatience.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::error::Error;

/// What a shell adds to a signal's number to make an exit code.
const KILLED_BY: i32 = 128;

/// How far apart two signals are at least that a person means as two.
const SAME_REQUEST: Duration = Duration::from_millis(500);

/// Whether the process was asked to stop.
#[derive(Clone)]
pub(crate) struct Shutdown(Arc<watch::Sender<bool>>);

impl Shutdown {
    /// Starts receiving signals. Before this, they end the process; so call it before anything that needs tidying up.
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
                        tracing::info!("stopping; a second signal ends the process at once");
                        requested.request();
                    }
                    Some(first) if first.elapsed() < SAME_REQUEST => {}
                    Some(_) => {
                        tracing::warn!("second signal: leaving at once");
                        std::process::exit(KILLED_BY + kind.as_raw_value());
                    }
                }
            }
        });
        Ok(shutdown)
    }

    /// Leaves signals to the parent process, which is asked by the same Ctrl-C and says by other means when to stop: by
    /// [`Shutdown::request`].
    pub(crate) fn by_parent() -> Result<Self, Error> {
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            // Once it is received it no longer ends the process, whether or not anybody looks.
            drop(signal(kind).map_err(Error::Signals)?);
        }
        Ok(Self(Arc::new(watch::Sender::new(false))))
    }

    /// Asks the process to stop.
    pub(crate) fn request(&self) {
        self.0.send_replace(true);
    }

    /// Resolves once the process was asked to stop.
    pub(crate) async fn requested(&self) {
        // The sender is here, so that the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|requested| *requested).await;
    }

    /// Whether the process was asked to stop.
    pub(crate) fn is_requested(&self) -> bool {
        *self.0.borrow()
    }
}

/// Whether this process was started with SIGHUP ignored. Where the system does not tell, "yes": receiving a signal would
/// end its being ignored.
fn ignores_hangup() -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return true };
    ignored(&status).is_none_or(|signals| signals & 1 << (SignalKind::hangup().as_raw_value() - 1) != 0)
}

/// The set of ignored signals in Linux' description of a process; `None` if it is not there.
fn ignored(status: &str) -> Option<u64> {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}
