//! A running `reveille` and its output.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, Command},
    sync::Notify,
    task::JoinHandle,
    time::{Instant, timeout},
};

/// How long an expected event may take before a test fails: long, because two cores run many tests at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Standard output and standard error.
const STREAMS: usize = 2;

/// How long to wait for the effect of a signal before it is sent again.
const BETWEEN_SIGNALS: Duration = Duration::from_millis(100);

/// A process under test. Dropping it kills it.
pub(crate) struct Reveille {
    child: Child,
    output: Arc<Output>,
    readers: Vec<JoinHandle<()>>,
}

/// The lines of both streams, in order of arrival.
#[derive(Default)]
struct Output {
    lines: Mutex<Vec<String>>,
    closed: AtomicUsize,
    more: Notify,
}

/// The exit status of a process, and its whole output.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) output: String,
}

/// The program with `args`, in an environment that configures nothing.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reveille"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        let known = ["DATABASE_URL", "RUST_LOG", "USE_PRIORITY_DISPATCH"].contains(&&*name);
        if known || name.starts_with("REVEILLE_") || name.starts_with("POLL_") {
            command.env_remove(&*name);
        }
    }
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

impl Reveille {
    /// Starts `command`, as made by [`command`].
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the program starts");
        let output = Arc::new(Output::default());
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        let readers =
            vec![tokio::spawn(read(stdout, Arc::clone(&output))), tokio::spawn(read(stderr, Arc::clone(&output)))];
        Self { child, output, readers }
    }

    /// The first line that contains `part`, once it is printed.
    pub(crate) async fn line(&self, part: &str) -> String {
        self.lines(part, 1).await
    }

    /// The last of the first `count` lines that contain `part`, once it is printed.
    pub(crate) async fn lines(&self, part: &str, count: usize) -> String {
        let found = async {
            loop {
                let more = self.output.more.notified();
                // Checked first: lines printed before the end count.
                let over = self.output.closed.load(Ordering::Acquire) == STREAMS;
                if let Some(line) = self.output.lines().iter().filter(|line| line.contains(part)).nth(count - 1) {
                    return line.clone();
                }
                assert!(!over, "ended without saying {part:?}, only:\n{}", self.output.text());
                more.await;
            }
        };
        timeout(PATIENCE, found)
            .await
            .unwrap_or_else(|_| panic!("never output {part:?}, only:\n{}", self.output.text()))
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// The address it listens on, as it has printed.
    pub(crate) async fn address(&self) -> SocketAddr {
        let line = self.line("http://").await;
        let (_, address) = line.split_once("http://").expect("the line has it");
        let address = address.split(['/', ' ', '"']).next().unwrap_or_default();
        address.parse().unwrap_or_else(|_| panic!("{line:?} has no address"))
    }

    /// The memory it has in use, in bytes; `None` if the system does not report it.
    pub(crate) fn resident(&self) -> Option<u64> {
        self.memory("VmRSS:")
    }

    /// The most memory it ever had in use, in bytes; `None` if the system does not report it.
    pub(crate) fn peak(&self) -> Option<u64> {
        self.memory("VmHWM:")
    }

    fn memory(&self, what: &str) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(what))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
    }

    /// Sends a signal: `INT`, `TERM`, `KILL`.
    pub(crate) async fn signal(&self, name: &str) {
        signal(self.child.id().expect("it runs"), name).await;
    }

    /// Sends a signal repeatedly until the process has ended.
    pub(crate) async fn ended_by_repeating(mut self, name: &str) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        while timeout(BETWEEN_SIGNALS, self.child.wait()).await.is_err() {
            assert!(Instant::now() < deadline, "did not end:\n{}", self.output.text());
            self.signal(name).await;
        }
        self.ended().await
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(mut self) -> Ended {
        let status = timeout(PATIENCE, self.child.wait()).await;
        let status = status.unwrap_or_else(|_| panic!("did not end:\n{}", self.output.text())).expect("it was a child");
        for reader in self.readers.drain(..) {
            reader.await.expect("a reader does not panic");
        }
        Ended { status, output: self.output.text() }
    }
}

