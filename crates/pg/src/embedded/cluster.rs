//! Starting, attaching to and stopping a private server.

use std::fmt;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _};

use super::home::{Home, SUPERUSER};
use super::postmaster::{self, PidFile, Signal};
use super::{Error, Installation, Result, Settings, Version, Wanted};

/// How long a stop may take: a fast shutdown writes a checkpoint first.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// How often the pid file is looked at while the server starts or stops. PostgreSQL tells nobody but this file.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Ports tried before giving up: another program may take a free port between its choice and its use.
const PORT_TRIES: usize = 5;

/// How long sessions of a killed server may hold its shared memory before that is an error. They end by themselves as
/// soon as they notice that their postmaster is gone.
const ORPHANS_TIMEOUT: Duration = Duration::from_secs(10);

/// A private PostgreSQL server.
///
/// Dropping the value leaves the server running; see the [module](super).
pub struct Cluster {
    home: Home,
    installation: Installation,
    settings: Settings,
    port: u16,
    socket_dir: PathBuf,
    url: String,
    attached: bool,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("data_dir", &self.data_dir())
            .field("version", &self.version())
            .field("port", &self.port)
            .field("attached", &self.attached)
            .finish_non_exhaustive()
    }
}

/// Why one attempt to start ended.
enum Failed {
    /// The port was taken in between.
    Port,
    /// Sessions of a killed server still hold its memory.
    Orphans,
    /// `pg_stat_statements` is not installed.
    Statistics,
    Other(Error),
}

impl Cluster {
    /// Creates the server if it does not exist, starts it if it does not run, and waits until it accepts connections.
    ///
    /// A server that already runs on the data directory is attached to as it is ([`attached`](Cluster::attached)); the
    /// settings then apply at its next start. Two callers of one directory wait for each other.
    ///
    /// # Errors
    /// Each says what is in the way and what to do; see [`Error`]. The directory is then as it was, or complete.
    ///
    /// # Cancel safety
    /// A dropped start may leave a server that is starting; the next start attaches to it.
    pub async fn start(settings: Settings) -> Result<Cluster> {
        let home = Home::open(&settings.data_dir).await?;
        let lock = home.lock().await?;
        let installation = choose_installation(&home, &settings).await?;
        if let Some(account) = home.account() {
            account.check_reach(&installation.bin).await?;
        }
        if home.data_version()?.is_none() {
            home.create(&installation, settings.durable).await?;
        }
        let (port, socket_dir) = (0, PathBuf::new());
        let mut cluster =
            Cluster { home, installation, settings, port, socket_dir, url: String::new(), attached: false };
        cluster.attached = match cluster.wait_for_running().await? {
            Some(file) => {
                cluster.settle(file)?;
                tracing::info!(data_dir = %cluster.data_dir().display(), port = cluster.port, "attached to a running PostgreSQL");
                true
            }
            None => {
                cluster.launch_on_some_port().await?;
                false
            }
        };
        cluster.create_database().await?;
        drop(lock);
        Ok(cluster)
    }

    /// The URL of its database, with the superuser's password. Do not print it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of its socket.
    pub fn socket_dir(&self) -> &Path {
        &self.socket_dir
    }

    /// The directory that holds everything of this server.
    pub fn data_dir(&self) -> &Path {
        self.home.root()
    }

    /// PostgreSQL's own data directory, inside [`data_dir`](Cluster::data_dir).
    pub fn pgdata(&self) -> PathBuf {
        self.home.data()
    }

    /// The server's log.
    pub fn log_path(&self) -> PathBuf {
        self.home.log()
    }

    /// The server's version.
    pub fn version(&self) -> Version {
        self.installation.version
    }

    /// The programs it runs with.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// Whether the server was already running when this value was made.
    pub fn attached(&self) -> bool {
        self.attached
    }

    /// The process of the server. `None` when it does not run.
    pub fn pid(&self) -> Option<u32> {
        postmaster::running(&self.home.data()).map(|file| file.pid)
    }

    /// Stops the server: sessions are ended, everything is written, the next start needs no recovery.
    ///
    /// Stopping a server that does not run is no error.
    ///
    /// # Errors
    /// [`Error::StillStopping`] after a minute; the server goes on stopping.
    pub async fn stop(&self) -> Result<()> {
        self.end(Signal::Fast).await?;
        self.home.remove_socket_dir(&self.socket_dir);
        Ok(())
    }

