//! `reveille up` as root: which files belong to root, and which processes do not run as root.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::{MetadataExt as _, lchown, symlink},
    path::Path,
};

use crate::{
    http::get,
    process::{DataDir, Reveille, run, signal, up},
    serve::stop,
};

/// A data directory, if root runs the tests. For other users the test is reported as skipped: `None`.
fn of_root() -> Option<DataDir> {
    let dir = DataDir::new()?;
    match fs::metadata("/proc/self") {
        Ok(process) if process.uid() == 0 => Some(dir),
        _ => reveille_pg::testing::skip("root, on a system with /proc"),
    }
}

/// The user and the children of a process.
fn uid(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).expect("it has a user");
    let uids: Vec<u32> = line.split_whitespace().map(|uid| uid.parse().expect("a number")).collect();
    assert!(uids.iter().all(|uid| *uid == uids[0]), "real, effective and saved users differ: {uids:?}");
    uids[0]
}

/// The processes that have an address open.
fn listeners(address: SocketAddr) -> Vec<u32> {
    let wanted = format!(":{:04X} 00000000:0000 0A", address.port());
    let table = fs::read_to_string("/proc/net/tcp").expect("a table of sockets");
    let line = table.lines().find(|line| line.contains(&wanted)).expect("something listens");
    let socket = format!("socket:[{}]", line.split_whitespace().nth(9).expect("an inode"));
    let holds = |pid: &u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd"));
        files.is_ok_and(|files| {
            let mut files = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
            files.any(|file| file == Path::new(&socket))
        })
    };
    let processes = fs::read_dir("/proc").expect("processes").filter_map(Result::ok);
    processes.filter_map(|process| process.file_name().to_string_lossy().parse().ok()).filter(holds).collect()
}

/// No process that reads requests may run as root, from the first response on.
/// Finds the processes that have the address open, and reads their users from the system.
#[tokio::test]
async fn the_http_server_of_root_is_not_root() {
    let Some(dir) = of_root() else { return };
    let reveille = Reveille::start(up(&dir).await);
    let address = reveille.address().await;
    assert_eq!(get(address, "/health/live").await.status, 200);
    let servers = listeners(address);
    assert_eq!(servers.len(), 1, "{servers:?}");
    assert_ne!(servers[0], reveille.pid());
    assert_ne!(uid(servers[0]), 0);
    assert_eq!(uid(servers[0]), uid(dir.postgres().expect("PostgreSQL runs")));
    assert_eq!(uid(reveille.pid()), 0);

    let owner = |name: &str| fs::symlink_metadata(dir.path().join(name)).expect("there").uid();
    for name in ["", "owner", "lock", "password", "postgresql.log", "port", "reveille-embedded"] {
        assert_eq!(owner(name), 0, "{name:?} is given away");
    }
    assert_ne!(owner("data"), 0);
    stop(reveille).await;
}

/// If the server process exits, `up` must stop PostgreSQL, exit, and report the reason.
/// Kills the server process.
#[tokio::test]
async fn the_end_of_the_server_process_ends_up() {
    let Some(dir) = of_root() else { return };
    let reveille = Reveille::start(up(&dir).await);
    reveille.line("Ctrl-C stops both").await;
    signal(listeners(reveille.address().await)[0], "KILL").await;
    let ended = reveille.ended().await;
    assert_eq!(ended.status.code(), Some(1), "{}", ended.output);
    assert!(ended.output.contains("the server process exited with signal: 9"), "{}", ended.output);
    assert_eq!(dir.postgres(), None, "PostgreSQL was left behind");
}

/// Links that the server's user has put into the directory of an earlier version must not make root write elsewhere.
/// Creates a directory as earlier versions left it, with a link for the log or for the owner file, and starts on it.
/// Without links it must start.
#[tokio::test]
async fn links_in_an_old_directory_are_not_followed() {
    let Some(dir) = of_root() else { return };
    let start = async || {
        let reveille = Reveille::start(up(&dir).await);
        reveille.line("Ctrl-C stops both").await;
        stop(reveille).await;
    };
    start().await;
    let server = fs::metadata(dir.path().join("data")).expect("there").uid();
    let give_away = || {
        lchown(dir.path(), Some(server), None).expect("given away");
        for entry in fs::read_dir(dir.path()).expect("listed").filter_map(Result::ok) {
            lchown(entry.path(), Some(server), None).expect("given away");
        }
    };
    let target = dir.path().with_extension("target");
    for name in ["postgresql.log", "owner"] {
        let path = dir.path().join(name);
        fs::remove_file(&path).expect("removed");
        symlink(&target, &path).expect("linked");
        give_away();
        let ended = run(up(&dir).await).await;
        assert!(!target.exists(), "root has written through {name}");
        assert_eq!(ended.status.code(), Some(1), "{}", ended.output);
        assert!(ended.output.contains(&format!("{} is a link", path.display())), "{}", ended.output);
        fs::remove_file(&path).expect("removed");
    }
    give_away();
    start().await;
    assert_eq!(fs::metadata(dir.path()).expect("there").uid(), 0, "it was not taken back");
}
