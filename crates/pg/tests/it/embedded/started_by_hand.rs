//! Servers that were started without this library.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use reveille_pg::testing::skip;

use super::{TestDirectory, ask};

/// How long a server that is started by hand may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server is recognised by any name of its directory, and attached to.
/// Starts one from within its data directory, so that its command line does not contain the directory's name.
#[tokio::test]
async fn a_server_that_was_started_by_hand_is_attached_to() {
    let Some(directory) = TestDirectory::new("server").await else { return };
    if !Path::new("/proc/self").exists() {
        // On other systems such a server is rejected, by name: which data directory it runs on is unknown there.
        skip::<()>("a system that shows the working directory of a process");
        return;
    }
    directory.start().await.stop().await.expect("stop");
    let owner = fs::metadata(directory.pgdata()).expect("look");
    let mut command = Command::new(directory.installation.program("postgres"));
    command.args(["-D", "."]).current_dir(directory.pgdata());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0) {
        command.uid(owner.uid()).gid(owner.gid());
    }
    let mut by_hand = command.spawn().expect("start by hand");
    let since = Instant::now();
    while !fs::read_to_string(directory.pgdata().join("postmaster.pid")).unwrap_or_default().contains("ready") {
        assert!(since.elapsed() < PATIENCE, "it did not start");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let cluster = directory.start().await;
    assert!(cluster.attached());
    assert_eq!(cluster.pid(), Some(by_hand.id()));
    assert_eq!(ask(&cluster, "select 'attached'").await, "attached");
    let stopped = cluster.stop();
    // The process is a child of this test, so it exists until it is waited for.
    let collected = tokio::task::spawn_blocking(move || by_hand.wait());
    stopped.await.expect("stop");
    assert!(collected.await.expect("no panic").expect("wait").success());
    assert_eq!(cluster.pid(), None);
}
