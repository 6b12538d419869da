//! Builds the programs that are measured: `reveille`, and the peers, which are a workspace of their own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;

/// Paths relative to this package.
const PEERS: &str = "queue-peers";
const HOUSE: &str = "..";

/// The profile of this program: a development build only checks that everything works.
const PROFILE: &str = if cfg!(debug_assertions) { "dev" } else { "release" };

/// The paths of the programs.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// `reveille`; `None` if only the library is measured.
    pub(super) server: Option<PathBuf>,
    /// The program of the peers; `None` without peers.
    pub(super) peers: Option<PathBuf>,
}

impl Programs {
    /// Builds the programs. Progress goes to stderr.
    pub(crate) fn build(with_server: bool, with_peers: bool) -> Result<Programs> {
        let server = if with_server { Some(build_server()?) } else { None };
        let peers = if with_peers { Some(build_peers(PEERS, "reveille-bench-queue-peers")?) } else { None };
        Ok(Programs { server, peers })
    }
}

/// The target folder in which this program was built, so that its dependencies are not built again.
pub(crate) fn target() -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    Ok(here.parent().and_then(Path::parent).ok_or("this program is not in a target folder")?.to_owned())
}

/// Builds `reveille`.
pub(crate) fn build_server() -> Result<PathBuf> {
    build(HOUSE, "reveille", &target()?)
}

/// Builds a program for peers, which is a workspace of its own.
pub(crate) fn build_peers(folder: &str, package: &str) -> Result<PathBuf> {
    build(folder, package, &Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join("target"))
}

fn build(folder: &str, package: &str, target: &Path) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    if !folder.join("Cargo.toml").is_file() {
        return Err(format!("the sources of {package} are not in {}", folder.display()).into());
    }
    eprintln!("building {package}; the first time takes some minutes");
    let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--profile", PROFILE, "--quiet", "--locked", "--package", package])
        .arg("--manifest-path")
        .arg(folder.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .stdin(Stdio::null())
        // stdout is only for results.
        .stdout(Stdio::null())
        .status()?;
    if !built.success() {
        return Err(format!("{package} could not be built: see above").into());
    }
    Ok(target.join(if PROFILE == "dev" { "debug" } else { PROFILE }).join(package))
}
