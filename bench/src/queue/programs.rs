//! The programs that take part, built when they are needed: our server, and the peers, which are a workspace of their own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;

/// Seen from this package.
const PEERS: &str = "queue-peers";
const HOUSE: &str = "..";

/// Where they are.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// Our server; `None` if it does not take part.
    pub(super) server: Option<PathBuf>,
    /// The peers; `None` if they do not take part.
    pub(super) peers: Option<PathBuf>,
}

impl Programs {
    /// Builds them, telling on stderr how that goes.
    pub(crate) fn build(with_server: bool, with_peers: bool) -> Result<Programs> {
        // Where this program was built, so that what is there is not built again.
        let here = std::env::current_exe()?;
        let target = here.parent().and_then(Path::parent).ok_or("this program lies nowhere")?.to_owned();
        let server = if with_server { Some(build(HOUSE, "reveille", &target)?) } else { None };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(PEERS);
        let peers =
            if with_peers { Some(build(PEERS, "reveille-bench-queue-peers", &folder.join("target"))?) } else { None };
        Ok(Programs { server, peers })
    }
}

fn build(folder: &str, package: &str, target: &Path) -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    if !folder.join("Cargo.toml").is_file() {
        return Err(format!("the sources of {package} are not in {}", folder.display()).into());
    }
    eprintln!("building {package}; the first time takes some minutes");
    let built = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--quiet", "--locked", "--package", package])
        .arg("--manifest-path")
        .arg(folder.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .stdin(Stdio::null())
        // Results go to stdout.
        .stdout(Stdio::null())
        .status()?;
    if !built.success() {
        return Err(format!("{package} could not be built: see above").into());
    }
    Ok(target.join("release").join(package))
}
