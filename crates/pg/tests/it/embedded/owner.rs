//! The owner of a server's directory when root starts the server.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown};
use std::path::Path;

use reveille_pg::embedded::Cluster;
use reveille_pg::testing::skip;

use super::{TestDirectory, ask};

/// The directory of a test that root runs. For other users the test is reported as skipped: `None`.
async fn of_root() -> Option<TestDirectory> {
    let directory = TestDirectory::new("server").await?;
    let top = directory.beside("server");
    fs::set_permissions(directory.path.parent().expect("parent"), fs::Permissions::from_mode(0o755)).expect("open");
    if fs::metadata(&top).expect("metadata").uid() == 0 { Some(directory) } else { skip("root") }
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

/// A directory that root made keeps its owner and its mode; only the data in it is the server's.
/// Root makes it, open to all, and starts a server there twice.
#[tokio::test]
async fn an_existing_directory_keeps_its_owner() {
    let Some(directory) = of_root().await else { return };
    fs::set_permissions(&directory.path, fs::Permissions::from_mode(0o755)).expect("open");
    for _ in 0..2 {
        directory.start().await.stop().await.expect("stop");
        assert_eq!(owner_and_mode(&directory.path), (0, 0o755));
    }
    let (server, mode) = owner_and_mode(&directory.pgdata());
    assert_ne!(server, 0);
    assert_eq!(mode, 0o700);
    assert_eq!(owner_and_mode(&directory.path.join("password")), (0, 0o600));
}

/// A directory that the server's user cannot enter is refused before anything in it changes.
/// Root makes it and closes it.
#[tokio::test]
async fn a_closed_directory_is_refused_untouched() {
    let Some(directory) = of_root().await else { return };
    fs::set_permissions(&directory.path, fs::Permissions::from_mode(0o700)).expect("close");
    Cluster::start(directory.settings()).await.expect_err("unreachable");
    assert_eq!(owner_and_mode(&directory.path), (0, 0o700));
    assert_eq!(fs::read_dir(&directory.path).expect("list").count(), 0);
}

/// Data that belongs to another user than the usual one is served as that user and keeps its owner.
/// Gives a stopped server to a user number that has no name.
#[tokio::test]
async fn data_is_served_as_its_owner() {
    let Some(directory) = of_root().await else { return };
    fs::set_permissions(&directory.path, fs::Permissions::from_mode(0o755)).expect("open");
    directory.start().await.stop().await.expect("stop");
    let owner = 54_321;
    give(&directory.path, owner);
    let cluster = directory.start().await;
    assert_eq!(ask(&cluster, "select 'served'").await, "served");
    let pid = cluster.pid().expect("running");
    assert_eq!(fs::metadata(format!("/proc/{pid}")).expect("look at the process").uid(), owner);
    assert_eq!(owner_and_mode(&directory.path).0, 0, "the directory around it is taken back");
    cluster.stop().await.expect("stop");
}

/// A directory that is made lets the server's user in, however far down it is.
/// Several folders are missing; the last can be entered and not listed, the ones above are open.
#[tokio::test]
async fn missing_parents_are_created_open_and_the_last_folder_closed() {
    let Some(directory) = of_root().await else { return };
    let deep = directory.path.join("several/folders/down");
    fs::set_permissions(&directory.path, fs::Permissions::from_mode(0o755)).expect("open");
    let mut settings = directory.settings();
    settings.data_dir = deep.clone();
    let cluster = Cluster::start(settings).await.expect("start");
    cluster.stop().await.expect("stop");
    assert_eq!(owner_and_mode(deep.parent().expect("parent")), (0, 0o755));
    assert_eq!(owner_and_mode(&deep), (0, 0o711));
}

/// The user that runs the server.
fn server_of(directory: &TestDirectory) -> u32 {
    owner_and_mode(&directory.pgdata()).0
}

/// Makes a stopped server whose directory belongs to the server's user, as earlier versions left it.
async fn given_away() -> Option<(TestDirectory, u32)> {
    let directory = of_root().await?;
    fs::set_permissions(&directory.path, fs::Permissions::from_mode(0o755)).expect("open");
    directory.start().await.stop().await.expect("stop");
    let server = server_of(&directory);
    give(&directory.path, server);
    fs::set_permissions(&directory.path, fs::Permissions::from_mode(0o700)).expect("close");
    Some((directory, server))
}

/// A directory that an earlier version gave to the server's user is taken back, with its files, and its data goes on.
/// Gives a stopped server away with everything, and starts it.
#[tokio::test]
async fn a_directory_that_was_given_away_is_taken_back() {
    let Some((directory, server)) = given_away().await else { return };
    let cluster = directory.start().await;
    assert_eq!(ask(&cluster, "select 'served'").await, "served");
    cluster.stop().await.expect("stop");
    assert_eq!(owner_and_mode(&directory.path), (0, 0o711));
    for entry in fs::read_dir(&directory.path).expect("list") {
        let entry = entry.expect("entry");
        let expected = if entry.path().is_dir() { server } else { 0 };
        assert_eq!(owner_and_mode(&entry.path()).0, expected, "{:?}", entry.file_name());
    }
}

/// Root must not write through a link that the server's user puts into the directory.
/// Replaces every file of a directory that was given away by a link: to a file of root's, and to a file that does not
/// exist, in a folder of root's. A start must neither change the one nor create the other. Links inside the data do not
/// matter to root, and a start with them works.
#[tokio::test]
async fn links_of_the_servers_user_are_not_followed() {
    let Some((directory, server)) = given_away().await else { return };
    let secrets = directory.beside("secrets");
    let (there, absent) = (secrets.join("there"), secrets.join("absent"));
    fs::write(&there, "precious").expect("write");
    let plant = |name: &str, target: &Path| {
        let path = directory.path.join(name);
        std::os::unix::fs::symlink(target, &path).expect("link");
        lchown(&path, Some(server), None).expect("give");
    };
    let check = |name: &str| {
        assert_eq!(fs::read_to_string(&there).expect("still there"), "precious", "{name}");
        assert_eq!(owner_and_mode(&there).0, 0, "{name}");
        assert_eq!(fs::read_dir(&secrets).expect("list").count(), 1, "{name} made something");
    };
    let names = [
        "reveille-embedded",
        "lock",
        "owner",
        "password",
        "postgresql.log",
        "postgresql.log.old",
        "port",
        "socket_dir",
        "run",
        "data",
        "data/PG_VERSION",
        "data/postmaster.pid",
    ];
    for name in names {
        let (path, kept) = (directory.path.join(name), directory.path.join("kept"));
        for target in [&there, &absent] {
            give(&directory.path, server);
            let had = fs::rename(&path, &kept).is_ok();
            plant(name, target);
            Cluster::start(directory.settings()).await.expect_err(name);
            check(name);
            fs::remove_file(&path).expect("remove");
            if had {
                fs::rename(&kept, &path).expect("put back");
            }
        }
    }
    give(&directory.path, server);
    fs::remove_file(directory.pgdata().join("reveille.conf")).expect("remove");
    for (name, target) in
        [("data/reveille.conf", &absent), ("data/reveille.conf.new", &there), ("data.making-0", &absent)]
    {
        plant(name, target);
    }
    directory.start().await.stop().await.expect("stop");
    check("the data");
}

/// A directory below a folder that the server's user can change is refused before anything is made.
/// One in a folder of that user, and one that a link in such a folder leads to.
#[tokio::test]
async fn a_directory_that_the_servers_user_can_replace_is_refused() {
    let Some((directory, server)) = given_away().await else { return };
    let users = directory.beside("users");
    fs::set_permissions(&users, fs::Permissions::from_mode(0o755)).expect("open");
    give(&users, server);
    let elsewhere = directory.beside("elsewhere");
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o755)).expect("open");
    std::os::unix::fs::symlink(&elsewhere, users.join("link")).expect("link");
    for data_dir in [users.join("new"), users.join("link"), users.join("link/below")] {
        let mut settings = directory.settings();
        settings.data_dir = data_dir.clone();
        let refused = Cluster::start(settings).await;
        let message = refused.expect_err("refused").to_string();
        assert!(message.contains("can replace"), "{}: {message}", data_dir.display());
    }
    assert_eq!(fs::read_dir(&users).expect("list").count(), 1);
    assert_eq!(fs::read_dir(&elsewhere).expect("list").count(), 0);
}
