//! Whose a server's directory is, when root starts the server.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

use reveille_pg::embedded::{Cluster, Settings};
use reveille_pg::testing::skip;

use super::{Place, ask};

/// Everything of a test, if root runs it. `None`, with a line that the test is skipped, for anybody else.
async fn of_root() -> Option<Place> {
    let place = Place::new("server").await?;
    let top = place.beside("server");
    fs::set_permissions(place.path.parent().expect("parent"), fs::Permissions::from_mode(0o755)).expect("open");
    if fs::metadata(&top).expect("look").uid() == 0 { Some(place) } else { skip("root") }
}

fn owner_and_mode(path: &Path) -> (u32, u32) {
    let found = fs::metadata(path).expect("look");
    (found.uid(), found.mode() & 0o777)
}

fn give(path: &Path, uid: u32) {
    chown(path, Some(uid), None).expect("give");
    if path.is_dir() && !path.is_symlink() {
        fs::read_dir(path).expect("list").for_each(|entry| give(&entry.expect("entry").path(), uid));
    }
}

/// A directory that somebody made keeps its owner and its mode; only what is made in it is the server's.
/// Root makes it, open to all, and starts a server there twice.
#[tokio::test]
async fn an_existing_directory_keeps_its_owner() {
    let Some(place) = of_root().await else { return };
    fs::set_permissions(&place.path, fs::Permissions::from_mode(0o755)).expect("open");
    for _ in 0..2 {
        place.start().await.stop().await.expect("stop");
        assert_eq!(owner_and_mode(&place.path), (0, 0o755));
    }
    let (server, mode) = owner_and_mode(&place.pgdata());
    assert_ne!(server, 0);
    assert_eq!(mode, 0o700);
    assert_eq!(owner_and_mode(&place.path.join("password")), (server, 0o600));
}

/// A directory that the server's user cannot enter is refused before anything in it changes.
/// Root makes it and closes it.
#[tokio::test]
async fn a_closed_directory_is_refused_untouched() {
    let Some(place) = of_root().await else { return };
    fs::set_permissions(&place.path, fs::Permissions::from_mode(0o700)).expect("close");
    Cluster::start(place.settings()).await.expect_err("unreachable");
    assert_eq!(owner_and_mode(&place.path), (0, 0o700));
    assert_eq!(fs::read_dir(&place.path).expect("list").count(), 0);
}

/// Data that belongs to another user than the usual one is served as that user and stays his.
/// Gives a stopped server to a user number that has no name.
#[tokio::test]
async fn data_is_served_as_its_owner() {
    let Some(place) = of_root().await else { return };
    fs::set_permissions(&place.path, fs::Permissions::from_mode(0o755)).expect("open");
    place.start().await.stop().await.expect("stop");
    let owner = 54_321;
    give(&place.path, owner);
    let cluster = place.start().await;
    assert_eq!(ask(&cluster, "select 'served'").await, "served");
    let pid = cluster.pid().expect("running");
    assert_eq!(fs::metadata(format!("/proc/{pid}")).expect("look at the process").uid(), owner);
    assert_eq!(owner_and_mode(&place.path).0, owner);
    cluster.stop().await.expect("stop");
}

/// A directory that is made lets the server's user in, however far down it is.
/// Several folders are missing; the last is closed to others and the ones above are not.
#[tokio::test]
async fn missing_folders_are_made_open_and_the_last_closed() {
    let Some(place) = of_root().await else { return };
    let deep = place.path.join("several/folders/down");
    fs::set_permissions(&place.path, fs::Permissions::from_mode(0o755)).expect("open");
    let cluster = Cluster::start(Settings { data_dir: deep.clone(), ..place.settings() }).await.expect("start");
    cluster.stop().await.expect("stop");
    assert_eq!(owner_and_mode(deep.parent().expect("parent")), (0, 0o755));
    let (owner, mode) = owner_and_mode(&deep);
    assert_ne!(owner, 0);
    assert_eq!(mode, 0o700);
}
