//! Servers that somebody started without this library.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use reveille_pg::testing::skip;

use super::{Place, ask};

/// How long a server that is started by hand may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server is recognised however its directory was named when it was started, and attached to.
/// Starts one by hand from within its data directory, whose name its command line then lacks.
#[tokio::test]
async fn a_server_that_was_started_by_hand_is_attached_to() {
    let Some(place) = Place::new("server").await else { return };
    if !Path::new("/proc/self").exists() {
        // Elsewhere such a server is refused, by name, because nobody can tell whose data it runs on.
        skip::<()>("a system that shows the working directory of a process");
        return;
    }
    place.start().await.stop().await.expect("stop");
    let owner = fs::metadata(place.pgdata()).expect("look");
    let mut command = Command::new(place.installation.program("postgres"));
    command.args(["-D", "."]).current_dir(place.pgdata());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0) {
        command.uid(owner.uid()).gid(owner.gid());
    }
    let mut by_hand = command.spawn().expect("start by hand");
    let since = Instant::now();
    while !fs::read_to_string(place.pgdata().join("postmaster.pid")).unwrap_or_default().contains("ready") {
        assert!(since.elapsed() < PATIENCE, "it did not start");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let cluster = place.start().await;
    assert!(cluster.attached());
    assert_eq!(cluster.pid(), Some(by_hand.id()));
    assert_eq!(ask(&cluster, "select 'attached'").await, "attached");
    let stopped = cluster.stop();
    // Its parent is this test, and a process that was not collected has not gone.
    let collected = tokio::task::spawn_blocking(move || by_hand.wait());
    stopped.await.expect("stop");
    assert!(collected.await.expect("no panic").expect("wait").success());
    assert_eq!(cluster.pid(), None);
}
