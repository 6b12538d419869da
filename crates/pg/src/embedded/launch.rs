//! Starting the server's process.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::home::Home;
use super::postmaster::{self, PidFile};
use super::{Error, Installation, Result, Settings};

/// How often the pid file is polled while the server starts or stops. PostgreSQL reports its state only there.
pub(super) const POLL_EVERY: Duration = Duration::from_millis(10);

/// Number of ports to try: another program may take a free port before the server binds it.
const PORT_TRIES: usize = 5;

/// How long sessions of a killed server may hold its shared memory before the start fails. They end by themselves when
/// they detect that their postmaster is gone.
const ORPHANS_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between attempts to start while such sessions exist.
const ORPHANS_PAUSE: Duration = Duration::from_millis(100);

/// A server's directory, programs and settings.
#[derive(Debug)]
pub(super) struct Launcher {
    pub(super) home: Home,
    pub(super) installation: Installation,
    pub(super) settings: Settings,
}

/// Why one attempt to start ended.
enum Failed {
    /// Another program took the port.
    Port,
    /// Sessions of a killed server still hold its shared memory.
    Orphans,
    /// `pg_stat_statements` is not installed.
    Statistics,
    Other(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Other(error)
    }
}

impl Launcher {
    /// The running server, once it is ready. `None` if none runs, or it has ended meanwhile.
    pub(super) async fn running(&self) -> Result<Option<PidFile>> {
        let since = Instant::now();
        loop {
            match postmaster::running(&self.home.data()) {
                None => return Ok(None),
                Some(file) if file.ready => return Ok(Some(file)),
                Some(_) if since.elapsed() > self.settings.start_timeout => return Err(self.still_starting(0)),
                Some(_) => tokio::time::sleep(POLL_EVERY).await,
            }
        }
    }

    /// Starts the server on the configured port, or else on that of the last start, or else on a free one.
    pub(super) async fn launch(&self) -> Result<PidFile> {
        for _ in 0..PORT_TRIES {
            let port = match self.settings.port {
                Some(port) => port,
                None => self.home.last_port().filter(|port| is_free(*port)).map_or_else(free_port, Ok)?,
            };
            match self.launch_on(port).await {
                Err(Error::PortTaken { .. }) if self.settings.port.is_none() => {}
                done => return done,
            }
        }
        Err(self.start_failed(0))
    }

    /// Starts the server on one port. Waits for orphaned sessions of a killed server to end, and starts without
    /// `pg_stat_statements` if it is not installed.
    pub(super) async fn launch_on(&self, port: u16) -> Result<PidFile> {
        let since = Instant::now();
        let socket_dir = self.home.socket_dir()?;
        let mut statistics = true;
        loop {
            match self.attempt(port, &socket_dir, statistics).await {
                Ok(file) => {
                    // A failure is ignored: without the file the next start chooses a free port.
                    let _ = self.home.write_port(port);
                    return Ok(file);
                }
                Err(Failed::Orphans) if since.elapsed() < ORPHANS_TIMEOUT => tokio::time::sleep(ORPHANS_PAUSE).await,
                Err(Failed::Statistics) if statistics => {
                    tracing::debug!("pg_stat_statements (postgresql-contrib) is not installed; starting without it");
                    statistics = false;
                }
                Err(Failed::Port) => return Err(Error::PortTaken { port }),
                Err(Failed::Other(error)) => return Err(error),
                Err(Failed::Orphans | Failed::Statistics) => return Err(self.start_failed(0)),
            }
        }
    }

    /// One attempt to start: cleans up after the last server, writes the configuration, runs `postgres`, and waits
    /// until it is ready or has ended. No server may be running.
    async fn attempt(&self, port: u16, socket_dir: &Path, statistics: bool) -> Result<PidFile, Failed> {
        let pgdata = self.home.data();
        postmaster::none_may_run(&pgdata)?;
        self.home.write_conf(&self.settings.render(port, socket_dir, statistics))?;
        postmaster::disown_pid_file(&self.home)?;
        self.home.clear_socket_dir(socket_dir)?;
        let (log, offset) = self.home.open_log()?;
        let second = log.try_clone().map_err(Error::io("open", &self.home.log()))?;
        let mut command = self.home.command(&self.installation, "postgres");
        command.arg("-D").arg(&pgdata).stdout(Stdio::from(log)).stderr(Stdio::from(second));
        // Its own process group: Ctrl-C in the terminal reaches only the owner, which then shuts the server down.
        command.process_group(0);
        let program = self.installation.program("postgres");
        let mut child = command.spawn().map_err(Error::io("run", &program))?;

        let since = Instant::now();
        loop {
            if let Some(file) = postmaster::running(&pgdata)
                && Some(file.pid) == child.id()
                && file.ready
            {
                return Ok(file);
            }
            if child.try_wait().map_err(Error::io("wait for", &program))?.is_some() {
                return Err(self.classify(port, offset));
            }
            if since.elapsed() > self.settings.start_timeout {
                return Err(Failed::Other(self.still_starting(offset)));
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    /// Determines from the log why the server ended. The settings fix the language of its messages.
    fn classify(&self, port: u16, offset: u64) -> Failed {
        let tail = postmaster::log_tail(&self.home.log(), offset);
        if tail.contains("could not create any TCP/IP sockets") || !is_free(port) {
            Failed::Port
        } else if tail.contains("pre-existing shared memory block") {
            Failed::Orphans
        } else if tail.contains("could not access file \"pg_stat_statements\"") {
            Failed::Statistics
        } else {
            Failed::Other(Error::StartFailed { log: self.home.log(), tail })
        }
    }

    fn start_failed(&self, offset: u64) -> Error {
        let log = self.home.log();
        Error::StartFailed { tail: postmaster::log_tail(&log, offset), log }
    }

    fn still_starting(&self, offset: u64) -> Error {
        let log = self.home.log();
        let tail = postmaster::log_tail(&log, offset);
        Error::StillStarting { waited: self.settings.start_timeout, log, tail }
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    Ok(listener.map_err(Error::io("find a free port on", Path::new("127.0.0.1")))?.port())
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
