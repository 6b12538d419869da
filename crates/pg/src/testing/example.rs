//! Running the examples that cargo built with a test, and reading their documented output.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::process::Command;
use tokio::time::timeout;

use super::{PATIENCE, TestDb};

/// An example as a process on a test's server. It is killed when the value is dropped.
///
/// # Panics
/// If it was not built: `cargo test` builds examples unless targets are selected.
pub fn example(db: &TestDb, name: &str) -> Command {
    let test = std::env::current_exe().expect("the path of this test");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("target/<profile>/deps/<test>");
    let binary: PathBuf = profile.join("examples").join(name);
    assert!(binary.is_file(), "{} is missing: build it with --examples", binary.display());
    let mut command = Command::new(binary);
    // The URL contains a password, so it is passed in the environment, which other users cannot read.
    command.env("DATABASE_URL", db.url()).env_remove("RUST_LOG").kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

/// Runs an example to its end and returns the lines that it printed.
///
/// # Panics
/// If it fails, or takes longer than [`PATIENCE`].
pub async fn printed(db: &TestDb, name: &str, arguments: &[&str]) -> Vec<String> {
    let output = example(db, name).args(arguments).output();
    let output = timeout(PATIENCE, output).await.expect("it ends").expect("it starts");
    assert!(output.status.success(), "{name}: {}", output.status);
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

/// The output in the doc comment of an example. `folder` is the folder of its package `package`.
///
/// # Panics
/// If the doc comment does not contain the command followed by the output.
pub fn promised(folder: &str, package: &str, name: &str) -> Vec<String> {
    let source = std::fs::read_to_string(format!("{folder}/examples/{name}.rs")).expect("its source");
    let block = source.split("//! ```text\n").nth(1).and_then(|rest| rest.split("//! ```").next());
    let mut lines = block.expect("an output").lines().map(|line| line.trim_start_matches("//! ").to_owned());
    let command = lines.next().expect("the command");
    assert_eq!(command, format!("$ cargo run -p {package} --example {name}"));
    lines.collect()
}
