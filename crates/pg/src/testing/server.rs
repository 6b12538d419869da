//! The server that all tests share.
//!
//! ```text
//! <folder in memory, or temporary folder>/reveille-test-<uid>-<version>-<hash of the workspace>/
//!     in-use      held, shared, by every process that uses a server here; exclusively by the process that stops them all
//!     lock        held while a process starts the server
//!     download    held while a process downloads PostgreSQL
//!     heartbeat   touched at every use; its age stops the server
//!     workspace   whose tests these are, for scripts/test-server.sh
//!     url         of the running server, readable by its owner only
//!     template/   a fresh server that never runs, to be copied
//!     server/     the shared server
//!     private-…/  servers of single tests
//! ```
//!
//! The folder is in memory if there is enough of it: every test creates and drops hundreds of files, and servers of
//! single tests wait for their writes to reach the disk. It is not in the workspace, because root's workspace may be
//! closed to the user that runs the server. Its name can be guessed, so a folder of that name is used only if it is the
//! caller's and no other user can write in it.
//! It is removed when the servers are stopped.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::hash::{Hash as _, Hasher as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::process::Command;
use tokio::sync::OnceCell;

use super::installation::{given_url, installation};
use super::{address, cleaning};
use crate::embedded::{self, Account, Cluster, Settings};

/// What watches the heartbeat and what `make test` ends the server with.
const CONTROL: &str = include_str!("control.sh");

/// How often a process that still runs tests says so. The watcher allows ten minutes.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(60);

/// Enough for a dozen tests at once with several pools each.
const MAX_CONNECTIONS: u32 = 400;

/// The statements of all tests that count theirs; an evicted one would be a miscount.
const MAX_STATEMENTS: u32 = 50_000;

/// The file system in memory that Linux has.
const MEMORY: &str = "/dev/shm";

/// The least size of that file system at which it is used. A whole run needs less than half of it.
const MEMORY_MIN: u64 = 7 << 30;

/// The server to test on.
#[derive(Debug)]
pub(super) struct Server {
    /// Its URL. Do not print it.
    pub(super) url: String,
    /// It was given by `DATABASE_URL`; nothing may be started.
    pub(super) given: bool,
}

/// The server to test on; found or started once per process.
pub(super) async fn server() -> &'static Server {
    static SERVER: OnceCell<Server> = OnceCell::const_new();
    SERVER
        .get_or_init(|| async {
            match given_url() {
                Some(url) => Server { url: primary_of(url).await, given: true },
                None => Server { url: Folder::open().await.start_shared().await, given: false },
            }
        })
        .await
}

/// The URL with the one of its hosts that can be written to: a test that puts something in front of a server, or asks
/// it what happened, means one server.
async fn primary_of(url: String) -> String {
    let hosts = address::each_host(&url);
    if hosts.len() == 1 {
        return url;
    }
    for host in hosts {
        let Ok(mut connection) = cleaning::connect(&host).await else { continue };
        let standby = sqlx::query_scalar("select pg_is_in_recovery()").fetch_one(&mut connection).await;
        if matches!(standby, Ok(false)) {
            return host;
        }
    }
    panic!("DATABASE_URL names several hosts, and none of them can be reached and written to")
}

/// The folder of the test servers.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    root: PathBuf,
    account: Option<Account>,
}

impl Folder {
    /// Opens the folder of this workspace, user and version, making it if need be.
    pub(super) async fn open() -> Folder {
        let account = Account::for_server().await.unwrap_or_else(|error| panic!("{error}"));
        let parent = parent(account.is_some());
        // The server names its folder by its real path.
        let parent = fs::canonicalize(&parent)
            .unwrap_or_else(|error| panic!("no temporary folder {}: {error}", parent.display()));
        let caller = embedded::caller_uid();
        let root = parent.join(format!("reveille-test-{caller}-{}", key()));
        let folder = Folder { root, account };
        let using = folder.clone();
        let used = tokio::task::spawn_blocking(move || using.make_and_use(caller));
        used.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        folder
    }