    /// Stops the server at once, as a crash would; the next start recovers from the log.
    pub async fn stop_immediate(&self) -> Result<()> {
        self.end(Signal::Immediate).await
    }

    /// Kills the server's first process and nothing else, as the system's out-of-memory killer would.
    pub async fn kill(&self) -> Result<()> {
        self.end(Signal::Kill).await
    }

    /// Starts the server again on the same port after one of the stops. A running server is left alone.
    pub async fn start_again(&self) -> Result<()> {
        let _lock = self.home.lock().await?;
        if self.wait_for_running().await?.is_some() {
            return Ok(());
        }
        fs::create_dir_all(&self.socket_dir).map_err(Error::io("create", &self.socket_dir))?;
        if let Some(account) = self.home.account() {
            account.own(&self.socket_dir)?;
        }
        self.launch_without_orphans(self.port, &self.socket_dir).await.map(drop).map_err(|failed| self.explain(failed))
    }

    /// Stops at once and starts again on the same port: what a crash and its recovery look like to clients.
    pub async fn restart_immediate(&self) -> Result<()> {
        self.stop_immediate().await?;
        self.start_again().await
    }

    async fn end(&self, signal: Signal) -> Result<()> {
        let pgdata = self.home.data();
        let Some(file) = postmaster::running(&pgdata) else { return Ok(()) };
        postmaster::signal(file.pid, signal)?;
        let since = Instant::now();
        while postmaster::serves(file.pid, &pgdata) {
            if since.elapsed() > STOP_TIMEOUT {
                return Err(Error::StillStopping { pid: file.pid, waited: STOP_TIMEOUT, log: self.home.log() });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// The server that runs already, once it is ready. `None`: none does, or the one that did has ended.
    async fn wait_for_running(&self) -> Result<Option<PidFile>> {
        let since = Instant::now();
        loop {
            match postmaster::running(&self.home.data()) {
                None => return Ok(None),
                Some(file) if file.ready => return Ok(Some(file)),
                Some(_) if since.elapsed() > self.settings.start_timeout => return Err(self.still_starting(0)),
                Some(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    async fn launch_on_some_port(&mut self) -> Result<()> {
        let socket_dir = self.home.socket_dir()?;
        for _ in 0..PORT_TRIES {
            let port = match self.settings.port {
                Some(port) => port,
                None => self.last_port().filter(|port| is_free(*port)).map_or_else(free_port, Ok)?,
            };
            match self.launch_without_orphans(port, &socket_dir).await {
                Ok(file) => {
                    self.remember_port(port);
                    return self.settle(file);
                }
                Err(Failed::Port) if self.settings.port.is_none() => {}
                Err(Failed::Port) => return Err(Error::PortTaken { port }),
                Err(failed) => return Err(self.explain(failed)),
            }
        }
        Err(self.start_failed(0))
    }

    /// Launches, giving orphaned sessions of a killed server time to end, and without statistics where they are not
    /// installed.
    async fn launch_without_orphans(&self, port: u16, socket_dir: &Path) -> Result<PidFile, Failed> {
        let since = Instant::now();
        let mut statistics = true;
        loop {
            match self.launch(port, socket_dir, statistics).await {
                Err(Failed::Orphans) if since.elapsed() < ORPHANS_TIMEOUT => {
                    tokio::time::sleep(LOOK_EVERY * 10).await;
                }
                Err(Failed::Statistics) if statistics => {
                    tracing::warn!("pg_stat_statements is not installed (postgresql-contrib has it); going on without");
                    statistics = false;
                }
                done => return done,
            }
        }
    }

    /// One attempt: writes the configuration, runs `postgres`, waits until it is ready or has ended.
    async fn launch(&self, port: u16, socket_dir: &Path, statistics: bool) -> Result<PidFile, Failed> {
        let pgdata = self.home.data();
        self.home.write_conf(&self.settings.render(port, socket_dir, statistics))?;
        postmaster::disown_pid_file(&pgdata)?;
        let (log, offset) = self.home.open_log()?;
        let second = log.try_clone().map_err(Error::io("open", &self.home.log()))?;
        let mut command = self.home.command(&self.installation, "postgres");
        command.arg("-D").arg(&pgdata).stdout(Stdio::from(log)).stderr(Stdio::from(second));
        // Its own process group: Ctrl-C in the terminal reaches the owner, who then stops the server in good order.
        command.process_group(0);
        let mut child = command.spawn().map_err(Error::io("run", &self.installation.program("postgres")))?;

        let since = Instant::now();
        loop {
            if let Some(file) = postmaster::running(&pgdata)
                && Some(file.pid) == child.id()
                && file.ready
            {
                return Ok(file);
            }
            if child.try_wait().map_err(Error::io("wait for", &self.installation.program("postgres")))?.is_some() {
                return Err(self.classify(port, offset));
            }
            if since.elapsed() > self.settings.start_timeout {
                return Err(Failed::Other(self.still_starting(offset)));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

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

    fn explain(&self, failed: Failed) -> Error {
        match failed {
            Failed::Other(error) => error,
            Failed::Port => Error::PortTaken { port: self.port },
            Failed::Orphans | Failed::Statistics => self.start_failed(0),
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

    /// Takes over where the server listens.
    fn settle(&mut self, file: PidFile) -> Result<()> {
        self.port = file.port.unwrap_or_default();
        self.socket_dir = file.socket_dir.map(PathBuf::from).unwrap_or_default();
        let (password, database) = (self.home.password()?, percent(&self.settings.database));
        self.url = format!("postgres://{SUPERUSER}:{password}@127.0.0.1:{}/{database}", self.port);
        Ok(())
    }

    async fn create_database(&self) -> Result<()> {
        let failed = |what| move |source| Error::Sql { what, log: self.home.log(), source };
        let name = &self.settings.database;
        let mut connection = self.connect("postgres").await.map_err(failed("connect"))?;
        let standby: bool = sqlx::query_scalar("select pg_is_in_recovery()")
            .fetch_one(&mut connection)
            .await
            .map_err(failed("ask for the role of the server"))?;
        if standby {
            // Its databases are those of its primary.
            return Ok(());
        }
        let exists: bool = sqlx::query_scalar("select exists (select from pg_database where datname = $1)")
            .bind(name)
            .fetch_one(&mut connection)
            .await
            .map_err(failed("look for the database"))?;
        if !exists {
            let create = format!("create database \"{}\"", name.replace('"', "\"\""));
            let create = sqlx::raw_sql(sqlx::AssertSqlSafe(create));
            create.execute(&mut connection).await.map_err(failed("create the database"))?;
        }
        let _ = connection.close().await;
        let mut connection = self.connect(name).await.map_err(failed("connect"))?;
        // Where the extension is not installed there are no statistics, and nothing else is lost.
        let create = "do $$ begin create extension if not exists pg_stat_statements; \
                      exception when undefined_file or feature_not_supported then null; end $$";
        sqlx::raw_sql(create)
            .execute(&mut connection)
            .await
            .map_err(failed("create the extension pg_stat_statements"))?;
        let _ = connection.close().await;
        Ok(())
    }

    async fn connect(&self, database: &str) -> sqlx::Result<PgConnection> {
        let url: PgConnectOptions = self.url.parse()?;
        url.database(database).application_name("reveille embedded").disable_statement_logging().connect().await
    }

    /// The port of the last start: whoever wrote down a URL finds the server again.
    fn last_port(&self) -> Option<u16> {
        fs::read_to_string(self.home.root().join("port")).ok()?.trim().parse().ok()
    }

    fn remember_port(&self, port: u16) {
        // Only a convenience: without the file the next start chooses a port.
        let _ = fs::write(self.home.root().join("port"), format!("{port}\n"));
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Other(error)
    }
}

/// The programs for the data that is there, or the wanted ones if there is none.
async fn choose_installation(home: &Home, settings: &Settings) -> Result<Installation> {
    let Some(data) = home.data_version()? else {
        return match &settings.installation {
            Some(given) => Ok(given.clone()),
            None => Installation::find(Wanted::default()).await,
        };
    };
    if let Some(given) = settings.installation.as_ref().filter(|given| given.version.major == data) {
        return Ok(given.clone());
    }
    match Installation::find(Wanted::exactly(data)).await {
        Ok(found) => Ok(found),
        Err(_) => {
            let found = match &settings.installation {
                Some(given) => given.version,
                None => Installation::find(Wanted::default()).await?.version,
            };
            Err(Error::VersionMismatch { data_dir: home.root().to_path_buf(), data, found })
        }
    }
}

fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    Ok(listener.map_err(Error::io("find a free port on", Path::new("127.0.0.1")))?.port())
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Escapes everything in a database name that has a meaning in a URL.
fn percent(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
