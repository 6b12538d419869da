//! Running commands against a server.

use std::{net::SocketAddr, process::Stdio};

use serde_json::Value;
use tokio::{io::AsyncWriteExt as _, time::timeout};

use crate::process::{PATIENCE, command};

/// How a command ended, and what it printed.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    /// Its only document.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Checks that it succeeded.
    pub(crate) fn well(self) -> Done {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    /// Checks that it failed with this code, printed no result, and said this.
    pub(crate) fn fails(self, code: i32, part: &str) -> Done {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.err.contains(part), "{part:?} is not in {self:?}");
        assert!(self.out.is_empty(), "{self:?}");
        self
    }
}

/// A client on the command line.
#[derive(Clone, Copy)]
pub(crate) struct Shell {
    pub(crate) address: SocketAddr,
}

impl Shell {
    /// Runs `reveille` with these arguments.
    pub(crate) async fn run(&self, args: &[&str]) -> Done {
        self.run_with(args, "").await
    }

    /// The same with `--json`; it must succeed and print one document.
    pub(crate) async fn json(&self, args: &[&str]) -> Value {
        self.run(&[args, &["--json"]].concat()).await.well().json()
    }

    /// The same with an input.
    pub(crate) async fn run_with(&self, args: &[&str], input: &str) -> Done {
        run(&format!("http://{}", self.address), args, &[], input).await
    }
}

/// Runs `reveille` with these arguments and variables against the server at an address.
pub(crate) async fn run(server: &str, args: &[&str], variables: &[(&str, &str)], input: &str) -> Done {
    let mut command = command(args);
    command.env("REVEILLE_URL", server).envs(variables.iter().copied()).stdin(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let written = async {
        // A command that does not read its input may have ended before.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
    };
    let (output, ()) = timeout(PATIENCE, async { tokio::join!(child.wait_with_output(), written) })
        .await
        .unwrap_or_else(|_| panic!("{args:?} did not end"));
    let output = output.expect("it was a child");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    Done { code: output.status.code().expect("it exits by itself"), out: text(output.stdout), err: text(output.stderr) }
}

/// The lines of an output.
pub(super) fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}
