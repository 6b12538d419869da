//! The job queue as another process: the binary of `examples/jobs`.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard};

use reveille_pg::testing::TestDb;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::fixture::PATIENCE;

/// A process, and the lines it printed with the time of each. Dropping it kills it.
pub(crate) struct Process {
    child: Child,
    output: Arc<Output>,
    errors: Arc<Output>,
    readers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Output {
    lines: Mutex<Vec<(Instant, String)>>,
    more: Notify,
}

/// The binary with `arguments`, on a test's schema.
pub(crate) fn jobs(db: &TestDb, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    // In the environment, where other users do not see the password.
    command.env("DATABASE_URL", db.url()).env("RUST_LOG", "warn");
    command.arg("--schema").arg(db.schema().name()).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// Cargo builds examples with the tests, in a folder beside theirs.
fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("target/<profile>/deps/<test>");
    let binary = profile.join("examples").join("jobs");
    assert!(binary.is_file(), "{} is missing: build it with --examples", binary.display());
    binary
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Process {
        let mut child = command.spawn().expect("the program starts");
        let (output, errors) = (Arc::new(Output::default()), Arc::new(Output::default()));
        let readers = vec![
            tokio::spawn(read(child.stdout.take().expect("stdout is piped"), output.clone())),
            tokio::spawn(read(child.stderr.take().expect("stderr is piped"), errors.clone())),
        ];
        Process { child, output, errors, readers }
    }

    /// The line after the first `after`, and when it was printed.
    pub(crate) async fn line(&self, after: usize) -> (Instant, String) {
        let found = async {
            loop {
                let more = self.output.more.notified();
                if let Some(line) = self.output.lines().get(after) {
                    return line.clone();
                }
                more.await;
            }
        };
        timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("silent after {after} lines: {}", self.errors()))
    }

    /// Everything it printed on standard error.
    pub(crate) fn errors(&self) -> String {
        self.errors.lines().iter().map(|(_, line)| format!("{line}\n")).collect()
    }

    /// Kills it, and returns the numbers it had printed by then.
    pub(crate) async fn kill(mut self) -> HashSet<i64> {
        self.child.kill().await.expect("it ran until now");
        self.numbers().await
    }

    /// Waits for its end, which must be a success, and returns the numbers it printed.
    pub(crate) async fn ended(mut self) -> HashSet<i64> {
        let ended = timeout(PATIENCE, self.child.wait()).await.expect("it ends").expect("it was a child");
        assert!(ended.success(), "{ended}: {}", self.errors());
        self.numbers().await
    }

    async fn numbers(&mut self) -> HashSet<i64> {
        for reader in self.readers.drain(..) {
            reader.await.expect("a reader does not panic");
        }
        // The last line of a killed process may be incomplete.
        let lines = self.output.lines();
        lines.iter().filter_map(|(_, line)| line.parse().ok()).collect()
    }
}

impl Output {
    fn lines(&self) -> MutexGuard<'_, Vec<(Instant, String)>> {
        self.lines.lock().expect("no reader panics")
    }
}

async fn read(stream: impl AsyncRead + Unpin, output: Arc<Output>) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        output.lines().push((Instant::now(), line));
        output.more.notify_waiters();
    }
}
