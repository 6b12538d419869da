//! Starting, attaching to and stopping a private server.

use std::fmt;
use std::path::{Path, PathBuf};

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions as _, Connection as _};

use super::directory::url;
use super::home::{Home, SUPERUSER};
use super::launch::Launcher;
use super::postmaster::{self, PidFile, Signal};
use super::{Error, Installation, Result, Settings, Version, Wanted};

/// A private PostgreSQL server.
///
/// Dropping the value leaves the server running; see the [module](super).
pub struct Cluster {
    launcher: Launcher,
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

impl Cluster {
    /// Creates the server if it does not exist, starts it if it does not run, and waits until it accepts connections.
    ///
    /// If a server already runs on the data directory, this attaches to it ([`attached`](Cluster::attached)); the
    /// settings then apply at its next start. Concurrent starts of one directory are serialized.
    ///
    /// # Errors
    /// See [`Error`]. The directory is then unchanged or complete.
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
        let launcher = Launcher { home, installation, settings };
        let running = launcher.running().await?;
        let attached = running.is_some();
        let file = match running {
            Some(file) => file,
            None => launcher.launch().await?,
        };
        let cluster = Cluster::new(launcher, file, attached)?;
        if attached {
            tracing::debug!(data_dir = %cluster.data_dir().display(), port = cluster.port, "attached to a running PostgreSQL");
        }
        cluster.create_database().await?;
        drop(lock);
        Ok(cluster)
    }

    /// The URL of its database. It contains the superuser's password: do not print it.
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
        self.launcher.home.root()
    }

    /// PostgreSQL's own data directory, inside [`data_dir`](Cluster::data_dir).
    pub fn pgdata(&self) -> PathBuf {
        self.launcher.home.data()
    }

    /// The server's log.
    pub fn log_path(&self) -> PathBuf {
        self.launcher.home.log()
    }

    /// The server's version.
    pub fn version(&self) -> Version {
        self.launcher.installation.version
    }

    /// The programs it runs with.
    pub fn installation(&self) -> &Installation {
        &self.launcher.installation
    }

    /// Whether the server was already running when this value was made.
    pub fn attached(&self) -> bool {
        self.attached
    }

    /// The process of the server. `None` when it does not run.
    pub fn pid(&self) -> Option<u32> {
        postmaster::running(&self.launcher.home.data()).map(|file| file.pid)
    }

    /// Stops the server with a fast shutdown: sessions end, a checkpoint is written, the next start needs no recovery.
    ///
    /// Stopping a server that does not run succeeds.
    ///
    /// # Errors
    /// [`Error::StillStopping`] after a minute; the shutdown continues.
    pub async fn stop(&self) -> Result<()> {
        self.launcher.home.end(Signal::Fast).await?;
        self.launcher.home.remove_socket_dir(&self.socket_dir);
        Ok(())
    }

    /// Stops the server at once, as a crash would; the next start recovers from the write-ahead log.
    pub async fn stop_immediate(&self) -> Result<()> {
        self.launcher.home.end(Signal::Immediate).await
    }

    /// Kills only the postmaster, as the system's out-of-memory killer would.
    pub async fn kill(&self) -> Result<()> {
        self.launcher.home.end(Signal::Kill).await
    }

    /// Starts a stopped server again on the same port. Does nothing if it runs.
    pub async fn start_again(&self) -> Result<()> {
        let _lock = self.launcher.home.lock().await?;
        if self.launcher.running().await?.is_none() {
            self.launcher.launch_on(self.port).await?;
        }
        Ok(())
    }

    /// Stops at once and starts again on the same port: to clients, a crash with recovery.
    pub async fn restart_immediate(&self) -> Result<()> {
        self.stop_immediate().await?;
        self.start_again().await
    }

    /// A server that runs, and where it listens.
    fn new(launcher: Launcher, file: PidFile, attached: bool) -> Result<Cluster> {
        let password = launcher.home.password()?;
        let port = file.port.unwrap_or_default();
        let url = url(SUPERUSER, &password, port, &launcher.settings.database);
        let socket_dir = file.socket_dir.map(PathBuf::from).unwrap_or_default();
        Ok(Cluster { launcher, port, socket_dir, url, attached })
    }

    async fn create_database(&self) -> Result<()> {
        let failed = |what| move |source| Error::Sql { what, log: self.launcher.home.log(), source };
        let name = &self.launcher.settings.database;
        let mut connection = self.connect("postgres").await.map_err(failed("connect"))?;
        let standby: bool = sqlx::query_scalar("select pg_is_in_recovery()")
            .fetch_one(&mut connection)
            .await
            .map_err(failed("query the role of the server"))?;
        if standby {
            // A standby has the databases of its primary.
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
        // Without the extension only the statistics are missing.
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
}

/// The programs that match existing data, or the requested ones if there is none.
async fn choose_installation(home: &Home, settings: &Settings) -> Result<Installation> {
    let Some(data) = home.data_version()? else {
        return match &settings.installation {
            Some(given) => Ok(given.clone()),
            None => Installation::find(Wanted::default()).await,
        };
    };
    let mismatch = |found| Error::VersionMismatch { data_dir: home.root().to_path_buf(), data, found };
    match &settings.installation {
        Some(given) if given.version.major == data => Ok(given.clone()),
        Some(given) => Err(mismatch(given.version)),
        None => match Installation::find(Wanted::exactly(data)).await {
            Ok(found) => Ok(found),
            Err(none) => match Installation::find(Wanted::default()).await {
                Ok(another) => Err(mismatch(another.version)),
                Err(_) => Err(none),
            },
        },
    }
}
