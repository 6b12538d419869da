//! The directory of a private server.
//!
//! ```text
//! <data_dir>/reveille-embedded   a marker: this directory is ours
//!            lock                held while somebody creates or starts
//!            password            of the superuser, readable by its owner only
//!            postgresql.log
//!            port                of the last start
//!            run/                the socket, if its path is short enough
//!            socket_dir          where it is, if not
//!            data/               PostgreSQL's own data directory
//!            data.making-…       one that is not complete; removed at the next start
//! ```
//!
//! `data/` appears by a rename when `initdb` has finished, so it is complete or absent, whenever the power fails.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::Command;

use super::account::make_open_dirs;
use super::{Account, Error, Installation, Result};

/// The superuser of a private server.
pub(super) const SUPERUSER: &str = "reveille";

const MARKER: &str = "reveille-embedded";
const MARKER_TEXT: &str =
    "A PostgreSQL server of Reveille lives here. Reveille removes and makes files in this folder.\n";
const LOCK: &str = "lock";
const MAKING: &str = "data.making-";

/// A log larger than this at a start is set aside, so that there are never more than two of about this size.
const LOG_KEEP_BYTES: u64 = 16 * 1024 * 1024;

/// The longest folder for a socket: the system allows about 100 bytes for the socket's path, whose name and lock take 19.
const SOCKET_DIR_BYTES: usize = 80;

/// How long something may still be writing to a data directory that was never completed, and between two looks.
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

/// The right to create or start; given up on drop.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Home {
    /// Opens the directory, making it if need be.
    ///
    /// A directory that exists keeps its owner and its mode: the server's user must be able to enter it, no more. Whether
    /// it can is found out before anything is made or changed.
    pub(super) async fn open(root: &Path) -> Result<Home> {
        let root = std::path::absolute(root).map_err(Error::io("find", root))?;
        let data = root.join("data");
        let account = if data.exists() { Account::for_data(&data).await? } else { Account::for_server().await? };
        if let Some(account) = &account {
            let there = root.ancestors().find(|dir| dir.exists()).unwrap_or(&root);
            account.check_reach(there).await?;
        }
        Home::make_root(&root, account.as_ref())?;
        let root = fs::canonicalize(&root).map_err(Error::io("find", &root))?;
        let marker = root.join(MARKER);
        if !marker.exists() {
            // Somebody else may be making the directory too. Then the marker is there before anything that was found.
            if let Some(found) = first_entry(&root)?
                && !marker.exists()
            {
                return Err(Error::ForeignDirectory { path: root, found });
            }
            fs::write(&marker, MARKER_TEXT).map_err(Error::io("write in", &root))?;
        }
        Ok(Home { root, account })
    }

    /// Makes the directory, closed to everybody but the server's user, unless it exists.
    fn make_root(root: &Path, account: Option<&Account>) -> Result<()> {
        if let Some(parent) = root.parent() {
            match account {
                Some(_) => make_open_dirs(parent)?,
                None => fs::create_dir_all(parent).map_err(Error::io("create", parent))?,
            }
        }
        match DirBuilder::new().mode(0o700).create(root) {
            Ok(()) => account.map_or(Ok(()), |account| account.own(root)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(Error::io("create", root)(error)),
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
        self.root.join("postgresql.log")
    }

    /// The user that runs the server; `None` is the caller.
    pub(super) fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// Waits until nobody else creates or starts here.
    ///
    /// # Cancel safety
    /// A dropped wait gives up the lock as soon as it gets it.
    pub(super) async fn lock(&self) -> Result<Lock> {
        let path = self.root.join(LOCK);
        let locked = tokio::task::spawn_blocking(move || -> Result<Lock> {
            let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
            let file = file.map_err(Error::io("open", &path))?;
            file.lock().map_err(Error::io("lock", &path))?;
            Ok(Lock { _file: file })
        });
        locked.await.expect("locking a file does not panic")
    }

    /// The major version of the data. `None` when there is none yet.
    ///
    /// A `data/` without a version was damaged, and what is left of it may be all that there is: it is not replaced.
    pub(super) fn data_version(&self) -> Result<Option<u32>> {
        data_major(&self.root)
    }

    /// Creates `data/`. The caller holds the lock and knows that there is none.
    pub(super) async fn create(&self, installation: &Installation, durable: bool) -> Result<()> {
        self.remove_half_made().await?;
        let making = self.root.join(format!("{MAKING}{}", random_hex(4)?));
        self.make_dir(&making)?;
        let password = random_hex(PASSWORD_BYTES)?;
        let password_file = self.root.join("password");
        self.write_private(&password_file, &password)?;
        if durable {
            sync(&password_file)?;
        }

        let mut command = self.command(installation, "initdb");
        command.arg("--pgdata").arg(&making).arg("--pwfile").arg(&password_file);
        command.args(["--username", SUPERUSER, "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C"]);
        command.arg("--data-checksums");
        if !durable {
            command.arg("--no-sync");
        }
        // An initdb whose caller is gone must not go on in a folder that the next start removes.
        let output =
            command.kill_on_drop(true).output().await.map_err(Error::io("run", &installation.program("initdb")))?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).trim().replace(&password, "…");
            let _ = fs::remove_dir_all(&making);
            return Err(Error::Initdb { path: self.data(), output: said });
        }
        let conf = making.join("postgresql.conf");
        let appended = OpenOptions::new().append(true).open(&conf).and_then(|mut file| {
            file.write_all(b"\ninclude_if_exists = 'reveille.conf'\n")?;
            if durable { file.sync_all() } else { Ok(()) }
        });
        appended.map_err(Error::io("write", &conf))?;
        fs::rename(&making, self.data()).map_err(Error::io("complete", &making))?;
        // The names of the data and of its password, which must not outlive one another.
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
        let path = self.root.join("password");
        Ok(fs::read_to_string(&path).map_err(Error::io("read", &path))?.trim().to_owned())
    }

    /// Writes the settings of the next start.
    pub(super) fn write_conf(&self, text: &str) -> Result<()> {
        self.write_private(&self.data().join("reveille.conf"), text)
    }

    /// Opens the log for appending, and says how long it is already.
    pub(super) fn open_log(&self) -> Result<(File, u64)> {
        let path = self.log();
        if fs::metadata(&path).is_ok_and(|log| log.len() > LOG_KEEP_BYTES) {
            let old = path.with_extension("log.old");
            fs::rename(&path, &old).map_err(Error::io("set aside", &path))?;
        }
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let file = file.map_err(Error::io("open", &path))?;
        let length = file.metadata().map_err(Error::io("open", &path))?.len();
        Ok((file, length))
    }

    /// A private folder for the socket: inside the home if its path is short and plain, or else in `/tmp`, under a random
    /// name that the home remembers.
    pub(super) fn socket_dir(&self) -> Result<PathBuf> {
        let inside = self.root.join("run");
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
        let bytes = inside.as_os_str().as_encoded_bytes();
        if bytes.len() <= SOCKET_DIR_BYTES && bytes.iter().all(plain) {
            return self.ours_or_new(&inside).map(|()| inside);
        }
        let remembered = self.root.join("socket_dir");
        if let Ok(text) = fs::read_to_string(&remembered)
            && self.ours_or_new(Path::new(text.trim())).is_ok()
        {
            return Ok(PathBuf::from(text.trim()));
        }
        let outside = Path::new("/tmp").join(format!("reveille-{}", random_hex(6)?));
        self.make_dir(&outside)?;
        self.write_private(&remembered, &outside.to_string_lossy())?;
        Ok(outside)
    }

    /// Removes what a killed server left in the folder of its socket, which nobody else uses. PostgreSQL would refuse to
    /// start as long as any process has the number in the socket's lock file.
    pub(super) fn clear_socket_dir(&self, dir: &Path) -> Result<()> {
        for entry in fs::read_dir(dir).map_err(Error::io("list", dir))?.filter_map(io::Result::ok) {
            if entry.file_name().as_encoded_bytes().starts_with(b".s.PGSQL.") {
                fs::remove_file(entry.path()).map_err(Error::io("remove", &entry.path()))?;
            }
        }
        Ok(())
    }

    /// Removes a socket folder outside the home when the server has left it.
    pub(super) fn remove_socket_dir(&self, dir: &Path) {
        if !dir.starts_with(&self.root) {
            // Only if it is empty, as it is after a stop.
            let _ = fs::remove_dir(dir);
        }
    }

    /// Makes a folder, or takes the one that is there if it is private to the server's user: in `/tmp` anybody may have
    /// made one of that name.
    fn ours_or_new(&self, path: &Path) -> Result<()> {
        match self.make_dir(path) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
        let (there, data) = (fs::symlink_metadata(path), self.data());
        let there = there.map_err(Error::io("look at", path))?;
        // Nobody but the server's user owns its data.
        let owner = fs::metadata(&data).map_err(Error::io("look at", &data))?.uid();
        if there.is_dir() && there.uid() == owner && there.mode() & 0o077 == 0 {
            return Ok(());
        }
        Err(Error::ForeignDirectory { path: path.to_path_buf(), found: "another user's files".to_owned() })
    }

    /// One of the installation's programs, run as the server's user in the server's home, without the caller's
    /// PostgreSQL environment and in the language that the error messages are matched in.
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

    /// Makes a folder that only the server's user can enter; an error if there is one already.
    fn make_dir(&self, path: &Path) -> Result<()> {
        DirBuilder::new().mode(0o700).create(path).map_err(Error::io("create", path))?;
        self.give(path)
    }

    /// Writes a file that only the server's user (and root) can read.
    fn write_private(&self, path: &Path, text: &str) -> Result<()> {
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(Error::io("write", path))?;
        self.give(path)
    }

    fn give(&self, path: &Path) -> Result<()> {
        self.account.as_ref().map_or(Ok(()), |account| account.own(path))
    }
}

