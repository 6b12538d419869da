//! A private RabbitMQ, started by the script that the tests use, too.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::Result;

/// The path relative to this package.
const SCRIPT: &str = "../scripts/rabbitmq.sh";
/// The server uses the first of these ports that is free together with the two after it.
const PORTS: [u16; 4] = [5_740, 5_750, 5_760, 5_770];

/// A running RabbitMQ. Stopped and removed when dropped.
pub(super) struct Rabbit {
    folder: PathBuf,
    url: String,
    pid: u32,
}

impl Rabbit {
    pub(super) async fn start() -> Result<Rabbit> {
        let port =
            PORTS.into_iter().find(|port| (*port..port + 3).all(is_free)).ok_or("no port is free for RabbitMQ")?;
        let folder = std::env::temp_dir().join(format!("reveille-bench-rabbit-{:08x}", fastrand::u32(..)));
        eprintln!("starting RabbitMQ in {}", folder.display());
        script(&["install"]).await?;
        let started = async {
            let url = script(&["start", path(&folder)?, &port.to_string()]).await?;
            let pid = script(&["pid", path(&folder)?]).await?.parse()?;
            Ok((url, pid))
        };
        match started.await {
            Ok((url, pid)) => Ok(Rabbit { folder, url, pid }),
            Err(error) => {
                remove(&folder);
                Err(error)
            }
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

fn is_free(port: u16) -> bool {
    std::net::TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// Blocking, because `drop` calls it.
fn remove(folder: &Path) {
    let stopped = std::process::Command::new(script_path()).arg("stop").arg(folder).stdin(Stdio::null()).status();
    if let Err(error) = stopped.and_then(|_| std::fs::remove_dir_all(folder)) {
        eprintln!("{} could not be removed: {error}", folder.display());
    }
}

fn script_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(SCRIPT)
}

fn path(folder: &Path) -> Result<&str> {
    folder.to_str().ok_or_else(|| "the name of the temporary folder is not UTF-8".into())
}

async fn script(arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(script_path());
    let done = command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit()).output().await?;
    if !done.status.success() {
        return Err(format!("rabbitmq.sh {} failed: see above, or use --no-peers", arguments.join(" ")).into());
    }
    Ok(String::from_utf8(done.stdout)?.trim().to_owned())
}