    /// Makes the folder and keeps other processes from stopping its servers as long as this process lives. Waits for a
    /// process that is just stopping them.
    fn make_and_use(&self, caller: u32) {
        static USED: Mutex<Option<File>> = Mutex::new(None);
        let mut used = USED.lock().unwrap_or_else(PoisonError::into_inner);
        while used.is_none() {
            self.make(caller);
            let path = self.root.join("in-use");
            let locked = open_or_create(&path).and_then(|file| file.lock_shared().map(|()| file));
            let same = |file: &File| Some((file.metadata().ok()?.ino(), fs::metadata(&path).ok()?.ino()));
            match locked {
                // The process that stops the servers removes the folder, and this file with it.
                Ok(file) if same(&file).is_some_and(|(held, there)| held == there) => *used = Some(file),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => panic!("could not lock {}: {error}", path.display()),
            }
        }
    }

    /// Makes the folder, or makes sure that no other user can have made it or can write in it. Root's can be entered by
    /// the user that runs the servers, and not be listed.
    fn make(&self, caller: u32) {
        let mode = if self.account.is_some() { 0o711 } else { 0o700 };
        match fs::DirBuilder::new().mode(mode).create(&self.root) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                panic!("could not create {}: {error}", self.root.display())
            }
            _ => {}
        }
        let Ok(found) = fs::symlink_metadata(&self.root) else { return };
        // Earlier versions gave the folder to the user that runs the servers.
        let given = self.account.as_ref().is_some_and(|account| account.uid() == found.uid());
        let ours = found.is_dir() && found.mode() & 0o077 & !mode == 0 && (found.uid() == caller || given);
        assert!(ours, "{} is not a folder of ours that is closed to others; remove it", self.root.display());
        let taken = match given {
            true => lchown(&self.root, Some(caller), None),
            false => Ok(()),
        };
        // The caller's umask may have taken something away.
        let opened = match given || found.mode() & 0o777 != mode {
            true => fs::set_permissions(&self.root, fs::Permissions::from_mode(mode)),
            false => Ok(()),
        };
        taken.and(opened).unwrap_or_else(|error| panic!("could not take {}: {error}", self.root.display()));
    }

    /// Waits for a lock of this folder: `lock` to start a server, `download` to get PostgreSQL.
    pub(super) async fn lock(&self, name: &str) -> File {
        let path = self.root.join(name);
        let locked = tokio::task::spawn_blocking(move || {
            let file = open_or_create(&path)?;
            file.lock().map(|()| file)
        });
        let locked = locked.await.expect("locking a file does not panic");
        locked.unwrap_or_else(|error| panic!("could not lock {}: {error}", self.root.display()))
    }

    /// Finds the shared server or starts it, and returns its URL.
    async fn start_shared(&self) -> String {
        let _lock = self.lock("lock").await;
        self.keep_alive();
        let (home, url_file) = (self.root.join("server"), self.root.join("url"));
        let data = home.join("data");
        let is_running = embedded::running(&data).is_some();
        if is_running && let Ok(url) = fs::read_to_string(&url_file) {
            return url;
        }
        // A process that dies between here and the end must not leave the URL of an earlier server beside a new one.
        let _ = fs::remove_file(&url_file);
        // Without fsync a server that was not stopped may have lost pages. Tests keep nothing: take a fresh one.
        if !is_running && (data.join("postmaster.pid").exists() || !data.join("PG_VERSION").exists()) {
            self.remove(&home);
        }
        if !home.exists() {
            self.copy_template(&home).await;
        }
        let cluster = start(self.settings(&home).await).await;
        // Before others find the server: then it is watched, whatever becomes of this process.
        self.watch().await;
        self.write(&url_file, cluster.url());
        cluster.url().to_owned()
    }

    async fn settings(&self, home: &Path) -> Settings {
        let mut settings = Settings::new(home);
        settings.installation = Some(installation().await);
        settings.database = "test".to_owned();
        // Waiting for the disk would take half of a test's time, and the data is never read again.
        settings.durable = false;
        let extra = [
            ("max_connections", MAX_CONNECTIONS.to_string()),
            ("pg_stat_statements.max", MAX_STATEMENTS.to_string()),
            // Only those of counting roles are recorded: all tests together send more than can be kept.
            ("pg_stat_statements.track", "none".to_owned()),
            ("pg_stat_statements.save", "off".to_owned()),
            ("shared_buffers", "128MB".to_owned()),
            // Written by a size that tests hardly reach, so that no checkpoint disturbs a timing.
            ("max_wal_size", "2GB".to_owned()),
            ("checkpoint_timeout", "30min".to_owned()),
        ];
        settings.extra = extra.map(|(name, value)| (name.to_owned(), value)).into();
        settings
    }

    /// A path for a server of one test.
    pub(super) fn private_home(&self) -> PathBuf {
        let name = embedded::random_hex(4).unwrap_or_else(|error| panic!("{error}"));
        self.root.join(format!("private-{name}"))
    }

    /// Copies a server that was never used to `home`: faster than making one. The caller holds the lock.
    pub(super) async fn copy_template(&self, home: &Path) {
        let template = self.root.join("template");
        // Complete once it has a URL: a template that was not finished is made again.
        let complete = template.join("complete");
        if !complete.exists() {
            self.remove(&template);
            let mut settings = Settings::new(&template);
            settings.installation = Some(installation().await);
            settings.database = "test".to_owned();
            let cluster = start(settings).await;
            cluster.stop().await.unwrap_or_else(|error| panic!("{error}"));
            let _ = fs::remove_file(template.join("port"));
            fs::write(&complete, "").unwrap_or_else(|error| panic!("could not write {}: {error}", complete.display()));
        }
        self.copy(&template, home).await;
    }

    /// Copies the home of a server that does not run.
    pub(super) async fn copy(&self, from: &Path, to: &Path) {
        let copied = Command::new("cp").arg("-Rp").arg(from).arg(to).status().await;
        assert!(copied.is_ok_and(|status| status.success()), "could not copy {} to {}", from.display(), to.display());
    }

    /// A new folder of one test that the server's user can enter.
    pub(super) fn make_private_dir(&self) -> PathBuf {
        let path = self.private_home();
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.unwrap_or_else(|error| panic!("could not create {}: {error}", path.display()));
        self.give(&path);
        path
    }

    /// Makes `command` run as the user that runs the servers.
    pub(super) fn run_as_server(&self, command: &mut std::process::Command) {
        if let Some(account) = &self.account {
            account.run(command);
        }
    }

    /// Starts the process that stops the server when it has not been used for a while.
    async fn watch(&self) {
        self.write(&self.root.join("workspace"), workspace());
        let mut command = Command::new("sh");
        command.args(["-c", CONTROL, "sh", "watch"]).arg(&self.root).current_dir("/").process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap_or_else(|error| panic!("could not run sh: {error}"));
    }

    /// Touches the heartbeat now, and every minute as long as this process lives.
    pub(super) fn keep_alive(&self) {
        static BEATING: OnceLock<()> = OnceLock::new();
        let path = self.write(&self.root.join("heartbeat"), "");
        BEATING.get_or_init(|| {
            std::thread::spawn(move || {
                loop {
                    std::thread::sleep(HEARTBEAT_EVERY);
                    // A missing file means that the folder was removed under us; then there is nothing to keep alive.
                    let _ = OpenOptions::new()
                        .write(true)
                        .open(&path)
                        .and_then(|file| file.set_modified(SystemTime::now()));
                }
            });
        });
    }

    /// Writes a file that only the caller can read.
    pub(super) fn write(&self, path: &Path, text: &str) -> PathBuf {
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path);
        let written = file.and_then(|mut file| {
            std::io::Write::write_all(&mut file, text.as_bytes())?;
            file.set_modified(SystemTime::now())
        });
        written.unwrap_or_else(|error| panic!("could not write {}: {error}", path.display()));
        path.to_path_buf()
    }

    /// Gives a file or folder to the user that runs the servers.
    pub(super) fn give(&self, path: &Path) {
        if let Some(account) = &self.account {
            lchown(path, Some(account.uid()), None)
                .unwrap_or_else(|error| panic!("could not give away {}: {error}", path.display()));
        }
    }

    fn remove(&self, home: &Path) {
        match fs::remove_dir_all(home) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                panic!("could not remove {}: {error}", home.display())
            }
            _ => {}
        }
    }
}

