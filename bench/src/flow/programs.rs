//! Builds the programs that are measured: `reveille`, the program for graphile_worker, and a Python with DBOS.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;
use crate::queue::{build_peers, build_server, target};

/// Paths relative to this package.
const PEERS: &str = "flow-peers";
const PYTHON: &str = "../scripts/python.sh";
const DBOS: &str = "flow-peers/dbos_rounds.py";

/// The paths of the programs.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// `reveille`.
    pub(super) server: PathBuf,
    /// `None` without peers.
    pub(super) peers: Option<Peers>,
}

/// The programs of the peers.
#[derive(Debug, Clone)]
pub(super) struct Peers {
    pub(super) graphile: PathBuf,
    /// The Python in which DBOS is installed, and the program that it runs.
    pub(super) dbos: (PathBuf, PathBuf),
}

impl Programs {
    /// Builds the programs. Progress goes to stderr.
    pub(crate) fn build(with_peers: bool) -> Result<Programs> {
        let server = build_server()?;
        let peers = if with_peers {
            Some(Peers { graphile: build_peers(PEERS, "reveille-bench-flow-peers")?, dbos: python()? })
        } else {
            None
        };
        Ok(Programs { server, peers })
    }
}

/// Creates the Python environment with DBOS.
fn python() -> Result<(PathBuf, PathBuf)> {
    let (here, target) = (Path::new(env!("CARGO_MANIFEST_DIR")), target()?);
    let mut script = Command::new(here.join(PYTHON));
    // stdout is only for results.
    script.arg("dbos").env("CARGO_TARGET_DIR", &target).stdin(Stdio::null()).stdout(std::io::stderr());
    if !script.status()?.success() {
        return Err("cannot create the Python environment with dbos: see above, or use --no-peers".into());
    }
    Ok((target.join("python/dbos/bin/python"), here.join(DBOS)))
}
