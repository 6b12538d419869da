//! A terminal for programs that need one: tmux, which a test types into and whose screen it reads.

use std::{
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use crate::process::PATIENCE;

/// The size of the terminal.
const COLUMNS: &str = "100";
const LINES: &str = "30";

/// A terminal in which a command runs. Dropping it ends both.
pub(super) struct Terminal {
    /// The name of a tmux server of its own.
    server: String,
}

impl Terminal {
    /// Runs a command. `None`, with a line that the test is skipped, if tmux is not installed.
    pub(super) fn run(args: &[&str]) -> Option<Terminal> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        if Command::new("tmux").arg("-V").output().is_err() {
            return reveille_pg::testing::skip("tmux, for programs that draw on a terminal");
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let terminal = Terminal { server: format!("reveille-{}-{number}", std::process::id()) };
        let started = ["new-session", "-d", "-x", COLUMNS, "-y", LINES, env!("CARGO_BIN_EXE_reveille")];
        let done = terminal.tmux(&[&started[..], args].concat());
        assert!(done.status.success(), "{done:?}");
        Some(terminal)
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        // No configuration of the user, and a terminal that can draw everything.
        command.args(["-L", &self.server, "-f", "/dev/null", "-u"]).args(args).stdin(Stdio::null());
        command.env_remove("TMUX").env_remove("NO_COLOR").env_remove("REVEILLE_TOKEN").output().expect("tmux runs")
    }

    /// Types keys, as tmux names them.
    pub(super) fn press(&self, keys: &[&str]) {
        assert!(self.tmux(&[&["send-keys"], keys].concat()).status.success());
    }

    /// What is on the screen; empty if the command has ended.
    pub(super) fn screen(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// Waits until the screen shows what is wanted.
    pub(super) async fn until(&self, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if wanted(&screen) {
                return screen;
            }
            assert!(Instant::now() < deadline, "never shown, at last:\n{screen}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the screen shows a text.
    pub(super) async fn shows(&self, part: &str) -> String {
        self.until(|screen| screen.contains(part)).await
    }

    /// Waits until the command has ended.
    pub(super) async fn ends(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.tmux(&["has-session"]).status.success() {
            assert!(Instant::now() < deadline, "does not end:\n{}", self.screen());
            sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}
