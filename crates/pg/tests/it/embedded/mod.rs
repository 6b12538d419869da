//! A private server: made, started, attached to, stopped, and found again after every kind of accident.

mod download;
mod owner;
mod started_by_hand;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use reveille_pg::embedded::{Cluster, Error, Installation, Settings, Wanted, data_major};
use reveille_pg::testing::{installation_to_start, skip};
use sqlx::{Connection as _, PgConnection};

/// A directory of one test, removed with its server at the end.
struct TestDirectory {
    /// Everything of this test.
    top: PathBuf,
    /// The server's directory.
    path: PathBuf,
    installation: Installation,
}

impl TestDirectory {
    /// `None` if `DATABASE_URL` is set: then no server is started.
    async fn new(name: &str) -> Option<TestDirectory> {
        let installation = installation_to_start().await?;
        let unique = format!("reveille-it-{}-{:x}", std::process::id(), fastrand::u64(..));
        // Root's own temporary folder may be closed to the user that runs the server.
        let top = Path::new("/tmp").join(unique);
        Some(TestDirectory { path: top.join(name), top, installation })
    }

    fn settings(&self) -> Settings {
        let mut settings = Settings::new(&self.path);
        settings.installation = Some(self.installation.clone());
        settings.durable = false;
        settings
    }

    async fn start(&self) -> Cluster {
        Cluster::start(self.settings()).await.expect("start")
    }

    /// Another folder of this test.
    fn beside(&self, name: &str) -> PathBuf {
        let path = self.top.join(name);
        fs::create_dir_all(&path).expect("make");
        path
    }

