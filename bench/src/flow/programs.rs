//! The programs that take part, made when they are needed: our server, graphile_worker's program, and Python with dbos.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Result;
use crate::queue::{build_peers, build_server, target};

/// Seen from this package.
const PEERS: &str = "flow-peers";
const PYTHON: &str = "../scripts/python.sh";
const DBOS: &str = "flow-peers/dbos_rounds.py";

/// Where they are.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// Our server.
    pub(super) server: PathBuf,
    /// `None` if they do not take part.
    pub(super) peers: Option<Peers>,
}

/// Programs of others.
#[derive(Debug, Clone)]
pub(super) struct Peers {
    pub(super) graphile: PathBuf,
    /// The Python that has dbos, and its program.
    pub(super) dbos: (PathBuf, PathBuf),
}

impl Programs {
    /// Builds them, telling on stderr how that goes.
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

/// The environment that has dbos.
fn python() -> Result<(PathBuf, PathBuf)> {
    let (here, target) = (Path::new(env!("CARGO_MANIFEST_DIR")), target()?);
    let mut script = Command::new(here.join(PYTHON));
    // Results go to stdout.
    script.arg("dbos").env("CARGO_TARGET_DIR", &target).stdin(Stdio::null()).stdout(std::io::stderr());
    if !script.status()?.success() {
        return Err("the environment of dbos could not be made: see above, or use --no-peers".into());
    }
    Ok((target.join("python/dbos/bin/python"), here.join(DBOS)))
}