impl Output {
    fn lines(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.lines.lock().expect("no reader panics")
    }

    fn text(&self) -> String {
        self.lines().join("\n")
    }
}

async fn read(stream: impl AsyncRead + Unpin, output: Arc<Output>) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        output.lines().push(line);
        output.more.notify_waiters();
    }
    output.closed.fetch_add(1, Ordering::Release);
    output.more.notify_waiters();
}

/// `reveille up` in `dir` on a free port, with the PostgreSQL that the tests run on.
pub(crate) async fn up(dir: &DataDir) -> Command {
    let mut up = command(&["up"]);
    up.env("REVEILLE_LISTEN", "127.0.0.1:0").env("REVEILLE_DATA_DIR", dir.path());
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(bin) = variable("REVEILLE_PG_BIN") {
        up.env("REVEILLE_PG_BIN", bin);
    } else if variable("REVEILLE_TEST_PG").is_some()
        && let Some(found) = reveille_pg::testing::installation_to_start().await
    {
        up.env("REVEILLE_PG_BIN", found.bin);
    }
    up
}

/// Runs `command` to its end.
pub(crate) async fn run(command: Command) -> Ended {
    Reveille::start(command).ended().await
}

/// Sends a signal to a process.
pub(crate) async fn signal(pid: u32, name: &str) {
    // The shell's built-in, because the program of that name is not installed everywhere.
    let mut command = Command::new("sh");
    command.args(["-c", "kill -s \"$1\" \"$2\"", "sh", name, &pid.to_string()]);
    let status = command.status().await.expect("sh runs");
    assert!(status.success(), "no process {pid} to send {name} to");
}

/// Whether a process runs. A zombie does not.
pub(crate) async fn runs(pid: u32) -> bool {
    if Path::new("/proc/self/stat").exists() {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name may contain any character; the state follows it.
        return stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'));
    }
    let output = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().await.expect("ps runs");
    let state = String::from_utf8_lossy(&output.stdout);
    !state.trim().is_empty() && !state.trim().starts_with('Z')
}

/// A data directory for `reveille up`. Dropping it kills a PostgreSQL that is left in it, and removes it.
pub(crate) struct DataDir(PathBuf);

impl DataDir {
    /// The name of a new directory, with a space in it, which the user of PostgreSQL can enter.
    ///
    /// `None`, with a line that the test is skipped, if `DATABASE_URL` is set.
    pub(crate) fn new() -> Option<Self> {
        if std::env::var_os("DATABASE_URL").is_some_and(|url| !url.is_empty()) {
            return reveille_pg::testing::skip("to start a PostgreSQL, and DATABASE_URL says to start none");
        }
        let unique = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos();
        // The server reports the real path of its folder.
        let temporary = std::env::temp_dir().canonicalize().expect("a temporary folder");
        Some(Self(temporary.join(format!("reveille up {}-{unique}", std::process::id()))))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The process of its PostgreSQL; `None` if it has none.
    pub(crate) fn postgres(&self) -> Option<u32> {
        std::fs::read_to_string(self.0.join("data/postmaster.pid")).ok()?.lines().next()?.trim().parse().ok()
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        if let Some(pid) = self.postgres() {
            let pid = pid.to_string();
            let mut command = std::process::Command::new("sh");
            let _ = command.args(["-c", "kill -s QUIT \"$1\"", "sh", &pid]).stderr(Stdio::null()).status();
            // PostgreSQL also exits when its directory is gone; waiting only keeps it from writing into it meanwhile.
            let deadline = std::time::Instant::now() + Duration::from_secs(5);
            while self.postgres().is_some() && std::time::Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        // The socket is elsewhere, because this path has a space in it.
        if let Ok(socket_dir) = std::fs::read_to_string(self.0.join("socket_dir")) {
            let _ = std::fs::remove_dir_all(socket_dir.trim());
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