    fn pgdata(&self) -> PathBuf {
        self.path.join("data")
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let pid = fs::read_to_string(self.pgdata().join("postmaster.pid")).unwrap_or_default();
        if let Some(pid) = pid.lines().next()
            && fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line.starts_with(b"/") && contains(&line, b"postgres"))
        {
            let _ = std::process::Command::new("sh").args(["-c", "kill -s QUIT \"$1\"", "sh", pid]).status();
        }
        let _ = fs::remove_dir_all(&self.top);
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn process_group(pid: &str) -> String {
    if let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The name may hold anything; after it come the state, the parent and the group.
        let (_, rest) = stat.rsplit_once(')').expect("a name in parentheses");
        return rest.split_whitespace().nth(2).expect("a process group").to_owned();
    }
    let output = std::process::Command::new("ps").args(["-o", "pgid=", "-p", pid]).output().expect("ps");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

async fn ask(cluster: &Cluster, sql: &'static str) -> String {
    let mut connection = PgConnection::connect(cluster.url()).await.expect("connect");
    sqlx::query_scalar(sql).fetch_one(&mut connection).await.expect("ask")
}

/// The whole life of a server: `start` creates it and returns when it is ready, with statistics on and a secret
/// password; the second start has the same data and port.
/// Starts and stops it twice, and reads files and settings.
#[tokio::test]
async fn a_server_is_made_started_stopped_and_started_again() {
    let Some(directory) = TestDirectory::new("server").await else { return };
    let cluster = directory.start().await;
    assert!(!cluster.attached());
    assert_eq!(ask(&cluster, "select current_database()::text").await, "reveille");
    assert_eq!(
        ask(&cluster, "select count(*)::text from pg_extension where extname = 'pg_stat_statements'").await,
        "1"
    );
    assert_eq!(ask(&cluster, "show shared_preload_libraries").await, "pg_stat_statements");
    assert_eq!(ask(&cluster, "show listen_addresses").await, "127.0.0.1");
    assert_eq!(ask(&cluster, "show lc_messages").await, "C");
    let socket = cluster.socket_dir().join(format!(".s.PGSQL.{}", cluster.port()));
    assert!(socket.exists(), "{}", socket.display());

    let password = fs::read_to_string(directory.path.join("password")).expect("password");
    assert!(cluster.url().contains(&password));
    assert!(!format!("{cluster:?}").contains(&password), "{cluster:?}");
    assert_eq!(fs::metadata(directory.path.join("password")).expect("password").permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(cluster.socket_dir()).expect("socket folder").permissions().mode() & 0o777, 0o700);
    let without = cluster.url().replace(&password, "wrong");
    PgConnection::connect(&without).await.expect_err("a wrong password is refused");

    let pid = cluster.pid().expect("running");
    cluster.stop().await.expect("stop");
    assert_eq!(cluster.pid(), None, "process {pid} has ended");
    cluster.stop().await.expect("a second stop is no error");
    let again = directory.start().await;
    assert_eq!(again.url(), cluster.url());
    again.stop().await.expect("stop");
}

/// The terminal's Ctrl-C must reach only the owner, which then stops the server with a fast shutdown.
/// Compares the process group of the server with its pid and with this process's.
#[tokio::test]
async fn a_server_has_a_process_group_of_its_own() {
    let Some(directory) = TestDirectory::new("server").await else { return };
    let cluster = directory.start().await;
    let pid = cluster.pid().expect("running").to_string();
    assert_eq!(process_group(&pid), pid);
    cluster.stop().await.expect("stop");
}

/// A directory may have blanks, quotes and letters beyond ASCII in its name and be longer than a socket's path may be.
/// Starts a server in one, and connects by its socket as well.
#[tokio::test]
async fn a_directory_may_have_any_name_and_length() {
    let name = format!("a 'b' \"c\" $HOME é {}", "long ".repeat(30));
    let Some(directory) = TestDirectory::new(&name).await else { return };
    let cluster = directory.start().await;
    assert_eq!(ask(&cluster, "select 'it works'").await, "it works");
    let socket_dir = cluster.socket_dir().to_path_buf();
    assert!(socket_dir.starts_with("/tmp"));
    cluster.stop().await.expect("stop");
    assert!(!socket_dir.exists(), "{} is removed with the server", socket_dir.display());
}

/// A server whose owner crashed is found again, with its data, and not started twice.
/// Forgets the value without stopping, and starts again with the same directory.
#[tokio::test]
async fn a_running_server_is_attached_to() {
    let Some(directory) = TestDirectory::new("server").await else { return };
    let first = directory.start().await;
    let (pid, url) = (first.pid(), first.url().to_owned());
    drop(first);
    let second = directory.start().await;
    assert!(second.attached());
    assert_eq!((second.pid(), second.url()), (pid, url.as_str()));
    second.stop().await.expect("stop");
}

/// Any number of processes may start the same directory at once; they share one server.
/// Ten tasks start it at once, from nothing.
#[tokio::test]
async fn many_starts_at_once_make_one_server() {
    let Some(directory) = TestDirectory::new("server").await else { return };
    let starts: Vec<_> = (0..10).map(|_| tokio::spawn(Cluster::start(directory.settings()))).collect();
    let mut clusters = Vec::new();
    for start in starts {
        clusters.push(start.await.expect("join").expect("start"));
    }
    assert_eq!(clusters.iter().filter(|cluster| !cluster.attached()).count(), 1);
    assert!(clusters.iter().all(|cluster| cluster.url() == clusters[0].url()));
    clusters[0].stop().await.expect("stop");
}

/// After a crash the process ids in the files of a server may belong to any process, even to a live one of the same
/// user.
/// Kills the server, and writes the pid of a process of the server's user into its pid file and its socket's lock file.
#[tokio::test]
async fn stale_pid_files_that_name_another_process_do_not_prevent_a_start() {
    let Some(directory) = TestDirectory::new("server").await else { return };
    let cluster = directory.start().await;
    cluster.kill().await.expect("kill");
    // PostgreSQL treats a process of another user as dead, so this one must belong to the server's user.
    let owner = fs::metadata(directory.pgdata()).expect("data").uid();
    let mut command = tokio::process::Command::new("sleep");
    let mut innocent = command.arg("600").uid(owner).kill_on_drop(true).spawn().expect("sleep");
    let socket_lock = cluster.socket_dir().join(format!(".s.PGSQL.{}.lock", cluster.port()));
    for file in [directory.pgdata().join("postmaster.pid"), socket_lock] {
        let text = fs::read_to_string(&file).expect("a killed server leaves its files");
        let (_, rest) = text.split_once('\n').expect("lines");
        fs::write(&file, format!("{}\n{rest}", innocent.id().expect("pid"))).expect("write");
    }

    let again = directory.start().await;
    assert!(!again.attached());
    assert_eq!(again.port(), cluster.port());
    assert_eq!(ask(&again, "select 'recovered'").await, "recovered");
    assert!(innocent.try_wait().expect("look").is_none(), "the other process is left alone");
    again.stop().await.expect("stop");
}

/// A start may be interrupted at any time; the next start completes it.
/// Drops the future after times that fall into `initdb`, its end and the server's start.
#[tokio::test]
async fn an_interrupted_start_is_completed_by_the_next() {
    let Some(directory) = TestDirectory::new("server").await else { return };
    for milliseconds in [5, 50, 200, 600, 1000] {
        let _ = tokio::time::timeout(Duration::from_millis(milliseconds), Cluster::start(directory.settings())).await;
    }
    let cluster = directory.start().await;
    assert_eq!(ask(&cluster, "select 'complete'").await, "complete");
    cluster.stop().await.expect("stop");
    let left: Vec<_> =
        fs::read_dir(&directory.path).expect("list").filter_map(Result::ok).map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("making")), "{left:?}");
}

