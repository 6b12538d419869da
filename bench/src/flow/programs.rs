//! Builds the programs that are measured: `reveille`, those for graphile_worker and awa, and a Python with DBOS.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{graphs, rate, single_jobs};
use crate::queue::{build_peers, build_server, target};
use crate::{Result, Run};

/// Paths relative to this package.
const PEERS: &str = "flow-peers";
const AWA: &str = "peers";
const PYTHON: &str = "../scripts/python.sh";
const DBOS: &str = "flow-peers/dbos_rounds.py";

/// The paths of the programs that the selected workloads need.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// `reveille`.
    pub(super) server: Option<PathBuf>,
    /// `None` without peers.
    pub(super) peers: Option<Peers>,
}

/// The programs of the peers.
#[derive(Debug, Clone)]
pub(super) struct Peers {
    pub(super) graphile: Option<PathBuf>,
    /// The Python in which DBOS is installed, and the program that it runs.
    pub(super) dbos: Option<(PathBuf, PathBuf)>,
    pub(super) awa: Option<PathBuf>,
}

impl Programs {
    /// Builds the programs of the selected workloads. Progress goes to stderr.
    pub(crate) fn build(run: &Run) -> Result<Programs> {
        let server =
            if super::OVER_HTTP.into_iter().any(|title| run.selects(title)) { Some(build_server()?) } else { None };
        let compared = [rate::TITLE, graphs::TITLE].into_iter().any(|title| run.selects(title));
        let peers = if run.no_peers {
            None
        } else {
            Some(Peers {
                graphile: compared.then(|| build_peers(PEERS, "reveille-bench-flow-peers")).transpose()?,
                dbos: compared.then(python).transpose()?,
                awa: run.selects(single_jobs::TITLE).then(|| build_peers(AWA, "reveille-bench-awa")).transpose()?,
            })
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
