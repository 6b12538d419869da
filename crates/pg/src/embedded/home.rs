//! The directory of a private server.
//!
//! ```text
//! <data_dir>/reveille-embedded   marks a directory of Reveille
//!            lock                locked while a process creates or starts the server
//!            password            of the superuser, readable by its owner only
//!            postgresql.log
//!            port                of the last start
//!            run/                the socket, if its path is short enough
//!            socket_dir          path of the socket's folder, if not
//!            data/               PostgreSQL's own data directory
//!            data.making-…       an incomplete one; removed at the next start
//! ```
//!
//! `data/` is created by a rename after `initdb` has finished, so it is complete or absent, even after a power failure.
//!
//! When root starts the server, root owns the directory and its files; the server's user owns only `data/` and the
//! folder of the socket. That user must not be able to make root write elsewhere: it cannot change the directory itself
//! ([`taking`](super::taking)), files are not opened through links ([`files`]), and writes inside `data/` or the folder
//! of the socket run with that user's rights ([`Account`]). Earlier versions gave the whole directory to that user;
//! root takes it back when it opens the directory.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::Command;

use super::files::{self, Access};
use super::taking::{is_file, make_own, make_roots};
use super::{Account, Error, Installation, Result};

/// The superuser of a private server.
pub(super) const SUPERUSER: &str = "reveille";

pub(super) const MARKER: &str = "reveille-embedded";
const MARKER_TEXT: &str =
    "This folder contains a PostgreSQL server of Reveille. Reveille creates and removes files in it.\n";
pub(super) const LOCK: &str = "lock";
/// The file that `reveille up` locks while it runs.
pub(super) const OWNER: &str = "owner";
pub(super) const PASSWORD: &str = "password";
/// A temporary copy for `initdb`.
const PASSWORD_COPY: &str = "password-for-initdb";
pub(super) const LOG: &str = "postgresql.log";
pub(super) const OLD_LOG: &str = "postgresql.log.old";
pub(super) const PORT: &str = "port";
pub(super) const SOCKET_DIR: &str = "socket_dir";

const MAKING: &str = "data.making-";

/// A log larger than this at a start is renamed, so that there are at most two of about this size.
const LOG_KEEP_BYTES: u64 = 16 * 1024 * 1024;

/// How long a leftover process may write to an incomplete data directory, and the pause between attempts to remove it.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(10);
const REMOVE_PAUSE: Duration = Duration::from_millis(20);

/// Random bytes of a password; printed in hexadecimal.
const PASSWORD_BYTES: usize = 16;

/// The directory of one server, and the user that runs it.
#[derive(Clone, Debug)]
pub(super) struct Home {
    root: PathBuf,
    account: Option<Account>,
}