fn open_or_create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)
}

/// The folder for the folder of the test servers. It depends on nothing that changes during a run, so that all
/// processes choose the same.
fn parent(root: bool) -> PathBuf {
    let memory = PathBuf::from(MEMORY);
    let size = rustix::fs::statvfs(&memory).map_or(0, |found| found.f_blocks.saturating_mul(found.f_frsize));
    let is_writable = || rustix::fs::access(&memory, rustix::fs::Access::WRITE_OK).is_ok();
    if size >= MEMORY_MIN && has_memory(2 * MEMORY_MIN) && is_writable() {
        return memory.canonicalize().unwrap_or(memory);
    }
    // Root's temporary folder may be private, and the server's user must get in.
    if root { PathBuf::from("/tmp") } else { env::temp_dir() }
}

/// Whether this machine, or the container that the tests run in, has so much memory: a file system in memory may be
/// larger than that.
fn has_memory(bytes: u64) -> bool {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    memory_total(&read("/proc/meminfo")).is_some_and(|total| total >= bytes)
        && read("/sys/fs/cgroup/memory.max").trim().parse().map_or(true, |limit: u64| limit >= bytes)
}

/// The memory in the text of `/proc/meminfo`, in bytes.
fn memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Starts a server for tests.
pub(super) async fn start(settings: Settings) -> Cluster {
    Cluster::start(settings).await.unwrap_or_else(|error| panic!("the test server did not start: {error}"))
}

