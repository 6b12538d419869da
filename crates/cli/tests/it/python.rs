//! Python programs, in the environments of `scripts/python.sh`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

/// A program of a Python environment. The test fails if the environment does not exist.
pub(crate) fn python(environment: &str, program: &str) -> Command {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the folder of what is built");
    let found: PathBuf = built.join("python").join(environment);
    // Written last: without it the environment is incomplete.
    assert!(
        found.join("made-of").exists(),
        "there is no Python environment {}: run `make test`, or scripts/python.sh before this",
        found.display()
    );
    let mut command = Command::new(found.join("bin").join(program));
    // Without packages of the machine, and without bytecode files beside the programs.
    command.env_remove("PYTHONPATH").env_remove("PYTHONHOME").env("PYTHONDONTWRITEBYTECODE", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}