/// The lock for creating or starting a server; released on drop.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Home {
    /// Opens the directory, or creates it.
    ///
    /// The server's user must be able to enter it; this is checked before anything is created or changed. An existing
    /// directory of root keeps its owner and mode; root takes any other.
    pub(super) async fn open(root: &Path) -> Result<Home> {
        let root = std::path::absolute(root).map_err(Error::io("find", root))?;
        let data = root.join("data");
        let is_there = fs::symlink_metadata(&data).is_ok();
        let account = if is_there { Account::for_data(&root, &data).await? } else { Account::for_server().await? };
        let root = match &account {
            None => make_own(&root)?,
            Some(account) => {
                let there = root.ancestors().find(|dir| dir.exists()).unwrap_or(&root);
                account.check_reach(there).await?;
                make_roots(&root, account)?
            }
        };
        let home = Home { root, account };
        if !is_file(&home.root.join(MARKER)) {
            home.write(&home.root.join(MARKER), MARKER_TEXT)?;
        }
        Ok(home)
    }

    /// Opens a directory created by an earlier start. `None` if there is none; then nothing is created.
    pub(super) async fn find(root: &Path) -> Result<Option<Home>> {
        match is_file(&root.join(MARKER)) {
            true => Home::open(root).await.map(Some),
            false => Ok(None),
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// PostgreSQL's own data directory.
    pub(super) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.root.join(LOG)
    }

    /// The user that runs the server; `None` is the caller.
    pub(super) fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// Opens the file that the owner of this directory locks.
    pub(super) fn open_owner(&self) -> Result<File> {
        self.open_file(&self.root.join(OWNER), Access::Write)
    }

    /// Waits until no other process creates or starts a server here.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lock is released as soon as it is acquired.
    pub(super) async fn lock(&self) -> Result<Lock> {
        let path = self.root.join(LOCK);
        let file = self.open_file(&path, Access::Write)?;
        let locked = tokio::task::spawn_blocking(move || -> Result<Lock> {
            file.lock().map_err(Error::io("lock", &path))?;
            Ok(Lock { _file: file })
        });
        locked.await.expect("locking a file does not panic")
    }

    /// The major version of the data. `None` if there is none yet.
    ///
    /// A `data/` without a version is damaged. It is not replaced, because the rest may be recoverable.
    pub(super) fn data_version(&self) -> Result<Option<u32>> {
        data_major(&self.root)
    }

    /// Creates `data/`. The caller holds the lock and knows that there is none.
    pub(super) async fn create(&self, installation: &Installation, durable: bool) -> Result<()> {
        self.remove_half_made().await?;
        let making = self.root.join(format!("{MAKING}{}", random_hex(4)?));
        self.make_dir(&making)?;
        let password = random_hex(PASSWORD_BYTES)?;
        let password_path = self.root.join(PASSWORD);
        let password_file = self.write(&password_path, &password)?;
        if durable {
            password_file.sync_all().map_err(Error::io("write to the disk", &password_path))?;
        }

        // The server's user reads a copy, because another start may give the file itself back to root at any time.
        let copy_path = self.root.join(PASSWORD_COPY);
        remove_if_there(&copy_path)?;
        let copy = self.write(&copy_path, &password)?;
        let mut command = self.command(installation, "initdb");
        command.arg("--pgdata").arg(&making).arg("--pwfile").arg(&copy_path);
        command.args(["--username", SUPERUSER, "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C"]);
        command.arg("--data-checksums");
        if !durable {
            command.arg("--no-sync");
        }
        if let Some(account) = &self.account {
            files::give(&copy, &copy_path, account.uid(), account.gid())?;
        }
        // An initdb whose caller is gone must not continue in a folder that the next start removes.
        let output =
            command.kill_on_drop(true).output().await.map_err(Error::io("run", &installation.program("initdb")))?;
        remove_if_there(&copy_path)?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).trim().replace(&password, "…");
            let _ = fs::remove_dir_all(&making);
            return Err(Error::Initdb { path: self.data(), output: said });
        }
        let conf = making.join("postgresql.conf");
        self.append_as_server(&conf, "\ninclude_if_exists = 'reveille.conf'\n")?;
        if durable {
            let written = files::open(&conf, Access::Read)?;
            written.sync_all().map_err(Error::io("write to the disk", &conf))?;
        }
        fs::rename(&making, self.data()).map_err(Error::io("complete", &making))?;
        // Syncs the directory entries of both the data and its password.
        if durable { sync(&self.root) } else { Ok(()) }
    }

    async fn remove_half_made(&self) -> Result<()> {
        for entry in fs::read_dir(&self.root).map_err(Error::io("list", &self.root))?.filter_map(io::Result::ok) {
            if entry.file_name().as_encoded_bytes().starts_with(MAKING.as_bytes()) {
                tracing::info!(path = %entry.path().display(), "removing a data directory that was never completed");
                remove_patiently(&entry.path()).await?;
            }
        }
        Ok(())
    }

    /// The superuser's password.
    pub(super) fn password(&self) -> Result<String> {
        let path = self.root.join(PASSWORD);
        let absent = || Error::io("read", &path)(io::ErrorKind::NotFound.into());
        Ok(files::read(&path)?.ok_or_else(absent)?.trim().to_owned())
    }

    /// Writes the settings of the next start.
    pub(super) fn write_conf(&self, text: &str) -> Result<()> {
        self.replace_as_server(&self.data().join("reveille.conf"), text)
    }

    /// The port of the last start, reused so that saved URLs stay valid. `None` if unknown.
    pub(super) fn last_port(&self) -> Option<u16> {
        files::read(&self.root.join(PORT)).ok()??.trim().parse().ok()
    }

    /// Saves the port of this start.
    pub(super) fn write_port(&self, port: u16) -> Result<()> {
        self.write(&self.root.join(PORT), &format!("{port}\n")).map(drop)
    }

    /// Opens the log for appending, and returns its length.
    pub(super) fn open_log(&self) -> Result<(File, u64)> {
        let path = self.log();
        if fs::symlink_metadata(&path).is_ok_and(|log| log.len() > LOG_KEEP_BYTES) {
            let old = self.root.join(OLD_LOG);
            fs::rename(&path, &old).map_err(Error::io("set aside", &path))?;
        }
        let file = self.open_file(&path, Access::Append)?;
        let length = file.metadata().map_err(Error::io("open", &path))?.len();
        Ok((file, length))
    }

    /// One of the installation's programs, run as the server's user in the server's home, without the caller's `PG…`
    /// variables and with untranslated messages, because they are matched.
    pub(super) fn command(&self, installation: &Installation, program: &str) -> Command {
        let mut command = Command::new(installation.program(program));
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PG") {
                command.env_remove(name);
            }
        }
        command.env("LC_ALL", "C").current_dir(&self.root).stdin(Stdio::null());
        if let Some(account) = &self.account {
            account.run(command.as_std_mut());
        }
        command
    }

    /// Creates a folder in this directory that only the server's user can enter; fails if it exists.
    pub(super) fn make_dir(&self, path: &Path) -> Result<()> {
        DirBuilder::new().mode(0o700).create(path).map_err(Error::io("create", path))?;
        let Some(account) = &self.account else { return Ok(()) };
        let dir = files::open_dir(path).map_err(Error::io("open", path))?;
        files::give(&dir, path, account.uid(), account.gid())
    }

    /// Writes a file of this directory that only its owner can read.
    pub(super) fn write(&self, path: &Path, text: &str) -> Result<File> {
        let file = files::write(path, text)?;
        self.keep(&file, path)?;
        Ok(file)
    }

    fn open_file(&self, path: &Path, access: Access) -> Result<File> {
        let file = files::open(path, access)?;
        self.keep(&file, path)?;
        Ok(file)
    }

    /// Changes the owner of a file to root if root runs this process.
    fn keep(&self, file: &File, path: &Path) -> Result<()> {
        match &self.account {
            Some(_) => files::take(file, path),
            None => Ok(()),
        }
    }

    /// Replaces a file in a folder of the server's user.
    pub(super) fn replace_as_server(&self, path: &Path, text: &str) -> Result<()> {
        match &self.account {
            Some(account) => account.replace(path, text),
            None => files::write(path, text).map(drop),
        }
    }

    /// Appends to a file in a folder of the server's user.
    fn append_as_server(&self, path: &Path, text: &str) -> Result<()> {
        match &self.account {
            Some(account) => account.append(path, text),
            None => {
                let written = files::open(path, Access::Append)?.write_all(text.as_bytes());
                written.map_err(Error::io("write", path))
            }
        }
    }
}

