//! A test in two processes: it starts itself again, and the environment of the second process says which role it has.
//!
//! A separate process can be killed, and has its own clock; a program for that purpose would be one more to build.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::Stdio;

use reveille_durable::PostgresProvider;
use reveille_pg::Schema;
use reveille_pg::testing::TestDb;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{PATIENCE, options};

/// Where the other process finds the database. The URL holds a password: it goes where other users do not see it.
const URL: &str = "REVEILLE_TEST_CHILD_URL";
const SCHEMA: &str = "REVEILLE_TEST_CHILD_SCHEMA";
/// What begins a line that is meant for the first process; other lines are the test runner's.
const MARK: &str = "said: ";

/// The other process, seen from within.
pub(super) struct Role {
    pub(super) provider: PostgresProvider,
}

/// Which part this process plays: `None` in the first one.
pub(super) async fn child() -> Option<Role> {
    let (url, schema) = (std::env::var(URL).ok()?, std::env::var(SCHEMA).ok()?);
    let schema = Schema::new(&schema).expect("the name of a schema");
    Some(Role { provider: PostgresProvider::connect(&url, options(&schema)).await.expect("a provider") })
}

impl Role {
    /// Prints a line for the first process.
    pub(super) fn say(&self, line: &str) {
        let mut out = std::io::stdout().lock();
        // A new line first: the runner may be in the middle of one.
        writeln!(out, "\n{MARK}{line}").and_then(|()| out.flush()).expect("the first process listens");
    }
}

/// The other process, seen from outside. Dropping it kills it.
pub(super) struct Process {
    child: Child,
    said: watch::Receiver<Vec<String>>,
}

impl Process {
    /// Runs `test`, of this module's parent, once more as another process with further variables in its environment.
    pub(super) fn start(db: &TestDb, test: &str, variables: &[(&str, OsString)]) -> Process {
        let mut command = Command::new(std::env::current_exe().expect("the path of this test"));
        command.args(["--exact", &format!("faults::{test}"), "--nocapture"]);
        command.env(URL, db.url()).env(SCHEMA, db.schema().name()).envs(variables.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("it starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        let (lines, said) = watch::channel(Vec::new());
        tokio::spawn(async move {
            let mut out = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = out.next_line().await {
                if let Some(line) = line.strip_prefix(MARK) {
                    lines.send_modify(|lines| lines.push(line.to_owned()));
                }
            }
        });
        Process { child, said }
    }

    /// The line after the first `after`.
    pub(super) async fn said(&self, after: usize) -> String {
        let mut said = self.said.clone();
        let enough = timeout(PATIENCE, said.wait_for(|lines| lines.len() > after)).await;
        let lines = enough.expect("it says something in time").expect("it lives until it has said it");
        lines[after].clone()
    }

    /// Ends it as a crash would.
    pub(super) async fn kill(mut self) {
        self.child.kill().await.expect("it ran until now");
    }
}