/// A data directory that lost its version file is neither replaced nor changed.
/// Removes the file, or writes nonsense into it, and compares what is there before and after.
#[tokio::test]
async fn a_damaged_data_directory_is_refused_and_left() {
    let Some(directory) = TestDirectory::new("server").await else { return };
    assert_eq!(data_major(&directory.path).expect("nothing there"), None);
    directory.start().await.stop().await.expect("stop");
    assert_eq!(data_major(&directory.path).expect("readable"), Some(directory.installation.version.major));
    let names = || {
        let entries = fs::read_dir(&directory.path).expect("list").filter_map(Result::ok);
        entries.map(|entry| entry.file_name()).collect::<std::collections::BTreeSet<_>>()
    };
    let before = names();
    let damages: [fn(&Path) -> std::io::Result<()>; 2] = [|file| fs::write(file, "?"), |file| fs::remove_file(file)];
    for damage in damages {
        damage(&directory.pgdata().join("PG_VERSION")).expect("damage it");
        let error = Cluster::start(directory.settings()).await.expect_err("refused");
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("restore it from a backup"), "{error}");
        assert_eq!(names(), before);
    }
}

/// A directory with other files is rejected and not changed.
/// One has an unrelated file, and one is itself a PostgreSQL data directory.
#[tokio::test]
async fn a_directory_with_other_files_is_left_alone() {
    let Some(directory) = TestDirectory::new("server").await else { return };
    for file in ["thesis.txt", "PG_VERSION"] {
        let path = directory.path.join(file);
        fs::create_dir_all(&path).expect("make");
        let mut settings = directory.settings();
        settings.data_dir = directory.path.clone();
        let error = Cluster::start(settings).await.expect_err("refused");
        assert!(matches!(&error, Error::ForeignDirectory { found, .. } if found == file), "{error}");
        assert!(error.to_string().contains("choose an empty or a new directory"), "{error}");
        let names: Vec<_> = fs::read_dir(&directory.path).expect("list").filter_map(Result::ok).collect();
        assert_eq!(names.len(), 1, "nothing was added");
        fs::remove_dir(path).expect("clean");
    }
}

