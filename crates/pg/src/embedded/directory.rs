//! The directory of a private server: lock it, stop the server that runs in it, or connect to it.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::home::{Home, SUPERUSER};
use super::postmaster::{self, Signal};
use super::{Account, Result};

/// The directory of a private server.
#[derive(Clone, Debug)]
pub struct Directory(Home);

/// A server that runs and accepts connections on 127.0.0.1.
#[derive(Clone)]
pub struct Running {
    /// Its process.
    pub pid: u32,
    /// Its port.
    pub port: u16,
    /// Its superuser.
    pub user: &'static str,
    /// The superuser's password. Do not print it.
    pub password: String,
}

impl Directory {
    /// Opens a directory, or creates it. It must be empty or created by an earlier start; if the caller is root, it
    /// becomes root's own.
    ///
    /// # Errors
    /// See [`Error`](super::Error).
    pub async fn open(data_dir: &Path) -> Result<Directory> {
        Home::open(data_dir).await.map(Directory)
    }

    /// Opens a directory created by an earlier start. `None` if there is none; then nothing is created.
    ///
    /// # Errors
    /// As [`Directory::open`].
    pub async fn find(data_dir: &Path) -> Result<Option<Directory>> {
        Ok(Home::find(data_dir).await?.map(Directory))
    }

    /// Its real path.
    pub fn path(&self) -> &Path {
        self.0.root()
    }

    /// The user that runs the server; `None` is the caller, which is not root.
    pub fn account(&self) -> Option<&Account> {
        self.0.account()
    }

    /// Opens the file that the owner of the directory locks. A link is not followed.
    ///
    /// # Errors
    /// [`Error::Link`](super::Error::Link), or the system's.
    pub fn open_owner(&self) -> Result<File> {
        self.0.open_owner()
    }

    /// The server that runs here, started by any process. `None` if none runs or it is still starting.
    ///
    /// # Errors
    /// If its password cannot be read.
    pub fn running(&self) -> Result<Option<Running>> {
        let file = postmaster::running(&self.0.data()).filter(|file| file.ready);
        let Some((pid, port)) = file.and_then(|file| Some((file.pid, file.port?))) else { return Ok(None) };
        Ok(Some(Running { pid, port, user: SUPERUSER, password: self.0.password()? }))
    }

    /// Stops the server that runs here, started by any process, as [`Cluster::stop`](super::Cluster::stop) does.
    /// Returns its process id; `None` if none runs.
    ///
    /// # Errors
    /// [`Error::StillStopping`](super::Error::StillStopping) after a minute; the shutdown continues.
    pub async fn stop(&self) -> Result<Option<u32>> {
        // Waits for a start in progress.
        let _lock = self.0.lock().await?;
        let Some(file) = postmaster::running(&self.0.data()) else { return Ok(None) };
        self.0.end(Signal::Fast).await?;
        if let Some(dir) = file.socket_dir.map(PathBuf::from) {
            self.0.remove_socket_dir(&dir);
        }
        Ok(Some(file.pid))
    }
}

impl Running {
    /// The URL of one of its databases. It contains the password.
    pub fn url(&self, database: &str) -> String {
        url(self.user, &self.password, self.port, database)
    }
}

/// Shows the process and the port, never the credentials.
impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("pid", &self.pid).field("port", &self.port).finish_non_exhaustive()
    }
}

/// The URL of a database. It disables TLS on loopback, whatever PGSSLMODE in the caller's environment is.
pub(super) fn url(user: &str, password: &str, port: u16, database: &str) -> String {
    format!("postgres://{user}:{password}@127.0.0.1:{port}/{}?sslmode=disable", percent(database))
}

/// Percent-encodes a database name.
fn percent(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