/// The major version of PostgreSQL that the data of a server in `data_dir` was made with, which is the only one that can
/// read it. `None` when there is no data yet.
///
/// # Errors
/// [`Error::Damaged`] when there is data without a readable version.
pub fn data_major(data_dir: &Path) -> Result<Option<u32>> {
    let data = data_dir.join("data");
    match fs::read_to_string(data.join("PG_VERSION")) {
        Ok(text) => text.trim().parse().map(Some).map_err(|_| Error::Damaged { data }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::symlink_metadata(&data) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            _ => Err(Error::Damaged { data }),
        },
        Err(error) => Err(Error::io("read the version of", &data)(error)),
    }
}

/// Removes what an interrupted `initdb` left. The server that it ran may outlive it for a moment, and go on writing.
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

/// One thing in a folder. `None` when it is empty.
fn first_entry(dir: &Path) -> Result<Option<String>> {
    let mut entries = fs::read_dir(dir).map_err(Error::io("list", dir))?.filter_map(io::Result::ok);
    Ok(entries.next().map(|entry| entry.file_name().to_string_lossy().into_owned()))
}

/// Random bytes from the system, in hexadecimal: these guard a superuser, so they must not be guessable.
pub(crate) fn random_hex(bytes: usize) -> Result<String> {
    let path = Path::new("/dev/urandom");
    let mut buffer = vec![0; bytes];
    File::open(path).and_then(|mut file| file.read_exact(&mut buffer)).map_err(Error::io("read", path))?;
    Ok(buffer.iter().map(|byte| format!("{byte:02x}")).collect())
}