/// A taken port is named; if no port is given, another one is chosen, even if it is the port of the last time.
/// Occupies the port between two starts.
#[tokio::test]
async fn a_taken_port_is_named_or_avoided() {
    let Some(directory) = TestDirectory::new("server").await else { return };
    let cluster = directory.start().await;
    let port = cluster.port();
    cluster.stop().await.expect("stop");
    let _occupied = TcpListener::bind(("127.0.0.1", port)).expect("occupy");
    let error = Cluster::start(directory.settings().port(port)).await.expect_err("taken");
    assert!(matches!(error, Error::PortTaken { port: named } if named == port), "{error}");
    let elsewhere = directory.start().await;
    assert_ne!(elsewhere.port(), port);
    elsewhere.stop().await.expect("stop");
}

/// If the server does not start, the error has the last lines of its log and the log's path.
/// Gives it an invalid setting.
#[tokio::test]
async fn a_failed_start_shows_the_log_and_its_path() {
    let Some(directory) = TestDirectory::new("server").await else { return };
    let extra = vec![("work_mem".to_owned(), "a lot".to_owned())];
    let error = Cluster::start(directory.settings().extra(extra)).await.expect_err("refused");
    let message = error.to_string();
    assert!(message.contains("work_mem"), "{message}");
    assert!(message.contains(&*directory.path.join("postgresql.log").to_string_lossy()), "{message}");
}

/// Data of another major version is not touched; the message names both versions.
/// Writes an older version into the data's version file.
#[tokio::test]
async fn data_of_a_version_that_is_not_installed_is_refused() {
    let Some(directory) = TestDirectory::new("server").await else { return };
    directory.start().await.stop().await.expect("stop");
    fs::write(directory.pgdata().join("PG_VERSION"), "9\n").expect("write");
    let error = Cluster::start(directory.settings()).await.expect_err("refused");
    let message = error.to_string();
    assert!(matches!(error, Error::VersionMismatch { data: 9, .. }), "{message}");
    assert!(message.contains(&directory.installation.version.to_string()), "{message}");
}

/// The server of root runs as another user, who must be able to enter its directory; the error names a path that works.
/// Makes a directory that only root can enter. For an ordinary user, who runs the server itself, the test does not
/// apply.
#[tokio::test]
async fn a_directory_that_only_root_can_enter_is_named() {
    let Some(directory) = TestDirectory::new("closed/server").await else { return };
    let closed = directory.path.parent().expect("parent");
    fs::create_dir_all(closed).expect("make");
    fs::set_permissions(closed, fs::Permissions::from_mode(0o700)).expect("close");
    if fs::metadata(closed).expect("look").uid() != 0 {
        skip::<()>("root");
        return;
    }
    let error = Cluster::start(directory.settings()).await.expect_err("unreachable");
    assert!(!directory.path.exists(), "nothing was made");
    let message = error.to_string();
    assert!(matches!(error, Error::Unreachable { .. }), "{message}");
    assert!(message.contains("closed") && message.contains("/var/lib/reveille"), "{message}");
}

/// PostgreSQL's programs are found where they are installed, and the error lists the searched folders if there are
/// none.
/// Asks for any version, for a version that does not exist, and in a folder without programs.
#[tokio::test]
async fn an_installation_is_found_or_the_searched_folders_are_listed() {
    let Some(installation) = installation_to_start().await else { return };
    let exact = Installation::find(Wanted::exactly(installation.version.major)).await.expect("found");
    assert_eq!(exact.version.major, installation.version.major);
    assert!(Installation::all().await.iter().any(|found| found.version == exact.version));

    let none = Installation::find(Wanted { exact: Some(99), majors: 99..=99, bin_dir: None }).await.expect_err("none");
    let message = none.to_string();
    assert!(message.contains("PostgreSQL 99") && message.contains("/usr/lib/postgresql"), "{message}");
    let empty = Wanted { bin_dir: Some("/".into()), ..Wanted::default() };
    let message = Installation::find(empty).await.expect_err("no programs").to_string();
    assert!(message.contains("`initdb` is missing"), "{message}");
}