/// The major version of PostgreSQL that wrote the data in `data_dir`; no other can read it. `None` if there is no data
/// yet.
///
/// # Errors
/// [`Error::Damaged`] if there is data without a readable version.
pub fn data_major(data_dir: &Path) -> Result<Option<u32>> {
    let data = data_dir.join("data");
    match files::read(&data.join("PG_VERSION"))? {
        Some(text) => text.trim().parse().map(Some).map_err(|_| Error::Damaged { data }),
        None => match fs::symlink_metadata(&data) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            _ => Err(Error::Damaged { data }),
        },
    }
}

/// Removes the folder of an interrupted `initdb`. A server that it started may still write to it for a short time.
async fn remove_patiently(path: &Path) -> Result<()> {
    let since = Instant::now();
    loop {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && since.elapsed() < REMOVE_TIMEOUT => {
                tokio::time::sleep(REMOVE_PAUSE).await;
            }
            removed => return removed.map_err(Error::io("remove", path)),
        }
    }
}

/// Writes a file or folder to the disk.
fn sync(path: &Path) -> Result<()> {
    File::open(path).and_then(|file| file.sync_all()).map_err(Error::io("write to the disk", path))
}

/// Random bytes from the system in hexadecimal, for passwords.
pub(crate) fn random_hex(bytes: usize) -> Result<String> {
    let path = Path::new("/dev/urandom");
    let mut buffer = vec![0; bytes];
    File::open(path).and_then(|mut file| file.read_exact(&mut buffer)).map_err(Error::io("read", path))?;
    Ok(buffer.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Removes a file that an interrupted start may have left.
fn remove_if_there(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}