/// The root of the workspace that these tests belong to.
fn workspace() -> &'static str {
    let here = env!("CARGO_MANIFEST_DIR");
    here.strip_suffix("/crates/pg").unwrap_or(here)
}

/// What tells apart the servers of different workspaces and versions of PostgreSQL.
fn key() -> String {
    let version = env::var("REVEILLE_TEST_PG").unwrap_or_default();
    let mut hasher = std::hash::DefaultHasher::new();
    (workspace(), env::var_os("REVEILLE_PG_BIN")).hash(&mut hasher);
    let version = if version.is_empty() { "any".to_owned() } else { version };
    format!("{version}-{:08x}", hasher.finish() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another user can create a folder whose name can be guessed: it must not be used.
    /// Checks a folder that others can enter, one of another user, a link to a good one, and the good one.
    #[test]
    fn a_folder_that_others_could_have_made_is_refused() {
        let name = embedded::random_hex(6).expect("chance");
        let (good, link) =
            (env::temp_dir().join(format!("folder-{name}")), env::temp_dir().join(format!("link-{name}")));
        let folder = |root: &Path| Folder { root: root.to_path_buf(), account: None };
        let refuses = |root: &Path, caller| std::panic::catch_unwind(|| folder(root).make(caller)).is_err();
        fs::DirBuilder::new().mode(0o700).create(&good).expect("make");
        let me = fs::metadata(&good).expect("look").uid();
        std::os::unix::fs::symlink(&good, &link).expect("link");
        assert!(!refuses(&good, me));
        assert!(refuses(&link, me), "a link");
        assert!(refuses(&good, me + 1), "another user's");
        fs::set_permissions(&good, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("open");
        assert!(refuses(&good, me), "open to others");
        fs::remove_file(&link).and_then(|()| fs::remove_dir(&good)).expect("remove");
    }
}
