//! The program that plays the peers, built when it is needed.
//!
//! It is a workspace of its own, which nothing else builds. cargo decides whether it is out of date.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;

/// Where its sources are, seen from this package.
const FOLDER: &str = "peers";
const PROGRAM: &str = "reveille-bench-peers";

/// Builds it, with messages on stderr, and returns its path.
pub(crate) fn build() -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER);
    if !folder.join("Cargo.toml").is_file() {
        return Err(format!("the sources of the peers are not in {}: use --no-peers", folder.display()).into());
    }
    eprintln!("building the peers; the first time takes some minutes");
    // Given as an argument, so that the environment cannot change the path of the program.
    let target = folder.join("target");
    let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--quiet", "--locked"])
        .arg("--manifest-path")
        .arg(folder.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .stdin(Stdio::null())
        // Results go to stdout.
        .stdout(Stdio::null())
        .status()?;
    if !built.success() {
        return Err("the peers could not be built: see above, or use --no-peers".into());
    }
    Ok(target.join("release").join(PROGRAM))
}
